/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What handlers can call besides functions, and the code of it: logging, with the names and types in the declarations
 * beside the code, and what the machine does in one instruction. The table at the end has them all; parse-builtin.c
 * reads their arguments.
 */
#include <string.h>

#include "abi/abi-program.h"
#include "arch/arch.h"
#include "lang/dpcc/dpcc-gen.h"
#include "program/described.h"

#define STRING_MAX_BYTES 256 /* of one text in a record */
#define MATCHED_BYTES 512    /* of a text that is compared, with its end */

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
		dp_cc_fail(c, t, E_DPCC_LIMIT, "a handler can log at most %zu different values",
			   DP_ARRAY_SIZE(c->fields));
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
static void push_known(struct dpcc *c, const struct tok *t, int what)
{
	u32 at = dp_cc_known(c, t, (u32)what, DP_KNOWN_TEXT, "");

	for (u32 i = DP_KNOWN_TEXT_WORDS; i-- > 0;)
		dp_cc_emit(c, "push lv,%u", at + i);
}

/* A text that says how long it is. */
static void log_library_text(struct dpcc *c, const struct node *arg, struct node *text, struct node *length)
{
	int longer = dp_cc_new_label(c), end = dp_cc_new_label(c);

	log_mark(c, new_field(c, arg->tok, dp_cc_format(c, "%s string", quoted(c, arg->text))));
	dp_cc_gen_value(c, dp_cc_to_value(c, length));
	dp_cc_emit(c, "push tsp,0;push d,%u;leu;jz L%d;ros 1;jmp L%d", STRING_MAX_BYTES, longer, end);
	dp_cc_put_label(c, longer);
	dp_cc_emit(c, "ros 2;push d,%u", STRING_MAX_BYTES);
	dp_cc_put_label(c, end);
	dp_cc_gen_value(c, dp_cc_to_value(c, text));
	dp_cc_emit(c, "log str");
}

/*
 * Texts inside of a structure, and of the variant that it has, are elsewhere in memory: they are fields of their own
 * behind it, so many at most. n: the structure; name: how it is called.
 */
#define TEXTS_MAX 16
#define TEXTS_DEPTH 4

struct inner_texts {
	const struct node *arg;
	u32 n, depth;
	bool counts; /* only how many there are */
};

static void log_inner_texts(struct dpcc *c, struct inner_texts *in, struct node *n, const char *name);

static void log_inner(struct dpcc *c, struct inner_texts *in, struct node *n, const char *name)
{
	struct node arg = *in->arg, *text, *length;

	if (n->type->kind != TY_STRUCT || in->n == TEXTS_MAX)
		return;
	if (!dp_cc_library_text(c, n, &text, &length)) {
		log_inner_texts(c, in, n, name);
		return;
	}
	in->n++;
	arg.text = dp_cc_text(c, name, strlen(name));
	if (!in->counts)
		log_library_text(c, &arg, text, length);
}

/* (number -- number) Go to the label where it is this one, with another word on the stack. */
static void branch_if_is(struct dpcc *c, s64 number, u64 size, int label)
{
	u64 mask = size < 8 ? (1ull << 8 * size) - 1 : ~0ull;

	dp_cc_emit(c, "push tsp,0;push d,0x%llx;sub;jz L%d;ros 1", (unsigned long long)((u64)number & mask), label);
}

/* The code of a variant, which is passed over unless the structure has it. */
static void log_variant_texts(struct dpcc *c, struct inner_texts *in, struct node *n, const struct variant *v,
			      const char *name)
{
	const struct variant_part *p = n->type->variants;
	const struct member which = {.name = "", .type = p->discriminant};
	int yes = dp_cc_new_label(c), no = dp_cc_new_label(c), end = dp_cc_new_label(c);
	u64 size = p->discriminant->size;

	dp_cc_gen_value(c, dp_cc_to_value(c, dp_cc_inside(c, n, &which, p->offset)));
	if (size < 8)
		dp_cc_emit(c, "push d,0x%llx;and", (1ull << 8 * size) - 1);
	for (const struct variant *o = p->list; v->is_default && o; o = o->next)
		if (!o->is_default)
			branch_if_is(c, o->number, size, no);
	if (!v->is_default) {
		branch_if_is(c, v->number, size, yes);
		dp_cc_emit(c, "ros 1;jmp L%d", end);
		dp_cc_put_label(c, yes);
		dp_cc_emit(c, "ros 1");
	}
	dp_cc_emit(c, "ros 1");
	log_inner(c, in, dp_cc_inside(c, n, &v->content, v->content.offset), name);
	if (v->is_default) {
		dp_cc_emit(c, "jmp L%d", end);
		dp_cc_put_label(c, no);
		dp_cc_emit(c, "ros 2");
	}
	dp_cc_put_label(c, end);
}

