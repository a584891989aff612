/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See families.h. The formats: OpenMetrics 1.0, and the text format 0.0.4 of Prometheus. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/families.h"

#define FAMILIES_MAX 1000
#define LABEL_MAX 512 /* bytes of a value */
#define POWERS 41     /* bars of powers of two that have buckets: up to 2^40 - 1 */

struct series {
	char *labels; /* escaped, without braces; NULL: it has become a part of another one */
	u64 hash;
	bool shown;
	struct dp_metric_value v;
};

struct place { /* of a series that was shown the last time */
	char *labels;
	u64 hash;
	size_t at; /* in the family's series, plus 1; 0: it does not come this time */
};

struct dp_family {
	char name[256], help[256];
	const char *unit;
	enum dp_metric type;
	struct series *v;
	size_t n, room;
	char *rest_labels;
	struct series rest;
	u64 nrest; /* how many it has */
	struct place *places;
	u32 nplaces, most;
	bool comes;
};

struct dp_families {
	struct dp_family **v;
	size_t n, room;
	u32 most;
	u64 refused; /* values whose family has another type */
};

/* ---- names and labels ---- */

static void put_name(char *to, size_t size, const char *name, const char *unit)
{
	size_t n = 0;

	for (; *name && n + 32 < size; name++) {
		bool fits = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || *name == '_' ||
			    (n && *name >= '0' && *name <= '9');

		to[n++] = fits ? *name : '_';
	}
	to[n] = '\0';
	if (unit)
		snprintf(to + n, size - n, "_%s", unit);
}

static void put_escaped(struct dp_line *l, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\n')
			dp_line_str(l, "\\n");
		else if (s[i] == '\\' || s[i] == '"')
			dp_line_format(l, "\\%c", s[i]);
		else
			dp_line_char(l, s[i] && s[i] != '\r' ? s[i] : '?');
	}
}

/* At most that much of a text, in whole characters; what is no UTF-8 is not sent. */
static size_t fitting(const char *s, size_t n)
{
	size_t at = 0;
	u32 rune;

	while (at < n) {
		unsigned len = dp_utf8(s + at, n - at, &rune);

		if (!len || at + len > LABEL_MAX)
			break;
		at += len;
	}
	return at;
}

static void put_labels(struct dp_line *l, const struct dp_metric_label *labels, u32 n, bool rest)
{
	for (u32 i = 0; i < n; i++) {
		dp_line_format(l, "%s%s=\"", i ? "," : "", labels[i].name);
		if (rest)
			dp_line_str(l, DP_METRIC_REST);
		else
			put_escaped(l, labels[i].value, fitting(labels[i].value, labels[i].len));
		dp_line_char(l, '"');
	}
}

static char *labels_text(const struct dp_metric_label *labels, u32 n, bool rest)
{
	struct dp_line l = {0};

	put_labels(&l, labels, n, rest);
	dp_line_char(&l, '\0');
	if (!l.broken)
		return l.text;
	dp_line_free(&l);
	return NULL;
}

static u64 hash_of(const char *s)
{
	u64 h = 0xcbf29ce484222325;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3;
	return h;
}

/* ---- families ---- */

struct dp_families *dp_families_new(u32 most)
{
	struct dp_families *f = calloc(1, sizeof(*f));

	if (f)
		f->most = most;
	return f;
}

static void free_series(struct series *s)
{
	free(s->labels);
	free(s->v.bars);
	*s = (struct series){0};
}

static void empty(struct dp_family *f)
{
	for (size_t i = 0; i < f->n; i++)
		free_series(&f->v[i]);
	free_series(&f->rest);
	free(f->rest_labels);
	f->rest_labels = NULL;
	f->n = 0;
	f->nrest = 0;
}

static void free_family(struct dp_family *f)
{
	empty(f);
	for (u32 i = 0; i < f->nplaces; i++)
		free(f->places[i].labels);
	free(f->places);
	free(f->v);
	free(f);
}

void dp_families_free(struct dp_families *f)
{
	for (size_t i = 0; f && i < f->n; i++)
		free_family(f->v[i]);
	if (f)
		free(f->v);
	free(f);
}

/* Families that did not come the last time are forgotten. */
void dp_families_begin(struct dp_families *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		struct dp_family *one = f->v[i];

		if (!one->comes) {
			free_family(one);
			continue;
		}
		empty(one);
		one->comes = false;
		f->v[n++] = one;
	}
	f->n = n;
	f->refused = 0;
}

