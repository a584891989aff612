/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What handlers can call besides functions: logging, with the names and types in the declarations
 * beside the code, and what the machine does in one instruction.
 */
#include <string.h>

#include "abi/abi-program.h"
#include "arch/arch.h"
#include "lang/dpcc/dpcc-gen.h"
#include "program/described.h"

#define STRING_MAX_BYTES 256 /* of one text in a record */
#define MATCHED_BYTES 512    /* of a text that is compared, with its end */

enum argument { NONE, ONE, TWO, TEXT_ONLY, TEXT_AND_ONE, ANY, NAME_ONLY, NAME_AND_ONE, CALL, AGGREGATE };

static const struct builtin {
	const char *name;
	enum argument args;
	struct type *type;
	const char *code; /* after the arguments; NULL: see dp_cc_gen_builtin() */
} builtins[] = {
    {"log", ANY, &dp_cc_type_void, NULL},
    {"printf", ANY, &dp_cc_type_void, NULL},
    {"log_probe_expr", TEXT_ONLY, &dp_cc_type_void, NULL},
    {"log_str", ANY, &dp_cc_type_void, NULL},
    {"log_as", TEXT_AND_ONE, &dp_cc_type_void, NULL},
    {"log_hex", TEXT_AND_ONE, &dp_cc_type_void, NULL},
    {"__set", TEXT_AND_ONE, &dp_cc_type_int, NULL},
    {"log_args", NONE, &dp_cc_type_void, NULL},
    {"log_event", TEXT_ONLY, &dp_cc_type_void, NULL},
    {"__call_begin", CALL, &dp_cc_type_void, NULL},
    {"__call_done", ONE, &dp_cc_type_void, "push d,0;pop lv"},
    {"__code", ONE, &dp_cc_type_code, "nop"},
    {"code", ONE, &dp_cc_type_code, "nop"},
    {"log_here", NONE, &dp_cc_type_void, NULL},
    {"__no_record", NONE, &dp_cc_type_void, NULL},
    {"__call_end", CALL, &dp_cc_type_long, NULL},
    {"count", NAME_ONLY, &dp_cc_type_void, NULL},
    {"sum", NAME_AND_ONE, &dp_cc_type_void, NULL},
    {"min", NAME_AND_ONE, &dp_cc_type_void, NULL},
    {"max", NAME_AND_ONE, &dp_cc_type_void, NULL},
    {"hist", NAME_AND_ONE, &dp_cc_type_void, NULL},
    {"lhist", NAME_AND_ONE, &dp_cc_type_void, NULL},
    {"quantiles", NAME_AND_ONE, &dp_cc_type_void, NULL},
    {"put", NAME_AND_ONE, &dp_cc_type_void, NULL},
    {"get", NAME_ONLY, &dp_cc_type_long, NULL},
    {"print", AGGREGATE, &dp_cc_type_void, NULL},
    {"clear", AGGREGATE, &dp_cc_type_void, NULL},
    {"end_trace", NONE, &dp_cc_type_void, NULL},
    {"log_mem", TWO, &dp_cc_type_void, NULL},
    {"log_backtrace", ANY, &dp_cc_type_void, NULL},
    {"log_stack", NONE, &dp_cc_type_void, "log st"},
    {"pid", NONE, &dp_cc_type_int, "push pid"},
    {"tid", NONE, &dp_cc_type_int, "push tid"},
    {"timestamp", NONE, &dp_cc_type_ulong, "push ns"},
    {"cpu", NONE, &dp_cc_type_int, "push procid"},
    {"here", NONE, &dp_cc_type_code, "push r," DP_NAME_IP},
    {"comm_is", TEXT_ONLY, &dp_cc_type_int, NULL},
    {"caller", NONE, &dp_cc_type_code, "push frames,2;ros 1"},
    {"readable", ONE, &dp_cc_type_int, "vfy r;lnot"},
    {"writable", ONE, &dp_cc_type_int, "vfy rw;lnot"},
    {"reg", TEXT_ONLY, &dp_cc_type_ulong, NULL},
    {"setreg", TEXT_AND_ONE, &dp_cc_type_void, NULL},
    {"setmajor", ONE, &dp_cc_type_void, "setmaj"},
    {"setminor", ONE, &dp_cc_type_void, "setmin"},
    {"exit", NONE, &dp_cc_type_void, "exit"},
    {"exit_to", ONE, &dp_cc_type_void, NULL},
    {"remove", NONE, &dp_cc_type_void, "remove"},
    {"abort", NONE, &dp_cc_type_void, "abort"},
    /* Made by the compiler alone. */
    {"$comm", NONE, &dp_cc_type_void, NULL},
    {"$exe", NONE, &dp_cc_type_void, NULL},
    {"$uid", NONE, &dp_cc_type_uint, "push uid"},
    {"$ppid", NONE, &dp_cc_type_int, "push ppid"},
    {"$backtrace", NONE, &dp_cc_type_void, NULL},
    {"$matches", NONE, &dp_cc_type_int, NULL},
    {"__kept", NONE, &dp_cc_type_ulong, NULL},
};

