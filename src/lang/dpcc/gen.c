/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Expressions to instructions. A value on the stack is always extended to 64 bits by the sign of
 * its type, so that conversions to wider types cost nothing and comparisons need no width.
 */
#include <string.h>

#include "lang/dpcc/gen.h"

/* Instructions, separated by semicolons. */
void emit(struct dpcc *c, const char *fmt, ...)
{
	char text[512], *p = text, *end;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (;; p = end + 1) {
		end = strchr(p, ';');
		buf_add(c, c->code, "\t", 1);
		buf_add(c, c->code, p, end ? (size_t)(end - p) : strlen(p));
		buf_add(c, c->code, "\n", 1);
		if (!end)
			return;
	}
}

int new_label(struct dpcc *c)
{
	return (int)c->label++;
}

void put_label(struct dpcc *c, int label)
{
	buf_put(c, c->code, "L%d:\n", label);
}

void gen_normalise(struct dpcc *c, const struct type *t)
{
	if (t->size < 8)
		emit(c, "%s%u", t->is_unsigned ? "zx" : "sx", (u32)t->size * 8);
}

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
			emit(c, "%s", is_unsigned ? table[i].is_unsigned : table[i].is_signed);
	if (strchr("+-*/%", *op) || !strcmp(op, "<<"))
		gen_normalise(c, t);
}

static void gen_cast(struct dpcc *c, struct node *n)
{
	const struct type *from = n->a->type, *to = n->type;

	if (to->kind == TY_VOID) {
		gen_void(c, n->a);
		return;
	}
	gen_value(c, n->a);
	if (to->is_bool && !from->is_bool) {
		emit(c, "bool");
		return;
	}
	if (to->size >= 8 || (from->size < to->size && (from->is_unsigned || !to->is_unsigned)) ||
	    (from->size == to->size && from->is_unsigned == to->is_unsigned))
		return;
	gen_normalise(c, to);
}

/* a && b, a || b: 0 or 1. */
static void gen_logic(struct dpcc *c, struct node *n)
{
	int end = new_label(c);

	gen_value(c, n->a);
	emit(c, "bool;%s L%d;ros 1", n->kind == N_ANDAND ? "jz" : "jnz", end);
	gen_value(c, n->b);
	emit(c, "bool");
	put_label(c, end);
}

static void gen_choice(struct dpcc *c, struct node *n, bool want)
{
	int other = new_label(c), end = new_label(c);

	gen_value(c, n->a);
	emit(c, "jz L%d;ros 1", other);
	if (want)
		gen_value(c, n->b);
	else
		gen_void(c, n->b);
	emit(c, "jmp L%d", end);
	put_label(c, other);
	emit(c, "ros 1");
	if (want)
		gen_value(c, n->c);
	else
		gen_void(c, n->c);
	put_label(c, end);
}

static void gen_call(struct dpcc *c, struct node *n)
{
	if (!n->a)
		emit(c, "push d,0");
	for (struct node *arg = n->a; arg; arg = arg->next)
		gen_value(c, arg->a);
	emit(c, "call F_%s", n->func->name);
}

/* ---- assignment ---- */

/* (addr v -- addr v addr v) or (v -- v v): what is stored stays below as the value. */
static void keep_value(struct dpcc *c, const struct place *p)
{
	if (p->kind == PLACE_MEMORY)
		emit(c, "push tsp,1;push tsp,1");
	else
		emit(c, "push tsp,0");
}

static void drop_address(struct dpcc *c, const struct place *p)
{
	if (p->kind == PLACE_MEMORY)
		emit(c, "xchg;ros 1");
}

static void convert(struct dpcc *c, const struct type *from, const struct type *to)
{
	if (to->is_bool)
		emit(c, "bool");
	else if (to->size < from->size ||
		 (to->size == from->size && to->is_unsigned != from->is_unsigned))
		gen_normalise(c, to);
}

static void gen_assign(struct dpcc *c, struct node *n, bool want)
{
	struct place p = place_of(c, n->a);
	bool is_shift = n->op[0] && n->op[1];

	if (p.kind == PLACE_MEMORY)
		place_address(c, &p);
	if (*n->op) {
		struct type *t = n->a->type->kind == TY_PTR ? n->a->type
				 : is_shift                 ? type_promote(n->a->type)
							    : type_common(n->a->type, n->b->type);

		if (p.kind == PLACE_MEMORY)
			emit(c, "push tsp,0");
		place_load(c, &p);
		convert(c, n->a->type, t);
		gen_value(c, n->b);
		if (!is_shift)
			convert(c, n->b->type, t);
		operation(c, n->op, t, t->is_unsigned);
		if (t->size < n->a->type->size || n->a->type->size < t->size ||
		    n->a->type->is_unsigned != t->is_unsigned)
			convert(c, t->size == 8 ? &ty_ulong : t, n->a->type);
	} else {
		gen_value(c, n->b);
	}
	if (p.bits) { /* the value is that of the field */
		emit(c, "shl %u", 64 - p.bits);
		emit(c, p.type->is_unsigned ? "shr %u" : "push d,%u;xchg;sar", 64 - p.bits);
	}
	if (want)
		keep_value(c, &p);
	place_store(c, &p, n->tok);
	if (want)
		drop_address(c, &p);
}

