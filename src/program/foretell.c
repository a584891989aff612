/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See foretell.h. The run is followed with a stack of words of which some are known, as long as each branch depends on
 * known ones. It ends at the first instruction that does more than compute.
 */
#include "abi/abi-machine.h"
#include "abi/abi-program.h"
#include "program/foretell.h"

#define WORDS 64
#define FIRST (WORDS / 2) /* the stack grows down from here */
#define STEPS 512
#define OFF (DP_VM_STACK - FIRST) /* of the interpreter's indexes from ours */

struct word {
	bool known;
	u64 v;
};

struct foretold {
	const u8 *code;
	u32 len;
	const struct dp_known_word *given;
	u32 ngiven;
	struct word stack[WORDS];
	u32 top, base; /* indexes, as in the interpreter */
	u32 at, jumps, calls;
	bool failed, idle;
};

static const struct word unknown;

static struct word constant(u64 v)
{
	return (struct word){true, v};
}

/* Word i from there; some word where there is none, and the run is not followed any more. */
static struct word *word(struct foretold *f, u32 from, s64 i)
{
	s64 at = (s64)from + i;

	f->failed |= at < 0 || at >= WORDS;
	return &f->stack[f->failed ? 0 : at];
}

static void push(struct foretold *f, struct word x)
{
	f->failed |= !f->top;
	f->top -= !!f->top;
	*word(f, f->top, 0) = x;
}

static struct word pop(struct foretold *f)
{
	struct word x = *word(f, f->top, 0);

	f->top++;
	f->failed |= f->top > WORDS;
	return x;
}

static u64 extended(u64 v, u32 size, bool is_signed)
{
	u32 away = 64 - 8 * size;

	return is_signed ? (u64)((s64)(v << away) >> away) : v << away >> away;
}

static void shift(struct foretold *f, const struct dp_operation *o, struct word x, struct word by)
{
	bool known = x.known && by.known && (o->how == DP_SHIFT_SHL || o->how == DP_SHIFT_SHR);
	u64 v = by.v > 63 ? 0 : o->how == DP_SHIFT_SHL ? x.v << by.v : x.v >> by.v;

	push(f, known ? constant(v) : unknown);
}

static void compute(struct foretold *f, const struct dp_op_view *op)
{
	const struct dp_operation *o = &op->info->op;
	struct word b = pop(f), a = o->does == DP_DOES_BINARY || o->does == DP_DOES_COMPARE ? pop(f) : constant(0);
	u64 v;

	if (o->does == DP_DOES_BINARY)
		v = dp_alu((enum dp_alu)o->how, a.v, b.v);
	else if (o->does == DP_DOES_COMPARE)
		v = dp_cc_holds((enum dp_cc)o->how, a.v, b.v);
	else if (o->does == DP_DOES_TRUTH)
		v = dp_cc_holds((enum dp_cc)o->how, b.v, 0);
	else if (o->does == DP_DOES_UNARY)
		v = dp_alu((enum dp_alu)o->how, b.v, 0);
	else
		v = extended(b.v, o->size, o->is_signed);
	push(f, a.known && b.known ? constant(v) : unknown);
}

static void stack_word(struct foretold *f, const struct dp_op_view *op)
{
	const struct dp_operation *o = &op->info->op;
	u32 from = o->where == DP_BASE_TOP ? f->top : f->base;
	struct word x;

	if (o->how == DP_ACCESS_PUSH) {
		push(f, *word(f, from, op->v[0]));
		return;
	}
	f->failed |= o->where == DP_BASE_TOP; /* whose top, before or behind: not asked for by anybody */
	x = o->how == DP_ACCESS_POP ? pop(f) : *word(f, f->top, 0);
	*word(f, from, op->v[0]) = x;
}

static void register_word(struct foretold *f, const struct dp_op_view *op)
{
	struct word x = unknown;
	u32 reg_word = dp_register_by_number((u32)op->v[0])->reg_word;

	f->failed |= op->info->op.how != DP_ACCESS_PUSH;
	for (u32 i = 0; i < f->ngiven; i++)
		if (f->given[i].reg_word == reg_word)
			x = constant(f->given[i].v);
	push(f, x);
}