/* ---- parsing ---- */

struct node *dp_cc_parse_argument(struct dpcc *c, struct node ***last)
{
	const struct tok *t = dp_cc_peek(c), *end;
	struct node *n = dp_cc_node_new(c, N_COMMA, t);

	n->a = dp_cc_parse_assign(c);
	end = &c->toks[c->at - 1];
	n->text = end->line == t->line ? dp_cc_text(c, t->at, (size_t)(end->at + end->len - t->at)) : "value";
	**last = n;
	*last = &n->next;
	return n;
}

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
	dp_cc_parse_argument(c, &last);
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
		dp_cc_parse_argument(c, &last);
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
		if (!arg->a || (arg->a->kind == N_BUILTIN && strcmp(arg->a->text, "__kept")))
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
	struct node *n = dp_cc_node_new(c, N_BUILTIN, name);
	const struct builtin *b = NULL;

	for (u32 i = 0; i < DP_ARRAY_SIZE(builtins); i++)
		if (dp_cc_tok_is(name, builtins[i].name))
			b = &builtins[i];
	if (!b)
		return NULL;
	n->text = b->name;
	n->type = b->type;
	if (b->args == NAME_ONLY || b->args == NAME_AND_ONE) {
		dp_cc_parse_aggregate(c, n, b->args == NAME_AND_ONE);
		dp_cc_expect(c, ")");
		return n;
	}
	if (b->args == AGGREGATE || !strcmp(b->name, "end_trace")) {
		if (!c->target.body)
			dp_cc_fail(c, name, E_DPCC_TYPE, "%s() can be used only in bodies of begin, end and timers",
				   b->name);
		n->op = b->args == AGGREGATE ? dp_cc_parse_aggregate_name(c) : NULL;
		dp_cc_expect(c, ")");
		return n;
	}
	if (b->args == CALL) {
		if (!strcmp(b->name, "__call_begin"))
			dp_cc_parse_call_begin(c, n);
		else
			n->value = c->line = (u64)dp_cc_parse_constant(c);
		dp_cc_expect(c, ")");
		return n;
	}
	if (!strcmp(b->name, "log_args"))
		parameters(c, n);
	if (b->args == TEXT_ONLY || b->args == TEXT_AND_ONE || !strcmp(b->name, "printf")) {
		struct tok *t = text_argument(c);

		n->op = t->str;
		n->value = t->str_len;
		if (!strcmp(b->name, "log_probe_expr"))
			probe_expression(c, n, t);
		if (!strcmp(b->name, "log_event"))
			c->event = t->str;
		if (b->args != TEXT_ONLY && !dp_cc_tok_is(dp_cc_peek(c), ")"))
			dp_cc_expect(c, ",");
	}
	if (b->args != TEXT_ONLY)
		more_arguments(c, name, &n->a,
			       b->args == ANY                              ? ~0u
			       : b->args == TWO                            ? 2
			       : b->args == ONE || b->args == TEXT_AND_ONE ? 1
									   : 0);
	dp_cc_expect(c, ")");
	return strcmp(b->name, "__set") ? n : dp_cc_call_set(c, n->a->a, n->op);
}

