// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Return probes and jprobes. The return address of a probed call is replaced by a landing of its
 * own (entry.S), whose number leads to the instance without a search. When a probe goes, the
 * addresses of calls that sleep are put back on their stacks.
 */
#include <linux/kallsyms.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/asm.h>

#include "kernel-priv.h"
#include "engine/freelist.h"
#include "limits.h"

struct instance {                        /* one call under way */
	struct dp_kretprobe_instance ri; /* first */
	struct holder *holder;
	unsigned long back;    /* what stood in the return address's place. Atomic */
	unsigned long loc;     /* that place */
	unsigned long landing; /* its own, as an address */
	u32 next;           /* on the free list */
	u32 index;          /* in the holder */
	struct task_struct *runs; /* atomic: whose call it is, from when the landing stands on the stack. NULL: free */
};

struct holder { /* the instances of a return probe; outlives it until nobody can return to them */
	struct holder *next;
	struct dp_kretprobe *rp; /* NULL: unregistered. Atomic */
	dp_freelist free;        /* by index + 1 */
	/* One free instance of each processor's own, or NULL; taken and put by xchg(), from anywhere. */
	struct instance *__percpu *spare;
	u32 n;
	char *data;
	struct instance v[];
};

struct instance **dp_k_instances; /* by number */
static u32 hint;
static struct holder *holders, *dying; /* the first is read at any time: see on_free() */

static_assert(offsetof(struct dp_kprobe, flags) == DP_K_KPROBE_FLAGS);
static_assert(offsetof(struct dp_kretprobe, handler) == DP_K_RETURN_HANDLER);
static_assert(offsetof(struct instance, ri.ret_addr) == DP_K_CALL_ADDR);
static_assert(offsetof(struct instance, holder) == DP_K_CALL_HOLDER);
static_assert(offsetof(struct instance, back) == DP_K_CALL_BACK);
static_assert(offsetof(struct instance, runs) == DP_K_CALL_RUNS);
static_assert(offsetof(struct holder, rp) == DP_K_HOLDER_PROBE);
static_assert(offsetof(struct holder, spare) == DP_K_HOLDER_SPARE);
static_assert(DP_KPROBE_FLAG_DISABLED == DP_K_DISABLED);

/* ---- the hit path ---- */

static __always_inline struct instance *instance_at(unsigned long addr)
{
	unsigned long off = addr - (unsigned long)dp_k_landings;

	if (off >= DP_K_LANDINGS * 16ul || off & 15)
		return NULL;
	return __atomic_load_n(&dp_k_instances[off / 16], __ATOMIC_ACQUIRE); /* pairs with bind() */
}

/* The spare of this processor is taken: one of the list, or another processor's spare. */
static HIT struct instance *take_slowly(struct holder *h)
{
	u32 number = dp_freelist_take(&h->free, &h->v[0].next, sizeof(h->v[0]));
	struct instance *i = number ? &h->v[number - 1] : NULL;
	int cpu;

	for_each_possible_cpu(cpu) {
		if (i)
			break;
		i = xchg(per_cpu_ptr(h->spare, cpu), NULL);
	}
	return i;
}

/* There was a spare already: the list gets that. */
HIT void dp_k_give_to_list(struct instance *i)
{
	dp_freelist_give(&i->holder->free, &i->next, i->index + 1);
}

static __always_inline void give_back(struct instance *i)
{
	struct instance *old;

	__atomic_store_n(&i->runs, NULL, __ATOMIC_RELAXED);
	/* On whatever processor: it is one's spare then. What was written is seen by who takes it. */
	old = xchg(raw_cpu_ptr(i->holder->spare), i);
	if (unlikely(old))
		dp_k_give_to_list(old);
}

/* The caller finds the landing where its address was. Whoever sees that it runs sees back and loc: pairs with restore(). */
static __always_inline void redirect(struct instance *i, unsigned long *top)
{
	__atomic_store_n(&i->runs, current, __ATOMIC_RELEASE);
	WRITE_ONCE(*top, i->landing);
}

/* All but the usual. i: an instance, if there is one already. */
static HIT int return_pre_slowly(struct dp_kretprobe *rp, struct pt_regs *regs, struct instance *i)
{
	unsigned long *top = (unsigned long *)regs->sp;
	struct instance *outer;

	i = i ? i : take_slowly(rp->dp_private);
	if (!i) {
		__atomic_fetch_add(&rp->nmissed, 1, __ATOMIC_RELAXED);
		return 0;
	}
	i->back = *top;
	i->loc = regs->sp;
	outer = instance_at(i->back);
	i->ri.ret_addr = outer ? outer->ri.ret_addr : (void *)i->back;
	i->ri.task = current;
	if (rp->entry_handler && rp->entry_handler(&i->ri, regs))
		give_back(i);
	else
		redirect(i, top);
	return 0;
}