struct dp_family *dp_family(struct dp_families *f, const char *name, enum dp_metric type, const char *unit,
			    const char *help)
{
	struct dp_family *one = NULL;
	char clean[sizeof(one->name)];

	put_name(clean, sizeof(clean), name, unit);
	for (size_t i = 0; i < f->n && !one; i++)
		if (!strcmp(f->v[i]->name, clean))
			one = f->v[i];
	if (!one && f->n < FAMILIES_MAX && dp_grow((void **)&f->v, &f->room, f->n, sizeof(struct dp_family *)) &&
	    (one = calloc(1, sizeof(*one)))) {
		one->places = calloc(f->most, sizeof(*one->places));
		f->v[f->n++] = one;
	}
	if (!one || !one->places || (one->type != type && one->comes)) {
		f->refused++;
		return NULL;
	}
	one->most = type == DP_METRIC_HISTOGRAM ? f->most / 10 : f->most; /* each is many lines */
	one->type = type;
	one->unit = unit;
	one->comes = true;
	snprintf(one->name, sizeof(one->name), "%s", clean);
	snprintf(one->help, sizeof(one->help), "%s", help);
	return one;
}

/* ---- series ---- */

void dp_family_put(struct dp_family *f, const struct dp_metric_label *labels, u32 n, const struct dp_metric_value *v)
{
	struct series s = {.labels = labels_text(labels, n, false), .v = *v};

	if (!s.labels || !dp_grow((void **)&f->v, &f->room, f->n, sizeof(*f->v))) {
		free_series(&s);
		return;
	}
	s.hash = hash_of(s.labels);
	f->v[f->n++] = s;
	if (!f->rest_labels)
		f->rest_labels = labels_text(labels, n, true);
}

/* False: the two cannot be one. */
static bool fold(struct dp_metric_value *to, const struct dp_metric_value *v)
{
	if (to->fold == DP_FOLD_NONE || !to->bars != !v->bars || to->low != v->low || to->step != v->step)
		return false;
	if (to->fold == DP_FOLD_SUM)
		to->number += v->number;
	else if (to->fold == DP_FOLD_MIN ? v->number < to->number : v->number > to->number)
		to->number = v->number;
	to->count += v->count;
	to->sum += v->sum;
	to->has_sum &= v->has_sum;
	to->nquantiles = 0; /* those of both are not known */
	for (u32 i = 0; to->bars && i < DP_METRIC_BARS; i++)
		to->bars[i] += v->bars[i];
	return true;
}

static struct place *place_of(const struct dp_family *f, const struct series *s)
{
	for (u32 i = 0; i < f->nplaces; i++)
		if (f->places[i].hash == s->hash && !strcmp(f->places[i].labels, s->labels))
			return &f->places[i];
	return NULL;
}

/* In its place; a second one with the same labels adds to the first. */
static void take_place(struct dp_family *f, struct place *p, size_t i)
{
	struct series *s = &f->v[i];

	if (!p->at) {
		p->at = i + 1;
		s->shown = true;
		return;
	}
	if (!fold(&f->v[p->at - 1].v, &s->v))
		f->nrest++;
	free_series(s);
}

static void join_rest(struct dp_family *f, struct series *s)
{
	f->nrest++;
	if (!f->rest.labels && s->v.fold != DP_FOLD_NONE && f->rest_labels) {
		free(s->labels);
		s->labels = f->rest_labels;
		s->v.nquantiles = 0;
		f->rest_labels = NULL;
		f->rest = *s;
		*s = (struct series){0};
		return;
	}
	if (f->rest.labels)
		fold(&f->rest.v, &s->v);
	free_series(s);
}

static void free_places(struct dp_family *f)
{
	u32 n = 0;

	for (u32 i = 0; i < f->nplaces; i++) {
		if (f->places[i].at)
			f->places[n++] = f->places[i];
		else
			free(f->places[i].labels);
	}
	f->nplaces = n;
}

static void settle(struct dp_family *f)
{
	for (u32 i = 0; i < f->nplaces; i++)
		f->places[i].at = 0;
	for (size_t i = 0; i < f->n; i++) {
		struct place *p = place_of(f, &f->v[i]);

		if (p)
			take_place(f, p, i);
	}
	free_places(f);
	for (size_t i = 0; i < f->n; i++) {
		struct series *s = &f->v[i];
		struct place *p = !s->labels || s->shown ? NULL : place_of(f, s);
		char *labels;

		if (!s->labels || s->shown)
			continue;
		labels = !p && f->nplaces < f->most ? strdup(s->labels) : NULL;
		if (labels) {
			p = &f->places[f->nplaces++];
			*p = (struct place){.labels = labels, .hash = s->hash};
		}
		if (p)
			take_place(f, p, i);
		else
			join_rest(f, s);
	}
}

