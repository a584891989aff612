/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes trace -f FILE.dpc` (or .rpn, .ppdf): a probe program in place as long as the command
 * runs. A driver of its own does the work, in a directory of its own, so that nothing mixes with
 * what is inserted; it ends with this process, whatever happens to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/probes.h"
#include "host/process/process.h"

#define TURN_NS 50000000

enum { OPT_JSON = 256, OPT_DURATION, OPT_INTERVAL, OPT_ALLOW_TRAP, OPT_CHILDREN };

static const struct cmd_option options[] = {
    {"file", 'f', "FILE", "the program: .dpc, .rpn or .ppdf"},
    {"pid", 'p', "PID", "only in this process; the end of it ends the trace"},
    {"define", 'D', "KEY=VALUE", "define a macro of the preprocessor"},
    {"output", 'o', "FILE", "write the records to FILE"},
    {"json", OPT_JSON, NULL, "records and aggregates as JSON, one object a line"},
    {"duration", OPT_DURATION, "SEC", "end after so many seconds"},
    {"interval", OPT_INTERVAL, "SEC", "show the aggregates every so many seconds"},
    {"allow-trap", OPT_ALLOW_TRAP, NULL, "use breakpoints where no jump fits"},
    {"children", OPT_CHILDREN, NULL, "watchpoints: also in processes that are forked"},
    {"quiet", 'q', NULL, "no notes"},
    {NULL}};

static const struct cmd_spec spec = {
    .name = "trace",
    .synopsis = "-f PROGRAM [OPTIONS]\n-f PROGRAM [OPTIONS] -- COMMAND [ARGS]",
    .about = "Run a probe program in all processes that map its module, in one, or in one that is\n"
	     "started. Ctrl-C ends it; the probes are always removed, and aggregates shown.",
    .options = options,
    .more = "Examples:\n"
	    "  dprobes trace -f latency.dpc -p 1234 --interval 5\n"
	    "  dprobes trace -f malloc.dpc -D MIN=4096 -- python3 script.py",
};

struct program {
	struct probes_args args;
	const char *out_path;
	char **command;
	double seconds, interval;
	bool quiet;
	char dir[128], log_path[160];
	FILE *log, *out;
	pid_t child;
	int go, result; /* pipes to and from it */
};

/* ---- the command line ---- */

/* Whether a file is a program and not a list of events. */
static bool is_program(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && (!strcmp(dot, ".dpc") || !strcmp(dot, ".rpn") || !strcmp(dot, ".ppdf"));
}

bool cmd_traces_program(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		const char *value = NULL;

		if ((!strcmp(argv[i], "-f") || !strcmp(argv[i], "--file")) && i + 1 < argc)
			value = argv[i + 1];
		else if (!strncmp(argv[i], "--file=", 7))
			value = argv[i] + 7;
		else if (!strncmp(argv[i], "-f", 2))
			value = argv[i] + 2;
		if (value && is_program(value))
			return true;
	}
	return false;
}

static int take_option(void *arg, int id, const char *value)
{
	struct program *p = arg;

	switch (id) {
	case 'f':
		if (p->args.file)
			return ui_fail(E_CMD_EXTRA, "give one program", "%s", value);
		p->args.file = value;
		return 0;
	case 'p':
		return cmd_parse_pid(value, &p->args.pid) ? 0 : CMD_USAGE;
	case 'D':
		return probes_define(&p->args, value);
	case 'o':
		p->out_path = value;
		return 0;
	case OPT_JSON:
		p->args.flags |= DP_DRIVER_JSON;
		return 0;
	case OPT_ALLOW_TRAP:
		p->args.flags |= DP_DRIVER_ALLOW_TRAP;
		return 0;
	case OPT_CHILDREN:
		p->args.flags |= DP_DRIVER_CHILDREN;
		return 0;
	case OPT_DURATION:
		return cmd_parse_seconds(value, &p->seconds) ? 0 : CMD_USAGE;
	case OPT_INTERVAL:
		return cmd_parse_seconds(value, &p->interval) ? 0 : CMD_USAGE;
	case 'q':
		p->quiet = true;
		return 0;
	default:
		return ui_fail(E_CMD_EXTRA, "events and a probe program are traced one at a time",
			       "%s", value);
	}
}

static int parse(struct program *p, int argc, char **argv, bool *done)
{
	int r = cmd_options(&spec, argc, argv, take_option, p, &p->command, done);

	if (r || *done)
		return r;
	if (p->command && p->args.pid)
		return ui_fail(E_CMD_EXTRA, "leave out one of them", "both -p and a command");
	return CMD_OK;
}

/* ---- the driver ---- */

static int ask(const struct program *p, u32 op, u32 flags, const char *name, const void *object,
	       size_t size, FILE *out)
{
	struct dp_driver_request rq = {
	    .op = op, .flags = flags, .pid = p->args.pid, .hi = ~0u, .object_len = (u32)size};
	struct dp_error err = {0};
	char *text = NULL;
	int r = dp_driver_ask(&rq, name, p->args.file, object, op == DP_DRIVER_INSERT, &text, &err);

	if (text && out)
		flags & DP_DRIVER_JSON ? (void)fputs(text, out) : ui_put_text(out, text);
	free(text);
	if (r)
		ui_error(&err, NULL);
	return r ? ui_status(err.code) : CMD_OK;
}

static int begin_driver(struct program *p)
{
	struct dp_error err = {0};
	char base[100], owner[16];

	if (dp_driver_dir(base, sizeof(base), &err)) {
		ui_error(&err, NULL);
		return CMD_FAILED;
	}
	snprintf(p->dir, sizeof(p->dir), "%s/trace-XXXXXX", base);
	if (!mkdtemp(p->dir))
		return ui_fail(E_DRV_DIR, NULL, "%s: %s", p->dir, strerror(errno));
	snprintf(p->log_path, sizeof(p->log_path), "%s/log", p->dir);
	snprintf(owner, sizeof(owner), "%d", (int)getpid());
	setenv(DP_DRIVER_DIR_ENV, p->dir, 1);
	setenv(DP_DRIVER_OWNER_ENV, owner, 1);
	return CMD_OK;
}

static void end_driver(const struct program *p)
{
	static const char *const files[] = {"log", "log.1", "socket", "lock"};
	char path[200];

	if (!*p->dir)
		return;
	for (size_t i = 0; i < DP_ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", p->dir, files[i]);
		unlink(path);
	}
	rmdir(p->dir);
}

static int insert(struct program *p)
{
	struct dp_rpn_unit u = {0};
	struct dp_error err = {0};
	void *bytes = NULL;
	size_t size = 0;
	int status = CMD_FAILED;

	p->args.verb = PROBES_INSERT;
	if (!probes_read(&p->args, &u))
		return CMD_FAILED;
	if (u.modtype != DP_RPN_USER && p->child > 0) { /* the kernel, while the command runs */
		p->args.pid = 0;
		p->args.flags &= ~(u32)DP_DRIVER_LATER;
	}
	if (dp_rpn_save(&u, &bytes, &size, &err))
		ui_error(&err, NULL);
	else
		status = ask(p, DP_DRIVER_INSERT, p->args.flags, u.name, bytes, size,
			     p->quiet || p->command ? NULL : stderr);
	free(bytes);
	dp_rpn_free(&u);
	return status;
}

/* ---- while it runs ---- */

/* What was logged since the last time; false when it cannot be written. */
static bool copy_log(struct program *p)
{
	char buf[65536];
	size_t n;

	if (!p->log)
		p->log = fopen(p->log_path, "re");
	if (!p->log)
		return true;
	clearerr(p->log);
	while ((n = fread(buf, 1, sizeof(buf), p->log)) > 0)
		if (fwrite(buf, 1, n, p->out) != n)
			return false;
	return !fflush(p->out);
}

static void show_aggregates(struct program *p)
{
	u32 json = p->args.flags & DP_DRIVER_JSON;

	if (p->interval && !json)
		ui_time_line();
	ask(p, DP_DRIVER_VARS, DP_DRIVER_AGGREGATES | json, "", NULL, 0, stdout);
	fflush(stdout);
}

/* In the child: wait for the probes to be in place, then become the command. */
static void become_command(const struct program *p, int go, int result)
{
	char c;
	int code;

	ssize_t n;

	while ((n = read(go, &c, 1)) < 0 && errno == EINTR)
		;
	if (n != 1)
		_exit(127); /* the program was refused */
	unsetenv(DP_DRIVER_DIR_ENV);
	unsetenv(DP_DRIVER_OWNER_ENV);
	signal(SIGPIPE, SIG_DFL);
	if (cmd_int_ignored)
		signal(SIGINT, SIG_IGN); /* as our parent wanted it */
	execvp(p->command[0], p->command);
	code = errno;
	if (write(result, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

static int begin_command(struct program *p)
{
	int go[2], result[2];

	if (pipe2(go, O_CLOEXEC) || pipe2(result, O_CLOEXEC))
		return ui_fail(E_FILE_MEMORY, NULL, "pipe: %s", strerror(errno));
	p->child = fork();
	if (!p->child) {
		close(go[1]);
		become_command(p, go[0], result[1]);
	}
	close(go[0]);
	close(result[1]);
	p->go = go[1];
	p->result = result[0];
	p->args.pid = p->child;
	p->args.flags |= DP_DRIVER_LATER;
	return p->child > 0 ? CMD_OK : ui_fail(E_FILE_MEMORY, NULL, "fork: %s", strerror(errno));
}

static int release_command(struct program *p)
{
	int code = 0;
	bool failed = write(p->go, "", 1) != 1 || read(p->result, &code, sizeof(code)) > 0;

	close(p->go);
	close(p->result);
	return failed ? ui_fail(E_FILE_OPEN, NULL, "%s: %s", p->command[0], strerror(code))
		      : CMD_OK;
}

static bool is_over(struct program *p)
{
	if (cmd_stop)
		return true;
	if (p->child > 0)
		return waitpid(p->child, NULL, WNOHANG) != 0;
	return p->args.pid && kill(p->args.pid, 0) && errno == ESRCH;
}

static int follow(struct program *p)
{
	u64 begin = dp_now_ns(), shown = begin;

	while (!is_over(p)) {
		u64 now = dp_now_ns();

		if (!copy_log(p))
			return ui_fail(E_OUT_WRITE, NULL, "%s: %s",
				       p->out_path ? p->out_path : "standard output",
				       strerror(errno));
		if (p->interval && (double)(now - shown) >= p->interval * 1e9) {
			show_aggregates(p);
			shown = now;
		}
		if (p->seconds && (double)(now - begin) >= p->seconds * 1e9)
			break;
		nanosleep(&(struct timespec){0, TURN_NS}, NULL);
	}
	return CMD_OK;
}

static int run(struct program *p)
{
	int status = begin_driver(p);

	cmd_catch_signals();
	p->out = stdout;
	if (!status && p->out_path && !(p->out = fopen(p->out_path, "we")))
		status = ui_fail(E_OUT_OPEN, NULL, "%s: %s", p->out_path, strerror(errno));
	if (!status && p->command)
		status = begin_command(p);
	if (!status)
		status = insert(p);
	if (status)
		return status; /* a command that waits for its start sees the end of the pipe */
	if (p->command)
		status = release_command(p);
	if (!status)
		status = follow(p);
	/* The driver sees the end of a process at its next turn: the aggregates stay either way. */
	show_aggregates(p);
	ask(p, DP_DRIVER_REMOVE, DP_DRIVER_ALL, "", NULL, 0, NULL);
	ask(p, DP_DRIVER_QUERY, DP_DRIVER_ALL, "", NULL, 0, NULL); /* then all is in the log */
	if (!copy_log(p) && !status)
		status = ui_fail(E_OUT_WRITE, NULL, "%s", strerror(errno));
	return status;
}

int cmd_trace_program(int argc, char **argv)
{
	struct program p = {.args.verb = PROBES_INSERT};
	bool done = false;
	int status = parse(&p, argc, argv, &done);

	if (status == CMD_OK && !done)
		status = run(&p);
	end_driver(&p);
	if (p.log)
		fclose(p.log);
	if (p.out && p.out != stdout && fclose(p.out) && !status)
		status = ui_fail(E_OUT_WRITE, NULL, "%s: %s", p.out_path, strerror(errno));
	probes_args_free(&p.args);
	return status;
}
