// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * dp_register_kprobe() and its family, sentence by sentence of the API reference: places, handlers,
 * registers, several probes at one address, enabling and disabling, batches, faults, recursion.
 * The mirror of tests/self/test-kprobes.c.
 */
#include <linux/delay.h>
#include <linux/irqflags.h>

#include "test.h"

static int pre_hits, post_hits;
static struct pt_regs seen;

static int count_pre(struct dp_kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	seen = *regs;
	return 0;
}

static void count_post(struct dp_kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	post_hits++;
	seen = *regs;
}

static void test_places(void)
{
	struct dp_kprobe a = {.addr = t_add, .pre_handler = count_pre};
	struct dp_kprobe both = {.symbol_name = "vfs_read", .addr = t_add, .pre_handler = count_pre};
	struct dp_kprobe none = {.pre_handler = count_pre};
	struct dp_kprobe missing = {.symbol_name = "no_such_function_at_all"};
	struct dp_kprobe data = {.addr = &pre_hits};
	struct dp_kprobe mid = {.addr = t_add, .offset = 1};
	struct dp_kprobe own = {.addr = dp_register_kprobe};
	unsigned char before[16];
	int r;

	memcpy(before, t_add, 16);
	r = dp_register_kprobe(&a);
	ok(!r, "a probe is registered (%d %s)", r, a.refusal);
	ok(a.addr == (void *)t_add, "addr is kept");
	pre_hits = 0;
	ok(t_add(3, 4) == 7 && pre_hits == 1, "the pre handler runs, the function works");
	ok(seen.di == 3 && seen.si == 4 && seen.ip == (unsigned long)t_add && !user_mode(&seen),
	   "registers are those of the call");
	ok(dp_register_kprobe(&a) == -EINVAL, "registering it twice is -EINVAL");
	ok(dp_register_kprobe(&both) == -EINVAL, "symbol_name and addr together are -EINVAL");
	ok(dp_register_kprobe(&none) == -EINVAL, "neither of them is -EINVAL");
	r = dp_register_kprobe(&missing);
	ok(r == -ENOENT && !strcmp(missing.refusal, "E-KERNEL-SYMBOL"), "an unknown symbol is -ENOENT");
	r = dp_register_kprobe(&data);
	ok(r == -EFAULT && !strcmp(data.refusal, "E-SITE-NOTEXT"), "data is refused");
	r = dp_register_kprobe(&mid);
	ok(r == -EILSEQ && !strcmp(mid.refusal, "E-SITE-MIDINSN"), "the middle of an instruction is -EILSEQ");
	r = dp_register_kprobe(&own);
	ok(r == -EINVAL && !strcmp(own.refusal, "E-SITE-OWN"), "our own code is -EINVAL");
	dp_wait_for_kprobe_optimizer();
	dp_unregister_kprobe(&a);
	pre_hits = 0;
	ok(t_add(3, 4) == 7 && !pre_hits && !memcmp(before, t_add, 16), "unregistering restores every byte");
	a.addr = t_add;
	dp_unregister_kprobe(&a);
	ok(!a.addr, "unregistering an unregistered probe clears addr");
}

static void test_post(void)
{
	struct dp_kprobe kp = {.addr = t_add, .pre_handler = count_pre, .post_handler = count_post};

	ok(!dp_register_kprobe(&kp), "a post handler");
	dp_wait_for_kprobe_optimizer();
	pre_hits = post_hits = 0;
	ok(t_add(1, 2) == 3 && pre_hits == 1 && post_hits == 1, "pre and post handler run once each");
	ok(seen.ip == (unsigned long)t_add + 4 && seen.ax == 3, "the post handler sees what was done");
	ok(!(kp.flags & DP_KPROBE_FLAG_OPTIMIZED), "a probe with a post handler is not optimised");
	dp_unregister_kprobe(&kp);
}

static int set_args(struct dp_kprobe *p, struct pt_regs *regs)
{
	regs->di = 40;
	return 0;
}

static noinline long instead(long a, long b)
{
	return a * 1000 + b;
}

