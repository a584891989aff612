/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Variables, statements and functions: the grammar of C, without function pointers and old style
 * definitions. */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

struct tok *peek(struct dpcc *c)
{
	return &c->toks[c->at];
}

struct tok *next_tok(struct dpcc *c)
{
	struct tok *t = peek(c);

	if (t->kind != TOK_END)
		c->at++;
	return t;
}

bool accept(struct dpcc *c, const char *text)
{
	if (!tok_is(peek(c), text))
		return false;
	c->at++;
	return true;
}

struct tok *expect(struct dpcc *c, const char *text)
{
	if (!tok_is(peek(c), text))
		dpcc_fail(c, peek(c), E_DPCC_SYNTAX, "'%s' is missing here", text);
	return next_tok(c);
}

const char *parse_word(struct dpcc *c)
{
	struct tok *t = peek(c);

	if (t->kind != TOK_WORD)
		dpcc_fail(c, t, E_DPCC_SYNTAX, "a name is missing here");
	c->at++;
	return dpcc_text(c, t->at, t->len);
}

struct node *node_new(struct dpcc *c, enum node_kind kind, const struct tok *t)
{
	struct node *n = dpcc_alloc(c, sizeof(*n));

	n->kind = kind;
	n->tok = t;
	return n;
}

/* ---- scopes ---- */

static void open_scope(struct dpcc *c)
{
	struct scope *s = dpcc_alloc(c, sizeof(*s));

	s->up = c->scope;
	c->scope = s;
	if (++c->depth > 200)
		dpcc_fail(c, peek(c), E_DPCC_LIMIT, "blocks are nested too deeply");
}

static void close_scope(struct dpcc *c)
{
	c->scope = c->scope->up;
	c->depth--;
}

struct var *find_var(struct dpcc *c, const struct tok *t)
{
	for (struct scope *s = c->scope; s; s = s->up)
		for (struct var *v = s->vars; v; v = v->next)
			if (tok_is(t, v->name))
				return v;
	return NULL;
}

bool find_constant(struct dpcc *c, const struct tok *t, s64 *v)
{
	for (struct scope *s = c->scope; s; s = s->up)
		for (struct constant *k = s->constants; k; k = k->next)
			if (tok_is(t, k->name)) {
				*v = k->value;
				return true;
			}
	return false;
}

struct function *find_func(struct dpcc *c, const char *name)
{
	for (struct function *f = c->funcs; f; f = f->next)
		if (!strcmp(f->name, name))
			return f;
	return NULL;
}

/* ---- variables ---- */

static struct var *declare_var(struct dpcc *c, const struct tok *name, struct type *type)
{
	struct var *v = dpcc_alloc(c, sizeof(*v));

	for (struct var *o = c->scope->vars; o; o = o->next)
		if (tok_is(name, o->name))
			dpcc_fail(c, name, E_DPCC_NAME, "'%s' is declared twice", o->name);
	if (type->kind == TY_VOID || type->kind == TY_FLOAT || type->kind == TY_FUNC ||
	    (!type->complete && !type->lazy))
		dpcc_fail(c, name, E_DPCC_TYPE, "a variable cannot have this type: %s",
			  type_name(c, type));
	if (type->lazy)
		debug_complete(c, type);
	v->name = dpcc_text(c, name->at, name->len);
	v->type = type;
	v->next = c->scope->vars;
	c->scope->vars = v;
	return v;
}

/* The same declaration has the same words in every pass. */
static void place_static(struct dpcc *c, struct var *v, const struct tok *name, bool is_global,
			 u32 index)
{
	bool by_bytes = !type_is_scalar(v->type);
	u32 words = by_bytes ? (u32)((v->type->size + 7) / 8) : 1,
	    *n = is_global ? &c->nglobals : &c->nlocals;
	struct var *s;

	v->is_static = true;
	v->kind = is_global ? VAR_GLOBAL : by_bytes ? VAR_MEMORY : VAR_LOCAL;
	if (is_global && by_bytes)
		dpcc_fail(c, name, E_DPCC_TYPE,
			  "global variables are single words: integers and pointers");
	for (s = c->statics; s; s = s->next)
		if (s->owner == name->at) {
			v->slot = s->slot;
			s->init = NULL;
			return;
		}
	v->slot = (s32)(index ? index - 1 : *n);
	*n = DP_MAX(*n, (u32)v->slot + words);
	if (*n > (is_global ? DP_GLOBALS_MAX : DP_LOCALS_MAX))
		dpcc_fail(c, name, E_DPCC_LIMIT, "%s variables have at most %d words",
			  is_global ? "global" : "static",
			  is_global ? DP_GLOBALS_MAX : DP_LOCALS_MAX);
	s = dpcc_alloc(c, sizeof(*s));
	*s = *v;
	s->owner = name->at; /* which declaration it is */
	s->next = c->statics;
	c->statics = s;
}