/* ---- logging ---- */

static const char *quoted(struct dpcc *c, const char *s)
{
	struct buf b = {0};

	dp_cc_put_quoted(c, &b, s);
	return b.s;
}

/* The word that names a field in the record. */
static u64 new_field(struct dpcc *c, const struct tok *t, const char *declaration)
{
	c->logs = true;
	declaration = dp_cc_one_line(c, declaration); /* quoted texts have their escapes already */
	for (u32 i = 0; i < c->nfields; i++)
		if (!strcmp(c->fields[i], declaration))
			return DP_FIELD_MARK | i;
	if (c->nfields == DP_ARRAY_SIZE(c->fields))
		dp_cc_fail(c, t, E_DPCC_LIMIT, "a handler can log at most 256 different values");
	if (strlen(declaration) > 1900) /* lines of programs end */
		dp_cc_fail(c, t, E_DPCC_LIMIT, "the text is too long");
	c->fields[c->nfields] = declaration;
	return DP_FIELD_MARK | c->nfields++;
}

static void log_mark(struct dpcc *c, u64 mark)
{
	dp_cc_emit(c, "push d,0x%llx;push d,1;log", (unsigned long long)mark);
}

/* Whole structures and arrays. */
static void log_bytes(struct dpcc *c, struct node *n, u64 mark)
{
	struct place p = dp_cc_place_of(c, n);
	u64 size = n->type->size, words = (size + 7) / 8;

	if (p.kind == PLACE_MEMORY && (p.in_target || words > 100)) {
		log_mark(c, mark);
		dp_cc_emit(c, "push d,%llu", (unsigned long long)size);
		dp_cc_place_address(c, &p);
		dp_cc_emit(c, "log mrf");
		return;
	}
	if (p.kind == PLACE_MEMORY) { /* it may be the handler's own: by words */
		dp_cc_place_address(c, &p);
		for (u64 i = words; i-- > 0;) {
			u64 rest = size - i * 8;

			dp_cc_emit(c, "push tsp,%llu;push d,%llu;add", (unsigned long long)(words - 1 - i),
				   (unsigned long long)i * 8);
			dp_cc_gen_load(c, rest == 1 || rest == 2 || rest == 4 ? rest : 8, false, false);
		}
		dp_cc_emit(c, "push d,0x%llx;push d,%llu;log;ros 1", (unsigned long long)mark,
			   (unsigned long long)words + 1);
		return;
	}
	if (words > 100)
		dp_cc_fail(c, n->tok, E_DPCC_LIMIT, "only memory of the program can be logged in this size");
	for (u64 i = words; i-- > 0;) {
		struct place part = p;

		part.offset += i * 8;
		part.size = DP_MIN(size - i * 8, (u64)8);
		part.type = &dp_cc_type_ulong;
		if (p.kind == PLACE_OWN && p.base->var->kind == VAR_MEMORY && part.offset % 8)
			dp_cc_fail(c, n->tok, E_DPCC_TYPE,
				   "this part of a static variable cannot be logged as a whole");
		if (p.kind == PLACE_OWN)
			part.size = 8;
		dp_cc_place_load(c, &part);
	}
	dp_cc_emit(c, "push d,0x%llx;push d,%llu;log", (unsigned long long)mark, (unsigned long long)words + 1);
}

static bool is_text(const struct type *t)
{
	return t->kind == TY_PTR && t->of->kind == TY_INT && t->of->is_char;
}

