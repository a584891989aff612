/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See lower.h. The whole run is followed here, ahead of time, on a stack of values. An event is a program without
 * jumps; a probe program may also decide, where one way out of a decision does nothing more, or is the usual.
 */
#include "program/lower-priv.h"

static u64 part(u64 v, u32 size, bool is_signed)
{
	u32 away = 64 - 8 * size;

	return is_signed ? (u64)((s64)(v << away) >> away) : v << away >> away;
}

static u64 apply(const struct dp_value_op *x, u64 v)
{
	switch (x->op.does) {
	case DP_DOES_BINARY:
	case DP_DOES_UNARY:
		return dp_alu((enum dp_alu)x->op.how, v, (u64)(s64)(s32)x->by);
	case DP_DOES_SHIFT:
		return x->op.how == DP_SHIFT_SHL ? v << x->by : v >> x->by;
	default: /* EXTEND */
		return part(v, x->op.size, x->op.is_signed);
	}
}

u64 dp_value_of(const struct dp_value *v, u64 word)
{
	if (v->constant)
		return v->c;
	word = part(word, v->size, v->is_signed);
	for (u32 i = 0; i < v->nops; i++)
		word = apply(&v->ops[i], word);
	return word;
}

/* ---- the stack ---- */

/* A register that can be read, or a word that was loaded. */
static bool is_readable(const struct walk *w, u8 reg_word)
{
	return reg_word > 63 ? (u32)reg_word - DP_LOWER_WORD < w->p->nwords : w->in->reg_words >> reg_word & 1;
}

static void push_word(struct walk *w, struct word x)
{
	if (w->depth == DEPTH || (!x.v.constant && !is_readable(w, x.v.reg_word)))
		w->failed = true;
	else
		w->stack[w->depth++] = x;
}

void dp_lower_push_const(struct walk *w, u64 c)
{
	push_word(w, (struct word){.v = {.constant = true, .c = c, .size = 8}});
}

static void push_reg(struct walk *w, u64 reg_word, u8 size, bool is_signed)
{
	const struct dp_known_word *known = w->in->known;

	if (known && known->reg_word == reg_word)
		dp_lower_push_const(w, part(known->v, size, is_signed));
	else
		push_word(w, (struct word){.v = {.reg_word = (u8)reg_word, .size = size, .is_signed = is_signed}});
}

/* What the host knows, of 8 bytes. */
static void push_known(struct walk *w, u8 what)
{
	if (w->depth == DEPTH || !w->in->knows)
		w->failed = true;
	else
		w->stack[w->depth++] = (struct word){.v = {.reg_word = what, .size = 8}};
}

struct word *dp_lower_word(struct walk *w, u32 i)
{
	if (i < w->depth)
		return &w->stack[w->depth - 1 - i];
	w->failed = true;
	return &w->stack[0];
}

struct word *dp_lower_number(struct walk *w, u32 i)
{
	struct word *x = dp_lower_word(w, i);

	w->failed |= x->is_truth || x->place;
	return x;
}

/* The word at an index from the base; one that means nothing, when there is none. */
static struct word *based(struct walk *w, s64 i)
{
	s64 at = (s64)w->base - 1 - i;

	if (at >= 0 && at < w->depth)
		return &w->stack[at];
	w->failed = true;
	return &w->stack[0];
}

/* What `save` gives for so many words on the stack, and back. */
static u64 index_of(u32 depth)
{
	return DP_VM_STACK - depth;
}

static u32 depth_at(struct walk *w, const struct word *x)
{
	u64 depth = DP_VM_STACK - x->v.c;

	w->failed |= !x->v.constant || x->is_truth || depth > w->depth;
	return w->failed ? 0 : (u32)depth;
}

void dp_lower_drop(struct walk *w, u32 n)
{
	w->failed |= n > w->depth;
	w->depth -= DP_MIN(n, w->depth);
}

static void exchange(struct word *a, struct word *b)
{
	struct word x = *a;

	*a = *b;
	*b = x;
}

static void append(struct walk *w, struct word *a, const struct dp_operation *op, u32 by)
{
	struct dp_value_op x = {*op, by};

	if (a->v.constant)
		a->v.c = apply(&x, a->v.c);
	else if (a->v.nops == DP_LOWER_OPS)
		w->failed = true;
	else
		a->v.ops[a->v.nops++] = x;
}

/* The top two words are constants, and become one. */
static bool folds(struct walk *w, const struct word *a, const struct word *b, u64 v)
{
	if (w->failed || !a->v.constant || !b->v.constant)
		return false;
	dp_lower_drop(w, 2);
	dp_lower_push_const(w, v);
	return true;
}

