/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Who called: one row for each stretch of code in which the frame is laid out alike. */
#ifndef DP_ABI_UNWIND_H
#define DP_ABI_UNWIND_H

#include "base/base.h"

enum dp_unwind_kind {                  /* where the frame's upper end is, the place behind the return address */
		      DP_UNWIND_END,   /* nobody called, or it is not known */
		      DP_UNWIND_SP,    /* sp + 8 * cfa */
		      DP_UNWIND_FRAME, /* frame register + 8 * cfa */
		      /* another + 8 * cfa; known at the hit only, as functions that align their stack begin and end */
		      DP_UNWIND_ALIGN,
		      DP_UNWIND_FRAME_WORD, /* the word at frame register + 8 * cfa */
		      DP_UNWIND_PLT,        /* sp + 8, and 8 more from byte cfa on of each 16 */
		      DP_UNWIND_SIGNAL,     /* a signal frame */
};

#define DP_UNWIND_AT_FRAME 1 /* the caller's frame register is where this one points */

struct dp_unwind_row {
	u32 pc;       /* where it begins, from the module's lo */
	s32 cfa : 20; /* in words */
	/* the caller's frame register is that many words from the upper end; 0: unchanged; DP_UNWIND_AT_FRAME */
	s32 frame : 8;
	u32 kind : 4; /* enum dp_unwind_kind */
};

_Static_assert(sizeof(struct dp_unwind_row) == 8, "a row is copied as one word");

struct dp_unwind_module {
	u64 lo, hi;
	u64 rows; /* struct dp_unwind_row[], sorted */
	u64 n;
};

struct dp_unwind {
	u64 n;
	u64 digest;                        /* of all that follows but addresses of rows; not 0 */
	struct dp_unwind_module modules[]; /* sorted, not overlapping */
};

#endif
