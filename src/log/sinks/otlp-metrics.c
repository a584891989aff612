/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See otlp-metrics.h. A row of a table is a data point; the parts of its key are attributes. */
#include <stdio.h>
#include <time.h>

#include "log/sinks/otlp-batch.h"
#include "log/sinks/otlp-metrics.h"

#define CUMULATIVE 2 /* enum AggregationTemporality */

struct writer {
	struct dp_json *j;
	const struct dp_agg_table *t;
	u64 begin_ns, now_ns;
};

/* ---- keys ---- */

/* A call chain is a text with its frames, the hit first. */
static void put_frames(const struct writer *w, const char *key, const u64 *chain)
{
	struct dp_line l = {0};
	char name[256];

	for (u32 i = 0; !i || dp_agg_frame(w->t->a, chain, i); i++) {
		dp_agg_frame_name(w->t, chain, i, name, sizeof(name));
		dp_line_format(&l, "%s%s", i ? ";" : "", name);
	}
	dp_otlp_open(w->j, key, "stringValue");
	dp_json_text(w->j, l.text ? l.text : "", l.n);
	dp_otlp_close(w->j);
	dp_line_free(&l);
}

static void put_key(const struct writer *w, const u64 *key)
{
	const struct dp_rpn_aggregate *a = w->t->a;
	char text[256], name[16];

	dp_json_key(w->j, "attributes");
	dp_json_open(w->j, '[');
	for (u32 i = 0; i < a->nparts; key += dp_rpn_key_part_words(a, i++)) {
		dp_format(name, sizeof(name), "key%u", i + 1);
		if (a->parts[i] == DP_KEY_STACK) {
			put_frames(w, name, key);
			continue;
		}
		dp_agg_part(w->t, i, key, text, sizeof(text));
		dp_otlp_text(w->j, name, text);
	}
	dp_json_close(w->j, ']');
}

/* ---- values ---- */

static void put_integer(struct dp_json *j, const char *key, u64 v)
{
	dp_json_key(j, key);
	dp_otlp_integer(j, (s64)v);
}

static void put_double(struct dp_json *j, const char *key, double v)
{
	char text[32];

	dp_json_key(j, key);
	dp_json_digits(j, text, (size_t)snprintf(text, sizeof(text), "%.17g", v));
}

/* Linear bars: all values are whole numbers, so that a bar's last value is a bound that includes it. */
static void put_linear(const struct writer *w, const u64 *v)
{
	u64 n = 0;
	s64 lo, hi;

	for (u32 i = 0; i < DP_HIST_WORDS; i++)
		n += v[i];
	put_integer(w->j, "count", n);
	dp_json_key(w->j, "bucketCounts");
	dp_json_open(w->j, '[');
	for (u32 i = 0; i < DP_HIST_WORDS; i++)
		dp_otlp_integer(w->j, (s64)v[i]);
	dp_json_close(w->j, ']');
	dp_json_key(w->j, "explicitBounds");
	dp_json_open(w->j, '[');
	for (u32 i = 1; i < DP_HIST_WORDS; i++) {
		dp_agg_range(w->t->a, i, &lo, &hi);
		dp_json_signed(w->j, lo - 1);
	}
	dp_json_close(w->j, ']');
}

/*
 * Bucket i of scale 0 has the values above 2^i, up to 2^(i + 1). Bar 1 is the value 1 and thus bucket -1, the first.
 * Bar i has 2^(i - 1) up to 2^i - 1: bucket i - 1, but for the value at its lower end. Bar 0 has the zeroes, and what
 * is less.
 */
