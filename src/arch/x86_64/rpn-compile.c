/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See rpn-compile.h. A compiled program is: the registers of its caller saved; blocks in the order of
 * the bytecode; the ends; the ways to the interpreter, out of the way of the rest. Between blocks
 * all words of the stack are in memory; inside, only the words that are needed at such a way are
 * written there, on the way.
 */
#include "arch/x86_64/rpn-compile-priv.h"

/* ---- the frame ---- */

static u32 saved_regs(const struct compiler *c, u8 regs[6])
{
	u32 n = 0;

	regs[n++] = HIT;
	regs[n++] = VM;
	regs[n++] = REGS;
	if (c->flow.any_top)
		regs[n++] = TOP;
	if (c->flow.jumps)
		regs[n++] = LEFT;
	if (c->uses_vars)
		regs[n++] = VARS;
	return n;
}

/* Two words of scratch memory, and the stack as functions want it. */
static u32 frame_size(u32 nregs)
{
	return nregs % 2 ? 16 : 24;
}

static void enter(struct compiler *c)
{
	const struct dp_code_rt *rt = c->in->rt;
	struct dp_emit *e = c->e;
	u8 regs[6];
	u32 n = saved_regs(c, regs);

	if (c->in->sealed)
		dp_emit_bytes(e, "\xf3\x0f\x1e\xfa", 4); /* endbr64 */
	for (u32 i = 0; i < n; i++)
		push(e, regs[i]);
	op_imm(e, true, ALU_SUB, SP, frame_size(n));
	move(e, HIT, DI);
	load(e, VM, HIT_AT(vm));
	load(e, REGS, HIT_AT(regs));
	if (c->flow.jumps)
		move_imm32(e, LEFT, rt->jmpmax);
	if (c->uses_vars)
		move_address(e, VARS, rt->locals);
}

static void leave_frame(struct compiler *c)
{
	u8 regs[6];
	u32 n = saved_regs(c, regs);

	op_imm(c->e, true, ALU_ADD, SP, frame_size(n));
	while (n-- > 0)
		pop(c->e, regs[n]);
}

/* ---- blocks ---- */

static void compile_block(struct compiler *c, u32 at)
{
	struct dp_op_view op;

	c->flow.places[at].start = (u32)c->e->len;
	dp_val_begin(c, at);
	c->ended = false;
	do {
		const struct dp_flow_place *p = &c->flow.places[at];

		if (c->cur > REACH - INSN_REACH - 4 || c->cur < -(REACH - INSN_REACH - 4))
			dp_val_rebase(c);
		/* What was found out ahead, and what came of it, must agree. */
		c->failed |= !p->is_reached || (!p->any_top && c->any_top) ||
			     (!p->any_top && c->top + (u32)(s32)c->cur != p->top);
		dp_op_decode(c->in->code, c->in->rt->len, at, &op);
		c->at = at;
		c->next = at + op.len;
		c->locked = 0;
		c->charged = 0;
		dp_op_compile(c, &op);
		at = c->next;
	} while (!c->ended && !c->failed && !c->flow.places[at].is_leader);
	if (c->ended || c->failed)
		return;
	dp_val_sync(c);
	dp_way_settle(c, at, ~0u);
}

/* ---- the end ---- */

static void emit_ends(struct compiler *c)
{
	size_t at[3];

	for (u32 result = 0; result < 3; result++) {
		at[result] = c->e->len;
		move_imm32(c->e, AX, result);
		leave_frame(c);
		if (c->in->near && c->in->leave)
			go_near(c->e, GO_JUMP, c->in->leave);
		else
			dp_emit_u8(c->e, 0xc3); /* ret */
	}
	for (u32 i = 0; i < c->nfixups; i++) {
		const struct fixup *f = &c->fixups[i];

		if (f->at >= END_BASE)
			fill_hole(c->e, f->hole, at[f->at - END_BASE]);
		else if (c->flow.places[f->at].start)
			fill_hole(c->e, f->hole, c->flow.places[f->at].start);
		else
			c->failed = true;
	}
}

/* esi: offset in the bytecode, edx: top, r8d: exception to raise. Goes on in dp_vm_go(h, pc, top,
 * jumps, exception). */
static size_t emit_way(struct compiler *c)
{
	struct dp_emit *e = c->e;
	size_t start = e->len;

	load(e, AX, HIT_AT(prog));
	op_mem(e, true, 0x03, SI, AT(AX, offsetof(struct dp_code_rt, code)));
	move_imm32(e, CX, c->flow.jumps ? c->in->rt->jmpmax : 0);
	if (c->flow.jumps)
		op_regs(e, false, ALU_SUB, CX, LEFT);
	move(e, DI, HIT);
	leave_frame(c);
	dp_way_go(c, GO_JUMP, DP_SERVICE_dp_vm_go);
	return start;
}

static void emit_leaves(struct compiler *c)
{
	struct dp_emit *e = c->e;
	size_t way = emit_way(c);

	for (u32 i = 0; i < c->nleaves; i++) {
		const struct leave *l = &c->leaves[i];

		land_here(e, l->hole);
		dp_val_restore(c, l);
		if (l->refund) {
			op_mem(e, true, 0x81, ALU_ADD, HIT_AT(work));
			dp_emit_u32(e, l->refund);
		}
		if (l->way == WAY_RAISE)
			op_reg(e, false, 0x89, AX, R8);
		else
			op_regs(e, false, ALU_XOR, R8, R8);
		if (l->way == WAY_BUDGET)
			op_regs(e, false, ALU_XOR, LEFT, LEFT); /* the jump that was too many went below */
		move_imm32(e, SI, l->at);
		if (l->any_top)
			lea(e, false, DX, AT(TOP, l->cur));
		else
			move_imm32(e, DX, l->top + (u32)(s32)l->cur);
		fill_hole(e, jump_hole(e, CC_ALWAYS), way);
	}
}

/* Most of the program runs as machine code. */
static bool worth_it(const struct compiler *c)
{
	u32 known = c->flow.nknown;

	return (2 * known >= c->flow.ninsns && known > 2) || (c->in->always && known);
}

static int compile_all(struct compiler *c)
{
	int r = dp_flow_find(&c->flow);

	if (r)
		return r;
	c->in->ninsns = c->flow.ninsns;
	c->in->nleft = c->flow.nleft;
	if (!worth_it(c))
		return -EOPNOTSUPP;
	c->uses_vars = c->in->rt->nlocals != 0;
	enter(c);
	for (u32 at = 0; at < c->in->rt->len && !c->failed; at++)
		if (c->flow.places[at].is_leader && c->flow.places[at].is_reached)
			compile_block(c, at);
	emit_ends(c);
	emit_leaves(c);
	if (c->failed)
		return -EOPNOTSUPP;
	return c->e->overflow ? -ERANGE : 0;
}

int dp_rpn_jit_compile(struct dp_emit *e, struct dp_rpn_jit *in)
{
	struct compiler *c;
	int r = -ENOMEM;

	in->ninsns = in->nleft = 0;
	if (!(in->rt->ex_mask & DP_RPN))
		return -EOPNOTSUPP; /* the other kind is direct.c's */
	c = dp_alloc(sizeof(*c));
	if (!c)
		return r;
	c->e = e;
	c->in = in;
	c->flow = (struct dp_flow){.code = in->code, .len = in->rt->len, .known = dp_op_known};
	r = compile_all(c);
	dp_flow_free(&c->flow);
	dp_free(c->leaves);
	dp_free(c->saved);
	dp_free(c->fixups);
	dp_free(c);
	return r;
}