static void log_float(struct dpcc *c, struct node *n, u64 mark)
{
	if (!dp_cc_is_real(n->type)) {
		log_bytes(c, n, mark);
		return;
	}
	dp_cc_gen_value(c, n);
	dp_cc_emit(c, "push d,0x%llx;push d,2;log", (unsigned long long)mark);
}

/* The words of the text, the first on top. */
static void push_exe(struct dpcc *c, const struct tok *t)
{
	u32 at = dp_cc_known(c, t, DP_KNOWN_TEXT, "");

	for (u32 i = DP_KNOWN_TEXT_WORDS; i-- > 0;)
		dp_cc_emit(c, "push lv,%u", at + i);
}

static void log_value(struct dpcc *c, struct node *arg)
{
	struct node *n = arg->a;
	struct type *t = n->type;
	const char *name = quoted(c, arg->text);
	u64 mark;

	if (t->lazy)
		dp_cc_debug_complete(c, t);
	if (n->kind == N_STR) {
		log_mark(c, new_field(c, arg->tok,
				      dp_cc_format(c, "printf %s", quoted(c, dp_cc_format(c, "%.1000s", n->text)))));
		return;
	}
	if (dp_cc_is_chain(n)) {
		mark = new_field(c, arg->tok, dp_cc_format(c, "%s frame[%llu]", name, (unsigned long long)n->value));
		dp_cc_emit(c, "push frames,%llu;push d,0x%llx;push d,%llu;log", (unsigned long long)n->value,
			   (unsigned long long)mark, (unsigned long long)n->value + 1);
		return;
	}
	if (dp_cc_is_comm(n)) { /* the words of a text are pushed beginning first, and logged from the top */
		mark = new_field(c, arg->tok, dp_cc_format(c, "%s char[16]", name));
		dp_cc_emit(c, "strcomm;push text,2;xchg;push d,0x%llx;push d,3;log", (unsigned long long)mark);
		return;
	}
	if (dp_cc_is_exe(n)) {
		mark = new_field(c, arg->tok, dp_cc_format(c, "%s char[%d]", name, DP_KNOWN_TEXT_WORDS * 8));
		push_exe(c, arg->tok);
		dp_cc_emit(c, "push d,0x%llx;push d,%d;log", (unsigned long long)mark, DP_KNOWN_TEXT_WORDS + 1);
		return;
	}
	if (t->kind == TY_VOID || t->kind == TY_FUNC)
		dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "this cannot be logged: %s", dp_cc_type_name(c, t));
	if (is_text(t)) {
		log_mark(c, new_field(c, arg->tok, dp_cc_format(c, "%s string", name)));
		dp_cc_emit(c, "push d,%u", STRING_MAX_BYTES);
		dp_cc_gen_value(c, n);
		dp_cc_emit(c, "log str");
		return;
	}
	mark = new_field(c, arg->tok, dp_cc_format(c, "%s %s", name, dp_cc_type_field(c, t, arg->tok)));
	if (t->kind == TY_STRUCT || t->kind == TY_ARRAY || (t->kind == TY_INT && t->size > 8)) {
		log_bytes(c, n, mark);
	} else if (t->kind == TY_FLOAT) {
		log_float(c, n, mark);
	} else {
		dp_cc_gen_value(c, n);
		dp_cc_emit(c, "push d,0x%llx;push d,2;log", (unsigned long long)mark);
	}
}

/* ---- printf: the text stays here, the values go into the record ---- */

/* The conversion at p, behind the %: its last character; *end behind it. */
static char conversion(const char *p, const char **end)
{
	p += strspn(p, "-+ #0");
	p += strspn(p, "0123456789");
	if (*p == '.')
		p += 1 + strspn(p + 1, "0123456789");
	p += strspn(p, "hlzjt");
	*end = *p ? p + 1 : p;
	return *p;
}