/* ---- the text ---- */

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
	bool counts = f->type == DP_METRIC_COUNTER, is_info = f->type == DP_METRIC_INFO;
	const char *behind = w->openmetrics ? "" : counts ? "_total" : is_info ? "_info" : "";

	dp_line_format(w->out, "# TYPE %s%s %s\n", f->name, behind,
		       is_info && !w->openmetrics ? "gauge" : types[f->type]);
	if (f->unit && w->openmetrics)
		dp_line_format(w->out, "# UNIT %s %s\n", f->name, f->unit);
	dp_line_format(w->out, "# HELP %s%s ", f->name, behind);
	put_escaped(w->out, f->help, strlen(f->help));
	dp_line_char(w->out, '\n');
}

/* A name with its labels, and one more; what follows is the number. */
static void put_sample(const struct writer *w, const struct dp_family *f, const char *behind, const struct series *s,
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

static void put_count(const struct writer *w, const struct dp_family *f, const char *behind, const struct series *s,
		      const char *label, const char *value, u64 count)
{
	put_sample(w, f, behind, s, label, value);
	dp_line_dec(w->out, count, 0, ' ');
	dp_line_char(w->out, '\n');
}

static void put_sum(const struct writer *w, const struct dp_family *f, const struct series *s)
{
	if (!s->v.has_sum || s->v.sum < 0) /* both formats want one that only grows */
		return;
	put_sample(w, f, "_sum", s, NULL, NULL);
	put_number(w->out, s->v.sum);
	dp_line_char(w->out, '\n');
}

/* The last value that belongs to bar i. */
static s64 bar_end(const struct dp_metric_value *v, u32 i)
{
	return v->step ? v->low + (s64)i * v->step - 1 : (s64)((1ull << i) - 1);
}

static void put_histogram(const struct writer *w, const struct dp_family *f, const struct series *s)
{
	u32 nbuckets = s->v.step ? DP_METRIC_BARS - 1 : POWERS;
	u64 count = 0;
	char end[32];

	for (u32 i = 0; i < DP_METRIC_BARS; i++) {
		count += s->v.bars[i];
		if (i >= nbuckets || (s->v.has_sum && bar_end(&s->v, i) < 0)) /* a sum allows no bucket below 0 */
			continue;
		snprintf(end, sizeof(end), "%lld.0", (long long)bar_end(&s->v, i));
		put_count(w, f, "_bucket", s, "le", end, count);
	}
	put_count(w, f, "_bucket", s, "le", "+Inf", count);
	put_count(w, f, "_count", s, NULL, NULL, count);
	put_sum(w, f, s);
}

static void put_summary(const struct writer *w, const struct dp_family *f, const struct series *s)
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

static void put_series(const struct writer *w, const struct dp_family *f, const struct series *s)
{
	static const char *const behind[] = {
	    [DP_METRIC_COUNTER] = "_total", [DP_METRIC_GAUGE] = "", [DP_METRIC_INFO] = "_info"};

	if (f->type == DP_METRIC_HISTOGRAM) {
		put_histogram(w, f, s);
	} else if (f->type == DP_METRIC_SUMMARY) {
		put_summary(w, f, s);
	} else {
		put_sample(w, f, behind[f->type], s, NULL, NULL);
		put_number(w->out, s->v.number);
		dp_line_char(w->out, '\n');
	}
}

static void put_family(const struct writer *w, const struct dp_family *f)
{
	put_head(w, f);
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].shown)
			put_series(w, f, &f->v[i]);
	if (f->rest.labels)
		put_series(w, f, &f->rest);
}

/* How many series have become a part of the rest, or could not be shown at all. */
static void put_left_out(struct dp_families *all)
{
	struct dp_family *left = dp_family(all, "dprobes_series_left_out", DP_METRIC_GAUGE, NULL,
					   "label sets that are part of the rest (" DP_METRIC_REST
					   "), or cannot be shown");
	struct dp_metric_label label = {.name = "metric", .value = "", .len = 0};

	for (size_t i = 0; left && i < all->n; i++) {
		const struct dp_family *f = all->v[i];

		label.value = f->name;
		label.len = strlen(f->name);
		if (f != left && f->comes && f->nrest)
			dp_family_put(left, &label, 1, &(struct dp_metric_value){.number = (double)f->nrest});
	}
	label.value = "";
	label.len = 0;
	if (left)
		dp_family_put(left, &label, 1, &(struct dp_metric_value){.number = (double)all->refused});
	if (left)
		settle(left);
}

void dp_families_write(struct dp_families *f, bool openmetrics, struct dp_line *out)
{
	const struct writer w = {out, openmetrics};

	for (size_t i = 0; i < f->n; i++)
		if (f->v[i]->comes)
			settle(f->v[i]);
	put_left_out(f);
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i]->comes)
			put_family(&w, f->v[i]);
	if (openmetrics)
		dp_line_str(out, "# EOF\n");
}
