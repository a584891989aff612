// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The kernel as a host of the registry of probes (engine/kprobes.c), the calls of <dprobes/kernel.h>, and the work that
 * turns breakpoints into jumps a little later.
 */
#include <linux/delay.h>
#include <linux/ftrace.h>
#include <linux/kallsyms.h>
#include <linux/workqueue.h>

#include "kernel-priv.h"
#include "engine/manager-priv.h"

#define LATER (HZ / 20) /* until jumps are made: a batch in the making shall be one */

DEFINE_MUTEX(dp_k_lock);
struct dp_manager dp_k_manager;

static struct dp_mgr_host host;

static bool reap; /* there are points that are gone */

static void make_jumps(struct work_struct *w);
static DECLARE_DELAYED_WORK(jumps, make_jumps);

static int lock(void)
{
	mutex_lock(&dp_k_lock);
	return 0;
}

static void unlock(void)
{
	mutex_unlock(&dp_k_lock);
}

static void tell(struct dp_kprobe *kp, const struct dp_error *err, int r)
{
	if (kp)
		kp->refusal = r && err->code ? dp_error_info(err->code)->name : NULL;
	if (r && err->code)
		pr_debug("dprobes: %s: %s\n", dp_error_info(err->code)->name, err->detail);
}

bool dp_k_is_passed_by(const struct dp_registered *s)
{
	unsigned long size, off;
	u64 addr = (u64)s->kp->addr;

	return s->k.point && !s->k.point->gone && dp_k_sym.size_offset(addr, &size, &off) &&
	       dp_k_is_patched(addr - off, false);
}

bool dp_k_may_move(const struct dp_registered *s)
{
	return s->type == 'k' && s->kp->pre_handler && !(s->kp->flags & DP_KPROBE_FLAG_STAYS);
}

/* No code of the kernel has vector registers in use. */
static u32 hints(const struct dp_kprobe *kp, char type)
{
	return DP_MGR_GENERAL;
}

/* Called for each point that a change has looked at, and there may be tens of thousands. */
static void show_state(void *arg, struct dp_kpoint *p)
{
	cond_resched();
	if (p->state == DP_POINT_OFF)
		dp_k_unreserve(p);
	dp_kprobes_show_state(p);
}

void dp_k_later(void)
{
	mod_delayed_work(dp_k_unbound_wq, &jumps, LATER);
}

/* Kprobes does nothing meanwhile, and from now on nothing to the instructions of these points. */
static int carry_out(bool hold, struct dp_error *err)
{
	int r;

	if (dp_k_sym.kprobe_mutex)
		mutex_lock(dp_k_sym.kprobe_mutex);
	for (struct dp_kpoint *p = dp_k_manager.work; p; p = p->work_next)
		if (p->list && !p->gone)
			dp_k_reserve(p);
	dp_k_manager.hold = hold;
	r = dp_mgr_apply(&dp_k_manager, err);
	dp_k_manager.hold = true;
	if (dp_k_sym.kprobe_mutex)
		mutex_unlock(dp_k_sym.kprobe_mutex);
	return r;
}

/* Breakpoints now; jumps when things have calmed down. */
static int apply(struct dp_error *err)
{
	int r = carry_out(true, err);

	if (dp_k_manager.work)
		dp_k_later();
	return r ? r : dp_k_fentry_apply(err);
}

static void make_jumps(struct work_struct *w)
{
	struct dp_error err = {0};

	bool ready = !dp_k_text_cross();

	mutex_lock(&dp_k_lock);
	if (dp_k_manager.work && ready) {
		if (carry_out(false, &err))
			pr_warn("dprobes: %s: %s\n", dp_error_info(err.code)->name, err.detail);
		if (dp_k_manager.nstuck)
			dp_k_later();
	}
	dp_k_returns_reap();
	if (reap) {
		reap = false;
		dp_k_settle(NULL);
		dp_mgr_reap(&dp_k_manager);
	}
	mutex_unlock(&dp_k_lock);
	dp_k_unwind_look(false);
}