static void init_static(struct dpcc *c, struct var *v, const struct tok *name)
{
	struct node *n = dpcc_alloc(c, sizeof(*n));

	n->kind = N_NUM;
	n->tok = peek(c);
	if (!type_is_scalar(v->type) || v->kind == VAR_GLOBAL)
		dpcc_fail(c, peek(c), E_DPCC_TYPE,
			  "only static integers and pointers can be initialised");
	n->value = (u64)parse_constant(c);
	for (struct var *s = c->statics; s; s = s->next)
		if (s->owner == name->at)
			s->init = n->value ? n : NULL;
}

static void add_local(struct dpcc *c, struct var *v)
{
	struct var **last = &c->func->locals;

	while (*last)
		last = &(*last)->chain;
	*last = v;
}

/* Declarations inside of a function; initialisers become statements. */
static struct node *local_declaration(struct dpcc *c)
{
	const char *storage = NULL;
	const struct tok *start = peek(c);
	u32 index = 0;
	struct type *base = parse_specifiers(c, &storage, &index);
	struct node *block = node_new(c, N_BLOCK, start), **last = &block->a;

	if (accept(c, ";"))
		return block;
	do {
		const struct tok *name = NULL;
		struct type *type = parse_declarator(c, base, &name);
		struct var *v;

		if (!name)
			dpcc_fail(c, peek(c), E_DPCC_SYNTAX, "a name is missing here");
		if (storage && !strcmp(storage, "typedef")) {
			struct alias *a = dpcc_alloc(c, sizeof(*a));

			*a = (struct alias){c->scope->aliases, dpcc_text(c, name->at, name->len),
					    type};
			c->scope->aliases = a;
			continue;
		}
		v = declare_var(c, name, type);
		if (storage) {
			place_static(c, v, name, !strcmp(storage, "global"), index);
			if (accept(c, "="))
				init_static(c, v, name);
			continue;
		}
		v->in_memory = !type_is_scalar(type);
		add_local(c, v);
		if (accept(c, "=")) {
			*last = parse_initialiser(c, v, name);
			last = &(*last)->next;
		}
		if (v->type->kind == TY_ARRAY && !v->type->n)
			dpcc_fail(c, name, E_DPCC_TYPE, "the array has no size");
	} while (accept(c, ","));
	expect(c, ";");
	return block;
}

/* ---- statements ---- */

static struct node *statement(struct dpcc *c);

static struct node *condition(struct dpcc *c)
{
	struct node *n;

	expect(c, "(");
	n = to_value(c, parse_expr(c));
	if (!type_is_scalar(n->type))
		dpcc_fail(c, n->tok, E_DPCC_TYPE,
			  "a condition must be a number or a pointer, not %s",
			  type_name(c, n->type));
	need_word(c, n);
	expect(c, ")");
	return n;
}

static struct node *parse_block(struct dpcc *c)
{
	struct node *n = node_new(c, N_BLOCK, peek(c)), **last = &n->a;

	expect(c, "{");
	open_scope(c);
	while (!accept(c, "}")) {
		if (peek(c)->kind == TOK_END)
			dpcc_fail(c, peek(c), E_DPCC_SYNTAX, "a } is missing at the end");
		*last = statement(c);
		last = &(*last)->next;
	}
	close_scope(c);
	return n;
}

static struct node *parse_for(struct dpcc *c, const struct tok *t)
{
	struct node *n = node_new(c, N_FOR, t);

	expect(c, "(");
	open_scope(c);
	if (begins_type(c)) {
		n->a = local_declaration(c);
	} else if (!accept(c, ";")) {
		n->a = node_new(c, N_EXPR, peek(c));
		n->a->a = parse_expr(c);
		expect(c, ";");
	}
	if (!tok_is(peek(c), ";"))
		n->b = to_value(c, parse_expr(c));
	expect(c, ";");
	if (!tok_is(peek(c), ")"))
		n->c = parse_expr(c);
	expect(c, ")");
	c->loops++;
	n->d = statement(c);
	c->loops--;
	close_scope(c);
	return n;
}

