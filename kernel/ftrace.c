// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Function entries that have no place for a probe of our own: the function loops back to behind the
 * function tracer's bytes, or what stands there must stay as it is. They are hit through the
 * kernel's function tracer, at those bytes themselves, which stay its own. Slower than a jump,
 * faster than a breakpoint. Who may send control elsewhere says so to the tracer, which lets only one do
 * that to a function: live patching is another.
 */
#include <linux/ftrace.h>
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "kernel-priv.h"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_REGS

enum { STAYS, MOVES, WAYS }; /* may a handler change ip? */

struct dp_fentry { /* an address with its probes */
	struct hlist_node node;
	struct dp_fentry *next; /* to be freed */
	u64 addr;
	struct dp_mgr_probe *probes; /* oldest first */
	struct dp_hitlist *list;     /* atomic; NULL: nobody is to be called */
	struct ftrace_ops *by;       /* atomic; whose calls count, when it is changed from one to the other */
	bool armed[WAYS], gone;
	u8 way; /* as its probes need it */
};

static DEFINE_HASHTABLE(entries, 8); /* read at any time with preemption off; changed under dp_k_lock */
static u32 narmed[WAYS];
static bool dirty;

/* ---- the hit path ---- */

static __always_inline void run(const struct dp_hitlist *list, struct pt_regs *regs, unsigned long ip)
{
	unsigned long next = dp_regs_ip(regs);
	u32 i;

	dp_regs_ip(regs) = ip;
	for (i = 0; i < list->n; i++) {
		struct dp_kprobe *kp = list->v[i]->owner;

		if (kp->pre_handler && kp->pre_handler(kp, regs))
			return;
	}
	dp_regs_ip(regs) = next;
	for (i = 0; list->post && i < list->n; i++) {
		struct dp_kprobe *kp = list->v[i]->owner;

		if (kp->post_handler)
			kp->post_handler(kp, regs, 0);
	}
}

static HIT void on_entry(unsigned long ip, unsigned long parent, struct ftrace_ops *op, DP_K_FTRACE_REGS *fregs)
{
	struct pt_regs *regs = dp_k_ftrace_regs(fregs);
	struct dp_hitlist *list = NULL;
	struct dp_fentry *f;

	preempt_disable_notrace(); /* pairs with dp_k_grace() before anything is freed */
	/* One that is gone with its module has no list; another may have come to its address. */
	hash_for_each_possible_rcu_notrace(entries, f, node, ip)
		if (f->addr == ip && __atomic_load_n(&f->by, __ATOMIC_RELAXED) == op) {
			list = __atomic_load_n(&f->list, __ATOMIC_ACQUIRE); /* pairs with relist() */
			if (list)
				break;
		}
	if (!regs)
		list = NULL;
	if (unlikely(list && __this_cpu_read(dp_cpu.depth))) {
		for (u32 i = 0; i < list->n; i++)
			__atomic_fetch_add(&((struct dp_kprobe *)list->v[i]->owner)->nmissed, 1, __ATOMIC_RELAXED);
	} else if (list) {
		__this_cpu_write(dp_cpu.depth, 1);
		run(list, regs, ip);
		__this_cpu_write(dp_cpu.depth, 0);
	}
	preempt_enable_notrace();
}

static struct ftrace_ops ops[WAYS] = {
    [STAYS] = {.func = on_entry, .flags = FTRACE_OPS_FL_SAVE_REGS},
    [MOVES] = {.func = on_entry, .flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY},
};

/* ---- the control side ---- */

static struct dp_fentry *find_entry(u64 addr)
{
	struct dp_fentry *f;

	hash_for_each_possible(entries, f, node, addr)
		if (f->addr == addr && !f->gone)
			return f;
	return NULL;
}

int dp_k_fentry_attach(struct dp_registered *s, u64 addr, struct dp_error *err)
{
	struct dp_fentry *f = find_entry(addr);
	struct dp_mgr_probe **end;

	if (!f) {
		f = kzalloc(sizeof(*f), GFP_KERNEL);
		if (!f)
			return dp_fail(err, E_ARM_NOMEM, "a function's entry");
		f->addr = addr;
		hash_add_rcu(entries, &f->node, addr);
	}
	for (end = &f->probes; *end; end = &(*end)->next)
		if (s->k.flags & (*end)->flags & DP_MGR_BREAK)
			return dp_fail(err, E_KPROBE_JPROBE, "%pS", (void *)(unsigned long)addr);
	s->k.next = NULL;
	*end = &s->k;
	s->own = f;
	s->kp->flags |= DP_KPROBE_FLAG_FTRACE;
	dirty = true;
	return 0;
}

void dp_k_fentry_detach(struct dp_registered *s)
{
	struct dp_mgr_probe **at = &((struct dp_fentry *)s->own)->probes;

	while (*at != &s->k)
		at = &(*at)->next;
	*at = s->k.next;
	s->own = NULL;
	s->kp->flags &= ~DP_KPROBE_FLAG_FTRACE;
	dirty = true;
}

void dp_k_fentry_touch(void)
{
	dirty = true;
}

void dp_k_fentry_gone(u64 lo, u64 hi)
{
	struct dp_fentry *f;
	int bucket;

	hash_for_each(entries, bucket, f, node)
		if (f->addr >= lo && f->addr < hi)
			f->gone = dirty = true;
}

bool dp_k_fentry_is_gone(const struct dp_registered *s)
{
	return s->own && ((struct dp_fentry *)s->own)->gone;
}

