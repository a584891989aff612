/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Expressions: by precedence, typed as they are read. */
#include <string.h>

#include "abi/abi-program.h"
#include "lang/dpcc/dpcc-priv.h"

static struct node *unary(struct dpcc *c);

static void need_scalar(struct dpcc *c, const struct node *n)
{
	if (!dp_cc_type_is_scalar(n->type))
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "a number or a pointer is needed here, not %s",
			   dp_cc_type_name(c, n->type));
	dp_cc_need_word(c, n);
}

static void need_integer(struct dpcc *c, const struct node *n)
{
	need_scalar(c, n);
	if (n->type->kind != TY_INT)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "an integer is needed here, not %s", dp_cc_type_name(c, n->type));
}

static bool is_place(const struct node *n)
{
	return n->kind == N_VAR || n->kind == N_PROBE || n->kind == N_DEREF || (n->kind == N_MEMBER && is_place(n->a));
}

static void need_place(struct dpcc *c, const struct node *n)
{
	if (!is_place(n))
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "this must be a variable or a place in memory");
}

/* ---- variables ---- */

static struct node *variable(struct dpcc *c, const struct tok *t, struct var *v)
{
	struct node *n = dp_cc_node_new(c, N_VAR, t);

	n->var = v;
	n->type = v->type;
	return n;
}

static struct node *call(struct dpcc *c, const struct tok *t, struct function *f)
{
	struct node *n = dp_cc_node_new(c, N_CALL, t), **last = &n->a;
	struct var *p = f->params;

	n->func = f;
	n->type = f->ret;
	f->used = true;
	while (!dp_cc_accept(c, ")")) {
		struct node *arg = dp_cc_to_value(c, dp_cc_parse_assign(c));

		if (!p)
			dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "'%s' takes %u argument%s", f->name, f->nparams,
				   f->nparams == 1 ? "" : "s");
		*last = dp_cc_node_new(c, N_COMMA, arg->tok);
		(*last)->a = dp_cc_cast_to(c, arg, p->type);
		last = &(*last)->next;
		p = p->next;
		if (!dp_cc_tok_is(dp_cc_peek(c), ")"))
			dp_cc_expect(c, ",");
	}
	if (p)
		dp_cc_fail(c, t, E_DPCC_TYPE, "'%s' takes %u argument%s", f->name, f->nparams,
			   f->nparams == 1 ? "" : "s");
	return n;
}

/* A variable of the program, or a word like $pid; behind $backtrace [N] may follow. */
static struct node *probed(struct dpcc *c, const struct tok *t, const char *name, bool needed)
{
	struct node *n = dp_cc_probed(c, t, name, needed);

	if (n && dp_cc_is_chain(n) && dp_cc_accept(c, "[")) {
		s64 depth = dp_cc_parse_constant(c);

		dp_cc_expect(c, "]");
		if (depth < 1 || depth > DP_FRAMES_MAX)
			dp_cc_fail(c, t, E_DPCC_TYPE, "a call chain must have from 1 to %d functions", DP_FRAMES_MAX);
		n->value = (u64)depth;
	}
	return n;
}

static struct node *defined(struct dpcc *c, const struct tok *t)
{
	struct tok *word = &c->toks[c->at];
	bool bare = c->bare, found;
	struct node *n;

	if (!dp_cc_tok_is(word, "defined"))
		dp_cc_fail(c, word, E_DPCC_SYNTAX, "only @defined($name) begins with @");
	c->at++;
	dp_cc_expect(c, "(");
	word = dp_cc_peek(c);
	if (word->kind != TOK_PROBE && !(bare && word->kind == TOK_WORD))
		dp_cc_fail(c, word, E_DPCC_SYNTAX, "@defined takes a $name");
	c->at++;
	found = probed(c, word,
		       dp_cc_text(c, word->at + (word->kind == TOK_PROBE), word->len - (word->kind == TOK_PROBE)),
		       false) != NULL;
	dp_cc_expect(c, ")");
	n = dp_cc_node_number(c, t, found, &dp_cc_type_int);
	n->is_defined = true;
	return n;
}