/* catch (code, parameter): both may be left out. */
static struct node *parse_try(struct dpcc *c, const struct tok *t)
{
	struct node *n = node_new(c, N_TRY, t);

	n->a = parse_block(c);
	expect(c, "catch");
	open_scope(c);
	for (u32 i = 0; i < 3; i++) {
		n->caught[i] = dpcc_alloc(c, sizeof(struct var));
		n->caught[i]->name = "";
		n->caught[i]->type = &ty_ulong;
		add_local(c, n->caught[i]);
	}
	if (accept(c, "(")) {
		for (u32 i = 0; i < 2 && !tok_is(peek(c), ")"); i++) {
			struct var *v = n->caught[i];

			if (i)
				expect(c, ",");
			if (begins_type(c))
				parse_specifiers(c, NULL, NULL);
			v->name = parse_word(c);
			v->next = c->scope->vars;
			c->scope->vars = v;
		}
		expect(c, ")");
	}
	n->b = parse_block(c);
	close_scope(c);
	return n;
}

static struct node *parse_case(struct dpcc *c, const struct tok *t, bool is_default)
{
	struct node *n = node_new(c, N_CASE, t);

	if (!c->switches)
		dpcc_fail(c, t, E_DPCC_SYNTAX, "case and default belong into a switch");
	n->postfix = is_default;
	if (!is_default)
		n->value = (u64)parse_constant(c);
	expect(c, ":");
	n->a = tok_is(peek(c), "}") ? node_new(c, N_EMPTY, peek(c)) : statement(c);
	return n;
}

static struct node *parse_return(struct dpcc *c, const struct tok *t)
{
	struct node *n = node_new(c, N_RETURN, t);

	if (!tok_is(peek(c), ";")) {
		n->a = to_value(c, parse_expr(c));
		if (c->func->ret->kind == TY_VOID)
			dpcc_fail(c, n->a->tok, E_DPCC_TYPE, "this function returns nothing");
		n->a = cast_to(c, n->a, c->func->ret);
	} else if (c->func->ret->kind != TY_VOID) {
		dpcc_fail(c, t, E_DPCC_TYPE, "this function must return a value");
	}
	expect(c, ";");
	return n;
}

static struct node *parse_loop(struct dpcc *c, const struct tok *t)
{
	bool is_do = tok_is(t, "do"), is_switch = tok_is(t, "switch");
	struct node *n = node_new(c, is_do ? N_DO : is_switch ? N_SWITCH : N_WHILE, t);

	if (!is_do)
		n->a = condition(c);
	if (is_switch) { /* a word of the frame for what is compared */
		n->var = dpcc_alloc(c, sizeof(*n->var));
		n->var->name = "";
		n->var->type = type_promote(n->a->type);
		add_local(c, n->var);
	}
	if (is_switch)
		c->switches++;
	else
		c->loops++;
	n->b = statement(c);
	if (is_switch)
		c->switches--;
	else
		c->loops--;
	if (is_do) {
		expect(c, "while");
		n->a = condition(c);
		expect(c, ";");
	}
	return n;
}

/* Over a ( ) or { } that begins here. */
static void skip_brackets(struct dpcc *c)
{
	const struct tok *start = peek(c);
	u32 depth = 0;

	do {
		const struct tok *t = peek(c);

		if (t->kind == TOK_END)
			dpcc_fail(c, start, E_DPCC_SYNTAX, "what closes this is missing");
		depth += tok_is(t, "(") || tok_is(t, "{") || tok_is(t, "[");
		depth -= tok_is(t, ")") || tok_is(t, "}") || tok_is(t, "]");
		c->at++;
	} while (depth);
}

/* Over an expression up to one of these, outside of brackets. */
void skip_expression(struct dpcc *c, const char *const *ends)
{
	u32 choices = 0;

	for (;;) {
		const struct tok *t = peek(c);

		for (u32 i = 0; ends[i]; i++)
			if (tok_is(t, ends[i]) && (*ends[i] != ':' || !choices))
				return;
		if (t->kind == TOK_END || tok_is(t, ")") || tok_is(t, "}") || tok_is(t, "]") ||
		    tok_is(t, ";"))
			return;
		choices += tok_is(t, "?");
		choices -= tok_is(t, ":") && choices;
		if (tok_is(t, "(") || tok_is(t, "[") || tok_is(t, "{"))
			skip_brackets(c);
		else
			c->at++;
	}
}

