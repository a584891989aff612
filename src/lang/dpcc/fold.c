/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Constant expressions, computed as the machine would. */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

static s64 fit(const struct type *t, u64 v)
{
	if (t->is_bool)
		return v != 0;
	switch (t->size) {
	case 1:
		return t->is_unsigned ? (s64)(u8)v : (s8)v;
	case 2:
		return t->is_unsigned ? (s64)(u16)v : (s16)v;
	case 4:
		return t->is_unsigned ? (s64)(u32)v : (s32)v;
	default:
		return (s64)v;
	}
}

static bool fold_binary(const struct node *n, s64 a, s64 b, s64 *v)
{
	bool u = n->a->type->is_unsigned;
	u64 x = (u64)a, y = (u64)b;
	const char *op = n->op;

	if ((*op == '/' || *op == '%') && (!b || (!u && b == -1 && a == INT64_MIN)))
		return false;
	if (!strcmp(op, "<<") || !strcmp(op, ">>")) {
		if (y > 63)
			return false;
		*v = *op == '<' ? (s64)(x << y) : n->type->is_unsigned ? (s64)(x >> y) : a >> b;
	} else if (op[1] == '=' || *op == '<' || *op == '>') {
		bool lt = u ? x < y : a < b, eq = a == b;

		*v = *op == '=' ? eq : *op == '!' ? !eq : *op == '<' ? lt || (op[1] && eq) : !lt && (op[1] || !eq);
	} else {
		*v = *op == '+'   ? (s64)(x + y)
		     : *op == '-' ? (s64)(x - y)
		     : *op == '*' ? (s64)(x * y)
		     : *op == '/' ? (u ? (s64)(x / y) : a / b)
		     : *op == '%' ? (u ? (s64)(x % y) : a % b)
		     : *op == '&' ? (s64)(x & y)
		     : *op == '|' ? (s64)(x | y)
				  : (s64)(x ^ y);
	}
	return true;
}

/* The value of a constant expression; false: it is none. */
bool dp_cc_fold(const struct node *n, s64 *v)
{
	s64 a = 0, b = 0;
	bool good;

	switch (n->kind) {
	case N_NUM:
		if (n->type->kind == TY_FLOAT)
			return false;
		*v = (s64)n->value;
		return true;
	case N_CAST:
	case N_NEG:
	case N_NOT:
	case N_LNOT:
		good = dp_cc_fold(n->a, &a);
		*v = n->kind == N_NEG ? (s64)(0 - (u64)a) : n->kind == N_NOT ? ~a : n->kind == N_LNOT ? !a : a;
		break;
	case N_ANDAND:
		good = dp_cc_fold(n->a, &a) && (!a || dp_cc_fold(n->b, &b));
		*v = a && b;
		break;
	case N_OROR:
		good = dp_cc_fold(n->a, &a) && (a || dp_cc_fold(n->b, &b));
		*v = a || b;
		break;
	case N_COND:
		good = dp_cc_fold(n->a, &a) && dp_cc_fold(a ? n->b : n->c, v);
		break;
	case N_BINARY:
		good = n->type->kind == TY_INT && n->a->type->kind == TY_INT && dp_cc_fold(n->a, &a) &&
		       dp_cc_fold(n->b, &b) && fold_binary(n, a, b, v);
		break;
	default:
		return false;
	}
	if (good && n->type->kind == TY_INT)
		*v = fit(n->type, (u64)*v);
	return good;
}