static void put_powers(const struct writer *w, const u64 *v)
{
	u32 last = DP_HIST_WORDS - 1;
	u64 n = 0;

	while (last > 1 && !v[last])
		last--;
	for (u32 i = 0; i < DP_HIST_WORDS; i++)
		n += v[i];
	put_integer(w->j, "count", n);
	dp_json_put_unsigned(w->j, "scale", 0);
	put_integer(w->j, "zeroCount", v[0]);
	dp_json_key(w->j, "positive");
	dp_json_open(w->j, '{');
	dp_json_key(w->j, "offset");
	dp_json_signed(w->j, -1);
	dp_json_key(w->j, "bucketCounts");
	dp_json_open(w->j, '[');
	dp_otlp_integer(w->j, (s64)v[1]);
	for (u32 i = 1; i <= last && last > 1; i++)
		dp_otlp_integer(w->j, i > 1 ? (s64)v[i] : 0);
	dp_json_close(w->j, ']');
	dp_json_close(w->j, '}');
}

static void put_quantiles(const struct writer *w, const u64 *v)
{
	put_integer(w->j, "count", dp_agg_values(v));
	dp_json_key(w->j, "quantileValues");
	dp_json_open(w->j, '[');
	for (u32 i = 0; dp_agg_values(v) && dp_agg_parts_shown[i].name; i++) {
		dp_json_open(w->j, '{');
		put_double(w->j, "quantile", dp_agg_parts_shown[i].part);
		put_double(w->j, "value", (double)dp_agg_quantile(v, dp_agg_parts_shown[i].part));
		dp_json_close(w->j, '}');
	}
	dp_json_close(w->j, ']');
}

static void put_sum(const struct writer *w, const u64 *v)
{
	put_integer(w->j, "count", v[1]);
	put_double(w->j, "sum", (double)(s64)v[0]);
}

static void put_number(const struct writer *w, const u64 *v)
{
	put_integer(w->j, "asInt", v[0]);
}

/* ---- tables ---- */

static const struct shape {
	const char *name;
	bool cumulative;
	void (*put)(const struct writer *w, const u64 *v);
} counts = {"sum", true, put_number}, gauge = {"gauge", false, put_number}, summary = {"summary", false, put_sum},
  quantiles = {"summary", false, put_quantiles}, powers = {"exponentialHistogram", true, put_powers},
  linear = {"histogram", true, put_linear};

static const struct shape *shape_of(const struct dp_rpn_aggregate *a)
{
	switch (a->kind) {
	case DP_AGG_COUNT:
		return &counts;
	case DP_AGG_SUM:
		return &summary;
	case DP_AGG_QUANTILES:
		return &quantiles;
	case DP_AGG_HIST:
		return &powers;
	case DP_AGG_LINEAR:
		return &linear;
	default:
		return &gauge;
	}
}

/* The least and the largest of no values is none. */
static bool has_value(const struct dp_rpn_aggregate *a, const u64 *v)
{
	return shape_of(a) != &gauge || a->kind == DP_AGG_LAST || v[1];
}

static void put_point(const struct writer *w, const struct dp_agg_entry *e)
{
	dp_json_open(w->j, '{');
	put_key(w, e->key);
	dp_otlp_put_time(w->j, "startTimeUnixNano", w->begin_ns);
	dp_otlp_put_time(w->j, "timeUnixNano", w->now_ns);
	shape_of(w->t->a)->put(w, e->v);
	dp_json_close(w->j, '}');
}

void dp_otlp_put_table(struct dp_json *j, const struct dp_agg_table *t, u64 begin_ns, u64 now_ns)
{
	const struct shape *shape = shape_of(t->a);
	const struct writer w = {j, t, begin_ns, now_ns};

	dp_json_open(j, '{');
	dp_json_put_string(j, "name", t->a->name);
	dp_json_put_string(j, "description", dp_agg_kind(t->a));
	dp_json_key(j, shape->name);
	dp_json_open(j, '{');
	if (shape->cumulative)
		dp_json_put_unsigned(j, "aggregationTemporality", CUMULATIVE);
	if (shape == &counts)
		dp_json_put_bool(j, "isMonotonic", true);
	dp_json_key(j, "dataPoints");
	dp_json_open(j, '[');
	for (u32 i = 0; i < t->n; i++)
		if (has_value(t->a, t->v[i].v))
			put_point(&w, &t->v[i]);
	dp_json_close(j, ']');
	dp_json_close(j, '}');
	dp_json_close(j, '}');
}
