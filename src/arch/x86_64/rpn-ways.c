/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Ways out of an instruction: calls of the hit path, jumps to other instructions and to the ends of a run, and those to
 * the interpreter, each with the words that it must find in memory. rpn-compile.c writes the far ends.
 */
#include "arch/x86_64/rpn-compile-priv.h"

static void *grown(struct compiler *c, void *old, u32 n, u32 *cap, size_t size)
{
	u32 more = *cap ? 2 * *cap : 64;
	void *p = n < *cap ? old : dp_resize(old, *cap * size, more * size);

	if (!p)
		c->failed = true;
	else if (n >= *cap)
		*cap = more;
	return p ? p : old;
}

static void add_fixup(struct compiler *c, size_t hole, u32 at)
{
	c->fixups = grown(c, c->fixups, c->nfixups, &c->cap_fixups, sizeof(*c->fixups));
	if (!c->failed)
		c->fixups[c->nfixups++] = (struct fixup){hole, at};
}

static void add_leave(struct compiler *c, u8 cc, enum way way, u32 at)
{
	struct leave l = {
	    .hole = jump_hole(c->e, cc), .at = at, .top = c->top, .any_top = c->any_top, .cur = c->cur, .way = way};

	if (way != WAY_RAISE)
		l.refund = c->charged;
	dp_val_save(c, &l);
	c->leaves = grown(c, c->leaves, c->nleaves, &c->cap_leaves, sizeof(*c->leaves));
	if (!c->failed)
		c->leaves[c->nleaves++] = l;
}

void dp_way_leave_if(struct compiler *c, u8 cc, enum way way, u32 at)
{
	add_leave(c, cc, way, at);
}

void dp_way_leave(struct compiler *c)
{
	add_leave(c, CC_ALWAYS, WAY_AGAIN, c->at);
	c->ended = true;
}

void dp_way_go(struct compiler *c, enum go_op op, enum dp_service s)
{
	(c->in->near ? go_near : go_far)(c->e, op, c->in->services[s]);
}

void dp_way_call(struct compiler *c, enum dp_service s)
{
	move(c->e, DI, HIT);
	dp_way_go(c, GO_CALL, s);
}

void dp_way_finish(struct compiler *c, u8 cc, enum dp_run_result result)
{
	add_fixup(c, jump_hole(c->e, cc), END_BASE + result);
	c->ended |= cc == CC_ALWAYS;
}

void dp_way_spend(struct compiler *c, u32 work)
{
	if (!work)
		return;
	c->charged += work;
	op_mem(c->e, true, 0x81, ALU_SUB, HIT_AT(work));
	dp_emit_u32(c->e, work);
	dp_way_leave_if(c, CC_S, WAY_AGAIN, c->at);
}

void dp_way_goto(struct compiler *c, u8 cc, u32 at)
{
	add_fixup(c, jump_hole(c->e, cc), at);
}

void dp_way_settle(struct compiler *c, u32 a, u32 b)
{
	bool wanted = c->flow.places[a].any_top || (b != ~0u && c->flow.places[b].any_top);

	if (!wanted)
		return;
	dp_val_top(c, TOP);
	if (c->any_top) {
		c->top += (u32)(s32)c->cur;
		c->cur = 0;
	}
}
