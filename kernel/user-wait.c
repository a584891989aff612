// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Records of probes in user code that wait until the probed instruction has been carried out. The kernel steps a copy
 * of it and then calls one of two functions of its own: one when that went well, the other when it faulted. Probes of
 * ours stand on both. What they find waiting of the task, they log or drop.
 *
 * A task steps one instruction at a time, and no signal comes in between, so what waits is of that one; but where the
 * kernel could not even begin, something is left over. It gives way at the task's next step.
 */
#include <linux/hash.h>
#include <linux/llist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uprobes.h>

#include "k-session.h"

#ifdef CONFIG_UPROBES

#define BUCKETS_BITS 6

struct dp_k_waiting {
	struct dp_k_waiting *next;
	struct llist_node spent;
	const struct task_struct *task; /* compared only */
	struct dp_k_session_probe *p;
	unsigned long addr;   /* of the instruction */
	u32 len[2], flags[2]; /* of the record's payload, and of the stack trace's; 0: none */
	u64 data[];
};

static struct { /* by task */
	/*
	 * Protects first, and the list behind it. Taken on behalf of the running task only, never inside itself. The
	 * probe of a kernel function may be a breakpoint, which counts as not maskable: nothing there may use what
	 * others lock.
	 */
	arch_spinlock_t lock;
	struct dp_k_waiting *first;
} buckets[1 << BUCKETS_BITS];

static LLIST_HEAD(spent); /* to be freed, where that may be done */

static void lock(u32 bucket)
{
	preempt_disable_notrace();
	arch_spin_lock(&buckets[bucket].lock);
}

static void unlock(u32 bucket)
{
	arch_spin_unlock(&buckets[bucket].lock);
	preempt_enable_notrace();
}

static u64 *payload_of(const struct dp_hit *h)
{
	return h->vm->record + sizeof(struct dp_record) / 8;
}

static void free_spent(void)
{
	struct dp_k_waiting *w, *next;

	llist_for_each_entry_safe(w, next, llist_del_all(&spent), spent) kfree(w);
}

struct dp_k_waiting *dp_k_waiting_new(struct dp_k_session_probe *p)
{
	u32 trace = p->run.rt.ex_logmax ? sizeof(struct dp_rpn_head) + p->run.rt.ex_logmax : 0;
	struct dp_k_waiting *w;

	if (!llist_empty(&spent))
		free_spent();
	w = kmalloc(sizeof(*w) + ALIGN(p->run.rt.logmax, 8) + ALIGN(trace, 8) + 64, GFP_KERNEL | __GFP_NOWARN);
	if (w)
		*w = (struct dp_k_waiting){.p = p, .task = current};
	return w;
}

void dp_k_waiting_hold(struct dp_k_waiting *w, const struct dp_hit *h)
{
	u32 which = !!(h->rec_flags & DP_REC_TRACE);
	u64 *to = w->data + (which ? (w->len[0] + 7) / 8 : 0);

	w->len[which] = h->log_len;
	w->flags[which] = h->rec_flags;
	memcpy(to, payload_of(h), h->log_len);
}

/* Takes out of a bucket what is of a task, the first that came first, or what is of a probe. */
static struct dp_k_waiting *take(u32 bucket, const struct task_struct *task, const struct dp_k_session_probe *p)
{
	struct dp_k_waiting *taken = NULL, **at, *w;

	lock(bucket);
	for (at = &buckets[bucket].first; (w = *at);) {
		if (task ? w->task != task : w->p != p) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = taken;
		taken = w;
	}
	unlock(bucket);
	return taken;
}

static void spend(struct dp_k_waiting *w)
{
	while (w) {
		struct dp_k_waiting *next = w->next; /* once added it may be freed at any time */

		llist_add(&w->spent, &spent);
		w = next;
	}
}

/* What waits there already of this task and probe is of an instruction that was not carried out. */
void dp_k_waiting_add(struct dp_k_waiting *w, unsigned long addr)
{
	u32 bucket = hash_ptr(w->task, BUCKETS_BITS);
	struct dp_k_waiting *old = NULL, **at;

	if (!w->len[0] && !w->len[1]) {
		kfree(w);
		return;
	}
	w->addr = addr;
	lock(bucket);
	for (at = &buckets[bucket].first; *at; at = &(*at)->next) {
		if ((*at)->task != w->task || (*at)->p != w->p)
			continue;
		old = *at;
		*at = old->next;
		break;
	}
	w->next = buckets[bucket].first;
	buckets[bucket].first = w;
	unlock(bucket);
	kfree(old);
}

/* As it would have been written at the hit. Preemption is off, and no other hit is on this processor. */
static void put(const struct dp_k_waiting *w)
{
	u32 cpu = raw_smp_processor_id();
	struct dp_k_prog *p = &w->p->run;
	const u64 *from = w->data;
	struct dp_hit h = {.vm = __this_cpu_read(dp_k_vm), .ctl = &dp_k_control, .prog = &p->rt, .tid = current->pid};

	for (u32 i = 0; i < 2; i++) {
		bool done;

		if (!w->len[i])
			continue;
		h.log_len = w->len[i];
		h.rec_flags = w->flags[i];
		memcpy(payload_of(&h), from, h.log_len);
		from += (h.log_len + 7) / 8;
		done = dp_k_put(p, &h, cpu);
		if (!i)
			dp_k_counts(p, cpu)->v[done ? DP_COUNT_RECORDED : DP_COUNT_LOST]++;
	}
}

static int on_done(struct dp_kprobe *kp, struct pt_regs *regs)
{
	struct dp_k_waiting *all = take(hash_ptr(current, BUCKETS_BITS), current, NULL);

	for (const struct dp_k_waiting *w = all; w; w = w->next)
		if (current->utask && w->addr == current->utask->vaddr)
			put(w);
	spend(all);
	return 0;
}

static int on_fault(struct dp_kprobe *kp, struct pt_regs *regs)
{
	spend(take(hash_ptr(current, BUCKETS_BITS), current, NULL));
	return 0;
}

/* ---- the control side, under the lock of user.c ---- */

static struct dp_kprobe done, fault;
static u32 users;

int dp_k_waiting_begin(struct dp_error *err)
{
	struct dp_kprobe *both[] = {&done, &fault};
	int r;

	if (users++)
		return 0;
	done = (struct dp_kprobe){
	    .symbol_name = "arch_uprobe_post_xol", .pre_handler = on_done, .flags = DP_KPROBE_FLAG_STAYS};
	fault = (struct dp_kprobe){
	    .symbol_name = "arch_uprobe_abort_xol", .pre_handler = on_fault, .flags = DP_KPROBE_FLAG_STAYS};
	r = dp_k_register(both, ARRAY_SIZE(both), 'k', err);
	if (r) {
		users--;
		dp_error_hint(err, "set logonfault = yes: the records do not wait for the instruction then");
	}
	return r;
}

void dp_k_waiting_end(struct dp_k_session_probe *p)
{
	struct dp_kprobe *both[] = {&done, &fault};

	for (u32 i = 0; i < ARRAY_SIZE(buckets); i++)
		spend(take(i, NULL, p));
	if (!--users)
		dp_k_unregister(both, ARRAY_SIZE(both)); /* waits for their handlers */
	else
		synchronize_rcu();
	free_spent();
}

#endif
