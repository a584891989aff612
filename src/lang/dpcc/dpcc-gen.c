/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Expressions to instructions. A value on the stack is always extended to 64 bits by the sign of
 * its type, so that conversions to wider types cost nothing and comparisons need no width.
 */
#include <string.h>

#include "lang/dpcc/dpcc-gen.h"

/* ---- operators ---- */

static void operation(struct dpcc *c, const char *op, const struct type *t, bool is_unsigned)
{
	static const struct {
		const char *op, *is_signed, *is_unsigned;
	} table[] = {
	    {"+", "add", "add"},
	    {"-", "sub", "sub"},
	    {"*", "mul", "mul"},
	    {"/", "idiv;xchg;ros 1", "div;xchg;ros 1"},
	    {"%", "idiv;ros 1", "div;ros 1"},
	    {"&", "and", "and"},
	    {"|", "or", "or"},
	    {"^", "xor", "xor"},
	    {"<<", "xchg;shl", "xchg;shl"},
	    {">>", "xchg;sar", "xchg;shr"},
	    {"==", "eq", "eq"},
	    {"!=", "ne", "ne"},
	    {"<", "lt", "ltu"},
	    {">", "gt", "gtu"},
	    {"<=", "le", "leu"},
	    {">=", "ge", "geu"},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(table); i++)
		if (!strcmp(op, table[i].op))
			dp_cc_emit(c, "%s", is_unsigned ? table[i].is_unsigned : table[i].is_signed);
	if (strchr("+-*/%", *op) || !strcmp(op, "<<"))
		dp_cc_gen_normalise(c, t);
}

static void gen_cast(struct dpcc *c, struct node *n)
{
	const struct type *from = n->a->type, *to = n->type;

	if (to->kind == TY_VOID) {
		dp_cc_gen_void(c, n->a);
		return;
	}
	dp_cc_gen_value(c, n->a);
	if (to->is_bool && !from->is_bool) {
		dp_cc_emit(c, "bool");
		return;
	}
	if (to->size >= 8 || (from->size < to->size && (from->is_unsigned || !to->is_unsigned)) ||
	    (from->size == to->size && from->is_unsigned == to->is_unsigned))
		return;
	dp_cc_gen_normalise(c, to);
}

/* a && b, a || b: 0 or 1. */
static void gen_logic(struct dpcc *c, struct node *n)
{
	int end = dp_cc_new_label(c);

	dp_cc_gen_value(c, n->a);
	dp_cc_emit(c, "bool;%s L%d;ros 1", n->kind == N_ANDAND ? "jz" : "jnz", end);
	dp_cc_gen_value(c, n->b);
	dp_cc_emit(c, "bool");
	dp_cc_put_label(c, end);
}

static void gen_choice(struct dpcc *c, struct node *n, bool want)
{
	int other = dp_cc_new_label(c), end = dp_cc_new_label(c);

	dp_cc_gen_value(c, n->a);
	dp_cc_emit(c, "jz L%d;ros 1", other);
	if (want)
		dp_cc_gen_value(c, n->b);
	else
		dp_cc_gen_void(c, n->b);
	dp_cc_emit(c, "jmp L%d", end);
	dp_cc_put_label(c, other);
	dp_cc_emit(c, "ros 1");
	if (want)
		dp_cc_gen_value(c, n->c);
	else
		dp_cc_gen_void(c, n->c);
	dp_cc_put_label(c, end);
}

static void gen_call(struct dpcc *c, struct node *n)
{
	if (!n->a)
		dp_cc_emit(c, "push d,0");
	for (struct node *arg = n->a; arg; arg = arg->next)
		dp_cc_gen_value(c, arg->a);
	dp_cc_emit(c, "call F_%s", n->func->name);
}

/* ---- assignment ---- */

/* (addr v -- addr v addr v) or (v -- v v): what is stored stays below as the value. */
static void keep_value(struct dpcc *c, const struct place *p)
{
	if (p->kind == PLACE_MEMORY)
		dp_cc_emit(c, "push tsp,1;push tsp,1");
	else
		dp_cc_emit(c, "push tsp,0");
}

static void drop_address(struct dpcc *c, const struct place *p)
{
	if (p->kind == PLACE_MEMORY)
		dp_cc_emit(c, "xchg;ros 1");
}