static _Noreturn void no_function(struct dpcc *c, const struct tok *t, const char *name)
{
	struct dp_near near = {.n = 0};

	dp_cc_builtin_near(&near, name);
	for (const struct function *f = c->funcs; f; f = f->next)
		if (*f->name != '_')
			dp_near_try(&near, name, f->name);
	dp_cc_fail_near(c, t, E_DPCC_NAME, &near, "there is no function '%s'", name);
}

/* In an event line it may be one of the line's own words. */
static _Noreturn void no_variable(struct dpcc *c, const struct tok *t, const char *name)
{
	static const char *const words[] = {"if", "by", "top", "count"};
	struct dp_near near = {.n = 0};

	for (const struct scope *s = c->scope; s; s = s->up)
		for (const struct var *v = s->vars; v; v = v->next)
			if (*v->name != '_')
				dp_near_try(&near, name, v->name);
	for (u32 i = 0; c->event && i < DP_ARRAY_SIZE(words); i++)
		dp_near_try(&near, name, words[i]);
	dp_cc_fail_near(c, t, E_DPCC_NAME, &near,
			"there is no variable '%s' here; those of the program are written $%s", name, name);
}

static struct node *named(struct dpcc *c, const struct tok *t)
{
	const char *name = dp_cc_text(c, t->at, t->len);
	bool is_call = dp_cc_tok_is(dp_cc_peek(c), "(");
	struct function *f;
	struct var *v = dp_cc_find_var(c, t);
	struct node *n;
	s64 value;

	if (c->bare && !is_call) {
		n = probed(c, t, name, !v && !dp_cc_find_constant(c, t, &value));
		if (n)
			return n;
	}
	if (v)
		return variable(c, t, v);
	if (dp_cc_find_constant(c, t, &value))
		return dp_cc_node_number(c, t, value, value == (s32)value ? &dp_cc_type_int : &dp_cc_type_long);
	if (is_call) {
		c->at++;
		f = dp_cc_find_func(c, name);
		if (f)
			return call(c, t, f);
		n = dp_cc_parse_builtin(c, t);
		if (n)
			return n;
		no_function(c, t, name);
	}
	if (dp_cc_probed_enumerator(c, name, &value))
		return dp_cc_node_number(c, t, value, value == (s32)value ? &dp_cc_type_int : &dp_cc_type_long);
	no_variable(c, t, name);
}

static struct node *primary(struct dpcc *c)
{
	struct tok *t = dp_cc_peek(c);
	struct node *n;

	if (t->kind == TOK_END)
		dp_cc_fail(c, t, E_DPCC_SYNTAX, "unexpected end of the file");
	c->at++;
	switch (t->kind) {
	case TOK_NUM:
		if (t->is_real)
			return dp_cc_node_number(c, t, (s64)t->value, &dp_cc_type_double);
		return dp_cc_node_number(c, t, (s64)t->value,
					 t->is_long       ? (t->is_unsigned ? &dp_cc_type_ulong : &dp_cc_type_long)
					 : t->is_unsigned ? &dp_cc_type_uint
							  : &dp_cc_type_int);
	case TOK_STR:
		n = dp_cc_node_new(c, N_STR, t);
		n->text = t->str;
		n->len = t->str_len;
		n->type = dp_cc_type_ptr(c, &dp_cc_type_char);
		return n;
	case TOK_PROBE:
		return probed(c, t, dp_cc_text(c, t->at + 1, t->len - 1), true);
	case TOK_WORD:
		return named(c, t);
	default:
		break;
	}
	if (dp_cc_tok_is(t, "@"))
		return defined(c, t);
	if (!dp_cc_tok_is(t, "("))
		dp_cc_fail(c, t, E_DPCC_SYNTAX, "an expression is missing here");
	n = dp_cc_parse_expr(c);
	dp_cc_expect(c, ")");
	return n;
}

/* ---- postfix ---- */

static void members_near(struct dp_near *near, const char *name, const struct type *t)
{
	for (const struct member *m = t->members; m; m = m->next)
		if (m->name && *m->name)
			dp_near_try(near, name, m->name);
		else if (m->type->kind == TY_STRUCT)
			members_near(near, name, m->type);
}

