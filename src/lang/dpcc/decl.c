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
    {"int8_t", &ty_schar},    {"uint8_t", &ty_uchar},   {"int16_t", &ty_short},
    {"uint16_t", &ty_ushort}, {"int32_t", &ty_int},     {"uint32_t", &ty_uint},
    {"int64_t", &ty_long},    {"uint64_t", &ty_ulong},  {"size_t", &ty_ulong},
    {"ssize_t", &ty_long},    {"uintptr_t", &ty_ulong}, {"intptr_t", &ty_long},
    {"bool", &ty_bool},       {"u8", &ty_uchar},        {"u16", &ty_ushort},
    {"u32", &ty_uint},        {"u64", &ty_ulong},       {"s8", &ty_schar},
    {"s16", &ty_short},       {"s32", &ty_int},         {"s64", &ty_long},
    {"float", &ty_float},     {"double", &ty_double},
};

static struct type *named_type(struct dpcc *c, const struct tok *t)
{
	if (t->kind != TOK_WORD || find_var(c, t))
		return NULL;
	for (struct scope *s = c->scope; s; s = s->up)
		for (struct alias *a = s->aliases; a; a = a->next)
			if (tok_is(t, a->name))
				return a->type;
	for (u32 i = 0; i < DP_ARRAY_SIZE(known); i++)
		if (tok_is(t, known[i].name))
			return known[i].type;
	return NULL;
}

static bool is_specifier(const struct tok *t)
{
	static const char *const words[] = {
	    "void",    "char",     "short",    "int",   "long",   "signed",    "unsigned", "_Bool",
	    "const",   "volatile", "struct",   "union", "enum",   "static",    "extern",   "global",
	    "typedef", "inline",   "register", "auto",  "typeof", "__typeof__"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(words); i++)
		if (tok_is(t, words[i]))
			return true;
	return false;
}

/* A name of the program's own typedef: where a type may stand, before a name or a star. */
static struct type *debug_alias(struct dpcc *c, const struct tok *t)
{
	const char *name;
	struct type *type;

	if (t->kind != TOK_WORD || find_var(c, t) || (!c->mod && !c->btf))
		return NULL;
	if (t[1].kind != TOK_WORD && !tok_is(&t[1], "*") && !tok_is(&t[1], ")"))
		return NULL;
	name = dpcc_text(c, t->at, t->len);
	if (find_func(c, name))
		return NULL;
	type = debug_named(c, DW_TAG_typedef, name);
	if (!type)
		type = debug_named(c, DW_TAG_class_type, name);
	if (!type)
		type = debug_named(c, DW_TAG_structure_type,
				   name); /* C++ names them without the keyword */
	return type;
}

bool begins_type(struct dpcc *c)
{
	const struct tok *t = peek(c);

	if (is_specifier(t) || named_type(c, t))
		return true;
	/* (name) and "name *x": only when the name is nothing else. */
	return t->kind == TOK_WORD && t[1].kind != TOK_END && !tok_is(&t[1], "(") &&
	       debug_alias(c, t) != NULL;
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

	while (!accept(c, "}")) {
		struct type *base = parse_specifiers(c, NULL, NULL);

		do {
			const struct tok *name = NULL;
			struct type *type = tok_is(peek(c), ";") || tok_is(peek(c), ":")
						? base
						: parse_declarator(c, base, &name);
			struct member *m = dpcc_alloc(c, sizeof(*m));

			m->type = type;
			m->name = name ? dpcc_text(c, name->at, name->len) : "";
			if (!type->complete ||
			    (!name && type->kind != TY_STRUCT && !tok_is(peek(c), ":")))
				dpcc_fail(c, peek(c), E_DPCC_TYPE, "this cannot be a member");
			if (accept(c, ":")) {
				u64 bits = (u64)parse_constant(c);

				if (type->kind != TY_INT || bits > type->size * 8 ||
				    (!bits && name))
					dpcc_fail(c, peek(c), E_DPCC_TYPE,
						  "this cannot be a bitfield");
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
				at = t->is_union
					 ? 0
					 : DP_ALIGN_UP(DP_ALIGN_UP(bit, 8) / 8, type->align);
				m->offset = at;
				bit = t->is_union ? 0 : (at + type->size) * 8;
			}
			t->align = DP_MAX(t->align, type->align);
			t->size = DP_MAX(t->size, m->bits ? m->offset + (m->shift + m->bits + 7) / 8
							  : m->offset + type->size);
			*last = m;
			last = &m->next;
		} while (accept(c, ","));
		expect(c, ";");
	}
	t->size = DP_ALIGN_UP(t->size, t->align);
}

