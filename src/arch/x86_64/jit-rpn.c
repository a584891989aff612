/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs of the Dynamic Probes language that are as plain as an event: they look at registers,
 * stop or go on by conditions, count, and log words. For these jit.c makes code that needs no slot.
 * The whole run is followed here, ahead of time; whatever could raise an exception, loop, look at
 * memory or at what it has changed makes the program an ordinary one (rpn-jit.c).
 */
#include "arch/x86_64/jit-priv.h"
#include "hit/rpn.h"
#include "program/code.h"

#define DEPTH 16
#define HEAD ((u32)sizeof(struct dp_rpn_head))

struct word {
	struct value v;
	bool is_truth; /* v cc c, as 0 or 1 */
	u8 cc;
	u64 c;
};

struct walk {
	struct plain *p;
	const u8 *code;
	const struct dp_code_rt *rt;
	struct word stack[DEPTH];
	u32 depth, jumps, at;
	u16 major, minor;
	u32 len; /* of the payload */
	bool failed, ended;
};

static u64 apply(u64 v, struct value_op op)
{
	switch (op.kind) {
	case OP_ALU:
		return op.n == ALU_ADD   ? v + (u64)(s64)(s32)op.by
		       : op.n == ALU_SUB ? v - (u64)(s64)(s32)op.by
		       : op.n == ALU_AND ? v & (u64)(s64)(s32)op.by
		       : op.n == ALU_OR  ? v | (u64)(s64)(s32)op.by
					 : v ^ (u64)(s64)(s32)op.by;
	case OP_SHIFT:
		return op.n == SHIFT_SHL ? v << op.by : v >> op.by;
	case OP_ONE:
		return op.n == 2 ? ~v : -v;
	default: {
		u32 away = 64 - 8 * op.n;

		return op.is_signed ? (u64)((s64)(v << away) >> away) : v << away >> away;
	}
	}
}

bool dp_jit_append(struct value *v, struct value_op op)
{
	if (v->constant) {
		v->c = apply(v->c, op);
		return true;
	}
	if (v->nops == VALUE_OPS)
		return false;
	v->ops[v->nops++] = op;
	return true;
}

/* ---- the stack ---- */

static void push_word(struct walk *w, struct word x)
{
	if (w->depth == DEPTH || (!x.v.constant && !dp_jit_slot(x.v.slot)))
		w->failed = true;
	else
		w->stack[w->depth++] = x;
}

static void push_const(struct walk *w, u64 c)
{
	push_word(w, (struct word){.v = {.constant = true, .c = c, .size = 8}});
}

static void push_slot(struct walk *w, u8 slot, u8 size, bool is_signed)
{
	push_word(w, (struct word){.v = {.slot = slot, .size = size, .is_signed = is_signed}});
}

/* The i-th word from the top; one that means nothing, when there is none. */
static struct word *word(struct walk *w, u32 i)
{
	if (i < w->depth)
		return &w->stack[w->depth - 1 - i];
	w->failed = true;
	return &w->stack[0];
}

/* The same as a number: truth values are not computed. */
static struct word *number(struct walk *w, u32 i)
{
	struct word *x = word(w, i);

	w->failed |= x->is_truth;
	return x;
}

static void drop(struct walk *w, u32 n)
{
	w->failed |= n > w->depth;
	w->depth -= DP_MIN(n, w->depth);
}

static void append(struct walk *w, struct value_op op)
{
	w->failed |= !dp_jit_append(&number(w, 0)->v, op);
}

static void binary(struct walk *w, enum alu n)
{
	struct word *a = number(w, 1), *b = number(w, 0);
	struct value_op op = {OP_ALU, (u8)n, false, (u32)b->v.c};

	if (a->v.constant && !b->v.constant && n != ALU_SUB) { /* the order does not matter */
		struct word x = *a;

		*a = *b;
		*b = x;
		op.by = (u32)b->v.c;
	}
	w->failed |= !b->v.constant || (u64)(s64)(s32)b->v.c != b->v.c || w->depth < 2;
	if (!w->failed)
		w->failed = !dp_jit_append(&a->v, op);
	drop(w, 1);
}

