/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The rows of top.h: rates, order, filter, callers. Shows nothing, and asks no process. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "host/process/process.h"
#include "log/aggregate.h"
#include "top/top.h"

#define END_TURN_NS 3e8 /* the end of a turn that was cut is one, if it lasted so long */

bool dp_top_init(struct dp_top *t, enum dp_top_kind kind, const struct dp_top_source *source)
{
	*t = (struct dp_top){.kind = kind, .source = source};
	dp_top_begin(t);
	t->sort = kind == DP_TOP_SAMPLES ? DP_TOP_SELF : DP_TOP_RATE;
	return dp_graph_table_init(&t->edges);
}

void dp_top_free(struct dp_top *t)
{
	for (u32 i = 0; i < t->n; i++)
		free(t->rows[i].bars);
	free(t->rows);
	free(t->row_of);
	free(t->order);
	dp_line_free(&t->tables);
	dp_graph_table_free(&t->edges);
	*t = (struct dp_top){0};
}

/* ---- rows ---- */

static u32 *row_slot(struct dp_top *t, u32 name)
{
	while (t->row_of_n <= name) {
		if (!dp_grow((void **)&t->row_of, &t->row_of_room, t->row_of_n, sizeof(*t->row_of)))
			return NULL;
		t->row_of[t->row_of_n++] = 0;
	}
	return &t->row_of[name];
}

struct dp_top_row *dp_top_row(struct dp_top *t, const char *name)
{
	u32 number = dp_stacks_name(&t->edges.names, name), *at = row_slot(t, number);

	if (!at || t->edges.names.broken)
		return NULL;
	if (*at)
		return &t->rows[*at - 1];
	if (!dp_grow((void **)&t->rows, &t->room, t->n, sizeof(*t->rows)))
		return NULL;
	t->rows[t->n] = (struct dp_top_row){.name = t->edges.names.names[number]};
	*at = ++t->n;
	return &t->rows[t->n - 1];
}

u64 *dp_top_bars(struct dp_top_row *row)
{
	if (!row->bars)
		row->bars = calloc(DP_QUANTILE_WORDS, sizeof(u64));
	return row->bars;
}

u64 dp_top_hits(const struct dp_top_row *row)
{
	return row->hits > row->base ? row->hits - row->base : 0;
}

u64 dp_top_mean(const struct dp_top_row *row)
{
	return row->ncalls ? row->sum_ns / row->ncalls : 0;
}

u64 dp_top_quantile(const struct dp_top_row *row, double part)
{
	u64 v = row->bars && dp_agg_values(row->bars) ? dp_agg_quantile(row->bars, part) : 0;

	return row->longest ? DP_MIN(v, row->longest)
			    : v; /* that is the end of a bar, which may be longer than any call */
}

/* ---- turns ---- */

bool dp_top_matches(const struct dp_top *t, const char *name)
{
	if (!*t->filter)
		return true;
	return strpbrk(t->filter, "*?[") ? !fnmatch(t->filter, name, 0) : strstr(name, t->filter) != NULL;
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct dp_top *t = arg;
	const struct dp_top_row *x = &t->rows[*(const u32 *)a], *y = &t->rows[*(const u32 *)b];
	double vx = dp_top_value(t, x, t->sort), vy = dp_top_value(t, y, t->sort);
	int r = t->sort == DP_TOP_NAME || vx == vy ? 0 : vx > vy ? -1 : 1;

	if (!r && t->sort != DP_TOP_NAME && dp_top_hits(x) != dp_top_hits(y))
		r = dp_top_hits(x) > dp_top_hits(y) ? -1 : 1;
	if (!r)
		r = strcmp(x->name, y->name);
	return t->ascending ? -r : r;
}

void dp_top_order(struct dp_top *t)
{
	t->nshown = 0;
	for (u32 i = 0; i < t->n; i++) {
		const struct dp_top_row *row = &t->rows[i];

		/* Functions are many, and most are never called. */
		if (!dp_top_matches(t, row->name) || !(dp_top_hits(row) || row->off || t->kind == DP_TOP_EVENTS))
			continue;
		if (!dp_grow((void **)&t->order, &t->order_room, t->nshown, sizeof(*t->order)))
			return;
		t->order[t->nshown++] = i;
	}
	if (t->nshown)
		qsort_r(t->order, t->nshown, sizeof(*t->order), compare, t);
}

