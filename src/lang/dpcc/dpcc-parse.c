/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Variables, statements and functions: the grammar of C, without function pointers and old style
 * definitions. */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

/* ---- variables ---- */

static struct var *declare_var(struct dpcc *c, const struct tok *name, struct type *type)
{
	struct var *v = dp_cc_alloc(c, sizeof(*v));

	for (struct var *o = c->scope->vars; o; o = o->next)
		if (dp_cc_tok_is(name, o->name))
			dp_cc_fail(c, name, E_DPCC_NAME, "'%s' is declared twice", o->name);
	if (type->kind == TY_VOID || type->kind == TY_FLOAT || type->kind == TY_FUNC ||
	    (!type->complete && !type->lazy))
		dp_cc_fail(c, name, E_DPCC_TYPE, "a variable cannot have this type: %s", dp_cc_type_name(c, type));
	if (type->lazy)
		dp_cc_debug_complete(c, type);
	v->name = dp_cc_text(c, name->at, name->len);
	v->type = type;
	v->next = c->scope->vars;
	c->scope->vars = v;
	return v;
}

/* The same declaration has the same words in every pass. */
static void place_static(struct dpcc *c, struct var *v, const struct tok *name, bool is_global, u32 index)
{
	bool by_bytes = !dp_cc_type_is_scalar(v->type);
	u32 words = by_bytes ? (u32)((v->type->size + 7) / 8) : 1, *n = is_global ? &c->nglobals : &c->nlocals;
	struct var *s;

	v->is_static = true;
	v->kind = is_global ? VAR_GLOBAL : by_bytes ? VAR_MEMORY : VAR_LOCAL;
	if (is_global && by_bytes)
		dp_cc_fail(c, name, E_DPCC_TYPE, "a global variable must be an integer or a pointer");
	for (s = c->statics; s; s = s->next)
		if (s->owner == name->at) {
			v->first_word = s->first_word;
			s->init = NULL;
			return;
		}
	v->first_word = (s32)(index ? index - 1 : *n);
	*n = DP_MAX(*n, (u32)v->first_word + words);
	if (*n > (is_global ? DP_GLOBALS_MAX : DP_LOCALS_MAX))
		dp_cc_fail(c, name, E_DPCC_LIMIT, "%s variables can have at most %d words",
			   is_global ? "global" : "static", is_global ? DP_GLOBALS_MAX : DP_LOCALS_MAX);
	s = dp_cc_alloc(c, sizeof(*s));
	*s = *v;
	s->owner = name->at; /* which declaration it is */
	s->next = c->statics;
	c->statics = s;
}

static const struct dpcc_thread *set_in_process(const struct dpcc *c, const char *name)
{
	for (u32 i = 0; i < c->opt->nthreads; i++)
		if (!strcmp(c->opt->threads[i].name, name))
			return &c->opt->threads[i];
	return NULL;
}

/* The same for one that each thread has. */
static void place_thread(struct dpcc *c, struct var *v, const struct tok *name)
{
	if (c->func)
		dp_cc_fail(c, name, E_DPCC_TYPE, "a thread variable must be declared outside of functions");
	if (!dp_cc_type_is_scalar(v->type))
		dp_cc_fail(c, name, E_DPCC_TYPE, "a thread variable must be an integer or a pointer");
	if (dp_cc_tok_is(dp_cc_peek(c), "="))
		dp_cc_fail(c, dp_cc_peek(c), E_DPCC_TYPE, "a thread variable cannot be initialised: it starts at 0");
	v->is_static = true;
	v->there = set_in_process(c, v->name);
	v->kind = v->there ? VAR_PROCESS : VAR_THREAD;
	v->first_word = (s32)dp_cc_thread_table(c, name, v->name, v->there)->index;
}

