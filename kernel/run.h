/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A verified program at a hit, for everything that has programs: the event files (event.c) and the
 * sessions of the device (session.c). Hits on one processor do not nest, so each processor has one
 * machine and, in each log, one ring with one producer.
 */
#ifndef DP_KERNEL_RUN_H
#define DP_KERNEL_RUN_H

#include "kernel-priv.h"
#include "hit/vm.h"
#include "program/program.h"

struct dp_k_sink { /* one processor's end of a log */
	struct dp_ring *ring; /* a reader may map it: only its tail is read, and not believed */
	u8 *data;
	u64 mask; /* of the data's size */
	u64 head;
	u64 overwritten; /* records */
	bool overwrite;  /* a full ring gives up its oldest records, not the new one */
} ____cacheline_aligned;

struct dp_k_prog {
	struct dp_code_rt rt;
	u32 event;                /* in records */
	u32 probe_flags;          /* DP_PROBE_* */
	s16 ret_at;               /* where the return address belongs in the payload, -1: nowhere */
	struct dp_k_sink *sinks;  /* by processor */
	u8 *counts;               /* struct dp_counts of the first processor */
	u64 counts_stride;        /* bytes to the next one's */
};

int dp_k_run_init(void);
void dp_k_run_exit(void);

/* By the program: what it needs at the hit, but for the log. */
void dp_k_prog_init(struct dp_k_prog *p, const struct dp_program *prog);

/* Hit path, preemption off. Runs it, logs, counts. */
void dp_k_run(const struct dp_k_prog *p, struct pt_regs *regs, u64 ret_addr);

static __always_inline struct dp_counts *dp_k_counts(const struct dp_k_prog *p, u32 cpu)
{
	return (struct dp_counts *)(p->counts + cpu * p->counts_stride);
}

#endif