static struct type *parse_struct(struct dpcc *c, bool is_union)
{
	const struct tok *at = peek(c);
	const char *name = at->kind == TOK_WORD ? parse_word(c) : NULL;
	struct type *t =
	    name ? find_tag(c, name, tok_is(peek(c), "{") || tok_is(peek(c), ";")) : NULL;

	if (!t && name && !tok_is(peek(c), "{")) {
		t = debug_named(c, is_union ? DW_TAG_union_type : DW_TAG_structure_type, name);
		if (!t && !is_union)
			t = debug_named(c, DW_TAG_class_type, name);
		if (t)
			return t;
	}
	if (!t) {
		t = dpcc_alloc(c, sizeof(*t));
		*t = (struct type){.kind = TY_STRUCT,
				   .is_union = is_union,
				   .align = 1,
				   .name = name,
				   .next = c->scope->tags};
		c->scope->tags = t;
	}
	if (accept(c, "{")) {
		if (t->complete)
			dpcc_fail(c, at, E_DPCC_NAME, "'%s' is defined twice", name ? name : "");
		parse_members(c, t);
		t->complete = true;
	}
	return t;
}

static struct type *parse_enum(struct dpcc *c)
{
	const char *name = peek(c)->kind == TOK_WORD ? parse_word(c) : NULL;
	struct type *t = name ? find_tag(c, name, false) : NULL;
	struct enumerator **last;
	s64 v = 0;

	if (!accept(c, "{")) {
		if (!t && name)
			t = debug_named(c, DW_TAG_enumeration_type, name);
		if (!t)
			dpcc_fail(c, peek(c), E_DPCC_NAME, "there is no enum of this name");
		return t;
	}
	t = dpcc_alloc(c, sizeof(*t));
	*t = ty_uint;
	t->name = name;
	t->next = c->scope->tags;
	c->scope->tags = t;
	last = &t->enums;
	do {
		struct constant *k = dpcc_alloc(c, sizeof(*k));

		if (tok_is(peek(c), "}"))
			break;
		k->name = parse_word(c);
		if (accept(c, "="))
			v = parse_constant(c);
		k->value = v++;
		k->next = c->scope->constants;
		c->scope->constants = k;
		*last = dpcc_alloc(c, sizeof(**last));
		**last = (struct enumerator){NULL, k->name, k->value};
		last = &(*last)->next;
		if (k->value < 0)
			t->is_unsigned = false;
	} while (accept(c, ","));
	expect(c, "}");
	return t;
}

static struct type *integer_of(struct dpcc *c, const struct tok *t, u32 n_short, u32 n_long,
			       u32 n_char, bool is_signed, bool is_unsigned)
{
	if ((n_short && (n_long || n_char)) || (n_char && n_long) || (is_signed && is_unsigned) ||
	    n_long > 2)
		dpcc_fail(c, t, E_DPCC_TYPE, "these words make no type together");
	if (n_char)
		return is_unsigned ? &ty_uchar : is_signed ? &ty_schar : &ty_char;
	if (n_short)
		return is_unsigned ? &ty_ushort : &ty_short;
	if (n_long)
		return is_unsigned ? &ty_ulong : &ty_long;
	return is_unsigned ? &ty_uint : &ty_int;
}

