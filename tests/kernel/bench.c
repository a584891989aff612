// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What a hit takes: ours against the kernel's kprobes, on the same functions in the same boot. With
 * the emulator's -icount the clock counts executed instructions, exactly.
 */
#include <linux/kprobes.h>
#include <linux/ktime.h>

#include "dprobes/hooks.h"
#include "test.h"

#define CALLS 2000
#define ROUNDS 8

static int theirs_pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static void theirs_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static int theirs_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

static int ours_pre(struct dp_kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static void ours_post(struct dp_kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static int ours_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

static u64 loop(void)
{
	u64 best = ~0ull;

	for (int r = 0; r < ROUNDS; r++) {
		u64 t = ktime_get_ns();

		for (int i = 0; i < CALLS; i++)
			t_wide(i, 1);
		t = ktime_get_ns() - t;
		best = min(best, t);
	}
	return best;
}

static u64 base;

static u64 figure(const char *what, int registered)
{
	u64 n = registered ? 0 : (loop() - base) / CALLS;

	if (registered)
		ok(0, "%s: not registered (%d)", what, registered);
	pr_info("tap: # figure: kernel, %s: %llu\n", what, n);
	return n;
}

static void compare(const char *what, u64 ours, u64 theirs)
{
	ok(ours && theirs && ours < theirs, "%s takes less than the kernel's (%llu, %llu)", what, ours, theirs);
}

/* With the kernel's optimisation switched off: both stay breakpoints. */
static void bench_traps(void)
{
	struct kprobe t = {.addr = (void *)t_wide, .pre_handler = theirs_pre};
	struct kprobe tp = {.addr = (void *)t_wide, .pre_handler = theirs_pre, .post_handler = theirs_post};
	struct dp_kprobe o = {.addr = t_wide, .pre_handler = ours_pre};
	struct dp_kprobe op = {.addr = t_wide, .pre_handler = ours_pre, .post_handler = ours_post};
	struct kretprobe tr = {.kp.addr = (void *)t_wide, .handler = theirs_return, .maxactive = 16};
	struct dp_kretprobe or = {.kp.addr = t_wide, .handler = ours_return, .maxactive = 16};
	u64 trap, post, ret, otrap, opost, oret;

	trap = figure("kprobe, breakpoint", register_kprobe(&t));
	unregister_kprobe(&t);
	post = figure("kprobe, breakpoint, post handler", register_kprobe(&tp));
	unregister_kprobe(&tp);
	ret = figure("kretprobe, entry by breakpoint", register_kretprobe(&tr));
	unregister_kretprobe(&tr);
	settle();
	otrap = figure("dprobes, breakpoint", dp_register_kprobe(&o));
	dp_unregister_kprobe(&o);
	opost = figure("dprobes, breakpoint, post handler", dp_register_kprobe(&op));
	dp_unregister_kprobe(&op);
	oret = figure("dprobes, return probe, entry by breakpoint", dp_register_kretprobe(& or));
	dp_unregister_kretprobe(& or);
	compare("a breakpoint", otrap, trap);
	compare("a post handler", opost, post);
	compare("a return probe behind a breakpoint", oret, ret);
}

static void bench_jumps(void)
{
	struct kprobe t = {.addr = (void *)t_wide, .pre_handler = theirs_pre};
	struct kretprobe tr = {.kp.addr = (void *)t_wide, .handler = theirs_return, .maxactive = 16};
	struct dp_kprobe o = {.addr = t_wide, .pre_handler = ours_pre};
	struct dp_kretprobe or = {.kp.addr = t_wide, .handler = ours_return, .maxactive = 16};
	u64 jump, ret, ojump, oret;
	int r;

	r = register_kprobe(&t);
	settle();
	jump = figure("kprobe, jump", r);
	unregister_kprobe(&t);
	settle();
	r = register_kretprobe(&tr);
	settle();
	ret = figure("kretprobe, entry by jump", r);
	unregister_kretprobe(&tr);
	settle();
	r = dp_register_kprobe(&o);
	settle();
	ojump = figure("dprobes, jump", r);
	dp_unregister_kprobe(&o);
	r = dp_register_kretprobe(& or);
	settle();
	oret = figure("dprobes, return probe, entry by jump", r);
	dp_unregister_kretprobe(& or);
	compare("a jump", ojump, jump);
	compare("a return probe behind a jump", oret, ret);
}

/*
 * One call of a small function of the kernel, with whatever stands there: the kernel's events refuse functions that its
 * function tracer does not know, as ours are.
 */
static void bench_loop(void)
{
	u64 best = ~0ull;

	settle();
	for (int r = 0; r < ROUNDS; r++) {
		u64 t = ktime_get_ns();

		for (int i = 0; i < CALLS; i++)
			jiffies_to_clock_t(i);
		best = min(best, ktime_get_ns() - t);
	}
	pr_info("tap: # loop: %llu\n", best / CALLS);
}

/* ---- hooks ---- */

DECLARE_HOOK(b_hook, long);
static DEFINE_STATIC_KEY_FALSE(b_key);

static noinline __attribute__((noipa)) int b_work(struct hook *h, long x)
{
	barrier();
	return HOOK_CONTINUE;
}

static noinline long b_nothing(long x)
{
	barrier();
	return x + 1;
}

static noinline long b_keyed(long x)
{
	if (static_branch_unlikely(&b_key))
		b_work(NULL, x);
	return x + 1;
}

static noinline long b_hooked(long x)
{
	HOOK(b_hook, x);
	return x + 1;
}

static long loop_of(long (*f)(long))
{
	u64 best = ~0ull;

	for (int r = 0; r < ROUNDS; r++) {
		u64 t = ktime_get_ns();

		for (int i = 0; i < CALLS; i++)
			f(i);
		best = min(best, ktime_get_ns() - t);
	}
	return best;
}

static long over_nothing(const char *what, long (*f)(long))
{
	long n = (loop_of(f) - loop_of(b_nothing) + CALLS / 2) / CALLS;

	pr_info("tap: # figure: kernel, %s: %ld\n", what, n);
	return n;
}

static void bench_hooks(void)
{
	struct hook_rec rec = HOOK_EXIT(b_hook, b_work);
	long key, hook, armed_key, armed_hook;
	int r = hook_exit_register(&b_hook, &rec);

	key = over_nothing("static key, off", b_keyed);
	hook = over_nothing("hook, idle", b_hooked);
	static_branch_enable(&b_key);
	r = r ?: hook_exit_arm(&rec);
	armed_key = over_nothing("static key, on, a direct call", b_keyed);
	armed_hook = over_nothing("hook, one exit armed", b_hooked);
	static_branch_disable(&b_key);
	hook_exit_deregister(&rec);
	ok(!r && hook <= key, "an idle hook takes no more than a static key (%ld, %ld)", hook, key);
	ok(armed_hook > armed_key && armed_hook < armed_key + 60, "an armed hook calls its exit (%ld, %ld)", armed_hook,
	   armed_key);
}

void bench(const char *what)
{
	if (!strcmp(what, "loop")) {
		bench_loop();
		return;
	}
	if (!strcmp(what, "hooks")) {
		bench_hooks();
		return;
	}
	base = loop();
	if (!strcmp(what, "traps"))
		bench_traps();
	else
		bench_jumps();
}
