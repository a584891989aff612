/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Types as they are written: the words before a name, structures, enumerations, stars and brackets.
 */
#include <dwarf.h>
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

static const struct {
	const char *name;
	struct type *type;
} known[] = {
    {"int8_t", &dp_cc_type_schar},    {"uint8_t", &dp_cc_type_uchar},   {"int16_t", &dp_cc_type_short},
    {"uint16_t", &dp_cc_type_ushort}, {"int32_t", &dp_cc_type_int},     {"uint32_t", &dp_cc_type_uint},
    {"int64_t", &dp_cc_type_long},    {"uint64_t", &dp_cc_type_ulong},  {"size_t", &dp_cc_type_ulong},
    {"ssize_t", &dp_cc_type_long},    {"uintptr_t", &dp_cc_type_ulong}, {"intptr_t", &dp_cc_type_long},
    {"bool", &dp_cc_type_bool},       {"u8", &dp_cc_type_uchar},        {"u16", &dp_cc_type_ushort},
    {"u32", &dp_cc_type_uint},        {"u64", &dp_cc_type_ulong},       {"s8", &dp_cc_type_schar},
    {"s16", &dp_cc_type_short},       {"s32", &dp_cc_type_int},         {"s64", &dp_cc_type_long},
    {"float", &dp_cc_type_float},     {"double", &dp_cc_type_double},
};

static struct type *named_type(struct dpcc *c, const struct tok *t)
{
	if (t->kind != TOK_WORD || dp_cc_find_var(c, t))
		return NULL;
	for (struct scope *s = c->scope; s; s = s->up)
		for (struct alias *a = s->aliases; a; a = a->next)
			if (dp_cc_tok_is(t, a->name))
				return a->type;
	for (u32 i = 0; i < DP_ARRAY_SIZE(known); i++)
		if (dp_cc_tok_is(t, known[i].name))
			return known[i].type;
	return NULL;
}

/* `thread` before a word; alone it is a name like others. */
static bool is_thread(const struct tok *t)
{
	return dp_cc_tok_is(t, "thread") && t[1].kind == TOK_WORD;
}

static bool is_specifier(const struct tok *t)
{
	static const char *const words[] = {"void",     "char",   "short",  "int",       "long",    "signed",
					    "unsigned", "_Bool",  "const",  "volatile",  "struct",  "union",
					    "enum",     "static", "extern", "global",    "typedef", "inline",
					    "register", "auto",   "typeof", "__typeof__"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(words); i++)
		if (dp_cc_tok_is(t, words[i]))
			return true;
	return is_thread(t);
}

/* A name of the program's own typedef: where a type may stand, before a name or a star. */
static struct type *debug_alias(struct dpcc *c, const struct tok *t)
{
	const char *name;
	struct type *type;

	if (t->kind != TOK_WORD || dp_cc_find_var(c, t) || (!c->mod && !c->btf))
		return NULL;
	if (t[1].kind != TOK_WORD && !dp_cc_tok_is(&t[1], "*") && !dp_cc_tok_is(&t[1], ")"))
		return NULL;
	name = dp_cc_text(c, t->at, t->len);
	if (dp_cc_find_func(c, name))
		return NULL;
	type = dp_cc_debug_named(c, DW_TAG_typedef, name);
	if (!type)
		type = dp_cc_debug_named(c, DW_TAG_class_type, name);
	if (!type)
		type = dp_cc_debug_named(c, DW_TAG_structure_type, name); /* C++ names them without the keyword */
	return type;
}

bool dp_cc_begins_type(struct dpcc *c)
{
	const struct tok *t = dp_cc_peek(c);

	if (is_specifier(t) || named_type(c, t))
		return true;
	/* (name) and "name *x": only when the name is nothing else. */
	return t->kind == TOK_WORD && t[1].kind != TOK_END && !dp_cc_tok_is(&t[1], "(") && debug_alias(c, t) != NULL;
}

static struct type *find_tag(struct dpcc *c, const char *name, bool here_only)
{
	for (struct scope *s = c->scope; s; s = here_only ? NULL : s->up)
		for (struct type *t = s->tags; t; t = t->next)
			if (t->name && !strcmp(t->name, name))
				return t;
	return NULL;
}