/* ---- places ---- */

/*
 * The start of a function means the instruction behind its landing pad and the tracer's bytes: nothing has
 * happened before it, unless the function loops to there. *tracer: those bytes, or 0.
 */
static int behind_entry(u64 *addr, u64 *tracer, struct dp_error *err)
{
	unsigned long size, off;
	u64 function, behind;
	struct dp_locus l;
	int r;

	*tracer = 0;
	if (!dp_k_sym.size_offset(*addr, &size, &off))
		return 0;
	function = *addr - off;
	*tracer = dp_k_tracers_bytes(function);
	behind = *tracer ? *tracer + MCOUNT_INSN_SIZE : function + dp_k_landing_pad(function);
	if (behind == function || (off && *addr != *tracer)) {
		*tracer = 0;
		return 0;
	}
	r = dp_k_locate(NULL, behind, &l, err);
	if (!r && *tracer && dp_k_is_patched(function, true))
		r = dp_fail(err, E_SITE_PATCHED, "%pS", (void *)*addr);
	if (!r && dp_k_text_is_target(l.text, behind))
		r = dp_fail(err, E_SITE_LOOP, "%pS", (void *)*addr);
	*addr = behind;
	return r;
}

/* Looked up once: some kernels go through all of their names each time. */
static struct {
	const char *name;
	u64 addr; /* 0: none */
} bad_returns[] = {{"__switch_to"}, {"__switch_to_asm"}, {"ret_from_fork"}, {"rewind_stack_and_make_dead"}};

static int check_entry(const struct dp_registered *s, u64 addr, struct dp_error *err)
{
	unsigned long size, off;

	if (!dp_k_sym.size_offset(addr, &size, &off) || off)
		return dp_fail(err, E_KPROBE_ARGUMENT, "%pS is not the start of a function", (void *)addr);
	for (u32 i = 0; s->type == 'r' && i < DP_ARRAY_SIZE(bad_returns); i++)
		if (bad_returns[i].addr == addr)
			return dp_fail(err, E_KPROBE_TWICE, "%s", bad_returns[i].name);
	return 0;
}

/* Why nothing can stand behind the tracer's bytes, while the function as such may be probed. */
static bool is_for_tracer(u64 tracer, const struct dp_error *err)
{
	switch (tracer ? err->code : DP_OK) {
	case E_SITE_LOOP:
	case E_SITE_PATCHED:
	case E_SITE_JUMPLABEL:
	case E_SITE_STATICCALL:
	case E_SITE_ALTERNATIVE:
	case E_SITE_EXTABLE:
	case E_SITE_FOREIGN:
	case E_SITE_INSN:
	case E_SITE_BADINSN:
	case E_RELOC_INSN:
	case E_RELOC_RANGE:
		return IS_ENABLED(CONFIG_DYNAMIC_FTRACE_WITH_REGS);
	default:
		return false;
	}
}

static int attach_at(struct dp_registered *s, u64 *addr, struct dp_error *err)
{
	int r = s->type == 'k' ? 0 : check_entry(s, *addr, err);
	u64 tracer;

	if (r)
		return r;
	r = behind_entry(addr, &tracer, err);
	if (!r)
		r = dp_mgr_attach(&dp_k_manager, *addr, &s->k, err);
	if (r && is_for_tracer(tracer, err)) {
		*addr = tracer;
		r = dp_k_fentry_attach(s, tracer, err);
	}
	return r;
}

/* Its module shall not go away between the look at its code and the note of the point. */
static int hold_module(u64 addr, struct module **mod, struct dp_error *err)
{
	int r = 0;

	rcu_read_lock_sched();
	*mod = dp_k_sym.module_text(addr);
	if (*mod && !try_module_get(*mod))
		r = dp_fail(err, E_SITE_NOTEXT, "its module is being unloaded");
	rcu_read_unlock_sched();
	return r;
}

