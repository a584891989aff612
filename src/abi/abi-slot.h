/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A slot: one thread's place to run hits. Writable in the target. */
#ifndef DP_ABI_SLOT_H
#define DP_ABI_SLOT_H

#include "abi/abi-regs.h"
#include "base/base.h"

#define DP_HIT_SLOT_SIZE (256 * 1024)
#define DP_HIT_SLOT_SHIFT 18
#define DP_HIT_SLOT_HEAD 4096
#define DP_HIT_SLOT_VM 8192                    /* struct dp_vm */
#define DP_HIT_SLOT_STACK_TOP DP_HIT_SLOT_SIZE /* the stack grows down from here to the end of the vm */
/* Where an entry keeps the registers. Before a hit changes stacks, sp among them tells where its own lies. */
#define DP_HIT_SLOT_REGS (DP_HIT_SLOT_STACK_TOP - sizeof(struct dp_regs) - 24)
#define DP_HIT_SLOT_ABANDONED (~0ull) /* owner of a slot whose hit never ended: the key of no thread */
#define DP_HIT_SLOT_CALLS 4           /* power of two */
#define DP_STRETCH_HINTS 4
#define DP_HIT_SLOT_TRIES 16 /* slots that a thread may try before its hit is missed */

struct dp_rseq_cs {
	u32 version, flags;
	u64 start_ip, post_commit_offset, abort_ip;
} __attribute__((aligned(32)));

/*
 * One thread's place to run a hit: own stack, machine state, owner. A slot belongs to the thread whose thread
 * pointer (with bit 0 set) is in owner; nobody else touches it. Signal handlers of the program that interrupt a
 * hit run on this stack too (unless they asked for one of their own), so it is large; pages never touched cost nothing.
 */
struct dp_hit_slot {   /* at DP_HIT_SLOT_HEAD from the slot's start */
	u64 owner;     /* 0: free; DP_HIT_SLOT_ABANDONED */
	u32 busy;      /* DP_HIT_SLOT_TAKEN or _ENTERED, a hit is in progress: further ones are missed */
	u32 ready;     /* the fields below are set up */
	u64 rseq;      /* address of the thread's restartable-sequence area, 0 none */
	u32 index;     /* of this slot */
	u32 tcb;       /* the thread pointer points at a control block of the usual kind */
	u64 calm;      /* stack pointers from here on are known not to lie on the alternate signal stack, ... */
	u64 calm_size; /* ... that many; 0 at first */
	u64 mask;      /* the program's signal mask, while `blocked` */
	u32 blocked;   /* the hit came from the alternate stack, or it is not known: no signal comes until it ends */
	u32 left;      /* hits until the alternate stack is looked up again */
	struct dp_rseq_cs cs_commit;
	struct dp_rseq_cs cs_count;
	u64 thread;               /* the owner's thread pointer, also when it has given the slot up */
	u64 call_sp;              /* stack pointer at the entry of the call for which memory is watched; 0: none */
	u64 call_addr, call_last; /* that memory, and its value at the last hit */
	u32 call_watch, pad;
	u64 context;   /* while the hit of a watchpoint goes on: its signal's context; else 0 */
	u64 page_addr; /* where the store begins that page_copy makes */
	u64 page_left; /* in a page that is to be closed again at the end of the hit; 0: none */
	/* the copy that the thread was sent to, index + 1, or DP_HIT_AFTER and its point, index + 1; 0: none */
	u32 page_copy;
	u32 page_len;     /* bytes that it stores; 0: not known */
	u32 page_lost;    /* page_copy was set when it was set again: by a signal handler that came between */
	u32 doubts;       /* missed hits of which it is not known whether the hit in progress will ever end */
	u64 alternate[3]; /* stack_t: what the thread was told about its alternate stack at a missed hit */
	u64 frame;        /* of the last hit, on the program's stack: without it nobody comes back from that hit */
	/*
	 * The hit has stopped the process for a debugger (present.c): DP_STOPPED_* while the thread stands in it, and
	 * the point's address, 0 when a program has sent the thread elsewhere. Once it was sent back, the hit comes
	 * again.
	 */
	u64 stopped, stopped_at;
	struct dp_rseq_cs cs_load;
	u32 hints[DP_STRETCH_HINTS]; /* offsets of stretches that were found lately, in their table */
	u32 wants;                   /* code of a program has found its memory in none of them */
	u32 next_hint;
	u64 guard_sp; /* stack pointer at a call that changes mappings, while it is on its way; 0: none */
	/*
	 * The numbers of system calls on their way (arch/compile.h): each by the stack pointer, as dp_kept_call() puts
	 * them together; 0: none. A place holds one call: that of a signal's handler that finds it taken is kept by
	 * programs.
	 */
	u64 calls[DP_HIT_SLOT_CALLS];
};

_Static_assert(sizeof(struct dp_hit_slot) <= DP_HIT_SLOT_VM - DP_HIT_SLOT_HEAD, "it lies in front of the vm");

#define DP_KEPT_CALL_BITS 16 /* of a word of calls, for the number; above them the stack pointer */
#define DP_KEPT_CALLS 512    /* numbers from here on are not kept */
#define DP_KEPT_CALL_SHIFT 4 /* of the stack pointer, for the index of its place */

static inline u64 dp_kept_call(u64 sp, u32 number)
{
	return sp << DP_KEPT_CALL_BITS | number;
}

#define DP_STOPPED_AT_POINT 1 /* the instruction is still to come */
#define DP_STOPPED_BEHIND 2   /* a watched access has happened: only the end of the hit is to come */

#endif
