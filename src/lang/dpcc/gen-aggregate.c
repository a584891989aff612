/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Code that keeps values in aggregates at the hit, and that asks the control side about them. */
#include <string.h>

#include "lang/dpcc/dpcc-gen.h"

/* The text of a key: what fits into its words, and the NUL that `str` wants room for. */
#define TEXT_ROOM (DP_KEY_TEXT_WORDS * 8 + 1)

static void gen_key(struct dpcc *c, const struct dp_rpn_aggregate *a, const struct node *arg)
{
	if (!arg->a && arg->value && !a->chains) {
		dp_cc_emit(c, "push frames,%u", a->frames);
	} else if (!arg->a && arg->value) {
		dp_cc_emit(c, "push chain,%u,%u,%u", a->frames, dp_rpn_chains_at(a), a->chains);
	} else if (!arg->a && arg->op) {
		int what = dp_rpn_known_what(arg->op, strlen(arg->op));
		u32 at = dp_cc_known(c, arg->tok, (u32)what, DP_KNOWN_KEY, "");

		for (u32 i = 0; i < DP_KEY_TEXT_WORDS; i++)
			dp_cc_emit(c, "push lv,%u", at + i);
	} else if (!arg->a) {
		dp_cc_emit(c, "strcomm;push text,%d", DP_KEY_TEXT_WORDS);
	} else if (dp_cc_type_is_text(arg->a->type)) {
		dp_cc_gen_value(c, dp_cc_to_value(c, arg->a));
		/* An address that cannot be read raises, as everywhere. */
		dp_cc_emit(c, "push tsp,0;push mem,u8;ros 1;str %d;push text,%d", TEXT_ROOM, DP_KEY_TEXT_WORDS);
	} else {
		dp_cc_gen_value(c, dp_cc_to_value(c, arg->a));
	}
}

/* ( -- index) of the aggregate's words; -1 when there is no room for the key. */
static void gen_index(struct dpcc *c, const struct dp_rpn_aggregate *a, const struct node *keys)
{
	if (!a->nparts) {
		dp_cc_emit(c, "push d,%u", a->index);
		return;
	}
	for (; keys; keys = keys->next)
		gen_key(c, a, keys);
	dp_cc_emit(c, "find lv,%u,%u,%u,%u", dp_rpn_placed_words(a), a->index, a->keys, dp_aggregate_words(a->kind));
}

void dp_cc_gen_aggregate(struct dpcc *c, struct node *n)
{
	const struct dp_rpn_aggregate *a = &n->aggregate->a;
	const struct node *keys = n->a;

	c->counts = true;
	if (!strcmp(n->text, "get")) {
		int none = dp_cc_new_label(c), end = dp_cc_new_label(c);

		gen_index(c, a, keys);
		dp_cc_emit(c, "push tsp,0;push d,0;lt;jnz L%d;ros 1;push lv;jmp L%d", none, end);
		dp_cc_put_label(c, none);
		dp_cc_emit(c, "ros 2;push d,0");
		dp_cc_put_label(c, end);
		return;
	}
	if (a->kind == DP_AGG_COUNT) {
		dp_cc_emit(c, "push d,0");
	} else {
		dp_cc_gen_value(c, dp_cc_cast_to(c, dp_cc_to_value(c, n->a->a), &dp_cc_type_long));
		if (a->from)
			dp_cc_emit(c, "push d,%lld;sub", (long long)a->from);
		keys = n->a->next;
	}
	if (a->kind == DP_AGG_LINEAR) { /* which bar; all that is negative is one */
		int negative = dp_cc_new_label(c), end = dp_cc_new_label(c);

		dp_cc_emit(c, "push tsp,0;push d,0;lt;jnz L%d;ros 1;push d,%u;idiv;xchg;ros 1;jmp L%d", negative,
			   a->step, end);
		dp_cc_put_label(c, negative);
		dp_cc_emit(c, "ros 2;push d,-1");
		dp_cc_put_label(c, end);
	}
	gen_index(c, a, keys);
	dp_cc_emit(c, "fold lv,%u", a->kind | (dp_fold_can_be_apart(a->kind) ? DP_FOLD_APART : 0));
}

/* row(NAME, KEY...): the index of the key's words; -1 when it has no room. */
void dp_cc_gen_row(struct dpcc *c, struct node *n)
{
	c->counts = true;
	gen_index(c, &n->aggregate->a, n->a);
}

/* row_add(NAME, VALUE, ROW), row_sub() */
void dp_cc_gen_row_change(struct dpcc *c, struct node *n)
{
	c->counts = true;
	dp_cc_gen_value(c, dp_cc_cast_to(c, dp_cc_to_value(c, n->a->a), &dp_cc_type_long));
	dp_cc_gen_value(c, dp_cc_cast_to(c, dp_cc_to_value(c, n->a->next->a), &dp_cc_type_long));
	dp_cc_emit(c, "fold lv,%d", strcmp(n->text, "row_sub") ? DP_AGG_SUM : DP_FOLD_BACK);
}

/* forget(NAME, KEY...): the place is free for another key, once its state says so. */
void dp_cc_gen_forget(struct dpcc *c, struct node *n)
{
	const struct dp_rpn_aggregate *a = &n->aggregate->a;
	int none = dp_cc_new_label(c), end = dp_cc_new_label(c);

	c->counts = true;
	gen_index(c, a, n->a);
	dp_cc_emit(c, "push tsp,0;push d,0;lt;jnz L%d;ros 1;push d,%u;sub;push d,%d;pop lv;jmp L%d", none,
		   1 + dp_rpn_placed_words(a), DP_TABLE_LEFT, end);
	dp_cc_put_label(c, none);
	dp_cc_emit(c, "ros 2");
	dp_cc_put_label(c, end);
}

void dp_cc_gen_ask(struct dpcc *c, enum dp_control_op op, const char *name)
{
	c->in_helpers = true; /* an address that no memory has */
	if (!name)
		dp_cc_emit(c, "push d,0x%llx;push mem,u8;ros 1", (unsigned long long)dp_control_ask(op, 0));
	for (const struct aggregate *a = name ? c->aggregates : NULL; a; a = a->next)
		if (!strcmp(a->a.name, name) && !a->a.thread)
			dp_cc_emit(c, "push d,0x%llx;push mem,u8;ros 1",
				   (unsigned long long)dp_control_ask(op, a->a.index));
	c->in_helpers = false;
}