static _Noreturn void no_member(struct dpcc *c, const struct tok *name, const struct type *t)
{
	struct dp_near near = {.n = 0};

	if (!t->complete)
		dp_cc_fail(c, name, E_DPCC_NAME, "the members of %s are not known", dp_cc_type_name(c, t));
	members_near(&near, dp_cc_text(c, name->at, name->len), t);
	dp_cc_fail_near(c, name, E_DPCC_NAME, &near, "%s has no member of this name", dp_cc_type_name(c, t));
}

static _Noreturn void no_members(struct dpcc *c, const struct tok *t, const struct type *of)
{
	struct dp_near near = {.n = of->kind == TY_PTR && of->of->kind == TY_STRUCT, .best = {"->"}};

	dp_cc_fail_near(c, t, E_DPCC_TYPE, &near, "%s has no members", dp_cc_type_name(c, of));
}

static struct node *binary(struct dpcc *c, const struct tok *t, const char *op, struct node *a, struct node *b);

/* .size or .size() of a text or a vector of a library; NULL: it is something else. */
static struct node *library_size(struct dpcc *c, struct node *of, const struct tok *name)
{
	struct node *from, *to;

	if (!dp_cc_tok_is(name, "size"))
		return NULL;
	if (dp_cc_library_text(c, of, &from, &to))
		from = to;
	else if (dp_cc_library_vector(c, of, &from, &to))
		from = binary(c, name, "-", to, from);
	else
		return NULL;
	if (dp_cc_accept(c, "("))
		dp_cc_expect(c, ")");
	return from;
}

static struct node *member(struct dpcc *c, struct node *of, const struct tok *t)
{
	const struct tok *name = dp_cc_peek(c);
	struct node *n;

	if (of->type->kind != TY_STRUCT)
		no_members(c, t, of->type);
	if (name->kind != TOK_WORD)
		dp_cc_fail(c, name, E_DPCC_SYNTAX, "a member's name is missing here");
	c->at++;
	n = dp_cc_member(c, of, name);
	if (!n)
		n = library_size(c, of, name);
	if (!n)
		no_member(c, name, of->type);
	return n;
}

static struct node *incdec(struct dpcc *c, struct node *a, const struct tok *t, bool postfix)
{
	struct node *n = dp_cc_node_new(c, N_INCDEC, t);

	need_place(c, a);
	need_scalar(c, a);
	n->a = a;
	n->op = dp_cc_tok_is(t, "++") ? "+" : "-";
	n->postfix = postfix;
	n->type = a->type;
	n->in_target = a->in_target;
	return n;
}

static struct node *postfix(struct dpcc *c)
{
	struct node *n = primary(c);

	for (;;) {
		const struct tok *t = dp_cc_peek(c);

		if (dp_cc_accept(c, "[")) {
			struct node *i = dp_cc_to_value(c, dp_cc_parse_expr(c));

			dp_cc_expect(c, "]");
			n = dp_cc_deref(c, binary(c, t, "+", dp_cc_to_value(c, n), i), t);
		} else if (dp_cc_accept(c, ".")) {
			n = member(c, n, t);
		} else if (dp_cc_accept(c, "->")) {
			struct node *owned = dp_cc_library_owned(c, n);

			n = member(c, dp_cc_deref(c, owned ? owned : n, t), t);
		} else if (dp_cc_accept(c, "++") || dp_cc_accept(c, "--")) {
			n = incdec(c, n, t, true);
		} else {
			return n;
		}
	}
}

/* ---- unary ---- */

static struct node *address_of(struct dpcc *c, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_ADDR, t), *of;

	n->a = unary(c);
	need_place(c, n->a);
	if (n->a->kind == N_MEMBER && n->a->member->bits)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a bitfield has no address");
	for (of = n->a; of->kind == N_MEMBER; of = of->a)
		;
	if (of->kind == N_PROBE && !dp_cc_in_memory(of->probe))
		dp_cc_fail(c, t, E_DPCC_TYPE, "$%s is not in memory here: it has no address", of->text);
	if (of->kind == N_VAR && of->var->kind == VAR_GLOBAL && of->var->is_static)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a global variable has no address");
	if (of->kind == N_VAR && (of->var->kind == VAR_THREAD || of->var->kind == VAR_PROCESS) && of->var->is_static)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a thread variable has no address");
	if (of->kind == N_VAR)
		of->var->in_memory = true;
	n->type = dp_cc_type_ptr(c, n->a->type);
	n->in_target = n->a->in_target;
	return n;
}

