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
	const char *words[2] = {NULL, NULL};
	struct cmd_args args;
	bool allow_crash = false, allow_debugger = false;
	char allow[64];
	int id, n = 0;

	dp_cmd_args_init(&args, VERB_KERNEL, argc, argv);
	while ((id = dp_cmd_args_next(&args)) != CMD_OPT_END) {
		if (id == CMD_OPT_HELP)
			return CMD_OK;
		allow_crash |= id == OPT_ALLOW_CRASH;
		allow_debugger |= id == OPT_ALLOW_DEBUGGER;
		if (id == OPT_ALLOW_CRASH || id == OPT_ALLOW_DEBUGGER)
			continue;
		if (id != CMD_OPT_OPERAND)
			return CMD_USAGE;
		if (n == 2)
			return dp_ui_fail(E_CMD_EXTRA, NULL, "%s", args.value);
		words[n++] = args.value;
	}
	if (!n)
		return dp_ui_fail(E_CMD_MISSING, "load or unload", "what to do");
	snprintf(allow, sizeof(allow), "%s%s", allow_crash ? " allow_crash=1" : "",
		 allow_debugger ? " allow_debugger=1" : "");
	if (!strcmp(words[0], "load"))
		return load(words[1], allow);
	if (!strcmp(words[0], "unload") && !words[1] && !*allow)
		return unload();
	return dp_ui_fail(E_CMD_VALUE, "load or unload", "%s", words[0]);
}
