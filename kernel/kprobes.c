// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The calls of <dprobes/kernel.h>, the registered probes behind them, and the work that turns
 * breakpoints into jumps a little later.
 */
#include <linux/delay.h>
#include <linux/ftrace.h>
#include <linux/hashtable.h>
#include <linux/kallsyms.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "kernel-priv.h"
#include "engine/manager-priv.h"

#define LATER (HZ / 20) /* until jumps are made: a batch in the making shall be one */

DEFINE_MUTEX(dp_k_lock);
struct dp_manager dp_k_manager;
LIST_HEAD(dp_k_probes);

static DEFINE_HASHTABLE(by_kp, 12);
static struct dp_mgr_host host;

static bool reap; /* there are points that are gone */

static void make_jumps(struct work_struct *w);
static DECLARE_DELAYED_WORK(jumps, make_jumps);

#define USER_FLAGS (DP_KPROBE_FLAG_DISABLED | DP_KPROBE_FLAG_AGAIN | DP_KPROBE_FLAG_STAYS)

static int refuse(struct dp_kprobe *kp, const struct dp_error *err, int r)
{
	kp->refusal = r && err->code ? dp_error_info(err->code)->name : NULL;
	if (r && err->code)
		pr_debug("dprobes: %s: %s\n", kp->refusal, err->detail);
	return r;
}

struct dp_probe *dp_k_probe_of(const struct dp_kprobe *kp)
{
	struct dp_probe *s;

	hash_for_each_possible(by_kp, s, node, (unsigned long)kp)
		if (s->kp == kp)
			return s;
	return NULL;
}

bool dp_k_may_move(const struct dp_probe *s)
{
	return s->type == 'k' && s->kp->pre_handler && !(s->kp->flags & DP_KPROBE_FLAG_STAYS);
}

static u32 flags_of(const struct dp_probe *s)
{
	return (s->kp->flags & DP_KPROBE_FLAG_DISABLED ? DP_KPROBE_DISABLED : 0) |
	       DP_KPROBE_GENERAL | (s->kp->pre_handler ? DP_KPROBE_PRE : 0) |
	       (s->kp->post_handler ? DP_KPROBE_POST : 0) | (s->type == 'j' ? DP_KPROBE_BREAK : 0);
}

/* Called for each point that a change has looked at, and there may be tens of thousands. */
static void show_state(void *arg, struct dp_kpoint *p)
{
	cond_resched();
	if (p->state == DP_POINT_OFF)
		dp_k_unreserve(p);
	for (struct dp_mgr_probe *k = p->probes; k; k = k->next) {
		struct dp_kprobe *kp = k->owner;

		kp->flags &= ~DP_KPROBE_FLAG_OPTIMIZED;
		if (p->state == DP_POINT_JUMP && !(kp->flags & DP_KPROBE_FLAG_DISABLED))
			kp->flags |= DP_KPROBE_FLAG_OPTIMIZED;
	}
}

void dp_k_later(void)
{
	mod_delayed_work(system_unbound_wq, &jumps, LATER);
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
	dp_k_returns_bury();
	if (reap) {
		reap = false;
		dp_k_settle(NULL);
		dp_mgr_reap(&dp_k_manager);
	}
	mutex_unlock(&dp_k_lock);
}

/* ---- places ---- */

/*
 * The start of a traceable function means the instruction behind the tracer's bytes: nothing has
 * happened before it, unless the function loops to there. *tracer: those bytes, or 0.
 */