static void init_static(struct dpcc *c, struct var *v, const struct tok *name)
{
	struct node *n = dp_cc_alloc(c, sizeof(*n));

	n->kind = N_NUM;
	n->tok = dp_cc_peek(c);
	if (!dp_cc_type_is_scalar(v->type) || v->kind == VAR_GLOBAL)
		dp_cc_fail(c, dp_cc_peek(c), E_DPCC_TYPE, "only static integers and pointers can be initialised");
	n->value = (u64)dp_cc_parse_constant(c);
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
	const struct tok *start = dp_cc_peek(c);
	u32 index = 0;
	struct type *base = dp_cc_parse_specifiers(c, &storage, &index);
	struct node *block = dp_cc_node_new(c, N_BLOCK, start), **last = &block->a;

	if (dp_cc_accept(c, ";"))
		return block;
	do {
		const struct tok *name = NULL;
		struct type *type = dp_cc_parse_declarator(c, base, &name);
		struct var *v;

		if (!name)
			dp_cc_fail(c, dp_cc_peek(c), E_DPCC_SYNTAX, "a name is missing here");
		if (storage && !strcmp(storage, "typedef")) {
			struct alias *a = dp_cc_alloc(c, sizeof(*a));

			*a = (struct alias){c->scope->aliases, dp_cc_text(c, name->at, name->len), type};
			c->scope->aliases = a;
			continue;
		}
		v = declare_var(c, name, type);
		if (storage && !strcmp(storage, "thread"))
			place_thread(c, v, name);
		if (storage) {
			place_static(c, v, name, !strcmp(storage, "global"), index);
			if (dp_cc_accept(c, "="))
				init_static(c, v, name);
			continue;
		}
		v->in_memory = !dp_cc_type_is_scalar(type);
		add_local(c, v);
		if (dp_cc_accept(c, "=")) {
			*last = dp_cc_parse_initialiser(c, v, name);
			last = &(*last)->next;
		}
		if (v->type->kind == TY_ARRAY && !v->type->n)
			dp_cc_fail(c, name, E_DPCC_TYPE, "the array has no size");
	} while (dp_cc_accept(c, ","));
	dp_cc_expect(c, ";");
	return block;
}

/* ---- statements ---- */

static struct node *statement(struct dpcc *c);

static struct node *condition(struct dpcc *c)
{
	struct node *n;

	dp_cc_expect(c, "(");
	n = dp_cc_to_value(c, dp_cc_parse_expr(c));
	if (dp_cc_is_real(n->type))
		n = dp_cc_cast_to(c, n, &dp_cc_type_bool);
	if (!dp_cc_type_is_scalar(n->type))
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "a condition must be a number or a pointer, not %s",
			   dp_cc_type_name(c, n->type));
	dp_cc_need_word(c, n);
	dp_cc_expect(c, ")");
	return n;
}

static struct node *parse_block(struct dpcc *c)
{
	struct node *n = dp_cc_node_new(c, N_BLOCK, dp_cc_peek(c)), **last = &n->a;

	dp_cc_expect(c, "{");
	dp_cc_open_scope(c);
	while (!dp_cc_accept(c, "}")) {
		if (dp_cc_peek(c)->kind == TOK_END)
			dp_cc_fail(c, dp_cc_peek(c), E_DPCC_SYNTAX, "a } is missing at the end");
		*last = statement(c);
		last = &(*last)->next;
	}
	dp_cc_close_scope(c);
	return n;
}

static struct node *parse_for(struct dpcc *c, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_FOR, t);

	dp_cc_expect(c, "(");
	dp_cc_open_scope(c);
	if (dp_cc_begins_type(c)) {
		n->a = local_declaration(c);
	} else if (!dp_cc_accept(c, ";")) {
		n->a = dp_cc_node_new(c, N_EXPR, dp_cc_peek(c));
		n->a->a = dp_cc_parse_expr(c);
		dp_cc_expect(c, ";");
	}
	if (!dp_cc_tok_is(dp_cc_peek(c), ";"))
		n->b = dp_cc_to_value(c, dp_cc_parse_expr(c));
	dp_cc_expect(c, ";");
	if (!dp_cc_tok_is(dp_cc_peek(c), ")"))
		n->c = dp_cc_parse_expr(c);
	dp_cc_expect(c, ")");
	c->loops++;
	n->d = statement(c);
	c->loops--;
	dp_cc_close_scope(c);
	return n;
}

/* catch (code, parameter): both may be left out. */
static struct node *parse_try(struct dpcc *c, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_TRY, t);

	n->a = parse_block(c);
	dp_cc_expect(c, "catch");
	dp_cc_open_scope(c);
	for (u32 i = 0; i < 3; i++) {
		n->caught[i] = dp_cc_alloc(c, sizeof(struct var));
		n->caught[i]->name = "";
		n->caught[i]->type = &dp_cc_type_ulong;
		add_local(c, n->caught[i]);
	}
	if (dp_cc_accept(c, "(")) {
		for (u32 i = 0; i < 2 && !dp_cc_tok_is(dp_cc_peek(c), ")"); i++) {
			struct var *v = n->caught[i];

			if (i)
				dp_cc_expect(c, ",");
			if (dp_cc_begins_type(c))
				dp_cc_parse_specifiers(c, NULL, NULL);
			v->name = dp_cc_parse_word(c);
			v->next = c->scope->vars;
			c->scope->vars = v;
		}
		dp_cc_expect(c, ")");
	}
	n->b = parse_block(c);
	dp_cc_close_scope(c);
	return n;
}