static const char *inner_name(struct dpcc *c, const char *name, const char *member)
{
	bool of_pointer = *name == '*' && name[1] != '*';

	return !*member ? name : dp_cc_format(c, "%s%s%s", name + of_pointer, of_pointer ? "->" : ".", member);
}

/* What a tuple of one element has is called by the variant alone. */
static const char *content_name(struct dpcc *c, const char *name, const char *member)
{
	return strcmp(member, "__0") != 0 ? inner_name(c, name, member) : name;
}

static void log_inner_texts(struct dpcc *c, struct inner_texts *in, struct node *n, const char *name)
{
	struct type *t = n->type;
	struct inner_texts any;

	if (t->lazy)
		dp_cc_debug_complete(c, t);
	if (t->is_union || in->depth == TEXTS_DEPTH)
		return;
	in->depth++;
	for (struct member *m = t->members; m; m = m->next)
		if (!m->bits)
			log_inner(c, in, dp_cc_inside(c, n, m, m->offset), content_name(c, name, m->name));
	for (struct variant *v = t->variants ? t->variants->list : NULL; v; v = v->next) {
		const char *whole = inner_name(c, name, v->content.name);

		any = (struct inner_texts){.arg = in->arg, .depth = in->depth, .counts = true};
		if (t->variants->discriminant->size <= 8)
			log_inner(c, &any, dp_cc_inside(c, n, &v->content, v->content.offset), whole);
		if (in->counts || !any.n)
			in->n += any.n;
		else
			log_variant_texts(c, in, n, v, whole);
	}
	in->depth--;
}

/* (type -- ) Its name is logged, as struct dp_go_types describes it. */
static void log_go_name(struct dpcc *c, const struct dp_go_types *t)
{
	dp_cc_emit(c, "push tsp,0;push d,%u;add;push mem,u8;push d,%d;and;lnot;lnot", t->flags_at, DP_GO_EXTRA_STAR);
	dp_cc_emit(c, "xchg;push d,%u;add;push mem,u32;push d,.base+%llu;add", t->name_at,
		   (unsigned long long)t->first);                              /* (star name) */
	dp_cc_emit(c, "push tsp,0;push d,1;add;push mem,u8;push tsp,0;shr 7"); /* (star name low more) */
	dp_cc_emit(c, "push tsp,2;push d,2;add;push mem,u8;shl 7;push tsp,1;neg;and");
	dp_cc_emit(c, "push tsp,2;push d,127;and;or;push tsp,4;sub"); /* (star name low more length) */
	dp_cc_emit(c, "push tsp,3;push tsp,2;add;push d,2;add;push tsp,5;add;log str;ros 4");
}

static void log_word(struct dpcc *c, const char text[8])
{
	u64 word;

	memcpy(&word, text, sizeof(word));
	dp_cc_emit(c, "push d,0x%llx;push d,1;log", (unsigned long long)word);
}

