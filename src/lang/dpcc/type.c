/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Types: those of C on x86-64, and their conversions. */
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

/* Modes of files are shown in octal, wherever they come from. */
struct type *dp_cc_type_named(struct dpcc *c, struct type *of, const char *name)
{
	static const char *const modes[] = {"mode_t", "__mode_t", "umode_t", "__kernel_mode_t"};
	struct type *t;

	for (u32 i = 0; name && of->kind == TY_INT && i < DP_ARRAY_SIZE(modes); i++) {
		if (strcmp(name, modes[i]))
			continue;
		t = dp_cc_alloc(c, sizeof(*t));
		*t = *of;
		t->is_octal = true;
		return t;
	}
	return of;
}

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
		return (a->name && b->name && *a->name && !strcmp(a->name, b->name)) ||
		       (a->die.addr && a->die.addr == b->die.addr);
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

bool dp_cc_is_real(const struct type *t)
{
	return t->kind == TY_FLOAT && !t->is_complex && (t->size == 4 || t->size == 8);
}

bool dp_cc_type_is_text(const struct type *t)
{
	return (t->kind == TY_PTR || t->kind == TY_ARRAY) && t->of->kind == TY_INT && t->of->size == 1 &&
	       t->of->is_char;
}
