/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes clean`: takes away what a dprobes that was killed (SIGKILL, out of memory) has left in processes. What belongs to one that
 * runs is left alone.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "driver/freezer.h"
#include "host/process/process.h"

static const struct cmd_option options[] = {
    {"pid", 'p', "PID", "this process"}, {"all", 'a', NULL, "all processes that may be looked at"}, {NULL}};

static const struct cmd_spec spec = {
    .name = "clean",
    .synopsis = "-p PID\n--all",
    .about = "Take away the probes that a dprobes which was killed has left in a process, or in all; those of one that runs stay.",
    .options = options,
};

struct cleaning {
	bool all;
	u32 cleaned;
	int status;
};

static bool lives(pid_t owner)
{
	return owner > 0 && (!kill(owner, 0) || errno == EPERM);
}

static void on_note(void *arg, const char *text)
{
	ui_note("%s", text);
}

/* A new session takes away what a dead one has left; it is not used further. */
static void clean(struct cleaning *c, pid_t pid)
{
	struct dp_session_options opt = {.note = on_note};
	struct dp_standing *v = NULL;
	struct dp_session *s;
	struct dp_error err = {0};
	u32 n = 0;
	int r = dp_standing_read(pid, &v, &n, &err);

	if (!r && c->all && (!n || lives(v[0].owner))) {
		free(v);
		return;
	}
	if (r && c->all) /* it has ended, or may not be looked at */
		return;
	if (!r && n && lives(v[0].owner))
		c->status = ui_fail(E_TARGET_BUSY, "end that dprobes, or take its programs out with `dprobes remove`",
				    "the probes in process %d belong to dprobes process %d", pid, v[0].owner);
	else if (!r)
		r = dp_session_new(&s, pid, &opt, &err);
	if (!r && c->status == CMD_OK) {
		dp_session_free(s);
		printf("process %d: %s\n", pid, n ? "clean again" : "no probes are left in it");
		c->cleaned += n > 0;
	}
	if (r) {
		ui_error(&err, NULL);
		c->status = CMD_FAILED;
	}
	free(v);
}

static int clean_all(struct cleaning *c)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	u32 held;

	if (!dir)
		return ui_fail(E_PROC_PERM, NULL, "/proc");
	held = drv_thaw_all();
	if (held)
		printf("%u process%s held at the start by a dead driver now run%s\n", held, held == 1 ? "" : "es", held == 1 ? "s" : "");
	c->cleaned += held;
	while ((e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			clean(c, (pid_t)atol(e->d_name));
	closedir(dir);
	if (!c->cleaned && c->status == CMD_OK)
		printf("no probes are left in any process\n");
	return c->status;
}

int cmd_clean(int argc, char **argv)
{
	struct cleaning c = {.status = CMD_OK};
	struct cmd_args args;
	pid_t pid = 0;
	int id;

	cmd_args_init(&args, &spec, argc, argv);
	while ((id = cmd_args_next(&args)) != CMD_OPT_END) {
		if (id == CMD_OPT_HELP)
			return CMD_OK;
		if (id == CMD_OPT_ERROR)
			return CMD_USAGE;
		if (id == 'p' && !cmd_parse_pid(args.value, &pid))
			return CMD_USAGE;
		if (id == 'a')
			c.all = true;
		if (id == CMD_OPT_OPERAND || id == CMD_OPT_REST)
			return ui_fail(E_CMD_EXTRA, NULL, "%s", id == CMD_OPT_REST ? "--" : args.value);
	}
	if (!pid == !c.all)
		return ui_fail(pid ? E_CMD_EXTRA : E_CMD_MISSING, NULL, "give one of -p PID and --all");
	if (c.all)
		return clean_all(&c);
	clean(&c, pid);
	return c.status;
}