static void parse_members(struct dpcc *c, struct type *t)
{
	struct member **last = &t->members;
	u64 at = 0, bit = 0;

	while (!dp_cc_accept(c, "}")) {
		struct type *base = dp_cc_parse_specifiers(c, NULL, NULL);

		do {
			const struct tok *name = NULL;
			struct type *type = dp_cc_tok_is(dp_cc_peek(c), ";") || dp_cc_tok_is(dp_cc_peek(c), ":")
						? base
						: dp_cc_parse_declarator(c, base, &name);
			struct member *m = dp_cc_alloc(c, sizeof(*m));

			m->type = type;
			m->name = name ? dp_cc_text(c, name->at, name->len) : "";
			if (!type->complete || (!name && type->kind != TY_STRUCT && !dp_cc_tok_is(dp_cc_peek(c), ":")))
				dp_cc_fail(c, dp_cc_peek(c), E_DPCC_TYPE, "this cannot be a member");
			if (dp_cc_accept(c, ":")) {
				u64 bits = (u64)dp_cc_parse_constant(c);

				if (type->kind != TY_INT || bits > type->size * 8 || (!bits && name))
					dp_cc_fail(c, dp_cc_peek(c), E_DPCC_TYPE, "this cannot be a bitfield");
				if (!bits || (bit % (type->size * 8)) + bits > type->size * 8)
					bit = DP_ALIGN_UP(bit, type->size * 8);
				if (!name) {
					bit += bits;
					continue;
				}
				m->offset = t->is_union ? 0 : bit / (type->size * 8) * type->size;
				m->shift = t->is_union ? 0 : (u32)(bit - m->offset * 8);
				m->bits = (u32)bits;
				bit = t->is_union ? 0 : bit + bits;
			} else {
				at = t->is_union ? 0 : DP_ALIGN_UP(DP_ALIGN_UP(bit, 8) / 8, type->align);
				m->offset = at;
				bit = t->is_union ? 0 : (at + type->size) * 8;
			}
			t->align = DP_MAX(t->align, type->align);
			t->size = DP_MAX(t->size,
					 m->bits ? m->offset + (m->shift + m->bits + 7) / 8 : m->offset + type->size);
			*last = m;
			last = &m->next;
		} while (dp_cc_accept(c, ","));
		dp_cc_expect(c, ";");
	}
	t->size = DP_ALIGN_UP(t->size, t->align);
}

static struct type *parse_struct(struct dpcc *c, bool is_union)
{
	const struct tok *at = dp_cc_peek(c);
	const char *name = at->kind == TOK_WORD ? dp_cc_parse_word(c) : NULL;
	struct type *t = name ? find_tag(c, name, dp_cc_tok_is(dp_cc_peek(c), "{") || dp_cc_tok_is(dp_cc_peek(c), ";"))
			      : NULL;

	if (!t && name && !dp_cc_tok_is(dp_cc_peek(c), "{")) {
		t = dp_cc_debug_named(c, is_union ? DW_TAG_union_type : DW_TAG_structure_type, name);
		if (!t && !is_union)
			t = dp_cc_debug_named(c, DW_TAG_class_type, name);
		if (t)
			return t;
	}
	if (!t) {
		t = dp_cc_alloc(c, sizeof(*t));
		*t = (struct type){
		    .kind = TY_STRUCT, .is_union = is_union, .align = 1, .name = name, .next = c->scope->tags};
		c->scope->tags = t;
	}
	if (dp_cc_accept(c, "{")) {
		if (t->complete)
			dp_cc_fail(c, at, E_DPCC_NAME, "'%s' is defined twice", name ? name : "");
		parse_members(c, t);
		t->complete = true;
	}
	return t;
}

static struct type *parse_enum(struct dpcc *c)
{
	const char *name = dp_cc_peek(c)->kind == TOK_WORD ? dp_cc_parse_word(c) : NULL;
	struct type *t = name ? find_tag(c, name, false) : NULL;
	struct enumerator **last;
	s64 v = 0;

	if (!dp_cc_accept(c, "{")) {
		if (!t && name)
			t = dp_cc_debug_named(c, DW_TAG_enumeration_type, name);
		if (!t)
			dp_cc_fail(c, dp_cc_peek(c), E_DPCC_NAME, "there is no enum of this name");
		return t;
	}
	t = dp_cc_alloc(c, sizeof(*t));
	*t = dp_cc_type_uint;
	t->name = name;
	t->next = c->scope->tags;
	c->scope->tags = t;
	last = &t->enums;
	do {
		struct constant *k = dp_cc_alloc(c, sizeof(*k));

		if (dp_cc_tok_is(dp_cc_peek(c), "}"))
			break;
		k->name = dp_cc_parse_word(c);
		if (dp_cc_accept(c, "="))
			v = dp_cc_parse_constant(c);
		k->value = v++;
		k->next = c->scope->constants;
		c->scope->constants = k;
		*last = dp_cc_alloc(c, sizeof(**last));
		**last = (struct enumerator){NULL, k->name, k->value};
		last = &(*last)->next;
		if (k->value < 0)
			t->is_unsigned = false;
	} while (dp_cc_accept(c, ","));
	dp_cc_expect(c, "}");
	return t;
}

static struct type *integer_of(struct dpcc *c, const struct tok *t, u32 n_short, u32 n_long, u32 n_char, bool is_signed,
			       bool is_unsigned)
{
	if ((n_short && (n_long || n_char)) || (n_char && n_long) || (is_signed && is_unsigned) || n_long > 2)
		dp_cc_fail(c, t, E_DPCC_TYPE, "these words do not form a type");
	if (n_char)
		return is_unsigned ? &dp_cc_type_uchar : is_signed ? &dp_cc_type_schar : &dp_cc_type_char;
	if (n_short)
		return is_unsigned ? &dp_cc_type_ushort : &dp_cc_type_short;
	if (n_long)
		return is_unsigned ? &dp_cc_type_ulong : &dp_cc_type_long;
	return is_unsigned ? &dp_cc_type_uint : &dp_cc_type_int;
}