/* Over a statement that is never reached: what it names need not exist, as behind @defined. */
static void skip_statement(struct dpcc *c)
{
	static const char *const end[] = {";", NULL};

	if (tok_is(peek(c), "{")) {
		skip_brackets(c);
	} else if (accept(c, "do")) {
		skip_statement(c);
		skip_expression(c, end);
		expect(c, ";");
	} else if (accept(c, "if")) {
		skip_brackets(c);
		skip_statement(c);
		if (accept(c, "else"))
			skip_statement(c);
	} else if (accept(c, "while") || accept(c, "for") || accept(c, "switch")) {
		skip_brackets(c);
		skip_statement(c);
	} else if (accept(c, "try")) {
		skip_brackets(c);
		expect(c, "catch");
		if (tok_is(peek(c), "("))
			skip_brackets(c);
		skip_brackets(c);
	} else {
		skip_expression(c, end);
		expect(c, ";");
	}
}

static struct node *parse_if(struct dpcc *c, const struct tok *t)
{
	struct node *n = node_new(c, N_IF, t);
	bool known;
	s64 v = 0;

	n->a = condition(c);
	known = fold(n->a, &v);
	if (!known) {
		n->b = statement(c);
		if (accept(c, "else"))
			n->c = statement(c);
		return n;
	}
	n = node_new(c, N_EMPTY, t);
	if (v)
		n = statement(c);
	else
		skip_statement(c);
	if (accept(c, "else")) {
		if (v)
			skip_statement(c);
		else
			n = statement(c);
	}
	return n;
}

static struct node *keyword(struct dpcc *c, const struct tok *t)
{
	struct node *n;

	if (accept(c, "if"))
		return parse_if(c, t);
	if (accept(c, "while") || accept(c, "do") || accept(c, "switch"))
		return parse_loop(c, t);
	if (accept(c, "for"))
		return parse_for(c, t);
	if (accept(c, "case"))
		return parse_case(c, t, false);
	if (accept(c, "default"))
		return parse_case(c, t, true);
	if (accept(c, "return"))
		return parse_return(c, t);
	if (accept(c, "try"))
		return parse_try(c, t);
	if (accept(c, "throw")) {
		n = node_new(c, N_THROW, t);
		n->a = cast_to(c, to_value(c, parse_assign(c)), &ty_ulong);
		n->b = accept(c, ",") ? cast_to(c, to_value(c, parse_assign(c)), &ty_ulong) : NULL;
		expect(c, ";");
		return n;
	}
	if (accept(c, "break") || accept(c, "continue")) {
		bool is_break = tok_is(t, "break");

		if (!c->loops && !(is_break && c->switches))
			dpcc_fail(c, t, E_DPCC_SYNTAX, "there is no loop around this");
		expect(c, ";");
		return node_new(c, is_break ? N_BREAK : N_CONTINUE, t);
	}
	if (accept(c, "goto")) {
		n = node_new(c, N_GOTO, t);
		n->text = parse_word(c);
		expect(c, ";");
		return n;
	}
	return NULL;
}

static struct node *statement(struct dpcc *c)
{
	const struct tok *t = peek(c);
	struct node *n;

	if (tok_is(t, "{"))
		return parse_block(c);
	if (accept(c, ";"))
		return node_new(c, N_EMPTY, t);
	if (++c->depth > 200)
		dpcc_fail(c, t, E_DPCC_LIMIT, "statements are nested too deeply");
	n = keyword(c, t);
	if (!n && t->kind == TOK_WORD && tok_is(&t[1], ":")) {
		n = node_new(c, N_LABEL, t);
		n->text = parse_word(c);
		c->at++;
		n->a = tok_is(peek(c), "}") ? node_new(c, N_EMPTY, t) : statement(c);
	} else if (!n && begins_type(c)) {
		n = local_declaration(c);
	} else if (!n) {
		n = node_new(c, N_EXPR, t);
		n->a = parse_expr(c);
		expect(c, ";");
	}
	c->depth--;
	return n;
}

