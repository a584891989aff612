/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory of the process that stays as long as its own system calls do not say otherwise: the heap, stacks, whatever
 * is private and in no file. A hit loads from it. Every instruction that may make such a call has a probe of the
 * session (a guard), which takes back what the call is about and waits for loads in progress before the call is made.
 *
 * The control side offers a table (host/process/stretches.c); a hit takes it, unless a guard has been passed since the
 * control side began to look. hit/hit-guard.c has the rest.
 */
#ifndef DP_ABI_STRETCH_H
#define DP_ABI_STRETCH_H

#include "base/base.h"

#define DP_STRETCHES 170
#define DP_LOAD_SHIFT 6 /* a slot's word of loads has a line of the cache for itself */
#define DP_LOAD_STRIDE (1u << DP_LOAD_SHIFT)

/* struct dp_stretches, state */
#define DP_STRETCH_SECOND 1ull       /* the second table is in force */
#define DP_STRETCH_CLOSED 2ull       /* nothing is loaded any more */
#define DP_STRETCH_CALL 4ull         /* a call that changes mappings is on its way; a count */
#define DP_STRETCH_CALLS 0x3ffffull  /* of so many */
#define DP_STRETCH_TURN (1ull << 20) /* a count of all that has changed */

struct dp_stretch {
	u64 lo, hi; /* hi is 0 when it was taken back, */
	u64 end;    /* and this, which was hi, as soon as no load is on its way that found it there before */
};

struct dp_stretch_table {
	u64 n;
	u64 brk;                           /* end of what brk() gives and takes */
	struct dp_stretch v[DP_STRETCHES]; /* sorted */
};

struct dp_stretches { /* in memory of the process that its children copy */
	u64 state;    /* DP_STRETCH_* */
	u64 offer;    /* the other table is for whoever finds this state; 0: there is none */
	u64 taken;    /* the last offer that was looked at */
	u64 settled;  /* the table that all loads go by: the other one can be written */
	u32 missed;   /* a hit has found memory in no stretch */
	u32 closer;   /* number of the call that closed it */
	u64 drained;  /* closed, and no load is on its way */
	u64 pad[506];
	struct dp_stretch_table tables[2];
};

/*
 * Whether a system call may take memory away, or make it unreadable, or bring code or other means that can: sites of
 * calls that are not among these need no guard. What the call does is known by its arguments, hit-guard.c.
 */
static inline bool dp_stretch_watches(u32 nr)
{
	switch (nr) {
	case 9:   /* mmap */
	case 10:  /* mprotect */
	case 11:  /* munmap */
	case 12:  /* brk */
	case 16:  /* ioctl */
	case 25:  /* mremap */
	case 28:  /* madvise */
	case 30:  /* shmat */
	case 135: /* personality */
	case 157: /* prctl */
	case 216: /* remap_file_pages */
	case 317: /* seccomp */
	case 323: /* userfaultfd */
	case 329: /* pkey_mprotect */
	case 334: /* rseq */
	case 425: /* io_uring_setup */
	case 426: /* io_uring_enter */
	case 427: /* io_uring_register */
	case 440: /* process_madvise */
		return true;
	default: /* the 32-bit pointers of x32, and what may come */
		return nr > 470;
	}
}

#endif
