/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls of builtins: their arguments, which are expressions, texts, or the name, value and keys of an aggregate. The
 * table of builtins and their code are in builtin.c.
 */
#include <stdlib.h>
#include <string.h>

#include "abi/abi-program.h"
#include "lang/dpcc/dpcc-priv.h"

#define KEYS 256     /* of one aggregate at least, unless KEYS says otherwise, */
#define KEYS_HIST 64 /* where each takes as many words as a histogram, */
#define KEYS_QUANTILES 48
#define KEYS_MOST 4096    /* and at most: as many as there is room for */
#define KEYED_WORDS 12288 /* in these, which all aggregates share */

static struct node *parse_argument(struct dpcc *c, struct node ***last)
{
	const struct tok *t = dp_cc_peek(c), *end;
	struct node *n = dp_cc_node_new(c, N_COMMA, t);

	n->a = c->parse_assign(c);
	end = &c->toks[c->at - 1];
	n->text = end->line == t->line ? dp_cc_text(c, t->at, (size_t)(end->at + end->len - t->at)) : "value";
	**last = n;
	*last = &n->next;
	return n;
}

static u32 frames_wanted(struct dpcc *c, const struct tok *t, const struct node *args)
{
	s64 n = DP_FRAMES_USUAL;

	if (args && (args->next || !dp_cc_fold(args->a, &n) || n < 1 || n > DP_FRAMES_MAX))
		dp_cc_fail(c, t, E_DPCC_TYPE, "%.*s takes a constant from 1 to %d", (int)t->len, t->at, DP_FRAMES_MAX);
	return (u32)n;
}

/* ---- aggregates ---- */

static u32 kind_of(const char *builtin)
{
	u32 k = 0;

	if (!strcmp(builtin, "put") || !strcmp(builtin, "get") || !strcmp(builtin, "forget"))
		return DP_AGG_LAST;
	if (!strcmp(builtin, "row"))
		return DP_AGG_SUM;
	while (strcmp(dp_rpn_aggregate_kind(k), builtin))
		k++;
	return k;
}

/* Calls of the builtins that keep values in aggregates. */
static u32 count_aggregates(const struct dpcc *c)
{
	u32 n = 0;

	for (u32 i = 0; i + 1 < c->ntoks; i++)
		n += c->toks[i].kind == TOK_WORD && dp_cc_tok_is(&c->toks[i + 1], "(") && dp_cc_has_keys(&c->toks[i]);
	return n;
}

static u32 usual_keys(struct dpcc *c, const struct dp_rpn_aggregate *a)
{
	u32 words = dp_aggregate_words(a->kind), least = a->kind == DP_AGG_QUANTILES ? KEYS_QUANTILES
							 : words == DP_HIST_WORDS    ? KEYS_HIST
										     : KEYS;

	if (c->keeps_tables_small)
		return least;
	c->naggregates = c->naggregates ? c->naggregates : DP_MAX(count_aggregates(c), 1u);
	return DP_MAX(least, DP_MIN(KEYS_MOST, KEYED_WORDS / c->naggregates / (1 + dp_rpn_key_words(a) + words)));
}

