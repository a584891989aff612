/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Words of the module that stay from hit to hit: aggregates, variables of threads, tables of calls in progress, and
 * what the control side puts there. Each has its place once for the whole file, in all passes.
 */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

#define KEYS_THREADS 1024   /* of a variable that each has */
#define KEYS_PROCESSES 1024 /* that have such a variable for others to read */

/* The aggregate of that name: the same one everywhere in the file, and in all passes. */
struct aggregate *dp_cc_aggregate(struct dpcc *c, const struct tok *t, const struct dp_rpn_aggregate *wanted)
{
	struct aggregate *a, **last = &c->aggregates;
	u64 words = dp_rpn_aggregate_words(wanted);

	for (; (a = *last); last = &a->next) {
		if (a->a.kind != wanted->kind || a->a.average != wanted->average || a->a.thread != wanted->thread ||
		    strcmp(a->a.name, wanted->name))
			continue;
		if (a->a.step != wanted->step)
			dp_cc_fail(c, t, E_DPCC_TYPE, "'%.60s' has a different step elsewhere", wanted->name);
		if (a->a.nparts != wanted->nparts || a->a.frames != wanted->frames ||
		    memcmp(a->a.parts, wanted->parts, sizeof(a->a.parts)) ||
		    memcmp(a->a.layouts, wanted->layouts, sizeof(a->a.layouts)))
			dp_cc_fail(c, t, E_DPCC_TYPE, "'%.60s' has keys of a different type elsewhere", wanted->name);
		return a;
	}
	if (c->nlocals + words > DP_LOCALS_MAX)
		dp_cc_fail(c, t, E_DPCC_LIMIT,
			   "static variables and aggregates can have at most %d words; this takes %llu", DP_LOCALS_MAX,
			   (unsigned long long)words);
	a = dp_cc_alloc(c, sizeof(*a));
	*a = (struct aggregate){.a = *wanted};
	a->a.index = c->nlocals;
	c->nlocals += (u32)words;
	*last = a;
	return a;
}

u32 dp_cc_loss(struct dpcc *c, const struct tok *t, const char *name)
{
	struct dp_rpn_aggregate wanted = {.kind = DP_AGG_COUNT, .step = 1, .loss = true};

	dp_format(wanted.name, sizeof(wanted.name), "%s", name);
	return dp_cc_aggregate(c, t, &wanted)->a.index;
}

struct dp_rpn_aggregate *dp_cc_thread_table(struct dpcc *c, const struct tok *t, const char *name, bool of_process)
{
	struct dp_rpn_aggregate wanted = {.kind = DP_AGG_LAST, .step = 1, .nparts = 1, .thread = true};

	wanted.of_process = of_process;
	wanted.keys = of_process ? KEYS_PROCESSES : c->threads ? c->threads : KEYS_THREADS;
	wanted.parts[0] = DP_KEY_SIGNED;
	dp_format(wanted.name, sizeof(wanted.name), "%.60s", name);
	return &dp_cc_aggregate(c, t, &wanted)->a;
}

struct dp_rpn_aggregate *dp_cc_table_of(struct dpcc *c, const struct var *v)
{
	struct aggregate *a = c->aggregates;

	while (a->a.index != (u32)v->first_word)
		a = a->next;
	return &a->a;
}

u32 dp_cc_known(struct dpcc *c, const struct tok *t, u32 what, enum dp_rpn_known_how how, const char *text)
{
	struct known *k;

	for (k = c->knowns; k; k = k->next)
		if (k->k.what == what && k->k.how == how && !strcmp(k->k.text, text))
			return k->k.index;
	k = dp_cc_alloc(c, sizeof(*k));
	k->next = c->knowns;
	k->k.what = (u16)what;
	k->k.how = (u16)how;
	k->k.index = c->nlocals;
	dp_format(k->k.text, sizeof(k->k.text), "%s", text);
	c->knowns = k;
	c->nlocals += dp_rpn_known_words(how);
	if (c->nlocals > DP_LOCALS_MAX)
		dp_cc_fail(c, t, E_DPCC_LIMIT, "there is no room for $%s", dp_rpn_known_name(what));
	return k->k.index;
}

struct call *dp_cc_call_of(struct dpcc *c, u64 line)
{
	for (struct call *k = c->calls; k; k = k->next)
		if (k->line == line)
			return k;
	return NULL;
}
