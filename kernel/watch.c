// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Watchpoints on memory of the kernel, on all processors: the kernel's hw_breakpoint layer with the interface of
 * <dprobes/kernel.h>. The layer hands the four registers out, so debuggers and perf are respected.
 */
#include <linux/hw_breakpoint.h>
#include <linux/kallsyms.h>
#include <linux/perf_event.h>
#include <linux/slab.h>

#include "kernel-priv.h"

struct watch { /* what stands behind a registered one */
	struct list_head list;
	const struct dp_kwatch *w;
	struct perf_event *__percpu *events; /* NULL: removed with all others */
};

static LIST_HEAD(watches);
static DEFINE_MUTEX(watches_lock); /* protects the list and what is in it */

static int refuse(struct dp_kwatch *w, enum dp_code code, int r)
{
	w->refusal = dp_error_info(code)->name;
	w->dp_private = NULL;
	return r;
}

/* The debug exception, interrupts off. */
static HIT void on_access(struct perf_event *bp, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct dp_kwatch *w = bp->overflow_handler_context;

	if (!dp_k_enter()) {
		/* Several processors may count at once. */
		__atomic_fetch_add(&w->nmissed, 1, __ATOMIC_RELAXED);
		return;
	}
	w->handler(w, regs, w->addr);
	dp_k_leave();
}

int dp_register_kwatch(struct dp_kwatch *w)
{
	struct perf_event_attr attr;
	struct perf_event *__percpu *events;
	u64 at = (u64)w->addr;
	struct watch *s;
	int r = 0;

	w->refusal = NULL;
	if (w->type == DP_KWATCH_IO)
		return refuse(w, E_WATCH_TYPE, -EOPNOTSUPP);
	if (w->dp_private || !w->handler || !w->addr == !w->symbol_name || !w->len || w->len > 8 || w->len & (w->len - 1) ||
	    w->type > DP_KWATCH_RW || (w->type == DP_KWATCH_EXECUTE && w->len != 1))
		return refuse(w, E_WATCH_ARGUMENT, -EINVAL);
	if (w->symbol_name)
		r = dp_k_resolve(w->symbol_name, &at, NULL);
	if (r)
		return refuse(w, E_SYM_NONE, -ENOENT);
	at += w->offset;
	if (at % w->len || at < TASK_SIZE_MAX)
		return refuse(w, E_WATCH_ARGUMENT, -EINVAL);
	w->addr = (void *)at;
	w->nmissed = 0;
	hw_breakpoint_init(&attr);
	attr.bp_addr = at;
	attr.bp_len = w->type == DP_KWATCH_EXECUTE ? sizeof(long) : w->len;
	attr.bp_type = w->type == DP_KWATCH_EXECUTE ? HW_BREAKPOINT_X
		       : w->type == DP_KWATCH_WRITE ? HW_BREAKPOINT_W
						    : HW_BREAKPOINT_RW;
	s = kzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return refuse(w, E_ARM_NOMEM, -ENOMEM);
	mutex_lock(&watches_lock);
	events = register_wide_hw_breakpoint(&attr, on_access, w);
	if (!IS_ERR((void __force *)events)) {
		s->events = events;
		s->w = w;
		list_add(&s->list, &watches);
		w->dp_private = s;
	}
	mutex_unlock(&watches_lock);
	if (IS_ERR((void __force *)events)) {
		r = (int)PTR_ERR((void __force *)events);
		kfree(s);
		if (w->symbol_name)
			w->addr = NULL;
		return r == -ENOSPC ? refuse(w, E_WATCH_BUSY, -EBUSY) : refuse(w, E_WATCH_NONE, r);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(dp_register_kwatch);

static void take_out(struct watch *s)
{
	if (!s->events)
		return;
	/* Returns when no processor has the event any more; the exception itself runs with interrupts off. */
	unregister_wide_hw_breakpoint(s->events);
	synchronize_rcu();
	s->events = NULL;
}

void dp_unregister_kwatch(struct dp_kwatch *w)
{
	struct watch *s = w->dp_private;

	if (!s)
		return;
	mutex_lock(&watches_lock);
	take_out(s);
	list_del(&s->list);
	mutex_unlock(&watches_lock);
	kfree(s);
	w->dp_private = NULL;
	if (w->symbol_name)
		w->addr = NULL;
}
EXPORT_SYMBOL_GPL(dp_unregister_kwatch);

void dp_k_watches_remove_all(void)
{
	struct watch *s;

	mutex_lock(&watches_lock);
	list_for_each_entry(s, &watches, list)
		take_out(s);
	mutex_unlock(&watches_lock);
}

const char *dp_k_watch_holders(char *buf, size_t size)
{
	const struct watch *s;
	size_t n = 0;

	mutex_lock(&watches_lock);
	list_for_each_entry(s, &watches, list)
		if (s->events)
			n += scnprintf(buf + n, size - n, "%s%ps for %ps", n ? ", " : "", s->w->addr, s->w->handler);
	mutex_unlock(&watches_lock);
	return n ? buf : "nothing";
}
