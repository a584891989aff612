/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Code for lines that look at whole calls: a table by stack pointer and process keeps what is known at a call's begin
 * for its end (struct call). tails.c says where calls go on in other functions.
 */
#include <string.h>

#include "arch/arch.h"
#include "lang/dpcc/dpcc-gen.h"

/*
 * The stack pointer as it was at the function's entry. Where the host says when a function returns (at = return), and
 * not an instruction of it, the return address has left the stack.
 */
static void gen_find(struct dpcc *c, const struct call *k)
{
	dp_cc_emit(c, "push r," DP_NAME_SP);
	if (c->target.func && c->target.is_return)
		dp_cc_emit(c, "push d,8;sub");
	dp_cc_emit(c, "push pid;find lv,%u,%u,%u,%u", CALL_KEYS, k->index, k->calls, k->words);
}

/* ( -- address) of the word that says how far a call has come, for (index ...) with so many words above. */
static void gen_step(struct dpcc *c, const struct call *k, u32 above)
{
	dp_cc_emit(c, "push tsp,%u;push d,%u;add", above, k->words - 1);
}

/* (index -- ) The place in the table is free again. */
static void gen_free(struct dpcc *c)
{
	dp_cc_emit(c, "push d,%d;sub;push d,%d;pop lv", 1 + CALL_KEYS, DP_TABLE_LEFT);
}

void dp_cc_gen_call_begin(struct dpcc *c, struct node *n)
{
	int none = dp_cc_new_label(c), end = dp_cc_new_label(c);
	const struct call *k = dp_cc_call_of(c, n->value);
	u32 i = 1;

	c->counts = true; /* no record */
	gen_find(c, k);
	dp_cc_emit(c, "push tsp,0;push d,0;lt;jnz L%d;ros 1", none);
	for (const struct node *v = n->a; v; v = v->next) {
		dp_cc_emit(c, "push tsp,0;push d,%u;add", i++);
		dp_cc_gen_value(c, v->a);
		dp_cc_emit(c, "pop lv");
	}
	if (k->passes) {
		gen_step(c, k, 0);
		dp_cc_emit(c, "push d,%d;pop lv", PASS_BEGIN);
	}
	dp_cc_emit(c, "push %s;pop lv;jmp L%d", !strcmp(n->text, "__call_begin") ? "ns" : "d,1", end);
	dp_cc_put_label(c, none);
	dp_cc_emit(c, "ros 2;inc lv,%u", k->losses);
	dp_cc_put_label(c, end);
}

static const struct call *call_that_began(struct dpcc *c, const struct node *n)
{
	const struct call *k = dp_cc_call_of(c, n->value);

	if (!k)
		dp_cc_fail(c, n->tok, E_DPCC_NAME, "there is no __call_begin(%llu)", (unsigned long long)n->value);
	return k;
}

/*
 * __call_pass(LINE): a call goes on in another function (PASS_ON, PASS_ENTER), or leaves for one that is not followed.
 * A function that is entered without a jump to it was called by somebody else: a call of the line that stands at this
 * place of the stack was left without a return, by an exception for example.
 */
void dp_cc_gen_call_pass(struct dpcc *c, struct node *n)
{
	int gone = dp_cc_new_label(c), end = dp_cc_new_label(c);
	const struct call *k = call_that_began(c, n);

	c->counts = true; /* no record */
	gen_find(c, k);
	dp_cc_emit(c, "push tsp,0;push d,0;lt;jnz L%d", end);
	if (k->passes && c->target.passing != PASS_LEAVE) { /* (index flag) */
		dp_cc_emit(c, "push tsp,1;push lv;jz L%d;ros 1", gone);
		if (c->target.passing == PASS_ENTER) {
			gen_step(c, k, 1);
			dp_cc_emit(c, "push lv;push d,%d;eq;jz L%d;ros 1", PASS_ON, gone);
		}
		gen_step(c, k, 1);
		dp_cc_emit(c, "push d,%d;pop lv;jmp L%d", c->target.passing, end);
		dp_cc_put_label(c, gone);
		dp_cc_emit(c, "ros 1");
	}
	dp_cc_emit(c, "push tsp,1"); /* no call of the line stands at this place of the stack */
	gen_free(c);
	dp_cc_put_label(c, end);
	dp_cc_emit(c, "ros 2");
}

/* __call_end(LINE): where the call's words are, or -1: its beginning was not seen. */
void dp_cc_gen_call_end(struct dpcc *c, struct node *n)
{
	int none = dp_cc_new_label(c), other = dp_cc_new_label(c), end = dp_cc_new_label(c);
	const struct call *k = call_that_began(c, n);

	gen_find(c, k);
	dp_cc_emit(c, "push tsp,0;push d,0;lt;jnz L%d;ros 1;push tsp,0;push lv;jz L%d;ros 1", none, other);
	if (c->target.passing == PASS_RETURN) {
		gen_step(c, k, 0);
		dp_cc_emit(c, "push lv;push d,%d;eq;jz L%d;ros 1", PASS_ENTER, other);
	}
	dp_cc_emit(c, "jmp L%d", end);
	dp_cc_put_label(c, other); /* (index flag -- -1) */
	if (c->target.passing == PASS_RETURN) {
		dp_cc_emit(c, "push tsp,1");
		gen_free(c);
	}
	dp_cc_put_label(c, none);
	dp_cc_emit(c, "ros 2;push d,-1");
	dp_cc_put_label(c, end);
}

/* __call_done(INDEX): kept values are still read behind this. */
void dp_cc_gen_call_done(struct dpcc *c, struct node *n)
{
	const struct call *k = dp_cc_call_of(c, c->line);

	dp_cc_gen_value(c, dp_cc_to_value(c, n->a->a));
	if (k->passes && !k->n)
		gen_free(c);
	else
		dp_cc_emit(c, "push d,0;pop lv");
}
