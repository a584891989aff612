/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Statements, functions and whole programs. A call pushes its arguments (one word at least); the
 * function makes the top its stack base, so that they are words 0 and up, its own words -1 and
 * down, and leaves its result in the deepest of the arguments' words.
 */
#include <string.h>

#include "lang/dpcc/dpcc-gen.h"
#include "symbols/statics.h"

static void set_handler(struct dpcc *c, int label)
{
	if (label >= 0)
		dp_cc_emit(c, "sx L%d", label);
	else
		dp_cc_emit(c, "ux");
}

/* The condition is on the stack only as long as it is looked at. */
static void gen_if(struct dpcc *c, struct node *n)
{
	int other = dp_cc_new_label(c), end = dp_cc_new_label(c);

	dp_cc_gen_value(c, n->a);
	dp_cc_emit(c, "jz L%d;ros 1", other);
	dp_cc_gen_statement(c, n->b);
	dp_cc_emit(c, "jmp L%d", end);
	dp_cc_put_label(c, other);
	dp_cc_emit(c, "ros 1");
	if (n->c)
		dp_cc_gen_statement(c, n->c);
	dp_cc_put_label(c, end);
}

/* while, do and for: test (or not), body, step. */
static void gen_loop(struct dpcc *c, struct node *cond, struct node *body, struct node *step, bool is_do)
{
	int top = dp_cc_new_label(c), out = dp_cc_new_label(c), brk = c->brk, cont = c->cont, handler = c->loop_handler;

	c->brk = dp_cc_new_label(c);
	c->cont = dp_cc_new_label(c);
	c->loop_handler = c->handler;
	dp_cc_put_label(c, top);
	if (cond && !is_do) {
		dp_cc_gen_value(c, cond);
		dp_cc_emit(c, "jz L%d;ros 1", out);
	}
	dp_cc_gen_statement(c, body);
	dp_cc_put_label(c, c->cont);
	if (step)
		dp_cc_gen_void(c, step);
	if (is_do) {
		dp_cc_gen_value(c, cond);
		dp_cc_emit(c, "jz L%d;ros 1", out);
	}
	dp_cc_emit(c, "jmp L%d", top);
	dp_cc_put_label(c, out);
	if (cond)
		dp_cc_emit(c, "ros 1");
	dp_cc_put_label(c, c->brk);
	c->brk = brk;
	c->cont = cont;
	c->loop_handler = handler;
}

/* All cases of a switch, wherever they stand in it. */
static void find_cases(struct dpcc *c, struct node *n, struct node *sw, int *other)
{
	if (!n)
		return;
	if (n->kind == N_CASE) {
		n->label = dp_cc_new_label(c);
		if (n->postfix)
			*other = n->label;
		else
			dp_cc_emit(c, "push sbp,%d;push d,%lld;sub;jz L%d;ros 1", sw->var->first_word,
				   (long long)n->value, n->label);
	}
	if (n->kind == N_SWITCH || n->kind < N_EXPR)
		return;
	for (struct node *s = n->kind == N_BLOCK ? n->a : NULL; s; s = s->next)
		find_cases(c, s, sw, other);
	if (n->kind == N_BLOCK)
		return;
	if (n->kind == N_CASE || n->kind == N_LABEL || n->kind == N_TRY)
		find_cases(c, n->a, sw, other);
	if (n->kind == N_IF || n->kind == N_WHILE || n->kind == N_DO || n->kind == N_TRY)
		find_cases(c, n->b, sw, other);
	if (n->kind == N_IF)
		find_cases(c, n->c, sw, other);
	if (n->kind == N_FOR)
		find_cases(c, n->d, sw, other);
}

/* The comparisons leave their difference (zero) on the stack where they jump to; a case takes it
 * off. */
