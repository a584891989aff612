/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a session has put into the code: points and their probes, which the hit path looks up; where program counters in
 * displaced code belong; the bytes that were overwritten.
 */
#ifndef DP_ABI_POINT_H
#define DP_ABI_POINT_H

#include "abi/abi-program.h"

#define DP_PROBE_ENABLED 0x1
#define DP_PROBE_RETURN 0x2      /* at a function's exit: the return address is at the stack pointer */
#define DP_PROBE_WAITS 0x4       /* its records wait until the probed instruction has been carried out */
#define DP_PROBE_WATCH_BEGIN 0x8 /* instead of a program code is a struct dp_watch_path: that memory is watched */
#define DP_PROBE_WATCH_END 0x10  /* until here */
/* Without a program, and never enabled: a call that may change mappings comes (hit-guard.c), or has been made. */
#define DP_PROBE_GUARD 0x20
#define DP_PROBE_GUARD_END 0x40
#define DP_PROBE_CALL_END 0x80 /* behind a system call, and its program looks at the number that was kept of it */

/* In the number of a point that a detour calls with: this is the second hit, behind the instruction. */
#define DP_HIT_AFTER 0x80000000u

struct dp_probe_rt {
	struct dp_code_rt prog;
	u32 event; /* index for records and counts */
	u32 flags; /* DP_PROBE_* */
	u64 addr;  /* run-time address of the probepoint, what regs->ip shows */
};

struct dp_point {   /* what one detour calls: all probes at one address */
	u64 addr;   /* run-time address of the probed instruction */
	u64 resume; /* address of its copy in the detour: where execution goes on */
	u32 first;  /* first probe, index into probes[] */
	u32 n;
	/* no probes, but an instruction that stores to watched pages: its index into copies[], + 1; 0: probes */
	u64 store;
};

struct dp_redirect { /* where a program counter found on a patched byte belongs; sorted by pc */
	u64 pc;      /* an address at which a trapping byte stands */
	u64 to;      /* where execution goes on */
};

/* In `to` of a place in a detour: the hits that stand before that instruction have been. */
#define DP_HOME_BEHIND (1ull << 63)

/* How many of n such entries are of addresses below pc: the index of its own, if it has one, else of the next. */
static inline u32 dp_redirects_below(const struct dp_redirect *v, u32 n, u64 pc)
{
	return (u32)DP_COUNT_BELOW(v, n, pc, pc);
}

/* Where a program counter found at pc belongs; 0 when it may stay. */
static inline u64 dp_redirect_find(const struct dp_redirect *v, u32 n, u64 pc)
{
	u32 i = dp_redirects_below(v, n, pc);

	return i < n && v[i].pc == pc ? v[i].to : 0;
}

struct dp_patch { /* one overwritten place */
	u64 addr;
	u8 len;    /* bytes overwritten: 1 or 5 */
	u8 bounds; /* bit i: byte i is a trapping boundary byte */
	u8 orig[5];
	u8 jump[5];
	u32 file;        /* in a process: by which the file that was mapped there is known again; 0: not known */
#define DP_FILE_STAYS 1u /* in it: the program cannot unload that file */
	/* Several sessions at one place, each with a detour that has the hits of those before it, too (same-site.c). */
	u32 rank;   /* who comes later has a larger one */
	u8 span;    /* bytes of the displaced instructions */
	u8 nwords;  /* of the detour, which lead to the entries of other sessions */
	u16 single; /* nobody else may come to this place */
	u64 words;  /* address of the first one; the byte before it is a return */
};

#endif
