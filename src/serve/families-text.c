/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Metric families as text: OpenMetrics 1.0, and the text format 0.0.4 of Prometheus. */
#include <stdio.h>
#include <string.h>

#include "serve/families-priv.h"

#define POWERS 41 /* bars of powers of two that have buckets: up to 2^40 - 1 */

struct writer {
	struct dp_line *out;
	bool openmetrics;
};

/* Whole numbers as such: they may be longer than a double shows in a few digits. */
static void put_number(struct dp_line *l, double v)
{
	if (v == (double)(s64)v && v < 9e15 && v > -9e15)
		dp_line_signed(l, (s64)v);
	else
		dp_line_format(l, "%.17g", v);
}

static void put_head(const struct writer *w, const struct dp_family *f)
{
	static const char *const types[] = {"counter", "gauge", "summary", "histogram", "info"};
	const char *behind = w->openmetrics ? "" : dp_family_ending(f);

	dp_line_format(w->out, "# TYPE %s%s %s\n", f->name, behind,
		       f->type == DP_METRIC_INFO && !w->openmetrics ? "gauge" : types[f->type]);
	if (f->unit && w->openmetrics)
		dp_line_format(w->out, "# UNIT %s %s\n", f->name, f->unit);
	dp_line_format(w->out, "# HELP %s%s ", f->name, behind);
	dp_metric_escape(w->out, f->help, strlen(f->help));
	dp_line_char(w->out, '\n');
}

/* A name with its labels, and one more; what follows is the number. */
static void put_sample(const struct writer *w, const struct dp_family *f, const char *behind, const struct dp_series *s,
		       const char *label, const char *value)
{
	dp_line_format(w->out, "%s%s", f->name, behind);
	if (*s->labels || label) {
		dp_line_char(w->out, '{');
		dp_line_str(w->out, s->labels);
		if (label)
			dp_line_format(w->out, "%s%s=\"%s\"", *s->labels ? "," : "", label, value);
		dp_line_char(w->out, '}');
	}
	dp_line_char(w->out, ' ');
}

static void put_count(const struct writer *w, const struct dp_family *f, const char *behind, const struct dp_series *s,
		      const char *label, const char *value, u64 count)
{
	put_sample(w, f, behind, s, label, value);
	dp_line_dec(w->out, count, 0, ' ');
	dp_line_char(w->out, '\n');
}

static void put_sum(const struct writer *w, const struct dp_family *f, const struct dp_series *s)
{
	if (!s->v.has_sum || s->v.sum < 0) /* both formats want one that only grows */
		return;
	put_sample(w, f, "_sum", s, NULL, NULL);
	put_number(w->out, s->v.sum);
	dp_line_char(w->out, '\n');
}

static void put_histogram(const struct writer *w, const struct dp_family *f, const struct dp_series *s)
{
	u32 nbuckets = s->v.step ? DP_METRIC_BARS - 1 : POWERS;
	u64 count = 0;
	char end[32];

	for (u32 i = 0; i < DP_METRIC_BARS; i++) {
		count += s->v.bars[i];
		if (i >= nbuckets ||
		    (s->v.has_sum && dp_metric_bar_end(&s->v, i) < 0)) /* a sum allows no bucket below 0 */
			continue;
		snprintf(end, sizeof(end), "%lld.0", (long long)dp_metric_bar_end(&s->v, i));
		put_count(w, f, "_bucket", s, "le", end, count);
	}
	put_count(w, f, "_bucket", s, "le", "+Inf", count);
	put_count(w, f, "_count", s, NULL, NULL, count);
	put_sum(w, f, s);
}

static void put_summary(const struct writer *w, const struct dp_family *f, const struct dp_series *s)
{
	char part[32];

	for (u32 i = 0; i < s->v.nquantiles; i++) {
		snprintf(part, sizeof(part), s->v.part[i] == 1 ? "%.1f" : "%g", s->v.part[i]);
		put_sample(w, f, "", s, "quantile", part);
		put_number(w->out, s->v.quantile[i]);
		dp_line_char(w->out, '\n');
	}
	put_count(w, f, "_count", s, NULL, NULL, s->v.count);
	put_sum(w, f, s);
}

static void put_series(const struct writer *w, const struct dp_family *f, const struct dp_series *s)
{
	if (f->type == DP_METRIC_HISTOGRAM) {
		put_histogram(w, f, s);
	} else if (f->type == DP_METRIC_SUMMARY) {
		put_summary(w, f, s);
	} else {
		put_sample(w, f, dp_family_ending(f), s, NULL, NULL);
		put_number(w->out, s->v.number);
		dp_line_char(w->out, '\n');
	}
}

void dp_family_write_text(const struct dp_family *f, bool openmetrics, struct dp_line *out)
{
	const struct writer w = {out, openmetrics};

	put_head(&w, f);
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].shown)
			put_series(&w, f, &f->v[i]);
	if (f->rest.labels)
		put_series(&w, f, &f->rest);
}
