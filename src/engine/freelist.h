/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A list of free members of an array, taken and given by any number of threads without a lock, also in
 * signal handlers and exceptions. Part of the hit path of both hosts with C handlers: the instances of
 * return probes. Members go by their number, from 1 on.
 */
#ifndef DP_FREELIST_H
#define DP_FREELIST_H

#include "base/base.h"

/*
 * Changes in the upper half, which keep a list that was changed and changed back from looking the same; the
 * first member's number in the lower, 0: empty. Atomic.
 */
typedef u64 dp_freelist;

/* The member's number, 0: there is none. next: that word of the first member, stride bytes to the second's. */
static inline __attribute__((__always_inline__)) u32 dp_freelist_take(dp_freelist *l, const u32 *next, size_t stride)
{
	u64 old = __atomic_load_n(l, __ATOMIC_ACQUIRE), new; /* pairs as the exchange below */

	do {
		const u32 *of;

		if (!(u32)old)
			return 0;
		of = (const u32 *)((const char *)next + ((u32)old - 1) * stride);
		new = ((old >> 32) + 1) << 32 | __atomic_load_n(of, __ATOMIC_RELAXED);
		/* Acquire pairs with the release of dp_freelist_give(): what the giver has written is seen. */
	} while (!__atomic_compare_exchange_n(l, &old, new, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	return (u32)old;
}

static inline __attribute__((__always_inline__)) void dp_freelist_give(dp_freelist *l, u32 *next, u32 number)
{
	u64 old = __atomic_load_n(l, __ATOMIC_RELAXED), new;

	do {
		__atomic_store_n(next, (u32)old, __ATOMIC_RELAXED);
		new = ((old >> 32) + 1) << 32 | number;
		/* Pairs with the acquires of dp_freelist_take(). */
	} while (!__atomic_compare_exchange_n(l, &old, new, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

#endif
