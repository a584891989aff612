/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Types: those of C on x86-64, their conversions, and how records describe them. */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

#define INTEGER(name_, size_, is_unsigned_, ...)                                                           \
	{                                                                                                  \
		.kind = TY_INT, .name = name_, .size = size_, .align = size_, .is_unsigned = is_unsigned_, \
		.complete = true, __VA_ARGS__                                                              \
	}

struct type dp_cc_type_void = {.kind = TY_VOID, .name = "void", .complete = true, .size = 1, .align = 1};
struct type dp_cc_type_bool = INTEGER("_Bool", 1, true, .is_bool = true);
struct type dp_cc_type_char = INTEGER("char", 1, false, .is_char = true);
struct type dp_cc_type_schar = INTEGER("signed char", 1, false);
struct type dp_cc_type_uchar = INTEGER("unsigned char", 1, true);
struct type dp_cc_type_short = INTEGER("short", 2, false);
struct type dp_cc_type_ushort = INTEGER("unsigned short", 2, true);
struct type dp_cc_type_int = INTEGER("int", 4, false);
struct type dp_cc_type_uint = INTEGER("unsigned int", 4, true);
struct type dp_cc_type_long = INTEGER("long", 8, false);
struct type dp_cc_type_ulong = INTEGER("unsigned long", 8, true);
struct type dp_cc_type_float = {.kind = TY_FLOAT, .name = "float", .size = 4, .align = 4, .complete = true};
struct type dp_cc_type_double = {.kind = TY_FLOAT, .name = "double", .size = 8, .align = 8, .complete = true};

static struct type ty_function = {.kind = TY_FUNC, .size = 1, .align = 1, .complete = true};
struct type dp_cc_type_code = {
    .kind = TY_PTR, .size = 8, .align = 8, .of = &ty_function, .complete = true, .is_unsigned = true};

struct type *dp_cc_type_ptr(struct dpcc *c, struct type *of)
{
	struct type *t = dp_cc_alloc(c, sizeof(*t));

	*t = (struct type){.kind = TY_PTR, .size = 8, .align = 8, .of = of, .complete = true, .is_unsigned = true};
	return t;
}

struct type *dp_cc_type_array(struct dpcc *c, struct type *of, u64 n)
{
	struct type *t = dp_cc_alloc(c, sizeof(*t));

	*t = (struct type){
	    .kind = TY_ARRAY, .size = n * of->size, .align = of->align, .of = of, .n = n, .complete = true};
	return t;
}

bool dp_cc_type_is_scalar(const struct type *t)
{
	return t->kind == TY_INT || t->kind == TY_PTR;
}

bool dp_cc_type_same(const struct type *a, const struct type *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind || a->size != b->size)
		return false;
	switch (a->kind) {
	case TY_INT:
		return a->is_unsigned == b->is_unsigned;
	case TY_PTR:
		return dp_cc_type_same(a->of, b->of);
	case TY_ARRAY:
		return a->n == b->n && dp_cc_type_same(a->of, b->of);
	case TY_STRUCT: /* of the same name: one unit's view of a type is as good as another's */
		return a->name && b->name && *a->name && !strcmp(a->name, b->name);
	default:
		return true;
	}
}

struct type *dp_cc_type_promote(struct type *t)
{
	if (t->kind != TY_INT)
		return t;
	if (t->size < 4)
		return &dp_cc_type_int;
	return t->size == 4     ? (t->is_unsigned ? &dp_cc_type_uint : &dp_cc_type_int)
	       : t->is_unsigned ? &dp_cc_type_ulong
				: &dp_cc_type_long;
}

struct type *dp_cc_type_common(struct type *a, struct type *b)
{
	a = dp_cc_type_promote(a);
	b = dp_cc_type_promote(b);
	if (a->size != b->size)
		return a->size > b->size ? a : b;
	return a->is_unsigned ? a : b;
}

const char *dp_cc_type_name(struct dpcc *c, const struct type *t)
{
	switch (t->kind) {
	case TY_PTR:
		return dp_cc_format(c, "%s *", dp_cc_type_name(c, t->of));
	case TY_ARRAY:
		return dp_cc_format(c, "%s [%llu]", dp_cc_type_name(c, t->of), (unsigned long long)t->n);
	case TY_STRUCT:
		return dp_cc_format(c, "%s %s", t->is_union ? "union" : "struct", t->name ? t->name : "{...}");
	case TY_FUNC:
		return "function";
	default:
		return t->name ? t->name : t->size == 8 ? "long" : "int";
	}
}

