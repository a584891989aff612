// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Return probes and jprobes. The return address of a probed call is replaced by a landing of its
 * own (k-entry.S), whose number leads to the instance without a search. When a probe goes, the
 * addresses of calls that sleep are put back on their stacks.
 */
#include <linux/sched.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/asm.h>

#include "kernel-priv.h"
#include "abi/abi-limits.h"

#define LANDINGS_SIZE (DP_K_LANDINGS * (unsigned long)DP_K_LANDING_SIZE)

struct dp_instance **dp_k_instances; /* by number; NULL before the first return probe */

static_assert(offsetof(struct dp_kprobe, flags) == DP_K_KPROBE_FLAGS);
static_assert(offsetof(struct dp_kretprobe, handler) == DP_K_RETURN_HANDLER);
static_assert(offsetof(struct dp_instance, ri.ret_addr) == DP_K_CALL_ADDR);
static_assert(offsetof(struct dp_instance, holder) == DP_K_CALL_HOLDER);
static_assert(offsetof(struct dp_instance, back) == DP_K_CALL_BACK);
static_assert(offsetof(struct dp_instance, owner) == DP_K_CALL_RUNS);
static_assert(offsetof(struct dp_holder, rp) == DP_K_HOLDER_PROBE);
static_assert(offsetof(struct dp_holder, spare) == DP_K_HOLDER_SPARE);
static_assert(DP_KPROBE_FLAG_DISABLED == DP_K_DISABLED);

/* ---- the hit path ---- */

static __always_inline struct dp_instance *instance_at(unsigned long addr)
{
	unsigned long off = addr - dp_k_near.landings;

	if (off >= LANDINGS_SIZE || off % DP_K_LANDING_SIZE)
		return NULL;
	return __atomic_load_n(&dp_k_instances[off / DP_K_LANDING_SIZE],
			       __ATOMIC_ACQUIRE); /* pairs with bind() of the engine */
}

HIT u64 dp_k_return_behind(u64 landing, u64 task, u64 at)
{
	struct dp_instance *i = dp_k_instances ? instance_at(landing) : NULL;

	if (!i || __atomic_load_n(&i->owner, __ATOMIC_ACQUIRE) != task || i->loc != at) /* pairs with redirect() */
		return 0;
	return __atomic_load_n(&i->back, __ATOMIC_RELAXED);
}

/* One free instance of each processor's own, or NULL; taken and put by xchg(), from anywhere. */
static __always_inline struct dp_instance *__percpu *spare_of(const struct dp_holder *h)
{
	return (struct dp_instance * __percpu *)(unsigned long)h->spare;
}

/* The spare of this processor is taken: one of the list, or another processor's spare. */
static HIT struct dp_instance *take_slowly(struct dp_holder *h)
{
	u32 number = dp_freelist_take(&h->free, &h->v[0].next, sizeof(h->v[0]));
	struct dp_instance *i = number ? &h->v[number - 1] : NULL;
	int cpu;

	for_each_possible_cpu(cpu) {
		if (i)
			break;
		i = xchg(per_cpu_ptr(spare_of(h), cpu), NULL);
	}
	return i;
}

/* There was a spare already: the list gets that. */
HIT void dp_k_give_to_list(struct dp_instance *i)
{
	dp_freelist_give(&i->holder->free, &i->next, (u32)(i - i->holder->v) + 1);
}

static __always_inline void give_back(struct dp_instance *i)
{
	struct dp_instance *old;

	__atomic_store_n(&i->owner, 0, __ATOMIC_RELAXED);
	/* On whatever processor: it is one's spare then. What was written is seen by who takes it. */
	old = xchg(raw_cpu_ptr(spare_of(i->holder)), i);
	if (unlikely(old))
		dp_k_give_to_list(old);
}

/*
 * The caller finds the landing where its address was. Whoever sees that it runs sees back and loc: pairs with
 * restore().
 */
static __always_inline void redirect(struct dp_instance *i, unsigned long *top)
{
	__atomic_store_n(&i->owner, (u64)current, __ATOMIC_RELEASE);
	WRITE_ONCE(*top, i->landing);
}

/* All but the usual. i: an instance, if there is one already. */
static HIT int return_pre_slowly(struct dp_kretprobe *rp, struct pt_regs *regs, struct dp_instance *i)
{
	unsigned long *top = (unsigned long *)dp_regs_sp(regs);

	i = i ? i : take_slowly(rp->dp_private);
	if (!i) {
		__atomic_fetch_add(&rp->nmissed, 1, __ATOMIC_RELAXED);
		return 0;
	}
	dp_instance_begin(i, (u64 *)top, instance_at(*top));
	i->ri.task = current;
	if (rp->entry_handler && rp->entry_handler(&i->ri, regs))
		give_back(i);
	else
		redirect(i, top);
	return 0;
}

/* At the function's entry: the return address is on top of the stack. */
HIT int dp_k_return_pre(struct dp_kprobe *kp, struct pt_regs *regs)
{
	struct dp_kretprobe *rp = (struct dp_kretprobe *)kp;
	struct dp_holder *h = rp->dp_private;
	unsigned long *top = (unsigned long *)dp_regs_sp(regs), back = *top;
	struct dp_instance *i = xchg(raw_cpu_ptr(spare_of(h)), NULL);

	/* A landing there is another return probe's on the same call. */
	if (unlikely(!i || rp->entry_handler || back - dp_k_near.landings < LANDINGS_SIZE))
		return return_pre_slowly(rp, regs, i);
	i->back = back;
	i->loc = (unsigned long)top;
	i->ri.ret_addr = (void *)back;
	i->ri.task = current;
	redirect(i, top);
	return 0;
}

