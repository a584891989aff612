/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Floating point in handlers. The machine has integers only, so float and double are computed by functions in the
 * language itself, on the bits of a double, rounded to the nearest as the processor does.
 */
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

#define SIGN "0x8000000000000000ul"
#define INFINITE "0x7ff0000000000000ul"
#define NOT_A_NUMBER "0x7ff8000000000000ul"
#define FRACTION "0xffffffffffffful"

const char dp_cc_prelude_float[] =
    "int __dp_nan(unsigned long a) { return (a << 1) > 0xffe0000000000000ul; }\n"
    "long __dp_key(unsigned long a) { return a >> 63 ? -(long)(a & ~" SIGN ") : (long)a; }\n"
    "int __dp_lt(unsigned long a, unsigned long b) { return !__dp_nan(a) && !__dp_nan(b) && __dp_key(a) < "
    "__dp_key(b); }\n"
    "int __dp_le(unsigned long a, unsigned long b) { return !__dp_nan(a) && !__dp_nan(b) && __dp_key(a) <= "
    "__dp_key(b); }\n"
    "int __dp_eq(unsigned long a, unsigned long b) { return !__dp_nan(a) && !__dp_nan(b) && __dp_key(a) == "
    "__dp_key(b); }\n"
    /* m * 2^e, rounded; the lowest bit of m stands for all that is below it as well. */
    "unsigned long __dp_pack(unsigned long s, long e, unsigned long m) { unsigned long r; long x;"
    " if (!m) return s; while (!(m >> 63)) { m <<= 1; e--; } x = e + 1086;"
    " if (x >= 2047) return s | " INFINITE ";"
    " if (x <= 0) { m = x < -62 ? 1 : m >> (1 - x) | ((m << (63 + x)) != 0); x = 1; r = m >> 11; }"
    " else r = m >> 11;"
    " if ((m & 2047) > 1024 || ((m & 2047) == 1024 && (r & 1))) r++;"
    " return s | (((unsigned long)(x - 1) << 52) + r); }\n"
    "unsigned long __dp_from_ulong(unsigned long v) { return __dp_pack(0, 0, v); }\n"
    "unsigned long __dp_from_long(long v) { return v < 0 ? __dp_pack(" SIGN ", 0, -(unsigned long)v) :"
    " __dp_pack(0, 0, v); }\n"
    "unsigned long __dp_from_float(unsigned int f) { unsigned long s = (unsigned long)(f >> 31) << 63;"
    " unsigned long m = f & 0x7fffff;"
    " long e = f >> 23 & 255; if (e == 255) return s | " INFINITE " | m << 29;"
    " if (!e) return __dp_pack(s, -149, m); return s | (unsigned long)(e + 896) << 52 | m << 29; }\n"
    "long __dp_to_long(unsigned long a) { long x = a >> 52 & 2047, e = x - 1075;"
    " unsigned long m = (a & " FRACTION ") | 1ul << 52; if (x < 1023) return 0; if (e > 11) return " SIGN ";"
    " m = e >= 0 ? m << e : m >> -e; return a >> 63 ? -m : m; }\n"
    "unsigned int __dp_to_float(unsigned long a) { unsigned int s = a >> 32 & 0x80000000u;"
    " long x = a >> 52 & 2047, n = 29;"
    " unsigned long m = a & " FRACTION ", r = 0, lost;"
    " if (x == 2047) return s | 0x7f800000u | (m ? 0x400000u : 0);"
    " if (x) m |= 1ul << 52; else x = 1; x -= 896; if (x <= 0) { n += 1 - x; x = 1; }"
    " if (n < 55) { r = m >> n; lost = m << (64 - n); if (lost > " SIGN " || (lost == " SIGN " && (r & 1))) r++; }"
    " if (x >= 255) return s | 0x7f800000u; return s + ((x - 1) << 23) + r; }\n"
    "unsigned long __dp_add(unsigned long a, unsigned long b) { unsigned long ma, mb; long ea, eb, d;"
    " if (__dp_nan(a) || __dp_nan(b)) return " NOT_A_NUMBER ";"
    " if ((a & ~" SIGN ") < (b & ~" SIGN ")) { ma = a; a = b; b = ma; }"
    " ea = a >> 52 & 2047; eb = b >> 52 & 2047; if (ea == 2047) return eb == 2047 && a != b ? " NOT_A_NUMBER " : a;"
    " ma = (a & " FRACTION ") << 10; mb = (b & " FRACTION ") << 10;"
    " if (ea) ma |= 1ul << 62; else ea = 1; if (eb) mb |= 1ul << 62; else eb = 1; d = ea - eb;"
    " if (d > 62) mb = mb != 0; else if (d) mb = mb >> d | ((mb << (64 - d)) != 0);"
    " if ((a ^ b) >> 63) { ma -= mb; if (!ma) return 0; } else ma += mb;"
    " return __dp_pack(a & " SIGN ", ea - 1085, ma); }\n"
    "unsigned long __dp_sub(unsigned long a, unsigned long b) { return __dp_add(a, b ^ " SIGN "); }\n"
    "unsigned long __dp_mul(unsigned long a, unsigned long b) { unsigned long s = (a ^ b) & " SIGN
    ", ma, mb, p, q, r, lo;"
    " long ea, eb; if (__dp_nan(a) || __dp_nan(b)) return " NOT_A_NUMBER "; a &= ~" SIGN "; b &= ~" SIGN ";"
    " if (a == " INFINITE " || b == " INFINITE ") return !a || !b ? " NOT_A_NUMBER " : s | " INFINITE ";"
    " if (!a || !b) return s; ea = a >> 52; eb = b >> 52; ma = a & " FRACTION "; mb = b & " FRACTION ";"
    " if (ea) ma |= 1ul << 52; else ea = 1; if (eb) mb |= 1ul << 52; else eb = 1;"
    " while (!(ma >> 52)) { ma <<= 1; ea--; } while (!(mb >> 52)) { mb <<= 1; eb--; } ma <<= 11; mb <<= 11;"
    " lo = ma * mb; p = (ma >> 32) * (mb & 0xffffffff); q = (ma & 0xffffffff) * (mb >> 32);"
    " r = ((ma & 0xffffffff) * (mb & 0xffffffff) >> 32) + (p & 0xffffffff) + (q & 0xffffffff);"
    " ma = (ma >> 32) * (mb >> 32) + (p >> 32) + (q >> 32) + (r >> 32);"
    " return __dp_pack(s, ea + eb - 2108, ma | (lo != 0)); }\n"
    "unsigned long __dp_div(unsigned long a, unsigned long b) { unsigned long s = (a ^ b) & " SIGN ", ma, mb, q; int i;"
    " long ea, eb; if (__dp_nan(a) || __dp_nan(b)) return " NOT_A_NUMBER "; a &= ~" SIGN "; b &= ~" SIGN ";"
    " if (a == " INFINITE ") return b == " INFINITE " ? " NOT_A_NUMBER " : s | " INFINITE ";"
    " if (b == " INFINITE ") return s; if (!b) return a ? s | " INFINITE " : " NOT_A_NUMBER "; if (!a) return s;"
    " ea = a >> 52; eb = b >> 52; ma = a & " FRACTION "; mb = b & " FRACTION ";"
    " if (ea) ma |= 1ul << 52; else ea = 1; if (eb) mb |= 1ul << 52; else eb = 1;"
    " while (!(ma >> 52)) { ma <<= 1; ea--; } while (!(mb >> 52)) { mb <<= 1; eb--; }"
    " q = ma / mb; ma %= mb; for (i = 0; i < 5; i++) { q = q << 11 | (ma << 11) / mb; ma = (ma << 11) % mb; }"
    " return __dp_pack(s, ea - eb - 56, q << 1 | (ma != 0)); }\n";