/* static, typedef, global(N) and the like are told by *storage. */
struct type *dp_cc_parse_specifiers(struct dpcc *c, const char **storage, u32 *index)
{
	u32 n_short = 0, n_long = 0, n_char = 0, n_int = 0;
	bool is_signed = false, is_unsigned = false;
	struct type *type = NULL;
	const struct tok *start = dp_cc_peek(c);

	for (;;) {
		const struct tok *t = dp_cc_peek(c);
		bool arithmetic = n_short || n_long || n_char || n_int || is_signed || is_unsigned;

		if (dp_cc_tok_is(t, "static") || dp_cc_tok_is(t, "typedef") || dp_cc_tok_is(t, "extern") ||
		    dp_cc_tok_is(t, "global") || (is_thread(t) && !named_type(c, t))) {
			if (!storage || *storage)
				dp_cc_fail(c, t, E_DPCC_SYNTAX, "this is not allowed here");
			*storage = dp_cc_parse_word(c);
			if (dp_cc_tok_is(t, "global") && dp_cc_accept(c, "(")) {
				*index = (u32)dp_cc_parse_constant(c) + 1;
				dp_cc_expect(c, ")");
			}
		} else if (dp_cc_accept(c, "const") || dp_cc_accept(c, "volatile") || dp_cc_accept(c, "inline") ||
			   dp_cc_accept(c, "register") || dp_cc_accept(c, "auto")) {
			continue;
		} else if (dp_cc_accept(c, "short")) {
			n_short++;
		} else if (dp_cc_accept(c, "long")) {
			n_long++;
		} else if (dp_cc_accept(c, "char")) {
			n_char++;
		} else if (dp_cc_accept(c, "int")) {
			n_int++;
		} else if (dp_cc_accept(c, "signed")) {
			is_signed = true;
		} else if (dp_cc_accept(c, "unsigned")) {
			is_unsigned = true;
		} else if (type || arithmetic) {
			break;
		} else if (dp_cc_accept(c, "void")) {
			type = &dp_cc_type_void;
		} else if (dp_cc_accept(c, "_Bool")) {
			type = &dp_cc_type_bool;
		} else if (dp_cc_accept(c, "struct")) {
			type = parse_struct(c, false);
		} else if (dp_cc_accept(c, "union")) {
			type = parse_struct(c, true);
		} else if (dp_cc_accept(c, "enum")) {
			type = parse_enum(c);
		} else if (dp_cc_accept(c, "typeof") || dp_cc_accept(c, "__typeof__")) {
			dp_cc_expect(c, "(");
			type = dp_cc_begins_type(c) ? dp_cc_parse_type_name(c) : dp_cc_parse_expr(c)->type;
			dp_cc_expect(c, ")");
		} else {
			type = named_type(c, t);
			if (!type)
				type = debug_alias(c, t);
			if (!type && storage && *storage && !strcmp(*storage, "thread"))
				return &dp_cc_type_long; /* thread NAME; */
			if (!type)
				dp_cc_fail(c, t, t->kind == TOK_WORD ? E_DPCC_NAME : E_DPCC_SYNTAX,
					   "a type is missing here");
			c->at++;
		}
	}
	return type ? type : integer_of(c, start, n_short, n_long, n_char, is_signed, is_unsigned);
}

static struct type *array_suffix(struct dpcc *c, struct type *t)
{
	const struct tok *at = dp_cc_peek(c);
	s64 n;

	if (!dp_cc_accept(c, "["))
		return t;
	n = dp_cc_tok_is(dp_cc_peek(c), "]") ? 0 : dp_cc_parse_constant(c);
	dp_cc_expect(c, "]");
	t = array_suffix(c, t);
	if (n < 0 || n > 65536 || !t->complete || t->kind == TY_VOID)
		dp_cc_fail(c, at, E_DPCC_TYPE, "an array cannot have this size or type");
	return dp_cc_type_array(c, t, (u64)n);
}

struct type *dp_cc_parse_declarator(struct dpcc *c, struct type *base, const struct tok **name)
{
	while (dp_cc_accept(c, "*")) {
		base = dp_cc_type_ptr(c, base);
		while (dp_cc_accept(c, "const") || dp_cc_accept(c, "volatile") || dp_cc_accept(c, "restrict"))
			;
	}
	if (dp_cc_tok_is(dp_cc_peek(c), "("))
		dp_cc_fail(c, dp_cc_peek(c), E_DPCC_TYPE, "pointers to functions are not part of the language");
	if (name && dp_cc_peek(c)->kind == TOK_WORD)
		*name = dp_cc_next_tok(c);
	return array_suffix(c, base);
}

struct type *dp_cc_parse_type_name(struct dpcc *c)
{
	return dp_cc_parse_declarator(c, dp_cc_parse_specifiers(c, NULL, NULL), NULL);
}