static u8 turned(u8 cc) /* the condition with its sides exchanged */
{
	switch (cc) {
	case CC_L:
		return CC_G;
	case CC_LE:
		return CC_GE;
	case CC_G:
		return CC_L;
	case CC_GE:
		return CC_LE;
	case CC_B:
		return CC_A;
	case CC_BE:
		return CC_AE;
	case CC_A:
		return CC_B;
	case CC_AE:
		return CC_BE;
	default:
		return cc;
	}
}

static void compare(struct walk *w, u8 cc)
{
	struct word *a = number(w, 1), *b = number(w, 0);

	if (a->v.constant) {
		struct word x = *a;

		*a = *b;
		*b = x;
		cc = turned(cc);
	}
	w->failed |= !b->v.constant;
	a->is_truth = true;
	a->cc = cc;
	a->c = b->v.c;
	drop(w, 1);
}

static void truth(struct walk *w, bool negated)
{
	struct word *a = word(w, 0);

	if (!a->is_truth) {
		a->is_truth = true;
		a->cc = CC_NE;
		a->c = 0;
	}
	a->cc ^= negated;
}

/* ---- flow ---- */

static void need(struct walk *w, struct word x, u8 cc, u64 c)
{
	struct plain *p = w->p;

	if (x.is_truth) { /* only whether it is zero can be asked */
		w->failed |= c || (cc != CC_E && cc != CC_NE);
		cc = cc == CC_NE ? x.cc : x.cc ^ 1;
		c = x.c;
	}
	if (p->nneeds && p->early != p->neffects)
		w->failed = true; /* one set of effects for all conditions that do not hold */
	p->early = p->neffects;
	if (p->nneeds == PLAIN_NEEDS)
		w->failed = true;
	else
		p->needs[p->nneeds++] = (struct need){x.v, cc, c};
}

/* Control that comes here only drops words and stops without a record. */
static bool aborts(const struct walk *w, u32 at)
{
	struct dp_op_view op;

	for (u32 i = 0; i < 8; i++, at += op.len) {
		if (dp_op_decode(w->code, w->rt->len, at, &op))
			return false;
		if (op.opcode == DP_OP_ABORT || (op.opcode == DP_OP_EXIT && !w->rt->logmax))
			return true;
		if (op.opcode != DP_OP_ROS && op.opcode != DP_OP_NOP && op.opcode != DP_OP_XCHG &&
		    op.opcode != DP_OP_PUSH_D)
			return false;
	}
	return false;
}

static void take_jump(struct walk *w, u32 to)
{
	w->failed |= to <= w->at || ++w->jumps > w->rt->jmpmax;
	w->at = to;
}

/* next: behind the instruction */
static void branch(struct walk *w, u8 cc, u32 to, u32 next)
{
	struct word x = *word(w, 0);

	if (w->failed)
		return;
	if (aborts(w, to)) {
		w->failed |= w->jumps + 1 > w->rt->jmpmax;
		need(w, x, cc ^ 1, 0);
		w->at = next;
	} else if (aborts(w, next)) {
		need(w, x, cc, 0);
		take_jump(w, to);
	} else {
		w->failed = true;
	}
}

static void effect(struct walk *w, u64 base, s64 i, bool down)
{
	struct plain *p = w->p;

	if (p->neffects == PLAIN_EFFECTS) {
		w->failed = true;
		return;
	}
	p->effects[p->neffects].addr = base + 8 * (u64)i;
	p->effects[p->neffects++].down = down;
}

/* ---- the record ---- */

static void put(struct walk *w, u32 off, u8 size, struct value v)
{
	if (w->p->nstores == PLAIN_STORES)
		w->failed = true;
	else
		w->p->stores[w->p->nstores++] = (struct store){(u16)off, size, v};
}

static void put_const(struct walk *w, u32 off, u8 size, u64 c)
{
	put(w, off, size, (struct value){.constant = true, .c = c, .size = 8});
}