static int attach(struct dp_registered *s, u64 *addr, struct dp_error *err)
{
	struct module *mod;
	int r = hold_module(*addr, &mod, err);

	if (r)
		return r;
	r = attach_at(s, addr, err);
	if (mod)
		module_put(mod);
	return r;
}

static void detach(struct dp_registered *s)
{
	if (s->k.point && s->k.point->gone) {
		reap = true;
		dp_k_later();
	}
	if (s->k.point)
		dp_mgr_detach(&dp_k_manager, &s->k);
	if (s->own)
		dp_k_fentry_detach(s);
}

static int flagged(struct dp_registered *s)
{
	if (!s || s->own)
		dp_k_fentry_touch();
	return 0;
}

static const struct dp_kprobes_host kprobes_host = {
    .user_flags = DP_KPROBE_FLAG_DISABLED | DP_KPROBE_FLAG_AGAIN | DP_KPROBE_FLAG_STAYS,
    .return_entry = dp_k_return_pre,
    .jprobe_entry = dp_k_jprobe_pre,
    .lock = lock,
    .unlock = unlock,
    .tell = tell,
    .resolve = dp_k_resolve,
    .hints = hints,
    .attach = attach,
    .detach = detach,
    .flagged = flagged,
    .is_gone = dp_k_fentry_is_gone,
    .apply = apply,
    .sweep = dp_k_later,
};

struct dp_kprobes dp_k_kprobes = {.host = &kprobes_host, .m = &dp_k_manager, .returns = &dp_k_returns};

static int judge(u64 *addr, enum dp_outcome *how, enum dp_code *why, u8 *opcode, struct dp_error *err)
{
	struct dp_error ignored = {0};
	struct dp_window win;
	struct dp_site site;
	struct dp_locus l;
	u64 tracer;
	int r = behind_entry(addr, &tracer, err);

	if (!r)
		r = dp_k_locate(NULL, *addr, &l, err);
	if (!r)
		r = dp_site_judge(l.text, *addr - l.bias, &site, err);
	if (!r)
		r = dp_mgr_unchanged(&dp_k_manager, &l, *addr, 1, err);
	if (r && is_for_tracer(tracer, err)) {
		*how = DP_OUTCOME_FTRACE;
		*why = err->code;
		r = copy_from_kernel_nofault(opcode, (void *)(unsigned long)(tracer + MCOUNT_INSN_SIZE), 1);
		*addr = tracer;
		return r ? dp_fail(err, E_SITE_NOTEXT, "0x%llx", tracer) : 0;
	}
	if (r)
		return r;
	*how = dp_window_build(l.text, *addr - l.bias, *addr - l.bias, &win, &ignored) ? DP_OUTCOME_TRAP
										       : DP_OUTCOME_JUMP;
	*why = ignored.code;
	/* The judge knows guarded places of processes only: here it is something else. */
	if (*why == E_SITE_RSEQ)
		*why = dp_k_guard_at(*addr, DP_JUMP_LEN - 1 + DP_INSN_MAX);
	*opcode = l.text->bytes[*addr - l.bias - l.text->lo];
	return 0;
}

int dp_k_judge(u64 *addr, enum dp_outcome *how, enum dp_code *why, u8 *opcode, struct dp_error *err)
{
	struct module *mod;
	int r = dp_k_text_cross() ? dp_fail(err, E_ARM_NOMEM, "the kernel's code") : 0;

	if (r)
		return r;
	mutex_lock(&dp_k_lock);
	r = hold_module(*addr, &mod, err);
	if (!r) {
		r = judge(addr, how, why, opcode, err);
		if (mod)
			module_put(mod);
	}
	mutex_unlock(&dp_k_lock);
	return r;
}

/* ---- the calls ---- */

