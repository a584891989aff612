// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A hit: from a breakpoint through the kernel's chain of die notifiers, or from a jump through a
 * slot (k-entry.S). Both call the handlers of the point; a breakpoint then goes on in the copy of the
 * instruction, which ends with a jump back, so that one trap is all it takes.
 */
#include <linux/kdebug.h>
#include <linux/uaccess.h>

#include "kernel-priv.h"
#include "abi/abi-limits.h"

#include <asm/traps.h>

DEFINE_PER_CPU(struct dp_cpu, dp_cpu);

static __always_inline bool read_memory(u64 addr, void *buf, u32 n)
{
	return !copy_from_kernel_nofault(buf, (const void *)(unsigned long)addr, n);
}

#define EMULATE_READ read_memory
#include "arch/emulate.h"

/* A hit inside a hit. */
static HIT void missed(struct dp_kpoint *p, struct pt_regs *regs)
{
	struct dp_hitlist *list;

	/* The list lives as long as this: the outer hit's processor is not given up before. */
	preempt_disable_notrace();
	list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with the release in relist() */
	for (u32 i = 0; list && i < list->n; i++) {
		struct dp_kprobe *kp = list->v[i]->owner;

		if (kp->pre_handler == dp_k_unwind_pre)
			dp_k_unwind_pre(kp, regs);
		else
			__atomic_fetch_add(&kp->nmissed, 1, __ATOMIC_RELAXED);
	}
	preempt_enable_notrace();
}

static __always_inline int run_pre(const struct dp_hitlist *list, struct pt_regs *regs)
{
	for (u32 i = 0; i < list->n; i++) {
		struct dp_kprobe *kp = list->v[i]->owner;

		if (kp->pre_handler && kp->pre_handler(kp, regs))
			return 1;
	}
	return 0;
}

static __always_inline void run_post(const struct dp_hitlist *list, struct pt_regs *regs)
{
	for (u32 i = 0; i < list->n; i++) {
		struct dp_kprobe *kp = list->v[i]->owner;

		if (kp->post_handler)
			kp->post_handler(kp, regs, 0);
	}
}

/* After the instruction, from a slot. */
static __always_inline int hit_post(struct dp_kpoint *p, const struct dp_hitlist *list, struct pt_regs *regs)
{
	unsigned long sp = dp_regs_sp(regs), next = p->addr + p->insn.len;

	dp_regs_ip(regs) = next;
	run_post(list, regs);
	return dp_regs_ip(regs) != next || dp_regs_sp(regs) != sp;
}

static_assert(offsetof(struct dp_kpoint, addr) == 0);
static_assert(offsetof(struct dp_kpoint, single) == DP_K_POINT_SINGLE);
static_assert(offsetof(struct dp_kprobe, pre_handler) == DP_K_KPROBE_PRE);
static_assert(offsetof(struct dp_cpu, depth) == 0);

HIT void dp_k_resched(void)
{
#ifdef CONFIG_PREEMPTION
	__preempt_schedule_notrace();
#endif
}

HIT int dp_k_hit(struct pt_regs *regs, unsigned long tagged, unsigned long back)
{
	struct dp_kpoint *p = (struct dp_kpoint *)(tagged & ~DP_HIT_TAGS);
	unsigned long sp = dp_regs_sp(regs);
	struct dp_hitlist *list;
	int r = 0;

	if (unlikely(!dp_k_enter())) {
		if (!(tagged & DP_HIT_POST))
			missed(p, regs);
		return 0;
	}
	list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with the release in relist() */
	if (likely(list)) {
		if (unlikely(tagged & DP_HIT_POST)) {
			r = hit_post(p, list, regs);
		} else {
			dp_regs_ip(regs) = p->addr;
			r = run_pre(list, regs);
			if (unlikely(!r && dp_regs_sp(regs) != sp)) {
				dp_regs_ip(regs) = back + DP_K_OOL_LEA;
				r = 1;
			}
		}
	}
	dp_k_leave();
	return r;
}

/* For k-entry.S, which leaves the point where pt_regs has ss. */
static HIT int call_list(struct dp_kprobe *unused, struct pt_regs *regs)
{
	const struct dp_kpoint *p = (const struct dp_kpoint *)*dp_k_ss(regs);
	struct dp_hitlist *list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with relist() */

	return list ? run_pre(list, regs) : 0;
}

struct dp_kprobe dp_k_whole_list = {.pre_handler = call_list};