/* The name of the type that an interface of Go holds. */
static void log_interface(struct dpcc *c, const struct node *arg, struct node *word, s64 type_at,
			  const struct dp_go_types *t)
{
	int nil = dp_cc_new_label(c), unknown = dp_cc_new_label(c), end = dp_cc_new_label(c);

	log_mark(c, new_field(c, arg->tok, dp_cc_format(c, "%s string", quoted(c, arg->text))));
	dp_cc_gen_value(c, dp_cc_to_value(c, word));
	dp_cc_emit(c, "push tsp,0;jz L%d;ros 1", nil);
	if (type_at >= 0)
		dp_cc_emit(c, "push d,%lld;add;push mem,u64", (long long)type_at);
	dp_cc_emit(c, "push tsp,0;push d,.base+%llu;sub;push d,%llu;ltu;jz L%d;ros 1", (unsigned long long)t->first,
		   (unsigned long long)(t->last - t->first), unknown);
	log_go_name(c, t);
	dp_cc_emit(c, "jmp L%d", end);
	dp_cc_put_label(c, nil);
	dp_cc_emit(c, "ros 2");
	log_word(c, "nil\0\0\0\0");
	dp_cc_emit(c, "jmp L%d", end);
	dp_cc_put_label(c, unknown); /* of a plugin, or made by the program */
	dp_cc_emit(c, "ros 2");
	log_word(c, "unknown");
	dp_cc_put_label(c, end);
}