/* How a part of a key is kept and shown. */
static u32 part_of(struct dpcc *c, const struct node *arg)
{
	struct type *t = arg->a ? arg->a->type : NULL;

	if (!t)
		return arg->value ? DP_KEY_STACK : DP_KEY_TEXT;
	if (t->lazy)
		dp_cc_debug_complete(c, t);
	if (dp_cc_type_is_text(t))
		return DP_KEY_TEXT;
	if (arg->a->kind == N_BUILTIN && !strcmp(arg->a->text, "pid"))
		return DP_KEY_PROCESS;
	if (t->kind == TY_FUNC || (t->kind == TY_PTR && t->of->kind == TY_FUNC))
		return DP_KEY_CODE;
	if (t->kind == TY_PTR || t->kind == TY_ARRAY)
		return DP_KEY_HEX;
	if (t->kind != TY_INT || t->size > 8)
		dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "a key must be a number, a pointer or a text");
	return t->enums ? DP_KEY_NAMES : t->is_octal ? DP_KEY_OCTAL : t->is_unsigned ? DP_KEY_UNSIGNED : DP_KEY_SIGNED;
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
		n = parse_argument(c, last);
		int known = dp_cc_known_text(n->a);

		if (dp_cc_is_chain(n->a) || dp_cc_is_comm(n->a) || known >= 0) {
			n->op = known >= 0 ? dp_rpn_known_name((u32)known) : NULL;
			n->value = n->a->value;
			n->a = NULL;
		}
		return n;
	}
	c->at += 2;
	if (chain && !dp_cc_tok_is(dp_cc_peek(c), ")"))
		parse_argument(c, &last_arg);
	dp_cc_expect(c, ")");
	n = dp_cc_node_new(c, N_COMMA, t);
	n->text = chain ? "backtrace()" : "comm()";
	n->value = chain ? frames_wanted(c, t, args) : 0;
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
	n->a = n->a ? dp_cc_call_shown(c, n->a) : NULL;
	wanted->parts[wanted->nparts] = part_of(c, n);
	if (wanted->parts[wanted->nparts] == DP_KEY_NAMES)
		wanted->layouts[wanted->nparts] = (u32)strtoul(dp_cc_type_field(c, n->a->type, t) + 1, NULL, 10);
	if (wanted->parts[wanted->nparts++] != DP_KEY_STACK)
		return;
	if (wanted->frames)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a key can have at most one call chain");
	wanted->frames = (u32)n->value;
}

static u32 parse_step(struct dpcc *c)
{
	struct node *n, **last = &n;
	const struct tok *t;
	s64 v;

	dp_cc_expect(c, ",");
	t = dp_cc_peek(c);
	parse_argument(c, &last);
	if (!dp_cc_fold(n->a, &v) || v < 1 || v > 1 << 30)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a step must be a constant of at least 1");
	return (u32)v;
}

static u32 parse_unit(struct dpcc *c)
{
	const struct tok *t = dp_cc_peek(c);

	for (u32 unit = DP_RPN_UNIT_NS; dp_rpn_unit_name(unit); unit++)
		if (dp_cc_accept(c, dp_rpn_unit_name(unit)))
			return unit;
	dp_cc_fail(c, t, E_DPCC_SYNTAX, "ns or bytes is missing here");
}

/* What a name says of it: "bytes", "sent_bytes". */
static u32 unit_of_name(const char *name)
{
	size_t n = strlen(name), bytes = strlen("bytes");

	return n >= bytes && !strcmp(name + n - bytes, "bytes") && (n == bytes || name[n - bytes - 1] == '_')
		   ? DP_RPN_UNIT_BYTES
		   : DP_RPN_UNIT_NONE;
}

/* [: avg] [: unit UNIT] [: top N] [: from N] [: hidden] [: keys N], how it is shown, and how large it is. */
static void parse_attributes(struct dpcc *c, struct dp_rpn_aggregate *a)
{
	while (dp_cc_accept(c, ":")) {
		const struct tok *t = dp_cc_peek(c);

		if (dp_cc_accept(c, "avg")) {
			a->average = true;
		} else if (dp_cc_accept(c, "unit")) {
			a->unit = parse_unit(c);
		} else if (dp_cc_accept(c, "top")) {
			a->top = (u32)dp_cc_parse_constant(c);
		} else if (dp_cc_accept(c, "from")) {
			a->from = dp_cc_parse_constant(c);
		} else if (dp_cc_accept(c, "hidden")) {
			a->hidden = true;
		} else if (dp_cc_accept(c, "keys")) {
			a->keys = (u32)dp_cc_parse_constant(c);
		} else {
			dp_cc_fail(c, t, E_DPCC_SYNTAX,
				   "avg, unit UNIT, top N, from N, keys N or hidden is missing here");
		}
		if (a->top > DP_LOCALS_MAX || a->keys > DP_LOCALS_MAX || a->from < -(1ll << 31) || a->from > 1ll << 31)
			dp_cc_fail(c, t, E_DPCC_LIMIT, "the number is too large");
	}
}