static struct node *cast(struct dpcc *c, const struct tok *t)
{
	struct type *type = dp_cc_parse_type_name(c);
	struct node *n;

	dp_cc_expect(c, ")");
	n = dp_cc_to_value(c, unary(c));
	if (type->kind == TY_INT && type->size > 8)
		dp_cc_fail(c, t, E_DPCC_TYPE, "a number of more than 64 bits cannot be used in a computation");
	/* A cast between types that are the same inside still changes how it is shown. */
	if (dp_cc_type_same(n->type, type) && dp_cc_type_is_scalar(type)) {
		struct node *k = dp_cc_node_new(c, N_CAST, t);

		k->a = n;
		k->type = type;
		k->in_target = n->in_target;
		return k;
	}
	return dp_cc_cast_to(c, n, type);
}

static struct node *size_of(struct dpcc *c, const struct tok *t)
{
	struct type *type;

	if (dp_cc_tok_is(dp_cc_peek(c), "(")) {
		c->at++;
		if (dp_cc_begins_type(c)) {
			type = dp_cc_parse_type_name(c);
			dp_cc_expect(c, ")");
			goto known;
		}
		c->at--;
	}
	type = unary(c)->type;
known:
	if (type->lazy)
		dp_cc_debug_complete(c, type);
	if (!type->complete)
		dp_cc_fail(c, t, E_DPCC_TYPE, "the size of %s is not known", dp_cc_type_name(c, type));
	return dp_cc_node_number(c, t, (s64)type->size, &dp_cc_type_ulong);
}

static struct node *simple_unary(struct dpcc *c, enum node_kind kind, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, kind, t);

	n->a = dp_cc_to_value(c, unary(c));
	if (dp_cc_is_real(n->a->type) && kind != N_NOT)
		return dp_cc_real_binary(c, t, kind == N_NEG ? "*" : "==", n->a,
					 dp_cc_node_number(c, t, kind == N_NEG ? -1 : 0, &dp_cc_type_int));
	if (kind == N_LNOT) {
		need_scalar(c, n->a);
		n->type = &dp_cc_type_int;
		return n;
	}
	need_integer(c, n->a);
	n->type = dp_cc_type_promote(n->a->type);
	n->a = dp_cc_cast_to(c, n->a, n->type);
	return n;
}

static struct node *unary(struct dpcc *c)
{
	const struct tok *t = dp_cc_peek(c);
	struct node *n;

	if (++c->depth > 200)
		dp_cc_fail(c, t, E_DPCC_LIMIT, "the expression is nested too deeply");
	if (dp_cc_accept(c, "&")) {
		n = address_of(c, t);
	} else if (dp_cc_accept(c, "*")) {
		n = dp_cc_deref(c, unary(c), t);
	} else if (dp_cc_accept(c, "-")) {
		n = simple_unary(c, N_NEG, t);
	} else if (dp_cc_accept(c, "~")) {
		n = simple_unary(c, N_NOT, t);
	} else if (dp_cc_accept(c, "!")) {
		n = simple_unary(c, N_LNOT, t);
	} else if (dp_cc_accept(c, "+")) {
		n = dp_cc_to_value(c, unary(c));
		need_integer(c, n);
		n = dp_cc_cast_to(c, n, dp_cc_type_promote(n->type));
	} else if (dp_cc_accept(c, "++") || dp_cc_accept(c, "--")) {
		n = incdec(c, unary(c), t, false);
	} else if (dp_cc_accept(c, "sizeof")) {
		n = size_of(c, t);
	} else if (dp_cc_tok_is(t, "(")) {
		c->at++;
		if (dp_cc_begins_type(c)) {
			n = cast(c, t);
		} else {
			c->at--;
			n = postfix(c);
		}
	} else {
		n = postfix(c);
	}
	c->depth--;
	return n;
}

