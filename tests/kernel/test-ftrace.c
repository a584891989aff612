// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Entries that are hit through the kernel's function tracer, because the function loops to where
 * its probe would stand. hrtimer_active() is one in the reference kernel; where it is none there is
 * nothing to test.
 */
#include <linux/ftrace.h>
#include <linux/hrtimer.h>
#include <linux/kprobes.h>

#include "test.h"

static struct hrtimer timer;
static unsigned long seen_ip, seen_post, seen_return;
static int jumped;

static bool is_ours(struct pt_regs *regs)
{
	return regs->di == (unsigned long)&timer; /* the kernel calls it, too */
}

static int on_entry(struct dp_kprobe *p, struct pt_regs *regs)
{
	if (is_ours(regs)) {
		atomic_inc(&hits);
		seen_ip = regs->ip;
	}
	return 0;
}

static void on_post(struct dp_kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	if (is_ours(regs))
		seen_post = regs->ip;
}

static bool always(const struct hrtimer *t)
{
	return true;
}

static int go_elsewhere(struct dp_kprobe *p, struct pt_regs *regs)
{
	if (!is_ours(regs))
		return 0;
	regs->ip = (unsigned long)always;
	return 1;
}

static int call_inside(struct dp_kprobe *p, struct pt_regs *regs)
{
	if (is_ours(regs))
		hrtimer_active(&timer);
	return on_entry(p, regs);
}

static int note_ours(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	return !is_ours(regs);
}

static int on_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	atomic_inc(&hits);
	seen_return = (u8)regs_return_value(regs);
	return 0;
}

static bool as_it_is_called(const struct hrtimer *t)
{
	jumped += t == &timer;
	dp_jprobe_return();
	return false;
}

static atomic_t theirs = ATOMIC_INIT(0);

static int kernels(struct kprobe *p, struct pt_regs *regs)
{
	if (is_ours(regs))
		atomic_inc(&theirs);
	return 0;
}

static int calls(int n)
{
	atomic_set(&hits, 0);
	for (int i = 0; i < n; i++)
		hrtimer_active(&timer);
	return atomic_read(&hits);
}

static void test_handlers(void)
{
	struct dp_kprobe kp = {.addr = (void *)hrtimer_active, .pre_handler = on_entry};
	struct dp_kprobe second = {.addr = (void *)hrtimer_active, .pre_handler = on_entry, .post_handler = on_post};
	struct dp_kprobe away = {.addr = (void *)hrtimer_active, .pre_handler = go_elsewhere};
	struct dp_kprobe inside = {.addr = (void *)hrtimer_active, .pre_handler = call_inside};

	dp_register_kprobe(&kp);
	ok(calls(1000) == 1000 && seen_ip == tracers_bytes(hrtimer_active), "each call is one hit, at the start");
	ok(!dp_register_kprobe(&second) && calls(10) == 20, "two probes of one entry");
	ok(seen_post == tracers_bytes(hrtimer_active) + 5, "a post handler, behind the tracer's bytes");
	ok(!dp_disable_kprobe(&kp) && calls(10) == 10, "one is disabled");
	ok(!dp_disable_kprobe(&second) && calls(10) == 0, "both are");
	ok(!dp_enable_kprobe(&kp) && calls(10) == 10, "one is enabled again");
	dp_unregister_kprobe(&second);
	dp_unregister_kprobe(&kp);
	ok(calls(10) == 0 && !kp.flags, "none is left");
	ok(!dp_register_kprobe(&away) && hrtimer_active(&timer), "a handler goes on elsewhere");
	dp_unregister_kprobe(&away);
	ok(!hrtimer_active(&timer), "and the function is as it was");
	ok(!dp_register_kprobe(&inside) && calls(10) == 10 && inside.nmissed >= 10, "a hit inside a hit is missed");
	dp_unregister_kprobe(&inside);
}