static int go_instead(struct dp_kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)instead;
	return 1;
}

static int return_at_once(struct dp_kprobe *p, struct pt_regs *regs)
{
	regs->ax = 77;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += 8;
	return 1;
}

static void change(const char *how, bool optimised)
{
	struct dp_kprobe kp = {.addr = t_wide, .pre_handler = set_args};
	int flag = optimised ? DP_KPROBE_FLAG_OPTIMIZED : 0;

	dp_register_kprobe(&kp);
	if (optimised)
		dp_wait_for_kprobe_optimizer();
	ok((kp.flags & DP_KPROBE_FLAG_OPTIMIZED) == flag, "%s: as it shall be", how);
	ok(t_wide(1, 2) == 0x1000 + 42, "%s: a handler changes a register", how);
	dp_unregister_kprobe(&kp);
	kp = (struct dp_kprobe){.addr = t_wide, .pre_handler = go_instead};
	dp_register_kprobe(&kp);
	if (optimised)
		dp_wait_for_kprobe_optimizer();
	ok(t_wide(1, 2) == 1002, "%s: a handler changes ip and returns 1", how);
	dp_unregister_kprobe(&kp);
	kp = (struct dp_kprobe){.addr = t_wide, .pre_handler = return_at_once};
	dp_register_kprobe(&kp);
	if (optimised)
		dp_wait_for_kprobe_optimizer();
	ok(t_wide(1, 2) == 77, "%s: a handler returns from the function", how);
	dp_unregister_kprobe(&kp);
	ok(t_wide(1, 2) == 0x1003, "%s: all as before", how);
}

static int order[8], norder;

static int note1(struct dp_kprobe *p, struct pt_regs *regs)
{
	order[norder++ & 7] = 1;
	return 0;
}

static int note2(struct dp_kprobe *p, struct pt_regs *regs)
{
	order[norder++ & 7] = 2;
	return 0;
}

static void test_several(void)
{
	struct dp_kprobe a = {.addr = t_wide, .pre_handler = note1};
	struct dp_kprobe b = {.addr = t_wide, .pre_handler = note2, .post_handler = count_post};
	struct dp_kprobe empty = {.addr = t_wide};

	ok(!dp_register_kprobe(&a), "one of two");
	dp_wait_for_kprobe_optimizer();
	ok(a.flags & DP_KPROBE_FLAG_OPTIMIZED, "one probe: optimised");
	ok(!dp_register_kprobe(&b) && !(a.flags & DP_KPROBE_FLAG_OPTIMIZED),
	   "a second with a post handler: not optimised any more");
	norder = post_hits = 0;
	t_wide(1, 2);
	ok(norder == 2 && order[0] == 1 && order[1] == 2 && post_hits == 1, "both run, in order");
	ok(!dp_disable_kprobe(&b), "dp_disable_kprobe()");
	norder = post_hits = 0;
	t_wide(1, 2);
	ok(norder == 1 && order[0] == 1 && !post_hits, "a disabled one does not run");
	ok(!dp_enable_kprobe(&b), "dp_enable_kprobe()");
	norder = 0;
	t_wide(1, 2);
	ok(norder == 2, "an enabled one does again");
	dp_unregister_kprobe(&b);
	dp_wait_for_kprobe_optimizer();
	ok(a.flags & DP_KPROBE_FLAG_OPTIMIZED, "optimised again when the other is gone");
	ok(!dp_register_kprobe(&empty), "a probe without handlers");
	norder = 0;
	ok(t_wide(1, 2) == 0x1003 && norder == 1, "does no harm");
	dp_unregister_kprobe(&empty);
	dp_unregister_kprobe(&a);
	ok(dp_disable_kprobe(&a) == -EINVAL && dp_enable_kprobe(&a) == -EINVAL,
	   "enabling what is not registered is -EINVAL");
}