static void log_number(struct dpcc *c, struct node *arg, char conv)
{
	struct node *n = dp_cc_to_value(c, arg->a);

	if (!dp_cc_type_is_scalar(n->type))
		dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "%%%c takes a number, not %s", conv, dp_cc_type_name(c, n->type));
	dp_cc_need_word(c, n);
	dp_cc_gen_value(c, n);
	if (n->type->kind == TY_INT && n->type->size <= 4)
		dp_cc_emit(c, strchr("xXou", conv) ? "zx32" : "sx32");
}

static void log_text(struct dpcc *c, struct node *arg)
{
	struct node *n = arg->a;

	if (n->kind == N_STR) {
		u32 words = n->len / 8 + 1;
		char *bytes = dp_cc_alloc(c, words * 8);

		memcpy(bytes, n->text, n->len);
		for (u32 i = words; i-- > 0;) {
			s64 w;

			memcpy(&w, bytes + 8 * i, 8);
			dp_cc_emit(c, "push d,%lld", (long long)w);
		}
		dp_cc_emit(c, "push d,%u;log", words);
		return;
	}
	if (n->type->kind == TY_ARRAY && !n->in_target) {
		struct place p = dp_cc_place_of(c, n);
		u32 words = (u32)((n->type->size + 7) / 8);

		for (u32 i = words; i-- > 0 && p.kind == PLACE_OWN;) {
			struct place part = p;

			part.offset += i * 8;
			part.size = 8;
			part.type = &dp_cc_type_ulong;
			dp_cc_place_load(c, &part);
		}
		if (p.kind == PLACE_OWN) {
			dp_cc_emit(c, "push d,%u;log", words);
			return;
		}
	}
	if (dp_cc_is_comm(n)) {
		dp_cc_emit(c, "strcomm;push text,2;xchg;push d,2;log");
		return;
	}
	if (dp_cc_is_exe(n)) {
		push_exe(c, arg->tok);
		dp_cc_emit(c, "push d,%d;log", DP_KNOWN_TEXT_WORDS);
		return;
	}
	n = dp_cc_to_value(c, n);
	if (n->type->kind != TY_PTR)
		dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "%%s takes a text, not %s", dp_cc_type_name(c, n->type));
	dp_cc_emit(c, "push d,%u", STRING_MAX_BYTES);
	dp_cc_gen_value(c, n);
	dp_cc_emit(c, "log str");
}

static void gen_printf(struct dpcc *c, struct node *n)
{
	struct node *arg = n->a;
	const char *end;

	log_mark(c, new_field(c, n->tok, dp_cc_format(c, "printf %s", quoted(c, n->op))));
	for (const char *p = n->op; *p; p = end) {
		char conv;

		end = p + 1;
		if (*p != '%')
			continue;
		conv = conversion(p + 1, &end);
		if (conv == '%')
			continue;
		if (!conv || !strchr("diuxXocps", conv))
			dp_cc_fail(c, n->tok, E_DPCC_TYPE, "the conversion %.*s is not known", (int)(end - p), p);
		if (!arg)
			dp_cc_fail(c, n->tok, E_DPCC_TYPE, "there are more conversions than arguments");
		if (conv == 's') {
			log_text(c, arg);
		} else {
			log_number(c, arg, conv);
			dp_cc_emit(c, "push d,1;log");
		}
		arg = arg->next;
	}
	if (arg)
		dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "there are more arguments than conversions");
}

/* ---- the others ---- */

static void gen_log_str(struct dpcc *c, struct node *n)
{
	struct node *p, *len;

	if (!n->a || (n->a->next && n->a->next->next))
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "it takes a pointer and, optionally, a length");
	p = dp_cc_to_value(c, n->a->a);
	len = n->a->next ? dp_cc_to_value(c, n->a->next->a) : NULL;
	log_mark(c, new_field(c, n->tok, dp_cc_format(c, "%s string", quoted(c, n->a->text))));
	if (len)
		dp_cc_gen_value(c, len);
	else
		dp_cc_emit(c, "push d,%u", STRING_MAX_BYTES);
	dp_cc_gen_value(c, p);
	dp_cc_emit(c, "log str");
}

