/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A module's variables outlive the sessions of a target: they are carried over to the next one, and those of a module
 * that the target has unmapped are kept for when it maps it again.
 */
#include <stdlib.h>
#include <string.h>

#include "run/run-priv.h"

bool dp_run_is_among(const struct run_wanted *w, const struct run_module *m)
{
	for (u32 i = 0; i < w->n; i++)
		if (w->v[i] == m)
			return true;
	return false;
}

/* Take what is kept of a module, the first if m is NULL; NULL: nothing is. */
static struct run_kept *take_kept(struct run_target *t, const struct run_module *m)
{
	struct run_kept *k, **p = &t->kept;

	while (*p && m && (*p)->m != m)
		p = &(*p)->next;
	k = *p;
	if (k)
		*p = k->next;
	return k;
}

bool dp_run_keeps_gate(const struct run_range *to, const struct run_range *from, u32 k)
{
	const bool *is_new = to->m->before == from->m ? to->m->is_new : from->m->is_new;

	if (k >= to->ngates || k >= from->ngates)
		return false;
	return to->m == from->m ? to->generation == from->generation : dp_run_goes_on(to->m, from->m) && !is_new[k];
}

void dp_run_forget_kept(struct run_target *t, const struct run_module *m)
{
	struct run_kept *k = take_kept(t, m);

	if (k)
		dp_run_free_ended(k->locals);
	free(k);
}

void dp_run_end_kept(struct dp_run *run, struct run_target *t)
{
	for (struct run_kept *k; (k = take_kept(t, NULL)); free(k))
		if (k->generation == k->m->generation) {
			if (k->locals)
				dp_run_end_body_words(run, t, k->m, k->locals->words);
			dp_run_keep_ended(k->m, k->locals);
		} else {
			dp_run_free_ended(k->locals);
		}
}

void dp_run_keep_words(struct run_target *t, const u64 *old, const struct run_range *ranges, u32 n,
		       const struct run_wanted *w)
{
	const struct dp_agg_view view = {t->pid, true, dp_run_symbol_of, t};

	for (u32 i = 0; old && i < n; i++) {
		const struct run_range *s = &ranges[i];
		struct run_kept *k = s->left_out || dp_run_is_among(w, s->m)
					 ? NULL
					 : calloc(1, sizeof(*k) + s->ngates * sizeof(u64));
		if (!k)
			continue;
		*k = (struct run_kept){t->kept, s->m, s->generation, dp_run_ended_new(s->m, old + s->locals, &view)};
		memcpy(k->gates, old + s->gates, s->ngates * sizeof(u64));
		t->kept = k;
	}
}

/* Words that a module had in the session before stay with it, as long as its probes are the same. */
static void carry_over(const u64 *old, const struct run_range *ranges, u32 n, const struct run_target *t, u64 *words)
{
	if (!old)
		return;
	memcpy(words, old, RUN_GLOBALS * sizeof(*words));
	for (u32 i = 0; i < n; i++)
		for (u32 k = 0; k < t->nranges; k++) {
			const struct run_range *from = &ranges[i], *to = &t->ranges[k];

			if (!dp_run_goes_on(to->m, from->m))
				continue;
			memcpy(words + to->locals, old + from->locals,
			       DP_MIN(from->nlocals, to->nlocals) * sizeof(*words));
			for (u32 g = 0; g < to->ngates; g++)
				if (dp_run_keeps_gate(to, from, g))
					words[to->gates + g] = old[from->gates + g];
		}
}

/* A module that the target had before goes on with its words. */
bool dp_run_bring_back(const struct run_target *t, const struct run_range *to, volatile u64 *words)
{
	bool any = false;

	for (const struct run_kept *k = t->kept; k; k = k->next) {
		if (k->m != to->m || k->generation != to->generation || !k->locals)
			continue;
		for (u32 i = 0; i < to->nlocals; i++)
			words[to->locals + i] = k->locals->words[i];
		for (u32 i = 0; i < to->ngates; i++)
			words[to->gates + i] = k->gates[i];
		any = true;
	}
	return any;
}

void dp_run_fill_words(const struct run_target *t, const u64 *old, const struct run_range *ranges, u32 nranges,
		       u64 *words)
{
	for (u32 i = 0; i < t->nranges; i++)
		for (u32 k = 0; k < t->ranges[i].m->unit.ninits; k++)
			words[t->ranges[i].locals + t->ranges[i].m->unit.inits[k].index] =
			    (u64)t->ranges[i].m->unit.inits[k].value;
	carry_over(old, ranges, nranges, t, words);
	for (u32 i = 0; i < t->nranges; i++)
		dp_run_bring_back(t, &t->ranges[i], words);
}
