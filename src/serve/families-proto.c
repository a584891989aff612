/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Metric families as protocol buffers (io.prometheus.client), the only format that has native histograms. Those of
 * powers of two have the buckets of schema 0; linear ones stay classic, with a bucket for each bar.
 */
#include <math.h>
#include <metrics.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "serve/families-priv.h"

#define ZERO_THRESHOLD 0x1p-128 /* what other libraries use: such histograms can be added */

/* What a message of one series points to. */
struct message {
	Dp__PmMetric metric;
	Dp__PmNumber number;
	Dp__PmSummary summary;
	Dp__PmHistogram histogram;
	Dp__PmLabel label[DP_METRIC_LABELS], *labels[DP_METRIC_LABELS];
	Dp__PmQuantile quantile[DP_METRIC_QUANTILES], *quantiles[DP_METRIC_QUANTILES];
	Dp__PmBucket bucket[DP_METRIC_BARS], *buckets[DP_METRIC_BARS];
	Dp__PmSpan span[2], *spans[2];
	int64_t delta[DP_METRIC_BARS];
};

/* ---- labels ---- */

/* Undoes dp_metric_escape() up to the quotation mark, in place. Returns what follows that. */
static char *unescape(char *s, char **value)
{
	char *to = *value = s;

	while (*s && *s != '"') {
		bool escaped = *s == '\\' && s[1];

		s += escaped;
		*to++ = escaped && *s == 'n' ? '\n' : *s;
		s++;
	}
	s += *s == '"';
	*to = '\0';
	return s;
}

/* The labels of a series, from its text NAME="VALUE",..., which is taken apart. */
static void set_labels(struct message *m, char *text)
{
	size_t n = 0;

	while (*text && n < DP_METRIC_LABELS) {
		Dp__PmLabel *l = &m->label[n];
		char *mark = strchr(text, '=');

		if (!mark)
			break;
		dp__pm_label__init(l);
		*mark = '\0';
		l->name = text;
		text = unescape(mark + 2, &l->value);
		text += *text == ',';
		m->labels[n++] = l;
	}
	m->metric.n_label = n;
	m->metric.label = m->labels;
}

/* ---- values ---- */

static void add_bucket(Dp__PmHistogram *h, struct message *m, double end, u64 count)
{
	Dp__PmBucket *b = &m->bucket[h->n_bucket];

	dp__pm_bucket__init(b);
	b->has_upper_bound = b->has_cumulative_count = true;
	b->upper_bound = end;
	b->cumulative_count = count;
	m->buckets[h->n_bucket++] = b;
	h->bucket = m->buckets;
}

/* Buckets of linear bars. All values are whole numbers: what is below the next bar is at most the end of this. */
static void set_classic(Dp__PmHistogram *h, struct message *m, const struct dp_metric_value *v)
{
	u64 count = 0;

	for (u32 i = 0; i + 1 < DP_METRIC_BARS; i++) {
		count += v->bars[i];
		add_bucket(h, m, (double)dp_metric_bar_end(v, i), count);
	}
	add_bucket(h, m, INFINITY, count + v->bars[DP_METRIC_BARS - 1]);
}

/* Buckets come as differences to the one before. */
static void add_native(Dp__PmHistogram *h, struct message *m, u64 count, u64 before)
{
	m->delta[h->n_positive_delta++] = (s64)(count - before);
	h->positive_delta = m->delta;
}

static void add_span(Dp__PmHistogram *h, struct message *m, s32 offset, u32 length)
{
	Dp__PmSpan *s = &m->span[h->n_positive_span];

	dp__pm_span__init(s);
	s->has_offset = s->has_length = true;
	s->offset = offset;
	s->length = length;
	m->spans[h->n_positive_span++] = s;
	h->positive_span = m->spans;
}

/*
 * Bucket i of schema 0 has the values above 2^(i - 1), up to 2^i. Bar 1 is the value 1 and thus bucket 0. Bar i has
 * 2^(i - 1) up to 2^i - 1: bucket i, but for the value at its lower end, which the bucket below would have. Bar 0 has
 * the zeroes, and what is less.
 */
static void set_native(Dp__PmHistogram *h, struct message *m, const struct dp_metric_value *v)
{
	u32 last = DP_METRIC_BARS - 1;

	while (last > 1 && !v->bars[last])
		last--;
	h->has_schema = h->has_zero_threshold = h->has_zero_count = true;
	h->zero_threshold = ZERO_THRESHOLD;
	h->zero_count = v->bars[0];
	add_span(h, m, 0, 1);
	add_native(h, m, v->bars[1], 0);
	if (last < 2)
		return;
	add_span(h, m, 1, last - 1);
	for (u32 i = 2; i <= last; i++)
		add_native(h, m, v->bars[i], v->bars[i - 1]);
}