/* A call of one of the functions above. */
static struct node *computed(struct dpcc *c, const struct tok *t, const char *name, struct node *a, struct node *b,
			     struct type *type)
{
	struct node *n = dp_cc_node_new(c, N_CALL, t);

	n->func = dp_cc_find_func(c, name);
	n->func->used = true;
	n->type = type;
	n->a = dp_cc_node_new(c, N_COMMA, t);
	n->a->a = a;
	if (b) {
		n->a->next = dp_cc_node_new(c, N_COMMA, t);
		n->a->next->a = b;
	}
	return n;
}

struct node *dp_cc_real_cast(struct dpcc *c, struct node *n, struct type *to)
{
	struct type *from = n->type;
	double d;
	s64 v;

	if (!dp_cc_is_real(from) && from->kind == TY_INT && dp_cc_fold(n, &v)) {
		d = from->is_unsigned ? (double)(u64)v : (double)v;
		n = dp_cc_node_new(c, N_NUM, n->tok);
		memcpy(&n->value, &d, 8);
		n->type = &dp_cc_type_double;
	} else if (!dp_cc_is_real(from)) {
		n = computed(c, n->tok, from->is_unsigned ? "__dp_from_ulong" : "__dp_from_long", n, NULL,
			     &dp_cc_type_double);
	} else if (from->size == 4) {
		n = computed(c, n->tok, "__dp_from_float", n, NULL, &dp_cc_type_double);
	}
	if (dp_cc_is_real(to))
		return to->size == 8 ? n : computed(c, n->tok, "__dp_to_float", n, NULL, to);
	if (to->is_bool)
		return dp_cc_real_binary(c, n->tok, "!=", n, dp_cc_node_number(c, n->tok, 0, &dp_cc_type_int));
	return dp_cc_cast_to(c, computed(c, n->tok, "__dp_to_long", n, NULL, &dp_cc_type_long), to);
}

