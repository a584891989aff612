/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where blocks begin, what can be reached without an exception, and the index of the stack's top
 * wherever all paths agree on it. What comes behind an exception is the interpreter's, so handlers
 * are not followed.
 */
#include "arch/x86_64/rpn-jit-priv.h"

#define NONE (~0u)

static void decode(const struct compiler *c, u32 at, struct dp_op_view *op)
{
	dp_op_decode(c->in->code, c->in->rt->len, at, op);
}

static bool branches(u8 rule)
{
	return rule == DP_RULE_JUMP || rule == DP_RULE_BRANCH || rule == DP_RULE_CALL;
}

static int mark(struct compiler *c)
{
	u32 len = c->in->rt->len;
	struct dp_op_view op;

	c->places[0].is_leader = 1;
	for (u32 at = 0; at < len; at += op.len) {
		if (dp_op_decode(c->in->code, len, at, &op))
			return -EINVAL;
		c->places[at].is_insn = 1;
		c->in->ninsns++;
		if (branches(op.info->rule)) {
			s64 to = dp_op_operand(&op, DP_KIND_JUMP);

			if (to >= 0 &&
			    to < len) /* nobody looked at a jump that cannot be reached */
				c->places[to].is_leader = 1;
			c->places[at + op.len].is_leader = 1;
		}
	}
	return 0;
}

u64 dp_flow_count_before(const struct compiler *c, u32 at)
{
	struct dp_op_view op;
	u32 before = at;

	if (c->places[at].is_leader)
		return ~0ull;
	do
		before--;
	while (before && !c->places[before].is_insn);
	decode(c, before, &op);
	return op.opcode == DP_OP_PUSH_D && (u64)op.v[0] <= LOG_WORDS_MAX ? (u64)op.v[0] : ~0ull;
}

static void reach(struct compiler *c, u32 at, u32 top, bool any_top)
{
	struct place *p = &c->places[at];
	bool first = !p->is_reached, any = any_top || (!first && (p->any_top || p->top != top));

	if (!first && any == p->any_top)
		return;
	p->is_reached = 1;
	p->any_top = any;
	p->top = top;
	if (!p->is_queued) {
		p->is_queued = 1;
		c->queue[c->nqueued++] = at;
	}
}

/* How far the top moves; false: into the unknown. */
static bool moves(const struct compiler *c, const struct dp_op_view *op, u32 *by)
{
	u32 count = (u32)dp_op_operand(op, DP_KIND_COUNT),
	    num = (u32)dp_op_operand(op, DP_KIND_NUM);
	u64 n;

	*by = (u32)op->info->pops - op->info->pushes;
	switch (op->info->rule) {
	case DP_RULE_DROP:
		*by = count;
		break;
	case DP_RULE_COPY:
		*by = op->info->pops - count;
		break;
	case DP_RULE_RPN_POPN:
	case DP_RULE_RPN_FIND:
		*by += num;
		break;
	case DP_RULE_PUSHN:
	case DP_RULE_RPN_PUSHN:
	case DP_RULE_RPN_TEXT:
		*by -= num;
		break;
	case DP_RULE_RPN_ANY:
		n = dp_flow_count_before(c, op->at);
		*by = 1 + (u32)n;
		return n != ~0ull;
	}
	return true;
}

static void follow(struct compiler *c, u32 at)
{
	const struct place *p = &c->places[at];
	struct dp_op_view op;
	bool any = p->any_top;
	u32 by, to, top = p->top;
	u8 rule;

	decode(c, at, &op);
	rule = op.info->rule;
	if (!o_known(op.opcode) || !moves(c, &op, &by) || op.opcode == DP_OP_RET)
		return;
	top += by;
	to = (u32)dp_op_operand(&op, DP_KIND_JUMP);
	if (branches(rule)) {
		reach(c, to, top, any);
		c->uses_left |= rule != DP_RULE_CALL;
	}
	if (rule == DP_RULE_CALL)
		any = true;
	if (rule != DP_RULE_JUMP && rule != DP_RULE_END && rule != DP_RULE_RPN_END)
		reach(c, at + op.len, top, any);
}

int dp_flow_find(struct compiler *c)
{
	u32 len = c->in->rt->len, known = 0;
	struct dp_op_view op;
	int r = mark(c);

	if (r)
		return r;
	reach(c, 0, DP_VM_STACK, false);
	while (c->nqueued) {
		u32 at = c->queue[--c->nqueued];

		c->places[at].is_queued = 0;
		follow(c, at);
	}
	for (u32 at = 0; at < len; at += op.len) {
		decode(c, at, &op);
		if (!c->places[at].is_reached)
			continue;
		c->uses_top |= c->places[at].any_top;
		known += o_known(op.opcode);
		c->in->nleft += !o_known(op.opcode);
	}
	/* What is worth it: most of the program runs as machine code. */
	return (2 * known >= c->in->ninsns && known > 2) || (c->in->always && known) ? 0
										     : -EOPNOTSUPP;
}