static void test_disabled(void)
{
	struct dp_kprobe kp = {.addr = t_add, .pre_handler = count_pre, .flags = DP_KPROBE_FLAG_DISABLED};

	ok(!dp_register_kprobe(&kp), "registered disabled");
	pre_hits = 0;
	t_add(1, 2);
	ok(!pre_hits, "its handlers do not run");
	dp_enable_kprobe(&kp);
	t_add(1, 2);
	ok(pre_hits == 1, "until it is enabled");
	dp_unregister_kprobe(&kp);
}

static void test_batch(void)
{
	struct dp_kprobe a = {.addr = t_add, .pre_handler = count_pre};
	struct dp_kprobe b = {.addr = t_wide, .pre_handler = count_pre};
	struct dp_kprobe bad = {.symbol_name = "no_such_function_at_all"};
	struct dp_kprobe *with_bad[] = {&a, &b, &bad}, *good[] = {&a, &b};
	unsigned char before[16];

	memcpy(before, t_add, 16);
	ok(dp_register_kprobes(with_bad, 3) == -ENOENT, "a batch with a bad probe fails");
	ok(!memcmp(before, t_add, 16), "and undoes itself");
	a.addr = t_add;
	b.addr = t_wide;
	ok(!dp_register_kprobes(good, 2), "a good batch");
	pre_hits = 0;
	t_add(1, 2);
	t_wide(1, 2);
	ok(pre_hits == 2, "both run");
	dp_unregister_kprobes(good, 2);
	pre_hits = 0;
	t_add(1, 2);
	t_wide(1, 2);
	ok(!pre_hits && a.addr && b.addr, "a batch is unregistered");
	ok(dp_register_kprobes(good, 0) == -EINVAL, "an empty batch is -EINVAL");
}

static int call_target(struct dp_kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	if (t_add(5, 6) != 11)
		pre_hits += 1000;
	return 0;
}

static void test_recursion(void)
{
	struct dp_kprobe outer = {.addr = t_wide, .pre_handler = call_target};
	struct dp_kprobe inner = {.addr = t_add, .pre_handler = count_pre};

	dp_register_kprobe(&outer);
	dp_register_kprobe(&inner);
	for (int i = 0; i < 2; i++) {
		pre_hits = 0;
		inner.nmissed = 0;
		t_wide(1, 2);
		ok(pre_hits == 1 && inner.nmissed == 1 && !outer.nmissed,
		   "%s: a hit inside a handler runs nothing and counts nmissed (%d %lu)", i ? "jumps" : "breakpoints",
		   pre_hits, inner.nmissed);
		dp_wait_for_kprobe_optimizer();
	}
	t_add(1, 2);
	ok(pre_hits == 2 && inner.nmissed == 1, "and outside it does");
	dp_unregister_kprobe(&inner);
	dp_unregister_kprobe(&outer);
}

/* ---- every instruction of a function ---- */

#define MOST 64
#define INSNS 31 /* of t_branchy */
static struct dp_kprobe each[MOST];
static int all_hits, all_post;

static int all_pre(struct dp_kprobe *p, struct pt_regs *regs)
{
	all_hits++;
	if (regs->ip != (unsigned long)p->addr)
		all_hits += 100000;
	return 0;
}

static void all_after(struct dp_kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	all_post++;
}

static long branchy(long n)
{
	long r;

	local_irq_disable(); /* an interrupt has nothing to do with it, but the counts shall be
				exact */
	r = t_branchy(n);
	local_irq_enable();
	return r;
}

