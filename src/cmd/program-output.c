/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See trace-program.h: formats that are made at the end, and recordings. */
#include <stdlib.h>

#include "base/now.h"
#include "cmd/trace-program.h"
#include "log/log-rpn.h"
#include "run/run.h"
#include "run/run-rows.h"

static void put_rows(void *arg, struct dp_line *to)
{
	const struct program *p = arg;

	dp_run_put_rows(p->run, to);
}

static void put_source(void *arg, u32 source, struct dp_line *to)
{
	const struct program *p = arg;

	dp_run_put_process(p->run, source, to);
}

static u64 lasted_ns(void *arg)
{
	const struct program *p = arg;

	return p->begin ? dp_now_ns() - p->begin : 0;
}

/* Those of all lines that are compiled by now, so that the format knows which belong together. False: no memory. */
static bool list_events(struct program *p)
{
	u32 n = 0;

	for (u32 i = 0; i < p->programs.n; i++)
		n += p->programs.v[i].compiled ? p->programs.v[i].unit.nprobes : 0;
	p->events = calloc(n + 1, sizeof(*p->events));
	for (u32 i = 0; p->events && i < p->programs.n; i++)
		if (p->programs.v[i].compiled)
			p->nevents += dp_rpn_events(&p->programs.v[i].unit, p->events + p->nevents);
	return p->events;
}

static bool make_formatter(struct program *p)
{
	struct dp_format_env env = {.recording = &p->facts};

	if (!list_events(p))
		return false;
	env.described = p->events;
	env.ndescribed = p->nevents;
	p->facts = (struct dp_recording_env){p, put_source, put_rows, lasted_ns, .of_programs = true};
	if (dp_formatter_new(&p->formatter, p->t.format, p->t.run.out.f, &env))
		return false;
	dp_formatter_head(p->formatter);
	dp_run_give_to(p->run, p->formatter);
	return true;
}

static void give_words(void *formatter, const struct dp_rpn_unit *u, volatile u64 *words,
		       const struct dp_agg_view *view)
{
	dp_formatter_aggregates(formatter, u, words, view);
}

/* Of a recording in several files, or of what a flight recorder has kept. */
void dp_cmd_program_give_tables(void *arg)
{
	const struct program *p = arg;

	dp_run_each_words(p->run, give_words, p->formatter);
}

int dp_cmd_program_begin_formatter(struct program *p)
{
	struct dp_chunks *chunks = p->t.run.chunks;
	const struct dp_journal *journal = NULL;
	struct dp_error err = {0};

	if (p->t.format == DP_FORMAT_RECORDING)
		journal = dp_run_record(p->run, &p->t.run.out, chunks);
	if (chunks && dp_chunks_begin(chunks, &p->t.run.out, journal, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	if (!make_formatter(p))
		return dp_ui_fail(E_RPN_MEMORY, NULL, "format %s", dp_format_name(p->t.format));
	if (!chunks)
		return CMD_OK;
	chunks->ending = dp_cmd_program_give_tables;
	chunks->ending_arg = p;
	if (chunks->on_event)
		dp_run_ask_at_end(p->run, chunks->asked);
	return CMD_OK;
}

/* Behind the last record. */
int dp_cmd_program_write_whole(struct program *p)
{
	const char *trouble = p->formatter ? dp_formatter_finish(p->formatter) : NULL;
	struct dp_error err = {0};

	if (trouble)
		return dp_ui_fail(E_OUT_WHOLE, NULL, "%s: %s", p->t.run.out.name, trouble);
	if (!p->t.run.chunks || !dp_chunks_end(p->t.run.chunks, &p->t.run.out, p->formatter, &err))
		return CMD_OK;
	dp_ui_error(&err, NULL);
	return CMD_FAILED;
}

/* Of a format that need not wait for the end. */
int dp_cmd_program_write_some(struct program *p)
{
	struct dp_error err = {0};

	dp_formatter_commit(p->formatter);
	fflush(p->t.run.out.f); /* a failure is told at the end */
	dp_run_recorded(p->run);
	if (!p->t.run.chunks)
		return CMD_OK;
	if (!dp_chunks_turn(p->t.run.chunks, &p->t.run.out, p->formatter, &err)) {
		dp_run_recorded(p->run);
		return CMD_OK;
	}
	dp_ui_error(&err, NULL);
	return CMD_FAILED;
}
