/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes kernel`: loads the kernel module with what it must look up, and takes it out. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cmd/cmd.h"

/* The address of kallsyms_lookup_name; 0: hidden or not there. */
static unsigned long long find_lookup(void)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	unsigned long long addr = 0, a;
	char line[512], name[256];

	while (f && !addr && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx %*c %255s", &a, name) == 2 && !strcmp(name, "kallsyms_lookup_name"))
			addr = a;
	if (f)
		fclose(f);
	return addr;
}

/* ---- why the kernel refuses it ---- */

/* The first bytes of a file as a text; empty when it cannot be read. */
static void read_text(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, size - 1, f) : 0;

	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* The firmware's variable is four bytes of attributes and one of value. */
static bool secure_boot(void)
{
	FILE *f = fopen("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", "re");
	char v[5] = {0};
	bool on = f && fread(v, 1, sizeof(v), f) == sizeof(v) && v[4] == 1;

	if (f)
		fclose(f);
	return on;
}

/* Who wants signed modules; NULL: nobody does. */
static const char *wants_signature(void)
{
	char text[128];

	read_text("/sys/kernel/security/lockdown", text, sizeof(text));
	if (strstr(text, "[integrity]") || strstr(text, "[confidentiality]"))
		return secure_boot() ? "Secure Boot is on, and the kernel is locked down" : "the kernel is locked down";
	read_text("/sys/module/module/parameters/sig_enforce", text, sizeof(text));
	if (text[0] == 'Y')
		return secure_boot() ? "Secure Boot is on, and the kernel loads signed modules only"
				     : "the kernel loads signed modules only (module.sig_enforce)";
	return NULL;
}

/* The kernel's name for itself that is written in the module, cut at size; empty: none. */
static void built_for(int fd, char *text, size_t size)
{
	static const char key[] = "vermagic=";
	struct stat st;
	const char *all = MAP_FAILED, *at = NULL;

	text[0] = '\0';
	if (!fstat(fd, &st) && st.st_size > 0)
		all = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (all == MAP_FAILED)
		return;
	at = memmem(all, (size_t)st.st_size, key, sizeof(key) - 1);
	if (at) {
		at += sizeof(key) - 1;
		size_t left = (size_t)(all + st.st_size - at);

		snprintf(text, size, "%.*s", (int)(left < size ? left : size), at);
	}
	munmap((void *)(uintptr_t)all, (size_t)st.st_size);
}

static int refused(const char *path, int fd, int e)
{
	const char *signer = wants_signature();
	char magic[256], disabled[16];
	struct utsname u;
	size_t n;

	uname(&u);
	built_for(fd, magic, sizeof(magic));
	n = strcspn(magic, " ");
	read_text("/proc/sys/kernel/modules_disabled", disabled, sizeof(disabled));
	if (e == EPERM && disabled[0] == '1')
		return dp_ui_fail(E_KERNEL_MODULE, "kernel.modules_disabled was set, which only a reboot ends",
				  "%s: this system loads no modules any more", path);
	if (e == EKEYREJECTED || e == ENOKEY || (e == EPERM && signer))
		return dp_ui_fail(E_KERNEL_SIGNATURE, NULL, "%s: %s (%s)", path,
				  signer ? signer : "its signature is not accepted", strerror(e));
	if (e == EPERM)
		return dp_ui_fail(E_KERNEL_MODULE, "run it as root, outside of containers", "%s: %s", path,
				  strerror(e));
	if (e == ENOEXEC && n && (strlen(u.release) != n || strncmp(magic, u.release, n)))
		return dp_ui_fail(E_KERNEL_VERSION, NULL, "%s: built for %.*s, and this is %s", path, (int)n, magic,
				  u.release);
	if (e == ENOEXEC && n)
		return dp_ui_fail(E_KERNEL_VERSION, NULL, "%s: built with headers that are not those of the running %s",
				  path, u.release);
	if (e == EEXIST)
		return dp_ui_fail(E_KERNEL_MODULE, "`dprobes kernel unload` takes it out", "%s: it is loaded already",
				  path);
	return dp_ui_fail(E_KERNEL_MODULE, NULL, "%s: %s", path, strerror(e));
}

/* allow: parameters of the module, each behind a blank. */
static int load(const char *path, const char *allow)
{
	char installed[512], arguments[128];
	unsigned long long lookup = find_lookup();
	struct utsname u;
	int fd, status = CMD_OK;

	if (!lookup)
		return dp_ui_fail(E_KERNEL_LOOKUP, "run it as root", "the addresses in /proc/kallsyms are hidden");
	if (!path) {
		uname(&u);
		snprintf(installed, sizeof(installed), "/lib/modules/%s/updates/dkms/dprobes.ko", u.release);
		path = installed;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return dp_ui_fail(E_FILE_OPEN, "`make kernel` builds the module", "%s: %s", path, strerror(errno));
	snprintf(arguments, sizeof(arguments), "lookup=0x%llx%s", lookup, allow);
	if (syscall(SYS_finit_module, fd, arguments, 0))
		status = refused(path, fd, errno);
	close(fd);
	return status;
}

static int unload(void)
{
	if (syscall(SYS_delete_module, "dprobes", O_NONBLOCK))
		return dp_ui_fail(E_KERNEL_MODULE, errno == EWOULDBLOCK ? "unload the modules that use it first" : NULL,
				  "dprobes: %s", strerror(errno));
	return CMD_OK;
}

int dp_cmd_kernel(int argc, char **argv)
{
	struct cmd_words w = {.most = 2};
	char allow[64];
	int status;

	if (!dp_cmd_words(VERB_KERNEL, argc, argv, &w, &status))
		return status;
	if (!w.n)
		return dp_ui_fail(E_CMD_MISSING, "load or unload", "what to do");
	snprintf(allow, sizeof(allow), "%s%s", dp_cmd_has(&w, OPT_ALLOW_CRASH) ? " allow_crash=1" : "",
		 dp_cmd_has(&w, OPT_ALLOW_DEBUGGER) ? " allow_debugger=1" : "");
	if (!strcmp(w.v[0], "load"))
		return load(w.v[1], allow);
	if (!strcmp(w.v[0], "unload") && w.n == 1 && !*allow)
		return unload();
	return dp_ui_fail(E_CMD_VALUE, "load or unload", "%s", w.v[0]);
}
