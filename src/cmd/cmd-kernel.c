/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes kernel`: loads the kernel module with what it must look up, and takes it out. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

/* allow: parameters of the module, each behind a blank. */
static int load(const char *path, const char *allow)
{
	char installed[512], arguments[128];
	unsigned long long lookup = find_lookup();
	struct utsname u;
	int fd, r;

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
	r = (int)syscall(SYS_finit_module, fd, arguments, 0);
	close(fd);
	if (r)
		return dp_ui_fail(E_KERNEL_MODULE, NULL, "%s: %s", path, strerror(errno));
	return CMD_OK;
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
