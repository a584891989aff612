/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Initialisers of a function's variables: they become assignments, to memory that has been cleared. */
#include "lang/dpcc/dpcc-priv.h"

static struct node *assign_to(struct dpcc *c, struct node *to, struct node *value, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_ASSIGN, t);

	n->op = "";
	n->a = to;
	n->b = dp_cc_cast_to(c, dp_cc_to_value(c, value), to->type);
	n->type = to->type;
	return n;
}

static struct node *element(struct dpcc *c, struct node *array, u64 i, const struct tok *t)
{
	struct node *part = dp_cc_node_new(c, N_DEREF, t), *sum = dp_cc_node_new(c, N_BINARY, t),
		    *index = dp_cc_node_new(c, N_NUM, t);

	index->type = &dp_cc_type_long;
	index->value = i * array->type->of->size;
	sum->op = "+";
	sum->a = dp_cc_to_value(c, array);
	sum->b = index;
	sum->type = sum->a->type;
	part->a = sum;
	part->type = array->type->of;
	return part;
}

static void init_with(struct dpcc *c, struct node *part, struct node *value, const struct tok *t, struct node ***last)
{
	struct node *e = dp_cc_node_new(c, N_EXPR, t);

	e->a = assign_to(c, part, value, t);
	**last = e;
	*last = &e->next;
}

static bool is_text_for(const struct tok *t, const struct type *to)
{
	return t->kind == TOK_STR && to->kind == TY_ARRAY && to->of->size == 1;
}

/* A text for an array in something larger: byte by byte, up to the zeros. */
static void init_text(struct dpcc *c, struct node *part, struct node ***last)
{
	struct tok *s = dp_cc_next_tok(c);

	if (s->str_len > part->type->n)
		dp_cc_fail(c, s, E_DPCC_TYPE, "the text is too long");
	for (u32 i = 0; i < s->str_len; i++)
		if (s->str[i])
			init_with(c, element(c, part, i, s), dp_cc_node_number(c, s, s->str[i], &dp_cc_type_int), s,
				  last);
}

/*
 * { 1, 2, { 3 } } for arrays and structures, as assignments; what is not named is zero, as the memory is. Returns how
 * many elements there are: a variable may be an array without a size.
 */
static u64 init_list(struct dpcc *c, struct node *to, struct node ***last)
{
	struct member *m = to->type->kind == TY_STRUCT ? to->type->members : NULL;
	bool is_array = to->type->kind == TY_ARRAY, grows = is_array && !to->type->n && to->kind == N_VAR;
	const struct tok *t = dp_cc_expect(c, "{");
	u64 i = 0;

	while (!dp_cc_tok_is(dp_cc_peek(c), "}")) {
		struct node *part;

		if (dp_cc_accept(c, ".")) {
			const struct tok *name = dp_cc_peek(c);

			dp_cc_parse_word(c);
			for (m = to->type->members; m && !dp_cc_tok_is(name, m->name); m = m->next)
				;
			dp_cc_expect(c, "=");
		}
		if (is_array ? !grows && i >= to->type->n : !m)
			dp_cc_fail(c, dp_cc_peek(c), E_DPCC_TYPE, "there are more values than can be initialised");
		if (is_array) {
			part = element(c, to, i++, t);
		} else {
			part = dp_cc_node_new(c, N_MEMBER, t);
			part->a = to;
			part->member = m;
			part->type = m->type;
			m = m->next;
		}
		if (dp_cc_tok_is(dp_cc_peek(c), "{"))
			init_list(c, part, last);
		else if (is_text_for(dp_cc_peek(c), part->type))
			init_text(c, part, last);
		else
			init_with(c, part, dp_cc_parse_assign(c), t, last);
		if (!dp_cc_accept(c, ","))
			break;
	}
	dp_cc_expect(c, "}");
	return i;
}

struct node *dp_cc_parse_initialiser(struct dpcc *c, struct var *v, const struct tok *t)
{
	struct node *block = dp_cc_node_new(c, N_BLOCK, t), **last = &block->a, *to = dp_cc_node_new(c, N_VAR, t);
	u64 n;

	to->var = v;
	to->type = v->type;
	if (dp_cc_tok_is(dp_cc_peek(c), "{") && !dp_cc_type_is_scalar(v->type)) {
		struct node *clear = dp_cc_node_new(c, N_INIT, t);

		clear->var = v;
		*last = clear;
		last = &clear->next;
		n = init_list(c, to, &last);
		if (v->type->kind == TY_ARRAY && !v->type->n)
			v->type = to->type = dp_cc_type_array(c, v->type->of, n);
	} else if (is_text_for(dp_cc_peek(c), v->type)) {
		struct tok *s = dp_cc_next_tok(c);
		struct node *clear = dp_cc_node_new(c, N_INIT, t);

		if (!v->type->n)
			v->type = to->type = dp_cc_type_array(c, v->type->of, s->str_len + 1);
		if (s->str_len > v->type->n)
			dp_cc_fail(c, s, E_DPCC_TYPE, "the text is too long");
		clear->var = v;
		clear->text = s->str;
		clear->len = s->str_len;
		*last = clear;
	} else {
		struct node *e = dp_cc_node_new(c, N_EXPR, t);

		e->a = assign_to(c, to, dp_cc_parse_assign(c), t);
		*last = e;
	}
	return block;
}