static void gen_switch(struct dpcc *c, struct node *n)
{
	int brk = c->brk, handler = c->loop_handler, other = -1;

	c->brk = dp_cc_new_label(c);
	c->loop_handler = c->handler;
	dp_cc_gen_value(c, n->a);
	if (n->a->type->size < n->var->type->size || n->var->type->size == 8 ||
	    n->a->type->is_unsigned == n->var->type->is_unsigned)
		dp_cc_emit(c, "pop sbp,%d", n->var->first_word);
	else {
		dp_cc_gen_normalise(c, n->var->type);
		dp_cc_emit(c, "pop sbp,%d", n->var->first_word);
	}
	find_cases(c, n->b, n, &other);
	if (other >= 0)
		dp_cc_emit(c, "push d,0;jmp L%d", other);
	else
		dp_cc_emit(c, "jmp L%d", c->brk);
	dp_cc_gen_statement(c, n->b);
	dp_cc_put_label(c, c->brk);
	c->brk = brk;
	c->loop_handler = handler;
}

static void gen_case(struct dpcc *c, struct node *n)
{
	int over = dp_cc_new_label(c);

	dp_cc_emit(c, "jmp L%d", over); /* from the statement before */
	dp_cc_put_label(c, n->label);
	dp_cc_emit(c, "ros 1");
	dp_cc_put_label(c, over);
	dp_cc_gen_statement(c, n->a);
}

static void leave(struct dpcc *c)
{
	const struct function *f = c->func;

	if (f->heap)
		dp_cc_emit(c, "push sbp,-1;free");
	dp_cc_emit(c, "save sbp;push d,%u;add;restore tsp;ret", f->param_words - 1);
}

static void gen_return(struct dpcc *c, struct node *n)
{
	if (n->a) {
		dp_cc_gen_value(c, n->a);
		dp_cc_emit(c, "pop sbp,%u", c->func->param_words - 1);
	}
	leave(c);
}

static void keep_caught(struct dpcc *c, struct var *v, const struct tok *t)
{
	struct node n = {.kind = N_VAR, .tok = t, .type = v->type, .var = v};
	struct place p = dp_cc_place_of(c, &n);

	dp_cc_place_store(c, &p, t);
}

static void gen_try(struct dpcc *c, struct node *n)
{
	int here = dp_cc_new_label(c), end = dp_cc_new_label(c), old = c->handler;

	dp_cc_emit(c, "sx L%d", here);
	c->handler = here;
	dp_cc_gen_statement(c, n->a);
	c->handler = old;
	set_handler(c, old);
	dp_cc_emit(c, "jmp L%d", end);
	dp_cc_put_label(c, here); /* code, parm1, parm2 on the stack, above whatever was going on */
	for (u32 i = 0; i < 3; i++)
		keep_caught(c, n->caught[i], n->tok);
	dp_cc_emit(c, "save sbp;push d,%u;sub;restore tsp", c->func->words);
	if (old >= 0)
		set_handler(c, old);
	dp_cc_gen_statement(c, n->b);
	dp_cc_put_label(c, end);
}

/* The bytes of a variable of the frame: zeroes, or a text. */
static void gen_init(struct dpcc *c, struct node *n)
{
	u32 words = (u32)((n->var->type->size + 7) / 8);

	for (u32 at = 0; at < words; at += 128) {
		u32 count = DP_MIN(words - at, 128u);

		for (u32 i = 0; i < count; i++) {
			u64 w = 0;
			u32 byte = (at + i) * 8;

			if (n->text && byte < n->len)
				memcpy(&w, n->text + byte, DP_MIN(n->len - byte, 8u));
			if (!n->text && !i)
				dp_cc_emit(c, "push d,0;dup %u", count);
			if (n->text)
				dp_cc_emit(c, "push d,%lld", (long long)w);
		}
		dp_cc_emit(c, "push sbp,-1;push d,%u;pop heap,u64,%u", (u32)n->var->first_word + at * 8, count);
	}
}

static void gen_jump(struct dpcc *c, const struct node *n)
{
	/* Out of a try: the loop's handler comes back. */
	if (c->loop_handler != c->handler)
		set_handler(c, c->loop_handler);
	dp_cc_emit(c, "jmp L%d", n->kind == N_BREAK ? c->brk : c->cont);
}

static void comment(struct dpcc *c, const struct node *n)
{
	if (c->opt->comments && n->tok && n->tok->line && n->kind != N_BLOCK)
		dp_cc_buf_put(c, c->code, "\t// %u: %.200s\n", n->tok->line->line,
			      n->tok->line->text + strspn(n->tok->line->text, " \t"));
}