static void set_histogram(struct message *m, const struct dp_metric_value *v)
{
	Dp__PmHistogram *h = &m->histogram;

	dp__pm_histogram__init(h);
	h->has_sample_count = h->has_sample_sum = true;
	h->sample_sum = v->has_sum ? v->sum : NAN; /* no sum at all would be taken for 0 */
	for (u32 i = 0; i < DP_METRIC_BARS; i++)
		h->sample_count += v->bars[i];
	if (v->step)
		set_classic(h, m, v);
	else
		set_native(h, m, v);
	m->metric.histogram = h;
}

static void set_summary(struct message *m, const struct dp_metric_value *v)
{
	Dp__PmSummary *s = &m->summary;

	dp__pm_summary__init(s);
	s->has_sample_count = true;
	s->sample_count = v->count;
	s->has_sample_sum = true;
	s->sample_sum = v->has_sum ? v->sum : NAN;
	for (u32 i = 0; i < v->nquantiles; i++) {
		dp__pm_quantile__init(&m->quantile[i]);
		m->quantile[i].has_quantile = m->quantile[i].has_value = true;
		m->quantile[i].quantile = v->part[i];
		m->quantile[i].value = v->quantile[i];
		m->quantiles[i] = &m->quantile[i];
	}
	s->n_quantile = v->nquantiles;
	s->quantile = m->quantiles;
	m->metric.summary = s;
}

static void set_number(struct message *m, Dp__PmNumber **where, double number)
{
	dp__pm_number__init(&m->number);
	m->number.has_value = true;
	m->number.value = number;
	*where = &m->number;
}

/* ---- messages ---- */

static void pack(const Dp__PmFamily *family, struct dp_line *out)
{
	size_t size = dp__pm_family__get_packed_size(family);

	if (dp_line_reserve(out, size))
		out->n += dp__pm_family__pack(family, (u8 *)out->text + out->n);
}

/* A family with this series alone: messages one behind the other are one that has all of their members. */
static void put_series(const struct dp_family *f, const struct dp_series *s, struct dp_line *out)
{
	struct message m = {.metric = DP__PM_METRIC__INIT};
	Dp__PmFamily family = DP__PM_FAMILY__INIT;
	Dp__PmMetric *metrics = &m.metric;
	char *labels = strdup(s->labels);

	if (!labels) {
		out->broken = true;
		return;
	}
	set_labels(&m, labels);
	if (f->type == DP_METRIC_HISTOGRAM)
		set_histogram(&m, &s->v);
	else if (f->type == DP_METRIC_SUMMARY)
		set_summary(&m, &s->v);
	else
		set_number(&m, f->type == DP_METRIC_COUNTER ? &m.metric.counter : &m.metric.gauge, s->v.number);
	family.n_metric = 1;
	family.metric = &metrics;
	pack(&family, out);
	free(labels);
}

/* Name, description and type; names are those of the text format. */
static void put_head(const struct dp_family *f, struct dp_line *out)
{
	static const Dp__PmFamily__Type types[] = {
	    [DP_METRIC_COUNTER] = DP__PM_FAMILY__TYPE__COUNTER, [DP_METRIC_GAUGE] = DP__PM_FAMILY__TYPE__GAUGE,
	    [DP_METRIC_SUMMARY] = DP__PM_FAMILY__TYPE__SUMMARY, [DP_METRIC_HISTOGRAM] = DP__PM_FAMILY__TYPE__HISTOGRAM,
	    [DP_METRIC_INFO] = DP__PM_FAMILY__TYPE__GAUGE,
	};
	Dp__PmFamily family = DP__PM_FAMILY__INIT;
	char name[sizeof(f->name) + 8];

	dp_format(name, sizeof(name), "%s%s", f->name, dp_family_ending(f));
	family.name = name;
	family.help = (char *)f->help;
	family.has_type = true;
	family.type = types[f->type];
	pack(&family, out);
}

static void put_length(struct dp_line *out, size_t n)
{
	for (; n >= 128; n >>= 7)
		dp_line_char(out, (char)(n | 128));
	dp_line_char(out, (char)n);
}

void dp_family_write_proto(const struct dp_family *f, struct dp_line *out)
{
	struct dp_line l = {0};

	put_head(f, &l);
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].shown)
			put_series(f, &f->v[i], &l);
	if (f->rest.labels)
		put_series(f, &f->rest, &l);
	out->broken |= l.broken;
	put_length(out, l.n);
	dp_line_bytes(out, l.text, l.n);
	dp_line_free(&l);
}
