/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Nodes of the tree and the conversions of their values; it reads no tokens. */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

struct node *dp_cc_node_new(struct dpcc *c, enum node_kind kind, const struct tok *t)
{
	struct node *n = dp_cc_alloc(c, sizeof(*n));

	n->kind = kind;
	n->tok = t;
	return n;
}

struct node *dp_cc_node_number(struct dpcc *c, const struct tok *t, s64 v, struct type *type)
{
	struct node *n = dp_cc_node_new(c, N_NUM, t);

	n->value = (u64)v;
	n->type = type;
	return n;
}

/* ---- what a node is ---- */

bool dp_cc_in_memory(const struct dp_var *v)
{
	return v->npieces == 1 && v->pieces[0].kind == DP_PIECE_MEMORY;
}

bool dp_cc_is_chain(const struct node *n)
{
	return n->kind == N_BUILTIN && !strcmp(n->text, "$backtrace");
}

bool dp_cc_is_comm(const struct node *n)
{
	return n->kind == N_BUILTIN && !strcmp(n->text, "$comm");
}

int dp_cc_known_text(const struct node *n)
{
	return n->kind == N_BUILTIN && *n->text == '$' ? dp_rpn_known_what(n->text + 1, strlen(n->text + 1)) : -1;
}

/* ---- conversions ---- */

/* An array becomes the address of its first element; a bitfield that fits into an int becomes one.
 */
struct node *dp_cc_to_value(struct dpcc *c, struct node *n)
{
	struct node *a;

	if (n->kind == N_MEMBER && n->member->bits && n->type->kind == TY_INT &&
	    n->member->bits < 32u + !n->type->is_unsigned) {
		a = dp_cc_node_new(c, N_CAST, n->tok);
		a->a = n;
		a->type = &dp_cc_type_int;
		return a;
	}
	if (n->type->kind != TY_ARRAY)
		return n;
	a = dp_cc_node_new(c, N_ADDR, n->tok);
	a->a = n;
	a->type = dp_cc_type_ptr(c, n->type->of);
	a->in_target = n->in_target;
	for (struct node *v = n; v; v = v->kind == N_MEMBER ? v->a : NULL)
		if (v->kind == N_PROBE && !dp_cc_in_memory(v->probe))
			dp_cc_fail(c, n->tok, E_DPCC_TYPE, "this array is not in memory as a whole");
	return a;
}

struct node *dp_cc_cast_to(struct dpcc *c, struct node *n, struct type *t)
{
	struct node *k;

	if (dp_cc_type_same(n->type, t))
		return n;
	if ((dp_cc_is_real(t) && (dp_cc_is_real(n->type) || n->type->kind == TY_INT)) ||
	    (dp_cc_is_real(n->type) && t->kind == TY_INT))
		return dp_cc_real_cast(c, n, t);
	if (t->kind == TY_STRUCT || n->type->kind == TY_STRUCT || t->kind == TY_FLOAT || n->type->kind == TY_FLOAT ||
	    n->type->kind == TY_VOID || !(dp_cc_type_is_scalar(t) || t->kind == TY_VOID))
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "%s cannot be converted to %s", dp_cc_type_name(c, n->type),
			   dp_cc_type_name(c, t));
	k = dp_cc_node_new(c, N_CAST, n->tok);
	k->a = n;
	k->type = t;
	k->in_target = n->in_target && t->kind == TY_PTR;
	return k;
}

void dp_cc_need_word(struct dpcc *c, const struct node *n)
{
	if (n->type->size > 8)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE,
			   "a number of more than 64 bits cannot be used in a computation: "
			   "log it, or cast it to long for its lower half");
}

s64 dp_cc_parse_constant(struct dpcc *c)
{
	struct node *n = dp_cc_to_value(c, c->parse_assign(c));
	s64 v;

	if (n->type->kind == TY_ARRAY || !dp_cc_fold(n, &v))
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "this must be a constant");
	return v;
}

/* ---- members ---- */

static struct member *find_member(struct dpcc *c, struct type *t, const struct tok *name, u64 *offset, u32 depth)
{
	if (t->lazy)
		dp_cc_debug_complete(c, t);
	for (struct member *m = t->members; m && depth < 16; m = m->next) {
		struct member *inner;

		if (dp_cc_tok_is(name, m->name)) {
			*offset += m->offset;
			return m;
		}
		if (*m->name || m->type->kind != TY_STRUCT)
			continue;
		*offset += m->offset;
		inner = find_member(c, m->type, name, offset, depth + 1);
		if (inner)
			return inner;
		*offset -= m->offset;
	}
	return NULL;
}

struct node *dp_cc_member(struct dpcc *c, struct node *of, const struct tok *name)
{
	struct node *n = dp_cc_node_new(c, N_MEMBER, name);
	struct member *m, *copy;
	u64 offset = 0;

	m = find_member(c, of->type, name, &offset, 0);
	if (!m)
		return NULL;
	copy = dp_cc_alloc(c, sizeof(*copy));
	*copy = *m;
	copy->offset = offset; /* through anonymous members */
	n->a = of;
	n->member = copy;
	n->type = m->type;
	n->in_target = of->in_target;
	if (n->type->lazy)
		dp_cc_debug_complete(c, n->type);
	return n;
}

struct node *dp_cc_deref(struct dpcc *c, struct node *a, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_DEREF, t);

	a = dp_cc_to_value(c, a);
	if (a->type->kind != TY_PTR)
		dp_cc_fail(c, t, E_DPCC_TYPE, "%s is not a pointer", dp_cc_type_name(c, a->type));
	n->a = a;
	n->type = a->type->of;
	n->in_target = a->in_target;
	if (n->type->lazy)
		dp_cc_debug_complete(c, n->type);
	if (n->type->kind == TY_VOID || n->type->kind == TY_FUNC)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a pointer to %s cannot be dereferenced", dp_cc_type_name(c, n->type));
	return n;
}
