/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Code for the condition. It runs before anything is recorded. What the condition joins by && at
 * its top becomes a row of needs, each of which ends the run as soon as it does not hold; comparing
 * a register or a value with a constant is part of the need.
 */
#include "lang/event/event-priv.h"

static void gen(struct dp_event_line *l, s16 i);

static void put(struct dp_event_line *l, enum dp_opcode op)
{
	dp_asm_put(&l->code, op, (const s64[]){0}, NULL);
}

static void put_1(struct dp_event_line *l, enum dp_opcode op, s64 v)
{
	dp_asm_put(&l->code, op, (const s64[]){v}, NULL);
}

/* ---- values ---- */

static void gen_compare_text(struct dp_event_line *l, const struct ev_node *n)
{
	const struct ev_fetch *f = l->nodes[n->a].fetch;
	const char *text = l->pool + n->text;
	bool equality = n->op != EV_OP_MATCH;
	/* Enough to see that the text goes on where the constant ends. */
	u32 size = equality ? n->text_len + 2u : DP_SCRATCH_SIZE;

	if (f->base == EV_COMM) {
		put(l, DP_OP_STRCOMM);
	} else {
		s64 last;

		dp_ev_gen_address(l, f);
		last = dp_ev_gen_last(l, f);
		if (last) {
			put_1(l, DP_OP_PUSH_D, last);
			put(l, DP_OP_ADD);
		}
		put_1(l, DP_OP_STR, size);
	}
	dp_asm_put(&l->code, equality ? DP_OP_STREQ : DP_OP_STRGLOB, (const s64[]){n->text_len}, text);
	if (n->op == EV_OP_NE)
		put(l, DP_OP_LNOT);
}

/* The node's value as 0 or 1. */
static void gen_bool(struct dp_event_line *l, s16 i)
{
	const struct ev_node *n = &l->nodes[i];
	bool is_bool = n->kind == EV_NODE_COMPARE_TEXT || (n->kind == EV_NODE_UNARY && n->op == EV_OP_LNOT) ||
		       (n->kind == EV_NODE_BINARY && (n->op <= EV_OP_LAND || (n->op >= EV_OP_EQ && n->op <= EV_OP_GE)));

	gen(l, i);
	if (!is_bool)
		put(l, DP_OP_BOOL);
}

/* a || b, a && b; b only where it matters */
static void gen_logical(struct dp_event_line *l, const struct ev_node *n)
{
	u32 jump;

	gen_bool(l, n->a);
	jump = dp_asm_put(&l->code, n->op == EV_OP_LOR ? DP_OP_JNZ : DP_OP_JZ, (const s64[]){0}, NULL);
	put_1(l, DP_OP_ROS, 1);
	gen_bool(l, n->b);
	dp_asm_land(&l->code, jump);
}

static void gen_choice(struct dp_event_line *l, const struct ev_node *n)
{
	u32 to_no, to_end;

	gen(l, n->a);
	to_no = DP_PUT(&l->code, JZ, 0);
	put_1(l, DP_OP_ROS, 1);
	gen(l, n->b);
	to_end = DP_PUT(&l->code, JMP, 0);
	dp_asm_land(&l->code, to_no);
	put_1(l, DP_OP_ROS, 1);
	gen(l, n->c);
	dp_asm_land(&l->code, to_end);
}

static void gen_shift(struct dp_event_line *l, const struct ev_node *n)
{
	const struct ev_node *amount = &l->nodes[n->b];
	bool left = n->op == EV_OP_SHL, arithmetic = !left && !l->nodes[n->a].is_unsigned;

	if (amount->kind == EV_NODE_CONST && amount->value < 64 && !arithmetic) {
		gen(l, n->a);
		put_1(l, left ? DP_OP_SHL : DP_OP_SHR, (s64)amount->value);
		return;
	}
	gen(l, n->b);
	gen(l, n->a);
	put(l, left ? DP_OP_SHL_S : arithmetic ? DP_OP_SAR_S : DP_OP_SHR_S);
}

static enum dp_opcode compare_op(enum ev_op op, bool is_unsigned)
{
	switch (op) {
	case EV_OP_EQ:
		return DP_OP_EQ;
	case EV_OP_NE:
		return DP_OP_NE;
	case EV_OP_LT:
		return is_unsigned ? DP_OP_LTU : DP_OP_LT;
	case EV_OP_LE:
		return is_unsigned ? DP_OP_LEU : DP_OP_LE;
	case EV_OP_GT:
		return is_unsigned ? DP_OP_GTU : DP_OP_GT;
	default:
		return is_unsigned ? DP_OP_GEU : DP_OP_GE;
	}
}

static void gen_divide(struct dp_event_line *l, const struct ev_node *n, bool is_unsigned)
{
	put(l, is_unsigned ? DP_OP_DIV : DP_OP_IDIV);
	if (n->op == EV_OP_DIV) /* the quotient is on top of the remainder */
		put(l, DP_OP_XCHG);
	put_1(l, DP_OP_ROS, 1);
}