static void log_words(struct walk *w, u32 n, bool prefix)
{
	if (w->len + (prefix ? 3 : 0) + 8 * n > w->rt->logmax || n > w->depth) {
		w->failed = true;
		return;
	}
	if (prefix) {
		put_const(w, w->len, 1, DP_TOKEN_WORDS);
		put_const(w, w->len + 1, 2, n);
		w->len += 3;
	}
	for (u32 i = 0; i < n; i++, w->len += 8)
		put(w, w->len, 8, number(w, i)->v);
	drop(w, n);
}

static void finish(struct walk *w)
{
	struct plain *p = w->p;
	struct value slot = {.size = 8};

	w->ended = true;
	if (w->len < HEAD) { /* no log: as if a condition did not hold */
		need(w, (struct word){.v = {.constant = true, .size = 8}}, CC_NE, 0);
		return;
	}
	/* cs and ss as the entry gives them. */
	put_const(w, offsetof(struct dp_rpn_head, major), 8,
		  w->major | (u64)w->minor << 16 | 0x33ull << 32 | 0x2bull << 48);
	slot.slot = SLOT_PID;
	put(w, offsetof(struct dp_rpn_head, pid), 4, slot);
	put_const(w, offsetof(struct dp_rpn_head, pad), 4, -w->len & 7);
	slot.slot = DP_SLOT(ip);
	put(w, offsetof(struct dp_rpn_head, ip), 8, slot);
	slot.slot = DP_SLOT(sp);
	put(w, offsetof(struct dp_rpn_head, sp), 8, slot);
	p->record = true;
	p->size = w->len;
}

/* ---- instructions ---- */

/* One line for each instruction. */
/* clang-format off */
static void step_value(struct walk *w, const struct dp_op_view *op)
{
	const s64 *v = op->v;
	struct word x;

	switch (op->opcode) {
	case DP_OP_ADD: binary(w, ALU_ADD); break;
	case DP_OP_SUB: binary(w, ALU_SUB); break;
	case DP_OP_AND: binary(w, ALU_AND); break;
	case DP_OP_OR: binary(w, ALU_OR); break;
	case DP_OP_XOR: binary(w, ALU_XOR); break;
	case DP_OP_NEG: append(w, (struct value_op){OP_ONE, 3}); break;
	case DP_OP_NOT: append(w, (struct value_op){OP_ONE, 2}); break;
	case DP_OP_SHL: append(w, (struct value_op){OP_SHIFT, SHIFT_SHL, false, (u32)v[0]}); break;
	case DP_OP_SHR: append(w, (struct value_op){OP_SHIFT, SHIFT_SHR, false, (u32)v[0]}); break;
	case DP_OP_ZX8: append(w, (struct value_op){OP_EXTEND, 1, false, 0}); break;
	case DP_OP_ZX16: append(w, (struct value_op){OP_EXTEND, 2, false, 0}); break;
	case DP_OP_ZX32: append(w, (struct value_op){OP_EXTEND, 4, false, 0}); break;
	case DP_OP_SX8: append(w, (struct value_op){OP_EXTEND, 1, true, 0}); break;
	case DP_OP_SX16: append(w, (struct value_op){OP_EXTEND, 2, true, 0}); break;
	case DP_OP_SX32: append(w, (struct value_op){OP_EXTEND, 4, true, 0}); break;
	case DP_OP_EQ: compare(w, CC_E); break;
	case DP_OP_NE: compare(w, CC_NE); break;
	case DP_OP_LT: compare(w, CC_L); break;
	case DP_OP_LE: compare(w, CC_LE); break;
	case DP_OP_GT: compare(w, CC_G); break;
	case DP_OP_GE: compare(w, CC_GE); break;
	case DP_OP_LTU: compare(w, CC_B); break;
	case DP_OP_LEU: compare(w, CC_BE); break;
	case DP_OP_GTU: compare(w, CC_A); break;
	case DP_OP_GEU: compare(w, CC_AE); break;
	case DP_OP_BOOL: truth(w, false); break;
	case DP_OP_LNOT: truth(w, true); break;
	case DP_OP_XCHG:
		x = *word(w, 0);
		*word(w, 0) = *word(w, 1);
		*word(w, 1) = x;
		break;
	case DP_OP_ROS: drop(w, (u32)v[0]); break;
	case DP_OP_PUSH_TSP:
		x = *word(w, (u32)v[0]);
		push_word(w, x);
		break;
	case DP_OP_DUP:
		x = *word(w, 0);
		drop(w, 1);
		for (s64 i = 0; i < v[0] && !w->failed; i++)
			push_word(w, x);
		break;
	case DP_OP_PUSH_D: push_const(w, (u64)v[0]); break;
	case DP_OP_PUSH_WID: push_const(w, -64ull); break;
	case DP_OP_PUSH_R:
	case DP_OP_PUSH_U: push_slot(w, dp_register_by_number((u32)v[0])->slot, 8, false); break;
	case DP_OP_PUSHR: push_slot(w, (u8)v[0], 8, false); break;
	case DP_OP_PUSHR_U8: push_slot(w, (u8)v[0], 1, false); break;
	case DP_OP_PUSHR_U16: push_slot(w, (u8)v[0], 2, false); break;
	case DP_OP_PUSHR_U32: push_slot(w, (u8)v[0], 4, false); break;
	case DP_OP_PUSHR_S8: push_slot(w, (u8)v[0], 1, true); break;
	case DP_OP_PUSHR_S16: push_slot(w, (u8)v[0], 2, true); break;
	case DP_OP_PUSHR_S32: push_slot(w, (u8)v[0], 4, true); break;
	default: w->failed = true;
	}
}

