/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Return probes and jprobes at the hit. The return address of a probed call is replaced by the
 * landing of a stub (landing.S) that is bound to the instance of that call. General registers only;
 * no lock.
 */
#include <sys/syscall.h>

#include "host/self/store.h"
#include "host/self/trap.h"

u64 dp_self_targets[SELF_STUBS], dp_self_unwind[SELF_STUBS];
struct dp_instance *dp_self_instances[SELF_STUBS];

/* By stub: the return handler touches general registers only. */
u8 dp_self_general[SELF_STUBS];

/* The instance whose landing that is, or NULL. */
static inline struct dp_instance *instance_at(u64 addr)
{
	u64 off = addr - (u64)dp_self_stubs - SELF_LANDING;

	if (__builtin_expect(off >= SELF_STUBS * 16ull, 1) || off & 15)
		return NULL;
	/* Pairs with the release in engine/returns.c: what belongs to a landing is there before it can run. */
	return __atomic_load_n(&dp_self_instances[off >> 4], __ATOMIC_ACQUIRE);
}

HIT struct dp_instance *dp_self_instance_at(u64 addr)
{
	return instance_at(addr);
}

/* With exits: entry and exit of one call have the same stack pointer. */
static HIT struct dp_instance *instance_of(struct dp_holder *h, int tid, u64 sp)
{
	for (u32 k = 0; k < h->n; k++)
		if (__atomic_load_n(&h->v[k].owner, __ATOMIC_RELAXED) == (u32)tid && h->v[k].loc == sp)
			return &h->v[k];
	return NULL;
}

/* The call whose return address lies at sp is to come back to the instance's landing. */
static inline void bind(struct dp_instance *i, struct self_thread *t, u64 *sp)
{
	struct dp_instance *outer = instance_at(*sp);

	dp_instance_begin(i, sp, outer);
	i->ri.task = &t->task;
	/* An unwinder looks the caller up as if it had been interrupted: by an address inside its
	 * call. */
	dp_self_unwind[i->number] = outer ? *sp : *sp - 1;
	__atomic_store_n(&i->owner, (u32)t->tid, __ATOMIC_RELAXED);
}

/* For exits mode an unwinder needs nothing, and stub 0 is nobody's. */
HIT int dp_self_return_pre(struct kprobe *kp, struct pt_regs *regs)
{
	struct kretprobe *rp = (struct kretprobe *)kp;
	struct dp_holder *h = rp->dp_private;
	struct self_thread *t = self_me();
	struct dp_instance *i = h->exits ? instance_of(h, t->tid, dp_regs_sp(regs)) : NULL;

	if (!i) /* else: one that was left by a jump, at this very place */
		i = self_take_own(h, t);
	if (!i)
		i = dp_self_find(h, t, dp_regs_sp(regs));
	if (!i) {
		__atomic_fetch_add(&rp->nmissed, 1, __ATOMIC_RELAXED);
		return 0;
	}
	bind(i, t, (u64 *)dp_regs_sp(regs));
	if (rp->entry_handler && rp->entry_handler(&i->ri, regs)) {
		self_give_back(i, t);
		return 0;
	}
	if (h->exits)
		return 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* pairs with a signal handler's unwinder */
	*(u64 *)i->loc = i->landing;
	if (!(kp->flags & KPROBE_FLAG_RET_CLASSIC))
		t->through = i->number;
	return 0;
}

/* Several of them, or none free in the thread's store. */
static HIT __attribute__((noinline)) u32 bind_all(struct dp_hitlist *list, struct self_thread *t, u64 *sp)
{
	u32 stub = 0;

	for (u32 k = 0; k < list->n; k++) {
		struct kretprobe *rp = list->v[k]->owner;
		struct dp_holder *h = rp->dp_private;
		struct dp_instance *i = self_take_own(h, t);

		if (!i)
			i = dp_self_find(h, t, (u64)sp);
		if (!i) {
			__atomic_fetch_add(&rp->nmissed, 1, __ATOMIC_RELAXED);
			continue;
		}
		bind(i, t, sp);
		__atomic_signal_fence(__ATOMIC_SEQ_CST); /* pairs with a signal handler's unwinder */
		stub = i->number;
		*sp = i->landing;
	}
	return stub;
}

/* The usual: one, and the thread keeps a free instance for it. 0: it is not so, nothing was done. */
static inline u32 bind_own(struct dp_hitlist *list, struct self_thread *t, u64 *sp)
{
	struct kretprobe *rp = list->v[0]->owner;
	struct dp_instance *i = list->n == 1 ? self_take_own(rp->dp_private, t) : NULL;

	if (!i)
		return 0;
	bind(i, t, sp);
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* pairs with a signal handler's unwinder */
	*sp = i->landing;
	return i->number;
}

/*
 * The entry of a function that has return probes and nothing else to be called. sp: of the probed
 * code; slot: where self-entry.S would go back to. HIT_AGAIN: it is not that simple, nothing was done.
 */
