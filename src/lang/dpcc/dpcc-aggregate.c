/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * count, sum, min, max, hist, put and get: values that are kept at the hit in words of the module,
 * with or without a key, and declared beside the code so that they are shown as what they are.
 */
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/dpcc-gen.h"

#define KEYS 256     /* of one aggregate, unless KEYS says otherwise */
#define KEYS_HIST 64 /* each takes as many words as a histogram */
#define KEYS_QUANTILES 48
#define KEYS_THREADS 1024 /* of a variable that each has */

/* The text of a key: what fits into its words, and the NUL that `str` wants room for. */
#define TEXT_ROOM (DP_KEY_TEXT_WORDS * 8 + 1)

static u32 kind_of(const char *builtin)
{
	u32 k = 0;

	if (!strcmp(builtin, "put") || !strcmp(builtin, "get"))
		return DP_AGG_LAST;
	while (strcmp(dp_rpn_aggregate_kind(k), builtin))
		k++;
	return k;
}

static bool is_text(const struct type *t)
{
	return (t->kind == TY_PTR || t->kind == TY_ARRAY) && t->of->kind == TY_INT && t->of->size == 1 &&
	       t->of->is_char;
}

static u32 usual_keys(u32 kind)
{
	return kind == DP_AGG_QUANTILES ? KEYS_QUANTILES : dp_aggregate_words(kind) == DP_HIST_WORDS ? KEYS_HIST : KEYS;
}

/* How a part of a key is kept and shown. */
static u32 part_of(struct dpcc *c, const struct node *arg)
{
	struct type *t = arg->a ? arg->a->type : NULL;

	if (!t)
		return arg->value ? DP_KEY_STACK : DP_KEY_TEXT;
	if (t->lazy)
		dp_cc_debug_complete(c, t);
	if (is_text(t))
		return DP_KEY_TEXT;
	if (t->kind == TY_FUNC || (t->kind == TY_PTR && t->of->kind == TY_FUNC))
		return DP_KEY_CODE;
	if (t->kind == TY_PTR || t->kind == TY_ARRAY)
		return DP_KEY_HEX;
	if (t->kind != TY_INT || t->size > 8)
		dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "a key must be a number, a pointer or a text");
	return t->enums ? DP_KEY_NAMES : t->is_unsigned ? DP_KEY_UNSIGNED : DP_KEY_SIGNED;
}

/*
 * The thread's name and a call chain are keys only: there is no type to keep them in. Both have no expression; the
 * chain's length is its value.
 */
static struct node *key_argument(struct dpcc *c, struct node ***last)
{
	const struct tok *t = dp_cc_peek(c);
	bool chain = dp_cc_tok_is(t, "backtrace");
	struct node *n, *args = NULL, **last_arg = &args;

	if ((!chain && !dp_cc_tok_is(t, "comm")) || !dp_cc_tok_is(t + 1, "(")) {
		n = dp_cc_parse_argument(c, last);
		if (dp_cc_is_chain(n->a) || dp_cc_is_comm(n->a) || dp_cc_is_exe(n->a)) {
			n->op = dp_cc_is_exe(n->a) ? "exe" : NULL;
			n->value = n->a->value;
			n->a = NULL;
		}
		return n;
	}
	c->at += 2;
	if (chain && !dp_cc_tok_is(dp_cc_peek(c), ")"))
		dp_cc_parse_argument(c, &last_arg);
	dp_cc_expect(c, ")");
	n = dp_cc_node_new(c, N_COMMA, t);
	n->text = chain ? "backtrace()" : "comm()";
	n->value = chain ? dp_cc_frames_wanted(c, t, args) : 0;
	**last = n;
	*last = &n->next;
	return n;
}