void dp_cc_gen_statement(struct dpcc *c, struct node *n)
{
	comment(c, n);
	c->here = n->tok;
	switch (n->kind) {
	case N_BLOCK:
		for (struct node *s = n->a; s; s = s->next)
			dp_cc_gen_statement(c, s);
		break;
	case N_EXPR:
		dp_cc_gen_void(c, n->a);
		break;
	case N_IF:
		gen_if(c, n);
		break;
	case N_WHILE:
	case N_DO:
		gen_loop(c, n->a, n->b, NULL, n->kind == N_DO);
		break;
	case N_FOR:
		if (n->a)
			dp_cc_gen_statement(c, n->a);
		gen_loop(c, n->b, n->d, n->c, false);
		break;
	case N_SWITCH:
		gen_switch(c, n);
		break;
	case N_CASE:
		gen_case(c, n);
		break;
	case N_BREAK:
	case N_CONTINUE:
		gen_jump(c, n);
		break;
	case N_RETURN:
		gen_return(c, n);
		break;
	case N_TRY:
		gen_try(c, n);
		break;
	case N_THROW:
		dp_cc_emit(c, "push d,0");
		if (n->b)
			dp_cc_gen_value(c, n->b);
		else
			dp_cc_emit(c, "push d,0");
		dp_cc_gen_value(c, n->a);
		dp_cc_emit(c, "rx");
		break;
	case N_GOTO:
		dp_cc_emit(c, "jmp G_%s_%s", c->func->name, n->text);
		break;
	case N_LABEL:
		dp_cc_buf_put(c, c->code, "G_%s_%s:\n", c->func->name, n->text);
		dp_cc_gen_statement(c, n->a);
		break;
	case N_INIT:
		gen_init(c, n);
		break;
	default:
		break;
	}
}

/* ---- functions ---- */

static void lay_out(struct dpcc *c, struct function *f)
{
	u32 i = 0;

	f->param_words = DP_MAX(f->nparams, 1u);
	f->heap = 0;
	f->words = 0;
	for (struct var *v = f->locals; v; v = v->chain)
		if (v->in_memory) {
			f->heap = DP_ALIGN_UP(f->heap, 8u);
			v->kind = VAR_HEAP;
			v->first_word = (s32)f->heap;
			f->heap += (u32)DP_ALIGN_UP(v->type->size, 8u);
		}
	f->words = f->heap ? 1 : 0;
	for (struct var *v = f->locals; v; v = v->chain, i++) {
		if (v->in_memory)
			continue;
		v->kind = VAR_STACK;
		v->first_word = i < f->nparams ? (s32)(f->nparams - 1 - i) : -1 - (s32)f->words++;
	}
	if (f->words > DPCC_LOCALS_MAX || f->heap > 8192)
		dp_cc_fail(c, f->body->tok, E_DPCC_LIMIT, "the variables of '%s' have more than %u words or 8192 bytes",
			   f->name, DPCC_LOCALS_MAX);
}

static void gen_function(struct dpcc *c, struct function *f)
{
	struct var *v = f->locals;

	f->emitted = true;
	c->func = f;
	c->brk = c->cont = c->handler = c->loop_handler = -1;
	lay_out(c, f);
	dp_cc_buf_put(c, c->code, "F_%s:\n", f->name);
	dp_cc_emit(c, "save tsp;restore sbp");
	if (f->words)
		dp_cc_emit(c, "push d,0;dup %u", f->words);
	if (f->heap)
		dp_cc_emit(c, "push d,%u;malloc;pop sbp,-1", f->heap);
	for (u32 i = 0; i < f->nparams; i++, v = v->chain)
		if (v->in_memory)
			dp_cc_emit(c, "push sbp,%u;push sbp,-1;push d,%d;pop heap,u64,1", f->nparams - 1 - i,
				   v->first_word);
	dp_cc_gen_statement(c, f->body);
	leave(c);
}

