/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Variables that each thread has are places of a table, by the thread's id. When a thread has ended, its places are
 * given to whoever comes, while hits use the table: one store, and the next owner begins with zeroes (hit-tables.c).
 * Ids are given out in a row, so that none is used again before it has been noticed here that its thread has ended.
 */
#include <errno.h>
#include <signal.h>

#include "run/run-priv.h"
#include "run/run-threads.h"

static bool is_alive(struct dp_threads *others, u32 tid)
{
	if (others)
		return dp_threads_has(others, tid);
	return !kill((pid_t)tid, 0) || errno == EPERM;
}

static void clean(const struct dp_rpn_aggregate *a, u64 *table, struct dp_threads *others)
{
	for (u32 i = 0; i < a->keys; i++) {
		u64 *place = table + 1 + i * 3ull, valid = DP_TABLE_VALID;

		/* Pairs with the release by which a hit makes the place its thread's. */
		if (__atomic_load_n(place, __ATOMIC_ACQUIRE) != valid || is_alive(others, (u32)place[1]))
			continue;
		__atomic_compare_exchange_n(place, &valid, DP_TABLE_LEFT, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	}
}

static bool any_threads(const struct dp_rpn_unit *u)
{
	for (u32 i = 0; i < u->naggregates; i++)
		if (u->aggregates[i].thread)
			return true;
	return false;
}

static bool any_in_run(const struct dp_run *run)
{
	for (const struct run_module *m = run->modules; m; m = m->next)
		if (any_threads(&m->unit))
			return true;
	return false;
}

void dp_run_clean_threads(struct dp_run *run)
{
	if (!any_in_run(run)) /* there may be many targets */
		return;
	for (struct run_target *t = run->targets; t; t = t->next)
		for (u32 i = 0; t->session && i < t->nranges; i++) {
			const struct run_range *r = &t->ranges[i];
			const struct dp_rpn_unit *u = &r->m->unit;
			struct dp_threads *others;

			if (r->left_out || r->generation != r->m->generation || !any_threads(u))
				continue;
			others = dp_threads_new(t->pid); /* ids of another namespace */
			if (others)
				dp_threads_scan(others);
			for (u32 k = 0; k < u->naggregates; k++)
				if (u->aggregates[k].thread)
					clean(&u->aggregates[k],
					      (u64 *)dp_tracee_words(t->session) + r->locals + u->aggregates[k].index,
					      others);
			dp_threads_free(others);
		}
}
