// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Watchpoints on memory of the kernel, on all processors, and the arbiter of debug registers: the kernel's
 * hw_breakpoint layer with the interface of <dprobes/kernel.h>. The layer hands the registers out, so debuggers and
 * perf are respected; a register that is set aside is an event of the layer that is switched off, so they respect it,
 * too.
 */
#include <linux/hw_breakpoint.h>
#include <linux/kallsyms.h>
#include <linux/perf_event.h>
#include <linux/seq_file.h>

#include "kernel-priv.h"

enum { REGISTERS = HBP_NUM };

struct dr { /* a register, by the arbiter's number; which one of the processor's it is, the layer decides */
	enum { UNUSED, SHARED, OWNED } state;
	u32 uses;       /* of a shared one */
	const void *by; /* an owned one was set aside: by whom; NULL: it was taken for one watchpoint */
	struct perf_event *__percpu *events; /* of an owned one */
	struct dp_kwatch *w;                 /* what it watches, or NULL; the debug exception reads it */
};

static struct dr drs[REGISTERS];
static struct dr gone;             /* stands behind watchpoints that were removed by somebody else than their owner */
static DEFINE_MUTEX(watches_lock); /* protects all of these */

static int refuse(struct dp_kwatch *w, enum dp_code code, int r)
{
	w->refusal = dp_error_info(code)->name;
	w->dp_private = NULL;
	return r;
}

/* The debug exception, interrupts off. */
static HIT void on_access(struct perf_event *bp, struct perf_sample_data *data, struct pt_regs *regs)
{
	const struct dr *dr = bp->overflow_handler_context;
	struct dp_kwatch *w = READ_ONCE(dr->w);

	if (!w)
		return;
	if (!dp_k_enter()) {
		/* Several processors may count at once. */
		__atomic_fetch_add(&w->nmissed, 1, __ATOMIC_RELAXED);
		return;
	}
	w->handler(w, regs, w->addr);
	dp_k_leave();
}

/* ---- the arbiter ---- */

/* From above: debuggers begin at 0. */
static int find_unused(void)
{
	int n = REGISTERS - 1;

	while (n >= 0 && drs[n].state != UNUSED)
		n--;
	return n < 0 ? -EBUSY : n;
}

/* One that tasks have already, else one that nobody has. */
static int find_shared(void)
{
	for (int n = 0; n < REGISTERS; n++)
		if (drs[n].state == SHARED)
			return n;
	for (int n = 0; n < REGISTERS; n++)
		if (drs[n].state == UNUSED)
			return n;
	return -EBUSY;
}

/* Ask the layer for the register of each processor. -EBUSY when one has none left. */
static int own(struct dr *dr, struct perf_event_attr *attr, struct dp_kwatch *w, const void *by)
{
	struct perf_event *__percpu *events;
	int r;

	WRITE_ONCE(dr->w, w); /* before the first hit */
	events = register_wide_hw_breakpoint(attr, on_access, dr);
	r = PTR_ERR_OR_ZERO((void *)(unsigned long)events); /* no cast keeps it a pointer on every kernel */
	if (r) {
		dr->w = NULL;
		return r == -ENOSPC ? -EBUSY : r;
	}
	dr->events = events;
	dr->by = by;
	dr->state = OWNED;
	return 0;
}

static void disown(struct dr *dr)
{
	/* Returns when no processor has the event any more; the exception itself runs with interrupts off. */
	unregister_wide_hw_breakpoint(dr->events);
	synchronize_rcu();
	*dr = (struct dr){};
}

/* An event that is switched off, of any address, holds a register. */
static int set_aside(struct dr *dr, const void *by)
{
	struct perf_event_attr attr;

	hw_breakpoint_init(&attr);
	attr.bp_addr = (unsigned long)dr;
	attr.bp_len = HW_BREAKPOINT_LEN_1;
	attr.bp_type = HW_BREAKPOINT_W;
	attr.disabled = 1;
	return own(dr, &attr, NULL, by);
}

