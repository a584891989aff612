/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Memory that is watched by its pages, and the copies of the instructions that store there (hit/page.c, hit/copy.c). */
#ifndef DP_ABI_PAGE_H
#define DP_ABI_PAGE_H

#include "base/base.h"

/* In the data of the signal of a page fault, as DP_WATCH_MAGIC; instead of the index: */
#define DP_PAGE_MAGIC 0xd950ull
#define DP_PAGE_BY_CALL 1 /* the kernel faulted, on behalf of the program */

#define DP_COPIES 4096     /* instructions that may be known, power of two */
#define DP_COPY_CODE 128   /* bytes of code of one of them */
#define DP_PAGES_RANGES 64 /* stretches of pages */
#define DP_PAGES_MAX 65536 /* pages in all */

enum dp_copy_state { DP_COPY_FREE, DP_COPY_BUSY, DP_COPY_READY, DP_COPY_NONE };

enum dp_copy_asked {
	DP_COPY_UNASKED,
	DP_COPY_ASKED, /* threads wait until it has a point of its own, or cannot have one */
	DP_COPY_ANSWERED,
};

struct dp_copy {   /* an instruction that stores to watched pages; its code is a copy of it, a hit, and the way back */
	u64 ip;    /* where it stands in the program */
	u32 state; /* enum dp_copy_state */
	u32 asked; /* enum dp_copy_asked */
	u64 body[14]; /* copy.c's own */
};

struct dp_copies {
	struct dp_copy v[DP_COPIES];
	u64 nready;
	u64 nasked; /* for how many of them threads have waited, up to DP_COPY_ASKS; then nobody waits any more */
};

#define DP_COPY_ASKS 64

/* Instead of a point: a copy of an instruction has stored to watched pages. */
#define DP_HIT_PAGE 0x40000000u

#endif
