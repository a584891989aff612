/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where blocks begin, what can be reached without an exception, and the index of the stack's top
 * wherever all paths agree on it. What comes behind an exception is the interpreter's, so handlers
 * are not followed.
 */
#include "program/flow.h"

#include "abi/abi-machine.h"

static void decode(const struct dp_flow *f, u32 at, struct dp_op_view *op)
{
	dp_op_decode(f->code, f->len, at, op);
}

static bool branches(u8 rule)
{
	return rule == DP_RULE_JUMP || rule == DP_RULE_BRANCH || rule == DP_RULE_CALL;
}

static int mark(struct dp_flow *f)
{
	u32 len = f->len;
	struct dp_op_view op;

	f->places[0].is_leader = 1;
	for (u32 at = 0; at < len; at += op.len) {
		if (dp_op_decode(f->code, len, at, &op))
			return -EINVAL;
		f->places[at].is_insn = 1;
		f->ninsns++;
		if (branches(op.info->rule)) {
			s64 to = dp_op_operand(&op, DP_KIND_JUMP);

			if (to >= 0 && to < len) /* nobody looked at a jump that cannot be reached */
				f->places[to].is_leader = 1;
			f->places[at + op.len].is_leader = 1;
		}
		if (op.opcode == DP_OP_RESTORE_TSP)
			f->places[at + op.len].is_leader = 1;
	}
	return 0;
}

u64 dp_flow_count_before(const struct dp_flow *f, u32 at)
{
	struct dp_op_view op;
	u32 before = at;

	if (f->places[at].is_leader)
		return ~0ull;
	do
		before--;
	while (before && !f->places[before].is_insn);
	decode(f, before, &op);
	return op.opcode == DP_OP_PUSH_D && (u64)op.v[0] <= DP_FLOW_WORDS_MAX ? (u64)op.v[0] : ~0ull;
}

static void reach(struct dp_flow *f, u32 at, u32 top, bool any_top)
{
	struct dp_flow_place *p = &f->places[at];
	bool first = !p->is_reached, any = any_top || (!first && (p->any_top || p->top != top));

	if (!first && any == p->any_top)
		return;
	p->is_reached = 1;
	p->any_top = any;
	p->top = top;
	if (!p->is_queued) {
		p->is_queued = 1;
		f->queue[f->nqueued++] = at;
	}
}

/* How far the top moves; false: into the unknown. */
static bool moves(const struct dp_flow *f, const struct dp_op_view *op, u32 *by)
{
	u32 pops, pushes;
	u64 n;

	dp_op_effect(op, &pops, &pushes);
	*by = pops - pushes;
	if (op->info->rule != DP_RULE_RPN_ANY)
		return true;
	n = dp_flow_count_before(f, op->at);
	*by = 1 + (u32)n;
	return n != ~0ull;
}

static void follow(struct dp_flow *f, u32 at)
{
	const struct dp_flow_place *p = &f->places[at];
	struct dp_op_view op;
	bool any = p->any_top;
	u32 by, to, top = p->top;
	u8 rule;

	decode(f, at, &op);
	rule = op.info->rule;
	if (op.opcode == DP_OP_RESTORE_TSP && f->known(&op)) {
		reach(f, at + op.len, 0, true);
		return;
	}
	if (!f->known(&op) || !moves(f, &op, &by) || op.opcode == DP_OP_RET)
		return;
	top += by;
	to = (u32)dp_op_operand(&op, DP_KIND_JUMP);
	if (branches(rule)) {
		reach(f, to, top, any);
		f->jumps |= rule != DP_RULE_CALL;
	}
	if (rule == DP_RULE_CALL)
		any = true;
	if (rule != DP_RULE_JUMP && rule != DP_RULE_END && rule != DP_RULE_RPN_END)
		reach(f, at + op.len, top, any);
}

int dp_flow_find(struct dp_flow *f)
{
	struct dp_op_view op;
	int r;

	f->places = dp_alloc((f->len + 1) * sizeof(*f->places));
	f->queue = dp_alloc((f->len + 1) * sizeof(*f->queue));
	if (!f->places || !f->queue)
		return -ENOMEM;
	r = mark(f);
	if (r)
		return r;
	reach(f, 0, DP_VM_STACK, false);
	while (f->nqueued) {
		u32 at = f->queue[--f->nqueued];

		f->places[at].is_queued = 0;
		follow(f, at);
	}
	for (u32 at = 0; at < f->len; at += op.len) {
		decode(f, at, &op);
		if (!f->places[at].is_reached)
			continue;
		f->any_top |= f->places[at].any_top;
		if (f->known(&op))
			f->nknown++;
		else
			f->nleft++;
	}
	return 0;
}

void dp_flow_free(struct dp_flow *f)
{
	dp_free(f->places);
	dp_free(f->queue);
}