static void convert(struct dpcc *c, const struct type *from, const struct type *to)
{
	if (to->is_bool)
		dp_cc_emit(c, "bool");
	else if (to->size < from->size || (to->size == from->size && to->is_unsigned != from->is_unsigned))
		dp_cc_gen_normalise(c, to);
}

static void gen_assign(struct dpcc *c, struct node *n, bool want)
{
	struct place p = dp_cc_place_of(c, n->a);
	bool is_shift = n->op[0] && n->op[1];

	if (p.kind == PLACE_MEMORY)
		dp_cc_place_address(c, &p);
	if (*n->op) {
		struct type *t = n->a->type->kind == TY_PTR ? n->a->type
				 : is_shift                 ? dp_cc_type_promote(n->a->type)
							    : dp_cc_type_common(n->a->type, n->b->type);

		if (p.kind == PLACE_MEMORY)
			dp_cc_emit(c, "push tsp,0");
		dp_cc_place_load(c, &p);
		convert(c, n->a->type, t);
		dp_cc_gen_value(c, n->b);
		if (!is_shift)
			convert(c, n->b->type, t);
		operation(c, n->op, t, t->is_unsigned);
		if (t->size < n->a->type->size || n->a->type->size < t->size ||
		    n->a->type->is_unsigned != t->is_unsigned)
			convert(c, t->size == 8 ? &dp_cc_type_ulong : t, n->a->type);
	} else {
		dp_cc_gen_value(c, n->b);
	}
	if (p.bits) { /* the value is that of the field */
		dp_cc_emit(c, "shl %u", 64 - p.bits);
		dp_cc_emit(c, p.type->is_unsigned ? "shr %u" : "push d,%u;xchg;sar", 64 - p.bits);
	}
	if (want)
		keep_value(c, &p);
	dp_cc_place_store(c, &p, n->tok);
	if (want)
		drop_address(c, &p);
}

static void gen_incdec(struct dpcc *c, struct node *n, bool want)
{
	struct place p = dp_cc_place_of(c, n->a);
	const struct var *v = n->a->kind == N_VAR ? n->a->var : NULL;
	u64 step = n->type->kind == TY_PTR ? n->type->of->size : 1;
	const char *op = *n->op == '+' ? "add" : "sub";

	/* One atomic step, so that threads can count together. */
	if (!want && step == 1 && v && (v->kind == VAR_LOCAL || v->kind == VAR_GLOBAL) && !n->type->is_bool) {
		dp_cc_emit(c, "%s %s,%d", *n->op == '+' ? "inc" : "dec", v->kind == VAR_LOCAL ? "lv" : "gv",
			   v->first_word);
		return;
	}
	if (p.kind == PLACE_MEMORY) {
		dp_cc_place_address(c, &p);
		dp_cc_emit(c, "push tsp,0");
	}
	dp_cc_place_load(c, &p);
	if (want && n->postfix && p.kind == PLACE_MEMORY)
		dp_cc_emit(c, "xchg;push tsp,1"); /* (old addr old) */
	else if (want && n->postfix)
		dp_cc_emit(c, "push tsp,0");
	dp_cc_emit(c, "push d,%llu;%s", (unsigned long long)step, op);
	if (n->type->is_bool)
		dp_cc_emit(c, "bool");
	else
		dp_cc_gen_normalise(c, n->type);
	if (want && !n->postfix)
		keep_value(c, &p);
	dp_cc_place_store(c, &p, n->tok);
	if (want && !n->postfix)
		drop_address(c, &p);
}

/* ---- expressions ---- */

static u32 literal(struct dpcc *c, const char *s, u32 len)
{
	struct literal *l;

	for (l = c->literals; l; l = l->next)
		if (l->len == len && !memcmp(l->s, s, len))
			return l->offset;
	l = dp_cc_alloc(c, sizeof(*l));
	*l = (struct literal){c->literals, s, len, c->literal_bytes};
	c->literals = l;
	c->literal_bytes += DP_ALIGN_UP(len + 1, 8u);
	if (c->literal_bytes > 1600)
		dp_cc_fail(c, NULL, E_DPCC_LIMIT, "the texts of the handler exceed 1600 bytes");
	return l->offset;
}

void dp_cc_gen_address(struct dpcc *c, struct node *n)
{
	struct place p = dp_cc_place_of(c, n);

	dp_cc_place_address(c, &p);
}

