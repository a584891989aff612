/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Aggregates as text: tables by key, the largest first, with bars; histograms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/aggregate.h"
#include "log/human.h"
#include "log/sinks/sink-table.h"

#define KEY_TEXT 512
#define VALUE 32 /* bytes of a number's text */

#define INDENT "    "
#define COUNT " %10llu |" /* in front of a bar */
#define COUNT_COLUMNS 13
#define RANGE_COLUMNS 44

static void put_number(struct dp_line *l, const struct dp_rpn_aggregate *a, double v)
{
	char text[VALUE];

	dp_human_number(a->unit, v, text, sizeof(text));
	dp_line_str(l, text);
}

static void put_whole(struct dp_line *l, const struct dp_rpn_aggregate *a, s64 v)
{
	if (a->unit && !dp_human.raw_units)
		put_number(l, a, (double)v);
	else
		dp_line_signed(l, v);
}

static void put_average(struct dp_line *l, const struct dp_rpn_aggregate *a, const u64 *v)
{
	double average = (double)(s64)v[0] / (double)v[1];

	if (a->unit && !dp_human.raw_units)
		put_number(l, a, average);
	else
		dp_line_format(l, "%.6g", average);
}

static void end_text(char *buf, const struct dp_rpn_aggregate *a, s64 v)
{
	if (a->unit && !dp_human.raw_units)
		dp_human_number(a->unit, (double)v, buf, VALUE);
	else
		snprintf(buf, VALUE, "%lld", (long long)v);
}

/* "0 and less", "4 .. 7", "1.02us .. 2.05us". */
static void put_range(struct dp_line *l, const struct dp_rpn_aggregate *a, u32 i)
{
	char first[VALUE], last[VALUE];
	s64 lo, hi;
	bool open = dp_agg_range(a, i, &lo, &hi);

	end_text(first, a, lo);
	end_text(last, a, a->unit && !dp_human.raw_units ? hi + 1 : hi);
	if (!i && a->kind == DP_AGG_HIST)
		dp_line_format(l, "%20s    %-20s", "", "0 and less");
	else if (!i) {
		end_text(last, a, a->from);
		dp_line_format(l, "%20s    less than %-10s", "", last);
	} else if (open)
		dp_line_format(l, "%20s and more%12s", first, "");
	else
		dp_line_format(l, "%20s .. %-20s", first, last);
}

/* before: columns of the line so far. */
static void put_bar(struct dp_line *l, u32 before, u64 v, double most)
{
	u32 n = (u32)((double)v / most * dp_human_bar(before + COUNT_COLUMNS) + 0.5);

	dp_line_format(l, COUNT, (unsigned long long)v);
	while (n--)
		dp_line_char(l, '#');
	dp_line_char(l, '\n');
}

static void put_hist(struct dp_line *l, const struct dp_rpn_aggregate *a, const u64 *v)
{
	u32 lo = DP_HIST_WORDS, hi = 0;
	u64 most = 1;

	for (u32 i = 0; i < DP_HIST_WORDS; i++) {
		if (!v[i])
			continue;
		lo = DP_MIN(lo, i);
		hi = i;
		most = DP_MAX(most, v[i]);
	}
	for (u32 i = lo; i <= hi && lo < DP_HIST_WORDS; i++) {
		dp_line_str(l, INDENT);
		put_range(l, a, i);
		put_bar(l, (u32)strlen(INDENT) + RANGE_COLUMNS, v[i], (double)most);
	}
}

static void put_quantiles(struct dp_line *l, const struct dp_rpn_aggregate *a, const u64 *v)
{
	u64 n = dp_agg_values(v);

	dp_line_format(l, "%llu values", (unsigned long long)n);
	for (u32 i = 0; n && dp_agg_parts_shown[i].name; i++) {
		dp_line_format(l, ", %s ", dp_agg_parts_shown[i].name);
		put_whole(l, a, (s64)dp_agg_quantile(v, dp_agg_parts_shown[i].part));
	}
}

