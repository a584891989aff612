/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where detours lie: finds addresses at which a jump's displacement bytes are trapping bytes
 * wherever the window demands it, in memory that is free. Bookkeeping only; the host maps the areas later.
 */
#ifndef DP_AREA_H
#define DP_AREA_H

#include "base/error.h"

struct dp_area {
	u64 lo, hi;
	u8 *used;          /* bit per byte */
	u64 hint;          /* nothing is free below, for requests without a fixed low byte */
	u32 low_hint[256]; /* the same by lowest address byte, as offset from lo */
};

struct dp_space {
	struct dp_range *busy; /* sorted, merged: address space in use */
	u32 nbusy, cap_busy;
	struct dp_area *areas;
	u32 nareas, cap_areas;
};

/* Mark [lo, hi) as in use. Ranges may come in any order and overlap. */
int dp_space_busy(struct dp_space *s, u64 lo, u64 hi);
void dp_space_free(struct dp_space *s);

struct dp_place {
	u64 next;               /* address behind the five-byte jump */
	u8 bounds;              /* bit i (1..4): byte i of the jump must trap */
	u32 size;               /* bytes of the detour */
	u64 reach_lo, reach_hi; /* the detour must lie in here */
};

/* 0 and *addr, or -ERANGE (E_SITE_REACH). */
int dp_space_place(struct dp_space *s, const struct dp_place *want, u64 *addr, struct dp_error *err);

/* What dp_space_place() has given is free again; nobody executes it any more. */
void dp_space_give(struct dp_space *s, u64 addr, u32 size);

#endif