#define DP_CALL(type, name) type dp_##name
#define DP_EXPORT(name) EXPORT_SYMBOL_GPL(dp_##name);
#define DP_REGISTER(v, num, type) dp_k_register((struct dp_kprobe **)(v), num, type, NULL)
#define DP_UNREGISTER(v, num) dp_k_unregister((struct dp_kprobe **)(v), num)
#define DP_DISABLE(kp, disabled) dp_kprobes_disable(&dp_k_kprobes, kp, disabled)
#include "engine/kprobes-calls.h"

int dp_k_register(struct dp_kprobe **kps, int num, char type, struct dp_error *err)
{
	int r;

	if (type == 'r')
		dp_k_unwind_begin();
	r = dp_kprobes_register(&dp_k_kprobes, kps, num, type, err);
	if (type == 'r')
		dp_k_unwind_end();
	return r;
}

void dp_k_unregister(struct dp_kprobe **kps, int num)
{
	dp_kprobes_unregister(&dp_k_kprobes, kps, num);
}

void dp_wait_for_kprobe_optimizer(void)
{
	flush_delayed_work(&jumps);
}
EXPORT_SYMBOL_GPL(dp_wait_for_kprobe_optimizer);

/* ---- all of them ---- */

/* An emergency. */
void dp_k_remove_all(void)
{
	mutex_lock(&dp_k_lock);
	dp_kprobes_remove_all(&dp_k_kprobes);
	mutex_unlock(&dp_k_lock);
}

void dp_k_try_pending(struct module *mod)
{
	mutex_lock(&dp_k_lock);
	dp_kprobes_try_pending(&dp_k_kprobes, mod->name);
	mutex_unlock(&dp_k_lock);
}

void dp_k_gone(u64 lo, u64 hi, struct module *mod)
{
	mutex_lock(&dp_k_lock);
	if (dp_mgr_gone(&dp_k_manager, lo, hi)) {
		for (struct dp_kpoint *p = dp_k_manager.points; p; p = p->next)
			if (p->gone)
				dp_k_unreserve(p);
		reap = true; /* also what nobody probes any more */
		dp_k_later();
	}
	dp_k_text_gone(lo, hi, mod);
	dp_k_fentry_gone(lo, hi);
	dp_kprobes_mark_gone(&dp_k_kprobes);
	mutex_unlock(&dp_k_lock);
}

int dp_k_kprobes_init(void)
{
	int r;

	for (u32 i = 0; i < DP_ARRAY_SIZE(bad_returns); i++)
		bad_returns[i].addr = dp_k_lookup(bad_returns[i].name);
	dp_k_code_init(&host);
	host.looked_at = show_state;
	r = dp_mgr_init(&dp_k_manager, &host);
	if (!r) {
		dp_k_reserve_init();
		dp_k_later(); /* the kernel's code is read in the background */
	}
	return r;
}

/* Somebody's probe stands on a jump of ours, and leads through it: until it is gone, so must the slot be there. */
static void wait_for_neighbours(void)
{
	struct dp_error err;
	u32 rounds = 0, n;

	do {
		mutex_lock(&dp_k_lock);
		apply(&err);
		n = dp_k_manager.nstuck;
		mutex_unlock(&dp_k_lock);
		if (n && rounds++ % 100 == 0)
			pr_warn("dprobes: E-SITE-FOREIGN: %u jumps carry somebody else's probe: "
				"waiting until it is removed\n",
				n);
		if (n)
			msleep(100);
	} while (n);
}

/* No more probes, everything restored, and nobody inside anything of ours. */
void dp_k_kprobes_quiet(void)
{
	dp_k_remove_all();
	wait_for_neighbours();
	cancel_delayed_work_sync(&jumps);
	dp_k_unwind_look(true);
	dp_k_settle(NULL);
}

void dp_k_kprobes_exit(void)
{
	dp_mgr_free(&dp_k_manager);
	dp_k_reserve_exit();
	dp_k_code_exit();
}
