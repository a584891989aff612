/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The columns of top.h: which there are, their values, and how people read them. */
#include <stdlib.h>
#include <string.h>

#include "log/human.h"
#include "top/top.h"

#define RAW 12 /* columns of a whole number */

static const struct column {
	struct dp_top_spec calls, samples; /* head NULL: there is none */
	bool is_time;
} columns[DP_TOP_NCOLUMNS] = {
    [DP_TOP_RATE] = {{"RATE/S", "rate", 8}, {NULL}},
    [DP_TOP_HITS] = {{"HITS", "hits", 8}, {"SAMPLES", "samples", 8}},
    [DP_TOP_TOTAL] = {{"TOTAL", "total_ns", 7}, {"TOTAL%", "total_percent", 7}, true},
    [DP_TOP_SELF] = {{"SELF", "self_ns", 7}, {"SELF%", "self_percent", 7}, true},
    [DP_TOP_MEAN] = {{"MEAN", "mean_ns", 7}, {NULL}, true},
    [DP_TOP_MEDIAN] = {{"MEDIAN", "median_ns", 7}, {NULL}, true},
    [DP_TOP_P99] = {{"P99", "p99_ns", 7}, {NULL}, true},
    [DP_TOP_MAX] = {{"MAX", "max_ns", 7}, {NULL}, true},
    [DP_TOP_NAME] = {{"NAME", "name", 0}, {"FUNCTION", "name", 0}},
};

const struct dp_top_spec *dp_top_spec(const struct dp_top *t, enum dp_top_column c)
{
	return t->kind == DP_TOP_SAMPLES ? &columns[c].samples : &columns[c].calls;
}

int dp_top_width(const struct dp_top *t, enum dp_top_column c)
{
	int width = dp_top_spec(t, c)->width;

	return width && dp_human.raw_units && t->kind != DP_TOP_SAMPLES ? DP_MAX(width, RAW) : width;
}

bool dp_top_has(const struct dp_top *t, enum dp_top_column c)
{
	return dp_top_spec(t, c)->head && !(t->kind == DP_TOP_EVENTS && c == DP_TOP_SELF);
}

static double share(const struct dp_top *t, u64 part)
{
	return t->samples ? 100.0 * (double)part / (double)t->samples : 0;
}

double dp_top_value(const struct dp_top *t, const struct dp_top_row *row, enum dp_top_column c)
{
	switch (c) {
	case DP_TOP_RATE:
		return row->rate;
	case DP_TOP_HITS:
		return (double)dp_top_hits(row);
	case DP_TOP_TOTAL:
		return t->kind == DP_TOP_SAMPLES ? share(t, row->total) : (double)row->total;
	case DP_TOP_SELF:
		return t->kind == DP_TOP_SAMPLES ? share(t, row->self) : (double)row->self;
	case DP_TOP_MEAN:
		return (double)dp_top_mean(row);
	case DP_TOP_MEDIAN:
		return (double)dp_top_quantile(row, 0.5);
	case DP_TOP_P99:
		return (double)dp_top_quantile(row, 0.99);
	case DP_TOP_MAX:
		return (double)(row->longest ? row->longest : dp_top_quantile(row, 1));
	default:
		return 0;
	}
}

void dp_top_cell(const struct dp_top *t, const struct dp_top_row *row, enum dp_top_column c, char *buf, size_t size)
{
	double v = dp_top_value(t, row, c);

	if (c == DP_TOP_NAME)
		snprintf(buf, size, "%s", row->name);
	else if (columns[c].is_time && t->kind == DP_TOP_SAMPLES)
		snprintf(buf, size, "%.1f", v);
	else if (columns[c].is_time && v == 0)
		snprintf(buf, size, "-");
	else if (columns[c].is_time)
		dp_human_duration(v, buf, size);
	else
		dp_human_count(v, buf, size);
}

void dp_top_trend(const struct dp_top *t, const struct dp_top_row *row, u32 width, bool utf8, char *buf, size_t size)
{
	static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	double most = 0;
	size_t n = 0;
	u32 have = DP_MIN(t->turns, DP_MIN(width, (u32)DP_TOP_TREND));

	for (u32 i = 0; i < have; i++)
		most = DP_MAX(most, row->trend[(t->turns - 1 - i) % DP_TOP_TREND]);
	for (u32 i = width; i-- > 0 && n + 4 < size;) {
		double v = i < have ? row->trend[(t->turns - 1 - i) % DP_TOP_TREND] : 0;
		int height = most > 0 && v > 0 ? DP_MAX(1, (int)(v / most * 8 + 0.5)) : 0;

		n += (size_t)snprintf(buf + n, size - n, "%s", (utf8 ? blocks : ascii)[height]);
	}
	buf[n] = '\0';
}
