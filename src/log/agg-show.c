/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Reads and sorts what local variables add up to, and hands it to the sink of a format. */
#include <stdlib.h>
#include <string.h>

#include "log/aggregate.h"
#include "log/sink.h"

/* ---- order: the largest first, of equal ones the lowest key, whatever the order in which the table has them ---- */

struct ordered {
	double weight;
	const struct dp_agg_entry *e;
};

static int order_part(u32 kind, const u64 *x, const u64 *y, u32 words)
{
	if (kind == DP_KEY_TEXT)
		return memcmp(x, y, words * sizeof(*x));
	if (kind == DP_KEY_SIGNED || kind == DP_KEY_NAMES)
		return *x == *y ? 0 : (s64)*x < (s64)*y ? -1 : 1;
	for (u32 w = 0; w < words; w++)
		if (x[w] != y[w])
			return x[w] < y[w] ? -1 : 1;
	return 0;
}

static int order_keys(const struct dp_rpn_aggregate *a, const u64 *x, const u64 *y)
{
	for (u32 i = 0; i < a->nparts; i++) {
		u32 words = dp_rpn_key_part_words(a, i);
		int order = order_part(a->parts[i], x, y, words);

		if (order)
			return order;
		x += words;
		y += words;
	}
	return 0;
}

static int heavier(const void *a, const void *b, void *aggregate)
{
	const struct ordered *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return order_keys(aggregate, x->e->key, y->e->key);
}

/* Of one table or several: room for their keys, and those that are there. */
struct entries {
	struct dp_agg_entry *v;
	u32 n;
};

static bool has_room(struct entries *to, u32 more)
{
	struct dp_agg_entry *v = reallocarray(to->v, (size_t)to->n + more + 1, sizeof(*v));

	if (!v)
		return false;
	to->v = v;
	return true;
}

static void read_values(const struct dp_rpn_aggregate *a, volatile const u64 *words, const struct dp_agg_view *view,
			u64 *v)
{
	struct dp_apart apart = dp_fold_can_be_apart(a->kind) ? view->apart : (struct dp_apart){0, 0};

	for (u32 w = 0; w < dp_aggregate_words(a->kind); w++)
		v[w] = dp_apart_read(words + w, apart);
}

/* The words of the call chain whose place has this index, the hit last. False: it has no place. */
static bool read_chain(const struct dp_rpn_aggregate *a, volatile const u64 *table, u64 index, u64 *key)
{
	u32 step = 2 + a->frames; /* state, digest, frames */
	u64 first = dp_rpn_chains_at(a) + 3ull;

	if (index < first || (index - first) % step || (index - first) / step >= a->chains)
		return false;
	for (u32 i = 0; i < a->frames; i++)
		key[a->frames - 1 - i] = table[index - a->index + i];
	return true;
}

static bool read_key(const struct dp_rpn_aggregate *a, volatile const u64 *table, volatile const u64 *words, u64 *key)
{
	for (u32 i = 0; i < a->nparts; key += dp_rpn_key_part_words(a, i++)) {
		u32 n = dp_rpn_key_part_words(a, i);

		if (a->chains && a->parts[i] == DP_KEY_STACK) {
			if (!read_chain(a, table, *words++, key))
				return false;
			continue;
		}
		for (u32 w = 0; w < n; w++)
			key[w] = *words++;
	}
	return true;
}

/*
 * Entries, and what found no room is added. Hits whose call chain has no place have a key of their own; where that
 * found no room either, they are counted there alone.
 */
static void read_entries(const struct dp_rpn_aggregate *a, volatile const u64 *table, const struct dp_agg_view *view,
			 struct entries *to, u64 *no_room)
{
	u32 k = dp_rpn_placed_words(a), words = dp_aggregate_words(a->kind);
	bool any_without = false;

	*no_room += table[0];
	if (!has_room(to, a->keys))
		return;
	for (u32 i = 0; i < a->keys; i++) {
		volatile const u64 *place = table + 1 + i * (1 + k + words);
		struct dp_agg_entry *e = &to->v[to->n];

		/* Pairs with the store by which the hit path makes a new entry valid: its key is whole. */
		if (__atomic_load_n(place, __ATOMIC_ACQUIRE) != DP_TABLE_VALID)
			continue;
		*e = (struct dp_agg_entry){.view = view};
		if (!read_key(a, table, place + 1, e->key)) {
			any_without = true;
			continue;
		}
		read_values(a, place + 1 + k, view, e->v);
		to->n += a->kind == DP_AGG_SUM ? e->v[1] != 0 : dp_agg_weight(a, e->v) != 0 || a->kind != DP_AGG_LAST;
	}
	if (any_without)
		*no_room += table[dp_rpn_chains_at(a) - a->index];
}