HIT int dp_self_no_regs(struct dp_kpoint *p, u64 *sp, u64 slot)
{
	struct self_thread *t = dp_self_mine;
	struct dp_hitlist *list;
	u32 stub;

	if (__builtin_expect(!t || t->depth, 0))
		return HIT_AGAIN;
	self_enter(t, (u64)sp);
	list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with the release in relist() */
	if (__builtin_expect(!list || !list->no_regs, 0)) {
		self_leave(t);
		return HIT_AGAIN;
	}
	stub = bind_own(list, t, sp);
	if (__builtin_expect(!stub, 0))
		stub = bind_all(list, t, sp);
	if (stub) { /* as in go_through() */
		dp_self_targets[stub] = slot + SELF_OOL_ON;
		sp[-1] = (u64)dp_self_stubs + stub * 16ul;
	}
	self_leave(t);
	return stub ? HIT_THROUGH : HIT_ON;
}

/* A second return of the same call, which was counted; or one inside a hit, or of a thread without
 * a record: no handler runs. */
static HIT __attribute__((noinline)) int returned_rare(struct dp_instance *i, struct pt_regs *regs)
{
	dp_regs_ip(regs) = i->back;
	if (__atomic_load_n(&i->owner, __ATOMIC_RELAXED))
		self_give_back(i, NULL);
	return HIT_ELSEWHERE;
}

/* HIT_ON: return to the address below the stack pointer, with regs; HIT_ELSEWHERE: go on exactly as
 * regs say. */
HIT int dp_self_returned(struct pt_regs *regs, unsigned long stub)
{
	struct dp_instance *i = dp_self_instances[stub];
	struct self_thread *t = self_me();
	u64 sp = dp_regs_sp(regs), home = (u64)i->ri.ret_addr;
	struct kretprobe *rp;
	int r = HIT_ON;

	if (__builtin_expect(!__atomic_load_n(&i->owner, __ATOMIC_RELAXED), 0) || __builtin_expect(!t, 0) ||
	    !self_enter(t, sp))
		return returned_rare(i, regs);
	dp_regs_ip(regs) = home;
	rp = __atomic_load_n(&i->holder->rp, __ATOMIC_ACQUIRE); /* pairs with dp_return_forget() */
	if (rp && rp->handler && !(rp->kp.flags & KPROBE_FLAG_DISABLED)) {
		__atomic_store_n(&t->kp, &rp->kp, __ATOMIC_RELAXED);
		rp->handler(&i->ri, regs);
	}
	if (dp_regs_ip(regs) == home) {
		dp_regs_ip(regs) = i->back; /* another return probe of this call may come first */
		if (dp_regs_sp(regs) == sp)
			((u64 *)sp)[-1] = i->back;
		else
			r = HIT_ELSEWHERE;
	} else {
		r = HIT_ELSEWHERE;
	}
	self_give_back(i, rp ? t : NULL);
	self_leave(t);
	return r;
}

/*
 * At a return instruction or tail call: the function's return address is on top of the stack. The handler is shown
 * registers as behind the return, in a copy: an unwinder takes those of the hit for where the program stands.
 */
HIT int dp_self_exit_pre(struct kprobe *kp, struct pt_regs *regs)
{
	struct dp_holder *h = ((struct self_exit *)kp)->holder;
	struct self_thread *t = dp_self_thread();
	struct dp_instance *i = instance_of(h, t->tid, dp_regs_sp(regs));
	struct kretprobe *rp = __atomic_load_n(&h->rp, __ATOMIC_ACQUIRE); /* pairs with dp_return_forget() */
	u64 back = *(u64 *)dp_regs_sp(regs);
	bool elsewhere = false;

	if (!i)
		return 0; /* entered before the probe was, or not wanted by the entry handler */
	if (rp && rp->handler && !(rp->kp.flags & KPROBE_FLAG_DISABLED)) {
		struct pt_regs shown = *regs;

		__atomic_store_n(&t->kp, &rp->kp, __ATOMIC_RELAXED);
		dp_regs_ip(&shown) = back;
		dp_regs_sp(&shown) += 8;
		rp->handler(&i->ri, &shown);
		elsewhere = dp_regs_ip(&shown) != back || dp_regs_sp(&shown) != dp_regs_sp(regs) + 8;
		if (!elsewhere) {
			dp_regs_ip(&shown) = dp_regs_ip(regs);
			dp_regs_sp(&shown) = dp_regs_sp(regs);
		}
		*regs = shown;
	}
	self_give_back(i, rp ? t : NULL);
	return elsewhere;
}

/* ---- jprobes ---- */

#define ARGS 256
#define PAGE_LEFT(addr) (4096 - ((addr)&4095))

HIT int dp_self_jprobe_pre(struct kprobe *kp, struct pt_regs *regs)
{
	struct jprobe *jp = (struct jprobe *)kp;
	struct self_thread *t = dp_self_thread();
	u64 args[ARGS / 8], from = dp_regs_sp(regs) + 8;
	u32 n = PAGE_LEFT(from) < ARGS ? (u32)PAGE_LEFT(from) : ARGS;

	/* The end of the stack may be near: what lies beyond its page is read with care. */
	for (u32 k = 0; k < n / 8; k++)
		args[k] = ((const u64 *)from)[k];
	if (n < ARGS && !dp_self_read(from + n, &args[n / 8], ARGS - n))
		for (u32 k = n / 8; k < ARGS / 8; k++)
			args[k] = 0;
	dp_self_call_jprobe(regs, jp->entry, t->vectors, t->mask, &t->jprobe, args);
	t->jprobe = NULL;
	return 0;
}

HIT __attribute__((visibility("default"))) void jprobe_return(void)
{
	struct self_thread *t = dp_self_thread();

	if (t && t->jprobe)
		dp_self_leave_jprobe(t->jprobe);
}
