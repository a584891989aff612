/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes load`: starts a program with a probe module, a shared object that is linked to
 * libdprobes, in it. The dynamic linker does the work; the environment carries the parameters.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

static void help(void)
{
	printf("usage: dprobes load FILE.so [NAME=VALUE...] -- COMMAND [ARGUMENTS]\n\n"
	       "Start COMMAND with the probe module FILE.so in it: a shared object whose "
	       "constructor, or\n"
	       "module_init() function, registers kprobes, jprobes or return probes "
	       "(doc/kprobes.md). Source\n"
	       "written for the kernel compiles with the headers in include/compat. NAME=VALUE "
	       "sets the module's\n"
	       "parameters. Programs that COMMAND starts do not get the module.\n\n"
	       "The exit status is COMMAND's.\n");
}

/* "a=1" "b=2" -> DPROBES_MODULE_ARGS="a=1 b=2" */
static int set_parameters(char **v, int n)
{
	size_t len = 1;
	char *all;
	int r;

	for (int i = 0; i < n; i++) {
		if (!strchr(v[i], '='))
			return ui_fail(E_CMD_VALUE, NULL, "%s is not NAME=VALUE", v[i]);
		if (strchr(v[i], ' '))
			return ui_fail(E_CMD_VALUE, NULL, "%s contains a blank", v[i]);
		len += strlen(v[i]) + 1;
	}
	all = calloc(1, len);
	for (int i = 0; all && i < n; i++) {
		strcat(all, v[i]);
		strcat(all, i + 1 < n ? " " : "");
	}
	r = all ? setenv("DPROBES_MODULE_ARGS", all, 1) : -1;
	free(all);
	return r ? ui_fail(E_CMD_VALUE, NULL, "no memory for the parameters") : 0;
}

static int preload(const char *path)
{
	const char *old = getenv("LD_PRELOAD");
	char *text;
	int r;

	if (old && *old) {
		if (setenv("DPROBES_OLD_PRELOAD", old, 1) ||
		    asprintf(&text, "%s:%s", path, old) < 0)
			return -1;
	} else {
		unsetenv("DPROBES_OLD_PRELOAD");
		if (asprintf(&text, "%s", path) < 0)
			return -1;
	}
	r = setenv("LD_PRELOAD", text, 1) || setenv("DPROBES_MODULE", path, 1);
	free(text);
	return r;
}

int cmd_load(int argc, char **argv)
{
	char path[PATH_MAX];
	int dashes = 1, r;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		help();
		return 0;
	}
	while (dashes < argc && strcmp(argv[dashes], "--"))
		dashes++;
	if (argc < 2 || dashes == 1)
		return ui_fail(E_CMD_MISSING, "`dprobes load --help` shows how it is used",
			       "the module");
	if (dashes + 1 >= argc)
		return ui_fail(E_CMD_MISSING, "`dprobes load --help` shows how it is used",
			       "-- and the command");
	if (!realpath(argv[1], path) || access(path, R_OK))
		return ui_fail(E_FILE_OPEN, NULL, "%s: %s", argv[1], strerror(errno));
	if (strpbrk(path, ": "))
		return ui_fail(E_CMD_VALUE, NULL,
			       "%s: a path with a colon or blank cannot be loaded", path);
	r = set_parameters(argv + 2, dashes - 2);
	if (r)
		return r;
	if (preload(path))
		return ui_fail(E_CMD_VALUE, NULL, "no memory for the environment");
	execvp(argv[dashes + 1], argv + dashes + 1);
	return ui_fail(E_FILE_OPEN, NULL, "%s: %s", argv[dashes + 1], strerror(errno));
}