/* ---- functions and the file ---- */

static void parse_params(struct dpcc *c, struct function *f)
{
	struct var **last = &f->params;

	if (accept(c, ")"))
		return;
	if (tok_is(peek(c), "void") && tok_is(&peek(c)[1], ")")) {
		c->at += 2;
		return;
	}
	do {
		const struct tok *name = NULL, *t = peek(c);
		struct type *type = parse_declarator(c, parse_specifiers(c, NULL, NULL), &name);
		struct var *v;

		if (type->kind == TY_ARRAY)
			type = type_ptr(c, type->of);
		if (!type_is_scalar(type))
			dpcc_fail(c, t, E_DPCC_TYPE, "parameters are integers and pointers");
		v = dpcc_alloc(c, sizeof(*v));
		v->name = name ? dpcc_text(c, name->at, name->len) : "";
		v->type = type;
		*last = v;
		last = &v->next;
		f->nparams++;
	} while (accept(c, ","));
	expect(c, ")");
}

void dpcc_parse_body(struct dpcc *c, struct function *f)
{
	struct scope *file = c->scope;

	c->at = f->body_at;
	c->func = f;
	c->loops = c->switches = 0;
	open_scope(c);
	for (struct var *p = f->params; p; p = p->next) {
		struct var *v = dpcc_alloc(c, sizeof(*v));

		*v = (struct var){.name = p->name, .type = p->type, .next = c->scope->vars};
		c->scope->vars = v;
		add_local(c, v);
	}
	f->body = parse_block(c);
	c->scope = file;
	c->func = NULL;
}

static void parse_function(struct dpcc *c, const struct tok *name, struct type *ret)
{
	const char *n = dpcc_text(c, name->at, name->len);
	struct function *f = dpcc_alloc(c, sizeof(*f)), *old = find_func(c, n);

	if (ret->kind != TY_VOID && !type_is_scalar(ret))
		dpcc_fail(c, name, E_DPCC_TYPE, "functions return integers and pointers");
	f->name = n;
	f->ret = ret;
	parse_params(c, f);
	if (old && old->nparams != f->nparams)
		dpcc_fail(c, name, E_DPCC_TYPE, "'%s' was declared with %u parameters", n,
			  old->nparams);
	if (old && old->is_prelude) {
		old->name = ""; /* the file has its own */
		old = NULL;
	}
	if (old) {
		old->params = f->params;
		f = old;
	} else {
		f->next = c->funcs;
		c->funcs = f;
	}
	f->is_prelude = c->at < c->prelude_end;
	if (accept(c, ";"))
		return;
	if (f->defined)
		dpcc_fail(c, name, E_DPCC_NAME, "'%s' is defined twice", n);
	if (!tok_is(peek(c), "{"))
		dpcc_fail(c, peek(c), E_DPCC_SYNTAX, "the function's body is missing here");
	f->defined = true;
	f->body_at = c->at;
	skip_brackets(c);
}

static void file_variable(struct dpcc *c, const struct tok *name, struct type *type,
			  const char *storage, u32 index)
{
	struct var *v = declare_var(c, name, type);

	place_static(c, v, name, storage && !strcmp(storage, "global"), index);
	if (accept(c, "="))
		init_static(c, v, name);
}

void dpcc_parse(struct dpcc *c)
{
	open_scope(c);
	while (peek(c)->kind != TOK_END) {
		const char *storage = NULL;
		u32 index = 0;
		struct type *base;

		if (accept(c, ";"))
			continue;
		base = parse_specifiers(c, &storage, &index);
		if (accept(c, ";"))
			continue;
		do {
			const struct tok *name = NULL;
			struct type *type = parse_declarator(c, base, &name);

			if (!name)
				dpcc_fail(c, peek(c), E_DPCC_SYNTAX, "a name is missing here");
			if (storage && !strcmp(storage, "typedef")) {
				struct alias *a = dpcc_alloc(c, sizeof(*a));

				*a = (struct alias){c->scope->aliases,
						    dpcc_text(c, name->at, name->len), type};
				c->scope->aliases = a;
			} else if (accept(c, "(")) {
				parse_function(c, name, type);
				goto next;
			} else {
				file_variable(c, name, type, storage, index);
			}
		} while (accept(c, ","));
		expect(c, ";");
	next:;
	}
}
