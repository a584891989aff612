/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What processors add to words of aggregates stands apart, one set of words behind the other, so that none waits for
 * another one's: the value of a word is the sum of all. Only hits write there; whoever sets a word sets the sum.
 */
#ifndef DP_ABI_APART_H
#define DP_ABI_APART_H

#include "base/base.h"

struct dp_apart {
	u64 stride; /* bytes, from a word to the first processor's, and from there to the next one's */
	u32 n;      /* processors; 0: nothing stands apart */
};

static inline u64 dp_apart_stride(u64 nwords)
{
	return DP_ALIGN_UP(nwords * 8, 4096ull);
}

/* What processors have added to a word. */
static inline u64 dp_apart_added(volatile const u64 *word, struct dp_apart apart)
{
	u64 sum = 0;

	for (u32 i = 1; i <= apart.n; i++)
		sum += __atomic_load_n(word + i * (apart.stride / 8), __ATOMIC_RELAXED);
	return sum;
}

static inline u64 dp_apart_read(volatile const u64 *word, struct dp_apart apart)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED) + dp_apart_added(word, apart);
}

/* Sets a word to 0 to which no hit can add meanwhile: programs may read it. */
static inline void dp_apart_clear(volatile u64 *word, struct dp_apart apart)
{
	for (u32 i = 0; i <= apart.n; i++)
		word[i * (apart.stride / 8)] = 0;
}

static inline void dp_apart_set(volatile u64 *word, struct dp_apart apart, u64 value)
{
	__atomic_store_n(word, value - dp_apart_added(word, apart), __ATOMIC_RELAXED);
}

#endif
