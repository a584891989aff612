/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The store of free instances that each thread keeps for itself, inlined into return probes' hits.
 * The rest of the handing out is in instances.c. General registers only.
 */
#ifndef DP_SELF_STORE_H
#define DP_SELF_STORE_H

#include "host/self/inside.h"

/*
 * A thread opens its own store for a few instructions, without a barrier: a thief first sets shut,
 * then has a membarrier, then waits for open to be 0. So either the owner saw shut and leaves the
 * store alone, or the thief sees open: the fence pairs with that membarrier. A signal handler never comes between: its
 * hits are nested.
 */
static inline bool open_store(struct self_thread *t)
{
	__atomic_store_n(&t->open, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(!__atomic_load_n(&t->shut, __ATOMIC_RELAXED), 1))
		return true;
	__atomic_store_n(&t->open, 0, __ATOMIC_RELEASE); /* pairs with the acquire in shut_store() */
	return false;
}

static inline void close_store(struct self_thread *t)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&t->open, 0, __ATOMIC_RELEASE); /* pairs with the acquire in shut_store() */
}

static inline struct dp_instance *self_take_own(struct dp_holder *h, struct self_thread *t)
{
	struct self_shelf *shelf = &t->store[h->id % SELF_SHELVES];
	struct dp_instance *i = NULL;

	if (!open_store(t))
		return NULL;
	if (shelf->id == h->id) {
		i = shelf->first;
		if (i)
			__atomic_store_n(&shelf->first, i->kept, __ATOMIC_RELAXED);
	}
	close_store(t);
	return i;
}

/* t is NULL when the probe is gone, or the thread is not inside a hit: then everybody may have it.
 */
static inline void self_give_back(struct dp_instance *i, struct self_thread *t)
{
	struct dp_holder *h = i->holder;
	struct self_shelf *shelf;

	__atomic_store_n(&i->owner, 0, __ATOMIC_RELAXED);
	if (!t || __atomic_load_n(&h->crowded, __ATOMIC_RELAXED) || !open_store(t)) {
		dp_self_give_shared(i);
		return;
	}
	shelf = &t->store[h->id % SELF_SHELVES];
	if (!shelf->first)
		__atomic_store_n(&shelf->id, h->id, __ATOMIC_RELAXED);
	if (shelf->id == h->id) {
		i->kept = shelf->first;
		__atomic_store_n(&shelf->first, i, __ATOMIC_RELAXED);
		i = NULL;
	}
	close_store(t);
	if (i)
		dp_self_give_shared(i);
}

#endif