static void log_value(struct dpcc *c, struct node *arg)
{
	struct node *text, *length, *word;
	struct dp_go_types go;
	s64 type_at;

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
	if (dp_cc_known_text(n) >= 0) {
		mark = new_field(c, arg->tok, dp_cc_format(c, "%s char[%d]", name, DP_KNOWN_TEXT_WORDS * 8));
		push_known(c, arg->tok, dp_cc_known_text(n));
		dp_cc_emit(c, "push d,0x%llx;push d,%d;log", (unsigned long long)mark, DP_KNOWN_TEXT_WORDS + 1);
		return;
	}
	if (dp_cc_library_text(c, n, &text, &length)) {
		log_library_text(c, arg, text, length);
		return;
	}
	word = dp_cc_go_interface(c, n, &type_at);
	if (word && !c->by_name && dp_module_go_types(c->mod, dp_cc_pc(c), &go)) {
		log_interface(c, arg, word, type_at, &go);
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
		if (t->kind == TY_STRUCT)
			log_inner_texts(c, &(struct inner_texts){.arg = arg}, n, arg->text);
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
	if (dp_cc_known_text(n) >= 0) {
		push_known(c, arg->tok, dp_cc_known_text(n));
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

/* Who called, up to that many functions. */
static void gen_log_backtrace(struct dpcc *c, struct node *n)
{
	u32 depth = (u32)n->value;
	u64 mark = new_field(c, n->tok, dp_cc_format(c, "\"backtrace\" frame[%u]", depth));

	dp_cc_emit(c, "push frames,%u;push d,0x%llx;push d,%u;log", depth, (unsigned long long)mark, depth + 1);
}

static void need_register(struct dpcc *c, const struct node *n)
{
	struct dp_register_part part;

	if (!dp_register_find(n->op, (u32)strlen(n->op), &part))
		dp_cc_fail(c, n->tok, E_DPCC_NAME, "there is no register '%.20s'", n->op);
}

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
	if (dp_cc_known_text(n->a) >= 0) {
		dp_cc_emit(c, "push lv,%u",
			   dp_cc_known(c, n->tok, (u32)dp_cc_known_text(n->a),
				       *n->op == '~' ? DP_KNOWN_MATCH : DP_KNOWN_SAME, n->b->text));
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

/* ---- single ones ---- */

static void gen_log(struct dpcc *c, struct node *n)
{
	for (struct node *arg = n->a; arg; arg = arg->next)
		log_value(c, arg);
}

/* The text becomes the name. */
static void gen_log_as(struct dpcc *c, struct node *n)
{
	n->a->text = n->op;
	log_value(c, n->a);
}

static void gen_log_hex(struct dpcc *c, struct node *n)
{
	n->a->text = n->op;
	log_hex(c, n->a);
}

/* Many calls take no text as well as one: the address 0, which is no fault. */
static void log_text_or_null(struct dpcc *c, struct node *arg)
{
	int null = dp_cc_new_label(c), end = dp_cc_new_label(c);
	u64 mark = new_field(c, arg->tok, dp_cc_format(c, "%s x64", quoted(c, arg->text)));

	dp_cc_gen_value(c, arg->a);
	dp_cc_emit(c, "jz L%d;ros 1", null);
	log_value(c, arg);
	dp_cc_emit(c, "jmp L%d", end);
	dp_cc_put_label(c, null);
	dp_cc_emit(c, "push d,0x%llx;push d,2;log", (unsigned long long)mark);
	dp_cc_put_label(c, end);
}

static void gen_log_args(struct dpcc *c, struct node *n)
{
	for (struct node *arg = n->a; arg; arg = arg->next)
		(arg->op ? log_hex : c->target.is_call && is_text(arg->a->type) ? log_text_or_null : log_value)(c, arg);
}

/* A record of an event without fields. */
static void gen_log_here(struct dpcc *c, struct node *n)
{
	log_mark(c, new_field(c, n->tok, "nothing"));
}

/* Unless something is logged. */
static void gen_no_record(struct dpcc *c, struct node *n)
{
	c->counts = true;
}

static void gen_print(struct dpcc *c, struct node *n)
{
	dp_cc_gen_ask(c, DP_CONTROL_PRINT, n->op);
}

static void gen_clear(struct dpcc *c, struct node *n)
{
	dp_cc_gen_ask(c, DP_CONTROL_CLEAR, n->op);
}

static void gen_end_trace(struct dpcc *c, struct node *n)
{
	dp_cc_gen_ask(c, DP_CONTROL_STOP, NULL);
}

/* Of a length below 0 nothing. */
static void gen_length(struct dpcc *c, struct node *n)
{
	s64 v;

	if (n->type->kind != TY_INT && n->type->kind != TY_VOID)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "%s is not a length", dp_cc_type_name(c, n->type));
	dp_cc_need_word(c, n);
	dp_cc_gen_value(c, n);
	if (!n->type->is_unsigned && (!dp_cc_fold(n, &v) || v < 0))
		dp_cc_emit(c, "push tsp,0;push d,63;xchg;sar;not;and"); /* and no bit where the sign is set */
}

static void log_mem(struct dpcc *c, struct node *n, const char *name, struct node *p, struct node *length)
{
	log_mark(c, new_field(c, n->tok, dp_cc_format(c, "%s bytes", quoted(c, name))));
	gen_length(c, length);
	dp_cc_need_word(c, p);
	dp_cc_gen_value(c, p);
	dp_cc_emit(c, "log mrf");
}

static void gen_log_mem(struct dpcc *c, struct node *n)
{
	log_mem(c, n, n->a->text, dp_cc_to_value(c, n->a->a), dp_cc_to_value(c, n->a->next->a));
}

static void gen_log_mem_as(struct dpcc *c, struct node *n)
{
	struct node *p = dp_cc_to_value(c, n->a->a);

	if (!dp_cc_type_is_scalar(p->type) || p->type->size != 8)
		dp_cc_fail(c, p->tok, E_DPCC_TYPE, "%s is not a pointer or an array", dp_cc_type_name(c, p->type));
	log_mem(c, n, n->op, p, dp_cc_to_value(c, n->a->next->a));
}

static void gen_comm_is(struct dpcc *c, struct node *n)
{
	if (strlen(n->op) > 15)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "a thread's name can have at most 15 characters");
	dp_cc_emit(c, "strcomm");
	dp_cc_buf_put(c, c->code, "\tstreq %s\n", quoted(c, n->op));
}

static void gen_reg(struct dpcc *c, struct node *n)
{
	need_register(c, n);
	dp_cc_emit(c, "push r,%s", n->op);
}

static void gen_setreg(struct dpcc *c, struct node *n)
{
	need_register(c, n);
	dp_cc_gen_value(c, dp_cc_cast_to(c, dp_cc_to_value(c, n->a->a), &dp_cc_type_ulong));
	dp_cc_emit(c, "pop r,%s", n->op);
}

static void gen_exit_to(struct dpcc *c, struct node *n)
{
	s64 v;

	if (!dp_cc_fold(n->a->a, &v) || v < 1 || v > 4)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "exit_to takes 1 (debugger), 2 (crash dump), 3 or 4 (core dump)");
	dp_cc_emit(c, "exit %lld", (long long)v);
}

/* With all arguments as words; one result, or none. */
static void call_facility(struct dpcc *c, struct node *n, u32 results)
{
	u32 args = 0;

	if (!*n->op || strlen(n->op) >= DP_EXIT_NAME_MAX)
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "the name of an exit facility has 1 to %d characters",
			   DP_EXIT_NAME_MAX - 1);
	for (struct node *arg = n->a; arg; arg = arg->next, args++) {
		if (args == DP_EXIT_WORDS_MAX)
			dp_cc_fail(c, arg->tok, E_DPCC_TYPE, "an exit facility takes at most %d arguments",
				   DP_EXIT_WORDS_MAX);
		dp_cc_gen_value(c, dp_cc_cast_to(c, dp_cc_to_value(c, arg->a), &dp_cc_type_ulong));
	}
	dp_cc_emit(c, "call_exit %u,%u,%s", args, results, quoted(c, n->op));
}