static void step(struct walk *w, const struct dp_op_view *op)
{
	u32 next = w->at + op->len, to = (u32)op->v[0];
	struct word x;

	w->at = next;
	switch (op->opcode) {
	case DP_OP_NOP: break;
	case DP_OP_BEGIN: w->failed |= w->rt->pass || w->rt->max != DP_NO_LIMIT; break;
	case DP_OP_JMP: w->at = next - op->len; take_jump(w, to); break;
	case DP_OP_JZ: w->at = next - op->len; branch(w, CC_E, to, next); break;
	case DP_OP_JNZ: w->at = next - op->len; branch(w, CC_NE, to, next); break;
	case DP_OP_JLT: w->at = next - op->len; branch(w, CC_L, to, next); break;
	case DP_OP_JLE: w->at = next - op->len; branch(w, CC_LE, to, next); break;
	case DP_OP_JGT: w->at = next - op->len; branch(w, CC_G, to, next); break;
	case DP_OP_JGE: w->at = next - op->len; branch(w, CC_GE, to, next); break;
	case DP_OP_INC_LV: effect(w, w->rt->locals, op->v[0], false); break;
	case DP_OP_DEC_LV: effect(w, w->rt->locals, op->v[0], true); break;
	case DP_OP_INC_GV: effect(w, w->rt->globals, op->v[0], false); break;
	case DP_OP_DEC_GV: effect(w, w->rt->globals, op->v[0], true); break;
	case DP_OP_SETMIN: w->minor = (u16)op->v[0]; break;
	case DP_OP_SETMAJ: w->major = (u16)op->v[0]; break;
	case DP_OP_LOG: log_words(w, (u32)op->v[0], false); break;
	case DP_OP_LOG_S:
		x = *number(w, 0);
		w->failed |= !x.v.constant || x.v.c > DEPTH;
		drop(w, 1);
		if (!w->failed)
			log_words(w, (u32)x.v.c, true);
		break;
	case DP_OP_NEED: x = *word(w, 0); drop(w, 1); need(w, x, CC_NE, 0); break;
	case DP_OP_EXIT: finish(w); break;
	case DP_OP_ABORT: w->len = 0; finish(w); break;
	default: step_value(w, op);
	}
}
/* clang-format on */

bool dp_jit_plain(struct plain *p, const u8 *code, const struct dp_code_rt *rt)
{
	struct walk w = {.p = p,
			 .code = code,
			 .rt = rt,
			 .major = rt->major,
			 .minor = rt->minor,
			 .len = rt->logmax < HEAD ? 0 : HEAD};
	struct dp_op_view op;

	memset(p, 0, sizeof(*p));
	while (!w.failed && !w.ended) {
		w.failed = dp_op_decode(code, rt->len, w.at, &op) != 0;
		if (!w.failed)
			step(&w, &op);
	}
	return !w.failed;
}