/* The list of those to be called; the old one joins *retired. */
static void relist(struct dp_fentry *f, struct dp_hitlist **retired)
{
	struct dp_hitlist *list = NULL, *old = f->list;
	bool none = f->gone || dp_k_manager.disarmed;
	u32 n = 0;

	for (struct dp_mgr_probe *k = none ? NULL : f->probes; k; k = k->next)
		n += !(k->flags & DP_MGR_DISABLED);
	if (n) {
		list = kzalloc(struct_size(list, v, n), GFP_KERNEL | __GFP_NOFAIL); /* a probe may be leaving */
		f->way = STAYS;
		for (struct dp_mgr_probe *k = f->probes; k; k = k->next)
			if (!(k->flags & DP_MGR_DISABLED)) {
				list->v[list->n++] = k;
				list->post |= !!(k->flags & DP_MGR_POST);
				if (dp_k_may_move(container_of(k, struct dp_registered, k)))
					f->way = MOVES;
			}
	}
	__atomic_store_n(&f->list, list, __ATOMIC_RELEASE); /* pairs with on_entry() */
	if (old) {
		old->old = *retired;
		*retired = old;
	}
}

/* Addresses whose probes come or go, all at once: the tracer looks through the whole kernel for
 * each change. What cannot get the new way keeps the old one. */
static u32 changed(unsigned long *ips, int way, bool arm)
{
	struct dp_fentry *f;
	int bucket;
	u32 n = 0;

	hash_for_each(entries, bucket, f, node)
		if (arm ? f->list && f->way == way && !f->armed[way]
			: f->armed[way] && (!f->list || (f->way != way && f->armed[f->way])))
			ips[n++] = f->addr;
	return n;
}

/* The tracer traces everything when its filter is empty: it begins after the first address and ends
 * before the last goes. */
static int change(unsigned long *ips, u32 n, int way, bool arm)
{
	int r = 0;

	if (!n)
		return 0;
	if (!arm && narmed[way] == n)
		unregister_ftrace_function(&ops[way]);
	r = ftrace_set_filter_ips(&ops[way], ips, n, !arm, 0);
	if (arm && !r && !narmed[way]) {
		r = register_ftrace_function(&ops[way]);
		if (r)
			ftrace_set_filter_ips(&ops[way], ips, n, 1, 0);
	}
	if (arm && r)
		return r;
	narmed[way] += arm ? n : -n;
	return 0;
}

static int arm_and_disarm(struct dp_error *err)
{
	struct dp_fentry *f;
	unsigned long *ips;
	int bucket, r = 0;
	u32 n = 0;

	hash_for_each(entries, bucket, f, node)
		n++;
	ips = kvmalloc_array(n + 1, sizeof(*ips), GFP_KERNEL | __GFP_NOFAIL);
	for (int way = 0; way < WAYS; way++) {
		int e;

		hash_for_each(entries, bucket, f, node)
			if (f->way == way && !f->armed[!way])
				__atomic_store_n(&f->by, &ops[way], __ATOMIC_RELAXED);
		e = change(ips, changed(ips, way, true), way, true);
		r = r ? r : e;
		hash_for_each(entries, bucket, f, node)
			if (!e && f->list && f->way == way) {
				f->armed[way] = true;
				__atomic_store_n(&f->by, &ops[way], __ATOMIC_RELAXED);
			}
	}
	for (int way = 0; way < WAYS; way++) {
		change(ips, changed(ips, way, false), way, false);
		hash_for_each(entries, bucket, f, node)
			f->armed[way] &= f->list && !(f->way != way && f->armed[f->way]);
	}
	kvfree(ips);
	if (r == -EBUSY)
		return dp_fail(err, E_SITE_IPMODIFY, "the function tracer says so of one of the entries");
	return r ? dp_fail(err, E_SITE_FTRACE, "the function tracer refuses (%d)", r) : 0;
}

static void free_retired(struct dp_hitlist *retired)
{
	while (retired) {
		struct dp_hitlist *old = retired->old;

		kfree(retired);
		retired = old;
	}
}

/* Entries without probes are found no more; they wait in *unused. */
static void drop_unused(struct dp_fentry **unused)
{
	struct dp_fentry *f;
	struct hlist_node *next;
	int bucket;

	hash_for_each_safe(entries, bucket, next, f, node) {
		if (f->probes)
			continue;
		hash_del_rcu(&f->node);
		f->next = *unused;
		*unused = f;
	}
}

int dp_k_fentry_apply(struct dp_error *err)
{
	struct dp_fentry *f, *unused = NULL;
	struct dp_hitlist *retired = NULL;
	int bucket, r;

	if (!dirty)
		return 0;
	dirty = false;
	hash_for_each(entries, bucket, f, node)
		relist(f, &retired);
	r = arm_and_disarm(err);
	drop_unused(&unused);
	if (retired || unused)
		dp_k_grace(NULL);
	free_retired(retired);
	while (unused) {
		f = unused->next;
		kfree(unused);
		unused = f;
	}
	return r;
}

#else

int dp_k_fentry_attach(struct dp_registered *s, u64 addr, struct dp_error *err)
{
	return -EOPNOTSUPP; /* with what kept the probe from its place in *err */
}

void dp_k_fentry_detach(struct dp_registered *s)
{
}

void dp_k_fentry_touch(void)
{
}

void dp_k_fentry_gone(u64 lo, u64 hi)
{
}

bool dp_k_fentry_is_gone(const struct dp_registered *s)
{
	return false;
}

int dp_k_fentry_apply(struct dp_error *err)
{
	return 0;
}

#endif
