/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What this machine can do, found out by trying: documents of a processor, a kernel or a hypervisor say what should
 * work, and some of it does not. Everything here is tried once in a process and remembered.
 */
#ifndef DP_MEASURE_H
#define DP_MEASURE_H

#include "abi/abi-watch.h"
#include "base/error.h"

/* ---- debug registers (measure-watch.c) ---- */

enum dp_measured {
	DP_UNKNOWN, /* it could not be tried: errno of the attempt in *e */
	DP_WORKS,
	DP_DEAD, /* the kernel took it, and nothing came of it */
};

struct perf_event_attr;

/*
 * Open an event of a debug register: accesses of this kind by user code in that thread, 0: the own one. *a holds what
 * the caller wants besides. Code has the length of its own. Returns the descriptor, or -1 with errno.
 */
int dp_measure_watch_open(struct perf_event_attr *a, enum dp_watch_type type, u64 addr, u32 len, int tid);

/* A watchpoint of this kind on a word of our own, fired once. e may be NULL. */
enum dp_measured dp_measure_watch(enum dp_watch_type type, int *e);

/* E_WATCH_DEAD where a watchpoint of this kind would never fire, else 0. */
int dp_measure_watch_check(enum dp_watch_type type, struct dp_error *err);

/* ---- instructions (cpu.c) ---- */

enum dp_trial {
	DP_TRY_RSEQ, /* not an instruction: the processor's number in the thread's restartable-sequence area */
	DP_TRY_RDPID,
	DP_TRY_RDTSCP,
	DP_TRY_LSL,
	DP_TRY_RDFSBASE,
	DP_TRY_RDGSBASE,
	DP_TRY_FS_WORD, /* the word at the thread pointer is its own address */
	DP_NTRIALS
};

struct dp_trial_result {
	bool told;      /* processor and kernel say that it is there */
	u32 ran, right; /* processors on which it ran, and gave what the kernel says */
	u64 got, want;  /* of the last one where these differ */
};

struct dp_machine {
	u32 tried; /* processors that we may run on */
	struct dp_trial_result v[DP_NTRIALS];
	/* DP_CAP_RDPID, _RDTSCP, _LSL, _RDFSBASE: told, and right on every processor; _RSEQ: not known to be wrong */
	u32 caps;
	bool fsbase_runs; /* rdfsbase was right on every processor, whatever is told */
};

/*
 * Tried in a child of our own, on every processor that we may run on. Takes about a tenth of a millisecond for each
 * processor, the first time. Where no child can be made nothing but what is told is known, and caps says so.
 */
const struct dp_machine *dp_measure_machine(void);

/* ---- costs (measure-cost.c) ---- */

/*
 * Nanoseconds, the shortest of some rounds, which take less than a millisecond together the first time: of reading the
 * time stamp beside other work (some processors do both at once), of a signal with an empty handler (SIGURG, in the
 * calling thread), and of an access that a debug register watches. 0: it could not be tried.
 */
double dp_measure_stamp_ns(void);
double dp_measure_call_ns(void); /* a system call that does next to nothing */
double dp_measure_read_ns(void); /* a few words of memory, by a system call */
double dp_measure_signal_ns(void);
double dp_measure_watch_ns(void);

#endif