/* NAME [ATTRIBUTES] [, VALUE [, STEP of lhist]] [, KEY...] up to the closing parenthesis. */
static void parse_aggregate(struct dpcc *c, struct node *n, bool has_value)
{
	const struct tok *t = dp_cc_peek(c);
	const char *name = dp_cc_parse_word(c);
	struct dp_rpn_aggregate wanted = {.kind = kind_of(n->text), .step = 1};
	struct node **last = &n->a;

	wanted.unit = wanted.kind == DP_AGG_COUNT ? DP_RPN_UNIT_NONE : unit_of_name(name);
	parse_attributes(c, &wanted);
	if (strlen(name) >= sizeof(wanted.name))
		dp_cc_fail(c, t, E_DPCC_LIMIT, "the name of an aggregate can have at most %zu characters",
			   sizeof(wanted.name) - 1);
	memcpy(wanted.name, name, strlen(name) + 1);
	if (has_value) {
		dp_cc_expect(c, ",");
		parse_argument(c, &last);
	}
	if (wanted.kind == DP_AGG_LINEAR)
		wanted.step = parse_step(c);
	while (!dp_cc_tok_is(dp_cc_peek(c), ")")) {
		dp_cc_expect(c, ",");
		add_part(c, &wanted, &last);
	}
	if (wanted.nparts && !wanted.keys)
		wanted.keys = c->keys ? c->keys : usual_keys(c, &wanted);
	if (!wanted.nparts)
		wanted.keys = 0;
	/* Each key may have a chain of its own. Where there is no room for that, keys have all words of theirs. */
	wanted.chains = wanted.frames ? (u16)wanted.keys : 0;
	if (c->nlocals + dp_rpn_aggregate_words(&wanted) > DP_LOCALS_MAX)
		wanted.chains = 0;
	n->aggregate = dp_cc_aggregate(c, t, &wanted);
}

/* NAME, VALUE, ROW of a sum that has keys. */
static void parse_row(struct dpcc *c, struct node *n)
{
	const struct tok *t = dp_cc_peek(c);
	const char *name = dp_cc_parse_word(c);
	struct node **last = &n->a;

	for (n->aggregate = c->aggregates; n->aggregate; n->aggregate = n->aggregate->next)
		if (!strcmp(n->aggregate->a.name, name) && n->aggregate->a.kind == DP_AGG_SUM && n->aggregate->a.nparts)
			break;
	if (!n->aggregate)
		dp_cc_fail(c, t, E_DPCC_NAME, "there is no row of '%.60s': row(%.60s, KEY...) gives one", name, name);
	dp_cc_expect(c, ",");
	parse_argument(c, &last);
	dp_cc_expect(c, ",");
	parse_argument(c, &last);
}

static const char *parse_aggregate_name(struct dpcc *c)
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

/* ---- the others ---- */

static struct tok *text_argument(struct dpcc *c)
{
	struct tok *t = dp_cc_peek(c);

	if (t->kind != TOK_STR)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a text in quotes is needed here");
	c->at++;
	return t;
}

/* The text of log_probe_expr as an expression of the program's own variables. */
static void probe_expression(struct dpcc *c, struct node *n, struct tok *t)
{
	struct rpn_line *line = dp_cc_alloc(c, sizeof(*line));
	struct rpn_source s = {.lines = line, .n = 1};
	struct tok *toks = c->toks;
	u32 ntoks = c->ntoks, at = c->at;
	struct node **last = &n->a;
	bool bare = c->bare;

	*line = (struct rpn_line){dp_cc_text(c, t->str, t->str_len), t->line->file, t->line->line};
	dp_cc_lex(c, &s);
	c->bare = true;
	parse_argument(c, &last);
	if (dp_cc_peek(c)->kind != TOK_END)
		dp_cc_fail(c, dp_cc_peek(c), E_DPCC_SYNTAX, "the expression should end before this");
	n->a->text = line->text;
	c->bare = bare;
	c->toks = toks;
	c->ntoks = ntoks;
	c->at = at;
}

static void more_arguments(struct dpcc *c, const struct tok *name, struct node **last, u32 want)
{
	u32 n = 0;

	while (!dp_cc_tok_is(dp_cc_peek(c), ")")) {
		if (n++)
			dp_cc_expect(c, ",");
		parse_argument(c, &last);
	}
	if (want != ~0u && n != want)
		dp_cc_fail(c, name, E_DPCC_TYPE, "it takes %u argument%s, not %u", want, want == 1 ? "" : "s", n);
}

static void static_arguments(struct dpcc *c, struct node *n)
{
	struct node **last = &n->a, *v;

	for (u32 i = 1; (v = dp_cc_static_argument(c, n->tok, i)); i++) {
		struct node *arg = dp_cc_node_new(c, N_COMMA, n->tok);

		arg->a = v;
		arg->text = v->text;
		*last = arg;
		last = &arg->next;
	}
}