u32 dp_cc_frames_wanted(struct dpcc *c, const struct tok *t, const struct node *args)
{
	s64 n = DP_FRAMES_USUAL;

	if (args && (args->next || !dp_cc_fold(args->a, &n) || n < 1 || n > DP_FRAMES_MAX))
		dp_cc_fail(c, t, E_DPCC_TYPE, "%.*s takes a constant from 1 to %d", (int)t->len, t->at, DP_FRAMES_MAX);
	return (u32)n;
}

/* Who called, up to that many functions. */
static void gen_log_backtrace(struct dpcc *c, struct node *n)
{
	u32 depth = dp_cc_frames_wanted(c, n->tok, n->a);
	u64 mark = new_field(c, n->tok, dp_cc_format(c, "\"backtrace\" frame[%u]", depth));

	dp_cc_emit(c, "push frames,%u;push d,0x%llx;push d,%u;log", depth, (unsigned long long)mark, depth + 1);
}

static void need_register(struct dpcc *c, const struct node *n)
{
	struct dp_register_part part;

	if (!dp_register_find(n->op, (u32)strlen(n->op), &part))
		dp_cc_fail(c, n->tok, E_DPCC_NAME, "there is no register '%.20s'", n->op);
}

/* n->a->text becomes the name. */
static void log_hex(struct dpcc *c, struct node *arg)
{
	struct node *n = dp_cc_to_value(c, arg->a);
	u64 mark = new_field(c, arg->tok,
			     dp_cc_format(c, "%s x%llu", quoted(c, arg->text), (unsigned long long)n->type->size * 8));

	if (!dp_cc_type_is_scalar(n->type) || n->type->size > 8)
		dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "%s is not a number", dp_cc_type_name(c, n->type));
	dp_cc_gen_value(c, n);
	dp_cc_emit(c, "push d,0x%llx;push d,2;log", (unsigned long long)mark);
}

static void gen_matches(struct dpcc *c, struct node *n)
{
	if (dp_cc_is_exe(n->a)) {
		dp_cc_emit(c, "push lv,%u",
			   dp_cc_known(c, n->tok, *n->op == '~' ? DP_KNOWN_MATCH : DP_KNOWN_SAME, n->b->text));
		if (*n->op == '!')
			dp_cc_emit(c, "lnot");
		return;
	}
	if (dp_cc_is_comm(n->a)) {
		dp_cc_emit(c, "strcomm");
	} else {
		dp_cc_gen_value(c, n->a);
		/* An address that cannot be read raises, as everywhere. */
		dp_cc_emit(c, "push tsp,0;push mem,u8;ros 1;str %d", MATCHED_BYTES);
	}
	dp_cc_buf_put(c, c->code, "\t%s %s\n", *n->op == '~' ? "strglob" : "streq", quoted(c, n->b->text));
	if (*n->op == '!')
		dp_cc_emit(c, "lnot");
}

static void gen_kept(struct dpcc *c, struct node *n)
{
	dp_cc_gen_value(c, n->a->a);
	dp_cc_emit(c, "push d,%llu;add;push lv", (unsigned long long)n->value);
}

