/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Records and tables of lines that were compiled, out of a recording: shown as a run of programs shows them. */
#include <stdlib.h>
#include <time.h>

#include "abi/abi-record.h"
#include "log/aggregate.h"
#include "log/log-rpn.h"
#include "program/described.h"
#include "run/run-report.h"

/* Each record is a text of its own; else the formatter takes all. */
static bool is_text(const struct dp_report *r)
{
	return dp_format_of_programs(r->format);
}

int dp_report_check_programs(const struct dp_report *r, struct dp_error *err)
{
	struct dp_recording_info info;

	dp_recording_info(r->from, &info);
	if (!info.nprograms || is_text(r) || dp_format_takes_programs(r->format))
		return 0;
	return dp_fail(err, E_REC_FORMAT, "--format %s", dp_format_name(r->format));
}

static void write_line(struct dp_report *r, struct dp_line *l)
{
	if (l->n && !l->broken)
		fwrite(l->text, 1, l->n, r->out.f);
	dp_line_free(l);
}

/* Made of lines: their programs say of records that they are events'. */
static bool is_of_lines(const struct dp_report *r)
{
	struct dp_recording_info info;
	bool any = false;

	dp_recording_info(r->from, &info);
	for (u32 i = 0; i < info.nprograms; i++) {
		const struct dp_rf *rf = dp_recording_program(r->from, i)->probes[0].rf;

		any |= rf && rf->event;
	}
	return any || !info.nprograms;
}

void dp_report_program_head(struct dp_report *r, struct dp_formatter *f)
{
	struct dp_line l = {0};

	if (is_text(r))
		dp_rpn_log_head(&l, r->format, is_of_lines(r));
	else
		dp_formatter_head(f);
	write_line(r, &l);
}

/* ---- records ---- */

static void name_task(const struct dp_record *rec, struct dp_report_source *at, char comm[20])
{
	u32 tid = rec->tid;

	if (dp_view_comm(rec))
		dp_format(comm, 20, "%.16s", dp_view_comm(rec));
	else if (!dp_report_name_thread(at, &tid, comm))
		dp_format(comm, 20, "<...>");
}

void dp_report_program(struct dp_report *r, struct dp_formatter *f, struct dp_report_source *at,
		       const struct dp_record *rec)
{
	const struct dp_recording_hit *hit = dp_recording_hit(r->from, rec->event);
	char comm[20];
	struct dp_rpn_context c = {.module = hit->unit->name,
				   .comm = comm,
				   .id = hit->unit->id,
				   .offset = hit->offset,
				   .ns = rec->tsc,
				   .symbolize = dp_report_symbolize,
				   .code_file = dp_report_code_file,
				   .symbolize_arg = at,
				   .pid = dp_report_pid(at),
				   .rf = hit->probe->rf,
				   .unit = hit->unit,
				   .probe = hit->probe};
	struct dp_recording_info info;
	struct dp_line l = {0};

	name_task(rec, at, comm);
	dp_recording_info(r->from, &info);
	c.realtime_ns = c.ns + info.head.real_ns - info.head.mono_ns;
	if (!is_text(r))
		dp_formatter_program(f, rec, &c);
	else if (!dp_rpn_log(&l, r->format, rec, &c))
		dp_line_reset(&l);
	write_line(r, &l);
}

/* ---- tables ---- */

static struct dp_agg_view view_of(const struct dp_recording_tables_read *t, struct dp_report_source *at)
{
	return (struct dp_agg_view){.pid = (pid_t)dp_report_pid(at),
				    .ended = t->ended,
				    .symbolize = dp_report_symbolize,
				    .arg = at,
				    .code_file = dp_report_code_file,
				    .taken_out = t->taken_out};
}

void dp_report_printed(struct dp_report *r, struct dp_formatter *f, const struct dp_recording_tables_read *t)
{
	const struct dp_rpn_unit *u = dp_recording_program(r->from, t->program);
	struct dp_report_source at = {r->from, t->source};
	const struct dp_agg_view view = view_of(t, &at);

	if (is_text(r))
		dp_agg_show(r->format, u, t->words, t->only, &view, r->out.f);
	else
		dp_formatter_print(f, u, t->words, t->only, &view);
}