static void binary(struct walk *w, const struct dp_operation *op)
{
	struct word *a = dp_lower_number(w, 1), *b = dp_lower_number(w, 0);

	if (folds(w, a, b, dp_alu((enum dp_alu)op->how, a->v.c, b->v.c)))
		return;
	if (a->v.constant && !b->v.constant && op->how != DP_ALU_SUB) /* the order does not matter */
		exchange(a, b);
	w->failed |= !b->v.constant || (u64)(s64)(s32)b->v.c != b->v.c || op->how == DP_ALU_MUL;
	if (!w->failed)
		append(w, a, op, (u32)b->v.c);
	dp_lower_drop(w, 1);
}

/* The condition with its sides exchanged. */
static enum dp_cc turned(enum dp_cc cc)
{
	static const u8 other[DP_NCC] = {DP_CC_EQ, DP_CC_NE,  DP_CC_GT,  DP_CC_LE,  DP_CC_GE,
					 DP_CC_LT, DP_CC_GTU, DP_CC_LEU, DP_CC_GEU, DP_CC_LTU};

	return (enum dp_cc)other[cc];
}

static void compare(struct walk *w, enum dp_cc cc)
{
	struct word *a = dp_lower_number(w, 1), *b = dp_lower_number(w, 0);

	if (folds(w, a, b, dp_cc_holds(cc, a->v.c, b->v.c)))
		return;
	if (a->v.constant) {
		exchange(a, b);
		cc = turned(cc);
	}
	w->failed |= !b->v.constant;
	a->is_truth = true;
	a->cc = cc;
	a->c = b->v.c;
	dp_lower_drop(w, 1);
}

/* (n a -- ) */
static void shift_by(struct walk *w, const struct dp_operation *op)
{
	const struct word *n = dp_lower_number(w, 1), *a = dp_lower_number(w, 0);
	struct dp_value_op x = {.op = {DP_DOES_SHIFT, op->how}, .by = (u32)n->v.c};

	w->failed |= (op->how != DP_SHIFT_SHL && op->how != DP_SHIFT_SHR) || n->v.c > 63;
	w->failed |= !folds(w, n, a, apply(&x, a->v.c));
}

static void truth(struct walk *w, enum dp_cc cc)
{
	struct word *a = dp_lower_word(w, 0);

	w->failed |= a->place;
	if (a->v.constant && !a->is_truth) {
		a->v.c = dp_cc_holds(cc, a->v.c, 0);
		return;
	}
	if (!a->is_truth) {
		a->is_truth = true;
		a->cc = DP_CC_NE;
		a->c = 0;
	}
	a->cc ^= cc == DP_CC_EQ;
}

/* ---- flow ---- */

static void add_need(struct walk *w, const struct word *x, enum dp_cc cc, u64 c, bool is_usual)
{
	if (w->p->nneeds == DP_LOWER_NEEDS)
		w->failed = true;
	else
		w->p->needs[w->p->nneeds++] = (struct dp_lowered_need){x->v, cc, c, is_usual, w->p->nwords};
}

/* x cc c, of a truth as a comparison of what it was made of. */
static void resolve(struct walk *w, struct word *x, enum dp_cc *cc, u64 *c)
{
	w->failed |= x->place;
	if (!x->is_truth)
		return;
	w->failed |= *c || (*cc != DP_CC_EQ && *cc != DP_CC_NE); /* only whether it is zero can be asked */
	*cc = *cc == DP_CC_NE ? x->cc : x->cc ^ 1;
	*c = x->c;
	x->is_truth = false;
}

/* Log only if `x cc c`. */
static void need(struct walk *w, struct word x, enum dp_cc cc, u64 c)
{
	struct dp_lowered *p = w->p;

	resolve(w, &x, &cc, &c);
	if (x.v.constant && dp_cc_holds(cc, x.v.c, c))
		return;
	/* One set of effects for all conditions that do not hold. A key is looked for behind them. */
	w->failed |= (w->decides && p->early != p->neffects) || p->nfinds;
	p->early = p->neffects;
	w->decides = true;
	if (!x.v.constant) {
		add_need(w, &x, cc, c, false);
	} else if (!p->never) {
		p->never = true;
		p->none = p->neffects;
	}
}

static void need_top(struct walk *w, enum dp_cc cc, u64 c)
{
	struct word x = *dp_lower_word(w, 0);

	dp_lower_drop(w, 1);
	if (!w->failed)
		need(w, x, cc, c);
}

/* Jumps lead forward only, so the run ends. */
static void take_jump(struct walk *w, u32 from, u32 to)
{
	w->failed |= to <= from || ++w->jumps > w->in->rt->jmpmax;
	w->at = to;
}

