/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The `dprobes` command: finds the subcommand and hands over to it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "symbols/symbols.h"

static const struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *about;
	bool shows; /* and nothing else: nothing is to be put back when it ends */
} subcommands[] = {
    {"trace", dp_cmd_trace, "probe a running process, or a program that is started, and show the events"},
    {"watch", dp_cmd_watch, "show who writes to a variable, with old and new value and the callers"},
    {"funcs", dp_cmd_funcs, "show what can be probed, how, and why not", true},
    {"lines", dp_cmd_lines, "show which source lines of a function can be probed", true},
    {"coverage", dp_cmd_coverage, "count how many functions and instructions of a file can be probed", true},
    {"verify", dp_cmd_verify, "compare the code of a process with its files", true},
    {"list", dp_cmd_list, "show all probes in a process, whoever set them", true},
    {"clean", dp_cmd_clean, "take away what a dprobes that was killed has left in processes"},
    {"hooks", dp_cmd_hooks, "show the hooks of a process or of the kernel, arm and disarm their exits"},
    {"load", dp_cmd_load, "start a program with a probe module in it, or load one into a process"},
    {"unload", dp_cmd_unload, "take a probe module out of a process"},
    {"insert", dp_cmd_insert, "put the probes of a probe program (.rpn) in place, and keep them there"},
    {"remove", dp_cmd_remove, "take inserted probes out"},
    {"query", dp_cmd_query, "show what is inserted"},
    {"vars", dp_cmd_vars, "show or reset the variables of inserted programs; or those of a program at a place"},
    {"log", dp_cmd_log, "show what inserted programs have logged"},
    {"build", dp_cmd_build, "assemble a probe program into an object (.ppdf)"},
    {"apply", dp_cmd_apply, "insert an object"},
    {"kernel", dp_cmd_kernel, "load the kernel module, or take it out"},
    {"doctor", dp_cmd_doctor, "show what this machine, a process and the kernel module can do for probes"},
    {"explain", dp_cmd_explain, "tell what an error code means", true},
};

static void print_help(void)
{
	printf("usage: dprobes SUBCOMMAND [ARGUMENTS]\n\n"
	       "Put probes into programs that are already running.\n\nSubcommands:\n");
	for (size_t i = 0; i < DP_ARRAY_SIZE(subcommands); i++)
		printf("  %-10s %s\n", subcommands[i].name, subcommands[i].about);
	printf("\n`dprobes SUBCOMMAND --help` tells more about one. Examples:\n"
	       "  dprobes trace -p 1234 'p libc:malloc bytes=%%di'\n"
	       "  dprobes trace -o trace.txt -- python3 script.py\n"
	       "  dprobes funcs -p 1234 'SSL_*'\n"
	       "  dprobes explain E-SITE-MIDINSN\n");
}

static const char *subcommand_name(int i, void *arg)
{
	return i < (int)DP_ARRAY_SIZE(subcommands) ? subcommands[i].name : NULL;
}

static int unknown_subcommand(const char *name)
{
	const char *near = dp_ui_nearest(name, subcommand_name, NULL);
	char hint[80] = "";

	if (near)
		snprintf(hint, sizeof(hint), "did you mean `dprobes %s`?", near);
	return dp_ui_fail(name[0] == '-' ? E_CMD_OPTION : E_CMD_UNKNOWN,
			  near ? hint : "`dprobes --help` shows the subcommands", "%s", name);
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

static int run(const struct subcommand *s, int argc, char **argv)
{
	/* It ends as every such tool does when its reader goes away (`| head`). */
	if (s->shows && !sigpipe_ignored)
		signal(SIGPIPE, SIG_DFL);
	return finish(s->run(argc, argv));
}

static void slow(const char *what)
{
	fprintf(stderr, "dprobes: %s\n", dp_ui_clean(what));
}

int main(int argc, char **argv)
{
	dp_module_slow = slow;
	/*
	 * A reader that goes away (`| head`) is told by EPIPE, so that probes are removed first. A
	 * handler, not SIG_IGN: programs that are started must not inherit this.
	 */
	sigpipe_ignored = signal(SIGPIPE, ignore) == SIG_IGN;
	if (argc < 2) {
		print_help();
		return CMD_USAGE;
	}
	for (size_t i = 0; i < DP_ARRAY_SIZE(subcommands); i++)
		if (!strcmp(argv[1], subcommands[i].name))
			return run(&subcommands[i], argc - 1, argv + 1);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		if (argc > 2)
			for (size_t i = 0; i < DP_ARRAY_SIZE(subcommands); i++)
				if (!strcmp(argv[2], subcommands[i].name))
					return finish(subcommands[i].run(2, (char *[]){argv[2], "--help", NULL}));
		print_help();
		return finish(CMD_OK);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "-v")) {
		printf("dprobes %s\n", DP_VERSION);
		return finish(CMD_OK);
	}
	if (!strcmp(argv[1], "driver"))
		return dp_cmd_driver(argc - 1, argv + 1);
	if (!strcmp(argv[1], "cleaner"))
		return dp_cmd_cleaner(argc - 1, argv + 1);
	if (!strcmp(argv[1], "guard") || !strcmp(argv[1], "keeper"))
		return dp_cmd_guard(argc - 1, argv + 1);
	if (argv[1][0] == '-' && strspn(argv[1], "-") <= 2 && argv[1][strspn(argv[1], "-")])
		return finish(dp_cmd_probes(argc, argv));
	return unknown_subcommand(argv[1]);
}