void dp_top_begin(struct dp_top *t)
{
	t->turned_ns = t->reset_ns = dp_now_ns();
}

void dp_top_turn(struct dp_top *t)
{
	u64 now = dp_now_ns();

	t->lasted = (double)(now - t->turned_ns) / 1e9;
	t->turned_ns = now;
	dp_line_reset(&t->tables);
	t->source->refresh(t->source->arg, t);
	for (u32 i = 0; i < t->n; i++) {
		struct dp_top_row *row = &t->rows[i];
		u64 more = row->hits - DP_MIN(row->hits, row->hits_before);

		row->rate = t->lasted > 0 ? (double)more / t->lasted : 0;
		row->hits_before = row->hits;
		row->trend[t->turns % DP_TOP_TREND] = row->rate;
	}
	t->turns++;
	dp_top_order(t);
}

void dp_top_end(struct dp_top *t)
{
	if (!t->turns || (double)(dp_now_ns() - t->turned_ns) > END_TURN_NS) {
		dp_top_turn(t);
		return;
	}
	dp_line_reset(&t->tables);
	t->source->refresh(t->source->arg, t);
	dp_top_order(t);
}

void dp_top_reset(struct dp_top *t)
{
	t->reset_ns = dp_now_ns();
	t->samples = 0;
	for (u32 i = 0; i < t->n; i++) {
		struct dp_top_row *row = &t->rows[i];

		row->base = row->hits;
		row->ncalls = row->sum_ns = row->total = row->self = row->longest = 0;
		if (row->bars)
			memset(row->bars, 0, DP_QUANTILE_WORDS * sizeof(u64));
	}
	memset(t->edges.rows, 0, t->edges.nrows * sizeof(*t->edges.rows));
	if (t->source->reset)
		t->source->reset(t->source->arg);
	dp_top_order(t);
}

const char *dp_top_remark(const struct dp_top_row *row)
{
	return row->off ? " (disabled)" : row->out ? " (taken out)" : "";
}

int dp_top_toggle(struct dp_top *t, struct dp_top_row *row, struct dp_error *err)
{
	int r = t->source->pause
		    ? t->source->pause(t->source->arg, row, !row->off, err)
		    : dp_fail(err, E_ARM_CHANGE, "%s",
			      t->kind == DP_TOP_SAMPLES ? "samples have no probes"
							: "the budget takes them out and brings them back");

	if (!r)
		row->off = !row->off;
	return r;
}

/* ---- callers and callees ---- */

static int by_calls(const void *a, const void *b)
{
	const struct dp_top_edge *x = a, *y = b;

	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* The edges of one function (function: its number), or all that lead from it (caller). */
static u32 edges(const struct dp_top *t, const char *function, const char *caller, struct dp_top_edge **out)
{
	const struct dp_stacks *s = &t->edges.names;
	size_t room = 0;
	u32 n = 0;

	*out = NULL;
	for (u32 f = s->nodes[0].child; f; f = s->nodes[f].sibling) {
		const char *name = s->names[s->nodes[f].name];

		if (function && strcmp(name, function) != 0)
			continue;
		for (u32 c = s->nodes[f].child; c; c = s->nodes[c].sibling) {
			const char *from = s->names[s->nodes[c].name];

			if (c >= t->edges.nrows || !t->edges.rows[c].calls || (caller && strcmp(from, caller) != 0) ||
			    !dp_grow((void **)out, &room, n, sizeof(**out)))
				continue;
			(*out)[n++] = (struct dp_top_edge){function ? from : name, t->edges.rows[c].calls,
							   t->edges.rows[c].total};
		}
	}
	if (n)
		qsort(*out, n, sizeof(**out), by_calls);
	return n;
}

u32 dp_top_callers(const struct dp_top *t, const char *name, struct dp_top_edge **v)
{
	return edges(t, name, NULL, v);
}

u32 dp_top_callees(const struct dp_top *t, const char *name, struct dp_top_edge **v)
{
	return edges(t, NULL, name, v);
}