static void gen_builtin(struct dpcc *c, struct node *n, bool want)
{
	const struct builtin *b = n->builtin;

	if (want && n->type->kind == TY_VOID)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "'%s' returns nothing", n->text);
	if (n->tok && n->tok->line)
		c->here = n->tok;
	c->traces |= !strcmp(n->text, "log_stack");
	c->logs |= c->traces;
	if (b->code) {
		if (n->a)
			dp_cc_gen_value(c, dp_cc_to_value(c, n->a->a));
		dp_cc_emit(c, "%s", b->code);
	} else if (b->gen) {
		b->gen(c, n);
	}
	if (!want && n->type->kind != TY_VOID)
		dp_cc_emit(c, "ros 1");
}

void dp_cc_gen_value(struct dpcc *c, struct node *n)
{
	struct place p;
	s64 v;

	if (n->type->kind == TY_INT && n->kind != N_NUM && dp_cc_fold(n, &v)) {
		dp_cc_emit(c, "push d,%lld", (long long)v);
		return;
	}
	switch (n->kind) {
	case N_NUM:
		dp_cc_emit(c, "push d,%lld", (long long)n->value);
		break;
	case N_STR: /* in the handler's first block of memory, which has the handle 8 */
		dp_cc_emit(c, "push d,0x%llx",
			   (unsigned long long)DPCC_TAG_HEAP << 48 | 8ull << 32 | literal(c, n->text, n->len));
		break;
	case N_VAR:
	case N_PROBE:
	case N_DEREF:
	case N_MEMBER:
		if (!dp_cc_type_is_scalar(n->type) && !dp_cc_is_real(n->type))
			dp_cc_fail(c, n->tok, E_DPCC_TYPE, "%s cannot be used as a value here",
				   dp_cc_type_name(c, n->type));
		p = dp_cc_place_of(c, n);
		if (dp_cc_is_real(n->type)) /* its bits */
			p.type = n->type->size == 4 ? &dp_cc_type_uint : &dp_cc_type_ulong;
		if (p.kind == PLACE_MEMORY)
			dp_cc_place_address(c, &p);
		dp_cc_place_load(c, &p);
		break;
	case N_ADDR:
		dp_cc_gen_address(c, n->a);
		break;
	case N_NEG:
	case N_NOT:
		dp_cc_gen_value(c, n->a);
		dp_cc_emit(c, n->kind == N_NEG ? "neg" : "not");
		dp_cc_gen_normalise(c, n->type);
		break;
	case N_LNOT:
		dp_cc_gen_value(c, n->a);
		dp_cc_emit(c, "lnot");
		break;
	case N_BINARY:
		dp_cc_gen_value(c, n->a);
		dp_cc_gen_value(c, n->b);
		operation(c, n->op, n->type, n->a->type->is_unsigned);
		break;
	case N_ANDAND:
	case N_OROR:
		gen_logic(c, n);
		break;
	case N_ASSIGN:
		gen_assign(c, n, true);
		break;
	case N_INCDEC:
		gen_incdec(c, n, true);
		break;
	case N_COND:
		gen_choice(c, n, true);
		break;
	case N_COMMA:
		dp_cc_gen_void(c, n->a);
		dp_cc_gen_value(c, n->b);
		break;
	case N_CAST:
		gen_cast(c, n);
		break;
	case N_CALL:
		if (n->type->kind == TY_VOID)
			dp_cc_fail(c, n->tok, E_DPCC_TYPE, "'%s' returns nothing", n->func->name);
		gen_call(c, n);
		break;
	default:
		gen_builtin(c, n, true);
	}
}

void dp_cc_gen_void(struct dpcc *c, struct node *n)
{
	switch (n->kind) {
	case N_ASSIGN:
		gen_assign(c, n, false);
		break;
	case N_INCDEC:
		gen_incdec(c, n, false);
		break;
	case N_COMMA:
		dp_cc_gen_void(c, n->a);
		dp_cc_gen_void(c, n->b);
		break;
	case N_COND:
		gen_choice(c, n, false);
		break;
	case N_CALL:
		gen_call(c, n);
		dp_cc_emit(c, "ros 1");
		break;
	case N_BUILTIN:
		gen_builtin(c, n, false);
		break;
	case N_CAST:
		dp_cc_gen_void(c, n->a);
		break;
	default:
		dp_cc_gen_value(c, n);
		dp_cc_emit(c, "ros 1");
	}
}