static void branch(struct foretold *f, const struct dp_op_view *op)
{
	const struct word *x = word(f, f->top, 0);

	f->failed |= !x->known;
	if (!dp_cc_holds((enum dp_cc)op->info->op.how, x->v, 0))
		return;
	f->jumps++;
	f->at = (u32)op->v[0];
}

static void step_own(struct foretold *f, const struct dp_op_view *op)
{
	struct word x, y;

	switch (op->opcode) {
	case DP_OP_NOP:
	case DP_OP_BEGIN:
	case DP_OP_SETMIN:
	case DP_OP_SETMAJ:
		break;
	case DP_OP_JMP:
		f->jumps++;
		f->at = (u32)op->v[0];
		break;
	case DP_OP_CALL: /* there is no way back: nothing is followed behind a return */
		f->failed |= ++f->calls > 4;
		f->at = (u32)op->v[0];
		break;
	case DP_OP_XCHG:
		x = pop(f);
		y = pop(f);
		push(f, x);
		push(f, y);
		break;
	case DP_OP_DUP:
		x = pop(f);
		for (s64 i = 0; i < op->v[0] && !f->failed; i++)
			push(f, x);
		break;
	case DP_OP_ROS:
		for (s64 i = 0; i < op->v[0] && !f->failed; i++)
			pop(f);
		break;
	case DP_OP_SAVE_TSP:
		push(f, constant(f->top + OFF));
		break;
	case DP_OP_SAVE_SBP:
		push(f, constant(f->base + OFF));
		break;
	case DP_OP_RESTORE_SBP:
		x = pop(f);
		f->failed |= !x.known || x.v - OFF >= WORDS;
		f->base = (u32)x.v - OFF;
		break;
	case DP_OP_ABORT:
		f->idle = true;
		break;
	default:
		f->failed = true;
	}
}

static void step(struct foretold *f, const struct dp_op_view *op)
{
	const struct dp_operation *o = &op->info->op;
	struct word x;

	f->at = op->at + op->len;
	switch (o->does) {
	case DP_DOES_OWN:
		step_own(f, op);
		break;
	case DP_DOES_CONSTANT:
		push(f, constant(dp_op_constant(op)));
		break;
	case DP_DOES_BINARY:
	case DP_DOES_UNARY:
	case DP_DOES_COMPARE:
	case DP_DOES_TRUTH:
	case DP_DOES_EXTEND:
		compute(f, op);
		break;
	case DP_DOES_SHIFT:
		x = pop(f);
		shift(f, o, x, constant((u64)op->v[0]));
		break;
	case DP_DOES_SHIFT_BY: /* (n a -- ) */
		x = pop(f);
		shift(f, o, x, pop(f));
		break;
	case DP_DOES_STACK:
		stack_word(f, op);
		break;
	case DP_DOES_REGISTER:
		register_word(f, op);
		break;
	case DP_DOES_BRANCH:
		branch(f, op);
		break;
	default:
		f->failed = true;
	}
}

bool dp_program_is_idle(const u8 *code, u32 len, const struct dp_code_rt *rt, const struct dp_known_word *known, u32 n)
{
	struct foretold f = {.code = code, .len = len, .given = known, .ngiven = n, .top = FIRST, .base = FIRST};
	struct dp_op_view op;

	if (!rt->ex_mask || rt->pass || rt->max != DP_NO_LIMIT) /* its hits are counted */
		return false;
	for (u32 i = 0; i < STEPS && !f.failed && !f.idle; i++) {
		if (dp_op_decode(code, len, f.at, &op))
			return false;
		step(&f, &op);
	}
	return f.idle && !f.failed && f.jumps <= rt->jmpmax;
}

bool dp_program_reads(const u8 *code, u32 len, u32 reg_word)
{
	struct dp_op_view op;

	for (u32 at = 0; !dp_op_decode(code, len, at, &op); at += op.len)
		if (op.info->op.does == DP_DOES_REGISTER && dp_register_by_number((u32)op.v[0])->reg_word == reg_word)
			return true;
	return false;
}