/* The block of texts, the first one that is allocated. */
static void gen_literals(struct dpcc *c)
{
	u32 words = c->literal_bytes / 8;
	char *all = dp_cc_alloc(c, c->literal_bytes + 8);

	if (!words)
		return;
	for (const struct literal *l = c->literals; l; l = l->next)
		memcpy(all + l->offset, l->s, l->len);
	dp_cc_emit(c, "push d,%u;malloc;ros 1", c->literal_bytes);
	for (u32 i = 0; i < words; i++) {
		s64 w;

		memcpy(&w, all + 8 * i, 8);
		dp_cc_emit(c, "push d,%lld", (long long)w);
	}
	dp_cc_emit(c, "push d,8;push d,0;pop heap,u64,%u", words);
}

/* "group" "name" "function" OFFSET RETURN, as records show the probe. */
const char *dp_cc_event_words(struct dpcc *c)
{
	const struct dp_tracepoint *tp = c->target.tracepoint;
	struct dp_symbol sym = {.name = tp                     ? tp->name
					: c->target.func       ? c->target.func
					: c->target.watched_as ? c->target.watched_as
							       : ""};
	const char *slash = strchr(c->event, '/'), *name = slash + 1, *ends = strchr(name, '/');
	u64 offset = c->target.passing == PASS_RETURN ? c->target.asked : c->target.pc;
	bool is_return = c->target.is_return && !(c->target.is_call && c->by_name); /* of a function */
	bool nameless = false; /* the module's name, and the address in it, say where it is */

	if (c->mod && !c->target.watched && !c->target.body) {
		dp_module_symbol_at(c->mod, offset, &sym);
		nameless = !*sym.name;
		if (nameless)
			sym = (struct dp_symbol){.name = dp_module_base(c->mod)};
		offset -= sym.addr;
	}
	if (ends)
		name = dp_cc_format(c, "%.*s", (int)(ends - name), name);
	if (tp && !*name && tp->system[0])
		name = dp_cc_format(c, "%s:%s", tp->system, tp->name);
	if (c->target.note && !*name)
		name = dp_cc_format(c, "%s:%s", c->target.note->provider, c->target.note->name);
	return dp_cc_format(
	    c, "\"%.*s\" \"%s\" \"%s\" %llu %d%s", (int)(slash - c->event), c->event, name, dp_cc_one_line(c, sym.name),
	    (unsigned long long)(c->target.is_return && !nameless ? 0 : offset), is_return, ends ? " ends" : "");
}

/* A line tells of each hit: one whose instruction faults may be the program's last. */
void dp_cc_put_event(struct dpcc *c)
{
	if (c->event)
		dp_cc_buf_put(c, &c->all, "logonfault = yes\nfield = event %s\n", dp_cc_event_words(c));
}

void dp_cc_gen_program(struct dpcc *c, struct function *handler)
{
	bool more = true;

	c->body.n = c->start.n = 0;
	c->code = &c->body;
	handler->used = true;
	while (more) {
		more = false;
		for (struct function *f = c->funcs; f; f = f->next) {
			if (!f->used || f->emitted)
				continue;
			if (!f->body) /* what converts numbers may be called first where code is made for them */
				dp_cc_parse_body(c, f);
			gen_function(c, f);
			more = true;
		}
	}
	c->in_helpers = true;
	dp_cc_gen_helpers(c);
	c->in_helpers = false;
	c->code = &c->start;
	gen_literals(c);
	dp_cc_emit(c, "push d,0;call F_%s", handler->name);
	if (c->nfields) { /* a handler that could have logged and has not: no empty record */
		int drop = dp_cc_new_label(c);

		dp_cc_emit(c, "push lp;jz L%d;exit", drop);
		dp_cc_put_label(c, drop);
		dp_cc_emit(c, "abort");
	} else {
		dp_cc_emit(c, (c->counts || c->target.body) && !c->traces ? "abort" : "exit");
	}
	dp_cc_put_event(c);
	c->program_at = c->all.n;
	for (u32 i = 0; i < c->nfields; i++)
		dp_cc_buf_put(c, &c->all, "field = %s\n", c->fields[i]);
	dp_cc_buf_add(c, &c->all, c->start.s, c->start.n);
	dp_cc_buf_add(c, &c->all, c->body.s, c->body.n);
	c->code = NULL;
}