static void add_part(struct dpcc *c, struct dp_rpn_aggregate *wanted, struct node ***last)
{
	const struct tok *t = dp_cc_peek(c);
	struct node *n;

	if (wanted->nparts == DP_RPN_KEYS_MAX)
		dp_cc_fail(c, t, E_DPCC_LIMIT, "a key can have at most %d parts", DP_RPN_KEYS_MAX);
	n = key_argument(c, last);
	wanted->parts[wanted->nparts] = part_of(c, n);
	if (wanted->parts[wanted->nparts] == DP_KEY_NAMES)
		wanted->layouts[wanted->nparts] = (u32)strtoul(dp_cc_type_field(c, n->a->type, t) + 1, NULL, 10);
	if (wanted->parts[wanted->nparts++] != DP_KEY_STACK)
		return;
	if (wanted->frames)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a key can have at most one call chain");
	wanted->frames = (u32)n->value;
}

/* The aggregate of that name: the same one everywhere in the file, and in all passes. */
static struct aggregate *find(struct dpcc *c, const struct tok *t, const struct dp_rpn_aggregate *wanted)
{
	struct aggregate *a, **last = &c->aggregates;
	u64 words = dp_rpn_aggregate_words(wanted);

	for (; (a = *last); last = &a->next) {
		if (a->a.kind != wanted->kind || a->a.average != wanted->average || a->a.thread != wanted->thread ||
		    strcmp(a->a.name, wanted->name))
			continue;
		if (a->a.step != wanted->step)
			dp_cc_fail(c, t, E_DPCC_TYPE, "'%.60s' has a different step elsewhere", wanted->name);
		if (a->a.nparts != wanted->nparts || a->a.frames != wanted->frames ||
		    memcmp(a->a.parts, wanted->parts, sizeof(a->a.parts)) ||
		    memcmp(a->a.layouts, wanted->layouts, sizeof(a->a.layouts)))
			dp_cc_fail(c, t, E_DPCC_TYPE, "'%.60s' has keys of a different type elsewhere", wanted->name);
		return a;
	}
	if (c->nlocals + words > DP_LOCALS_MAX)
		dp_cc_fail(c, t, E_DPCC_LIMIT,
			   "static variables and aggregates can have at most %d words; this takes %llu", DP_LOCALS_MAX,
			   (unsigned long long)words);
	a = dp_cc_alloc(c, sizeof(*a));
	*a = (struct aggregate){.a = *wanted};
	a->a.index = c->nlocals;
	c->nlocals += (u32)words;
	*last = a;
	return a;
}

u32 dp_cc_loss(struct dpcc *c, const struct tok *t, const char *name)
{
	struct dp_rpn_aggregate wanted = {.kind = DP_AGG_COUNT, .step = 1, .loss = true};

	dp_format(wanted.name, sizeof(wanted.name), "%s", name);
	return find(c, t, &wanted)->a.index;
}

/* A variable that each thread has: where its table begins. */
u32 dp_cc_thread_table(struct dpcc *c, const struct tok *t, const char *name)
{
	struct dp_rpn_aggregate wanted = {.kind = DP_AGG_LAST, .step = 1, .nparts = 1, .thread = true};

	wanted.keys = c->threads ? c->threads : KEYS_THREADS;
	wanted.parts[0] = DP_KEY_SIGNED;
	dp_format(wanted.name, sizeof(wanted.name), "%.60s", name);
	return find(c, t, &wanted)->a.index;
}

static u32 parse_step(struct dpcc *c)
{
	struct node *n, **last = &n;
	const struct tok *t;
	s64 v;

	dp_cc_expect(c, ",");
	t = dp_cc_peek(c);
	dp_cc_parse_argument(c, &last);
	if (!dp_cc_fold(n->a, &v) || v < 1 || v > 1 << 30)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a step must be a constant of at least 1");
	return (u32)v;
}