static int behind_ftrace(u64 *addr, u64 *tracer, struct dp_error *err)
{
	unsigned long size, off, at;
	struct dp_locus l;
	int r;

	*tracer = 0;
	if (!dp_k_sym.ftrace_location || !dp_k_sym.size_offset(*addr, &size, &off))
		return 0;
	at = dp_k_sym.ftrace_location(*addr - off);
	if (!at || (*addr != at && off) || at - (*addr - off) > 4) /* endbr64 may come first */
		return 0;
	*tracer = at;
	r = dp_k_locate(NULL, at + MCOUNT_INSN_SIZE, &l, err);
	if (!r && dp_k_text_is_target(l.text, at + MCOUNT_INSN_SIZE))
		r = dp_fail(err, E_SITE_LOOP, "%pS", (void *)*addr);
	*addr = at + MCOUNT_INSN_SIZE;
	return r;
}

/* Find the address. 1: it is a symbol in a module that is not loaded. */
static int resolve(struct dp_kprobe *kp, u64 *addr, struct dp_error *err)
{
	int r = 0;

	if (kp->symbol_name && kp->addr == kp->dp_private) /* left from the last time */
		kp->addr = NULL;
	if (!kp->symbol_name == !kp->addr)
		return dp_fail(err, E_KPROBE_ARGUMENT, "%s",
			       kp->addr ? "both symbol_name and addr" : "no place");
	if (kp->addr)
		*addr = (unsigned long)kp->addr;
	else
		r = dp_k_resolve(kp->symbol_name, addr, err);
	*addr += kp->offset;
	return r;
}

static const char *const bad_returns[] = {"__switch_to", "__switch_to_asm", "ret_from_fork",
					  "rewind_stack_and_make_dead"};

static int check_entry(const struct dp_probe *s, u64 addr, struct dp_error *err)
{
	unsigned long size, off;

	if (!dp_k_sym.size_offset(addr, &size, &off) || off)
		return dp_fail(err, E_KPROBE_ARGUMENT, "%pS is not the start of a function",
			       (void *)addr);
	for (u32 i = 0; s->type == 'r' && i < DP_ARRAY_SIZE(bad_returns); i++)
		if (dp_k_lookup(bad_returns[i]) == addr)
			return dp_fail(err, E_KPROBE_TWICE, "%s", bad_returns[i]);
	return 0;
}