/* ---- binary ---- */

static const struct {
	const char *op;
	int level;
} levels[] = {{"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5}, {"==", 6}, {"!=", 6}, {"~", 6},  {"<", 7}, {">", 7},
	      {"<=", 7}, {">=", 7}, {"<<", 8}, {">>", 8}, {"+", 9}, {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

static bool is_compare(const char *op)
{
	return !strcmp(op, "==") || !strcmp(op, "!=") || !strcmp(op, "<") || !strcmp(op, ">") || !strcmp(op, "<=") ||
	       !strcmp(op, ">=");
}

/* The index times the size of what the pointer points to. */
static struct node *scaled(struct dpcc *c, struct node *i, struct type *of, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_BINARY, t);

	need_integer(c, i);
	if (of->lazy)
		dp_cc_debug_complete(c, of);
	if (!of->complete && of->kind != TY_VOID)
		dp_cc_fail(c, t, E_DPCC_TYPE, "the size of %s is not known", dp_cc_type_name(c, of));
	i = dp_cc_cast_to(c, i, &dp_cc_type_long);
	if (of->size == 1)
		return i;
	n->op = "*";
	n->a = i;
	n->b = dp_cc_node_number(c, t, (s64)of->size, &dp_cc_type_long);
	n->type = &dp_cc_type_long;
	return n;
}

static struct node *pointer_sum(struct dpcc *c, const struct tok *t, struct node *n)
{
	struct node *p;

	if (n->a->type->kind == TY_PTR && n->b->type->kind == TY_PTR) { /* their difference */
		u64 size = n->a->type->of->size;

		if (*n->op != '-' || !size)
			dp_cc_fail(c, t, E_DPCC_TYPE, "pointers can be subtracted, not added");
		n->type = &dp_cc_type_long;
		p = dp_cc_node_new(c, N_BINARY, t);
		p->op = "/";
		p->a = n;
		p->b = dp_cc_node_number(c, t, (s64)size, &dp_cc_type_long);
		p->type = &dp_cc_type_long;
		return p;
	}
	if (n->b->type->kind == TY_PTR) {
		if (*n->op == '-')
			dp_cc_fail(c, t, E_DPCC_TYPE, "a pointer cannot be subtracted from a number");
		p = n->a;
		n->a = n->b;
		n->b = p;
	}
	n->b = scaled(c, n->b, n->a->type->of, t);
	n->type = n->a->type;
	n->in_target = n->a->in_target;
	return n;
}

/* Where only zero or not matters. */
static struct node *truth(struct dpcc *c, struct node *n)
{
	return dp_cc_is_real(n->type) ? dp_cc_cast_to(c, n, &dp_cc_type_bool) : n;
}

static struct node *binary(struct dpcc *c, const struct tok *t, const char *op, struct node *a, struct node *b)
{
	struct node *n = dp_cc_node_new(c, N_BINARY, t);
	bool logic = !strcmp(op, "&&") || !strcmp(op, "||");
	struct type *type;

	if (b->kind == N_STR && (!strcmp(op, "==") || !strcmp(op, "!=") || !strcmp(op, "~")))
		return dp_cc_compare_text(c, t, op, a, b);
	if (!strcmp(op, "~"))
		dp_cc_fail(c, b->tok, E_DPCC_TYPE, "a text in quotes is needed after ~");
	a = dp_cc_to_value(c, a);
	b = dp_cc_to_value(c, b);
	if (!logic && (dp_cc_is_real(a->type) || dp_cc_is_real(b->type)))
		return dp_cc_real_binary(c, t, op, a, b);
	a = truth(c, a);
	b = truth(c, b);
	need_scalar(c, a);
	need_scalar(c, b);
	n->op = op;
	n->a = a;
	n->b = b;
	if (logic) {
		n->kind = *op == '&' ? N_ANDAND : N_OROR;
		n->type = &dp_cc_type_int;
		return n;
	}
	if ((a->type->kind == TY_PTR || b->type->kind == TY_PTR) && (*op == '+' || *op == '-'))
		return pointer_sum(c, t, n);
	if (!strcmp(op, "<<") || !strcmp(op, ">>")) {
		need_integer(c, a);
		need_integer(c, b);
		n->type = dp_cc_type_promote(a->type);
		n->a = dp_cc_cast_to(c, a, n->type);
		n->b = dp_cc_cast_to(c, b, dp_cc_type_promote(b->type));
		return n;
	}
	if (is_compare(op) && (a->type->kind == TY_PTR || b->type->kind == TY_PTR)) {
		type = &dp_cc_type_ulong;
	} else {
		need_integer(c, a);
		need_integer(c, b);
		type = dp_cc_type_common(a->type, b->type);
	}
	n->a = dp_cc_cast_to(c, a, type);
	n->b = dp_cc_cast_to(c, b, type);
	n->type = is_compare(op) ? &dp_cc_type_int : type;
	return n;
}

static bool asks_defined(const struct node *n)
{
	return n && (n->is_defined || asks_defined(n->a) || asks_defined(n->b));
}

/* 0 && B, 1 || B: B is not looked at, so that it may name what @defined has denied. */
static bool dead_operand(struct dpcc *c, const struct tok *t, const char *op, struct node **a)
{
	static const char *const behind_and[] = {"||", "?", ":", ",", NULL}, *const behind_or[] = {"?", ":", ",", NULL};
	bool is_and = !strcmp(op, "&&");
	struct node *found;
	s64 v;

	if ((!is_and && strcmp(op, "||")) || !dp_cc_type_is_scalar((*a)->type) || !dp_cc_fold(*a, &v) || !v != is_and)
		return false;
	dp_cc_skip_expression(c, is_and ? behind_and : behind_or);
	found = dp_cc_node_number(c, t, !is_and, &dp_cc_type_int);
	found->is_defined = asks_defined(*a);
	*a = found;
	return true;
}

static struct node *parse_binary(struct dpcc *c, int level)
{
	struct node *a;

	if (level > 10)
		return unary(c);
	a = parse_binary(c, level + 1);
	for (;;) {
		const struct tok *t = dp_cc_peek(c);
		const char *op = NULL;

		for (u32 i = 0; i < DP_ARRAY_SIZE(levels); i++)
			if (levels[i].level == level && dp_cc_tok_is(t, levels[i].op))
				op = levels[i].op;
		if (!op)
			return a;
		c->at++;
		if (!dead_operand(c, t, op, &a))
			a = binary(c, t, op, a, parse_binary(c, level + 1));
	}
}

static struct node *conditional(struct dpcc *c)
{
	static const char *const colon[] = {":", NULL}, *const comma[] = {",", ":", NULL};
	struct node *a = parse_binary(c, 1), *n;
	const struct tok *t = dp_cc_peek(c);
	s64 v;

	if (!dp_cc_accept(c, "?"))
		return a;
	n = dp_cc_node_new(c, N_COND, t);
	n->a = truth(c, dp_cc_to_value(c, a));
	need_scalar(c, n->a);
	if (asks_defined(n->a) && dp_cc_fold(n->a, &v)) { /* the other one may name what is not there */
		if (!v)
			dp_cc_skip_expression(c, colon);
		else
			n->b = dp_cc_to_value(c, dp_cc_parse_expr(c));
		dp_cc_expect(c, ":");
		if (v)
			dp_cc_skip_expression(c, comma);
		else
			n->b = dp_cc_to_value(c, conditional(c));
		return n->b;
	}
	n->b = dp_cc_to_value(c, dp_cc_parse_expr(c));
	dp_cc_expect(c, ":");
	n->c = dp_cc_to_value(c, conditional(c));
	if (n->b->type->kind == TY_VOID && n->c->type->kind == TY_VOID) {
		n->type = &dp_cc_type_void;
		return n;
	}
	if (dp_cc_is_real(n->b->type) || dp_cc_is_real(n->c->type)) {
		n->b = dp_cc_cast_to(c, n->b, &dp_cc_type_double);
		n->c = dp_cc_cast_to(c, n->c, &dp_cc_type_double);
		n->type = &dp_cc_type_double;
		return n;
	}
	need_scalar(c, n->b);
	need_scalar(c, n->c);
	n->type = n->b->type->kind == TY_PTR   ? n->b->type
		  : n->c->type->kind == TY_PTR ? n->c->type
					       : dp_cc_type_common(n->b->type, n->c->type);
	n->b = dp_cc_cast_to(c, n->b, n->type);
	n->c = dp_cc_cast_to(c, n->c, n->type);
	n->in_target = n->b->in_target && n->c->in_target;
	return n;
}

static struct node *address_of_whole(struct dpcc *c, struct node *of, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_ADDR, t);

	need_place(c, of);
	n->a = of;
	n->type = dp_cc_type_ptr(c, &dp_cc_type_void);
	n->in_target = of->in_target;
	for (; of->kind == N_MEMBER; of = of->a)
		;
	if (of->kind == N_PROBE && !dp_cc_in_memory(of->probe))
		dp_cc_fail(c, t, E_DPCC_TYPE, "$%s is not in memory here: assign its members", of->text);
	return n;
}

/* memcpy(&to, &from, sizeof(to)) */
static struct node *copy_struct(struct dpcc *c, const struct tok *t, struct node *to, struct node *from)
{
	struct node *n = dp_cc_node_new(c, N_CALL, t),
		    *size = dp_cc_node_number(c, t, (s64)to->type->size, &dp_cc_type_ulong);
	struct node *args[3] = {NULL, NULL, size}, **last = &n->a;

	if (!dp_cc_type_same(to->type, from->type))
		dp_cc_fail(c, t, E_DPCC_TYPE, "%s cannot be converted to %s", dp_cc_type_name(c, from->type),
			   dp_cc_type_name(c, to->type));
	args[0] = address_of_whole(c, to, t);
	args[1] = address_of_whole(c, from, t);
	n->func = dp_cc_find_func(c, "memcpy");
	n->func->used = true;
	n->type = &dp_cc_type_void;
	for (u32 i = 0; i < 3; i++) {
		*last = dp_cc_node_new(c, N_COMMA, t);
		(*last)->a = args[i];
		last = &(*last)->next;
	}
	return n;
}

struct node *dp_cc_parse_assign(struct dpcc *c)
{
	static const char *const ops[] = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
	struct node *a, *n;
	const struct tok *t;

	if (++c->depth > 200)
		dp_cc_fail(c, dp_cc_peek(c), E_DPCC_LIMIT, "the expression is nested too deeply");
	a = conditional(c);
	t = dp_cc_peek(c);
	c->depth--;
	for (u32 i = 0; i < DP_ARRAY_SIZE(ops); i++) {
		if (!dp_cc_tok_is(t, ops[i]))
			continue;
		c->at++;
		need_place(c, a);
		n = dp_cc_node_new(c, N_ASSIGN, t);
		n->op = dp_cc_text(c, ops[i], strlen(ops[i]) - 1);
		n->a = a;
		n->type = a->type;
		n->b = dp_cc_to_value(c, dp_cc_parse_assign(c));
		if (!*n->op) {
			if (a->type->kind == TY_STRUCT)
				return copy_struct(c, t, a, n->b);
			if (!dp_cc_is_real(a->type))
				need_scalar(c, a);
			n->b = dp_cc_cast_to(c, n->b, a->type);
			return n;
		}
		need_scalar(c, a);
		need_scalar(c, n->b);
		if (a->type->kind == TY_PTR) {
			if (*n->op != '+' && *n->op != '-')
				dp_cc_fail(c, t, E_DPCC_TYPE, "only += and -= can be used with a pointer");
			n->b = scaled(c, n->b, a->type->of, t);
		} else {
			need_integer(c, n->b);
		}
		return n;
	}
	return a;
}

struct node *dp_cc_parse_expr(struct dpcc *c)
{
	struct node *a = dp_cc_parse_assign(c), *n;
	const struct tok *t;

	while (dp_cc_tok_is((t = dp_cc_peek(c)), ",")) {
		c->at++;
		n = dp_cc_node_new(c, N_COMMA, t);
		n->a = a;
		n->b = dp_cc_to_value(c, dp_cc_parse_assign(c));
		n->type = n->b->type;
		n->in_target = n->b->in_target;
		a = n;
	}
	return a;
}