/* All parameters of the function, those that are not available here left out. */
static void parameters(struct dpcc *c, struct node *n)
{
	struct node **last = &n->a;
	const char *name;

	if (c->target.note) {
		static_arguments(c, n);
		return;
	}
	if (c->target.is_call) {
		dp_cc_call_arguments(c, n);
		return;
	}
	for (u32 i = 1; (name = dp_cc_parameter_name(c, i)); i++) {
		struct node *arg = dp_cc_node_new(c, N_COMMA, n->tok);

		arg->a = dp_cc_context(c, n->tok, name);
		if (!arg->a || (arg->a->kind == N_BUILTIN && strcmp(arg->a->text, "$kept")))
			arg->a = dp_cc_variable(c, n->tok, name, false);
		if (!arg->a)
			continue;
		arg->text = name;
		*last = arg;
		last = &arg->next;
	}
	if (c->mod && !dp_module_debug_bytes(c->mod))
		dp_cc_fail(c, n->tok, E_LINE_NODEBUG, "%.100s", dp_module_base(c->mod));
}

struct node *dp_cc_parse_builtin(struct dpcc *c, const struct tok *name)
{
	struct node *n = dp_cc_builtin(c, name, dp_cc_text(c, name->at, name->len));
	const struct builtin *b;

	if (!n)
		return NULL;
	b = n->builtin;
	if (b->args == ARG_KEYS || b->args == ARG_VALUE_AND_KEYS) {
		parse_aggregate(c, n, b->args == ARG_VALUE_AND_KEYS);
		dp_cc_expect(c, ")");
		return n;
	}
	if (b->args == ARG_VALUE_AND_ROW) {
		parse_row(c, n);
		dp_cc_expect(c, ")");
		return n;
	}
	if (b->args == ARG_AGGREGATE || !strcmp(b->name, "end_trace")) {
		if (!c->target.body)
			dp_cc_fail(c, name, E_DPCC_TYPE, "%s() can be used only in bodies of begin, end and timers",
				   b->name);
		n->op = b->args == ARG_AGGREGATE ? parse_aggregate_name(c) : NULL;
		dp_cc_expect(c, ")");
		return n;
	}
	if (b->args == ARG_CALL) {
		n->value = (u64)dp_cc_parse_constant(c);
		if (!strncmp(b->name, "__call_begin", strlen("__call_begin")))
			dp_cc_parse_call_begin(c, n);
		else
			c->line = n->value;
		dp_cc_expect(c, ")");
		return n;
	}
	if (!strcmp(b->name, "log_args"))
		parameters(c, n);
	if (b->args == ARG_TEXT || b->args == ARG_TEXT_AND_ONE || b->args == ARG_TEXT_AND_TWO ||
	    b->args == ARG_TEXT_AND_ANY || !strcmp(b->name, "printf")) {
		struct tok *t = text_argument(c);

		n->op = t->str;
		n->value = t->str_len;
		if (!strcmp(b->name, "log_probe_expr"))
			probe_expression(c, n, t);
		if (!strcmp(b->name, "log_event"))
			c->event = t->str;
		if (c->event && !strcmp(b->name, "reg")) /* a line that means arguments, which are anywhere here */
			c->no_result |= c->target.copy_of != NULL;
		if (b->args != ARG_TEXT && !dp_cc_tok_is(dp_cc_peek(c), ")"))
			dp_cc_expect(c, ",");
	}
	if (b->args != ARG_TEXT)
		more_arguments(c, name, &n->a,
			       b->args == ARG_ANY || b->args == ARG_TEXT_AND_ANY   ? ~0u
			       : b->args == ARG_TWO || b->args == ARG_TEXT_AND_TWO ? 2
			       : b->args == ARG_ONE || b->args == ARG_TEXT_AND_ONE ? 1
										   : 0);
	dp_cc_expect(c, ")");
	for (struct node *arg = strncmp(b->name, "log", 3) ? NULL : n->a; arg; arg = arg->next)
		arg->a = arg->a ? dp_cc_call_shown(c, arg->a) : NULL;
	if (!strcmp(b->name, "log_backtrace"))
		n->value = frames_wanted(c, name, n->a);
	return strcmp(b->name, "__set") ? n : dp_cc_call_set(c, n->a->a, n->op);
}