static void put_value(struct dp_line *l, const struct dp_rpn_aggregate *a, const u64 *v)
{
	u32 kind = a->kind;

	if (kind == DP_AGG_QUANTILES) {
		put_quantiles(l, a, v);
		return;
	}
	if (a->average && v[1]) {
		put_average(l, a, v);
		dp_line_format(l, ", %llu values", (unsigned long long)v[1]);
		return;
	}
	if (kind == DP_AGG_COUNT)
		dp_line_dec(l, v[0], 0, ' ');
	else if (kind != DP_AGG_LAST && !v[1])
		dp_line_char(l, '-');
	else
		put_whole(l, a, (s64)v[0]);
	if (kind == DP_AGG_SUM && v[1]) {
		dp_line_format(l, ", %llu values, ", (unsigned long long)v[1]);
		put_average(l, a, v);
		dp_line_str(l, " on average");
	}
}

static void key_text(const struct dp_agg_table *t, const u64 *key, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (u32 i = 0; i < t->a->nparts && n + 3 < size; i++) {
		if (i)
			n += (size_t)snprintf(buf + n, size - n, ", ");
		dp_agg_part(t, i, key, buf + n, size - n);
		n += strlen(buf + n);
		key += dp_rpn_key_part_words(t->a, i);
	}
}

static void put_callers(struct dp_line *l, const struct dp_agg_table *t, const u64 *key)
{
	char name[256];

	for (u32 i = 0; i < t->a->nparts; key += dp_rpn_key_part_words(t->a, i++))
		for (u32 k = 1; t->a->parts[i] == DP_KEY_STACK && dp_agg_frame(t->a, key, k); k++) {
			dp_agg_frame_name(t, key, k, name, sizeof(name));
			dp_line_format(l, "      %s\n", name);
		}
}

static void put_head(struct dp_line *l, const struct dp_rpn_aggregate *a)
{
	dp_line_format(l, "  %-5s %-16s ", dp_agg_kind(a), a->name);
}

static void put_entry(struct dp_line *l, const struct dp_agg_table *t, const struct dp_agg_entry *e, const char *key,
		      int width, double most)
{
	const struct dp_rpn_aggregate *a = t->a;

	if (dp_agg_is_hist(a)) {
		dp_line_format(l, "    %s\n", key);
		put_callers(l, t, e->key);
		put_hist(l, a, e->v);
		return;
	}
	dp_line_format(l, INDENT "%-*s", width, key);
	if (a->kind == DP_AGG_COUNT) {
		put_bar(l, (u32)strlen(INDENT) + (u32)width, e->v[0], DP_MAX(most, 1.0));
	} else {
		dp_line_char(l, ' ');
		put_value(l, a, e->v);
		dp_line_char(l, '\n');
	}
	put_callers(l, t, e->key);
}

static void put_table(struct dp_line *l, const struct dp_agg_table *t)
{
	char(*keys)[KEY_TEXT] = calloc(t->n + 1, sizeof(*keys)); /* names of addresses are looked up once */
	struct dp_agg_table one = *t;                            /* as it is seen by the process of one key */
	u32 n = keys ? t->n : 0;
	size_t width = 8;

	if (n || t->a->hidden || t->a->kind != DP_AGG_LAST) { /* what handlers keep for themselves is mostly empty */
		put_head(l, t->a);
		dp_line_str(l, n ? "\n" : "-\n");
	}
	for (u32 i = 0; i < n; i++) {
		one.view = t->v[i].view;
		key_text(&one, t->v[i].key, keys[i], sizeof(keys[i]));
		width = DP_MAX(width, strlen(keys[i]));
	}
	for (u32 i = 0; i < n; i++) {
		one.view = t->v[i].view;
		put_entry(l, &one, &t->v[i], keys[i], (int)width, dp_agg_weight(t->a, t->v[0].v));
	}
	if (t->left_out)
		dp_line_format(l, "    and %u more keys\n", t->left_out);
	if (t->no_room)
		dp_line_format(l,
			       "    %llu values had keys for which there was no room (KEYS(N) in `begin` makes room)\n",
			       (unsigned long long)t->no_room);
	free(keys);
}

void dp_table_aggregate(struct dp_sink *s, const struct dp_agg_table *t)
{
	struct dp_line *l = s->line;

	if (t->a->nparts) {
		put_table(l, t);
		return;
	}
	put_head(l, t->a);
	if (!dp_agg_is_hist(t->a))
		put_value(l, t->a, t->v->v);
	dp_line_char(l, '\n');
	if (dp_agg_is_hist(t->a))
		put_hist(l, t->a, t->v->v);
}
