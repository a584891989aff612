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

struct load {
	bool unload;
	const char *file;
	char **params, **command;
	int nparams;
	pid_t pid;
};

static int change_process(const struct load *l)
{
	char path[PATH_MAX], *all = NULL;
	struct dp_error err;
	int r = find_file(l->file, path);

	if (!r)
		r = join_parameters(l->params, l->nparams, &all);
	if (!r && (check_module(path, l->unload, &err) || dp_load_object(l->pid, path, all, l->unload, &err))) {
		dp_ui_error(&err, NULL);
		r = dp_ui_status(err.code);
	}
	free(all);
	return r;
}

static int start_command(const struct load *l)
{
	char path[PATH_MAX];
	int r = find_file(l->file, path);

	if (r)
		return r;
	if (strpbrk(path, ": "))
		return dp_ui_fail(E_CMD_VALUE, NULL, "%s: a path with a colon or blank cannot be loaded", path);
	r = set_parameters(l->params, l->nparams);
	if (r)
		return r;
	if (preload(path))
		return dp_ui_fail(E_CMD_VALUE, NULL, "no memory for the environment");
	execvp(l->command[0], l->command);
	return dp_ui_fail(E_FILE_OPEN, NULL, "%s: %s", l->command[0], strerror(errno));
}

static int take(void *arg, int id, const char *value)
{
	struct load *l = arg;

	if (id == OPT_PID)
		return dp_cmd_parse_process(value, &l->pid) ? CMD_OK : CMD_USAGE;
	if (!l->file)
		l->file = value;
	else if (l->unload)
		return dp_ui_fail(E_CMD_EXTRA, NULL, "%s", value);
	else
		l->params[l->nparams++] = (char *)value;
	return CMD_OK;
}

static int load(enum cmd_verb verb, int argc, char **argv)
{
	struct load l = {.unload = verb == VERB_UNLOAD, .params = calloc((size_t)argc + 1, sizeof(*l.params))};
	const char *hint = "`dprobes load --help` shows how it is used";
	bool done = false;
	int r = l.params ? dp_cmd_options(verb, argc, argv, take, &l, &l.command, &done)
			 : dp_ui_fail(E_CMD_VALUE, NULL, "no memory for the parameters");

	if (!r && !done && !l.file)
		r = dp_ui_fail(E_CMD_MISSING, hint, "the module");
	else if (!r && !done && l.command && (l.pid || l.unload))
		r = dp_ui_fail(E_CMD_EXTRA, NULL, "--");
	else if (!r && !done && !l.command && !l.pid)
		r = dp_ui_fail(E_CMD_MISSING, hint, l.unload ? "-p PID" : "-- and the command, or -p PID");
	else if (!r && !done)
		r = l.pid ? change_process(&l) : start_command(&l);
	free(l.params);
	return r;
}

int dp_cmd_load(int argc, char **argv)
{
	return load(VERB_LOAD, argc, argv);
}

int dp_cmd_unload(int argc, char **argv)
{
	return load(VERB_UNLOAD, argc, argv);
}