/* At the function's entry: the return address is on top of the stack. */
static HIT int return_pre(struct dp_kprobe *kp, struct pt_regs *regs)
{
	struct dp_kretprobe *rp = (struct dp_kretprobe *)kp;
	struct holder *h = rp->dp_private;
	unsigned long *top = (unsigned long *)regs->sp, back = *top;
	struct instance *i = xchg(raw_cpu_ptr(h->spare), NULL);

	/* A landing there is another return probe's on the same call. */
	if (unlikely(!i || rp->entry_handler || back - (unsigned long)dp_k_landings < DP_K_LANDINGS * 16ul))
		return return_pre_slowly(rp, regs, i);
	i->back = back;
	i->loc = (unsigned long)top;
	i->ri.ret_addr = (void *)back;
	i->ri.task = current;
	redirect(i, top);
	return 0;
}

/* A return inside a hit. The outer hit keeps this processor, but does not say so: preemption is off meanwhile. */
HIT void dp_k_return_missed(struct instance *i)
{
	struct dp_kretprobe *rp = __atomic_load_n(&i->holder->rp, __ATOMIC_ACQUIRE); /* pairs with detach */

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

/* Give the landings of the first k instances back. */
static void unbind(struct holder *h, u32 k)
{
	while (k--)
		dp_k_instances[(h->v[k].landing - (unsigned long)dp_k_landings) / 16] = NULL;
}

/* Landings for all instances; false when there are not enough. */
static bool bind(struct holder *h)
{
	u32 k = 0;

	for (u32 tries = 0; tries < DP_K_LANDINGS && k < h->n; tries++) {
		u32 number = hint++ % DP_K_LANDINGS;

		if (dp_k_instances[number])
			continue;
		h->v[k].landing = (unsigned long)dp_k_landings + number * 16ul;
		/* Pairs with the acquire in instance_at(). */
		__atomic_store_n(&dp_k_instances[number], &h->v[k++], __ATOMIC_RELEASE);
	}
	if (k == h->n)
		return true;
	unbind(h, k);
	return false;
}

static void free_holder(struct holder *h)
{
	free_percpu(h->spare);
	kvfree(h->data);
	kvfree(h);
}

int dp_k_return_attach(struct dp_kretprobe *rp, struct dp_error *err)
{
	size_t size = ALIGN(rp->data_size, 8);
	u32 n = rp->maxactive > 0 ? rp->maxactive : max(10u, 2 * num_possible_cpus());
	struct holder *h;

	if (n > 4096)
		return dp_fail(err, E_KPROBE_ARGUMENT, "maxactive %u", n);
	rp->maxactive = n;
	h = kvzalloc(struct_size(h, v, n), GFP_KERNEL);
	if (!h)
		return dp_fail(err, E_ARM_NOMEM, "instances of a return probe");
	h->n = n;
	h->rp = rp;
	h->data = kvzalloc(size * n + 8, GFP_KERNEL);
	h->spare = alloc_percpu(struct instance *);
	if (!h->data || !h->spare || !bind(h)) {
		free_holder(h);
		return dp_fail(err, E_ARM_NOMEM, "landings of a return probe");
	}
	for (u32 k = 0; k < n; k++) {
		h->v[k].holder = h;
		h->v[k].index = k;
		h->v[k].ri.rp = rp;
		h->v[k].ri.data = h->data + k * size;
		give_back(&h->v[k]);
	}
	rp->dp_private = h;
	rp->kp.pre_handler = return_pre;
	rp->kp.post_handler = NULL;
	h->next = holders;
	__atomic_store_n(&holders, h, __ATOMIC_RELEASE); /* pairs with the acquire in on_free() */
	return 0;
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
static void restore(struct instance *i)
{
	if (!__atomic_load_n(&i->runs, __ATOMIC_ACQUIRE)) /* pairs with redirect() */
		return;
	if (is_mapped(i->loc) && replace(i->loc, i->landing, i->back))
		return;
	for (u32 k = 0; k < DP_K_LANDINGS; k++) {
		struct instance *j = dp_k_instances[k];
		unsigned long old = i->landing;

		if (j && j != i && j->loc == i->loc)
			__atomic_compare_exchange_n(&j->back, &old, i->back, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

void dp_k_return_detach(struct dp_kretprobe *rp)
{
	struct holder *h = rp->dp_private, **at = &holders;

	if (!h)
		return;
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	rp->dp_private = NULL;
	__atomic_store_n(&h->rp, NULL, __ATOMIC_RELEASE); /* pairs with entry.S and dp_k_return_missed() */
	for (u32 k = 0; k < h->n; k++)
		restore(&h->v[k]);
	h->next = dying; /* on_free() may be reading it: a cut or mixed list does it no harm */
	dying = h;
}

void dp_k_returns_bury(void)
{
	struct holder *h = dying;

	if (!h)
		return;
	/* Nobody has a landing on his stack; who is in one, has left it after this. */
	dp_k_settle(NULL);
	dying = NULL;
	while (h) {
		struct holder *next = h->next;

		unbind(h, h->n);
		free_holder(h);
		h = next;
	}
}

/*
 * A task has gone that may have calls under way: do_exit() and what it calls never return. Nobody else gives back
 * what runs for it, and what was taken for others meanwhile does not run for it.
 */
static void on_free(void *data, struct task_struct *p)
{
	struct holder *h = __atomic_load_n(&holders, __ATOMIC_ACQUIRE);

	for (; h; h = READ_ONCE(h->next))
		for (u32 k = 0; k < h->n; k++)
			if (READ_ONCE(h->v[k].runs) == p && cmpxchg(&h->v[k].runs, p, NULL) == p)
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
	dp_k_instances = vzalloc(DP_K_LANDINGS * sizeof(*dp_k_instances));
	if (!dp_k_instances)
		return -ENOMEM;
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
	dp_k_returns_bury();
	vfree(dp_k_instances);
}

/* ---- the calls ---- */

int dp_register_kretprobes(struct dp_kretprobe **rps, int num)
{
	return num > 0 ? dp_k_register((struct dp_kprobe **)rps, num, 'r', NULL) : -EINVAL;
}
EXPORT_SYMBOL_GPL(dp_register_kretprobes);

void dp_unregister_kretprobes(struct dp_kretprobe **rps, int num)
{
	if (num > 0)
		dp_k_unregister((struct dp_kprobe **)rps, num);
}
EXPORT_SYMBOL_GPL(dp_unregister_kretprobes);

int dp_register_kretprobe(struct dp_kretprobe *rp)
{
	return dp_register_kretprobes(&rp, 1);
}
EXPORT_SYMBOL_GPL(dp_register_kretprobe);

void dp_unregister_kretprobe(struct dp_kretprobe *rp)
{
	dp_unregister_kretprobes(&rp, 1);
}
EXPORT_SYMBOL_GPL(dp_unregister_kretprobe);

int dp_disable_kretprobe(struct dp_kretprobe *rp)
{
	return dp_disable_kprobe(&rp->kp);
}
EXPORT_SYMBOL_GPL(dp_disable_kretprobe);

int dp_enable_kretprobe(struct dp_kretprobe *rp)
{
	return dp_enable_kprobe(&rp->kp);
}
EXPORT_SYMBOL_GPL(dp_enable_kretprobe);

int dp_register_jprobes(struct dp_jprobe **jps, int num)
{
	return num > 0 ? dp_k_register((struct dp_kprobe **)jps, num, 'j', NULL) : -EINVAL;
}
EXPORT_SYMBOL_GPL(dp_register_jprobes);

void dp_unregister_jprobes(struct dp_jprobe **jps, int num)
{
	if (num > 0)
		dp_k_unregister((struct dp_kprobe **)jps, num);
}
EXPORT_SYMBOL_GPL(dp_unregister_jprobes);

int dp_register_jprobe(struct dp_jprobe *jp)
{
	return dp_register_jprobes(&jp, 1);
}
EXPORT_SYMBOL_GPL(dp_register_jprobe);

void dp_unregister_jprobe(struct dp_jprobe *jp)
{
	dp_unregister_jprobes(&jp, 1);
}
EXPORT_SYMBOL_GPL(dp_unregister_jprobe);

int dp_disable_jprobe(struct dp_jprobe *jp)
{
	return dp_disable_kprobe(&jp->kp);
}
EXPORT_SYMBOL_GPL(dp_disable_jprobe);

int dp_enable_jprobe(struct dp_jprobe *jp)
{
	return dp_enable_kprobe(&jp->kp);
}
EXPORT_SYMBOL_GPL(dp_enable_jprobe);