static void test_every_instruction(bool post)
{
	long want = branchy(20);
	int n = 0, r, first;

	for (char *at = (char *)t_branchy; at < (char *)t_branchy + t_branchy_len; at++) {
		each[n] = (struct dp_kprobe){
		    .addr = at, .pre_handler = all_pre, .post_handler = post ? all_after : NULL};
		r = dp_register_kprobe(&each[n]);
		if (!r)
			n++;
		else if (r != -EILSEQ)
			ok(0, "offset %ld: %d %s", at - (char *)t_branchy, r, each[n].refusal);
	}
	ok(n == INSNS, "%severy instruction of a function is probed (%d)", post ? "with post handlers, " : "", n);
	all_hits = all_post = 0;
	r = branchy(20) == want;
	first = all_hits;
	ok(r && all_hits > 200 && all_hits < 100000, "it works as before (%d hits)", all_hits);
	if (post)
		ok(all_post == all_hits, "as many post handlers ran (%d)", all_post);
	dp_wait_for_kprobe_optimizer();
	all_hits = 0;
	r = branchy(20) == want;
	ok(r && all_hits == first, "and after optimisation (%d)", all_hits);
	for (int i = 0; i < n; i++)
		dp_unregister_kprobe(&each[i]);
	all_hits = 0;
	ok(branchy(20) == want && !all_hits, "and without probes");
}

static void test_one_by_one(void)
{
	long want = branchy(20), n = 0, jumps = 0, bad = 0;

	for (char *at = (char *)t_branchy; at < (char *)t_branchy + t_branchy_len; at++) {
		struct dp_kprobe kp = {.addr = at, .pre_handler = all_pre};

		if (dp_register_kprobe(&kp))
			continue;
		n++;
		dp_wait_for_kprobe_optimizer();
		jumps += !!(kp.flags & DP_KPROBE_FLAG_OPTIMIZED);
		all_hits = 0;
		bad += branchy(20) != want || !all_hits;
		dp_unregister_kprobe(&kp);
	}
	ok(n == INSNS && jumps > 5 && !bad, "each instruction alone: %ld, %ld by jump, %ld wrong", n, jumps, bad);
}

/* ---- the kinds of instructions ---- */

static void kind(const char *name, void *f, long (*call)(void))
{
	long want = call();
	int n = 0, wrong = 0;

	for (int off = 0; off < 24; off++) {
		struct dp_kprobe kp = {.addr = f, .offset = off, .pre_handler = count_pre};

		if (dp_register_kprobe(&kp))
			continue;
		for (int i = 0; i < 2; i++) {
			pre_hits = 0;
			if (call() != want)
				wrong++;
			dp_wait_for_kprobe_optimizer();
		}
		n += pre_hits > 0;
		dp_unregister_kprobe(&kp);
	}
	ok(n > 1 && !wrong, "%s: %d places, %d wrong", name, n, wrong);
}

static long call_calls(void)
{
	return t_calls(20);
}

static long call_indirect(void)
{
	return t_indirect(20);
}

static long call_privileged(void)
{
	return t_privileged(20) + !irqs_disabled();
}

static long call_percpu(void)
{
	return t_percpu() >= 0 && t_percpu() < nr_cpu_ids;
}

static long call_short(void)
{
	return t_short(20, 3);
}

static long call_loop(void)
{
	return t_loop(20);
}

static void test_kinds(void)
{
	kind("direct calls", t_calls, call_calls);
	kind("calls through memory", t_indirect, call_indirect);
	kind("privileged instructions", t_privileged, call_privileged);
	kind("variables of the processor", t_percpu, call_percpu);
	kind("short instructions", t_short, call_short);
	kind("a loop", t_loop, call_loop);
}

/* ---- faults, regions ---- */

static int trap_seen;

static int skip_fault(struct dp_kprobe *p, struct pt_regs *regs, int trapnr)
{
	trap_seen = trapnr;
	seen = *regs;
	regs->ip = (unsigned long)T_GPF_END;
	return 1;
}

static void test_faults(void)
{
	struct dp_kprobe kp = {.addr = T_GPF_INSN, .pre_handler = count_pre, .fault_handler = skip_fault};
	long value = 5;

	ok(!dp_register_kprobe(&kp), "a fault handler");
	ok(t_gpf((u64)&value) == 5 && !trap_seen, "is not called without a fault");
	for (int i = 0; i < 2; i++) {
		long r;

		trap_seen = 0;
		r = t_gpf(0x0123456789abcdefull);
		ok(r == -5 && trap_seen == 13, "a fault of the instruction is handled (trap %d)", trap_seen);
		ok(seen.ip == (unsigned long)T_GPF_INSN, "it sees the instruction's own address");
		dp_wait_for_kprobe_optimizer();
	}
	dp_unregister_kprobe(&kp);
}

