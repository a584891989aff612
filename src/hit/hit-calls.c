/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory that a function's arguments lead to is watched until that call returns. Only the control side can set a debug
 * register (its descriptors are not ours, nor its rights), so the thread asks it and waits; who gets no answer misses
 * the call.
 */
#include "abi/abi-point.h"
#include "abi/abi-watch.h"
#include "hit/hit-priv.h"

#define SYS_FUTEX 202
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define ETIMEDOUT 110
#define WAITS 10 /* that end without an answer; */
#define WAIT_NS 20000000
#define TURNS 1000 /* interrupted or not */

/* False: there is no answer, and from now on nobody asks any more. */
static bool await(struct dp_asks *asks, struct dp_ask *a, u32 *state)
{
	u64 patience[2] = {0, WAIT_NS};
	u32 waits = 0;

	for (u32 turn = 0; turn < TURNS && waits < WAITS; turn++) {
		/* Pairs with the control side's release of its answer. */
		*state = __atomic_load_n(&a->state, __ATOMIC_ACQUIRE);
		if (*state >= DP_ASK_DONE)
			return true;
		waits += dp_syscall(SYS_FUTEX, (u64)&a->state, FUTEX_WAIT, DP_ASK_ASKED, (u64)patience, 0, 0) ==
			 -ETIMEDOUT;
	}
	__atomic_store_n(&asks->serving, 0, __ATOMIC_RELAXED);
	return false;
}

/* addr 0: watched no more. */
static bool ask(const struct dp_hit *h, u32 watch, u64 addr)
{
	struct dp_asks *asks = (struct dp_asks *)h->ctl->asks;
	struct dp_ask *a = NULL;
	u32 state;

	/* Pairs with the releases in dp_calls_begin() and dp_calls_end(). */
	if (!asks || !__atomic_load_n(&asks->serving, __ATOMIC_ACQUIRE))
		return false;
	for (u32 i = 0; i < DP_ASKS && !a; i++) {
		u32 nobody = DP_ASK_FREE;

		/* Pairs with the release of whoever gave it back. */
		if (__atomic_compare_exchange_n(&asks->v[i].state, &nobody, DP_ASK_TAKEN, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			a = &asks->v[i];
	}
	if (!a)
		return false;
	a->tid = h->tid;
	a->watch = watch;
	a->addr = addr;
	/*
	 * The question before its state, and that before the doorbell: the control side looks at them the other way
	 * round.
	 */
	__atomic_store_n(&a->state, DP_ASK_ASKED, __ATOMIC_RELEASE);
	__atomic_fetch_add(&asks->doorbell, 1, __ATOMIC_RELEASE);
	dp_syscall(SYS_FUTEX, (u64)&asks->doorbell, FUTEX_WAKE, 1, 0, 0, 0);
	if (!await(asks, a, &state))
		return false; /* the question stays with whom it may still reach */
	__atomic_store_n(&a->state, DP_ASK_FREE, __ATOMIC_RELEASE);
	return state == DP_ASK_DONE;
}

/* From the register along the pointers. */
static bool find_memory(struct dp_hit *h, const struct dp_watch_path *c, u64 *addr)
{
	u64 v = ((const u64 *)h->regs)[c->reg_word];

	for (u32 i = 0; i + 1 < c->n; i++)
		if (dp_hit_read(h, &v, v + (u64)c->offsets[i], 8))
			return false;
	*addr = v + (u64)c->offsets[c->n - 1];
	return v != 0;
}

static enum dp_count begin_call(struct dp_hit *h, struct dp_hit_slot *slot, const struct dp_watch_path *c)
{
	const struct dp_watch_rt *w = (const struct dp_watch_rt *)h->ctl->watches + c->watch;
	u64 addr, sp = h->regs->sp, now = 0;

	/* A call further up has it. One at the same place of the stack or below is over, however it was left. */
	if (slot->call_sp > sp)
		return DP_COUNT_MISSED;
	if (slot->call_sp)
		ask(h, slot->call_watch, 0);
	slot->call_sp = 0;
	if (!find_memory(h, c, &addr) || dp_hit_read(h, &now, addr, w->len))
		return DP_COUNT_PASSED;
	if (addr % w->len)
		return DP_COUNT_MISSED;
	slot->call_addr = addr;
	slot->call_last = now;
	slot->call_watch = c->watch;
	slot->call_sp = sp; /* before the first hit, which comes in this thread */
	if (ask(h, c->watch, addr))
		return DP_COUNT_FILTERED;
	slot->call_sp = 0;
	return DP_COUNT_MISSED;
}

enum dp_count dp_call_probe(struct dp_hit *h, struct dp_hit_slot *slot, const struct dp_probe_rt *probe)
{
	const struct dp_watch_path *c = (const struct dp_watch_path *)probe->prog.code;

	h->prog = &probe->prog;
	h->faults = 0;
	if (probe->flags & DP_PROBE_WATCH_BEGIN)
		return begin_call(h, slot, c);
	/* At every exit the stack is where it was at the entry. */
	if (slot->call_sp == h->regs->sp && slot->call_watch == c->watch) {
		ask(h, c->watch, 0);
		slot->call_sp = 0;
	}
	return DP_COUNT_FILTERED;
}