static void sort_entries(const struct dp_rpn_aggregate *a, struct entries *e)
{
	struct dp_agg_entry *sorted = calloc(e->n + 1ull, sizeof(*sorted));
	struct ordered *o = calloc(e->n + 1ull, sizeof(*o));

	for (u32 i = 0; sorted && o && i < e->n; i++)
		o[i] = (struct ordered){dp_agg_weight(a, e->v[i].v), &e->v[i]};
	if (sorted && o && e->n) {
		qsort_r(o, e->n, sizeof(*o), heavier, (void *)a);
		for (u32 i = 0; i < e->n; i++)
			sorted[i] = *o[i].e;
		free(e->v);
		e->v = sorted;
		sorted = NULL;
	}
	free(sorted);
	free(o);
}

/* ---- equal keys, of one table or several: what a child counted before its execve stands with its parent ---- */

static int by_key(const void *a, const void *b)
{
	const struct dp_agg_entry *x = a, *y = b;

	return memcmp(x->key, y->key, sizeof(x->key));
}

static void add_extreme(bool is_min, u64 *to, const u64 *from)
{
	if (!from[1] || (to[1] && (is_min ? (s64)to[0] <= (s64)from[0] : (s64)to[0] >= (s64)from[0])))
		return;
	to[0] = from[0];
	to[1] = from[1];
}

static void add_values(u32 kind, u64 *to, const u64 *from)
{
	if (kind == DP_AGG_MIN || kind == DP_AGG_MAX) {
		add_extreme(kind == DP_AGG_MIN, to, from);
		return;
	}
	for (u32 w = 0; w < dp_aggregate_words(kind); w++)
		to[w] = kind == DP_AGG_LAST ? from[w] : to[w] + from[w];
}

static void unite(const struct dp_rpn_aggregate *a, struct entries *e)
{
	u32 n = 0;

	if (e->n)
		qsort(e->v, e->n, sizeof(*e->v), by_key);
	for (u32 i = 0; i < e->n; i++)
		if (n && !by_key(&e->v[n - 1], &e->v[i]))
			add_values(a->kind, e->v[n - 1].v, e->v[i].v);
		else
			e->v[n++] = e->v[i];
	e->n = n;
}

/* ---- tables ---- */

static void hand_entries(struct dp_agg_table *t, struct entries *e, dp_agg_fn *fn, void *arg)
{
	sort_entries(t->a, e);
	t->v = e->v;
	t->left_out = t->a->top && e->n > t->a->top ? e->n - t->a->top : 0;
	t->n = e->n - t->left_out;
	fn(arg, t);
	free(e->v);
}

static void hand_over(const struct dp_agg_table *what, volatile const u64 *words, dp_agg_fn *fn, void *arg)
{
	struct dp_agg_entry single = {.v = {0}};
	struct entries e = {.v = NULL};
	struct dp_agg_table t = *what;

	if (t.a->hidden && !words[0])
		return;
	if (t.a->hidden) {
		t.no_room = words[0];
		fn(arg, &t);
		return;
	}
	if (t.a->nparts) {
		read_entries(t.a, words, t.view, &e, &t.no_room);
		/* A key may have two places: for one that is being written others do not wait for long. */
		unite(t.a, &e);
		hand_entries(&t, &e, fn, arg);
		return;
	}
	read_values(t.a, words, t.view, single.v);
	t.v = &single;
	t.n = 1;
	fn(arg, &t);
}

static bool is_asked_for(const struct dp_rpn_aggregate *a, u32 only)
{
	if (a->loss || a->thread || a->shared)
		return false;
	return only == DP_AGG_OWN ? !dp_rpn_is_by_process(a) : only == DP_AGG_ALL || a->index == only;
}

