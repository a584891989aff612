/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where traps go on: a hash table that one thread changes and any number read at any time, signal
 * handlers included. Entries are never removed, old tables never freed: a trap may be reported long
 * after its byte went away.
 */
#include "engine/manager.h"

#define FIRST_SIZE 1024

static u32 hash(u64 pc)
{
	return (u32)((pc * 0x9e3779b97f4a7c15ull) >> 32);
}

/* The entry of pc, or the free one where it belongs. */
static struct dp_redirect *entry_of(struct dp_traps *t, u64 pc)
{
	u32 i = hash(pc);

	for (;; i++) {
		struct dp_redirect *r = &t->v[i & t->mask];
		u64 at = __atomic_load_n(&r->pc, __ATOMIC_ACQUIRE); /* pairs with the release in put() */

		if (!at || at == pc)
			return r;
	}
}

static void put(struct dp_traps *t, u64 pc, u64 to)
{
	struct dp_redirect *r = entry_of(t, pc);

	__atomic_store_n(&r->to, to, __ATOMIC_RELEASE); /* pairs with the acquire in dp_mgr_redirect() */
	if (!r->pc) {
		t->used++;
		/* Whoever sees pc sees where it goes to. Pairs with the acquire in entry_of(). */
		__atomic_store_n(&r->pc, pc, __ATOMIC_RELEASE);
	}
}

static struct dp_traps *make(u32 size)
{
	struct dp_traps *t = dp_alloc(sizeof(*t) + size * sizeof(t->v[0]));

	if (t)
		t->mask = size - 1;
	return t;
}

int dp_traps_set(struct dp_manager *m, u64 pc, u64 to)
{
	struct dp_traps *t = m->traps, *bigger;

	if (!t || t->used * 2 > t->mask) {
		bigger = make(t ? (t->mask + 1) * 2 : FIRST_SIZE);
		if (!bigger)
			return -ENOMEM;
		for (u32 i = 0; t && i <= t->mask; i++)
			if (t->v[i].pc)
				put(bigger, t->v[i].pc, t->v[i].to);
		bigger->old = t;
		t = bigger;
		/* Pairs with the acquire in dp_mgr_redirect(): the copied entries are seen. */
		__atomic_store_n(&m->traps, t, __ATOMIC_RELEASE);
	}
	put(t, pc, to);
	return 0;
}

u64 dp_mgr_redirect(struct dp_manager *m, u64 pc)
{
	/* Pair with the releases in dp_traps_set() and put(). */
	struct dp_traps *t = __atomic_load_n(&m->traps, __ATOMIC_ACQUIRE);

	return t && pc ? __atomic_load_n(&entry_of(t, pc)->to, __ATOMIC_ACQUIRE) : 0;
}