/* The top is known to be zero; or not to be, which says all of a truth. */
static void settle(struct word *x, bool is_zero)
{
	if (is_zero || x->is_truth)
		*x = (struct word){.v = {.constant = true, .c = !is_zero, .size = 8}};
}

static bool tells_zero(const struct dp_op_view *op)
{
	return op->info->op.how == DP_CC_EQ || op->info->op.how == DP_CC_NE;
}

static bool is_same(const struct word *a, const struct word *b)
{
	if (a->v.constant && b->v.constant && !a->is_truth && !b->is_truth)
		return a->v.c == b->v.c;
	return !memcmp(a, b, sizeof(*a));
}

/* But for the words on the stack. */
static bool are_alike(const struct walk *a, const struct walk *b)
{
	return a->depth == b->depth && a->base == b->base && a->ncalls == b->ncalls && a->len == b->len &&
	       a->major == b->major && a->minor == b->minor && !memcmp(a->calls, b->calls, sizeof(a->calls));
}

static void step(struct walk *w, const struct dp_op_view *op);
static void follow(struct walk *w);

/* Instructions behind which nothing has changed but the stack. */
static bool is_quiet(const struct dp_op_view *op)
{
	switch (op->info->op.does) {
	case DP_DOES_OWN:
		return op->opcode == DP_OP_NOP || op->opcode == DP_OP_XCHG || op->opcode == DP_OP_ROS ||
		       op->opcode == DP_OP_DUP || op->opcode == DP_OP_JMP;
	case DP_DOES_VAR:
	case DP_DOES_NEED:
	case DP_DOES_NEED_REG:
	case DP_DOES_STORE_REG:
	case DP_DOES_STORE:
	case DP_DOES_READ:
		return false;
	default:
		return true;
	}
}

/*
 * Whether the way that does not jump comes to where the other one goes on, in the same state: then the decision makes
 * no difference.
 */
static __attribute__((__noinline__)) bool meets(struct walk *w, const struct dp_op_view *branch)
{
	struct walk side = *w;
	u32 to = (u32)branch->v[0];
	struct dp_op_view op;
	struct word top;

	if (!w->depth || to <= branch->at)
		return false;
	top = *dp_lower_word(w, 0);
	if (tells_zero(branch)) {
		settle(&top, branch->info->op.how == DP_CC_EQ);
		settle(dp_lower_word(&side, 0), branch->info->op.how != DP_CC_EQ);
	}
	side.aside = true;
	while (!side.failed && side.at < to) {
		side.failed = ++side.steps > STEPS || dp_op_decode(w->code, w->len_code, side.at, &op) ||
			      !is_quiet(&op);
		if (!side.failed)
			step(&side, &op);
	}
	if (side.failed || side.at != to || !are_alike(w, &side) || !is_same(&top, dp_lower_word(&side, 0)))
		return false;
	for (u32 i = 0; i + 1 < w->depth; i++)
		if (!is_same(&w->stack[i], &side.stack[i]))
			return false;
	w->jumps = DP_MAX(w->jumps, side.jumps); /* the limit holds on either way */
	w->steps = side.steps;
	return true;
}

/* What counts the lists, and all behind: those themselves are written anew. */
#define NOTES_AT offsetof(struct dp_lowered, nneeds)
#define NOTES (sizeof(struct dp_lowered) - NOTES_AT)

/*
 * Whether that way out of a decision ends without a record, and with nothing done: then the decision is a condition.
 * What is noted on the way, the head of a record that is not made, does not count.
 */
static __attribute__((__noinline__)) bool is_idle(struct walk *w, const struct dp_op_view *branch, bool jumps)
{
	struct walk side = *w;
	struct dp_lowered *p = w->p;
	u32 words = p->nwords, effects = p->neffects, finds = p->nfinds;
	u8 before[NOTES];
	bool idle;

	if (!w->depth)
		return false;
	memcpy(before, (u8 *)p + NOTES_AT, NOTES);
	if (tells_zero(branch))
		settle(dp_lower_word(&side, 0), jumps == (branch->info->op.how == DP_CC_EQ));
	side.aside = true;
	if (jumps)
		take_jump(&side, branch->at, (u32)branch->v[0]);
	follow(&side);
	idle = !side.failed && side.len < HEAD && p->nwords == words && p->neffects == effects && p->nfinds == finds;
	memcpy((u8 *)p + NOTES_AT, before, NOTES);
	return idle;
}

