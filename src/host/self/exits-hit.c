/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exit facilities at a hit of another owner's program (abi/abi-exits.h). General registers only; no lock. */
#include <errno.h>

#include "host/self/self-exits.h"
#include "host/self/self-priv.h"

EXPORT struct dp_exits_registry dp_self_exits = {.magic = DP_EXITS_MAGIC, .version = DP_EXITS_VERSION};
u32 dp_self_exit_xmask, dp_self_exit_xsize;

__thread u32 dp_self_exit_depth __attribute__((tls_model("initial-exec")));

static bool is_name(const struct dp_exits_row *row, const u8 *name, u32 len)
{
	for (u32 i = 0; i < len; i++)
		if (i == sizeof(row->name) || (u8)row->name[i] != name[i])
			return false;
	return len < sizeof(row->name) && !row->name[len];
}

static HIT u32 call(struct dp_exit *e, const struct dp_exit_call *c)
{
	int saved = errno, r;

	if (e->nargs != c->nargs || e->nresults != c->nresults)
		return EPROTO;
	dp_self_exit_depth++;
	r = dp_self_exit_run(e->handler, e, (struct pt_regs *)c->regs, (const dp_exit_word *)c->args,
			     (dp_exit_word *)c->results);
	dp_self_exit_depth--;
	errno = saved;
	return r < 0 ? -(u32)r : (u32)r;
}

EXPORT HIT u32 dp_self_exit_call(const struct dp_exit_call *c)
{
	for (u32 i = 0; i < DP_EXITS_MAX; i++) {
		struct dp_exits_row *row = &dp_self_exits.rows[i];
		struct dp_exit *e;
		u32 r = ENOENT;

		if (!__atomic_load_n(&row->exit, __ATOMIC_RELAXED))
			continue;
		/* Who unregisters sees this before it waits, or the row is seen to be empty. Pairs with leave(). */
		__atomic_fetch_add(&row->inside, 1, __ATOMIC_SEQ_CST);
		e = (struct dp_exit *)__atomic_load_n(&row->exit, __ATOMIC_SEQ_CST);
		if (e && is_name(row, c->name, c->len))
			r = call(e, c);
		else
			e = NULL;
		__atomic_fetch_sub(&row->inside, 1, __ATOMIC_RELEASE); /* pairs with the acquire in leave() */
		if (e)
			return r;
	}
	return ENOENT;
}
