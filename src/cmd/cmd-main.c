/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The `dprobes` command: finds the subcommand and hands over to it. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "log/human.h"
#include "run/run-recover-programs.h"
#include "symbols/symbols.h"

static int (*const subcommands[VERB_COUNT])(int argc, char **argv) = {
    [VERB_TRACE] = dp_cmd_trace,   [VERB_WATCH] = dp_cmd_watch,     [VERB_GRAPH] = dp_cmd_graph,
    [VERB_FUNCS] = dp_cmd_funcs,   [VERB_LINES] = dp_cmd_lines,     [VERB_COVERAGE] = dp_cmd_coverage,
    [VERB_VERIFY] = dp_cmd_verify, [VERB_LIST] = dp_cmd_list,       [VERB_CLEAN] = dp_cmd_clean,
    [VERB_HOOKS] = dp_cmd_hooks,   [VERB_LOAD] = dp_cmd_load,       [VERB_UNLOAD] = dp_cmd_unload,
    [VERB_INSERT] = dp_cmd_insert, [VERB_REMOVE] = dp_cmd_remove,   [VERB_QUERY] = dp_cmd_query,
    [VERB_VARS] = dp_cmd_vars,     [VERB_LOG] = dp_cmd_log,         [VERB_DRIVER] = dp_cmd_driver,
    [VERB_BUILD] = dp_cmd_build,   [VERB_APPLY] = dp_cmd_apply,     [VERB_KERNEL] = dp_cmd_kernel,
    [VERB_DOCTOR] = dp_cmd_doctor, [VERB_EXPLAIN] = dp_cmd_explain, [VERB_RECORD] = dp_cmd_record,
    [VERB_REPORT] = dp_cmd_report, [VERB_RUN] = dp_cmd_run,         [VERB_TOP] = dp_cmd_top,
    [VERB_SERVE] = dp_cmd_serve,
};

static const char *subcommand_name(int i, void *arg)
{
	return i + 1 < VERB_COUNT ? dp_cmd_specs[i + 1].name : NULL;
}

static int unknown_subcommand(const char *name)
{
	const char *near = dp_ui_nearest(name, subcommand_name, NULL);
	char hint[80] = "";

	if (near)
		snprintf(hint, sizeof(hint), "did you mean `dprobes %s`?", near);
	return dp_ui_fail(name[0] == '-' ? E_CMD_OPTION : E_CMD_UNKNOWN,
			  near ? hint : "`dprobes help` shows the subcommands", "%s", name);
}

static bool sigpipe_ignored; /* by our parent */

static void ignore(int sig)
{
}

/* A pipe whose other end is closed; the write that failed may have been long ago. */
static bool nobody_reads(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

/* Standard output that could not be written is a failure even when all else went well. */
static int finish(int status)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	if (errno == EPIPE || status != CMD_OK || nobody_reads())
		return status; /* `| head` has seen enough */
	return dp_ui_fail(E_OUT_WRITE, NULL, "standard output: %s", strerror(errno ? errno : EIO));
}

static int run(enum cmd_verb verb, int argc, char **argv)
{
	/* It ends as every such tool does when its reader goes away (`| head`). */
	if (dp_cmd_specs[verb].shows && !sigpipe_ignored)
		signal(SIGPIPE, SIG_DFL);
	return finish(subcommands[verb](argc, argv));
}

static void slow(const char *what)
{
	if (dp_ui_messages_json())
		dp_ui_note("%s", what);
	else
		fprintf(stderr, "dprobes: %s\n", dp_ui_clean(what));
}

/* Between commands. */
static void keep_what_is_found_out(void)
{
	static char folder[PATH_MAX];

	if (dp_cmd_home_folder("XDG_CACHE_HOME", ".cache", "dprobes", folder, sizeof(folder)))
		dp_module_keep_in = folder;
}

int main(int argc, char **argv)
{
	enum cmd_verb verb;

	if (dp_ui_messages_begin())
		return CMD_USAGE;
	dp_module_slow = slow;
	keep_what_is_found_out();
	dp_recover_programs_by(dp_recover_programs);
	dp_human.columns = dp_ui_columns(stdout);
	/*
	 * A reader that goes away (`| head`) is told by EPIPE, so that probes are removed first. A
	 * handler, not SIG_IGN: programs that are started must not inherit this.
	 */
	sigpipe_ignored = signal(SIGPIPE, ignore) == SIG_IGN;
	if (argc < 2) {
		dp_cmd_print_overview();
		return CMD_USAGE;
	}
	verb = dp_cmd_verb_named(argv[1]);
	if (verb != VERB_NONE)
		return run(verb, argc - 1, argv + 1);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		verb = argc > 2 ? dp_cmd_verb_named(argv[2]) : VERB_NONE;
		verb != VERB_NONE ? dp_cmd_print_help(verb) : dp_cmd_print_overview();
		return finish(CMD_OK);
	}
	if (!strcmp(argv[1], "help"))
		return finish(dp_cmd_help(argc - 1, argv + 1));
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "-v"))
		return finish(dp_cmd_version(argc - 1, argv + 1));
	if (!strcmp(argv[1], "complete"))
		return finish(dp_cmd_complete(argc - 1, argv + 1));
	if (!strcmp(argv[1], "driver-serve"))
		return dp_cmd_driver_serve(argc - 1, argv + 1);
	if (!strcmp(argv[1], "cleaner"))
		return dp_cmd_cleaner(argc - 1, argv + 1);
	if (!strcmp(argv[1], "guard") || !strcmp(argv[1], "keeper"))
		return dp_cmd_guard(argc - 1, argv + 1);
	if (argv[1][0] == '-' && strspn(argv[1], "-") <= 2 && argv[1][strspn(argv[1], "-")])
		return finish(dp_cmd_probes(argc, argv));
	return unknown_subcommand(argv[1]);
}