/* ---- as records describe them ---- */

/* Declarations of the same text are one: each probed instruction makes its own types. */
static u32 declare(struct dpcc *c, const char *text)
{
	struct buf *b = &c->decls;
	char *line = b->s ? strstr(b->s, text) : NULL;
	u32 n = 0;

	if (line) {
		while (line > b->s && line[-1] != '\n')
			line--;
		sscanf(line, "layout = T%u", &n);
		return n;
	}
	dp_cc_buf_put(c, b, "layout = T%u", ++c->ntypes);
	dp_cc_buf_add(c, b, text, strlen(text));
	return c->ntypes;
}

static void put_members(struct dpcc *c, struct buf *b, struct type *t, const struct tok *at)
{
	bool first = true;

	for (struct member *m = t->members; m; m = m->next) {
		const char *type = dp_cc_type_field(c, m->type, at);

		dp_cc_buf_put(c, b, "%s", first ? " " : ", ");
		dp_cc_put_quoted(c, b, m->name);
		dp_cc_buf_put(c, b, " %s @ %llu", type, (unsigned long long)m->offset);
		if (m->bits)
			dp_cc_buf_put(c, b, " bits %u %u", m->shift, m->bits);
		first = false;
	}
}

/* Of the formats of 16 bytes only the processor's own is shown as a number. */
static const char *real_field(struct dpcc *c, const struct type *t)
{
	u64 one = t->is_complex ? t->size / 2 : t->size;

	if (one != 4 && one != 8 && (one != 16 || !t->name || strstr(t->name, "128")))
		return dp_cc_format(c, "x8[%llu]", (unsigned long long)t->size);
	if (t->is_complex)
		return dp_cc_format(c, "c%llu", (unsigned long long)t->size * 8);
	return one == 16 ? "f80" : one == 8 ? "f64" : "f32";
}

const char *dp_cc_type_field(struct dpcc *c, struct type *t, const struct tok *at)
{
	struct buf b = {0};

	if (t->lazy)
		dp_cc_debug_complete(c, t);
	switch (t->kind) {
	case TY_PTR:
		return t->of->kind == TY_FUNC ? "code" : "ptr";
	case TY_FLOAT:
		return real_field(c, t);
	case TY_ARRAY:
		return dp_cc_format(c, "%s[%llu]", dp_cc_type_field(c, t->of, at), (unsigned long long)t->n);
	case TY_INT:
		if (!t->enums)
			return t->is_bool   ? "bool"
			       : t->is_char ? "char"
			       : t->size > 16 || t->size & (t->size - 1)
				   ? dp_cc_format(c, "x8[%llu]", (unsigned long long)t->size)
				   : dp_cc_format(c, "%c%llu", t->is_unsigned ? 'u' : 's',
						  (unsigned long long)t->size * 8);
		if (t->number)
			return dp_cc_format(c, "T%u", t->number);
		dp_cc_buf_put(c, &b, " %llu %s {", (unsigned long long)t->size, t->is_flags ? "flags" : "enum");
		for (struct enumerator *e = t->enums; e; e = e->next) {
			dp_cc_buf_put(c, &b, "%s", e == t->enums ? " " : ", ");
			dp_cc_put_quoted(c, &b, e->name);
			dp_cc_buf_put(c, &b, " %lld", (long long)e->value);
			if (t->is_flags && e->mask != (u64)e->value)
				dp_cc_buf_put(c, &b, " of %llu", (unsigned long long)e->mask);
		}
		break;
	case TY_STRUCT:
		if (!t->complete)
			return dp_cc_format(c, "x8[%llu]", (unsigned long long)t->size);
		if (t->number)
			return dp_cc_format(c, "T%u", t->number);
		dp_cc_buf_put(c, &b, " %llu %s {", (unsigned long long)t->size, t->is_union ? "union" : "struct");
		put_members(c, &b, t, at);
		break;
	default:
		dp_cc_fail(c, at, E_DPCC_TYPE, "this cannot be logged: %s", dp_cc_type_name(c, t));
	}
	dp_cc_buf_put(c, &b, " }\n");
	t->number = declare(c, b.s);
	return dp_cc_format(c, "T%u", t->number);
}
