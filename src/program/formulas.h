/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The lines of formulas.def as functions: dp_alu_ADD(x, y) and so on. Included by the hit path, too. */
#ifndef DP_FORMULAS_H
#define DP_FORMULAS_H

#include "base/base.h"

#define FORMULA(type, name, other, formula)       \
	static inline type name(u64 x, u64 other) \
	{                                         \
		(void)other;                      \
		return formula;                   \
	}
#define DP_ALU(name, formula) FORMULA(u64, dp_alu_##name, y, formula)
#define DP_CC(name, formula) FORMULA(bool, dp_cc_##name, y, formula)
#define DP_SHIFT(name, formula) FORMULA(u64, dp_shift_##name, n, formula)
#define DP_BITS(name, formula) FORMULA(u64, dp_bits_##name, n, formula)
#include "program/formulas.def"
#undef FORMULA

#endif