int dp_dr_alloc(int number, int kind)
{
	const void *by = __builtin_return_address(0);
	int n = number, r = 0;
	struct dr *dr;

	if (number < DP_DR_ANY || number >= REGISTERS || (kind != DP_DR_GLOBAL && kind != DP_DR_LOCAL))
		return -EINVAL;
	mutex_lock(&watches_lock);
	if (n == DP_DR_ANY)
		n = kind == DP_DR_LOCAL ? find_shared() : find_unused();
	if (n >= 0) {
		dr = &drs[n];
		if (dr->state == OWNED || (dr->state == SHARED && kind == DP_DR_GLOBAL)) {
			r = -EBUSY;
		} else if (kind == DP_DR_GLOBAL) {
			r = set_aside(dr, by);
		} else {
			dr->state = SHARED;
			dr->uses++;
		}
	}
	mutex_unlock(&watches_lock);
	return r ? r : n;
}
EXPORT_SYMBOL_GPL(dp_dr_alloc);

int dp_dr_free(int number)
{
	struct dr *dr;
	int r = 0;

	if (number < 0 || number >= REGISTERS)
		return -EINVAL;
	dr = &drs[number];
	mutex_lock(&watches_lock);
	if (dr->state == SHARED)
		dr->state = --dr->uses ? SHARED : UNUSED;
	else if (dr->state == UNUSED || !dr->by)
		r = -EINVAL;
	else if (dr->w)
		r = -EBUSY;
	else
		disown(dr);
	mutex_unlock(&watches_lock);
	return r;
}
EXPORT_SYMBOL_GPL(dp_dr_free);

/* ---- watchpoints ---- */

int dp_k_watch_check(struct dp_kwatch *w, u64 *at, enum dp_code *why)
{
	int r = 0;

	*at = (u64)w->addr;
	*why = w->type == DP_KWATCH_IO ? E_WATCH_TYPE : E_WATCH_ARGUMENT;
	if (w->type == DP_KWATCH_IO)
		return -EOPNOTSUPP;
	if (!w->addr == !w->symbol_name || !w->len || w->len > 8 || w->len & (w->len - 1) || w->type > DP_KWATCH_RW ||
	    (w->type == DP_KWATCH_EXECUTE && w->len != 1))
		return -EINVAL;
	if (w->symbol_name)
		r = dp_k_resolve(w->symbol_name, at, NULL);
	if (r) {
		*why = E_SYM_NONE;
		return -ENOENT;
	}
	*at += w->offset;
	return *at % w->len || *at < TASK_SIZE_MAX ? -EINVAL : 0;
}

static void describe(const struct dp_kwatch *w, u64 at, struct perf_event_attr *attr)
{
	hw_breakpoint_init(attr);
	attr->bp_addr = at;
	attr->bp_len = w->type == DP_KWATCH_EXECUTE ? sizeof(long) : w->len;
	attr->bp_type = w->type == DP_KWATCH_EXECUTE ? HW_BREAKPOINT_X
			: w->type == DP_KWATCH_WRITE ? HW_BREAKPOINT_W
						     : HW_BREAKPOINT_RW;
}

/* A register that was set aside goes on holding its place. */
static void stop(struct dr *dr)
{
	int cpu;

	if (!dr->by) {
		disown(dr);
		return;
	}
	for_each_possible_cpu(cpu) {
		struct perf_event *e = *per_cpu_ptr(dr->events, cpu);

		if (e)
			perf_event_disable(e);
	}
	synchronize_rcu();
	WRITE_ONCE(dr->w, NULL);
}

static int start(struct dr *dr, struct perf_event_attr *attr, struct dp_kwatch *w)
{
	int cpu, r = 0;

	WRITE_ONCE(dr->w, w); /* before the first hit */
	for_each_possible_cpu(cpu) {
		struct perf_event *e = *per_cpu_ptr(dr->events, cpu);

		if (e && !r)
			r = modify_user_hw_breakpoint(e, attr);
	}
	if (r)
		stop(dr);
	return r;
}

/* The register of a watchpoint, which is registered when it has one. */
static int take(struct dp_kwatch *w, struct perf_event_attr *attr, enum dp_code *why)
{
	bool aside = w->flags & DP_KWATCH_FLAG_DR;
	int n = aside ? w->dr : find_unused(), r;

	*why = E_WATCH_ARGUMENT;
	if (aside && (n < 0 || n >= REGISTERS || !drs[n].by || drs[n].w))
		return -EINVAL;
	*why = E_WATCH_BUSY;
	if (n < 0)
		return n;
	w->dr = n;
	w->dp_private = &drs[n];
	r = aside ? start(&drs[n], attr, w) : own(&drs[n], attr, w, NULL);
	*why = r == -EBUSY ? E_WATCH_BUSY : E_WATCH_NONE;
	return r;
}