/* The instruction without anything around it. */
static __always_inline u64 alone(const struct dp_kpoint *p, const struct dp_ool_slot *s)
{
	if (s == &p->post)
		s = &p->plain;
	return s->addr + s->copy[0];
}

/* Where a point goes on that has a post handler: in the slot that comes back, or, a branch, at once. */
static HIT u64 before_post(struct dp_kpoint *p, const struct dp_ool_slot *s, struct pt_regs *regs)
{
	struct dp_hitlist *list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with relist() */

	if (!list)
		return alone(p, s);
	if (s->ninsns)
		return s->addr + s->copy[0];
	dp_regs_ip(regs) = p->addr;
	if (!dp_emulate(&p->insn, p->addr, regs))
		return alone(p, s);
	run_post(list, regs);
	return dp_regs_ip(regs);
}

/* A breakpoint of ours: regs are those of the exception. */
static __always_inline void trapped(struct dp_kpoint *p, struct pt_regs *regs)
{
	struct dp_hitlist *list;
	struct dp_kprobe *kp;
	int r;
	/*
	 * Once it is to be a jump, all that the jump will cover is executed elsewhere: nobody comes
	 * back into the middle of it. Pairs with the release in aim().
	 */
	const struct dp_ool_slot *s = __atomic_load_n(&p->aim, __ATOMIC_ACQUIRE);

	/* Interrupts are off: nobody else comes in between but an exception that leaves it as it
	 * was. */
	if (unlikely(__this_cpu_read(dp_cpu.depth))) {
		missed(p, regs);
		dp_regs_ip(regs) = alone(p, s);
		return;
	}
	__this_cpu_write(dp_cpu.depth, 1);
	dp_regs_ip(regs) = p->addr;
	kp = __atomic_load_n(&p->single, __ATOMIC_ACQUIRE); /* both pair with the releases in relist() */
	if (likely(kp != &dp_k_whole_list)) {
		r = kp->pre_handler(kp, regs);
	} else {
		list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE);
		r = list ? run_pre(list, regs) : 0;
	}
	if (likely(!r))
		dp_regs_ip(regs) = likely(s != &p->post) ? s->addr + s->copy[0] : before_post(p, s, regs);
	__this_cpu_write(dp_cpu.depth, 0);
}

/* An exception in the copy of an instruction is reported as one of the original. */
static HIT int fault_in_copy(struct pt_regs *regs, int trapnr)
{
	struct dp_kpoint *p;
	struct dp_hitlist *list;
	unsigned long copy = dp_regs_ip(regs);
	u32 index;
	u64 home = dp_mgr_home(&dp_k_manager, copy, &p, &index);
	int r = NOTIFY_DONE;

	if (!home)
		return r;
	dp_regs_ip(regs) = home;
	if (index || !dp_k_enter())
		return r;
	list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with the release in relist() */
	for (u32 i = 0; list && i < list->n && r == NOTIFY_DONE; i++) {
		struct dp_kprobe *kp = list->v[i]->owner;

		if (kp->fault_handler && kp->fault_handler(kp, regs, trapnr))
			r = NOTIFY_STOP;
	}
	if (r == NOTIFY_STOP && dp_regs_ip(regs) == home) /* once more, without a second hit */
		dp_regs_ip(regs) = copy;
	dp_k_leave();
	return r;
}

static HIT int on_die(struct notifier_block *nb, unsigned long val, void *data)
{
	struct die_args *args = data;
	struct pt_regs *regs = args->regs;
	struct dp_kpoint *p;

	if (!regs || user_mode(regs))
		return NOTIFY_DONE;
	if (likely(val == DIE_INT3)) {
		p = dp_mgr_point(&dp_k_manager, dp_regs_ip(regs) - 1);
		if (!p)
			return NOTIFY_DONE;
		trapped(p, regs);
		return NOTIFY_STOP;
	}
	if ((val == DIE_GPF || val == DIE_TRAP) && dp_regs_ip(regs) >= dp_k_near.slots &&
	    dp_regs_ip(regs) < dp_k_near.landings)
		return fault_in_copy(regs, args->trapnr);
	return NOTIFY_DONE;
}

static struct notifier_block on_die_block = {.notifier_call = on_die, .priority = INT_MAX};

int dp_k_die_init(void)
{
	return register_die_notifier(&on_die_block);
}

void dp_k_die_exit(void)
{
	unregister_die_notifier(&on_die_block);
}