static void gen_incdec(struct dpcc *c, struct node *n, bool want)
{
	struct place p = place_of(c, n->a);
	const struct var *v = n->a->kind == N_VAR ? n->a->var : NULL;
	u64 step = n->type->kind == TY_PTR ? n->type->of->size : 1;
	const char *op = *n->op == '+' ? "add" : "sub";

	/* One atomic step, so that threads can count together. */
	if (!want && step == 1 && v && (v->kind == VAR_LOCAL || v->kind == VAR_GLOBAL) &&
	    !n->type->is_bool) {
		emit(c, "%s %s,%d", *n->op == '+' ? "inc" : "dec",
		     v->kind == VAR_LOCAL ? "lv" : "gv", v->slot);
		return;
	}
	if (p.kind == PLACE_MEMORY) {
		place_address(c, &p);
		emit(c, "push tsp,0");
	}
	place_load(c, &p);
	if (want && n->postfix && p.kind == PLACE_MEMORY)
		emit(c, "xchg;push tsp,1"); /* (old addr old) */
	else if (want && n->postfix)
		emit(c, "push tsp,0");
	emit(c, "push d,%llu;%s", (unsigned long long)step, op);
	if (n->type->is_bool)
		emit(c, "bool");
	else
		gen_normalise(c, n->type);
	if (want && !n->postfix)
		keep_value(c, &p);
	place_store(c, &p, n->tok);
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
	l = dpcc_alloc(c, sizeof(*l));
	*l = (struct literal){c->literals, s, len, c->literal_bytes};
	c->literals = l;
	c->literal_bytes += DP_ALIGN_UP(len + 1, 8u);
	if (c->literal_bytes > 1600)
		dpcc_fail(c, NULL, E_DPCC_LIMIT,
			  "the texts of the handler have more than 1600 bytes");
	return l->offset;
}

void gen_address(struct dpcc *c, struct node *n)
{
	struct place p = place_of(c, n);

	place_address(c, &p);
}

void gen_value(struct dpcc *c, struct node *n)
{
	struct place p;
	s64 v;

	if (n->type->kind == TY_INT && n->kind != N_NUM && fold(n, &v)) {
		emit(c, "push d,%lld", (long long)v);
		return;
	}
	switch (n->kind) {
	case N_NUM:
		emit(c, "push d,%lld", (long long)n->value);
		break;
	case N_STR: /* in the handler's first block of memory, which has the handle 8 */
		emit(c, "push d,0x%llx",
		     (unsigned long long)DPCC_TAG_HEAP << 48 | 8ull << 32 |
			 literal(c, n->text, n->len));
		break;
	case N_VAR:
	case N_PROBE:
	case N_DEREF:
	case N_MEMBER:
		if (!type_is_scalar(n->type))
			dpcc_fail(c, n->tok, E_DPCC_TYPE, "%s cannot be used as a value here",
				  type_name(c, n->type));
		p = place_of(c, n);
		if (p.kind == PLACE_MEMORY)
			place_address(c, &p);
		place_load(c, &p);
		break;
	case N_ADDR:
		gen_address(c, n->a);
		break;
	case N_NEG:
	case N_NOT:
		gen_value(c, n->a);
		emit(c, n->kind == N_NEG ? "neg" : "not");
		gen_normalise(c, n->type);
		break;
	case N_LNOT:
		gen_value(c, n->a);
		emit(c, "lnot");
		break;
	case N_BINARY:
		gen_value(c, n->a);
		gen_value(c, n->b);
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
		gen_void(c, n->a);
		gen_value(c, n->b);
		break;
	case N_CAST:
		gen_cast(c, n);
		break;
	case N_CALL:
		if (n->type->kind == TY_VOID)
			dpcc_fail(c, n->tok, E_DPCC_TYPE, "'%s' returns nothing", n->func->name);
		gen_call(c, n);
		break;
	default:
		gen_builtin(c, n, true);
	}
}

void gen_void(struct dpcc *c, struct node *n)
{
	switch (n->kind) {
	case N_ASSIGN:
		gen_assign(c, n, false);
		break;
	case N_INCDEC:
		gen_incdec(c, n, false);
		break;
	case N_COMMA:
		gen_void(c, n->a);
		gen_void(c, n->b);
		break;
	case N_COND:
		gen_choice(c, n, false);
		break;
	case N_CALL:
		gen_call(c, n);
		emit(c, "ros 1");
		break;
	case N_BUILTIN:
		gen_builtin(c, n, false);
		break;
	case N_CAST:
		gen_void(c, n->a);
		break;
	default:
		gen_value(c, n);
		emit(c, "ros 1");
	}
}
