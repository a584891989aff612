/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes top`: a trace whose records become rows (src/top). Patterns of functions are traced as `dprobes graph` does,
 * event lines are compiled to programs that add up at the hits.
 */
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd-trace.h"
#include "host/process/process.h"
#include "run/run-select.h"
#include "top/top-calls.h"
#include "top/top-events.h"
#include "top/top-sample.h"
#include "top/top-show.h"

#define SAMPLES_MAX 10000
#define SAMPLE_TURN_MS(hz) ((hz) > 2000 ? 5 : 20) /* a ring holds some sixty samples */

struct top {
	struct trace t;
	struct dp_top model;
	struct dp_top_source source;
	struct dp_top_show show;
	struct dp_top_events events;
	struct trace_watch watch;
	const char **operands;
	u32 n;
	const char *whom; /* of -p */
	bool is_plain, is_json;
	u64 hz; /* 0: probes */
};

/* ---- the command line ---- */

static int add_operand(struct top *p, const char *text)
{
	const char **more = realloc(p->operands, (p->n + 1) * sizeof(*more));

	if (!more)
		return dp_ui_fail(E_CMD_EVENTS, NULL, "no memory");
	p->operands = more;
	p->operands[p->n++] = text;
	if (dp_top_is_line(p->operands[0]) != dp_top_is_line(text))
		return dp_ui_fail(E_CMD_EXTRA, "give patterns of functions, or event lines",
				  "'%s' is a pattern, '%s' is an event line",
				  p->operands[dp_top_is_line(text) ? 0 : p->n - 1],
				  p->operands[dp_top_is_line(text) ? p->n - 1 : 0]);
	return 0;
}

static int take_option(void *arg, int id, const char *value)
{
	struct top *p = arg;

	switch (id) {
	case CMD_OPT_OPERAND:
		return add_operand(p, value);
	case OPT_PLAIN:
		p->is_plain = true;
		return 0;
	case OPT_JSON:
		p->is_json = true;
		return 0;
	case OPT_INTERVAL:
		return dp_cmd_parse_seconds(value, &p->show.interval) ? 0 : CMD_USAGE;
	case OPT_COUNT:
		return dp_cmd_parse_count(value, &p->show.turns) ? 0 : CMD_USAGE;
	case OPT_SAMPLE:
		if (!dp_cmd_parse_count(value, &p->hz))
			return CMD_USAGE;
		return p->hz <= SAMPLES_MAX
			   ? 0
			   : dp_ui_fail(E_CMD_VALUE, "give 1 to 10000 samples a second", "'%s' is too many", value);
	case OPT_PID:
		p->whom = value;
		return dp_cmd_trace_option(&p->t, id, value);
	default:
		return dp_cmd_trace_option(&p->t, id, value);
	}
}

static bool of_events(const struct top *p)
{
	return p->n && dp_top_is_line(p->operands[0]);
}

static int check(const struct top *p)
{
	bool in_process = dp_select_any(&p->t.select);

	if (p->hz && (p->n || p->t.command || !in_process))
		return dp_ui_fail(in_process ? E_CMD_EXTRA : E_CMD_MISSING, "give a process with -p, and nothing else",
				  "--sample samples all functions of one process");
	if (p->t.run.budget && (p->hz || of_events(p)))
		return dp_ui_fail(E_CMD_EXTRA, "leave it out, or give patterns of functions",
				  "--budget has no effect on %s", p->hz ? "samples" : "event lines");
	if (in_process && p->t.command)
		return dp_ui_fail(E_CMD_EXTRA, "leave out one of them", "both a process and a command are given");
	if (!in_process && !p->t.command && !of_events(p))
		return dp_ui_fail(E_CMD_MISSING, "give a process with -p, or a command after --",
				  "no process to probe");
	return CMD_OK;
}

/* A screen needs a terminal to show and to type. */
static void choose_form(struct top *p)
{
	struct dp_top_show *s = &p->show;

	s->form = p->is_json ? DP_TOP_JSON : DP_TOP_LINES;
	if (!p->is_json && !p->is_plain && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO)) {
		if (dp_top_screen_missing())
			dp_ui_note("%s: showing lines", dp_top_screen_missing());
		else
			s->form = DP_TOP_SCREEN;
	}
	setlocale(LC_CTYPE, "");
	s->utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	p->t.out_path = s->form == DP_TOP_SCREEN ? "/dev/null" : NULL;
}

static int add_lines(struct top *p)
{
	int r = p->n ? CMD_OK : dp_cmd_add_calls(&p->t.lines, DP_CMD_ALL_FUNCTIONS, false);

	for (u32 i = 0; i < p->n && !r && !of_events(p); i++)
		r = dp_cmd_add_calls(&p->t.lines, p->operands[i], false);
	for (u32 i = 0; i < p->n && !r && of_events(p); i++) {
		struct event_line *line;
		struct dp_error err;

		if (dp_event_lines_add(&p->t.lines, p->operands[i], "", &err)) {
			dp_ui_error(&err, NULL);
			return CMD_FAILED;
		}
		line = &p->t.lines.v[i];
		line->added = dp_top_addition(line->text, i, &line->added_at);
		if (!line->added)
			r = dp_ui_fail(E_CMD_EVENTS, NULL, "no memory");
	}
	if (!r && !of_events(p))
		dp_event_lines_parse(&p->t.lines, false);
	return r;
}

/* ---- the trace ---- */

static void begin(void *arg, struct dp_run *run, FILE *out)
{
	struct top *p = arg;

	p->events.run = run;
	p->show.out = out;
}

static bool turn(void *arg)
{
	struct top *p = arg;

	return dp_top_show_turn(&p->show);
}

static void leave(void *arg)
{
	struct top *p = arg;

	dp_top_show_leave(&p->show);
}

static void last(void *arg)
{
	struct top *p = arg;

	if (!p->show.has_ended || p->show.form == DP_TOP_SCREEN)
		dp_top_end(&p->model);
}

static void put_title(struct top *p)
{
	char comm[16] = "";
	char *end = NULL;
	unsigned long pid = p->whom ? strtoul(p->whom, &end, 10) : 0;

	if (p->whom && pid && !*end && dp_task_comm((u32)pid, comm))
		snprintf(p->model.title, sizeof(p->model.title), "%s (%lu)", comm, pid);
	else
		snprintf(p->model.title, sizeof(p->model.title), "%.150s",
			 p->whom            ? p->whom
			 : p->t.command     ? p->t.command[0]
			 : p->t.select.file ? p->t.select.file
					    : "");
}

static int run(struct top *p)
{
	int status;

	p->source = of_events(p) ? dp_top_events_source(&p->events) : dp_top_calls_source(&p->t.run);
	if (!dp_top_init(&p->model, of_events(p) ? DP_TOP_EVENTS : DP_TOP_CALLS, &p->source))
		return dp_ui_fail(E_CMD_EVENTS, NULL, "no memory");
	put_title(p);
	p->model.tables_as_json = p->is_json;
	p->events.lines = (char *const *)p->operands;
	p->events.nlines = p->n;
	p->show.top = &p->model;
	p->watch = (struct trace_watch){begin, turn, leave, last, p};
	p->t.watch = &p->watch;
	p->t.opt.grows = true;
	p->t.quiet = p->t.run.budget && p->show.form == DP_TOP_SCREEN; /* its notes would be written over the screen */
	p->t.run.sink = &dp_top_calls_sink;
	p->t.run.sink_arg = &p->model;
	status = of_events(p) ? dp_cmd_trace_lines(&p->t) : dp_cmd_trace_run(&p->t);
	if (p->model.turns)
		dp_top_show_last(&p->show);
	if (*p->show.trouble)
		status = dp_ui_fail(E_OUT_SCREEN, "use --plain", "%s", p->show.trouble);
	return status;
}

/* By what samples come, in a note and in the title. */
static void tell_means(struct top *p, const char *no_perf)
{
	size_t n = strlen(p->model.title);

	snprintf(p->model.title + n, sizeof(p->model.title) - n, no_perf ? ", by stops" : ", by perf events");
	if (p->show.form == DP_TOP_JSON)
		return;
	if (no_perf)
		dp_ui_note(
		    "sampling %u times a second, by stopping each thread that runs for some microseconds: there are "
		    "no perf events (%s)",
		    (unsigned)p->hz, no_perf);
	else
		dp_ui_note("sampling by perf events of the software clock, %u a second for each thread that runs",
			   (unsigned)p->hz);
}

/* Without probes: nothing of the process changes. */
static int run_samples(struct top *p)
{
	struct dp_sampler *sampler;
	struct dp_error err = {0};
	u64 begin = dp_now_ns();
	pid_t pid;

	if (!dp_cmd_select_one(&p->t, &pid))
		return CMD_FAILED;
	dp_cmd_catch_signals();
	p->source = dp_top_samples_source();
	if (!dp_top_init(&p->model, DP_TOP_SAMPLES, &p->source))
		return dp_ui_fail(E_CMD_EVENTS, NULL, "no memory");
	put_title(p);
	if (dp_sampler_new(&sampler, pid, (u32)p->hz, &p->model, &err)) {
		dp_ui_error(&err, NULL);
		return dp_ui_status(err.code);
	}
	tell_means(p, dp_sampler_no_perf(sampler));
	p->show.top = &p->model;
	p->show.out = stdout;
	while (!dp_cmd_stop && dp_sampler_turn(sampler, SAMPLE_TURN_MS(p->hz)) && dp_top_show_turn(&p->show))
		if (p->t.run.seconds > 0 && (double)(dp_now_ns() - begin) >= p->t.run.seconds * 1e9)
			break;
	dp_top_show_leave(&p->show);
	if (!p->show.has_ended || p->show.form == DP_TOP_SCREEN)
		dp_top_end(&p->model);
	dp_sampler_free(sampler);
	dp_top_show_last(&p->show);
	return *p->show.trouble ? dp_ui_fail(E_OUT_SCREEN, "use --plain", "%s", p->show.trouble) : CMD_OK;
}

int dp_cmd_top(int argc, char **argv)
{
	struct top p = {.t = {.status = CMD_OK, .format = DP_FORMAT_TEXT, .no_summary = true}, .show = {.interval = 1}};
	bool done = false;
	int r = dp_cmd_options(VERB_TOP, argc, argv, take_option, &p, &p.t.command, &done);

	if (!r && !done)
		r = check(&p);
	if (!r && !done && !p.hz)
		r = add_lines(&p);
	if (!r && !done) {
		choose_form(&p);
		r = p.hz ? run_samples(&p) : run(&p);
	}
	dp_top_free(&p.model);
	dp_select_free(&p.t.select);
	dp_event_lines_free(&p.t.lines);
	free(p.operands);
	return r;
}