static struct node *parse_case(struct dpcc *c, const struct tok *t, bool is_default)
{
	struct node *n = dp_cc_node_new(c, N_CASE, t);

	if (!c->switches)
		dp_cc_fail(c, t, E_DPCC_SYNTAX, "case and default must be inside a switch");
	n->postfix = is_default;
	if (!is_default)
		n->value = (u64)dp_cc_parse_constant(c);
	dp_cc_expect(c, ":");
	n->a = dp_cc_tok_is(dp_cc_peek(c), "}") ? dp_cc_node_new(c, N_EMPTY, dp_cc_peek(c)) : statement(c);
	return n;
}

static struct node *parse_return(struct dpcc *c, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_RETURN, t);

	if (!dp_cc_tok_is(dp_cc_peek(c), ";")) {
		n->a = dp_cc_to_value(c, dp_cc_parse_expr(c));
		if (c->func->ret->kind == TY_VOID)
			dp_cc_fail(c, n->a->tok, E_DPCC_TYPE, "this function returns nothing");
		n->a = dp_cc_cast_to(c, n->a, c->func->ret);
	} else if (c->func->ret->kind != TY_VOID) {
		dp_cc_fail(c, t, E_DPCC_TYPE, "this function must return a value");
	}
	dp_cc_expect(c, ";");
	return n;
}

static struct node *parse_loop(struct dpcc *c, const struct tok *t)
{
	bool is_do = dp_cc_tok_is(t, "do"), is_switch = dp_cc_tok_is(t, "switch");
	struct node *n = dp_cc_node_new(c, is_do ? N_DO : is_switch ? N_SWITCH : N_WHILE, t);

	if (!is_do)
		n->a = condition(c);
	if (is_switch) { /* a word of the frame for what is compared */
		n->var = dp_cc_alloc(c, sizeof(*n->var));
		n->var->name = "";
		n->var->type = dp_cc_type_promote(n->a->type);
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
		dp_cc_expect(c, "while");
		n->a = condition(c);
		dp_cc_expect(c, ";");
	}
	return n;
}

/* Over a statement that is never reached: what it names need not exist, as behind @defined. */
static void skip_statement(struct dpcc *c)
{
	static const char *const end[] = {";", NULL};

	if (dp_cc_tok_is(dp_cc_peek(c), "{")) {
		dp_cc_skip_brackets(c);
	} else if (dp_cc_accept(c, "do")) {
		skip_statement(c);
		dp_cc_skip_expression(c, end);
		dp_cc_expect(c, ";");
	} else if (dp_cc_accept(c, "if")) {
		dp_cc_skip_brackets(c);
		skip_statement(c);
		if (dp_cc_accept(c, "else"))
			skip_statement(c);
	} else if (dp_cc_accept(c, "while") || dp_cc_accept(c, "for") || dp_cc_accept(c, "switch")) {
		dp_cc_skip_brackets(c);
		skip_statement(c);
	} else if (dp_cc_accept(c, "try")) {
		dp_cc_skip_brackets(c);
		dp_cc_expect(c, "catch");
		if (dp_cc_tok_is(dp_cc_peek(c), "("))
			dp_cc_skip_brackets(c);
		dp_cc_skip_brackets(c);
	} else {
		dp_cc_skip_expression(c, end);
		dp_cc_expect(c, ";");
	}
}

static struct node *parse_if(struct dpcc *c, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, N_IF, t);
	bool known;
	s64 v = 0;

	n->a = condition(c);
	known = dp_cc_fold(n->a, &v);
	if (!known) {
		n->b = statement(c);
		if (dp_cc_accept(c, "else"))
			n->c = statement(c);
		return n;
	}
	n = dp_cc_node_new(c, N_EMPTY, t);
	if (v)
		n = statement(c);
	else
		skip_statement(c);
	if (dp_cc_accept(c, "else")) {
		if (v)
			skip_statement(c);
		else
			n = statement(c);
	}
	return n;
}

/* A label or a goto: its word comes next. */
static struct node *named(struct dpcc *c, enum node_kind kind, const struct tok *t)
{
	struct node *n = dp_cc_node_new(c, kind, t);

	n->text = dp_cc_parse_word(c);
	n->named = c->func->named;
	c->func->named = n;
	return n;
}

static const struct node *label_of(const struct node *from, const char *name)
{
	while (from && (from->kind != N_LABEL || strcmp(from->text, name)))
		from = from->named;
	return from;
}

