/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Return probes and jprobes at the hit. The return address of a probed call is replaced by the
 * landing of a stub (landing.S) that is bound to the instance of that call. General registers only;
 * no lock.
 */
#include <sys/syscall.h>

#include "host/self/trap.h"

u64 dp_self_targets[SELF_STUBS], dp_self_unwind[SELF_STUBS];
struct self_instance *self_instances[SELF_STUBS];

#define LANDING 6 /* of a stub: behind its call */

static HIT u64 landing_of(u32 stub)
{
	return (u64)dp_self_stubs + stub * 16ull + LANDING;
}

/* The instance whose landing that is, or NULL. */
static HIT struct self_instance *instance_at(u64 addr)
{
	u64 off = addr - (u64)dp_self_stubs - LANDING;

	if (off >= SELF_STUBS * 16ull || off & 15)
		return NULL;
	return __atomic_load_n(&self_instances[off >> 4], __ATOMIC_ACQUIRE);
}

/* The changes in the upper half keep a list that was changed and changed back from looking the
 * same. */
static HIT struct self_instance *take(struct self_holder *h)
{
	u64 old = __atomic_load_n(&h->free, __ATOMIC_ACQUIRE), new;
	struct self_instance *i;

	do {
		if (!(u32)old)
			return NULL;
		i = &h->v[(u32)old - 1];
		new = ((old >> 32) + 1) << 32 | __atomic_load_n(&i->next, __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(&h->free, &old, new, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	return i;
}

static HIT void give_back(struct self_instance *i)
{
	struct self_holder *h = i->holder;
	u64 old = __atomic_load_n(&h->free, __ATOMIC_RELAXED), new;

	__atomic_store_n(&i->tid, 0, __ATOMIC_RELAXED);
	do {
		__atomic_store_n(&i->next, (u32)old, __ATOMIC_RELAXED);
		new = ((old >> 32) + 1) << 32 | (u32)(i - h->v + 1);
	} while (!__atomic_compare_exchange_n(&h->free, &old, new, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

/*
 * Has the call been left by a jump? Then its place on the stack holds something else by now, or may
 * still hold our landing: that counts as under way. Several return probes on one call form a chain.
 */
static HIT bool is_over(const struct self_instance *i, u64 sp)
{
	u64 v;

	if (i->holder->exits) /* a mistake loses a return, no more: whatever lies below is taken for
				 left */
		return i->loc < sp;
	if (!self_read(i->loc, &v, 8))
		return true; /* the stack itself is gone */
	for (u32 n = 0; n < 64; n++) {
		struct self_instance *j = instance_at(v);

		if (j == i)
			return false;
		if (!j || j->loc != i->loc)
			return true;
		v = j->back;
	}
	return false;
}

/* No instance is free: look for calls of this thread, and now and then of ended threads, that never
 * returned. */
static HIT struct self_instance *reclaim(struct self_holder *h, int tid, u64 sp)
{
	bool all = __atomic_fetch_add(&h->misses, 1, __ATOMIC_RELAXED) % 64 == 0;
	long pid = self_syscall(SYS_getpid, 0, 0, 0, 0);

	for (u32 k = 0; k < h->n; k++) {
		int owner = __atomic_load_n(&h->v[k].tid, __ATOMIC_RELAXED);

		if (owner == tid && is_over(&h->v[k], sp))
			give_back(&h->v[k]);
		else if (owner && owner != tid && all &&
			 self_syscall(SYS_tgkill, pid, owner, 0, 0) == -ESRCH &&
			 __atomic_compare_exchange_n(&h->v[k].tid, &owner, -1, false,
						     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			give_back(&h->v[k]); /* -1: only one thread may find it */
	}
	return take(h);
}

/* With exits: entry and exit of one call have the same stack pointer. */
static HIT struct self_instance *instance_of(struct self_holder *h, int tid, u64 sp)
{
	for (u32 k = 0; k < h->n; k++)
		if (__atomic_load_n(&h->v[k].tid, __ATOMIC_RELAXED) == tid && h->v[k].loc == sp)
			return &h->v[k];
	return NULL;
}

HIT int self_return_pre(struct kprobe *kp, struct pt_regs *regs)
{
	struct kretprobe *rp = (struct kretprobe *)kp;
	struct self_holder *h = rp->dp_private;
	struct self_thread *t = self_thread();
	struct self_instance *i = h->exits ? instance_of(h, t->tid, regs->sp) : NULL, *outer;
	u64 back = *(u64 *)regs->sp;

	if (!i) /* else: one that was left by a jump, at this very place */
		i = take(h);
	if (!i)
		i = reclaim(h, t->tid, regs->sp);
	if (!i) {
		__atomic_fetch_add(&rp->nmissed, 1, __ATOMIC_RELAXED);
		return 0;
	}
	outer = instance_at(back);
	i->back = back;
	i->loc = regs->sp;
	i->ri.rp = rp;
	i->ri.ret_addr = outer ? outer->ri.ret_addr : (kprobe_opcode_t *)back;
	i->ri.task = &t->task;
	__atomic_store_n(&i->tid, t->tid, __ATOMIC_RELAXED);
	if (rp->entry_handler && rp->entry_handler(&i->ri, regs)) {
		give_back(i);
		return 0;
	}
	if (h->exits)
		return 0;
	/* An unwinder looks the caller up as if it had been interrupted: by an address inside its
	 * call. */
	dp_self_unwind[i->stub] = outer ? back : back - 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*(u64 *)regs->sp = landing_of(i->stub);
	if (!(kp->flags & KPROBE_FLAG_RET_CLASSIC))
		t->through = i->stub;
	return 0;
}

HIT int dp_self_returned(struct pt_regs *regs, unsigned long stub, void *vectors, u32 mask)
{
	struct self_instance *i = self_instances[stub];
	struct self_thread *t = self_thread();
	struct kretprobe *rp;

	regs->ip = i->back;
	if (!__atomic_load_n(&i->tid, __ATOMIC_RELAXED))
		return 1; /* a second return of the same call: it was counted */
	if (t && self_enter(t, regs->sp)) {
		rp = __atomic_load_n(&i->holder->rp, __ATOMIC_ACQUIRE); /* pairs with forget() */
		if (rp && rp->handler && !(rp->kp.flags & KPROBE_FLAG_DISABLED)) {
			__atomic_store_n(&t->kp, &rp->kp, __ATOMIC_RELAXED);
			regs->ip = (u64)i->ri.ret_addr;
			rp->handler(&i->ri, regs);
			if (regs->ip == (u64)i->ri.ret_addr)
				regs->ip =
				    i->back; /* another return probe of this call may come first */
		}
		self_leave(t);
	}
	give_back(i);
	return 1;
}

/* At a return instruction or tail call: the function's return address is on top of the stack. */
HIT int self_exit_pre(struct kprobe *kp, struct pt_regs *regs)
{
	struct self_holder *h = ((struct self_exit *)kp)->holder;
	struct self_thread *t = self_thread();
	struct self_instance *i = instance_of(h, t->tid, regs->sp);
	struct kretprobe *rp = __atomic_load_n(&h->rp, __ATOMIC_ACQUIRE); /* pairs with forget() */
	u64 back = *(u64 *)regs->sp;
	bool elsewhere = false;

	if (!i)
		return 0; /* entered before the probe was, or not wanted by the entry handler */
	if (rp && rp->handler && !(rp->kp.flags & KPROBE_FLAG_DISABLED)) {
		__atomic_store_n(&t->kp, &rp->kp, __ATOMIC_RELAXED);
		regs->ip = back;
		rp->handler(&i->ri, regs);
		elsewhere = regs->ip != back;
		if (elsewhere)
			regs->sp += 8;
	}
	give_back(i);
	return elsewhere;
}

/* ---- jprobes ---- */

#define ARGS 256
#define PAGE_LEFT(addr) (4096 - ((addr)&4095))

HIT int self_jprobe_pre(struct kprobe *kp, struct pt_regs *regs)
{
	struct jprobe *jp = (struct jprobe *)kp;
	struct self_thread *t = self_thread();
	u64 args[ARGS / 8], from = regs->sp + 8;
	u32 n = PAGE_LEFT(from) < ARGS ? (u32)PAGE_LEFT(from) : ARGS;

	/* The end of the stack may be near: what lies beyond its page is read with care. */
	for (u32 k = 0; k < n / 8; k++)
		args[k] = ((const u64 *)from)[k];
	if (n < ARGS && !self_read(from + n, &args[n / 8], ARGS - n))
		for (u32 k = n / 8; k < ARGS / 8; k++)
			args[k] = 0;
	dp_self_call_jprobe(regs, jp->entry, t->vectors, t->mask, &t->jprobe, args);
	t->jprobe = NULL;
	return 0;
}

HIT __attribute__((visibility("default"))) void jprobe_return(void)
{
	struct self_thread *t = self_thread();

	if (t && t->jprobe)
		dp_self_leave_jprobe(t->jprobe);
}