static void branch(struct walk *w, enum dp_cc cc, const struct dp_op_view *op)
{
	struct word x = *dp_lower_word(w, 0);
	u32 to = (u32)op->v[0];
	bool jumps = true;
	u64 c = 0;

	if (w->failed)
		return;
	resolve(w, &x, &cc, &c);
	if (x.v.constant) {
		jumps = dp_cc_holds(cc, x.v.c, c);
	} else if (w->aside) {
		w->failed = true;
	} else if (is_idle(w, op, true)) {
		jumps = false;
		need(w, x, cc ^ 1, c);
	} else if (is_idle(w, op, false)) {
		need(w, x, cc, c);
	} else if (!meets(w, op)) {
		add_need(w, &x, cc, c, true);
	}
	if (tells_zero(op))
		settle(dp_lower_word(w, 0), jumps == (op->info->op.how == DP_CC_EQ));
	if (jumps)
		take_jump(w, op->at, to);
}

static void call(struct walk *w, const struct dp_op_view *op)
{
	if (w->ncalls == CALLS) {
		w->failed = true;
		return;
	}
	w->calls[w->ncalls].ret = w->at;
	w->calls[w->ncalls++].base = w->base;
	w->at = (u32)op->v[0];
}

static void ret(struct walk *w)
{
	if (!w->ncalls) {
		w->failed = true;
		return;
	}
	w->at = w->calls[--w->ncalls].ret;
	w->base = w->calls[w->ncalls].base;
}

/* ---- instructions ---- */

/* Opcodes that are like no other; those of the Dynamic Probes language only. */
static void step_rpn(struct walk *w, const struct dp_op_view *op)
{
	switch (op->opcode) {
	case DP_OP_SX: /* nothing in the run raises an exception */
	case DP_OP_UX:
		break;
	case DP_OP_BEGIN:
		w->failed |= w->in->rt->pass || w->in->rt->max != DP_NO_LIMIT;
		break;
	case DP_OP_JMP:
		take_jump(w, op->at, (u32)op->v[0]);
		break;
	case DP_OP_CALL:
		call(w, op);
		break;
	case DP_OP_RET:
		ret(w);
		break;
	case DP_OP_SAVE_TSP:
		dp_lower_push_const(w, index_of(w->depth));
		break;
	case DP_OP_RESTORE_TSP:
		w->depth = depth_at(w, dp_lower_word(w, 0));
		break;
	case DP_OP_SAVE_SBP:
		dp_lower_push_const(w, index_of(w->base));
		break;
	case DP_OP_RESTORE_SBP:
		w->base = depth_at(w, dp_lower_word(w, 0));
		dp_lower_drop(w, 1);
		break;
	case DP_OP_PUSH_LP:
		dp_lower_push_const(w, w->len < HEAD ? 0 : w->len - HEAD);
		break;
	case DP_OP_SETMIN:
		w->minor = (u16)op->v[0];
		break;
	case DP_OP_SETMAJ:
		w->major = (u16)op->v[0];
		break;
	case DP_OP_LOG:
		dp_lower_log_words(w, (u32)op->v[0], false);
		break;
	case DP_OP_LOG_S:
		dp_lower_log_counted(w);
		break;
	case DP_OP_FIND_LV:
		dp_lower_find(w, op);
		break;
	case DP_OP_FOLD_LV:
		dp_lower_fold(w, op);
		break;
	case DP_OP_ABORT:
		w->len = 0;
		dp_lower_finish(w);
		break;
	default:
		w->failed = true;
	}
}

static void step_own(struct walk *w, const struct dp_op_view *op)
{
	struct word x;

	switch (op->opcode) {
	case DP_OP_NOP:
		break;
	case DP_OP_XCHG:
		exchange(dp_lower_word(w, 0), dp_lower_word(w, 1));
		break;
	case DP_OP_ROS:
		dp_lower_drop(w, (u32)op->v[0]);
		break;
	case DP_OP_DUP:
		x = *dp_lower_word(w, 0);
		dp_lower_drop(w, 1);
		for (s64 i = 0; i < op->v[0] && !w->failed; i++)
			push_word(w, x);
		break;
	case DP_OP_REC:
	case DP_OP_RECM:
		dp_lower_open(w, op);
		break;
	case DP_OP_LOGM:
		dp_lower_load(w, op);
		break;
	case DP_OP_LOGM_S:
		dp_lower_load_top(w, op);
		break;
	case DP_OP_PUSH_PID:
		push_known(w, DP_LOWER_PID);
		break;
	case DP_OP_PUSH_TID:
		push_known(w, DP_LOWER_TID);
		break;
	case DP_OP_PUSH_PROCID:
		push_known(w, DP_LOWER_CPU);
		break;
	case DP_OP_LOGRET:
		dp_lower_put_reg(w, (u64)op->v[0], 8, DP_LOWER_RETURN);
		break;
	case DP_OP_EXIT:
		dp_lower_finish(w);
		break;
	default:
		if (w->p->is_rpn)
			step_rpn(w, op);
		else
			w->failed = true;
	}
}

