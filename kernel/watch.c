// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Watchpoints on memory of the kernel, on all processors: the kernel's hw_breakpoint layer with the interface of
 * <dprobes/kernel.h>. The layer hands the four registers out, so debuggers and perf are respected.
 */
#include <linux/hw_breakpoint.h>
#include <linux/kallsyms.h>
#include <linux/perf_event.h>

#include "kernel-priv.h"

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
	events = register_wide_hw_breakpoint(&attr, on_access, w);
	if (IS_ERR((void __force *)events)) {
		r = (int)PTR_ERR((void __force *)events);
		if (w->symbol_name)
			w->addr = NULL;
		return r == -ENOSPC ? refuse(w, E_WATCH_BUSY, -EBUSY) : refuse(w, E_WATCH_NONE, r);
	}
	w->dp_private = (void __force *)events;
	return 0;
}
EXPORT_SYMBOL_GPL(dp_register_kwatch);

void dp_unregister_kwatch(struct dp_kwatch *w)
{
	if (!w->dp_private)
		return;
	/* Returns when no processor has the event any more; the exception itself runs with interrupts off. */
	unregister_wide_hw_breakpoint((struct perf_event *__percpu __force *)w->dp_private);
	synchronize_rcu();
	w->dp_private = NULL;
	if (w->symbol_name)
		w->addr = NULL;
}
EXPORT_SYMBOL_GPL(dp_unregister_kwatch);
