/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Reads and sorts what local variables add up to, and hands it to the sink of a format. */
#include <stdlib.h>

#include "log/aggregate.h"
#include "log/sink.h"

struct ordered {
	double weight;
	struct dp_agg_entry *e;
};

static int heavier(const void *a, const void *b)
{
	double x = ((const struct ordered *)a)->weight, y = ((const struct ordered *)b)->weight;

	return x > y ? -1 : x < y;
}

static u32 read_entries(const struct dp_rpn_aggregate *a, volatile const u64 *table, struct dp_agg_entry *v)
{
	u32 k = dp_rpn_key_words(a), words = dp_aggregate_words(a->kind), n = 0;

	for (u32 i = 0; i < a->keys; i++) {
		volatile const u64 *place = table + 1 + i * (1 + k + words);

		/* Pairs with the store by which the hit path makes a new entry valid: its key is whole. */
		if (__atomic_load_n(place, __ATOMIC_ACQUIRE) != DP_TABLE_VALID)
			continue;
		for (u32 w = 0; w < k; w++)
			v[n].key[w] = place[1 + w];
		for (u32 w = 0; w < words; w++)
			v[n].v[w] = place[1 + k + w];
		n += dp_agg_weight(a, v[n].v) != 0 || a->kind != DP_AGG_LAST;
	}
	return n;
}

/* The entries in order, in one piece of memory (free() it). NULL: no memory. */
static struct dp_agg_entry *read_table(const struct dp_rpn_aggregate *a, volatile const u64 *table, u32 *n)
{
	struct dp_agg_entry *v = calloc(a->keys, sizeof(*v)), *sorted = calloc(a->keys, sizeof(*v));
	struct ordered *o = calloc(a->keys, sizeof(*o));

	*n = v && sorted && o ? read_entries(a, table, v) : 0;
	for (u32 i = 0; i < *n; i++)
		o[i] = (struct ordered){dp_agg_weight(a, v[i].v), &v[i]};
	if (*n)
		qsort(o, *n, sizeof(*o), heavier);
	for (u32 i = 0; i < *n; i++)
		sorted[i] = *o[i].e;
	free(v);
	free(o);
	return sorted;
}

static void hand_over(const struct dp_agg_table *what, volatile const u64 *words, dp_agg_fn *fn, void *arg)
{
	struct dp_agg_entry single = {.v = {0}}, *v = NULL;
	struct dp_agg_table t = *what;

	if (t.a->nparts) {
		t.no_room = words[0];
		t.v = v = read_table(t.a, words, &t.n);
		t.left_out = t.a->top && t.n > t.a->top ? t.n - t.a->top : 0;
		t.n -= t.left_out;
	} else {
		for (u32 k = 0; k < dp_aggregate_words(t.a->kind); k++)
			single.v[k] = words[k];
		t.v = &single;
		t.n = 1;
	}
	fn(arg, &t);
	free(v);
}

void dp_agg_each(const struct dp_rpn_unit *u, volatile const u64 *words, u32 only, const struct dp_agg_view *view,
		 dp_agg_fn *fn, void *arg)
{
	for (u32 i = 0; i < u->naggregates; i++) {
		struct dp_agg_table t = {.a = &u->aggregates[i], .unit = u, .module = u->name, .view = view};

		if (!t.a->loss && !t.a->thread && (only == DP_AGG_ALL || t.a->index == only))
			hand_over(&t, words + t.a->index, fn, arg);
	}
}

void dp_agg_put(enum dp_format format, const struct dp_agg_table *t, struct dp_line *l)
{
	/* A sink begins with struct dp_sink and goes on with what its format keeps. */
	union dp_sink_room room = {.s = {.ops = dp_format_of_programs(format), .line = l, .dim = "", .plain = ""}};

	room.s.ops->aggregate(&room.s, t);
}

struct shown {
	enum dp_format format;
	struct dp_line line;
	FILE *out;
};

static void show_one(void *arg, const struct dp_agg_table *t)
{
	struct shown *s = arg;

	dp_line_reset(&s->line);
	dp_agg_put(s->format, t, &s->line);
	if (!s->line.broken)
		fwrite(s->line.text, 1, s->line.n, s->out);
}

void dp_agg_show(enum dp_format format, const struct dp_rpn_unit *u, volatile const u64 *words, u32 only,
		 const struct dp_agg_view *view, FILE *out)
{
	struct shown s = {.format = format, .out = out};

	dp_agg_each(u, words, only, view, show_one, &s);
	dp_line_free(&s.line);
}
