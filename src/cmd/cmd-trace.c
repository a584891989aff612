/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes trace`: probes into a process, events out, probes removed. Whatever ends it (a signal,
 * the target's end, the time limit, a full disk), the probes are removed first and the summary
 * comes last.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/summary.h"
#include "cmd/cmd-trace.h"
#include "cmd/line-modules.h"
#include "cmd/probes.h"
#include "cmd/trace-later.h"
#include "cmd/trace-lines.h"
#include "host/kernel/kernel.h"
#include "lang/dpcc/dpcc.h"
#include "log/human.h"

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
	u64 v = dp_cmd_bytes(text), power = 4096;

	if (!v || v > (u64)1 << 32) {
		dp_ui_fail(E_CMD_VALUE, "give a size such as 256k or 4M", "'%s' is not a buffer size", text);
		return false;
	}
	while (power < v)
		power *= 2;
	*size = power;
	return true;
}

/* Options that set a flag, or keep their text as it is. Returns 0. */
static int keep_option(struct trace *t, int id, const char *value)
{
	const struct {
		int id;
		bool *flag;
		const char **text;
	} kept[] = {
	    {OPT_ALL, .text = &t->select.file},
	    {OPT_COMM, .text = &t->select.comm},
	    {OPT_CGROUP, .text = &t->select.cgroup},
	    {OPT_CONTAINER, .text = &t->select.container},
	    {OPT_UNIT, .text = &t->select.unit},
	    {OPT_TREE, .flag = &t->select.tree},
	    {OPT_UNTIL, .text = &t->until},
	    {OPT_KEEP_IF, .text = &t->keep_if},
	    {OPT_KEEP_OUTSIDE, .flag = &t->rule.outside},
	    {OPT_KEEP_UNFINISHED, .flag = &t->rule.unfinished},
	    {OPT_OUTPUT, .text = &t->out_path},
	    {OPT_ENDPOINT, .text = &t->delivery.endpoint},
	    {OPT_ALLOW_TRAP, .flag = &t->opt.allow_trap},
	    {OPT_SKIP_REFUSED, .flag = &t->opt.skip_refused},
	    {OPT_INTERPRET, .flag = &t->opt.interpret},
	    {OPT_STRICT_READS, .flag = &t->opt.strict_reads},
	    {OPT_CHILDREN, .flag = &t->opt.children},
	    {OPT_PAGES, .flag = &t->opt.pages},
	    {OPT_QUIET, .flag = &t->quiet},
	    {OPT_WAIT_MODULES, .flag = &t->wait_modules},
	    {OPT_READ_ONLY, .flag = &t->read_only},
	};

	for (size_t i = 0; i < DP_ARRAY_SIZE(kept); i++) {
		if (kept[i].id == id && kept[i].flag)
			*kept[i].flag = true;
		else if (kept[i].id == id)
			*kept[i].text = value;
	}
	return 0;
}

/* Returns 0, or CMD_USAGE when the value was wrong (told already). */
int dp_cmd_trace_option(struct trace *t, int id, const char *value)
{
	switch (id) {
	case OPT_PID:
		return dp_cmd_parse_processes(value, &t->select) ? 0 : CMD_USAGE;
	case OPT_USER:
		t->select.by_user = true;
		return dp_cmd_parse_user(value, &t->select.user) ? 0 : CMD_USAGE;
	case OPT_MAX_EVENTS:
		return dp_cmd_parse_count(value, &t->run.max_events) ? 0 : CMD_USAGE;
	case OPT_MAX_RATE:
		return dp_cmd_parse_count(value, &t->run.rate.most) ? 0 : CMD_USAGE;
	case OPT_DUMP_ON:
	case OPT_KEEP:
	case OPT_LAST:
	case OPT_ROTATE:
		return dp_cmd_record_option(t, id, value);
	case OPT_JSON:
		t->format = DP_FORMAT_JSON;
		return 0;
	case OPT_FORMAT:
		return dp_cmd_parse_format(value, t->of_programs ? KIND_PROGRAM_FORMAT : KIND_FORMAT, &t->format)
			   ? 0
			   : CMD_USAGE;
	case OPT_DURATION:
		return dp_cmd_parse_seconds(value, &t->run.seconds) ? 0 : CMD_USAGE;
	case OPT_ALL_ROWS:
		dp_summary_all = true;
		return 0;
	case OPT_RAW_UNITS:
		dp_human.raw_units = true;
		return 0;
	case OPT_BUDGET:
		return dp_cmd_parse_budget(value, false, &t->run.budget) ? 0 : CMD_USAGE;
	case OPT_BUFFER:
		return parse_size(value, &t->opt.ring_size) ? 0 : CMD_USAGE;
	default:
		return keep_option(t, id, value);
	}
}

static int define(struct trace *t, const char *value)
{
	struct probes_args a = {.defines = t->defines, .ndefines = t->ndefines};
	int r = dp_probes_define(&a, value);

	t->defines = a.defines;
	t->ndefines = a.ndefines;
	return r;
}

int dp_cmd_trace_line_option(struct trace *t, int id, const char *value)
{
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
	case OPT_INTERVAL:
		return dp_cmd_parse_seconds(value, &t->interval) ? 0 : CMD_USAGE;
	case OPT_DEFINE:
		return define(t, value);
	default:
		return dp_cmd_trace_option(t, id, value);
	}
	dp_ui_error(&err, NULL);
	return CMD_FAILED;
}

static int take_option(void *arg, int id, const char *value)
{
	return dp_cmd_trace_line_option(arg, id, value);
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
			   "(calls to libc)");
	return CMD_OK;
}

static u32 kernel_events(const struct trace *t)
{
	u32 n = 0;

	for (u32 i = 0; i < t->lines.n; i++)
		n += t->lines.v[i].parsed && dp_kernel_is_place(&dp_event_of_line(t->lines.v[i].parsed)->loc);
	return n;
}

/* Places in the kernel beside places in a process, or a command: only a run of programs has several such targets. */
static bool is_of_both_worlds(const struct trace *t)
{
	bool in_kernel = false, in_process = t->command;

	for (u32 i = 0; i < t->lines.n; i++) {
		const char *text = t->lines.v[i].text;
		struct dp_event ev;
		u32 behind;

		if (!dp_cc_line_is_body(text) && !dp_event_head(&ev, text, &behind, NULL))
			*(dp_kernel_is_place(&ev.loc) ? &in_kernel : &in_process) = true;
	}
	return in_kernel && in_process;
}

int dp_cmd_trace_ends(struct trace *t)
{
	const char *option = t->until ? "--until" : "--dump-on";
	struct dp_error err;

	if (t->dump_on && t->until)
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them", "--dump-on cannot be used with --until");
	t->ends = t->until ? t->until : t->dump_on;
	if (t->ends && dp_event_lines_add(&t->lines, t->ends, t->until ? "--until: " : "--dump-on: ", &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	if (t->ends && t->opt.skip_refused)
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them",
				  "%s cannot be used with --skip-refused: the event to wait for might be left out",
				  option);
	if (t->ends)
		t->lines.v[t->lines.n - 1].ends = true;
	return CMD_OK;
}

int dp_cmd_trace_parse(struct trace *t, enum cmd_verb verb, int argc, char **argv, bool *done)
{
	int r = dp_cmd_options(verb, argc, argv, take_option, t, &t->command, done);
	bool in_process;

	if (r || *done)
		return r;
	if (dp_select_any(&t->select) && t->command)
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them", "both a process and a command are given");
	if (!t->lines.n && t->command)
		r = use_defaults(t);
	r = r ? r : dp_cmd_keep_if(t);
	r = r ? r : dp_cmd_trace_ends(t);
	if (r)
		return r;
	in_process = dp_select_any(&t->select) || t->command;
	dp_event_lines_parse(&t->lines, !t->command);
	if (in_process && !t->command) {
		t->narrowed = t->lines.n && kernel_events(t) == t->lines.n; /* the kernel, for some processes */
		if (!t->narrowed)
			dp_event_lines_parse(&t->lines, false);
	}
	r = dp_cmd_trace_check_budget(t);
	if (r)
		return r;
	t->compiled = dp_cmd_lines_need_compiler(&t->lines) || (in_process && is_of_both_worlds(t));
	if (t->compiled)
		return dp_cmd_trace_check_compiled(t);
	if (t->interval || t->ndefines)
		return dp_ui_fail(E_CMD_EXTRA, "leave it out", "%s has no effect on these lines",
				  t->interval ? "--interval" : "-D");
	r = in_process ? CMD_OK : dp_cmd_trace_check_kernel_lines(t);
	if (r)
		return r;
	if (kernel_events(t)) {
		if (t->keep_if)
			return dp_ui_fail(E_CMD_EXTRA, "give a process with -p, or a command after --",
					  "--keep-if needs a process whose requests these are");
		if (!in_process && kernel_events(t) < t->lines.n)
			return dp_ui_fail(E_CMD_MISSING, "give a process with -p, or a command after --",
					  "%u of %u events are in a process", t->lines.n - kernel_events(t),
					  t->lines.n);
		if (t->narrowed && t->select.file)
			return dp_ui_fail(E_KERNEL_WORLDS, NULL, "--all");
		return !t->opt.skip_refused ? CMD_OK
					    : dp_ui_fail(E_CMD_EXTRA, "leave it out",
							 "--skip-refused works only for events in processes");
	}
	if (!in_process)
		return dp_ui_fail(E_CMD_MISSING, "give a process with -p, or a command after --",
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

void dp_cmd_budget_note(void *arg, const char *text)
{
	dp_ui_note("%s", dp_ui_clean(text));
}

int dp_cmd_trace_tell(struct trace *t, const struct dp_error *err, const struct event_line *line)
{
	struct dp_error told = *err;

	if (line)
		snprintf(told.detail, sizeof(told.detail), "%s%.250s", line->where, err->detail);
	if (line && line->parsed)
		dp_cmd_hint_later(dp_event_of_line(line->parsed)->loc.module, &told);
	dp_ui_error(&told, line ? line->text : NULL);
	t->status = DP_MAX(t->status, dp_ui_status(err->code));
	return -1;
}

/* The place of a line is not in this process, but may be in another one. */
static bool is_elsewhere(const struct dp_error *err)
{
	return err->code == E_SYM_NONE || err->code == E_MOD_NONE;
}

/* Lines that no process has taken, of a trace that goes on without them. */
static void tell_skipped(struct trace *t)
{
	for (u32 i = 0; i < t->lines.n && t->opt.skip_refused && !t->quiet; i++) {
		const struct event_line *l = &t->lines.v[i];

		if (!l->places && l->err.code)
			dp_cmd_tell_skipped(l, &l->err);
	}
}

/*
 * The events of the lines, in the member that was opened last. A line that fails is in *line. several: a line need not
 * be for this process, but one must.
 */
static int add_lines(struct trace *t, bool several, struct event_line **line, struct dp_error *err)
{
	struct dp_trace_member *m = dp_trace_last(&t->run);
	u32 taken = 0;
	int r = 0;

	for (u32 i = 0; i < t->lines.n; i++) {
		struct event_line *l = &t->lines.v[i];

		*line = l;
		if (!l->parsed) {
			*err = l->err;
			return -EINVAL;
		}
		if (l->ends)
			m->ends_from = dp_tracee_nprobes(&m->tracee);
		r = dp_tracee_add(&m->tracee, l->parsed, err);
		if (r && !l->optional && !t->opt.skip_refused && !(several && is_elsewhere(err)))
			return r;
		if (r)
			l->err = *err;
		l->places += !r;
		taken += !r;
	}
	if (several && !taken && !t->command)
		return r;
	if (!several && !taken && t->opt.skip_refused && t->lines.n == 1)
		return r;
	*line = NULL;
	if (!several && !taken && t->opt.skip_refused) {
		tell_skipped(t);
		return dp_fail(err, E_ARM_NONE, "all %u events were left out", t->lines.n);
	}
	return 0;
}

static int open_member(struct trace *t, pid_t pid, bool several, struct event_line **line, struct dp_error *err)
{
	struct dp_session_options opt = t->opt;
	int r;

	opt.tells_reads = !several && !t->quiet;
	r = dp_trace_open(&t->run, pid, pid ? NULL : t->command, &opt, err);
	*line = NULL;
	if (r)
		return r;
	r = add_lines(t, several, line, err);
	if (r && (pid || !t->command))
		dp_trace_drop_last(&t->run);
	return r;
}

/* A line that no process has taken, and that is no matter of course. */
static struct event_line *find_unused(const struct trace *t)
{
	for (u32 i = 0; i < t->lines.n && !t->opt.skip_refused; i++)
		if (!t->lines.v[i].places && !t->lines.v[i].optional)
			return &t->lines.v[i];
	return NULL;
}

static void leave_out(struct trace *t, const struct dp_error *err)
{
	t->left_out++;
	t->why = *err;
}

/* A process that begins while the trace runs: not being able to probe it is no failure of the trace. */
static int join(struct dp_trace *run, pid_t pid, void *arg)
{
	struct trace *t = arg;
	struct event_line *line;
	struct dp_error err = {0};
	int r;

	t->opt.note = NULL; /* the first ones have told */
	t->opt.progress = NULL;
	r = open_member(t, pid, true, &line, &err);
	if (!r && (dp_trace_describe(run, &err) || dp_trace_arm(run, dp_trace_last(run), &err))) {
		dp_trace_last(run)->has_ended = true;
		r = -ENOENT;
	}
	if (r && !is_elsewhere(&err))
		leave_out(t, &err);
	return r;
}

#define LOOKS 6 /* for a module, */
#define LOOKS_US 20000

/* The only process. A library that it was found to have may be unloaded for this moment, and loaded again. */
static int open_only(struct trace *t, pid_t pid, struct event_line **line, struct dp_error *err)
{
	int r = open_member(t, pid, false, line, err);

	for (u32 i = 1; i < LOOKS && r && err->code == E_MOD_NONE; i++) {
		usleep(LOOKS_US);
		r = open_member(t, pid, false, line, err);
	}
	return r;
}

/* The processes of now. Of several, those are left out that cannot be probed, or do not have the events' places. */
static int open_selected(struct trace *t)
{
	struct event_line *line = NULL, *last = NULL;
	struct dp_error err = {0}, why = {0};
	struct dp_pids pids;
	bool several;
	int r = dp_select_find(&t->select, &pids, &err);

	if (r && !(err.code == E_SELECT_NONE && dp_select_is_open(&t->select) && t->select.file)) {
		dp_pids_free(&pids);
		return dp_cmd_trace_tell(t, &err, NULL);
	}
	r = 0;
	several = pids.n > 1 || dp_select_is_open(&t->select);
	for (u32 i = 0; i < pids.n && !r; i++) {
		if (!(several ? open_member(t, pids.v[i], true, &line, &err) : open_only(t, pids.v[i], &line, &err)))
			continue;
		last = line;
		why = err;
		if (several && !(line && !line->parsed))
			leave_out(t, &err);
		else
			r = -ENOENT;
	}
	if (!dp_select_is_open(&t->select) && !t->run.n)
		r = -ENOENT;
	dp_pids_free(&pids);
	if (r)
		return dp_cmd_trace_tell(t, &why, last);
	last = dp_select_is_open(&t->select) ? NULL : find_unused(t);
	return last ? dp_cmd_trace_tell(t, &last->err, last) : 0;
}

/* The kernel, for the processes of now that are asked for. */
static int open_narrowed(struct trace *t)
{
	struct event_line *line = NULL;
	struct dp_error err = {0};
	int r = dp_select_find(&t->select, &t->only, &err);

	if (!r) {
		t->opt.only = t->only.v;
		t->opt.nonly = t->only.n;
		t->opt.below = t->select.tree || t->opt.children ? dp_pids_started : NULL;
		r = open_member(t, 0, false, &line, &err);
	}
	return r ? dp_cmd_trace_tell(t, &err, line) : 0;
}

static int begin_session(struct trace *t)
{
	struct event_line *line;
	struct dp_error err = {0};

	t->opt.ignore_int = dp_cmd_int_ignored;
	t->opt.note = t->opt.left = t->quiet ? NULL : on_note;
	t->opt.progress = t->quiet ? NULL : on_progress;
	if (dp_select_check(&t->select, &err))
		return dp_cmd_trace_tell(t, &err, NULL);
	if (t->narrowed)
		return open_narrowed(t);
	if (dp_select_any(&t->select))
		return open_selected(t);
	return open_member(t, 0, t->select.tree, &line, &err) ? dp_cmd_trace_tell(t, &err, line) : 0;
}

/* One of several that cannot be armed is left out. */
static int arm(struct trace *t, struct dp_error *err)
{
	u32 armed = 0, n = t->run.n;
	int r = 0;

	for (u32 i = 0; i < n; i++) {
		struct dp_trace_member *m = t->run.v[i];

		r = dp_trace_arm(&t->run, m, err);
		if (!r) {
			armed++;
			continue;
		}
		if (n == 1)
			return r;
		m->has_ended = true;
		leave_out(t, err);
	}
	return armed || !n ? 0 : r;
}

static void tell_left_out(struct trace *t)
{
	if (t->left_out && !t->quiet)
		dp_ui_note("%u process%s left out (the last one: %s: %s)", t->left_out,
			   t->left_out == 1 ? " is" : "es are", dp_error_info(t->why.code)->name,
			   dp_ui_clean(t->why.detail));
	t->left_out = 0;
}

/* Workers of a server are children that run the same program: who names the master hardly means it alone. */
static void tell_workers(struct trace *t)
{
	struct dp_pids below;
	pid_t pid = dp_tracee_pid(&t->run.v[0]->tracee);
	u32 n = 0;

	if (t->run.n != 1 || t->command || !pid || t->select.tree || t->quiet ||
	    !dp_pids_below(&t->follow.known, &below))
		return;
	for (u32 i = 0; i < below.n; i++)
		n += dp_same_program(pid, below.v[i]);
	dp_pids_free(&below);
	if (n)
		dp_ui_note(
		    "process %d has %u child%s that run%s the same program and %s not probed; --tree probes %s as well",
		    (int)pid, n, n == 1 ? "" : "ren", n == 1 ? "s" : "", n == 1 ? "is" : "are", n == 1 ? "it" : "them");
}

#define LOOK_TREE_NS 20000000ull
#define LOOK_FILE_NS 100000000ull
#define LOOK_ONLY_NS 1000000000ull /* for a note at the end */

/* Who joins later: of a tree or a file. Elsewhere only a look for what runs without probes. */
static void follow(struct trace *t)
{
	t->follow = (struct dp_follow_run){
	    .select = &t->select, .join = dp_select_is_open(&t->select), .open = join, .arg = t};
	if (t->run.n && !dp_tracee_pid(&t->run.v[0]->tracee))
		return; /* the kernel */
	if (!dp_follow_start(&t->follow, &t->run))
		return;
	t->run.look = dp_follow_look;
	t->run.look_arg = &t->follow;
	t->run.look_ns = !t->follow.join ? LOOK_ONLY_NS : t->select.tree ? LOOK_TREE_NS : LOOK_FILE_NS;
}

static bool watch_turn(struct dp_trace *run, void *arg)
{
	const struct trace_watch *w = arg;

	return w->turn(w->arg);
}

static int run(struct trace *t, struct dp_error *err)
{
	int r = dp_trace_describe(&t->run, err);

	if (t->watch) {
		t->run.turn = watch_turn;
		t->run.turn_arg = (void *)t->watch;
		t->watch->begin(t->watch->arg, NULL, t->run.out.f);
	}

	if (!dp_select_is_open(&t->select))
		tell_skipped(t);
	if (r)
		return r;
	if (t->adapt)
		t->adapt(t);
	r = dp_trace_begin(&t->run, t->format, !t->out_path && dp_ui_color(stdout), err);
	if (r)
		return r;
	t->run.note = t->quiet ? NULL : dp_cmd_budget_note;
	t->run.last = t->format == DP_FORMAT_JSON ? dp_summary_budget_json : NULL;
	follow(t);
	if (t->run.n)
		tell_workers(t);
	r = arm(t, err);
	dp_ui_progress_end();
	tell_left_out(t);
	if (r)
		return r;
	if (!t->run.n && t->select.file && !t->quiet)
		dp_ui_note("no process maps %s yet: the probe%s wait%s for one", dp_ui_clean(t->select.file),
			   t->lines.n == 1 ? "" : "s", t->lines.n == 1 ? "s" : "");
	dp_ui_ready();
	r = dp_trace_run(&t->run, err);
	if (t->watch)
		t->watch->leave(t->watch->arg);
	return r;
}

/* ---- the end ---- */

static void finish(struct trace *t, int r, struct dp_error *err)
{
	struct dp_error late = {0};
	struct event_line *unused;
	int ended;

	/* First of all the target: nothing below may keep the probes in place. */
	if (dp_trace_remove(&t->run, &late))
		dp_cmd_trace_tell(t, &late, NULL);
	dp_ui_progress_end();
	if (!t->run.was_armed)
		dp_output_drop(&t->run.out);
	ended = dp_trace_end(&t->run, r ? &late : err);
	r = r ? r : ended;
	if (r && err->code == E_OUT_WRITE && dp_output_unwanted(&t->run.out))
		r = 0; /* `| head` has seen enough */
	if (r)
		dp_cmd_trace_tell(t, err, NULL);
	unused = r ? NULL : find_unused(t);
	if (unused && !unused->err.code)
		dp_fail(&unused->err, E_SELECT_NONE, "no process that maps %.150s has started", t->select.file);
	if (unused)
		dp_cmd_trace_tell(t, &unused->err, unused);
	if (dp_select_is_open(&t->select))
		tell_skipped(t);
	if (!t->run.was_armed)
		return;
	tell_left_out(t);
	if (!t->quiet) {
		dp_cmd_trace_tell_end(t);
		if (!t->no_summary)
			dp_summary_print(stderr, &t->run);
	}
	if (t->run.budget)
		dp_summary_budget(stderr, &t->run, t->quiet);
	dp_cmd_trace_tell_losses(t);
	dp_cmd_trace_take_status(t);
	if (t->watch)
		t->watch->last(t->watch->arg);
}

int dp_cmd_trace_drop(struct trace *t)
{
	dp_select_free(&t->select);
	dp_pids_free(&t->only);
	dp_event_lines_free(&t->lines);
	return t->status;
}

/* delivers: what is written goes where the format and the options want it. */
static void run_to_output(struct trace *t, bool delivers)
{
	bool is_directory = dp_format_is_directory(t->format);
	struct dp_error err = {0};

	t->run.path = is_directory ? t->out_path : NULL;
	if (dp_output_open(&t->run.out, is_directory ? "/dev/null" : t->out_path, &dp_cmd_stop, &err)) {
		dp_cmd_trace_tell(t, &err, NULL);
		return;
	}
	if (delivers)
		t->status = dp_cmd_deliver(&t->delivery, t->format, t->out_path, false, &t->run.out);
	if (!t->status && !begin_session(t)) {
		finish(t, run(t, &err), &err);
		return;
	}
	dp_output_drop(&t->run.out);
	dp_output_close(&t->run.out, &err);
}

/* What is shown at the end may have to be delivered. False: told already. */
static bool begin_later(struct trace *t, struct trace_later *later)
{
	const char *out_path = t->out_path;
	struct dp_error err = {0};

	if (dp_cmd_later_begin(later, t, &err))
		return !dp_cmd_trace_tell(t, &err, NULL);
	if (later->fd >= 0)
		t->status = dp_cmd_deliver(&t->delivery, later->report.format, out_path, true, &later->report.out);
	return !t->status;
}

int dp_cmd_trace_run(struct trace *t)
{
	struct dp_cmd_cleaner cleaner;
	struct trace_later later;
	struct dp_error err = {0};

	dp_cmd_start_cleaner(&cleaner, false);
	catch_signals();
	if (dp_format_is_directory(t->format) && !t->out_path) {
		t->status = dp_ui_fail(E_OUT_PLACE, NULL, "%s", dp_format_name(t->format));
	} else if (begin_later(t, &later)) {
		run_to_output(t, later.fd < 0);
		if (dp_cmd_later_end(&later, t, &err))
			dp_cmd_trace_tell(t, &err, NULL);
		t->status = dp_cmd_delivered(&t->delivery, t->quiet, t->status);
	}
	dp_trace_free(&t->run);
	dp_follow_free(&t->follow);
	dp_select_free(&t->select);
	dp_pids_free(&t->only);
	dp_cmd_end_cleaner(&cleaner);
	dp_event_lines_free(&t->lines);
	return t->status;
}

bool dp_cmd_select_one(struct trace *t, pid_t *pid)
{
	struct dp_error err = {0};
	struct dp_pids pids = {0};
	int r = 0;

	*pid = 0;
	if (!dp_select_any(&t->select))
		return true;
	r = dp_select_check(&t->select, &err) || dp_select_find(&t->select, &pids, &err);
	if (!r && pids.n > 1)
		r = dp_fail(&err, E_CMD_EXTRA, "%u processes match; exactly one is needed", pids.n);
	if (!r)
		*pid = pids.v[0];
	else
		dp_ui_error(&err, NULL);
	dp_pids_free(&pids);
	return !r;
}

/*
 * Whether the lines are better off as programs: a run of programs follows what processes load later, holds processes
 * that start, and knows the results of all functions.
 */
static bool are_programs(struct trace *t)
{
	struct line_target target = {.command = t->command, .wait = t->wait_modules};
	bool later = dp_select_is_open(&t->select), found = !t->opt.skip_refused, can = dp_cmd_trace_can_compile(t);
	struct dp_pids pids = {0};
	struct dp_error ignored;

	if (found && dp_select_any(&t->select))
		found = !dp_select_check(&t->select, &ignored) &&
			(!dp_select_find(&t->select, &pids, &ignored) || (later && t->select.file));
	target.all = later && !t->select.tree ? t->select.file : NULL;
	target.pids = pids.v;
	target.npids = target.all ? 0 : pids.n;
	if (found && !(later && can && dp_format_of_programs(t->format) && dp_cmd_lines_can_hold(&t->lines, &target))) {
		target.all = t->select.file;
		target.npids = pids.n;
		found = dp_cmd_lines_wait(&t->lines, &target) || (can && dp_cmd_lines_ask_hidden(&t->lines, &target));
	}
	dp_pids_free(&pids);
	return found;
}

int dp_cmd_trace_parsed(struct trace *t)
{
	if (!t->compiled && are_programs(t)) {
		t->compiled = true;
		t->status = dp_cmd_trace_check_compiled(t);
	}
	if (t->status != CMD_OK)
		return dp_cmd_trace_drop(t);
	if (!t->compiled)
		return dp_cmd_trace_run(t);
	t->status = dp_cmd_trace_lines(t);
	dp_probes_args_free(&(struct probes_args){.defines = t->defines, .ndefines = t->ndefines});
	dp_event_lines_free(&t->lines);
	return t->status;
}

int dp_cmd_trace_events(struct trace *t, enum cmd_verb verb, int argc, char **argv)
{
	bool done = false;

	t->status = dp_cmd_trace_parse(t, verb, argc, argv, &done);
	return t->status != CMD_OK || done ? dp_cmd_trace_drop(t) : dp_cmd_trace_parsed(t);
}

int dp_cmd_trace(int argc, char **argv)
{
	struct trace t = {.status = CMD_OK};

	if (dp_cmd_traces_program(argc, argv))
		return dp_cmd_trace_program(argc, argv);
	return dp_cmd_trace_events(&t, VERB_TRACE, argc, argv);
}