static void stack_word(struct walk *w, const struct dp_op_view *op)
{
	const struct dp_operation *o = &op->info->op;
	struct word x = *dp_lower_word(w, 0);

	if (o->how == DP_ACCESS_PUSH) {
		push_word(w, *(o->where == DP_BASE_TOP ? dp_lower_word(w, (u32)op->v[0]) : based(w, op->v[0])));
		return;
	}
	w->failed |= o->where == DP_BASE_TOP;
	if (o->how == DP_ACCESS_POP)
		dp_lower_drop(w, 1);
	*based(w, op->v[0]) = x;
}

static void step_value(struct walk *w, const struct dp_op_view *op)
{
	const struct dp_operation *o = &op->info->op;

	switch (o->does) {
	case DP_DOES_CONSTANT:
		dp_lower_push_const(w, dp_op_constant(op));
		break;
	case DP_DOES_BINARY:
		binary(w, o);
		break;
	case DP_DOES_SHIFT:
		w->failed |= o->how != DP_SHIFT_SHL && o->how != DP_SHIFT_SHR;
		append(w, dp_lower_number(w, 0), o, (u32)op->v[0]);
		break;
	case DP_DOES_SHIFT_BY:
		shift_by(w, o);
		break;
	case DP_DOES_UNARY:
	case DP_DOES_EXTEND:
		append(w, dp_lower_number(w, 0), o, 0);
		break;
	case DP_DOES_COMPARE:
		compare(w, (enum dp_cc)o->how);
		break;
	case DP_DOES_TRUTH:
		truth(w, (enum dp_cc)o->how);
		break;
	case DP_DOES_STACK:
		stack_word(w, op);
		break;
	case DP_DOES_REGISTER:
		w->failed |= o->how != DP_ACCESS_PUSH;
		push_reg(w, dp_register_by_number((u32)op->v[0])->reg_word, 8, false);
		break;
	case DP_DOES_PART:
		push_reg(w, (u64)op->v[0], o->size, o->is_signed);
		break;
	case DP_DOES_READ:
		dp_lower_read(w, op);
		break;
	default:
		w->failed = true;
	}
}

static void step(struct walk *w, const struct dp_op_view *op)
{
	const struct dp_operation *o = &op->info->op;

	w->at = op->at + op->len;
	switch (o->does) {
	case DP_DOES_OWN:
		step_own(w, op);
		break;
	case DP_DOES_VAR:
	case DP_DOES_BRANCH:
		if (!w->p->is_rpn)
			w->failed = true;
		else if (o->does == DP_DOES_VAR)
			dp_lower_effect(w, op);
		else
			branch(w, (enum dp_cc)o->how, op);
		break;
	case DP_DOES_NEED:
		need_top(w, (enum dp_cc)o->how, (u64)op->v[0]); /* 0 where there is no operand */
		break;
	case DP_DOES_NEED_REG:
		push_reg(w, (u64)op->v[0], 8, false);
		need_top(w, (enum dp_cc)o->how, (u64)op->v[1]);
		break;
	case DP_DOES_STORE:
		dp_lower_store_top(w, op);
		break;
	case DP_DOES_STORE_REG:
		push_reg(w, (u64)op->v[0], 8, false);
		dp_lower_put(w, (u64)op->v[1], o->size, dp_lower_word(w, 0)->v);
		dp_lower_drop(w, 1);
		break;
	default:
		step_value(w, op);
	}
}

/* To the end of the run. */
static void follow(struct walk *w)
{
	struct dp_op_view op;

	while (!w->failed && !w->ended) {
		w->failed = ++w->steps > STEPS || dp_op_decode(w->code, w->len_code, w->at, &op) != 0;
		if (!w->failed)
			step(w, &op);
	}
}

bool dp_lower(struct dp_lowered *out, const u8 *code, u32 len, const struct dp_lower_for *in)
{
	struct walk w = {.p = out, .code = code, .len_code = len, .in = in};

	memset(out, 0, sizeof(*out));
	if (in->rt) {
		out->is_rpn = true;
		out->rec_flags = DP_REC_RPN;
		w.major = in->rt->major;
		w.minor = in->rt->minor;
		w.len = in->rt->logmax < HEAD ? 0 : HEAD;
	}
	follow(&w);
	return !w.failed;
}