int dp_register_kwatch(struct dp_kwatch *w)
{
	struct perf_event_attr attr;
	enum dp_code why;
	u64 at;
	int r;

	w->refusal = NULL;
	if (w->dp_private || !w->handler) {
		w->refusal = dp_error_info(E_WATCH_ARGUMENT)->name;
		return -EINVAL;
	}
	r = dp_k_watch_check(w, &at, &why);
	if (r)
		return refuse(w, why, r);
	w->addr = (void *)at;
	w->nmissed = 0;
	w->flags &= DP_KWATCH_FLAG_DR;
	describe(w, at, &attr);
	mutex_lock(&watches_lock);
	r = take(w, &attr, &why);
	mutex_unlock(&watches_lock);
	if (!r)
		return 0;
	if (w->symbol_name)
		w->addr = NULL;
	return refuse(w, why, r);
}
EXPORT_SYMBOL_GPL(dp_register_kwatch);

void dp_unregister_kwatch(struct dp_kwatch *w)
{
	mutex_lock(&watches_lock);
	if (w->dp_private && w->dp_private != &gone)
		stop(w->dp_private);
	if (w->dp_private) {
		w->dp_private = NULL;
		if (w->symbol_name)
			w->addr = NULL;
	}
	mutex_unlock(&watches_lock);
}
EXPORT_SYMBOL_GPL(dp_unregister_kwatch);

static void remove_between(u64 lo, u64 hi)
{
	mutex_lock(&watches_lock);
	for (int n = 0; n < REGISTERS; n++) {
		struct dp_kwatch *w = drs[n].w;

		if (!w || (u64)w->addr < lo || (u64)w->addr >= hi)
			continue;
		stop(&drs[n]);
		w->flags |= DP_KWATCH_FLAG_GONE;
		w->dp_private = &gone;
	}
	mutex_unlock(&watches_lock);
}

/* Their owners still have them, but nothing is watched any more. */
void dp_k_watches_remove_all(void)
{
	remove_between(0, ~0ull);
}

/* A module goes: what comes to lie there later is not what was meant. */
void dp_k_watches_gone(u64 lo, u64 hi)
{
	remove_between(lo, hi);
}

/* ---- who has them ---- */

const char *dp_k_watch_holders(char *buf, size_t size)
{
	size_t n = 0;

	mutex_lock(&watches_lock);
	for (int i = REGISTERS - 1; i >= 0; i--) {
		const struct dr *dr = &drs[i];
		const char *comma = n ? ", " : "";

		if (dr->w)
			n += scnprintf(buf + n, size - n, "%s%ps for %ps", comma, dr->w->addr, dr->w->handler);
		else if (dr->state == OWNED)
			n += scnprintf(buf + n, size - n, "%s(set aside) for %ps", comma, dr->by);
		else if (dr->state == SHARED)
			n += scnprintf(buf + n, size - n, "%s(left to tasks)", comma);
	}
	mutex_unlock(&watches_lock);
	return n ? buf : "nothing";
}

void dp_k_watches_each(void (*fn)(void *arg, const struct dp_kwatch *w), void *arg)
{
	mutex_lock(&watches_lock);
	for (int n = 0; n < REGISTERS; n++)
		if (drs[n].w)
			fn(arg, drs[n].w);
	mutex_unlock(&watches_lock);
}

/*
 * Number, access, address, bytes, what, for whom:
 * "3  w   0xffffffff82f6b0a8  4  panic_timeout  on_write [kwatch_example]"
 */
int dp_k_watches_show(struct seq_file *m, void *v)
{
	static const char *const types[] = {"x", "w", "io", "rw"};

	mutex_lock(&watches_lock);
	for (int n = 0; n < REGISTERS; n++) {
		const struct dr *dr = &drs[n];

		if (dr->w)
			seq_printf(m, "%d  %-5s  0x%px  %u  %pS  %ps%s\n", n, types[dr->w->type], dr->w->addr,
				   dr->w->len, dr->w->addr, dr->w->handler, dr->by ? "  [SET ASIDE]" : "");
		else if (dr->state == OWNED)
			seq_printf(m, "%d  aside  -  -  -  %ps\n", n, dr->by);
		else if (dr->state == SHARED)
			seq_printf(m, "%d  tasks  -  -  -  %u users\n", n, dr->uses);
	}
	mutex_unlock(&watches_lock);
	return 0;
}