/* static, typedef, global(N) and the like are told by *storage. */
struct type *parse_specifiers(struct dpcc *c, const char **storage, u32 *index)
{
	u32 n_short = 0, n_long = 0, n_char = 0, n_int = 0;
	bool is_signed = false, is_unsigned = false;
	struct type *type = NULL;
	const struct tok *start = peek(c);

	for (;;) {
		const struct tok *t = peek(c);
		bool arithmetic = n_short || n_long || n_char || n_int || is_signed || is_unsigned;

		if (tok_is(t, "static") || tok_is(t, "typedef") || tok_is(t, "extern") ||
		    tok_is(t, "global")) {
			if (!storage || *storage)
				dpcc_fail(c, t, E_DPCC_SYNTAX, "this does not belong here");
			*storage = parse_word(c);
			if (tok_is(t, "global") && accept(c, "(")) {
				*index = (u32)parse_constant(c) + 1;
				expect(c, ")");
			}
		} else if (accept(c, "const") || accept(c, "volatile") || accept(c, "inline") ||
			   accept(c, "register") || accept(c, "auto")) {
			continue;
		} else if (accept(c, "short")) {
			n_short++;
		} else if (accept(c, "long")) {
			n_long++;
		} else if (accept(c, "char")) {
			n_char++;
		} else if (accept(c, "int")) {
			n_int++;
		} else if (accept(c, "signed")) {
			is_signed = true;
		} else if (accept(c, "unsigned")) {
			is_unsigned = true;
		} else if (type || arithmetic) {
			break;
		} else if (accept(c, "void")) {
			type = &ty_void;
		} else if (accept(c, "_Bool")) {
			type = &ty_bool;
		} else if (accept(c, "struct")) {
			type = parse_struct(c, false);
		} else if (accept(c, "union")) {
			type = parse_struct(c, true);
		} else if (accept(c, "enum")) {
			type = parse_enum(c);
		} else if (accept(c, "typeof") || accept(c, "__typeof__")) {
			expect(c, "(");
			type = begins_type(c) ? parse_type_name(c) : parse_expr(c)->type;
			expect(c, ")");
		} else {
			type = named_type(c, t);
			if (!type)
				type = debug_alias(c, t);
			if (!type)
				dpcc_fail(c, t, t->kind == TOK_WORD ? E_DPCC_NAME : E_DPCC_SYNTAX,
					  "a type is missing here");
			c->at++;
		}
	}
	return type ? type : integer_of(c, start, n_short, n_long, n_char, is_signed, is_unsigned);
}

static struct type *array_suffix(struct dpcc *c, struct type *t)
{
	const struct tok *at = peek(c);
	s64 n;

	if (!accept(c, "["))
		return t;
	n = tok_is(peek(c), "]") ? 0 : parse_constant(c);
	expect(c, "]");
	t = array_suffix(c, t);
	if (n < 0 || n > 65536 || !t->complete || t->kind == TY_VOID)
		dpcc_fail(c, at, E_DPCC_TYPE, "an array of this size or type cannot be");
	return type_array(c, t, (u64)n);
}

struct type *parse_declarator(struct dpcc *c, struct type *base, const struct tok **name)
{
	while (accept(c, "*")) {
		base = type_ptr(c, base);
		while (accept(c, "const") || accept(c, "volatile") || accept(c, "restrict"))
			;
	}
	if (tok_is(peek(c), "("))
		dpcc_fail(c, peek(c), E_DPCC_TYPE,
			  "pointers to functions are not part of the language");
	if (name && peek(c)->kind == TOK_WORD)
		*name = next_tok(c);
	return array_suffix(c, base);
}

struct type *parse_type_name(struct dpcc *c)
{
	return parse_declarator(c, parse_specifiers(c, NULL, NULL), NULL);
}
