/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes trace -f FILE.dpc` (or .rpn, .ppdf), and record: a probe program in place as long as the command runs, by a
 * run (run/run.h) in this process. Should this process be killed, a child of it takes the probes out (clean.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "cmd/line-modules.h"
#include "cmd/trace-program.h"
#include "lang/dpcc/dpcc.h"
#include "log/log-rpn.h"
#include "run/run.h"
#include "symbols/needed.h"

/* ---- the command line ---- */

/* Whether a file is a program and not a list of events. */
static bool is_program(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && (!strcmp(dot, ".dpc") || !strcmp(dot, ".rpn") || !strcmp(dot, ".ppdf"));
}

/* Whether an event is C: it has a pragma, which no event line can have. */
static bool is_c(const char *text)
{
	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += strspn(p, " \t\n");
		if (!strncmp(p, "#pragma", 7))
			return true;
	}
	return false;
}

bool dp_cmd_traces_program(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		const char *value = NULL;

		if ((!strcmp(argv[i], "-f") || !strcmp(argv[i], "--file")) && i + 1 < argc)
			value = argv[i + 1];
		else if (!strncmp(argv[i], "--file=", 7))
			value = argv[i] + 7;
		else if (!strncmp(argv[i], "-f", 2))
			value = argv[i] + 2;
		if ((value && is_program(value)) || is_c(argv[i]) ||
		    (!strncmp(argv[i], "-e", 2) && is_c(argv[i] + 2)) ||
		    (!strncmp(argv[i], "--event=", 8) && is_c(argv[i] + 8)))
			return true;
	}
	return false;
}

/* C on the command line, of which several are one program; or a line beside it. */
static int take_event(struct program *p, const char *value)
{
	char *text = NULL;

	if (!is_c(value))
		return dp_cmd_trace_line_option(&p->t, OPT_EVENT, value);
	if (p->args.file && !p->args.text)
		return dp_ui_fail(E_CMD_EXTRA, "give one program", "%s, and handlers in C", p->args.file);
	if (asprintf(&text, "%s%s\n", p->args.text ? p->args.text : "", value) < 0)
		return dp_ui_fail(E_RPN_MEMORY, NULL, "-e");
	free(p->args.text);
	p->args.text = text;
	p->args.file = "-e";
	return 0;
}

static int take_option(void *arg, int id, const char *value)
{
	struct program *p = arg;

	switch (id) {
	case OPT_FILE:
		if (!is_program(value))
			return dp_cmd_trace_line_option(&p->t, OPT_FILE, value);
		if (p->args.file)
			return dp_ui_fail(E_CMD_EXTRA, "give one program", "%s", value);
		p->args.file = value;
		return 0;
	case OPT_DEFINE:
		return dp_probes_define(&p->args, value);
	case OPT_INTERVAL:
		return dp_cmd_parse_seconds(value, &p->interval) ? 0 : CMD_USAGE;
	case OPT_EVENT:
	case CMD_OPT_OPERAND:
		return take_event(p, value);
	default:
		return dp_cmd_trace_option(&p->t, id, value);
	}
}

/* Lines are of that file, in whoever maps it. */
static bool is_of_file(const struct dp_select *s)
{
	return s->file && dp_select_is_open(s) && !s->tree;
}

/* One process is asked for by its id; several, and those that others may join, are chosen. False: told already. */
static bool set_target(struct program *p)
{
	struct dp_select *s = &p->t.select;
	struct dp_error err = {0};

	p->args.flags |= (p->t.opt.allow_trap ? DP_RUN_ALLOW_TRAP : 0) | (p->t.opt.children ? DP_RUN_CHILDREN : 0) |
			 (p->t.opt.strict_reads ? 0 : DP_RUN_LOAD) | (p->t.opt.skip_refused ? DP_RUN_SKIP : 0) |
			 (p->t.opt.interpret ? DP_RUN_JIT_OFF : 0) |
			 (p->t.wait_modules && dp_select_any(s) ? DP_RUN_LATER : 0);
	if (!dp_select_any(s)) {
		if (s->tree && !p->t.command)
			dp_ui_fail(E_CMD_MISSING, "give a process with -p, or a command behind --",
				   "--tree of no process");
		return !s->tree || p->t.command;
	}
	if ((dp_select_check(s, &err) || dp_select_find(s, &p->pids, &err)) &&
	    !(err.code == E_SELECT_NONE && is_of_file(s))) {
		dp_ui_error(&err, NULL);
		return false;
	}
	if (p->pids.n != 1 || dp_select_is_open(s))
		return true;
	p->args.pid = p->pids.v[0];
	dp_pids_free(&p->pids);
	return true;
}

/* Whether all lines are of the file of --all, and of none that its users map besides. */
static bool are_of_file(const struct program *p)
{
	char real[4096];

	if (!realpath(p->t.select.file, real))
		return true;
	for (u32 i = 0; i < p->programs.n; i++)
		if (strcmp(p->programs.v[i].file, real))
			return false;
	return true;
}

/* False: no memory. */
static bool choose(struct program *p)
{
	const struct dp_select *s = &p->t.select;

	if (p->t.command)
		return !s->tree || dp_run_choose_command(p->run, s, p->child);
	if (p->args.pid || !dp_select_any(s) || (p->lines && dp_select_is_file_alone(s) && are_of_file(p)))
		return true;
	return dp_run_choose(p->run, s, p->pids.v, p->pids.n);
}

/* Of lines in the kernel, hits of the process or the command count alone; of a program in a file all do. */
static void narrow(struct program *p)
{
	bool follows = p->t.select.tree || p->t.opt.children;

	p->only = p->child > 0 ? p->child : p->args.pid;
	if (!p->lines || (dp_select_is_open(&p->t.select) && !p->t.select.tree))
		return;
	if (p->pids.n)
		dp_run_narrow(p->run, p->pids.v, p->pids.n, follows);
	else if (p->only)
		dp_run_narrow(p->run, &p->only, 1, follows);
}

/* Those that stand beside the program are compiled with it. False: no memory. */
static bool give_lines(struct program *p)
{
	static const char *const options[] = {"--keep-if", "--until", "--dump-on"};
	const struct event_lines *e = &p->t.lines;
	struct dpcc_line *v = e->n ? calloc(e->n, sizeof(*v)) : NULL;

	if (e->n && !v)
		return false;
	for (u32 i = 0; i < e->n; i++) {
		const struct event_line *l = &e->v[i];

		v[i] = (struct dpcc_line){.text = l->text, .ends = l->ends, .first = !i && p->t.run.rule};
		v[i].name = !l->where[0] ? "-e" : "-f";
		for (size_t k = 0; k < DP_ARRAY_SIZE(options); k++)
			if (!strncmp(l->where, options[k], strlen(options[k])))
				v[i].name = options[k];
	}
	p->args.lines = v;
	p->args.nlines = e->n;
	return true;
}

static int parse(struct program *p, enum cmd_verb verb, int argc, char **argv, bool *done)
{
	int r = dp_cmd_options(verb, argc, argv, take_option, p, &p->t.command, done);

	if (r || *done)
		return r;
	if (p->t.command && dp_select_any(&p->t.select))
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them", "both -p and a command");
	if (!dp_cmd_check_interval(p->t.format, p->interval))
		return CMD_USAGE;
	if (p->t.until && dp_cc_line_is_body(p->t.until))
		return dp_ui_fail(E_CMD_VALUE, "use --duration, or `end_trace()` in a timer's body",
				  "--until takes an event with a place");
	r = dp_cmd_keep_if(&p->t);
	r = r ? r : dp_cmd_trace_ends(&p->t);
	if (r)
		return r;
	if (!give_lines(p))
		return dp_ui_fail(E_RPN_MEMORY, NULL, "lines");
	if (p->args.nlines && !p->args.text && !dp_cc_is_source(p->args.file))
		return dp_ui_fail(E_CMD_EXTRA, "write the program in C (.dpc)",
				  "%s: only programs in C can have event lines beside them (%s)", p->args.file,
				  p->args.lines[0].name);
	r = verb == VERB_RECORD_PROGRAM ? dp_cmd_record_begin(&p->t) : CMD_OK;
	if (r)
		return r;
	return set_target(p) ? CMD_OK : CMD_FAILED;
}

/* ---- the run ---- */

/* Records on their way out. When the output fails, the trace ends. */
static ssize_t write_records(void *arg, const void *text, size_t n)
{
	struct program *p = arg;

	if (p->t.watch)
		return (ssize_t)n;
	if (!p->t.run.out.error && fwrite(text, 1, n, p->t.run.out.f) == n && !fflush(p->t.run.out.f))
		return (ssize_t)n;
	errno = EIO; /* not EINTR, which would be tried again */
	return -1;
}

/* Before the aggregates, which go to standard output, too. */
static void write_head(struct program *p)
{
	struct dp_line l = {0};

	if (p->t.watch || dp_format_takes_programs(p->t.format))
		return;
	dp_rpn_log_head(&l, p->t.format, p->lines != NULL);
	if (l.n)
		fwrite(l.text, 1, l.n, p->t.run.out.f);
	dp_line_free(&l);
}

static int ask(const struct program *p, u32 op, u32 flags, const char *name, const void *object, size_t size, FILE *out)
{
	struct dp_run_request rq = {.op = op,
				    .flags = flags,
				    .pid = p->args.pid,
				    .hi = ~0u,
				    .budget = p->t.run.budget,
				    .object_len = (u32)size};
	struct dp_error err = {0};
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int r = f ? dp_run_request(p->run, &rq, name, object, f, &err) : dp_fail(&err, E_RPN_MEMORY, "request");

	if (f)
		fclose(f);
	if (text && out)
		dp_run_format(flags) == DP_FORMAT_TEXT ? dp_ui_put_text(out, text) : (void)fputs(text, out);
	free(text);
	if (r)
		dp_ui_error(&err, NULL);
	return r ? dp_ui_status(err.code) : CMD_OK;
}

/* Probes that cannot be taken out, where the user wants a budget. */
static int check_budget(const struct program *p, const struct dp_rpn_unit *u, u32 flags)
{
	if (p->t.run.budget && (u->modtype != DP_RPN_USER || flags & DP_RUN_UPROBES))
		return dp_ui_fail(E_BUDGET_PROBE, NULL, "%s: its probes are the kernel's", u->name);
	for (u32 i = 0; p->t.run.budget && i < u->nprobes; i++) {
		const struct dp_rpn_probe *q = &u->probes[i];

		if (q->place == DP_RPN_WATCH || dp_program_acts(&q->prog))
			return dp_ui_fail(E_BUDGET_PROBE, NULL, "probe %u of %s %s", i, u->name,
					  q->place == DP_RPN_WATCH ? "watches memory" : "changes the program");
	}
	return CMD_OK;
}

/* Writes to memory or registers, or hands the process over. */
static bool unit_acts(const struct dp_rpn_unit *u)
{
	for (u32 i = 0; i < u->nprobes; i++)
		if (dp_program_acts(&u->probes[i].prog))
			return true;
	return false;
}

static int insert_unit(struct program *p, const struct dp_rpn_unit *u, u32 flags)
{
	bool in_kernel = u->modtype != DP_RPN_USER || flags & DP_RUN_UPROBES;
	pid_t pid = p->args.pid;
	struct dp_error err = {0};
	void *bytes = NULL;
	size_t size = 0;
	int status = CMD_FAILED;

	if (p->t.read_only && unit_acts(u))
		return dp_ui_fail(E_TRACE_WRITES, NULL, "%.150s", u->name);
	flags |= p->args.flags;
	if (check_budget(p, u, flags))
		return CMD_FAILED;
	if (in_kernel && p->lines && !p->t.command && dp_select_is_open(&p->t.select) && !p->t.select.tree)
		return dp_ui_fail(E_KERNEL_WORLDS, NULL, "%.150s, and --all", u->name);
	if (in_kernel && (p->lines || p->child > 0)) { /* the kernel, for as long as that process or command runs */
		p->args.pid = 0;
		flags &= ~(u32)DP_RUN_LATER;
	}
	if (dp_rpn_save(u, &bytes, &size, &err))
		dp_ui_error(&err, NULL);
	else
		status = ask(p, DP_RUN_INSERT, dp_run_with_format(flags, p->formatter ? DP_FORMAT_TEXT : p->t.format),
			     u->name, bytes, size,
			     p->t.quiet || p->t.command || (p->lines && !p->t.select.file) ? NULL : dp_ui_notes());
	p->args.pid = pid;
	free(bytes);
	return status;
}

/* Those programs of the lines that are not in yet. */
static int insert_programs(struct program *p)
{
	int status = CMD_OK;

	for (u32 i = 0; !status && i < p->programs.n; i++) {
		struct line_program *v = &p->programs.v[i];

		if (v->inserted || !v->compiled)
			continue;
		v->inserted = true;
		status = insert_unit(p, &v->unit, (v->uprobes ? DP_RUN_UPROBES : 0) | (v->waits ? DP_RUN_LATER : 0));
	}
	return status;
}

/*
 * A module that the program calls by its name alone: which file that is in the command is known now, so that the
 * command is met as it maps it. Elsewhere, and where it is not found, whatever has the name is meant.
 */
static void find_file(const struct program *p, struct dp_rpn_unit *u)
{
	const struct line_target target = {.command = p->t.command};
	struct dp_error ignored;
	struct line_finder f;
	char path[sizeof(u->name)];

	if (!p->t.command || u->modtype != DP_RPN_USER || strchr(u->name, '/') ||
	    !dp_cmd_finder_open(&f, &target, 0, &ignored))
		return;
	if (!strcmp(dp_base_name(f.program), u->name) && strlen(f.program) < sizeof(u->name))
		memcpy(u->name, f.program, strlen(f.program) + 1);
	else if (dp_needed_find(f.program, u->name, path, sizeof(path)))
		snprintf(u->name, sizeof(u->name), "%s", path);
	dp_cmd_finder_close(&f);
}

static int insert(struct program *p)
{
	struct dp_rpn_unit u = {0};
	int status;

	p->args.verb = VERB_INSERT;
	if (p->lines)
		return insert_programs(p);
	if (!dp_probes_read(&p->args, &u))
		return CMD_FAILED;
	find_file(p, &u);
	status = insert_unit(p, &u, 0);
	dp_rpn_free(&u);
	return status;
}

/* ---- while it runs ---- */

/* Programs get them where they get the events; else standard output is not only the command's. */
static void show_aggregates(struct program *p)
{
	bool with_events = (p->t.out_path && dp_ui_messages_json()) || p->t.format == DP_FORMAT_JOURNALD;
	FILE *to = with_events ? p->t.run.out.f : stdout;

	if (p->t.watch)
		return;
	if (p->formatter) {
		dp_cmd_program_give_tables(p);
		return;
	}
	if (p->lines && !dp_cmd_program_has_tables(p))
		return;
	if (p->interval && p->t.format == DP_FORMAT_TEXT)
		dp_ui_time_line();
	ask(p, DP_RUN_VARS, dp_run_with_format(DP_RUN_AGGREGATES, p->t.format), "", NULL, 0, to);
	fflush(to);
}

static bool read_byte(int fd)
{
	char c;
	ssize_t n;

	while ((n = read(fd, &c, 1)) < 0 && errno == EINTR)
		;
	return n == 1;
}

/* In the child: wait for the probes to be in place, then become the command. */
static void become_command(const struct program *p, int go, int result)
{
	int code;

	prctl(PR_SET_NAME, DP_RUN_WAITS);
	if (write(result, "", 1) != 1) /* our parent waits for the name */
		_exit(126);
	if (!read_byte(go))
		_exit(127); /* the program was refused */
	signal(SIGPIPE, SIG_DFL);
	if (dp_cmd_int_ignored)
		signal(SIGINT, SIG_IGN); /* as our parent wanted it */
	execvp(p->t.command[0], p->t.command);
	code = errno;
	if (write(result, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

static int begin_command(struct program *p)
{
	int go[2], result[2];

	if (pipe2(go, O_CLOEXEC) || pipe2(result, O_CLOEXEC))
		return dp_ui_fail(E_FILE_MEMORY, NULL, "pipe: %s", strerror(errno));
	p->child = fork();
	if (!p->child) {
		close(go[1]);
		become_command(p, go[0], result[1]);
	}
	close(go[0]);
	close(result[1]);
	p->go = go[1];
	p->result = result[0];
	p->args.pid = p->t.select.tree ? 0 : p->child;
	p->args.flags |= DP_RUN_LATER;
	if (p->child > 0 && read_byte(p->result))
		return CMD_OK;
	return dp_ui_fail(E_FILE_MEMORY, NULL, "fork: %s", strerror(errno));
}

static int release_command(struct program *p)
{
	int code = 0;
	bool failed = write(p->go, "", 1) != 1 || read(p->result, &code, sizeof(code)) > 0;

	close(p->go);
	close(p->result);
	return failed ? dp_ui_fail(E_FILE_OPEN, NULL, "%s: %s", p->t.command[0], strerror(code)) : CMD_OK;
}

static bool is_over(struct program *p)
{
	if (dp_cmd_stop || dp_run_is_full(p->run) || dp_run_has_ended(p->run) || dp_output_is_left(&p->t.run.out))
		return true;
	if (p->child > 0 && p->ended < 0 && !waitpid(p->child, &p->ended, WNOHANG))
		return false;
	if (p->child > 0 && !p->t.select.tree)
		return true;
	if (p->child > 0 || p->t.select.tree || (p->pids.n && !dp_select_is_open(&p->t.select)))
		return !dp_run_chosen_live(p->run);
	return p->args.pid && kill(p->args.pid, 0) && errno == ESRCH;
}

/* Libraries that lines wait for, where they are loaded from other files than those that are watched. */
static void look_for_modules(struct program *p)
{
	struct dp_pids pids = {0}, below;
	pid_t one = p->child > 0 ? p->child : p->args.pid;
	bool good = !one || dp_pids_add(&pids, one);

	for (u32 i = 0; i < p->pids.n && good; i++)
		good = dp_pids_add(&pids, p->pids.v[i]);
	if (p->t.select.tree) {
		good = dp_pids_below(&pids, &below) && good;
		for (u32 i = 0; i < below.n && good; i++)
			good = dp_pids_add(&pids, below.v[i]);
		dp_pids_free(&below);
	}
	if (dp_cmd_lines_come(p->lines, &p->target, pids.v, pids.n, &p->programs))
		insert_programs(p);
	dp_pids_free(&pids);
}

static int follow(struct program *p)
{
	u64 begin = dp_now_ns(), shown = begin;
	double interval = dp_cmd_table_interval(p->t.format, p->interval);

	while (!is_over(p) && !p->t.run.out.error) {
		u64 now = dp_now_ns();

		if (interval && (double)(now - shown) >= interval * 1e9) {
			if (p->formatter)
				dp_formatter_interval(p->formatter, now);
			show_aggregates(p);
			shown = now;
		}
		if (p->t.run.rate.most && dp_rate_exceeded(&p->t.run.rate, dp_run_hits(p->run), now))
			return dp_ui_fail(E_TRACE_RATE, NULL, "more than %llu hits in a second",
					  (unsigned long long)p->t.run.rate.most);
		if (p->t.run.seconds && (double)(now - begin) >= p->t.run.seconds * 1e9)
			break;
		if (dp_run_turn(p->run, p->t.on_wake ? p->t.wake_fd : -1) && !p->t.on_wake(p->t.wake_arg, p->run))
			break;
		if (p->formatter && dp_cmd_program_write_some(p))
			return CMD_FAILED;
		if (p->lines)
			look_for_modules(p);
		if (p->t.watch && !p->t.watch->turn(p->t.watch->arg))
			break;
	}
	if (p->t.watch)
		p->t.watch->leave(p->t.watch->arg);
	return CMD_OK;
}

static int run(struct program *p)
{
	struct dp_error err = {0};
	int status = CMD_OK;

	dp_cmd_catch_signals();
	if (dp_output_open(&p->t.run.out, p->t.out_path, &dp_cmd_stop, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	status = dp_cmd_deliver(&p->t.delivery, p->t.format, p->t.out_path, false, &p->t.run.out);
	if (status)
		return status;
	if (!p->t.on_wake)
		write_head(p);
	p->run = dp_run_new(write_records, p);
	if (!p->run)
		return dp_ui_fail(E_RPN_MEMORY, NULL, "trace");
	status = dp_format_takes_programs(p->t.format) ? dp_cmd_program_begin_formatter(p) : CMD_OK;
	if (status)
		return status;
	if (p->t.run.rule && !dp_run_keep(p->run, p->t.run.rule, p->t.run.chunks ? p->t.run.chunks->asked : NULL))
		return dp_ui_fail(E_RPN_MEMORY, NULL, "requests");
	dp_run_limit(p->run, p->t.run.max_events);
	if (p->t.opt.ring_size)
		dp_run_set_buffer(p->run, p->t.opt.ring_size);
	if (p->t.watch)
		p->t.watch->begin(p->t.watch->arg, p->run, p->t.run.out.f);
	if (!p->t.quiet)
		dp_run_set_note(p->run, dp_cmd_budget_note, NULL);
	dp_cmd_start_cleaner(&p->cleaner, true);
	if (p->t.command)
		status = begin_command(p);
	if (!status && !choose(p))
		status = dp_ui_fail(E_RPN_MEMORY, NULL, "processes");
	narrow(p);
	if (!status)
		status = insert(p);
	if (status)
		return status; /* a command that waits for its start sees the end of the pipe */
	p->begin = dp_now_ns();
	fflush(p->t.run.out.f); /* the head; a failure is told at the end */
	dp_run_recorded(p->run);
	dp_cmd_program_tell_waiting(p, false);
	if (p->t.on_wake)
		p->t.on_ready(p->t.wake_arg);
	if (p->t.command)
		status = release_command(p);
	if (!status) {
		dp_ui_ready();
		status = follow(p);
	}
	dp_run_catch(p->run); /* there may be more to tell */
	dp_cmd_program_tell_let_go(p);
	if (!dp_cmd_program_tell_refused(p) && !status)
		status = CMD_FAILED;
	dp_run_finish(p->run);
	if (!status && dp_run_left_in(p->run))
		status = CMD_FAILED;
	if (!p->t.on_wake)
		show_aggregates(p);
	dp_cmd_program_tell_end(p);
	status = status ? status : dp_cmd_program_check_found(p);
	return status ? status : dp_cmd_program_write_whole(p);
}

static int finish(struct program *p, int status)
{
	struct dp_error err = {0};

	if (p->t.run.out.f && p->begin)
		fflush(p->t.run.out.f);
	if (p->t.run.chunks)
		dp_chunks_free(p->t.run.chunks); /* whose files are the journal's */
	dp_run_recorded_all(p->run);
	dp_run_free(p->run); /* the probes are out, and all records with them */
	dp_formatter_free(p->formatter);
	free(p->events);
	dp_cmd_end_cleaner(&p->cleaner);
	if (!p->begin || status) /* a file into which nothing was written */
		dp_output_drop(&p->t.run.out);
	if (dp_output_close(&p->t.run.out, &err) && !dp_output_unwanted(&p->t.run.out) && !status) {
		dp_ui_error(&err, NULL);
		status = CMD_FAILED;
	}
	return dp_cmd_delivered(&p->t.delivery, p->t.quiet, status);
}

int dp_cmd_trace_lines(struct trace *t)
{
	struct program p = {.args.verb = VERB_INSERT,
			    .cleaner.fd = -1,
			    .t = *t,
			    .lines = &t->lines,
			    .interval = t->interval,
			    .ended = -1};
	int status = CMD_FAILED;

	if (!set_target(&p))
		return CMD_FAILED;
	p.target = (struct line_target){.pids = p.pids.n ? p.pids.v : &p.args.pid,
					.npids = p.pids.n ? p.pids.n : p.args.pid != 0,
					.command = t->command,
					.all = is_of_file(&t->select) ? t->select.file : NULL,
					.wait = t->wait_modules,
					.defines = t->defines,
					.ndefines = t->ndefines,
					.quiet = t->quiet,
					.allow_trap = t->opt.allow_trap,
					.tree = t->select.tree,
					.skip = t->opt.skip_refused};
	if (p.target.all)
		p.target.npids = 0;
	else if (p.pids.n)
		dp_cmd_lines_sort(&t->lines, p.pids.v, p.pids.n);
	if (dp_cmd_lines_compile(&t->lines, &p.target, &p.programs))
		status = finish(&p, run(&p));
	if (!status && p.ended > 0)
		status = dp_ui_status_of(p.ended);
	dp_cmd_lines_free(&p.programs);
	dp_pids_free(&p.pids);
	dp_select_free(&t->select);
	return status;
}

static int trace_program(enum cmd_verb verb, enum dp_format format, int argc, char **argv)
{
	struct program p = {
	    .args.verb = VERB_INSERT, .cleaner.fd = -1, .t = {.of_programs = true, .format = format}, .ended = -1};
	bool done = false;
	int status = parse(&p, verb, argc, argv, &done);

	if (status == CMD_OK && !done)
		status = finish(&p, run(&p));
	free((void *)p.args.lines);
	dp_probes_args_free(&p.args);
	dp_event_lines_free(&p.t.lines);
	dp_pids_free(&p.pids);
	dp_select_free(&p.t.select);
	return status;
}

int dp_cmd_trace_program(int argc, char **argv)
{
	return trace_program(VERB_TRACE_PROGRAM, DP_FORMAT_TEXT, argc, argv);
}

int dp_cmd_record_program(int argc, char **argv)
{
	return trace_program(VERB_RECORD_PROGRAM, DP_FORMAT_RECORDING, argc, argv);
}