static void gen_call_exit(struct dpcc *c, struct node *n)
{
	call_facility(c, n, 1);
}

static void gen_call_exit_void(struct dpcc *c, struct node *n)
{
	call_facility(c, n, 0);
}

/* ---- all of them ---- */

static const struct builtin builtins[] = {
    {"log", ARG_ANY, &dp_cc_type_void, .gen = gen_log},
    {"printf", ARG_ANY, &dp_cc_type_void, .gen = gen_printf},
    {"log_probe_expr", ARG_TEXT, &dp_cc_type_void, .gen = gen_log},
    {"log_str", ARG_ANY, &dp_cc_type_void, .gen = gen_log_str},
    {"log_as", ARG_TEXT_AND_ONE, &dp_cc_type_void, .gen = gen_log_as},
    {"log_hex", ARG_TEXT_AND_ONE, &dp_cc_type_void, .gen = gen_log_hex},
    {"__set", ARG_TEXT_AND_ONE, &dp_cc_type_int},
    {"log_args", ARG_NONE, &dp_cc_type_void, .gen = gen_log_args},
    {"log_event", ARG_TEXT, &dp_cc_type_void},
    {"__call_begin", ARG_CALL, &dp_cc_type_void, .gen = dp_cc_gen_call_begin},
    {"__call_begin_untimed", ARG_CALL, &dp_cc_type_void, .gen = dp_cc_gen_call_begin},
    {"__call_pass", ARG_CALL, &dp_cc_type_void, .gen = dp_cc_gen_call_pass},
    {"__call_done", ARG_ONE, &dp_cc_type_void, .gen = dp_cc_gen_call_done},
    {"__code", ARG_ONE, &dp_cc_type_code, .code = "nop"},
    {"code", ARG_ONE, &dp_cc_type_code, .code = "nop"},
    {"log_here", ARG_NONE, &dp_cc_type_void, .gen = gen_log_here},
    {"__no_record", ARG_NONE, &dp_cc_type_void, .gen = gen_no_record},
    {"__call_end", ARG_CALL, &dp_cc_type_long, .gen = dp_cc_gen_call_end},
    {"count", ARG_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_aggregate},
    {"sum", ARG_VALUE_AND_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_aggregate},
    {"min", ARG_VALUE_AND_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_aggregate},
    {"max", ARG_VALUE_AND_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_aggregate},
    {"hist", ARG_VALUE_AND_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_aggregate},
    {"lhist", ARG_VALUE_AND_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_aggregate},
    {"quantiles", ARG_VALUE_AND_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_aggregate},
    {"put", ARG_VALUE_AND_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_aggregate},
    {"get", ARG_KEYS, &dp_cc_type_long, .gen = dp_cc_gen_aggregate},
    {"row", ARG_KEYS, &dp_cc_type_long, .gen = dp_cc_gen_row},
    {"row_add", ARG_VALUE_AND_ROW, &dp_cc_type_void, .gen = dp_cc_gen_row_change},
    {"row_sub", ARG_VALUE_AND_ROW, &dp_cc_type_void, .gen = dp_cc_gen_row_change},
    {"forget", ARG_KEYS, &dp_cc_type_void, .gen = dp_cc_gen_forget},
    {"print", ARG_AGGREGATE, &dp_cc_type_void, .gen = gen_print},
    {"clear", ARG_AGGREGATE, &dp_cc_type_void, .gen = gen_clear},
    {"end_trace", ARG_NONE, &dp_cc_type_void, .gen = gen_end_trace},
    {"log_mem", ARG_TWO, &dp_cc_type_void, .gen = gen_log_mem},
    {"log_mem_as", ARG_TEXT_AND_TWO, &dp_cc_type_void, .gen = gen_log_mem_as},
    {"log_backtrace", ARG_ANY, &dp_cc_type_void, .gen = gen_log_backtrace},
    {"log_stack", ARG_NONE, &dp_cc_type_void, .code = "log st"},
    {"pid", ARG_NONE, &dp_cc_type_int, .code = "push pid"},
    {"tid", ARG_NONE, &dp_cc_type_int, .code = "push tid"},
    {"timestamp", ARG_NONE, &dp_cc_type_ulong, .code = "push ns"},
    {"cpu", ARG_NONE, &dp_cc_type_int, .code = "push procid"},
    {"here", ARG_NONE, &dp_cc_type_code, .code = "push r," DP_NAME_IP},
    {"comm_is", ARG_TEXT, &dp_cc_type_int, .gen = gen_comm_is},
    {"caller", ARG_NONE, &dp_cc_type_code, .code = "push frames,2;ros 1"},
    {"readable", ARG_ONE, &dp_cc_type_int, .code = "vfy r;lnot"},
    {"writable", ARG_ONE, &dp_cc_type_int, .code = "vfy rw;lnot"},
    {"reg", ARG_TEXT, &dp_cc_type_ulong, .gen = gen_reg},
    {"setreg", ARG_TEXT_AND_ONE, &dp_cc_type_void, .gen = gen_setreg},
    {"setmajor", ARG_ONE, &dp_cc_type_void, .code = "setmaj"},
    {"setminor", ARG_ONE, &dp_cc_type_void, .code = "setmin"},
    {"exit", ARG_NONE, &dp_cc_type_void, .code = "exit"},
    {"exit_to", ARG_ONE, &dp_cc_type_void, .gen = gen_exit_to},
    {"call_exit", ARG_TEXT_AND_ANY, &dp_cc_type_long, .gen = gen_call_exit},
    {"call_exit_void", ARG_TEXT_AND_ANY, &dp_cc_type_void, .gen = gen_call_exit_void},
    {"remove", ARG_NONE, &dp_cc_type_void, .code = "remove"},
    {"abort", ARG_NONE, &dp_cc_type_void, .code = "abort"},
    /* Made by the compiler alone. */
    {"$comm", ARG_NONE, &dp_cc_type_void},
    {"$exe", ARG_NONE, &dp_cc_type_void},
    {"$cgroup", ARG_NONE, &dp_cc_type_void},
    {"$uid", ARG_NONE, &dp_cc_type_uint, .code = "push uid"},
    {"$cgroup_id", ARG_NONE, &dp_cc_type_ulong, .code = "push cgroup"},
    {"$ppid", ARG_NONE, &dp_cc_type_int, .code = "push ppid"},
    {"$backtrace", ARG_NONE, &dp_cc_type_void},
    {"$matches", ARG_NONE, &dp_cc_type_int, .gen = gen_matches},
    {"$kept", ARG_NONE, &dp_cc_type_ulong, .gen = gen_kept},
};

bool dp_cc_has_keys(const struct tok *name)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(builtins); i++)
		if (builtins[i].gen == dp_cc_gen_aggregate && dp_cc_tok_is(name, builtins[i].name))
			return true;
	return false;
}

void dp_cc_builtin_near(struct dp_near *near, const char *name)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(builtins); i++)
		if (*builtins[i].name != '$' && *builtins[i].name != '_')
			dp_near_try(near, name, builtins[i].name);
}

struct node *dp_cc_builtin(struct dpcc *c, const struct tok *t, const char *name)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(builtins); i++) {
		struct node *n;

		if (strcmp(name, builtins[i].name))
			continue;
		n = dp_cc_node_new(c, N_BUILTIN, t);
		n->builtin = &builtins[i];
		n->text = builtins[i].name;
		n->type = builtins[i].type;
		return n;
	}
	return NULL;
}