static void gen_binary(struct dp_event_line *l, const struct ev_node *n)
{
	bool is_unsigned = l->nodes[n->a].is_unsigned || l->nodes[n->b].is_unsigned;

	if (n->op == EV_OP_LOR || n->op == EV_OP_LAND) {
		gen_logical(l, n);
		return;
	}
	if (n->op == EV_OP_SHL || n->op == EV_OP_SHR) {
		gen_shift(l, n);
		return;
	}
	gen(l, n->a);
	gen(l, n->b);
	switch (n->op) {
	case EV_OP_OR:
		put(l, DP_OP_OR);
		break;
	case EV_OP_XOR:
		put(l, DP_OP_XOR);
		break;
	case EV_OP_AND:
		put(l, DP_OP_AND);
		break;
	case EV_OP_ADD:
		put(l, DP_OP_ADD);
		break;
	case EV_OP_SUB:
		put(l, DP_OP_SUB);
		break;
	case EV_OP_MUL:
		put(l, DP_OP_MUL);
		break;
	case EV_OP_DIV:
	case EV_OP_MOD:
		gen_divide(l, n, is_unsigned);
		break;
	default:
		put(l, compare_op(n->op, is_unsigned));
	}
}

/* Leave the value of node i on the stack. */
static void gen(struct dp_event_line *l, s16 i)
{
	const struct ev_node *n = &l->nodes[i];

	switch (n->kind) {
	case EV_NODE_CONST:
		put_1(l, DP_OP_PUSH_D, (s64)n->value);
		break;
	case EV_NODE_FETCH:
		dp_ev_gen_value(l, n->fetch);
		break;
	case EV_NODE_UNARY:
		gen(l, n->a);
		put(l, n->op == EV_OP_NEG ? DP_OP_NEG : n->op == EV_OP_NOT ? DP_OP_NOT : DP_OP_LNOT);
		break;
	case EV_NODE_BINARY:
		gen_binary(l, n);
		break;
	case EV_NODE_CHOICE:
		gen_choice(l, n);
		break;
	case EV_NODE_COMPARE_TEXT:
		gen_compare_text(l, n);
		break;
	case EV_NODE_TEXT: /* only inside of comparisons */
		break;
	}
}

/* ---- needs ---- */

/* A comparison with a constant in the form that needs come in: == != < >=. */
struct need {
	s16 value;
	enum ev_op op;
	u64 c;
	bool is_unsigned;
};

static bool as_need(const struct dp_event_line *l, const struct ev_node *n, struct need *need)
{
	const struct ev_node *c;

	if (n->kind != EV_NODE_BINARY ||
	    (n->op != EV_OP_EQ && n->op != EV_OP_NE && !(n->op >= EV_OP_LT && n->op <= EV_OP_GE)))
		return false;
	*need = (struct need){.value = n->a, .op = n->op};
	c = &l->nodes[n->b];
	if (c->kind != EV_NODE_CONST) {
		c = &l->nodes[n->a];
		need->value = n->b;
		need->op = n->op == EV_OP_LT   ? EV_OP_GT
			   : n->op == EV_OP_GT ? EV_OP_LT
			   : n->op == EV_OP_LE ? EV_OP_GE
			   : n->op == EV_OP_GE ? EV_OP_LE
					       : n->op;
	}
	if (c->kind != EV_NODE_CONST)
		return false;
	need->is_unsigned = l->nodes[n->a].is_unsigned || l->nodes[n->b].is_unsigned;
	need->c = c->value;
	if (need->op != EV_OP_LE && need->op != EV_OP_GT)
		return true;
	/* x <= c is x < c + 1 as long as that exists */
	if (need->c == (need->is_unsigned ? ~0ull : ~0ull >> 1))
		return false;
	need->c++;
	need->op = need->op == EV_OP_LE ? EV_OP_LT : EV_OP_GE;
	return true;
}

static void gen_compare_need(struct dp_event_line *l, const struct need *need)
{
	const struct ev_node *v = &l->nodes[need->value];
	u32 i = need->op == EV_OP_EQ   ? 0
		: need->op == EV_OP_NE ? 1
		: need->op == EV_OP_LT ? (need->is_unsigned ? 4 : 2)
				       : (need->is_unsigned ? 5 : 3);
	static const u16 of_register[] = {DP_OP_NEEDR_EQ, DP_OP_NEEDR_NE,  DP_OP_NEEDR_LT,
					  DP_OP_NEEDR_GE, DP_OP_NEEDR_LTU, DP_OP_NEEDR_GEU};
	static const u16 of_top[] = {DP_OP_NEED_EQ, DP_OP_NEED_NE,  DP_OP_NEED_LT,
				     DP_OP_NEED_GE, DP_OP_NEED_LTU, DP_OP_NEED_GEU};

	if (v->kind == EV_NODE_FETCH && v->fetch->base == EV_REG && v->fetch->width == 64 && !v->fetch->nderef &&
	    v->fetch->type.size == 8 && !v->fetch->type.bit_width) {
		dp_asm_put(&l->code, (enum dp_opcode)of_register[i], (const s64[]){v->fetch->reg_word, (s64)need->c},
			   NULL);
		return;
	}
	gen(l, need->value);
	put_1(l, (enum dp_opcode)of_top[i], (s64)need->c);
}

static void gen_need(struct dp_event_line *l, s16 i)
{
	const struct ev_node *n = &l->nodes[i];
	struct need need;

	if (n->kind == EV_NODE_BINARY && n->op == EV_OP_LAND) {
		gen_need(l, n->a);
		gen_need(l, n->b);
	} else if (n->kind == EV_NODE_CONST && n->value) {
		return; /* always */
	} else if (as_need(l, n, &need)) {
		gen_compare_need(l, &need);
	} else {
		gen(l, i);
		put(l, DP_OP_NEED);
	}
}

void dp_ev_gen_condition(struct dp_event_line *l)
{
	if (l->condition >= 0)
		gen_need(l, (s16)l->condition);
}
