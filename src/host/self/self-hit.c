/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A hit: calls the handlers of a point. Compiled for general registers only; calls nothing but
 * handlers, takes no lock and allocates nothing. The control side sees through struct self_thread
 * who is inside.
 */

#include "host/self/inside.h"
#include "host/self/trap.h"

/* A hit inside a hit. Only the library's own probes are called. */
static HIT int missed(struct dp_kpoint *p, struct pt_regs *regs)
{
	struct dp_hitlist *list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with the release in relist() */

	for (u32 i = 0; list && i < list->n; i++) {
		struct kprobe *kp = list->v[i]->owner;

		if (!(__atomic_load_n(&list->v[i]->flags, __ATOMIC_RELAXED) & DP_MGR_ALWAYS))
			__atomic_fetch_add(&kp->nmissed, 1, __ATOMIC_RELAXED);
		else if (kp->pre_handler(kp, regs))
			return 1;
	}
	return 0;
}

static HIT int run_pre(struct self_thread *t, const struct dp_hitlist *list, struct pt_regs *regs)
{
	for (u32 i = 0; i < list->n; i++) {
		struct kprobe *kp = list->v[i]->owner;

		__atomic_store_n(&t->kp, kp, __ATOMIC_RELAXED);
		if (kp->pre_handler && kp->pre_handler(kp, regs))
			return HIT_ELSEWHERE;
	}
	return HIT_ON;
}

static HIT void run_post(struct self_thread *t, const struct dp_hitlist *list, struct pt_regs *regs)
{
	for (u32 i = 0; i < list->n; i++) {
		struct kprobe *kp = list->v[i]->owner;

		__atomic_store_n(&t->kp, kp, __ATOMIC_RELAXED);
		if (kp->post_handler)
			kp->post_handler(kp, regs, 0);
	}
}

/*
 * Where the instruction's copy lies, for going on when all registers were set: behind the slot's
 * "lea 136(%rsp),%rsp", to which the hit would return (self-entry.S keeps that address above the
 * registers).
 */
static HIT u64 continuation(struct dp_kpoint *p, const struct pt_regs *regs, bool emulate)
{
	return emulate ? p->plain.addr + p->plain.copy[0] : *(const u64 *)((const char *)regs + 176) + SELF_OOL_ON;
}

/*
 * A return is to be probed: have the stub call the function, so that the processor expects the
 * return to it. The call writes the address of its landing where that stands already; below it the
 * stub's own address waits for self-entry.S: nothing that is in use lies there at a function's entry.
 */
static HIT int go_through(struct self_thread *t, struct pt_regs *regs, u64 target)
{
	dp_self_targets[t->through] = target;
	((u64 *)dp_regs_sp(regs))[-1] = (u64)dp_self_stubs + t->through * 16ul;
	return HIT_THROUGH;
}

/* The handlers want the instruction to be carried out; sp: before them. */
static HIT int go_on(struct self_thread *t, struct dp_kpoint *p, struct pt_regs *regs, unsigned long sp, bool emulate)
{
	if (t->through && dp_regs_sp(regs) == sp)
		return go_through(t, regs, continuation(p, regs, emulate));
	if (!emulate && dp_regs_sp(regs) == sp)
		return HIT_ON;
	dp_regs_ip(regs) = continuation(p, regs, emulate);
	return HIT_ELSEWHERE;
}

/* Before the instruction. */
static HIT int hit_pre(struct self_thread *t, struct dp_kpoint *p, struct dp_hitlist *list, struct pt_regs *regs,
		       bool emulate)
{
	unsigned long sp = dp_regs_sp(regs);

	t->through = 0;
	if (run_pre(t, list, regs))
		return HIT_ELSEWHERE;
	dp_regs_ip(regs) = p->addr;
	if (emulate && dp_self_emulate(p, regs)) {
		run_post(t, list, regs);
		return HIT_ELSEWHERE;
	}
	return go_on(t, p, regs, sp, emulate);
}

/* After it: ip is the next instruction's address, unless a handler changes it. */
static HIT int hit_post(struct self_thread *t, struct dp_kpoint *p, struct dp_hitlist *list, struct pt_regs *regs)
{
	unsigned long sp = dp_regs_sp(regs), next = p->addr + p->insn.len;

	dp_regs_ip(regs) = next;
	run_post(t, list, regs);
	return dp_regs_ip(regs) != next || dp_regs_sp(regs) != sp;
}

/* A hit in a hit, or of a thread without a record. */
static HIT __attribute__((noinline)) int hit_missed(struct dp_kpoint *p, struct pt_regs *regs, unsigned long tagged)
{
	int r = tagged & DP_HIT_POST ? 0 : missed(p, regs);

	if (!r && tagged & DP_HIT_EMULATE) {
		dp_regs_ip(regs) = continuation(p, regs, true);
		r = HIT_ELSEWHERE;
	}
	return r;
}

/* Whatever is not usual: post handlers, branches to be carried out, a list that has become empty.
 */
static HIT __attribute__((noinline)) int hit_rare(struct self_thread *t, struct dp_kpoint *p, struct dp_hitlist *list,
						  struct pt_regs *regs, unsigned long tagged)
{
	bool emulate = tagged & DP_HIT_EMULATE;

	if (list && tagged & DP_HIT_POST)
		return hit_post(t, p, list, regs);
	if (list)
		return hit_pre(t, p, list, regs, emulate);
	dp_regs_ip(regs) = continuation(p, regs, emulate);
	return emulate ? HIT_ELSEWHERE : HIT_ON;
}

/*
 * The usual hit, made short: one probe, its handler touches general registers only, and goes on with
 * the instruction. HIT_AGAIN: it is not that simple, nothing was done; dp_self_hit is to be asked.
 */
HIT int dp_self_plain(struct pt_regs *regs, struct dp_kpoint *p)
{
	struct self_thread *t = dp_self_mine;
	unsigned long sp = dp_regs_sp(regs);
	struct dp_hitlist *list;
	struct kprobe *kp;
	int r = HIT_AGAIN;

	if (__builtin_expect(!t || t->depth, 0))
		return r;
	self_enter(t, sp);
	list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with the release in relist() */
	if (__builtin_expect(!list || list->n != 1 || !list->general, 0))
		goto out;
	kp = list->v[0]->owner;
	t->vectors = NULL;
	t->mask = t->through = 0;
	__atomic_store_n(&t->kp, kp, __ATOMIC_RELAXED);
	if (kp->pre_handler && kp->pre_handler(kp, regs))
		r = HIT_ELSEWHERE;
	else if (__builtin_expect(t->through | (dp_regs_sp(regs) ^ sp), 0))
		r = go_on(t, p, regs, sp, false);
	else
		r = HIT_ON;
out:
	self_leave(t);
	return r;
}

HIT int dp_self_hit(struct pt_regs *regs, unsigned long tagged, void *vectors, u32 mask)
{
	struct dp_kpoint *p = (struct dp_kpoint *)(tagged & ~DP_HIT_TAGS);
	struct self_thread *t = self_me();
	struct dp_hitlist *list;
	int r;

	if (!t || !self_enter(t, dp_regs_sp(regs)))
		return hit_missed(p, regs, tagged);
	t->vectors = vectors;
	t->mask = mask;
	list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with the release in relist() */
	if (!list || tagged & DP_HIT_TAGS)
		r = list && !vectors && !list->general ? HIT_AGAIN : hit_rare(t, p, list, regs, tagged);
	else if (!vectors && !list->general)
		r = HIT_AGAIN;
	else
		r = hit_pre(t, p, list, regs, false);
	self_leave(t);
	return r;
}
