/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Tables of one name and the same columns that lines in processes and lines in the kernel have are one, as text, JSON
 * and CSV. Each program counts in its own, and they are put together when they are shown.
 */
#include <stdlib.h>

#include "run/run-priv.h"
#include "run/run-rows.h"

/* A table that a program on the other side of the border has, too. */
static bool is_of_both(const struct dp_run *run, const struct run_module *of, const struct dp_rpn_aggregate *a)
{
	for (const struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; run_is_in_kernel(m) != run_is_in_kernel(of) && i < m->unit.naggregates; i++)
			if (dp_agg_same_table(a, &m->unit.aggregates[i]))
				return true;
	return false;
}

/* Where one side has it twice, in two modules, those are one as well. */
static bool is_like_shared(const struct dp_run *run, const struct dp_rpn_aggregate *a)
{
	for (const struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.naggregates; i++)
			if (m->unit.aggregates[i].shared && dp_agg_same_table(a, &m->unit.aggregates[i]))
				return true;
	return false;
}

static void mark(struct dp_run *run)
{
	for (struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.naggregates; i++)
			m->unit.aggregates[i].shared = is_of_both(run, m, &m->unit.aggregates[i]);
	for (struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.naggregates; i++)
			m->unit.aggregates[i].shared |= is_like_shared(run, &m->unit.aggregates[i]);
}

static void unmark(struct dp_run *run)
{
	for (struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.naggregates; i++)
			m->unit.aggregates[i].shared = false;
}

struct sharers {
	const struct dp_rpn_aggregate *a;
	struct dp_agg_source *v;
	u32 n;
	size_t room;
};

static void add_sharer(void *arg, const struct dp_rpn_unit *u, volatile u64 *words, const struct dp_agg_view *view)
{
	struct sharers *s = arg;

	for (u32 i = 0; i < u->naggregates; i++)
		if (dp_agg_same_table(s->a, &u->aggregates[i]) &&
		    dp_grow((void **)&s->v, &s->room, s->n, sizeof(*s->v)))
			s->v[s->n++] = (struct dp_agg_source){&u->aggregates[i], words, *view};
}

/* The first of its kind shows all. */
static bool was_shown(const struct dp_run *run, const struct dp_rpn_aggregate *a)
{
	for (const struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.naggregates; i++) {
			if (a == &m->unit.aggregates[i])
				return false;
			if (dp_agg_same_table(a, &m->unit.aggregates[i]))
				return true;
		}
	return false;
}

static void show_one(const struct dp_run *run, const struct run_module *m, const struct dp_rpn_aggregate *a,
		     enum dp_format format, FILE *out)
{
	struct sharers s = {.a = a};

	dp_run_each_words(run, add_sharer, &s);
	if (s.n)
		dp_agg_show_shared(format, &m->unit, s.v, s.n, out);
	free(s.v);
}

static void show_shared(const struct dp_run *run, enum dp_format format, FILE *out)
{
	bool any = false;

	for (const struct run_module *m = run->modules; m; m = m->next)
		for (u32 i = 0; i < m->unit.naggregates; i++) {
			const struct dp_rpn_aggregate *a = &m->unit.aggregates[i];

			if (!a->shared || was_shown(run, a))
				continue;
			if (!any && format == DP_FORMAT_TEXT)
				fprintf(out, "processes and the kernel:\n");
			any = true;
			show_one(run, m, a, format, out);
		}
}

int dp_run_vars_of_all(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out,
		       struct dp_error *err)
{
	enum dp_format format = dp_run_format(rq->flags);
	bool shares = !*name && !run->log && rq->flags & DP_RUN_AGGREGATES && !(rq->flags & DP_RUN_RESET) &&
		      (format == DP_FORMAT_TEXT || format == DP_FORMAT_JSON || format == DP_FORMAT_CSV);
	int r;

	if (shares)
		mark(run);
	r = dp_run_vars(run, rq, name, out, err);
	if (shares) {
		show_shared(run, format, out);
		unmark(run);
	}
	return r;
}
