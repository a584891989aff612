/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Instances of return probes: who has a free one. Each thread keeps those that it has given back,
 * and takes them again without a locked operation (store.h); the others lie on their holder's list.
 * When that is empty, what other threads keep is taken from them, so that no call goes unprobed
 * while an instance is free. Part of the hit path: no lock, general registers only.
 */
#include <errno.h>
#include <sys/syscall.h>

#include "engine/freelist.h"
#include "host/self/store.h"
#include "host/self/trap.h"

#define SYNC_CORE 32 /* of membarrier: the one that this process is registered for */
#define PATIENCE 200 /* times to wait for a thread that is stopped between two instructions */

static HIT struct dp_instance *take_shared(struct dp_holder *h)
{
	u32 number = dp_freelist_take(&h->free, &h->v[0].next, sizeof(h->v[0]));

	return number ? &h->v[number - 1] : NULL;
}

HIT void dp_self_give_shared(struct dp_instance *i)
{
	struct dp_holder *h = i->holder;

	dp_freelist_give(&h->free, &i->next, (u32)(i - h->v + 1));
}

/* The store is ours until shut is 0 again. */
static HIT bool shut_store(struct self_thread *t)
{
	u32 no = 0;

	/*
	 * Pairs with the release of who had shut it before, and by the membarrier with the owner's look in
	 * open_store().
	 */
	if (!__atomic_compare_exchange_n(&t->shut, &no, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	if (!dp_self_syscall(SYS_membarrier, SYNC_CORE, 0, 0, 0))
		for (u32 n = 0; n < PATIENCE; n++) {
			if (!__atomic_load_n(&t->open, __ATOMIC_ACQUIRE)) /* pairs with close_store() */
				return true;
			dp_self_syscall(SYS_sched_yield, 0, 0, 0, 0);
		}
	__atomic_store_n(&t->shut, 0, __ATOMIC_RELEASE); /* pairs with the exchange above */
	return false;
}

/* What threads keep for h goes to its list. False when a store could not be opened. */
HIT bool dp_self_collect(struct dp_holder *h, const struct self_thread *me)
{
	u32 used = __atomic_load_n(&dp_self_threads_used, __ATOMIC_ACQUIRE); /* pairs with new_thread() */
	bool all = true;

	for (u32 k = 0; k < used && k < SELF_THREADS; k++) {
		struct self_thread *t = &dp_self_threads[k];
		struct self_shelf *shelf = &t->store[h->id % SELF_SHELVES];
		struct dp_instance *i;

		if (t == me || __atomic_load_n(&shelf->id, __ATOMIC_RELAXED) != h->id ||
		    !__atomic_load_n(&shelf->first, __ATOMIC_RELAXED))
			continue;
		if (!shut_store(t)) {
			all = false;
			continue;
		}
		if (shelf->id == h->id) {
			i = shelf->first;
			__atomic_store_n(&shelf->first, NULL, __ATOMIC_RELAXED);
			for (struct dp_instance *next; i; i = next) {
				next = i->kept;
				dp_self_give_shared(i);
			}
		}
		__atomic_store_n(&t->shut, 0, __ATOMIC_RELEASE); /* pairs with the exchange in shut_store() */
	}
	return all;
}

/*
 * Has the call been left by a jump? Then its place on the stack holds something else by now, or may
 * still hold our landing: that counts as under way. Several return probes on one call form a chain.
 */
static HIT bool is_over(const struct dp_instance *i, u64 sp)
{
	u64 v;

	if (i->holder->exits) /* a mistake loses a return, no more: whatever lies below is taken for
				 left */
		return i->loc < sp;
	if (!dp_self_read(i->loc, &v, 8))
		return true; /* the stack itself is gone */
	for (u32 n = 0; n < 64; n++) {
		struct dp_instance *j = dp_self_instance_at(v);

		if (j == i)
			return false;
		if (!j || j->loc != i->loc)
			return true;
		v = j->back;
	}
	return false;
}

static HIT void give_up(struct dp_instance *i)
{
	__atomic_store_n(&i->owner, 0, __ATOMIC_RELAXED);
	dp_self_give_shared(i);
}

/* No instance is free: look for calls of this thread, and now and then of ended threads, that never
 * returned; and for what other threads keep. */
static HIT struct dp_instance *reclaim(struct dp_holder *h, struct self_thread *t, u64 sp)
{
	bool all = __atomic_fetch_add(&h->misses, 1, __ATOMIC_RELAXED) % 64 == 0, kept = false;
	long pid = dp_self_syscall(SYS_getpid, 0, 0, 0, 0);

	for (u32 k = 0; k < h->n; k++) {
		u64 owner = __atomic_load_n(&h->v[k].owner, __ATOMIC_RELAXED);

		kept |= !owner;
		if (owner == (u32)t->tid && is_over(&h->v[k], sp))
			give_up(&h->v[k]);
		else if (owner && owner != (u32)t->tid && all &&
			 dp_self_syscall(SYS_tgkill, pid, (long)owner, 0, 0) == -ESRCH &&
			 __atomic_compare_exchange_n(&h->v[k].owner, &owner, ~0ull, false, __ATOMIC_ACQ_REL,
						     __ATOMIC_RELAXED))
			give_up(&h->v[k]); /* -1: only one thread may find it; the exchange pairs with itself */
	}
	if (kept) {
		/* More threads than instances: to collect them again and again would cost far more
		 * than a list that they share. */
		__atomic_store_n(&h->crowded, 1, __ATOMIC_RELAXED);
		dp_self_collect(h, t);
	}
	return take_shared(h);
}

/* The thread has none of its own. */
HIT struct dp_instance *dp_self_find(struct dp_holder *h, struct self_thread *t, u64 sp)
{
	struct dp_instance *i = take_shared(h);

	return i ? i : reclaim(h, t, sp);
}
