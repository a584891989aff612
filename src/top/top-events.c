/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Rows of event lines. A line that shows returns gets two aggregates more, TIMES and SUM with the line's number, by
 * which the hits keep how long the calls took; all other aggregates are tables.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/dpcc.h"
#include "lang/event/event.h"
#include "log/aggregate.h"
#include "run/run-rows.h"
#include "top/top-events.h"

#define TIMES "top_times_"
#define SUM "top_sum_"

bool dp_top_is_line(const char *text)
{
	size_t n = strcspn(text, " \t"), kind = 1;

	if (dp_cc_line_is_body(text))
		return true;
	while (*text == 'r' && kind < n && text[kind] >= '0' && text[kind] <= '9')
		kind++;
	return *text && text[n] && strchr("prwus", *text) && (kind == n || text[kind] == ':');
}

static const char *const keepers[] = {"count", "sum", "min", "max", "avg", "hist", "lhist", "quantiles", "by"};

/* Whether a line keeps something of its own, behind its place: then it shows that. */
static bool keeps(const char *rest)
{
	for (size_t i = 0; i < DP_ARRAY_SIZE(keepers); i++)
		for (const char *at = rest; (at = strstr(at, keepers[i])); at++)
			if ((at == rest || strchr(" \t,=", at[-1])) && strchr(" \t,(", at[strlen(keepers[i])]))
				return true;
	return strchr(rest, '{') != NULL;
}

/* Where its condition begins; the end: it has none. */
static const char *condition(const char *rest)
{
	const char *p = rest;

	for (bool quoted = false; *p; p++) {
		quoted ^= *p == '"' && (p == rest || p[-1] != '\\');
		if (!quoted && p > rest && strchr(" \t", p[-1]) && !strncmp(p, "if", 2) && strchr(" \t(", p[2]) && p[2])
			break;
	}
	return p;
}

char *dp_top_addition(const char *text, u32 number, u32 *at)
{
	const char *rest, *key = "";
	struct dp_event ev;
	char *out = NULL;
	u32 behind;

	*at = 0;
	if (dp_cc_line_is_body(text) || dp_event_head(&ev, text, &behind, NULL))
		return strdup(""); /* whoever compiles it tells what is wrong */
	rest = text + behind;
	if (keeps(rest) || !(ev.is_return || (ev.is_call && strstr(rest, "$duration"))))
		return strdup("");
	if (ev.is_call)
		key = " by $call";
	else if (strpbrk(ev.loc.symbol, "*?["))
		key = " by $ip";
	*at = (u32)(condition(rest) - text);
	if (asprintf(&out, " " TIMES "%u=quantiles($duration) " SUM "%u=sum($duration)%s ", number, number, key) < 0)
		return NULL;
	return out;
}

/* ---- the source ---- */

struct filling {
	struct dp_top_events *e;
	struct dp_top *t;
};

/* What the summary calls the rows of the line: of one function, or of the key's. */
static bool row_name(const struct dp_top_events *e, u32 number, const char *key, char *buf, size_t size)
{
	struct dp_event ev;
	u32 behind;

	if (number >= e->nlines || dp_event_head(&ev, e->lines[number], &behind, NULL))
		return false;
	if (ev.is_named || ev.is_call)
		snprintf(buf, size, "%.200s", ev.is_named ? ev.name : key);
	else
		snprintf(buf, size, "<-%.200s", key ? key : ev.loc.symbol);
	return true;
}

static void add_times(struct dp_top_row *row, const struct dp_agg_table *table, const u64 *v)
{
	u64 *bars = dp_top_bars(row);

	if (table->a->kind == DP_AGG_SUM) {
		row->sum_ns += v[0];
		row->ncalls += v[1];
		row->total = row->sum_ns;
		return;
	}
	for (u32 i = 0; bars && i < DP_QUANTILE_WORDS; i++)
		bars[i] += v[i];
}

static void take_times(const struct filling *f, const struct dp_agg_table *table, u32 number)
{
	char key[256], name[256];

	for (u32 i = 0; i < table->n; i++) {
		struct dp_top_row *row = NULL;

		if (table->a->nparts) {
			dp_agg_part(table, 0, table->v[i].key, key, sizeof(key));
			if (table->a->parts[0] == DP_KEY_CODE)
				dp_stacks_function(key);
		}
		if (row_name(f->e, number, table->a->nparts ? key : NULL, name, sizeof(name)))
			row = dp_top_row(f->t, name);
		if (row)
			add_times(row, table, table->v[i].v);
	}
}

static void put_table(struct dp_top *t, const struct dp_agg_table *table)
{
	if (!t->tables_as_json) {
		dp_agg_put(DP_FORMAT_TEXT, table, &t->tables);
		return;
	}
	if (t->tables.n)
		dp_line_char(&t->tables, ',');
	dp_agg_put(DP_FORMAT_JSON, table, &t->tables);
	while (t->tables.n && t->tables.text[t->tables.n - 1] == '\n')
		t->tables.n--;
}

static void take_table(void *arg, const struct dp_agg_table *table)
{
	const struct filling *f = arg;
	const char *name = table->a->name;

	if (!strncmp(name, SUM, strlen(SUM)))
		take_times(f, table, (u32)strtoul(name + strlen(SUM), NULL, 10));
	else if (!strncmp(name, TIMES, strlen(TIMES)))
		take_times(f, table, (u32)strtoul(name + strlen(TIMES), NULL, 10));
	else if (table->a->kind != DP_AGG_LAST)
		put_table(f->t, table);
}

static void take_words(void *arg, const struct dp_rpn_unit *u, volatile u64 *words, const struct dp_agg_view *view)
{
	dp_agg_each(u, words, DP_AGG_ALL, view, take_table, arg);
}

static void refresh(void *arg, struct dp_top *t)
{
	struct dp_top_events *e = arg;
	struct filling f = {e, t};
	struct dp_trace_row total, *rows;
	u32 n = 0;

	for (u32 i = 0; i < t->n; i++) {
		struct dp_top_row *row = &t->rows[i];

		row->hits = row->ncalls = row->sum_ns = row->total = 0;
		if (row->bars)
			memset(row->bars, 0, DP_QUANTILE_WORDS * sizeof(u64));
	}
	rows = e->run ? dp_run_rows(e->run, &n, &total) : NULL;
	for (u32 i = 0; i < n; i++) {
		struct dp_top_row *row = dp_run_row_is_entry(rows[i].name) ? NULL : dp_top_row(t, rows[i].name);

		if (row)
			row->hits += rows[i].hits;
	}
	t->lost = n ? total.counts.v[DP_COUNT_LOST] : 0;
	dp_free(rows);
	if (e->run)
		dp_run_each_words(e->run, take_words, &f);
}

static int pause_row(void *arg, struct dp_top_row *row, bool off, struct dp_error *err)
{
	struct dp_top_events *e = arg;

	return dp_run_pause(e->run, row->name, off, err);
}

static void reset(void *arg)
{
	struct dp_top_events *e = arg;

	dp_run_clear_aggregates(e->run);
}

struct dp_top_source dp_top_events_source(struct dp_top_events *e)
{
	return (struct dp_top_source){.refresh = refresh, .pause = pause_row, .reset = reset, .arg = e};
}
