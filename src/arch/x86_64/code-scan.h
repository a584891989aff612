/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Looking for bytes without decoding them. At a place that is found an instruction of the kind may stand; at all others
 * none does. Some 20 times as fast as decoding.
 */
#ifndef DP_CODE_SCAN_H
#define DP_CODE_SCAN_H

#include "base/base.h"

#define DP_SCAN_OVERLAP 3 /* bytes that two parts of the code have in common, so that nothing is missed between them */

/*
 * The first offset at or behind `from` of two bytes of an indirect jump through a register or a slot of the stack, or
 * of a branch with 16 bits (xbegin); n when there is none.
 */
u64 dp_scan_jump(const u8 *code, u64 n, u64 from);

/* Code that begins at addr, and the addresses [lo, hi) that it may refer to. */
struct dp_scan_refs {
	u64 addr, lo, hi;
	bool absolute; /* also by four bytes that are the address itself */
};

/* The first offset at or behind `from` of four bytes that refer to one of them, whatever follows in the instruction. */
u64 dp_scan_ref(const struct dp_scan_refs *refs, const u8 *code, u64 n, u64 from);

#endif
