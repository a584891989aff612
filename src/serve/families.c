/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See families.h. Which series there are; families-text.c and families-proto.c write them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "serve/families-priv.h"

#define FAMILIES_MAX 1000
#define LABEL_MAX 512 /* bytes of a value */

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

void dp_metric_escape(struct dp_line *l, const char *s, size_t n)
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
			dp_metric_escape(l, labels[i].value, fitting(labels[i].value, labels[i].len));
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
	return dp_hash(DP_HASH_BEGIN, s, strlen(s));
}

/* ---- families ---- */

struct dp_families *dp_families_new(u32 most)
{
	struct dp_families *f = calloc(1, sizeof(*f));

	if (f)
		f->most = most;
	return f;
}

static void free_series(struct dp_series *s)
{
	free(s->labels);
	free(s->v.bars);
	*s = (struct dp_series){0};
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
	struct dp_series s = {.labels = labels_text(labels, n, false), .v = *v};

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

static struct dp_place *place_of(const struct dp_family *f, const struct dp_series *s)
{
	for (u32 i = 0; i < f->nplaces; i++)
		if (f->places[i].hash == s->hash && !strcmp(f->places[i].labels, s->labels))
			return &f->places[i];
	return NULL;
}

/* In its place; a second one with the same labels adds to the first. */
static void take_place(struct dp_family *f, struct dp_place *p, size_t i)
{
	struct dp_series *s = &f->v[i];

	if (!p->at) {
		p->at = i + 1;
		s->shown = true;
		return;
	}
	if (!fold(&f->v[p->at - 1].v, &s->v))
		f->nrest++;
	free_series(s);
}

static void join_rest(struct dp_family *f, struct dp_series *s)
{
	f->nrest++;
	if (!f->rest.labels && s->v.fold != DP_FOLD_NONE && f->rest_labels) {
		free(s->labels);
		s->labels = f->rest_labels;
		s->v.nquantiles = 0;
		f->rest_labels = NULL;
		f->rest = *s;
		*s = (struct dp_series){0};
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
		struct dp_place *p = place_of(f, &f->v[i]);

		if (p)
			take_place(f, p, i);
	}
	free_places(f);
	for (size_t i = 0; i < f->n; i++) {
		struct dp_series *s = &f->v[i];
		struct dp_place *p = !s->labels || s->shown ? NULL : place_of(f, s);
		char *labels;

		if (!s->labels || s->shown)
			continue;
		labels = !p && f->nplaces < f->most ? strdup(s->labels) : NULL;
		if (labels) {
			p = &f->places[f->nplaces++];
			*p = (struct dp_place){.labels = labels, .hash = s->hash};
		}
		if (p)
			take_place(f, p, i);
		else
			join_rest(f, s);
	}
}

/* ---- what is told ---- */

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

void dp_families_write(struct dp_families *f, enum dp_exposition format, struct dp_line *out)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i]->comes)
			settle(f->v[i]);
	put_left_out(f);
	for (size_t i = 0; i < f->n; i++) {
		if (!f->v[i]->comes)
			continue;
		if (format == DP_EXPOSITION_PROTO)
			dp_family_write_proto(f->v[i], out);
		else
			dp_family_write_text(f->v[i], format == DP_EXPOSITION_OPENMETRICS, out);
	}
	if (format == DP_EXPOSITION_OPENMETRICS)
		dp_line_str(out, "# EOF\n");
}