/* [: avg] [: top N] [: from N], how it is shown. */
static void parse_attributes(struct dpcc *c, struct dp_rpn_aggregate *a)
{
	while (dp_cc_accept(c, ":")) {
		const struct tok *t = dp_cc_peek(c);

		if (dp_cc_accept(c, "avg")) {
			a->average = true;
		} else if (dp_cc_accept(c, "top")) {
			a->top = (u32)dp_cc_parse_constant(c);
		} else if (dp_cc_accept(c, "from")) {
			a->from = dp_cc_parse_constant(c);
		} else {
			dp_cc_fail(c, t, E_DPCC_SYNTAX, "avg, top N or from N is missing here");
		}
		if (a->top > DP_LOCALS_MAX || a->from < -(1ll << 31) || a->from > 1ll << 31)
			dp_cc_fail(c, t, E_DPCC_LIMIT, "the number is too large");
	}
}

/* NAME [ATTRIBUTES] [, VALUE [, STEP of lhist]] [, KEY...] up to the closing parenthesis. */
void dp_cc_parse_aggregate(struct dpcc *c, struct node *n, bool has_value)
{
	const struct tok *t = dp_cc_peek(c);
	const char *name = dp_cc_parse_word(c);
	struct dp_rpn_aggregate wanted = {.kind = kind_of(n->text), .step = 1};
	struct node **last = &n->a;

	parse_attributes(c, &wanted);
	if (strlen(name) >= sizeof(wanted.name))
		dp_cc_fail(c, t, E_DPCC_LIMIT, "the name of an aggregate can have at most %zu characters",
			   sizeof(wanted.name) - 1);
	memcpy(wanted.name, name, strlen(name) + 1);
	if (has_value) {
		dp_cc_expect(c, ",");
		dp_cc_parse_argument(c, &last);
	}
	if (wanted.kind == DP_AGG_LINEAR)
		wanted.step = parse_step(c);
	while (!dp_cc_tok_is(dp_cc_peek(c), ")")) {
		dp_cc_expect(c, ",");
		add_part(c, &wanted, &last);
	}
	if (wanted.nparts)
		wanted.keys = c->keys ? c->keys : usual_keys(wanted.kind);
	n->aggregate = find(c, t, &wanted);
}

/* ---- code ---- */

static void gen_key(struct dpcc *c, const struct node *arg)
{
	if (!arg->a && arg->value) {
		dp_cc_emit(c, "push frames,%llu", (unsigned long long)arg->value);
	} else if (!arg->a && arg->op) {
		u32 at = dp_cc_known(c, arg->tok, DP_KNOWN_KEY, "");

		for (u32 i = 0; i < DP_KEY_TEXT_WORDS; i++)
			dp_cc_emit(c, "push lv,%u", at + i);
	} else if (!arg->a) {
		dp_cc_emit(c, "strcomm;push text,%d", DP_KEY_TEXT_WORDS);
	} else if (is_text(arg->a->type)) {
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
		gen_key(c, keys);
	dp_cc_emit(c, "find lv,%u,%u,%u,%u", dp_rpn_key_words(a), a->index, a->keys, dp_aggregate_words(a->kind));
}

void dp_cc_gen_aggregate(struct dpcc *c, const struct node *n)
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
	if (a->kind == DP_AGG_COUNT && !a->nparts) {
		dp_cc_emit(c, "inc lv,%u", a->index);
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
	dp_cc_emit(c, "fold lv,%u", a->kind);
}

/* ---- in bodies ---- */

const char *dp_cc_parse_aggregate_name(struct dpcc *c)
{
	const struct tok *t = dp_cc_peek(c);
	const char *name = dp_cc_parse_word(c);

	for (const struct aggregate *a = c->aggregates; a; a = a->next)
		if (!strcmp(a->a.name, name) && !a->a.thread)
			return name;
	if (dp_cc_find_var(c, t))
		dp_cc_fail(c, t, E_DPCC_NAME, "'%.60s' is a variable: log(%.60s) shows it, %.60s = 0 clears it", name,
			   name, name);
	dp_cc_fail(c, t, E_DPCC_NAME, "there is no aggregate '%.60s'", name);
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
