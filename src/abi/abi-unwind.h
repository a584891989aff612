/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Who called: one row for each stretch of code in which the frame is laid out alike. */
#ifndef DP_ABI_UNWIND_H
#define DP_ABI_UNWIND_H

#include "base/base.h"

enum dp_unwind_kind {                /* where the frame's upper end is, the place behind the return address */
		      DP_UNWIND_END, /* nobody called, or it is not known */
		      DP_UNWIND_SP,  /* sp + 8 * cfa */
		      DP_UNWIND_BP,  /* bp + 8 * cfa */
		      /* r10 + 8 * cfa; known at the hit only, as functions that align their stack begin and end */
		      DP_UNWIND_R10,
		      DP_UNWIND_BP_WORD, /* the word at bp + 8 * cfa */
		      DP_UNWIND_PLT,     /* sp + 8, and 8 more from byte cfa on of each 16 */
		      DP_UNWIND_SIGNAL,  /* a signal frame */
};

#define DP_UNWIND_AT_BP 1 /* the caller's bp is where bp points */

struct dp_unwind_row {
	u32 pc;       /* where it begins, from the module's lo */
	s32 cfa : 20; /* in words */
	s32 bp : 8; /* the caller's bp is that many words from the upper end; 0: it has not changed; DP_UNWIND_AT_BP */
	u32 kind : 4; /* enum dp_unwind_kind */
};

struct dp_unwind_module {
	u64 lo, hi;
	u64 rows; /* struct dp_unwind_row[], sorted */
	u64 n;
};

struct dp_unwind {
	u64 n;
	struct dp_unwind_module modules[]; /* sorted, not overlapping */
};

#endif
