/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes trace`: probes into a process, events out, probes removed. Whatever ends it (a signal,
 * the target's end, the time limit, a full disk), the probes are removed first and the summary
 * comes last.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cmd/cmd.h"
#include "cmd/summary.h"
#include "cmd/cmd-trace.h"
#include "host/kernel/kernel.h"

static void on_failed_write(int sig)
{
}

static void catch_signals(void)
{
	dp_cmd_catch_signals();
	/* A file that grows past its limit is a failed write, not the end before the probes are
	 * removed. */
	signal(SIGXFSZ, on_failed_write);
}

/* ---- the command line ---- */

static bool parse_size(const char *text, u64 *size)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 0);
	u64 power = 4096;

	if (*end == 'k' || *end == 'K')
		v <<= 10, end++;
	else if (*end == 'm' || *end == 'M')
		v <<= 20, end++;
	else if (*end == 'g' || *end == 'G')
		v <<= 30, end++;
	if (end == text || *end || text[0] == '-' || !v || v > (u64)1 << 32) {
		dp_ui_fail(E_CMD_VALUE, "give a size such as 256k or 4M", "'%s' is not a buffer size", text);
		return false;
	}
	while (power < v)
		power *= 2;
	*size = power;
	return true;
}

/* Returns 0, or CMD_USAGE when the value was wrong (told already). */
int dp_cmd_trace_option(struct trace *t, int id, const char *value)
{
	switch (id) {
	case OPT_PID:
		if (t->pid)
			return dp_ui_fail(E_CMD_EXTRA, "trace one process at a time", "-p is given twice");
		return dp_cmd_parse_pid(value, &t->pid) ? 0 : CMD_USAGE;
	case OPT_OUTPUT:
		t->out_path = value;
		return 0;
	case OPT_JSON:
		t->format = DP_FORMAT_JSON;
		return 0;
	case OPT_FORMAT:
		return dp_cmd_parse_format(value, &t->format) ? 0 : CMD_USAGE;
	case OPT_DURATION:
		return dp_cmd_parse_seconds(value, &t->run.seconds) ? 0 : CMD_USAGE;
	case OPT_ALLOW_TRAP:
		t->opt.allow_trap = true;
		return 0;
	case OPT_INTERPRET:
		t->opt.interpret = true;
		return 0;
	case OPT_CHILDREN:
		t->opt.children = true;
		return 0;
	case OPT_PAGES:
		t->opt.pages = true;
		return 0;
	case OPT_BUFFER:
		return parse_size(value, &t->opt.ring_size) ? 0 : CMD_USAGE;
	default: /* OPT_QUIET */
		t->quiet = true;
		return 0;
	}
}

static int take_option(void *arg, int id, const char *value)
{
	struct trace *t = arg;
	struct dp_error err;

	switch (id) {
	case OPT_FILE:
		if (!dp_event_lines_read(&t->lines, value, &err))
			return 0;
		break;
	case OPT_EVENT:
	case CMD_OPT_OPERAND:
		if (!dp_event_lines_add(&t->lines, value, "", &err))
			return 0;
		break;
	default:
		return dp_cmd_trace_option(t, id, value);
	}
	dp_ui_error(&err, NULL);
	return CMD_FAILED;
}

static int use_defaults(struct trace *t)
{
	struct dp_error err;

	if (dp_event_lines_default(&t->lines, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	if (!t->quiet)
		dp_ui_note("no event given: showing what the program opens, starts and connects to "
			   "(calls of libc)");
	return CMD_OK;
}

static u32 kernel_events(const struct trace *t)
{
	u32 n = 0;

	for (u32 i = 0; i < t->lines.n; i++)
		n += t->lines.v[i].parsed && dp_kernel_is_place(&dp_event_of_line(t->lines.v[i].parsed)->loc);
	return n;
}

/* Returns CMD_OK to go on, else the exit status; *done is set by --help. */
static int parse(struct trace *t, int argc, char **argv, bool *done)
{
	int r = dp_cmd_options(VERB_TRACE, argc, argv, take_option, t, &t->command, done);

	if (r || *done)
		return r;
	if (t->pid && t->command)
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them", "both -p and a command");
	if (!t->lines.n && t->command)
		r = use_defaults(t);
	if (r)
		return r;
	dp_event_lines_parse(&t->lines, !t->pid && !t->command);
	if (kernel_events(t)) {
		if (t->pid || t->command || kernel_events(t) < t->lines.n)
			return dp_ui_fail(E_KERNEL_WORLDS, NULL, "%u of %u events are of the kernel", kernel_events(t),
					  t->lines.n);
		return CMD_OK;
	}
	if (!t->pid && !t->command)
		return dp_ui_fail(E_CMD_MISSING, "give a process with -p, or a command behind --",
				  "no process to probe");
	if (!t->lines.n)
		return dp_ui_fail(E_CMD_MISSING, "for example: 'p libc:malloc bytes=%di'", "no event");
	return CMD_OK;
}

/* ---- from session to output ---- */

static void on_progress(void *arg, const char *what, u64 done, u64 total)
{
	dp_ui_progress(what, done, total);
}

static void on_note(void *arg, const char *text)
{
	dp_ui_note("%s", text);
}

static int tell(struct trace *t, const struct dp_error *err, const struct event_line *line)
{
	struct dp_error told = *err;

	if (line)
		snprintf(told.detail, sizeof(told.detail), "%s%.250s", line->where, err->detail);
	dp_ui_error(&told, line ? line->text : NULL);
	t->status = DP_MAX(t->status, dp_ui_status(err->code));
	return -1;
}

static int begin_session(struct trace *t)
{
	struct dp_error err = {0};
	int r;

	t->opt.ignore_int = dp_cmd_int_ignored;
	t->opt.note = t->quiet ? NULL : on_note;
	t->opt.progress = t->quiet ? NULL : on_progress;
	r = dp_trace_open(&t->run, t->pid, t->command, &t->opt, &err);
	if (r)
		return tell(t, &err, NULL);
	for (u32 i = 0; i < t->lines.n; i++) {
		const struct event_line *line = &t->lines.v[i];

		if (!line->parsed)
			return tell(t, &line->err, line);
		r = dp_tracee_add(&t->run.tracee, line->parsed, &err);
		if (r && !line->optional)
			return tell(t, &err, line);
	}
	return 0;
}

static int run(struct trace *t, struct dp_error *err)
{
	int r = dp_trace_describe(&t->run, err);

	if (r)
		return r;
	if (t->adapt)
		t->adapt(t);
	r = dp_trace_begin(&t->run, t->format, !t->out_path && dp_ui_color(stdout), err);
	if (r)
		return r;
	r = dp_trace_arm(&t->run, err);
	dp_ui_progress_end();
	return r ? r : dp_trace_run(&t->run, err);
}

/* ---- the end ---- */

/* Our own exit status tells how the trace went, so how the started program ended is told in words.
 */
static void tell_end(struct trace *t)
{
	int status;

	if (!dp_tracee_status(&t->run.tracee, &status) || !status)
		return;
	if (WIFSIGNALED(status))
		dp_ui_note("%s was ended by signal %d (%s)", t->command[0], WTERMSIG(status),
			   strsignal(WTERMSIG(status)));
	else
		dp_ui_note("%s ended with status %d", t->command[0], WEXITSTATUS(status));
}

/* Whatever was lost is told, in quiet mode too. */
static void tell_losses(struct trace *t)
{
	u64 lost, unread, damaged;
	struct dp_error err;

	dp_trace_losses(&t->run, &lost, &unread);
	if (lost)
		dp_ui_note("%llu events found no room in the log and were lost: record less, add a "
			   "condition (if ...), or enlarge it with --buffer",
			   (unsigned long long)lost);
	if (dp_reader_damage(t->run.reader, &damaged, &err))
		tell(t, &err, NULL);
	else if (unread)
		dp_ui_note("%llu recorded events could not be read back", (unsigned long long)unread);
}

static void finish(struct trace *t, int r, struct dp_error *err)
{
	struct dp_error late = {0};
	int ended;

	/* First of all the target: nothing below may keep the probes in place. */
	if (dp_tracee_remove(&t->run.tracee, &late))
		tell(t, &late, NULL);
	dp_ui_progress_end();
	ended = dp_trace_end(&t->run, r ? &late : err);
	r = r ? r : ended;
	if (r && err->code == E_OUT_WRITE && dp_output_unwanted(&t->run.out))
		r = 0; /* `| head` has seen enough */
	if (r)
		tell(t, err, NULL);
	if (!t->run.reader)
		return;
	if (!t->quiet) {
		tell_end(t);
		dp_summary_print(stderr, &t->run);
	}
	tell_losses(t);
}

int dp_cmd_trace_run(struct trace *t)
{
	struct dp_error err = {0};

	catch_signals();
	if (dp_output_open(&t->run.out, t->out_path, &dp_cmd_stop, &err))
		tell(t, &err, NULL);
	else if (!begin_session(t))
		finish(t, run(t, &err), &err);
	else
		dp_output_close(&t->run.out, &err);
	dp_trace_free(&t->run);
	dp_event_lines_free(&t->lines);
	return t->status;
}

int dp_cmd_trace(int argc, char **argv)
{
	struct trace t = {.status = CMD_OK};
	bool done = false;

	if (dp_cmd_traces_program(argc, argv))
		return dp_cmd_trace_program(argc, argv);
	t.status = parse(&t, argc, argv, &done);
	if (t.status != CMD_OK || done) {
		dp_event_lines_free(&t.lines);
		return t.status;
	}
	return dp_cmd_trace_run(&t);
}