static void test_kinds(void)
{
	struct dp_kretprobe rp = {.kp.symbol_name = "hrtimer_active", .handler = on_return, .entry_handler = note_ours};
	struct dp_jprobe jp = {.kp.symbol_name = "hrtimer_active", .entry = as_it_is_called};
	struct kprobe kernel = {.symbol_name = "hrtimer_active", .pre_handler = kernels};

	ok(!dp_register_kretprobe(&rp) && calls(100) == 100 && seen_return == 0, "a return probe (%s)",
	   rp.kp.refusal ? rp.kp.refusal : "");
	ok(!register_kprobe(&kernel) && calls(10) == 10 && atomic_read(&theirs) == 10, "beside a kprobe of the kernel");
	unregister_kprobe(&kernel);
	ok(calls(10) == 10, "which goes");
	dp_unregister_kretprobe(&rp);
	ok(!dp_register_jprobe(&jp) && calls(10) == 0 && jumped == 10, "a jprobe");
	dp_unregister_jprobe(&jp);
}

/* ---- who may change ip ---- */

static void let_pass(unsigned long ip, unsigned long parent, struct ftrace_ops *op, DP_K_FTRACE_REGS *fregs)
{
}

/* What live patching does: the tracer lets only one have a function. */
static struct ftrace_ops patching = {.func = let_pass, .flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY};

static void test_one_moves(void)
{
	struct dp_kprobe away = {.addr = (void *)hrtimer_active, .pre_handler = go_elsewhere};
	struct dp_kprobe stays = {
	    .addr = (void *)hrtimer_active, .pre_handler = on_entry, .flags = DP_KPROBE_FLAG_STAYS};
	int r;

	if (ftrace_set_filter_ip(&patching, (unsigned long)hrtimer_active, 0, 0)) {
		ok(0, "the tracer's filter");
		return;
	}
	ok(!dp_register_kprobe(&away), "a handler that may change ip");
	ok(register_ftrace_function(&patching) == -EBUSY, "keeps live patching off");
	ok(!dp_register_kprobe(&stays) && calls(10) == 0 && hrtimer_active(&timer), "but not others of ours");
	dp_unregister_kprobe(&away);
	ok(calls(10) == 10, "which stay");
	ok(!register_ftrace_function(&patching) && calls(10) == 10, "live patching beside those");
	away.addr = (void *)hrtimer_active;
	r = dp_register_kprobe(&away);
	ok(r == -EBUSY && away.refusal && !strcmp(away.refusal, "E-SITE-IPMODIFY"),
	   "it keeps off what may change ip: %s", away.refusal ? away.refusal : "");
	ok(calls(10) == 10, "and no other");
	unregister_ftrace_function(&patching);
	away.addr = (void *)hrtimer_active;
	ok(!dp_register_kprobe(&away) && hrtimer_active(&timer), "until it is gone");
	dp_unregister_kprobe(&away);
	dp_unregister_kprobe(&stays);
	ok(calls(10) == 0 && !hrtimer_active(&timer), "all as before");
	((typeof(ftrace_free_filter) *)find("ftrace_free_filter"))(&patching); /* not offered everywhere */
}

static enum hrtimer_restart never(struct hrtimer *t)
{
	return HRTIMER_NORESTART;
}

void test_ftrace(void)
{
	struct dp_kprobe kp = {.symbol_name = "hrtimer_active", .pre_handler = on_entry};
	int r = dp_register_kprobe(&kp);
	bool by_tracer = kp.flags & DP_KPROBE_FLAG_FTRACE;

	dp_k_hrtimer_init(&timer, never);
	ok(!r, "a function that may loop to behind its tracer's bytes (%s)", kp.refusal ? kp.refusal : "");
	dp_unregister_kprobe(&kp);
	if (r || !by_tracer) {
		ok(1, "entries through the function tracer # SKIP hrtimer_active() does not loop "
		      "to its entry here");
		return;
	}
	test_handlers();
	test_kinds();
	test_one_moves();
}