static struct node *negated(struct dpcc *c, const struct tok *t, struct node *a)
{
	struct node *n = dp_cc_node_new(c, N_LNOT, t);

	n->a = a;
	n->type = &dp_cc_type_int;
	return n;
}

struct node *dp_cc_real_binary(struct dpcc *c, const struct tok *t, const char *op, struct node *a, struct node *b)
{
	static const struct {
		const char *op, *name;
		bool compares, swapped, negated;
	} table[] = {
	    {"+", "__dp_add", false, false, false}, {"-", "__dp_sub", false, false, false},
	    {"*", "__dp_mul", false, false, false}, {"/", "__dp_div", false, false, false},
	    {"<", "__dp_lt", true, false, false},   {">", "__dp_lt", true, true, false},
	    {"<=", "__dp_le", true, false, false},  {">=", "__dp_le", true, true, false},
	    {"==", "__dp_eq", true, false, false},  {"!=", "__dp_eq", true, false, true},
	};
	struct node *n;

	if ((!dp_cc_is_real(a->type) && a->type->kind != TY_INT) ||
	    (!dp_cc_is_real(b->type) && b->type->kind != TY_INT))
		dp_cc_fail(c, t, E_DPCC_TYPE, "%s and %s cannot be combined", dp_cc_type_name(c, a->type),
			   dp_cc_type_name(c, b->type));
	a = dp_cc_real_cast(c, a, &dp_cc_type_double);
	b = dp_cc_real_cast(c, b, &dp_cc_type_double);
	for (u32 i = 0; i < DP_ARRAY_SIZE(table); i++) {
		if (strcmp(op, table[i].op))
			continue;
		n = computed(c, t, table[i].name, table[i].swapped ? b : a, table[i].swapped ? a : b,
			     table[i].compares ? &dp_cc_type_int : &dp_cc_type_double);
		return table[i].negated ? negated(c, t, n) : n;
	}
	dp_cc_fail(c, t, E_DPCC_TYPE, "%s takes only integers", op);
}