void dp_agg_each(const struct dp_rpn_unit *u, volatile const u64 *words, u32 only, const struct dp_agg_view *view,
		 dp_agg_fn *fn, void *arg)
{
	for (u32 i = 0; i < u->naggregates; i++) {
		struct dp_agg_table t = {.a = &u->aggregates[i], .unit = u, .module = u->name, .view = view};

		if (is_asked_for(t.a, only))
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
	if (!s->line.broken && s->line.n)
		fwrite(s->line.text, 1, s->line.n, s->out);
}

void dp_agg_show(enum dp_format format, const struct dp_rpn_unit *u, volatile const u64 *words, u32 only,
		 const struct dp_agg_view *view, FILE *out)
{
	struct shown s = {.format = format, .out = out};

	dp_agg_each(u, words, only, view, show_one, &s);
	dp_line_free(&s.line);
}

static void read_source(const struct dp_agg_source *from, const struct dp_rpn_aggregate *a, struct dp_agg_table *t,
			struct entries *to)
{
	volatile const u64 *words = from->words + a->index;

	if (a->nparts) {
		read_entries(a, words, &from->view, to, &t->no_room);
	} else if (has_room(to, 1)) {
		struct dp_agg_entry *e = &to->v[to->n++];

		*e = (struct dp_agg_entry){.view = &from->view};
		read_values(a, words, &from->view, e->v);
	}
	t->view = &from->view;
}

static void show_united(const struct dp_rpn_unit *u, const struct dp_rpn_aggregate *a, const struct dp_agg_source *v,
			u32 n, struct shown *s)
{
	struct dp_agg_table t = {.a = a, .unit = u, .module = u->name};
	struct entries e = {.v = NULL};

	for (u32 k = 0; k < n; k++)
		read_source(&v[k], v[k].a ? v[k].a : a, &t, &e);
	unite(a, &e);
	hand_entries(&t, &e, show_one, s);
}

bool dp_agg_same_table(const struct dp_rpn_aggregate *a, const struct dp_rpn_aggregate *b)
{
	for (u32 i = 0; i < a->nparts; i++)
		if (a->parts[i] == DP_KEY_NAMES) /* layouts are numbered by each program */
			return false;
	return !a->loss && !a->thread && !a->hidden && !b->hidden && !strcmp(a->name, b->name) && a->kind == b->kind &&
	       a->average == b->average && a->step == b->step && a->from == b->from && a->unit == b->unit &&
	       a->nparts == b->nparts && a->frames == b->frames && !memcmp(a->parts, b->parts, sizeof(a->parts));
}

/* ---- for people ---- */

/* Behind the name of the program; probes were taken out to keep the budget: what is left of the whole. */
static void end_title(const struct dp_rpn_unit *u, u32 taken_out, FILE *out)
{
	fprintf(out, ", %s", u->name);
	if (taken_out)
		fprintf(out, " (partial: %u probe%s taken out for some time)", taken_out,
			taken_out == 1 ? " was" : "s were");
	fprintf(out, ":\n");
}

void dp_agg_show_process(const struct dp_rpn_unit *u, volatile const u64 *words, bool merged,
			 const struct dp_agg_view *view, FILE *out)
{
	if (view->pid)
		fprintf(out, "process %d%s", (int)view->pid, view->ended ? " (ended)" : "");
	else
		fprintf(out, "the kernel");
	end_title(u, view->taken_out, out);
	dp_agg_show(DP_FORMAT_TEXT, u, words, merged ? DP_AGG_OWN : DP_AGG_ALL, view, out);
}

void dp_agg_show_merged(const struct dp_rpn_unit *u, const struct dp_agg_source *v, u32 n, FILE *out)
{
	struct shown s = {.format = DP_FORMAT_TEXT, .out = out};

	fprintf(out, "all processes");
	end_title(u, n ? v->view.taken_out : 0, out);
	for (u32 i = 0; i < u->naggregates; i++)
		if (dp_rpn_is_by_process(&u->aggregates[i]) && !u->aggregates[i].shared)
			show_united(u, &u->aggregates[i], v, n, &s);
	dp_line_free(&s.line);
}

void dp_agg_show_shared(enum dp_format format, const struct dp_rpn_unit *u, const struct dp_agg_source *v, u32 n,
			FILE *out)
{
	struct shown s = {.format = format, .out = out};

	show_united(u, v[0].a, v, n, &s);
	dp_line_free(&s.line);
}
