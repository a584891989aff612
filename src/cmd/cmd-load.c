/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes load` and `dprobes unload`: probe modules, shared objects that are linked to libdprobes,
 * in a program that is started or in a running process. The dynamic linker does the work; for a
 * program that is started, the environment carries the parameters.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "host/process/process-load.h"
#include "symbols/symbols.h"

static void help(void)
{
	printf("usage: dprobes load FILE.so [NAME=VALUE...] -- COMMAND [ARGUMENTS]\n"
	       "       dprobes load FILE.so [NAME=VALUE...] -p PID\n\n"
	       "Start COMMAND with the probe module FILE.so in it: a shared object whose "
	       "constructor, or\n"
	       "module_init() function, registers kprobes, jprobes or return probes "
	       "(doc/kprobes.md). Source\n"
	       "written for the kernel compiles with the headers in include/compat. NAME=VALUE "
	       "sets the module's\n"
	       "parameters. Programs that COMMAND starts do not get the module.\n\n"
	       "The exit status is COMMAND's.\n\n"
	       "With -p, load the module into a running process: `dprobes unload` takes it out "
	       "again. The\n"
	       "process must be linked dynamically with glibc 2.34 or later, and one of "
	       "its threads "
	       "must\n"
	       "sleep in a call (poll, read, nanosleep, ...): it starts a thread that loads the "
	       "module.\n");
}

/* "a=1" "b=2" -> "a=1 b=2" */
static int join_parameters(char **v, int n, char **out)
{
	size_t len = 1;
	char *all;

	for (int i = 0; i < n; i++) {
		if (!strchr(v[i], '='))
			return dp_ui_fail(E_CMD_VALUE, NULL, "%s is not NAME=VALUE", v[i]);
		if (strchr(v[i], ' '))
			return dp_ui_fail(E_CMD_VALUE, NULL, "%s contains a blank", v[i]);
		len += strlen(v[i]) + 1;
	}
	all = calloc(1, len);
	for (int i = 0; all && i < n; i++) {
		strcat(all, v[i]);
		strcat(all, i + 1 < n ? " " : "");
	}
	*out = all;
	return all ? 0 : dp_ui_fail(E_CMD_VALUE, NULL, "no memory for the parameters");
}

static int set_parameters(char **v, int n)
{
	char *all = NULL;
	int r = join_parameters(v, n, &all);

	if (!r && setenv("DPROBES_MODULE_ARGS", all, 1))
		r = dp_ui_fail(E_CMD_VALUE, NULL, "no memory for the parameters");
	free(all);
	return r;
}

static int preload(const char *path)
{
	const char *old = getenv("LD_PRELOAD");
	char *text;
	int r;

	if (old && *old) {
		if (setenv("DPROBES_OLD_PRELOAD", old, 1) || asprintf(&text, "%s:%s", path, old) < 0)
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

static const struct cmd_option options[] = {{"pid", 'p', "PID", "the process"}, {NULL}};

static const struct cmd_spec unload_spec = {
    .name = "unload",
    .synopsis = "FILE.so -p PID",
    .about = "Take a probe module out of a running process: its module_exit() function and its "
	     "destructors\n"
	     "run, in a thread that one of the process's sleeping threads starts for it.",
    .options = options,
};

static const struct cmd_spec load_spec = {
    .name = "load",
    .synopsis = "FILE.so [NAME=VALUE...] -p PID",
    .about = "",
    .options = options,
};

static int find_file(const char *name, char path[PATH_MAX])
{
	if (!realpath(name, path) || access(path, R_OK))
		return dp_ui_fail(E_FILE_OPEN, NULL, "%s: %s", name, strerror(errno));
	return 0;
}

/* What the linker of the process would refuse, or must not be asked, is told without touching the
 * process. */
static int check_module(const char *path, bool unload, struct dp_error *err)
{
	struct dp_symbol sym;
	struct dp_module *m;
	int r = dp_module_open(&m, path, err);

	if (r)
		return r;
	if (!dp_module_is_pie_or_dso(m))
		r = dp_fail(err, E_ELF_BAD, "%s is not a shared object", path);
	else if (unload && !dp_module_symbol(m, "dp_self_registry", &sym, NULL))
		r = dp_fail(err, E_LOAD_OWN, "%s", path);
	dp_module_close(m);
	return r;
}

static int change_process(pid_t pid, const char *file, char **v, int n, bool unload)
{
	char path[PATH_MAX], *all = NULL;
	struct dp_error err;
	int r = find_file(file, path);

	if (!r)
		r = join_parameters(v, n, &all);
	if (!r && (check_module(path, unload, &err) || dp_load_object(pid, path, all, unload, &err))) {
		dp_ui_error(&err, NULL);
		r = dp_ui_status(err.code);
	}
	free(all);
	return r;
}

static int into_process(int argc, char **argv, const struct cmd_spec *spec, bool unload)
{
	char **params = calloc((size_t)argc + 1, sizeof(*params));
	const char *file = NULL;
	struct cmd_args args;
	pid_t pid = 0;
	int id, n = 0, r = CMD_OK;

	dp_cmd_args_init(&args, spec, argc, argv);
	while (params && !r && (id = dp_cmd_args_next(&args)) != CMD_OPT_END) {
		if (id == CMD_OPT_HELP)
			goto out;
		if (id == CMD_OPT_ERROR)
			r = CMD_USAGE;
		else if (id == CMD_OPT_REST || (id == CMD_OPT_OPERAND && file && unload))
			r = dp_ui_fail(E_CMD_EXTRA, NULL, "%s", id == CMD_OPT_REST ? "--" : args.value);
		else if (id == CMD_OPT_OPERAND && file)
			params[n++] = (char *)args.value;
		else if (id == CMD_OPT_OPERAND)
			file = args.value;
		else if (!dp_cmd_parse_pid(args.value, &pid))
			r = CMD_USAGE;
	}
	if (!r && (!file || !pid))
		r = dp_ui_fail(E_CMD_MISSING, "`dprobes load --help` shows how it is used", "%s",
			       file ? "-p PID" : "the module");
	if (!r)
		r = change_process(pid, file, params, n, unload);
out:
	free(params);
	return r;
}

int dp_cmd_unload(int argc, char **argv)
{
	return into_process(argc, argv, &unload_spec, true);
}

/* -p before any "--" */
static bool names_process(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strncmp(argv[i], "-p", 2) || !strncmp(argv[i], "--pid", 5))
			return true;
	return false;
}

int dp_cmd_load(int argc, char **argv)
{
	char path[PATH_MAX];
	int dashes = 1, r;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		help();
		return 0;
	}
	if (names_process(argc, argv))
		return into_process(argc, argv, &load_spec, false);
	while (dashes < argc && strcmp(argv[dashes], "--"))
		dashes++;
	if (argc < 2 || dashes == 1)
		return dp_ui_fail(E_CMD_MISSING, "`dprobes load --help` shows how it is used", "the module");
	if (dashes + 1 >= argc)
		return dp_ui_fail(E_CMD_MISSING, "`dprobes load --help` shows how it is used",
				  "-- and the command, or -p PID");
	r = find_file(argv[1], path);
	if (r)
		return r;
	if (strpbrk(path, ": "))
		return dp_ui_fail(E_CMD_VALUE, NULL, "%s: a path with a colon or blank cannot be loaded", path);
	r = set_parameters(argv + 2, dashes - 2);
	if (r)
		return r;
	if (preload(path))
		return dp_ui_fail(E_CMD_VALUE, NULL, "no memory for the environment");
	execvp(argv[dashes + 1], argv + dashes + 1);
	return dp_ui_fail(E_FILE_OPEN, NULL, "%s: %s", argv[dashes + 1], strerror(errno));
}