static void test_region(void)
{
	struct dp_kprobe a = {.addr = t_short, .pre_handler = count_pre};
	struct dp_kprobe b = {.addr = t_short, .offset = 1, .pre_handler = count_pre};

	dp_register_kprobe(&a);
	dp_wait_for_kprobe_optimizer();
	ok(a.flags & DP_KPROBE_FLAG_OPTIMIZED, "a jump over three instructions");
	dp_register_kprobe(&b);
	ok(!(a.flags & DP_KPROBE_FLAG_OPTIMIZED), "a probe in its region takes it back");
	pre_hits = 0;
	ok(t_short(20, 3) == 23 && pre_hits == 2, "both are hit");
	dp_unregister_kprobe(&b);
	dp_wait_for_kprobe_optimizer();
	ok(a.flags & DP_KPROBE_FLAG_OPTIMIZED, "and it comes back");
	pre_hits = 0;
	ok(t_short(20, 3) == 23 && pre_hits == 1, "with one hit");
	dp_unregister_kprobe(&a);
}

static bool irqs_seen, preempt_seen;

static int look_around(struct dp_kprobe *p, struct pt_regs *regs)
{
	irqs_seen = !irqs_disabled();
	preempt_seen = preempt_count() > 0;
	return 0;
}

static void test_context(void)
{
	struct dp_kprobe kp = {.addr = t_wide, .pre_handler = look_around};
	int before;

	dp_register_kprobe(&kp);
	before = preempt_count();
	t_wide(1, 2);
	ok(!irqs_seen && preempt_seen && preempt_count() == before, "a breakpoint: interrupts and preemption off");
	dp_wait_for_kprobe_optimizer();
	t_wide(1, 2);
	ok(irqs_seen && preempt_seen && preempt_count() == before, "a jump: preemption off");
	dp_unregister_kprobe(&kp);
}

/* Unregistered and registered again as it is, a probe stands where it stood; only a bad one loses its address. */
static void test_again(void)
{
	struct dp_kprobe kp = {.addr = (char *)T_WIDE_2ND - 10, .offset = 10, .pre_handler = count_hit},
			 bad = {.addr = t_wide};
	struct dp_kprobe named = {.symbol_name = "ksys_sync", .pre_handler = count_hit};
	struct dp_kprobe *both[] = {&bad, &kp};
	struct dp_jprobe bare = {.kp.addr = t_wide};
	void *was = NULL;
	int wrong = 0;

	for (int i = 0; i < 3; i++) {
		atomic_set(&hits, 0);
		wrong += dp_register_kprobe(&kp) != 0;
		wrong += kp.addr != (void *)T_WIDE_2ND || t_wide(1, 2) != 0x1003 || atomic_read(&hits) != 1;
		if (i < 2)
			dp_unregister_kprobe(&kp);
		wrong += dp_register_kprobe(&named) != 0 || (i && named.addr != was);
		was = named.addr;
		dp_unregister_kprobe(&named);
		wrong += named.addr != was;
	}
	ok(!wrong,
	   "addr and offset, or a symbol: registered again as they are, they stand at the same place (%d wrong)",
	   wrong);
	dp_unregister_kprobes(both, 2);
	ok(!bad.addr && kp.addr == (void *)t_wide,
	   "unregistering clears the address of the one that was not registered only");
	ok(dp_register_jprobe(&bare) == -EINVAL && bare.kp.refusal && !strcmp(bare.kp.refusal, "E-KPROBE-ARGUMENT"),
	   "a jprobe without an entry is refused");
}

void test_kprobes(void)
{
	test_again();
	test_places();
	test_post();
	change("a breakpoint", false);
	change("a jump", true);
	test_several();
	test_disabled();
	test_batch();
	test_recursion();
	test_every_instruction(false);
	test_every_instruction(true);
	test_one_by_one();
	test_kinds();
	test_faults();
	test_region();
	test_context();
}