static void check_labels(struct dpcc *c, const struct function *f)
{
	for (const struct node *n = f->named; n; n = n->named)
		if (n->kind == N_GOTO && !label_of(f->named, n->text))
			dp_cc_fail(c, n->tok, E_DPCC_NAME, "there is no label '%.100s' in this function", n->text);
		else if (n->kind == N_LABEL && label_of(n->named, n->text))
			dp_cc_fail(c, n->tok, E_DPCC_NAME, "there is another label '%.100s' in this function", n->text);
}

static struct node *keyword(struct dpcc *c, const struct tok *t)
{
	struct node *n;

	if (dp_cc_accept(c, "if"))
		return parse_if(c, t);
	if (dp_cc_accept(c, "while") || dp_cc_accept(c, "do") || dp_cc_accept(c, "switch"))
		return parse_loop(c, t);
	if (dp_cc_accept(c, "for"))
		return parse_for(c, t);
	if (dp_cc_accept(c, "case"))
		return parse_case(c, t, false);
	if (dp_cc_accept(c, "default"))
		return parse_case(c, t, true);
	if (dp_cc_accept(c, "return"))
		return parse_return(c, t);
	if (dp_cc_accept(c, "try"))
		return parse_try(c, t);
	if (dp_cc_accept(c, "throw")) {
		n = dp_cc_node_new(c, N_THROW, t);
		n->a = dp_cc_cast_to(c, dp_cc_to_value(c, dp_cc_parse_assign(c)), &dp_cc_type_ulong);
		n->b = dp_cc_accept(c, ",")
			   ? dp_cc_cast_to(c, dp_cc_to_value(c, dp_cc_parse_assign(c)), &dp_cc_type_ulong)
			   : NULL;
		dp_cc_expect(c, ";");
		return n;
	}
	if (dp_cc_accept(c, "break") || dp_cc_accept(c, "continue")) {
		bool is_break = dp_cc_tok_is(t, "break");

		if (!c->loops && !(is_break && c->switches))
			dp_cc_fail(c, t, E_DPCC_SYNTAX, "this is not inside a loop");
		dp_cc_expect(c, ";");
		return dp_cc_node_new(c, is_break ? N_BREAK : N_CONTINUE, t);
	}
	if (dp_cc_accept(c, "goto")) {
		n = named(c, N_GOTO, t);
		dp_cc_expect(c, ";");
		return n;
	}
	return NULL;
}

static struct node *statement(struct dpcc *c)
{
	const struct tok *t = dp_cc_peek(c);
	struct node *n;

	if (dp_cc_tok_is(t, "{"))
		return parse_block(c);
	if (dp_cc_accept(c, ";"))
		return dp_cc_node_new(c, N_EMPTY, t);
	if (++c->depth > 200)
		dp_cc_fail(c, t, E_DPCC_LIMIT, "statements are nested too deeply");
	n = keyword(c, t);
	if (!n && t->kind == TOK_WORD && dp_cc_tok_is(&t[1], ":")) {
		n = named(c, N_LABEL, t);
		c->at++;
		n->a = dp_cc_tok_is(dp_cc_peek(c), "}") ? dp_cc_node_new(c, N_EMPTY, t) : statement(c);
	} else if (!n && dp_cc_begins_type(c)) {
		n = local_declaration(c);
	} else if (!n) {
		n = dp_cc_node_new(c, N_EXPR, t);
		n->a = dp_cc_parse_expr(c);
		dp_cc_expect(c, ";");
	}
	c->depth--;
	return n;
}

/* ---- functions and the file ---- */

static void parse_params(struct dpcc *c, struct function *f)
{
	struct var **last = &f->params;

	if (dp_cc_accept(c, ")"))
		return;
	if (dp_cc_tok_is(dp_cc_peek(c), "void") && dp_cc_tok_is(&dp_cc_peek(c)[1], ")")) {
		c->at += 2;
		return;
	}
	do {
		const struct tok *name = NULL, *t = dp_cc_peek(c);
		struct type *type = dp_cc_parse_declarator(c, dp_cc_parse_specifiers(c, NULL, NULL), &name);
		struct var *v;

		if (type->kind == TY_ARRAY)
			type = dp_cc_type_ptr(c, type->of);
		if (!dp_cc_type_is_scalar(type))
			dp_cc_fail(c, t, E_DPCC_TYPE, "a parameter must be an integer or a pointer");
		v = dp_cc_alloc(c, sizeof(*v));
		v->name = name ? dp_cc_text(c, name->at, name->len) : "";
		v->type = type;
		*last = v;
		last = &v->next;
		f->nparams++;
	} while (dp_cc_accept(c, ","));
	dp_cc_expect(c, ")");
}