/* A return inside a hit. The outer hit keeps this processor, but does not say so: preemption is off meanwhile. */
HIT void dp_k_return_missed(struct dp_instance *i)
{
	struct dp_kretprobe *rp = __atomic_load_n(&i->holder->rp, __ATOMIC_ACQUIRE); /* pairs with dp_return_forget() */

	if (rp)
		__atomic_fetch_add(&rp->nmissed, 1, __ATOMIC_RELAXED);
}

HIT int dp_k_jprobe_pre(struct dp_kprobe *kp, struct pt_regs *regs)
{
	dp_k_call_jprobe(regs, ((struct dp_jprobe *)kp)->entry, this_cpu_ptr(&dp_cpu.jprobe));
	__this_cpu_write(dp_cpu.jprobe, NULL);
	return 0;
}

HIT void dp_jprobe_return(void)
{
	void *sp = __this_cpu_read(dp_cpu.jprobe);

	if (sp)
		dp_k_leave_jprobe(sp);
}
EXPORT_SYMBOL_GPL(dp_jprobe_return);

/* ---- the control side ---- */

/* It pushes its number and goes where all go. */
static u64 landing(const struct dp_holder *h, u32 number)
{
	u64 at = dp_k_near.landings + number * (u64)DP_K_LANDING_SIZE;
	enum { JUMP = 1 + sizeof(number) };
	u8 buf[DP_K_LANDING_SIZE] = {DP_PUSH_BYTE};

	memcpy(buf + 1, &number, sizeof(number));
	if (!dp_jump_make(buf + JUMP, at + JUMP, (u64)dp_k_landed) || dp_k_near_want(at, at + sizeof(buf)) ||
	    dp_k_fill(at, buf, JUMP + DP_JUMP_LEN))
		return 0;
	return at;
}

static int opened(struct dp_holder *h)
{
	if (!dp_k_instances) {
		dp_k_instances = dp_alloc(DP_K_LANDINGS * sizeof(*dp_k_instances));
		dp_k_returns.by_number = dp_k_instances;
	}
	if (!dp_k_instances)
		return -ENOMEM;
	h->spare = (void *)(unsigned long)alloc_percpu(struct dp_instance *);
	return h->spare ? 0 : -ENOMEM;
}

static void freed(struct dp_holder *h)
{
	free_percpu(spare_of(h));
}

/* Replace a word of a stack that may have gone away, if it is what it was. */
static bool replace(unsigned long loc, unsigned long old, unsigned long new)
{
	unsigned long was = old;

	asm volatile("1:	lock cmpxchgq %[new], (%[loc])\n"
		     "2:\n" _ASM_EXTABLE(1b, 2b)
		     : "+a"(was)
		     : [new] "r"(new), [loc] "r"(loc)
		     : "memory", "cc");
	return was == old;
}

static bool is_mapped(unsigned long loc)
{
	unsigned long v;

	return !copy_from_kernel_nofault(&v, (void *)loc, sizeof(v));
}

/*
 * A call of this instance may sleep for as long as it likes: let it return to its caller directly.
 * When several return probes are on the call, our landing stands in another instance.
 */
static void restore(struct dp_instance *i)
{
	if (!__atomic_load_n(&i->owner, __ATOMIC_ACQUIRE)) /* pairs with redirect() */
		return;
	if (is_mapped(i->loc) && replace(i->loc, i->landing, i->back))
		return;
	for (u32 k = 0; k < DP_K_LANDINGS; k++) {
		struct dp_instance *j = dp_k_instances[k];
		unsigned long old = i->landing;

		if (j && j != i && j->loc == i->loc)
			__atomic_compare_exchange_n(&j->back, &old, i->back, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

static void closed(struct dp_holder *h)
{
	for (u32 k = 0; k < h->n; k++)
		restore(&h->v[k]);
}

static const struct dp_returns_host returns_host = {
    .numbers = DP_K_LANDINGS, .landing = landing, .opened = opened, .closed = closed, .freed = freed};

struct dp_returns dp_k_returns = {.host = &returns_host};

void dp_k_returns_reap(void)
{
	if (!dp_k_returns.closed)
		return;
	/* Nobody has a landing on his stack; who is in one, has left it after this. */
	dp_k_settle(NULL);
	dp_returns_sweep(&dp_k_returns);
}

/*
 * A task has gone that may have calls under way: do_exit() and what it calls never return. Nobody else gives back
 * what runs for it, and what was taken for others meanwhile does not run for it.
 */
static void on_free(void *data, struct task_struct *p)
{
	/* Pairs with the release of engine/returns.c: a holder that is seen is whole. */
	struct dp_holder *h = __atomic_load_n(&dp_k_returns.open, __ATOMIC_ACQUIRE);

	for (; h; h = READ_ONCE(h->next))
		for (u32 k = 0; k < h->n; k++)
			if (READ_ONCE(h->v[k].owner) == (u64)p && cmpxchg(&h->v[k].owner, (u64)p, 0) == (u64)p)
				give_back(&h->v[k]);
}

static struct tracepoint *task_free;

static void look_for_tracepoint(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "sched_process_free"))
		task_free = tp;
}

int dp_k_returns_init(void)
{
	dp_k_returns.cpus = num_possible_cpus();
	for_each_kernel_tracepoint(look_for_tracepoint, NULL);
	if (task_free && tracepoint_probe_register(task_free, on_free, NULL))
		task_free = NULL;
	return 0;
}

void dp_k_returns_exit(void)
{
	if (task_free) {
		tracepoint_probe_unregister(task_free, on_free, NULL);
		tracepoint_synchronize_unregister();
	}
	dp_k_returns_reap();
	dp_free(dp_k_instances);
}