/* Those of one program, and where their names are from. */
struct whole {
	const struct dp_rpn_unit *u;
	struct dp_agg_source *v;
	struct dp_report_source *at;
	u32 n;
	bool merged; /* for people, those whose keys have the process are one */
};

static void gather(const struct dp_report *r, const struct dp_recording_tables_read *v, u32 n, u32 program,
		   struct whole *w)
{
	*w = (struct whole){.u = dp_recording_program(r->from, program),
			    .v = calloc(n, sizeof(*w->v)),
			    .at = calloc(n, sizeof(*w->at))};
	for (u32 i = 0; w->v && w->at && i < n; i++) {
		const struct dp_recording_tables_read *t = &v[i];

		if (t->program != program)
			continue;
		w->at[w->n] = (struct dp_report_source){r->from, t->source};
		w->v[w->n] = (struct dp_agg_source){.words = t->words, .view = view_of(t, &w->at[w->n])};
		w->n++;
	}
	w->merged = r->format == DP_FORMAT_TEXT && w->n > 1 && dp_agg_any_merged(w->u);
}

static void show_own(struct dp_report *r, struct dp_formatter *f, const struct whole *w, u32 i)
{
	const struct dp_agg_source *s = &w->v[i];

	if (!is_text(r))
		dp_formatter_aggregates(f, w->u, s->words, &s->view);
	else if (r->format != DP_FORMAT_TEXT)
		dp_agg_show(r->format, w->u, s->words, DP_AGG_ALL, &s->view, r->out.f);
	else if (w->merged ? dp_agg_any_own(w->u) : dp_agg_any_shown(w->u))
		dp_agg_show_process(w->u, s->words, w->merged, &s->view, r->out.f);
}

/* Of processes that have ended, or of the others. */
static void show_some(struct dp_report *r, struct dp_formatter *f, const struct whole *w, bool ended)
{
	for (u32 i = 0; i < w->n; i++)
		if (w->v[i].view.ended == ended)
			show_own(r, f, w, i);
	if (ended && w->merged)
		dp_agg_show_merged(w->u, w->v, w->n, r->out.f);
}

static void show_set(struct dp_report *r, struct dp_formatter *f, const struct dp_recording_tables_read *v, u32 n)
{
	struct dp_recording_info info;
	struct whole w;

	dp_recording_info(r->from, &info);
	for (u32 ended = 0; n && ended < 2; ended++)
		for (u32 i = 0; i < info.nprograms; i++) {
			gather(r, v, n, i, &w);
			show_some(r, f, &w, ended);
			free(w.v);
			free(w.at);
		}
}

/* As dprobes trace --interval begins each look at the tables; by the clock of the machine that has recorded. */
static void put_time(struct dp_report *r, const struct dp_recording_info *info, u64 ns)
{
	time_t t = (time_t)((ns + info->head.real_ns - info->head.mono_ns) / 1000000000u);
	struct tm tm;
	char text[32];

	if (r->format != DP_FORMAT_TEXT || !localtime_r(&t, &tm))
		return;
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	fprintf(r->out.f, "---- %s\n", text);
}

void dp_report_interval(struct dp_report *r, struct dp_formatter *f, u64 ns, const struct dp_recording_tables_read *v,
			u32 n)
{
	struct dp_recording_info info;

	dp_recording_info(r->from, &info);
	if (!is_text(r) && !dp_format_takes_tables_again(r->format))
		return;
	put_time(r, &info, ns);
	dp_formatter_interval(f, ns);
	show_set(r, f, v, n);
	dp_formatter_commit(f);
}

void dp_report_tables(struct dp_report *r, struct dp_formatter *f)
{
	struct dp_recording_info info;

	dp_recording_info(r->from, &info);
	if (info.has_intervals && info.ntables)
		put_time(r, &info, info.head.mono_ns + info.lasted_ns);
	show_set(r, f, dp_recording_tables(r->from), info.ntables);
}