/* What lines are made of. False: it is none of that. */
static bool of_lines(struct dpcc *c, struct node *n)
{
	const char *name = n->text;

	if (!strcmp(name, "log_as") || !strcmp(name, "log_hex")) {
		n->a->text = n->op;
		(name[4] == 'a' ? log_value : log_hex)(c, n->a);
	} else if (!strcmp(name, "log_args")) {
		for (struct node *arg = n->a; arg; arg = arg->next)
			(arg->op ? log_hex : log_value)(c, arg);
	} else if (!strcmp(name, "log_here")) { /* a record of an event without fields */
		log_mark(c, new_field(c, n->tok, "nothing"));
	} else if (!strcmp(name, "__no_record")) { /* unless something is logged */
		c->counts = true;
	} else if (!strcmp(name, "__call_begin")) {
		dp_cc_gen_call_begin(c, n);
	} else if (!strcmp(name, "__call_end")) {
		dp_cc_gen_call_end(c, n);
	} else if (!strcmp(name, "__kept")) {
		gen_kept(c, n);
	} else if (!strcmp(name, "$matches")) {
		gen_matches(c, n);
	} else if (!strcmp(name, "print")) {
		dp_cc_gen_ask(c, DP_CONTROL_PRINT, n->op);
	} else if (!strcmp(name, "clear")) {
		dp_cc_gen_ask(c, DP_CONTROL_CLEAR, n->op);
	} else if (!strcmp(name, "end_trace")) {
		dp_cc_gen_ask(c, DP_CONTROL_STOP, NULL);
	} else {
		return !strcmp(name, "log_event");
	}
	return true;
}

static void special(struct dpcc *c, struct node *n)
{
	const char *name = n->text;
	s64 v;

	if (of_lines(c, n))
		return;
	if (!strcmp(name, "log") || !strcmp(name, "log_probe_expr")) {
		for (struct node *arg = n->a; arg; arg = arg->next)
			log_value(c, arg);
	} else if (!strcmp(name, "printf")) {
		gen_printf(c, n);
	} else if (!strcmp(name, "log_str")) {
		gen_log_str(c, n);
	} else if (n->aggregate) {
		dp_cc_gen_aggregate(c, n);
	} else if (!strcmp(name, "log_mem")) {
		log_mark(c, new_field(c, n->tok, dp_cc_format(c, "%s bytes", quoted(c, n->a->text))));
		dp_cc_gen_value(c, dp_cc_to_value(c, n->a->next->a));
		dp_cc_gen_value(c, dp_cc_to_value(c, n->a->a));
		dp_cc_emit(c, "log mrf");
	} else if (!strcmp(name, "log_backtrace")) {
		gen_log_backtrace(c, n);
	} else if (!strcmp(name, "comm_is")) {
		if (strlen(n->op) > 15)
			dp_cc_fail(c, n->tok, E_DPCC_TYPE, "a thread's name can have at most 15 characters");
		dp_cc_emit(c, "strcomm");
		dp_cc_buf_put(c, c->code, "\tstreq %s\n", quoted(c, n->op));
	} else if (!strcmp(name, "reg")) {
		need_register(c, n);
		dp_cc_emit(c, "push r,%s", n->op);
	} else if (!strcmp(name, "setreg")) {
		need_register(c, n);
		dp_cc_gen_value(c, dp_cc_cast_to(c, dp_cc_to_value(c, n->a->a), &dp_cc_type_ulong));
		dp_cc_emit(c, "pop r,%s", n->op);
	} else { /* exit_to */
		if (!dp_cc_fold(n->a->a, &v) || v < 1 || v > 4)
			dp_cc_fail(c, n->tok, E_DPCC_TYPE,
				   "exit_to takes 1 (debugger), 2 (crash dump), 3 or 4 (core dump)");
		dp_cc_emit(c, "exit %lld", (long long)v);
	}
}

void dp_cc_gen_builtin(struct dpcc *c, struct node *n, bool want)
{
	const struct builtin *b = builtins;

	while (strcmp(b->name, n->text))
		b++;
	if (want && n->type->kind == TY_VOID)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "'%s' returns nothing", n->text);
	if (n->tok && n->tok->line)
		c->here = n->tok;
	c->traces |= !strcmp(n->text, "log_stack");
	c->logs |= c->traces;
	if (b->code) {
		if (n->a)
			dp_cc_gen_value(c, dp_cc_to_value(c, n->a->a));
		dp_cc_emit(c, "%s", b->code);
	} else {
		special(c, n);
	}
	if (!want && n->type->kind != TY_VOID)
		dp_cc_emit(c, "ros 1");
}
