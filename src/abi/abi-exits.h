/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Exit facilities of a process, between the hit path and libdprobes, which calls them: by the names dp_self_exits (what
 * is registered, for the control side) and dp_self_exit_call (for the hit).
 */
#ifndef DP_ABI_EXITS_H
#define DP_ABI_EXITS_H

#include "abi/abi-regs.h"
#include "base/base.h"

#define DP_EXITS_MAGIC 0x3154495845504444ull
#define DP_EXITS_VERSION 1
#define DP_EXITS_MAX 32

struct dp_exits_row {
	u64 exit;   /* address of the struct dp_exit; 0: none */
	u64 owner;  /* what its program or shared object is known by */
	u32 inside; /* calls under way */
	u32 nargs, nresults, pad;
	char name[32];
};

struct dp_exits_registry {
	u64 magic;
	u32 version, pad;
	struct dp_exits_row rows[DP_EXITS_MAX];
};

struct dp_exit_call {
	const u8 *name; /* not ended */
	u32 len, nargs, nresults, pad;
	struct dp_regs *regs;
	const u64 *args;
	u64 *results;
};

/* 0, or a positive errno. It uses general registers only, and saves the others where a facility is called. */
typedef u32 dp_exit_call_fn(const struct dp_exit_call *c);

#endif
