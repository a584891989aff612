/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is the same for all architectures: names of outcomes, and looking things up in code. Kernel-clean. */
#include "arch/analysis.h"

const char *dp_outcome_name(enum dp_outcome o)
{
	static const char *const names[] = {
	    [DP_OUTCOME_REFUSED] = "refused", [DP_OUTCOME_TRAP] = "trap",     [DP_OUTCOME_PUN] = "pun",
	    [DP_OUTCOME_HOP] = "hop",         [DP_OUTCOME_FTRACE] = "ftrace", [DP_OUTCOME_JUMP] = "jump",
	};

	return (unsigned)o < DP_ARRAY_SIZE(names) ? names[o] : "?";
}

const struct dp_func *dp_text_func(const struct dp_text *t, u64 addr)
{
	size_t n = DP_COUNT_UP_TO(t->funcs, t->nfuncs, lo, addr);

	return n && addr < t->funcs[n - 1].hi ? &t->funcs[n - 1] : NULL;
}

void dp_code_mark(struct dp_analysis *c, u64 addr)
{
	struct dp_code_text *ct = dp_code_at(c, addr);

	if (ct)
		dp_code_arrive(c, ct, addr - ct->t.lo);
}

bool dp_code_may_run(struct dp_analysis *c, u64 addr)
{
	struct dp_code_text *ct = dp_code_at(c, addr);

	return ct && (!ct->runs || dp_code_get(ct->runs, addr - ct->t.lo));
}

struct dp_func *dp_code_func(const struct dp_analysis *c, u64 addr)
{
	struct dp_code_text *ct = dp_code_at(c, addr);
	const struct dp_func *f = ct ? dp_text_func(&ct->t, addr) : NULL;

	return f && f->lo == addr ? &ct->funcs[f - ct->funcs] : NULL;
}

void dp_code_take(struct dp_analysis *c, u64 addr)
{
	struct dp_code_text *ct = dp_code_at(c, addr);
	struct dp_func *f;

	if (!ct)
		return;
	if (ct->pointed) { /* there may be some hundred thousand: no search for each */
		dp_code_set(ct->pointed, addr - ct->t.lo);
	} else {
		f = dp_code_func(c, addr);
		if (f)
			f->flags |= DP_FUNC_ENTERED;
	}
	dp_code_arrive(c, ct, addr - ct->t.lo);
}

void dp_code_release(struct dp_analysis *c)
{
	for (u32 i = 0; i < c->ntexts; i++) {
		dp_free(c->texts[i].runs);
		c->texts[i].runs = NULL;
	}
	dp_free(c->tables);
	dp_free(c->jumps);
	c->tables = NULL;
	c->jumps = NULL;
	c->ntables = c->tables_cap = c->njumps = c->jumps_cap = 0;
}
