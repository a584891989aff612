/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The first and the last steps of every hit, inlined into its few callers: the thread's record, and
 * the marks by which the control side knows who is inside. General registers only.
 */
#ifndef DP_SELF_INSIDE_H
#define DP_SELF_INSIDE_H

#include "host/self/self-priv.h"

/* What self-entry.S is told: go on in the slot; take all registers from struct pt_regs; go through the
 * stub whose address lies below the return address; begin again, with vector registers saved. */
#define HIT_ON 0
#define HIT_ELSEWHERE 1
#define HIT_THROUGH 2
#define HIT_AGAIN (-1)

#define SELF_OOL_ON 8 /* the copies begin behind "lea 136(%rsp),%rsp", where self-entry.S goes back to */

static inline struct self_thread *self_me(void)
{
	return __builtin_expect(!!dp_self_mine, 1) ? dp_self_mine : dp_self_thread();
}

/* self-threads.c: is the hit that this thread is said to be in gone, left by a jump out of a signal handler?
 */
bool dp_self_is_stale(const struct self_thread *t, u64 sp);

/* True when handlers may run. Pairs with dp_self_grace(): depth and seq are written before the list is
 * read. */
static inline bool self_enter(struct self_thread *t, u64 sp)
{
	if (__builtin_expect(t->depth, 0) && !dp_self_is_stale(t, sp))
		return false;
	t->sp = sp;
	__atomic_store_n(&t->seq, t->seq + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&t->depth, 1, __ATOMIC_RELAXED);
	/* The processor may still read the list first: dp_self_grace() has it barred by membarrier. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

static inline void self_leave(struct self_thread *t)
{
	t->kp = NULL;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&t->depth, 0, __ATOMIC_RELEASE); /* pairs with the acquire in dp_self_grace() */
}

#endif