void dp_cc_parse_body(struct dpcc *c, struct function *f)
{
	struct scope *file = c->scope;

	c->at = f->body_at;
	c->func = f;
	c->loops = c->switches = 0;
	dp_cc_open_scope(c);
	for (struct var *p = f->params; p; p = p->next) {
		struct var *v = dp_cc_alloc(c, sizeof(*v));

		*v = (struct var){.name = p->name, .type = p->type, .next = c->scope->vars};
		c->scope->vars = v;
		add_local(c, v);
	}
	f->body = parse_block(c);
	check_labels(c, f);
	c->scope = file;
	c->func = NULL;
}

static void parse_function(struct dpcc *c, const struct tok *name, struct type *ret)
{
	const char *n = dp_cc_text(c, name->at, name->len);
	struct function *f = dp_cc_alloc(c, sizeof(*f)), *old = dp_cc_find_func(c, n);

	if (ret->kind != TY_VOID && !dp_cc_type_is_scalar(ret))
		dp_cc_fail(c, name, E_DPCC_TYPE, "a function must return an integer, a pointer or nothing");
	f->name = n;
	f->ret = ret;
	parse_params(c, f);
	if (old && old->nparams != f->nparams)
		dp_cc_fail(c, name, E_DPCC_TYPE, "'%s' was declared with %u parameters", n, old->nparams);
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
	if (dp_cc_accept(c, ";"))
		return;
	if (f->defined)
		dp_cc_fail(c, name, E_DPCC_NAME, "'%s' is defined twice", n);
	if (!dp_cc_tok_is(dp_cc_peek(c), "{"))
		dp_cc_fail(c, dp_cc_peek(c), E_DPCC_SYNTAX, "the function's body is missing here");
	f->defined = true;
	f->body_at = c->at;
	dp_cc_skip_brackets(c);
}

static void file_variable(struct dpcc *c, const struct tok *name, struct type *type, const char *storage, u32 index)
{
	struct var *v = declare_var(c, name, type);

	if (storage && !strcmp(storage, "thread"))
		place_thread(c, v, name);
	else
		place_static(c, v, name, storage && !strcmp(storage, "global"), index);
	if (dp_cc_accept(c, "="))
		init_static(c, v, name);
}

static void parse_up_to(struct dpcc *c, u32 end)
{
	while (c->at < end && dp_cc_peek(c)->kind != TOK_END) {
		const char *storage = NULL;
		u32 index = 0;
		struct type *base;

		if (dp_cc_accept(c, ";"))
			continue;
		base = dp_cc_parse_specifiers(c, &storage, &index);
		if (dp_cc_accept(c, ";"))
			continue;
		do {
			const struct tok *name = NULL;
			struct type *type = dp_cc_parse_declarator(c, base, &name);

			if (!name)
				dp_cc_fail(c, dp_cc_peek(c), E_DPCC_SYNTAX, "a name is missing here");
			if (storage && !strcmp(storage, "typedef")) {
				struct alias *a = dp_cc_alloc(c, sizeof(*a));

				*a = (struct alias){c->scope->aliases, dp_cc_text(c, name->at, name->len), type};
				c->scope->aliases = a;
			} else if (dp_cc_accept(c, "(")) {
				parse_function(c, name, type);
				goto next;
			} else {
				file_variable(c, name, type, storage, index);
			}
		} while (dp_cc_accept(c, ","));
		dp_cc_expect(c, ";");
	next:;
	}
}

/* The prelude is parsed once: what passes change of its functions are the functions themselves. */
static void keep_prelude(struct dpcc *c)
{
	u32 n = 0;

	for (const struct function *f = c->funcs; f; f = f->next)
		n++;
	c->begin.scope = *c->scope;
	c->begin.funcs = c->funcs;
	c->begin.copies = dp_cc_alloc(c, (n + 1) * sizeof(*c->begin.copies));
	n = 0;
	for (const struct function *f = c->funcs; f; f = f->next)
		c->begin.copies[n++] = *f;
}

static void begin_behind_prelude(struct dpcc *c)
{
	struct function *f = c->begin.funcs;

	*c->scope = c->begin.scope;
	c->funcs = f;
	for (u32 i = 0; f; f = f->next)
		*f = c->begin.copies[i++];
	c->at = c->prelude_end;
}

void dp_cc_parse(struct dpcc *c)
{
	dp_cc_open_scope(c);
	if (c->begin.copies) {
		begin_behind_prelude(c);
	} else {
		parse_up_to(c, c->prelude_end);
		keep_prelude(c);
	}
	parse_up_to(c, c->ntoks);
}