/* Why nothing can stand behind the tracer's bytes, while the function as such may be probed. */
static bool is_for_tracer(u64 tracer, const struct dp_error *err)
{
	switch (tracer ? err->code : DP_OK) {
	case E_SITE_LOOP:
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

static int attach_at(struct dp_probe *s, u64 addr, struct dp_error *err)
{
	int r = s->type == 'k' ? 0 : check_entry(s, addr, err);
	u64 tracer;

	if (!r && s->type == 'r')
		r = dp_k_return_attach((struct dp_kretprobe *)s->kp, err);
	if (r)
		return r;
	if (s->type == 'j')
		s->kp->pre_handler = dp_k_jprobe_pre;
	s->k.owner = s->kp;
	s->k.flags = flags_of(s);
	r = behind_ftrace(&addr, &tracer, err);
	if (!r)
		r = dp_mgr_attach(&dp_k_manager, addr, &s->k, err);
	if (r && is_for_tracer(tracer, err)) {
		addr = tracer;
		r = dp_k_fentry_attach(s, addr, err);
	}
	if (r) {
		if (s->type == 'r')
			dp_k_return_detach((struct dp_kretprobe *)s->kp);
		return r;
	}
	s->kp->addr = (void *)(unsigned long)addr;
	s->pending = false;
	s->kp->flags &= ~DP_KPROBE_FLAG_PENDING;
	return 0;
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

static int attach(struct dp_probe *s, u64 addr, struct dp_error *err)
{
	struct module *mod;
	int r = hold_module(addr, &mod, err);

	if (r)
		return r;
	r = attach_at(s, addr, err);
	if (mod)
		module_put(mod);
	return r;
}

static int judge(u64 *addr, enum dp_outcome *how, enum dp_code *why, u8 *opcode,
		 struct dp_error *err)
{
	struct dp_error ignored = {0};
	struct dp_window win;
	struct dp_site site;
	struct dp_locus l;
	u64 tracer;
	int r = behind_ftrace(addr, &tracer, err);

	if (!r)
		r = dp_k_locate(NULL, *addr, &l, err);
	if (!r)
		r = dp_site_judge(l.text, *addr - l.bias, &site, err);
	if (!r)
		r = mgr_unchanged(&dp_k_manager, &l, *addr, 1, err);
	if (r && is_for_tracer(tracer, err)) {
		*how = DP_OUTCOME_FTRACE;
		*why = err->code;
		r = copy_from_kernel_nofault(opcode, (void *)(unsigned long)(tracer + MCOUNT_INSN_SIZE), 1);
		*addr = tracer;
		return r ? dp_fail(err, E_SITE_NOTEXT, "0x%llx", tracer) : 0;
	}
	if (r)
		return r;
	*how = dp_window_build(l.text, *addr - l.bias, *addr - l.bias, &win, &ignored)
		   ? DP_OUTCOME_TRAP
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

static int add_probe(struct dp_kprobe *kp, char type, struct dp_error *err)
{
	struct dp_probe *s;
	u64 addr;
	int r;

	if (dp_k_probe_of(kp))
		return dp_fail(err, E_KPROBE_ARGUMENT, "it is registered already");
	if (type == 'j' && !((struct dp_jprobe *)kp)->entry)
		return dp_fail(err, E_KPROBE_ARGUMENT, "a jprobe without an entry");
	kp->nmissed = 0;
	if (type == 'r')
		((struct dp_kretprobe *)kp)->nmissed = 0;
	kp->flags &= USER_FLAGS;
	r = resolve(kp, &addr, err);
	if (r < 0)
		return r;
	s = kzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return dp_fail(err, E_ARM_NOMEM, "a probe");
	s->kp = kp;
	s->type = type;
	s->pending = r;
	if (r)
		kp->flags |= DP_KPROBE_FLAG_PENDING;
	r = r ? 0 : attach(s, addr, err);
	if (r && kp->symbol_name && dp_k_resolve(kp->symbol_name, &addr, NULL) > 0) {
		s->pending = true; /* it began to go meanwhile: wait until it comes back */
		kp->flags |= DP_KPROBE_FLAG_PENDING;
		r = 0;
	}
	if (r) {
		kfree(s);
		return r;
	}
	kp->dp_private = s;
	list_add_tail(&s->list, &dp_k_probes);
	hash_add(by_kp, &s->node, (unsigned long)kp);
	return 0;
}

/* ---- registering ---- */

static void detach(struct dp_probe *s)
{
	if (s->k.point)
		dp_mgr_detach(&dp_k_manager, &s->k);
	if (s->fentry)
		dp_k_fentry_detach(s);
	s->k.point = NULL;
}

static bool is_gone(const struct dp_probe *s)
{
	return s->k.point ? s->k.point->gone : dp_k_fentry_is_gone(s);
}

/* Calls that are under way return without us; return handlers that run come to an end. */
static void detach_returns(struct list_head *list)
{
	struct dp_probe *s;
	u32 n = 0;

	list_for_each_entry(s, list, list)
		if (s->type == 'r' && ((struct dp_kretprobe *)s->kp)->dp_private) {
			dp_k_return_detach((struct dp_kretprobe *)s->kp);
			n++;
		}
	if (n) {
		dp_k_grace(NULL);
		dp_k_later();
	}
}

static void unregister_all(struct dp_kprobe **kps, int num)
{
	struct dp_error err;
	LIST_HEAD(gone);
	struct dp_probe *s, *next;

	for (int i = 0; i < num; i++) {
		if (!(i & 63))
			cond_resched();
		s = dp_k_probe_of(kps[i]);
		if (!s) {
			kps[i]->addr = NULL;
			continue;
		}
		if (s->k.point && s->k.point->gone) {
			reap = true;
			dp_k_later();
		}
		detach(s);
		hash_del(&s->node);
		list_move(&s->list, &gone);
	}
	apply(&err); /* after its grace period nobody sees them any more */
	detach_returns(&gone);
	list_for_each_entry_safe(s, next, &gone, list) {
		struct dp_kprobe *kp = s->kp;

		if (s->type != 'k')
			kp->pre_handler = NULL;
		kp->flags &= USER_FLAGS;
		/* Registered again as it is, it stands where it stood: see resolve(). */
		kp->dp_private = kp->symbol_name ? kp->addr : NULL;
		if (!kp->symbol_name)
			kp->addr -= kp->offset;
		kfree(s);
	}
}

int dp_k_register(struct dp_kprobe **kps, int num, char type, struct dp_error *out)
{
	struct dp_error err = {0};
	int r = 0, i;

	mutex_lock(&dp_k_lock);
	for (i = 0; i < num && !r; i++) {
		r = refuse(kps[i], &err, add_probe(kps[i], type, &err));
		if (!(i & 63))
			cond_resched();
	}
	if (r)
		i--; /* the bad one is not registered */
	else
		r = apply(&err);
	if (r) {
		unregister_all(kps, i);
		if (i == num) /* all of them were good until they were to be armed */
			for (int k = 0; k < num; k++)
				refuse(kps[k], &err, r);
	}
	mutex_unlock(&dp_k_lock);
	if (r && out)
		*out = err;
	return r;
}

void dp_k_unregister(struct dp_kprobe **kps, int num)
{
	mutex_lock(&dp_k_lock);
	unregister_all(kps, num);
	mutex_unlock(&dp_k_lock);
}

static int change_flags(struct dp_probe *s, bool disabled, struct dp_error *err)
{
	struct dp_kprobe *kp = s->kp;
	int r = 0;

	kp->flags = disabled ? kp->flags | DP_KPROBE_FLAG_DISABLED
			     : kp->flags & ~DP_KPROBE_FLAG_DISABLED;
	if (s->k.point)
		r = dp_mgr_flags(&dp_k_manager, &s->k, flags_of(s));
	if (s->fentry) {
		s->k.flags = flags_of(s);
		dp_k_fentry_touch();
	}
	return r ? r : apply(err);
}

static int set_disabled(struct dp_kprobe *kp, bool disabled)
{
	struct dp_error err = {0}, ignored;
	struct dp_probe *s;
	int r;

	mutex_lock(&dp_k_lock);
	s = dp_k_probe_of(kp);
	if (!s || is_gone(s)) {
		r = dp_fail(&err, E_KPROBE_UNKNOWN, "%s",
			    s ? "its module is gone" : "no such probe");
	} else {
		r = change_flags(s, disabled, &err);
		if (r && !disabled)
			change_flags(s, true, &ignored); /* what cannot be armed stays off */
	}
	refuse(kp, &err, r);
	mutex_unlock(&dp_k_lock);
	return r;
}

int dp_register_kprobes(struct dp_kprobe **kps, int num)
{
	return num > 0 ? dp_k_register(kps, num, 'k', NULL) : -EINVAL;
}
EXPORT_SYMBOL_GPL(dp_register_kprobes);

void dp_unregister_kprobes(struct dp_kprobe **kps, int num)
{
	if (num > 0)
		dp_k_unregister(kps, num);
}
EXPORT_SYMBOL_GPL(dp_unregister_kprobes);

int dp_register_kprobe(struct dp_kprobe *p)
{
	return dp_k_register(&p, 1, 'k', NULL);
}
EXPORT_SYMBOL_GPL(dp_register_kprobe);

void dp_unregister_kprobe(struct dp_kprobe *p)
{
	dp_k_unregister(&p, 1);
}
EXPORT_SYMBOL_GPL(dp_unregister_kprobe);

int dp_disable_kprobe(struct dp_kprobe *p)
{
	return set_disabled(p, true);
}
EXPORT_SYMBOL_GPL(dp_disable_kprobe);

int dp_enable_kprobe(struct dp_kprobe *p)
{
	return set_disabled(p, false);
}
EXPORT_SYMBOL_GPL(dp_enable_kprobe);

void dp_wait_for_kprobe_optimizer(void)
{
	flush_delayed_work(&jumps);
}
EXPORT_SYMBOL_GPL(dp_wait_for_kprobe_optimizer);

/* ---- all of them ---- */

int dp_k_knobs(bool armed, bool optimise)
{
	struct dp_error err;
	int r;

	mutex_lock(&dp_k_lock);
	r = dp_mgr_knobs(&dp_k_manager, !armed, !optimise);
	dp_k_fentry_touch();
	if (!r)
		r = apply(&err);
	mutex_unlock(&dp_k_lock);
	return r;
}

/* An emergency: their owners still have them, but nothing is probed any more. */
void dp_k_remove_all(void)
{
	struct dp_error err;
	struct dp_probe *s;

	mutex_lock(&dp_k_lock);
	list_for_each_entry(s, &dp_k_probes, list) {
		detach(s);
		s->pending = false;
		s->kp->flags &= ~DP_KPROBE_FLAG_OPTIMIZED;
		s->kp->flags |= DP_KPROBE_FLAG_GONE;
	}
	apply(&err);
	detach_returns(&dp_k_probes);
	mutex_unlock(&dp_k_lock);
}

void dp_k_try_pending(struct module *mod)
{
	size_t len = strlen(mod->name);
	struct dp_error err = {0};
	struct dp_probe *s;
	u64 addr;
	u32 n = 0;

	mutex_lock(&dp_k_lock);
	list_for_each_entry(s, &dp_k_probes, list) {
		const char *name = s->kp->symbol_name;

		if (!s->pending || strncmp(name, mod->name, len) || name[len] != ':')
			continue;
		if (!dp_k_resolve(name, &addr, &err))
			refuse(s->kp, &err, attach(s, addr + s->kp->offset, &err));
		n++;
	}
	if (n)
		apply(&err);
	mutex_unlock(&dp_k_lock);
}

/* It waits for its module once more. */
static void wait_again(struct dp_probe *s)
{
	detach(s);
	s->pending = true;
	s->kp->addr = NULL;
	s->kp->flags |= DP_KPROBE_FLAG_PENDING;
	if (s->type == 'r')
		dp_k_return_detach((struct dp_kretprobe *)s->kp);
}

void dp_k_gone(u64 lo, u64 hi, struct module *mod)
{
	struct dp_error err;
	struct dp_probe *s;
	u32 n = 0;

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
	list_for_each_entry(s, &dp_k_probes, list) {
		if (!is_gone(s))
			continue;
		s->kp->flags &= ~DP_KPROBE_FLAG_OPTIMIZED;
		if (s->kp->flags & DP_KPROBE_FLAG_AGAIN && s->kp->symbol_name &&
		    strchr(s->kp->symbol_name, ':'))
			wait_again(s);
		else
			s->kp->flags |= DP_KPROBE_FLAG_GONE;
		n++;
	}
	if (n) {
		apply(&err); /* what was replaced is freed after its grace period */
		dp_k_later(); /* for return probes, too */
	}
	mutex_unlock(&dp_k_lock);
}

int dp_k_kprobes_init(void)
{
	int r = dp_k_code_init(&host);

	host.looked_at = show_state;
	r = r ? r : dp_mgr_init(&dp_k_manager, &host);
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
			pr_warn("dprobes: E-SITE-FOREIGN: %u jumps carry somebody else's probe: waiting until it is removed\n", n);
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
	dp_k_settle(NULL);
}

void dp_k_kprobes_exit(void)
{
	dp_mgr_free(&dp_k_manager);
	dp_k_reserve_exit();
	dp_k_code_exit();
}
