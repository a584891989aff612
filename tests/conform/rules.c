// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What Kprobes promises, one rule after the other, for the library and for the module alike. The numbers are the
 * sections of the kernel's Documentation/kprobes.txt; doc/kprobes-conformance.md has what is a process's or a kernel's
 * alone.
 */
#include "conform.h"

#define rule(good, text) ok(good, "%s", text)
#define HERE(f, n) ((void *)((char *)(f) + (n)))

/* What handlers have seen. */
static int pres, posts, entries, returns, jumps;
static struct dp_kprobe *seen_kp;
static struct pt_regs seen;
static unsigned long seen_flags = 1;
static struct dp_kretprobe_instance seen_ri;
static long value;

static void forget(void)
{
	pres = posts = entries = returns = jumps = 0;
	seen_kp = NULL;
	seen_flags = 1;
	value = 0;
}

static int pre(struct dp_kprobe *p, struct pt_regs *regs)
{
	pres++;
	seen_kp = p;
	seen = *regs;
	return 0;
}

static void post(struct dp_kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	posts++;
	seen_kp = p;
	seen = *regs;
	seen_flags = flags;
}

static int on_entry(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	entries++;
	return 0;
}

static int on_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	returns++;
	seen_ri = *ri;
	seen = *regs;
	value = (long)regs_return_value(regs);
	return 1; /* ignored */
}

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* ---- 1.1 ---- */

static void test_kprobe(void)
{
	struct dp_kprobe kp = {.addr = (void *)c_wide, .pre_handler = pre};
	long r;

	rule(!dp_register_kprobe(&kp), "1.1: a kprobe is registered");
	forget();
	r = c_wide(3, 4);
	rule(r == 0x1007 && pres == 1, "1.1: its pre handler is called, and execution continues with the instruction");
	rule(seen_kp == &kp, "1.1: the pre handler gets the address of its kprobe");
	rule(seen.di == 3 && seen.si == 4, "1.1: and the registers saved at the breakpoint");
	rule(seen.ip == (unsigned long)c_wide, "1.1: whose ip is the probed address");
	dp_wait_for_kprobe_optimizer();
	forget();
	rule(c_wide(5, 6) == 0x100b && seen_kp == &kp && seen.di == 5 && seen.ip == (unsigned long)c_wide,
	     "1.4: an optimised probe is called with the same");
	dp_unregister_kprobe(&kp);

	kp = (struct dp_kprobe){.addr = (void *)c_wide, .pre_handler = pre, .post_handler = post};
	rule(!dp_register_kprobe(&kp), "1.1: a kprobe with a post handler is registered");
	forget();
	r = c_wide(3, 4);
	rule(r == 0x1007 && pres == 1 && posts == 1, "1.1: both handlers are called once");
	rule(seen_kp == &kp, "1.1: the post handler gets the address of its kprobe");
	rule(seen.ip == (unsigned long)c_wide + 10 && seen.ax == 0x1000, "1.1: after the instruction");
	rule(!seen_flags, "4.1: the post handler's flags are zero");
	dp_unregister_kprobe(&kp);

	kp = (struct dp_kprobe){.addr = (void *)c_wide, .post_handler = post};
	forget();
	rule(!dp_register_kprobe(&kp) && c_wide(1, 2) == 0x1003 && posts == 1, "4.1: a post handler alone");
	dp_unregister_kprobe(&kp);
	kp = (struct dp_kprobe){.addr = (void *)c_wide};
	rule(!dp_register_kprobe(&kp) && c_wide(1, 2) == 0x1003, "4.1: all handlers may be NULL");
	dp_unregister_kprobe(&kp);
}

/* ---- 4.1: places ---- */

static noinline int forbidden(int n)
{
	return n + 1;
}
NOKPROBE_SYMBOL(forbidden);

static void refused(struct dp_kprobe kp, int error, const char *code, const char *text)
{
	int r = dp_register_kprobe(&kp);

	ok(r == error && starts(REFUSAL(&kp), code), "%s (%d %.40s)", text, r, r ? REFUSAL(&kp) : "");
	if (!r)
		dp_unregister_kprobe(&kp);
}

static void test_refusals(void)
{
	refused((struct dp_kprobe){.addr = (void *)c_add, .symbol_name = PLACE("c_add")}, -EINVAL, "E-KPROBE-ARGUMENT",
		"4.1: symbol_name and addr: -EINVAL");
	refused((struct dp_kprobe){.pre_handler = pre}, -EINVAL, "E-KPROBE-ARGUMENT", "4.1: neither: -EINVAL");
	refused((struct dp_kprobe){.symbol_name = "no_such_function_anywhere"}, -ENOENT, "E-",
		"4.1: an unknown symbol: -ENOENT");
	refused((struct dp_kprobe){.addr = (void *)c_wide, .offset = 3}, -EILSEQ, "E-SITE-MIDINSN",
		"4.1: not an instruction's boundary: -EILSEQ");
	refused((struct dp_kprobe){.addr = (void *)&pres}, -EFAULT, "E-SITE-NOTEXT", "4.1: no code: -EFAULT");
	refused((struct dp_kprobe){.addr = (void *)dp_register_kprobe}, -EINVAL, "E-SITE-OWN",
		"5: the code of Kprobes itself: -EINVAL");
	rule(forbidden(1) == 2, "1.5: a function with NOKPROBE_SYMBOL()");
	refused((struct dp_kprobe){.addr = (void *)forbidden}, -EINVAL, "E-KPROBE-BLACKLIST",
		"1.5: is on the blacklist: -EINVAL");
}

static void test_places(void)
{
	struct dp_kprobe kp = {.symbol_name = PLACE("c_wide"), .pre_handler = pre};
	bool good = true;

	rule(!dp_register_kprobe(&kp) && kp.addr == HERE(c_wide, 0), "4.1: symbol_name; addr tells where that is");
	dp_unregister_kprobe(&kp);
	rule(!dp_register_kprobe(&kp) && kp.addr == HERE(c_wide, 0), "4.4: registered again as it is, by symbol_name");
	dp_unregister_kprobe(&kp);
	kp = (struct dp_kprobe){.symbol_name = PLACE("c_wide"), .offset = 10, .pre_handler = pre};
	rule(!dp_register_kprobe(&kp) && kp.addr == HERE(c_wide, 10), "4.1: symbol_name and offset");
	dp_unregister_kprobe(&kp);
	kp = (struct dp_kprobe){.addr = HERE(c_wide, 0), .offset = 10, .pre_handler = pre};
	rule(!dp_register_kprobe(&kp) && kp.addr == HERE(c_wide, 10), "4.1: addr and offset");
	dp_unregister_kprobe(&kp);
	for (int i = 0; i < 3; i++) {
		forget();
		good &= !dp_register_kprobe(&kp) && kp.addr == HERE(c_wide, 10);
		good &= c_wide(1, 2) == 0x1003 && pres == 1;
		dp_unregister_kprobe(&kp);
	}
	rule(good, "4.4: registered again as it is, three times, by addr and offset");
	kp = (struct dp_kprobe){.symbol_name = "no_such_module_either:f", .pre_handler = pre};
	rule(!dp_register_kprobe(&kp) && kp.flags & DP_KPROBE_FLAG_PENDING,
	     "4.1: a probe waits for a module that is not loaded");
	rule(!dp_disable_kprobe(&kp) && !dp_enable_kprobe(&kp), "4.7: such a one can be disabled and enabled");
	dp_unregister_kprobe(&kp);
	rule(!(kp.flags & DP_KPROBE_FLAG_PENDING), "4.4: and unregistered");
}

/* ---- what handlers may do ---- */

static noinline long instead(long a, long b)
{
	return a * 1000 + b;
}

static int go_instead(struct dp_kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)instead;
	return 1;
}

static int set_argument(struct dp_kprobe *p, struct pt_regs *regs)
{
	regs->di = 40;
	return 0;
}

static int trap;

static int skip_load(struct dp_kprobe *p, struct pt_regs *regs, int trapnr)
{
	trap = trapnr;
	seen_kp = p;
	seen = *regs;
	regs->ax = (unsigned long)-14;
	regs->ip = (unsigned long)c_load + 3;
	return 1;
}

static void test_handlers(void)
{
	struct dp_kprobe kp = {.addr = (void *)c_wide, .pre_handler = go_instead};
	const long *wild = (const long *)0x8000000000000000ul;
	long word = 17;

	rule(!dp_register_kprobe(&kp) && c_wide(3, 4) == 3004,
	     "4.1: a pre handler that returns non-zero has set regs->ip");
	dp_wait_for_kprobe_optimizer();
	rule(c_wide(3, 4) == 3004, "1.4: an optimised one can do that, too");
	dp_unregister_kprobe(&kp);
	kp = (struct dp_kprobe){.addr = (void *)c_wide, .pre_handler = set_argument};
	rule(!dp_register_kprobe(&kp) && c_wide(3, 4) == 0x102c, "5: a handler may change registers");
	dp_unregister_kprobe(&kp);
	kp = (struct dp_kprobe){.addr = (void *)c_load, .pre_handler = pre, .fault_handler = skip_load};
	rule(!dp_register_kprobe(&kp) && c_load(&word) == 17 && !trap, "4.1: no fault, no fault handler");
	forget();
	rule(c_load(wild) == -14 && trap == 13,
	     "4.1: the fault handler gets the number of the trap; 1: it was handled");
	rule(seen_kp == &kp && seen.ip == (unsigned long)c_load,
	     "4.1: its kprobe, and the registers at the original instruction");
	dp_unregister_kprobe(&kp);
}

/* ---- 5: several at one place, and 4.7, 4.8 ---- */

static int order[4], n_order;

static int first(struct dp_kprobe *p, struct pt_regs *regs)
{
	order[n_order++ & 3] = 1;
	return 0;
}

static int second(struct dp_kprobe *p, struct pt_regs *regs)
{
	order[n_order++ & 3] = 2;
	return 0;
}

static void test_several(void)
{
	struct dp_kprobe a = {.addr = (void *)c_region, .pre_handler = first};
	struct dp_kprobe b = {.addr = (void *)c_region, .pre_handler = second};
	struct dp_kprobe *both[] = {&a, &b};

	n_order = 0;
	rule(!dp_register_kprobes(both, 2) && c_region(1, 2) == 4 && n_order == 2, "5: several probes at one address");
	rule(order[0] == 1 && order[1] == 2, "5: are called in the order of their registration");
	n_order = 0;
	rule(!dp_disable_kprobe(&a) && c_region(1, 2) == 4 && n_order == 1 && order[0] == 2,
	     "4.7: one of them is disabled, the other is called");
	rule(a.flags & DP_KPROBE_FLAG_DISABLED && !(b.flags & DP_KPROBE_FLAG_DISABLED), "4.7: and its flag says so");
	n_order = 0;
	rule(!dp_enable_kprobe(&a) && c_region(1, 2) == 4 && n_order == 2 && !(a.flags & DP_KPROBE_FLAG_DISABLED),
	     "4.8: it is enabled again");
	n_order = 0;
	dp_unregister_kprobe(&a);
	rule(c_region(1, 2) == 4 && n_order == 1 && order[0] == 2, "4.4: one is unregistered, the other is called");
	dp_unregister_kprobe(&b);
	rule(dp_disable_kprobe(&a) == -EINVAL && dp_enable_kprobe(&a) == -EINVAL,
	     "4.7, 4.8: the probe must be registered: -EINVAL");
}

static void test_disabled(void)
{
	struct dp_kprobe kp = {.addr = (void *)c_region, .pre_handler = pre, .flags = DP_KPROBE_FLAG_DISABLED};
	unsigned char before[16];
	int r;

	memcpy(before, (void *)c_region, 16);
	forget();
	rule(!dp_register_kprobe(&kp) && c_region(1, 2) == 4 && !pres, "4.1: KPROBE_FLAG_DISABLED: no hits");
	rule(!memcmp(before, (void *)c_region, 16), "4.1: and nothing stands in the code");
	rule(!dp_enable_kprobe(&kp) && c_region(1, 2) == 4 && pres == 1, "4.8: until it is enabled");
	dp_disable_kprobe(&kp);
	if (conform_foreign((void *)c_region, 1)) {
		rule(0, "somebody else's breakpoint could not be set");
		dp_unregister_kprobe(&kp);
		return;
	}
	r = dp_enable_kprobe(&kp);
	ok(r == -EEXIST && starts(REFUSAL(&kp), "E-SITE-FOREIGN"),
	   "4.8: enabled where somebody else's breakpoint stands by now: -EEXIST (%d)", r);
	rule(kp.flags & DP_KPROBE_FLAG_DISABLED, "4.8: what could not be enabled stays disabled");
	conform_foreign((void *)c_region, 0);
	forget();
	rule(c_region(1, 2) == 4 && !pres, "4.8: and is not hit when the other one goes");
	rule(!dp_enable_kprobe(&kp) && c_region(1, 2) == 4 && pres == 1, "4.8: then it can be enabled");
	dp_unregister_kprobe(&kp);
	rule(!memcmp(before, (void *)c_region, 16), "4.4: unregistering restores every byte");
}

/* ---- 4.4 to 4.6 ---- */

static void test_batches(void)
{
	struct dp_kprobe a = {.addr = (void *)c_add, .pre_handler = pre};
	struct dp_kprobe b = {.addr = (void *)c_wide, .pre_handler = pre};
	struct dp_kprobe bad = {.addr = (void *)c_wide, .offset = 3};
	struct dp_kprobe *v[] = {&a, &b, &bad}, *twice[] = {&a, &a};
	unsigned char before[2][8];

	memcpy(before[0], (void *)c_add, 5);
	memcpy(before[1], (void *)c_wide, 8);
	forget();
	rule(dp_register_kprobes(v, 3) == -EILSEQ, "4.5: an error in a batch is that of the bad one");
	rule(!memcmp(before[0], (void *)c_add, 5) && !memcmp(before[1], (void *)c_wide, 8) && c_add(1, 2) == 3 && !pres,
	     "4.5: and none of it is registered");
	rule(a.addr == HERE(c_add, 0) && b.addr == HERE(c_wide, 0), "4.5: the good ones can be registered as they are");
	rule(dp_register_kprobes(v, 0) == -EINVAL && dp_register_kprobes(v, -1) == -EINVAL,
	     "4.5: a batch of none: -EINVAL");
	rule(dp_register_kprobes(twice, 2) == -EINVAL && c_add(1, 2) == 3 && !pres,
	     "4.5: the same one twice: -EINVAL, and it is not registered");
	rule(!dp_register_kprobes(v, 2) && c_add(1, 2) == 3 && c_wide(1, 2) == 0x1003 && pres == 2,
	     "4.5: a batch of good ones");
	rule(dp_register_kprobe(&a) == -EINVAL, "4.1: registered already: -EINVAL");
	forget();
	rule(c_add(1, 2) == 3 && pres == 1, "4.1: and it still is");
	dp_unregister_kprobes(v, 3);
	rule(!bad.addr, "4.6: unregistering a batch clears addr of an incorrect one");
	rule(a.addr == HERE(c_add, 0) && b.addr == HERE(c_wide, 0), "4.6: but not of the others");
	forget();
	rule(c_add(1, 2) == 3 && c_wide(1, 2) == 0x1003 && !pres, "4.6: which are unregistered");
	dp_unregister_kprobe(&a);
	rule(!a.addr, "4.4: unregistering what is not registered clears addr");
}

/* ---- 1.4 ---- */

static void test_optimised(void)
{
	struct dp_kprobe kp = {.addr = (void *)c_region, .pre_handler = pre};
	struct dp_kprobe with_post = {.addr = (void *)c_region, .pre_handler = pre, .post_handler = post};
	struct dp_kprobe inside = {.addr = HERE(c_region, 4), .pre_handler = pre};

	dp_register_kprobe(&kp);
	dp_wait_for_kprobe_optimizer();
	rule(kp.flags & DP_KPROBE_FLAG_OPTIMIZED, "1.4: a probe is optimised where a jump fits");
	dp_register_kprobe(&with_post);
	dp_wait_for_kprobe_optimizer();
	forget();
	rule(!(kp.flags & DP_KPROBE_FLAG_OPTIMIZED) && !(with_post.flags & DP_KPROBE_FLAG_OPTIMIZED),
	     "1.4.4: not with a post handler at the place");
	rule(c_region(1, 2) == 4 && pres == 2 && posts == 1, "1.4.6: all handlers are called then");
	dp_unregister_kprobe(&with_post);
	dp_wait_for_kprobe_optimizer();
	rule(kp.flags & DP_KPROBE_FLAG_OPTIMIZED, "1.4.4: it is tried again when that goes");
	dp_register_kprobe(&inside);
	dp_wait_for_kprobe_optimizer();
	forget();
	rule(!(kp.flags & DP_KPROBE_FLAG_OPTIMIZED) && c_region(1, 2) == 4 && pres == 2,
	     "1.4.4: not with another probe in the region");
	dp_unregister_kprobe(&inside);
	dp_wait_for_kprobe_optimizer();
	rule(kp.flags & DP_KPROBE_FLAG_OPTIMIZED, "1.4.4: again when that goes");
	dp_disable_kprobe(&kp);
	rule(!(kp.flags & DP_KPROBE_FLAG_OPTIMIZED), "1.4.4: not when it is disabled");
	dp_unregister_kprobe(&kp);
	rule(!(kp.flags & DP_KPROBE_FLAG_OPTIMIZED), "1.4.6: nor when it is unregistered");
}

/* ---- 1.3 ---- */

static int change_value(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	regs->ax = 4711;
	return 0;
}

static int refuse_odd(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	entries++;
	return regs->di & 1;
}

static int keep_argument(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	entries++;
	*(long *)ri->data = (long)regs->di;
	return 0;
}

static bool data_good;

/* The sum of 1 to n needs the n that this very call was entered with. */
static int compare_argument(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	long n = *(long *)ri->data;

	data_good &= (long)regs->ax == n * (n + 1) / 2;
	return on_return(ri, regs);
}

static void test_return_probes(void)
{
	struct dp_kretprobe rp = {.kp.addr = (void *)c_add, .handler = on_return, .nmissed = 5};
	struct dp_kretprobe other = {.kp.addr = (void *)c_add, .handler = on_return};
	unsigned int most = 2 * conform_cpus() > 10 ? 2 * conform_cpus() : 10;
	bool good = true;

	rule(!dp_register_kretprobe(&rp), "4.3: a return probe");
	rule(rp.maxactive == (int)most, "1.3.1: maxactive is max(10, 2 * processors) when none is given");
	rule(!rp.nmissed, "1.3.1: nmissed is 0 at registration");
	forget();
	rule(c_calls(3, 4) == 8 && returns == 1 && value == 7,
	     "1.3.1: its handler sees the value, whatever it returns itself");
	rule(seen_ri.rp == &rp && seen_ri.ret_addr == (void *)c_calls_back && seen_ri.task == conform_task(),
	     "1.3.1: ri->rp, ri->ret_addr, ri->task");
	rule(seen.ip == (unsigned long)c_calls_back, "1.3.1: ip is where the function returns to");
	rule(!dp_register_kretprobe(&other), "5: several return probes on a function");
	forget();
	rule(c_calls(3, 4) == 8 && returns == 2 && seen_ri.ret_addr == (void *)c_calls_back,
	     "1.3.1: ri->ret_addr is the caller's, whoever is called first");
	dp_unregister_kretprobe(&rp);
	forget();
	rule(c_calls(3, 4) == 8 && returns == 1 && seen_ri.rp == &other && seen_ri.ret_addr == (void *)c_calls_back,
	     "1.3.1: and when one of them has gone");
	rule(!dp_disable_kretprobe(&other) && c_calls(3, 4) == 8 && returns == 1, "4.7: a disabled one is not called");
	rule(!dp_enable_kretprobe(&other) && c_calls(3, 4) == 8 && returns == 2, "4.8: enabled it is");
	dp_unregister_kretprobe(&other);
	for (int i = 0; i < 3; i++) {
		forget();
		good &= !dp_register_kretprobe(&rp) && c_calls(3, 4) == 8 && returns == 1;
		dp_unregister_kretprobe(&rp);
	}
	rule(good, "4.4: registered again as it is, three times");
	rp = (struct dp_kretprobe){.kp.addr = (void *)c_add, .handler = change_value};
	rule(!dp_register_kretprobe(&rp) && c_calls(3, 4) == 4712, "4.3: the handler may change the value");
	dp_unregister_kretprobe(&rp);
	rp = (struct dp_kretprobe){.kp.addr = (void *)c_add, .entry_handler = on_entry};
	forget();
	rule(!dp_register_kretprobe(&rp) && c_calls(3, 4) == 8 && entries == 1, "4.3: an entry handler alone");
	dp_unregister_kretprobe(&rp);
}

static int refuse_return(struct dp_kretprobe rp)
{
	int r = dp_register_kretprobe(&rp);

	if (!r)
		dp_unregister_kretprobe(&rp);
	return r;
}

static void test_instances(void)
{
	struct dp_kretprobe rp = {
	    .kp.addr = (void *)c_sum, .handler = on_return, .entry_handler = refuse_odd, .maxactive = 1};
	struct dp_kretprobe *twice[] = {&rp, &rp};

	dp_register_kretprobe(&rp);
	forget();
	rule(c_sum(1) == 1 && entries == 2 && returns == 1 && !rp.nmissed,
	     "1.3.2: a call that the entry handler refuses has no return handler, and holds no instance");
	dp_unregister_kretprobe(&rp);
	rp = (struct dp_kretprobe){
	    .kp.addr = (void *)c_sum, .handler = on_return, .entry_handler = on_entry, .maxactive = 2};
	dp_register_kretprobe(&rp);
	forget();
	rule(c_sum(4) == 10 && returns == 2, "1.3.1: maxactive calls can be under way");
	rule(rp.nmissed == 3, "1.3.1: nmissed counts those without an instance");
	rule(entries == 2, "1.3.2: without an instance the entry handler is not called");
	dp_unregister_kretprobe(&rp);
	rule(!dp_register_kretprobe(&rp) && !rp.nmissed, "1.3.1: nmissed begins at 0 again");
	dp_unregister_kretprobe(&rp);
	rp = (struct dp_kretprobe){.kp.addr = (void *)c_sum,
				   .handler = compare_argument,
				   .entry_handler = keep_argument,
				   .maxactive = 20,
				   .data_size = sizeof(long)};
	dp_register_kretprobe(&rp);
	forget();
	data_good = true;
	rule(c_sum(9) == 45 && returns == 10 && data_good, "1.3.2: each instance has data_size bytes of its own");
	dp_unregister_kretprobe(&rp);
	rule(!refuse_return((struct dp_kretprobe){.kp.addr = (void *)c_sum, .handler = on_return, .maxactive = 4096}),
	     "1.3.1: maxactive 4096");
	rule(refuse_return((struct dp_kretprobe){.kp.addr = (void *)c_sum, .handler = on_return, .maxactive = 4097}) ==
		 -EINVAL,
	     "1.3.1: maxactive 4097: -EINVAL");
	rule(refuse_return((struct dp_kretprobe){
		 .kp.addr = (void *)c_sum, .handler = on_return, .data_size = (1 << 20) + 1}) == -EINVAL,
	     "1.3.2: data_size over a mebibyte: -EINVAL");
	rule(refuse_return((struct dp_kretprobe){.kp.addr = HERE(c_wide, 10), .handler = on_return}) == -EINVAL,
	     "4.3: not the start of a function: -EINVAL");
	forget();
	rule(dp_register_kretprobes(twice, 2) == -EINVAL && c_sum(2) == 3 && !returns,
	     "4.5: the same return probe twice: -EINVAL");
	rule(dp_register_kretprobes(twice, 0) == -EINVAL, "4.5: a batch of no return probes: -EINVAL");
}

/* ---- changes while a call is under way ---- */

static struct dp_kretprobe under_way;

static void unregister_it(void)
{
	dp_unregister_kretprobe(&under_way);
}

static void disable_it(void)
{
	dp_disable_kretprobe(&under_way);
}

static void test_under_way(void)
{
	under_way = (struct dp_kretprobe){.kp.addr = (void *)c_through, .handler = on_return};
	forget();
	rule(!dp_register_kretprobe(&under_way) && c_through(disable_it) == 5 && !returns,
	     "4.7: disabled while a call is under way, that returns without the handler");
	rule(!dp_enable_kretprobe(&under_way) && c_through(unregister_it) == 5 && !returns,
	     "4.4: unregistered while a call is under way, that returns without the handler");
}

/* ---- 1.2 ---- */

static long args[8];

static long on_many(long a, long b, long c, long d, long e, long f, long g, long h)
{
	long v[] = {a, b, c, d, e, f, g, h};

	memcpy(args, v, sizeof(args));
	a = b = c = d = e = f = g = h = 99;
	jumps++;
	dp_jprobe_return();
	jumps = 100; /* not reached */
	return a + b + c + d + e + f + g + h;
}

static long just_returns(long a, long b)
{
	jumps++;
	return 1;
}

static int refuse_jump(struct dp_jprobe jp)
{
	int r = dp_register_jprobe(&jp);

	if (!r)
		dp_unregister_jprobe(&jp);
	return r;
}

static void test_jprobes(void)
{
	struct dp_jprobe jp = {.kp.addr = (void *)c_many, .entry = (void *)on_many};
	struct dp_jprobe plain = {.kp.addr = (void *)c_region, .entry = (void *)just_returns}, *none[] = {&plain};
	bool good = true;

	forget();
	rule(!dp_register_jprobe(&jp), "4.2: a jprobe");
	rule(c_many(1, 2, 3, 4, 5, 6, 7, 8) == 0 && jumps == 1,
	     "1.2: its handler is called, and ends with jprobe_return()");
	for (int i = 0; i < 8; i++)
		good &= args[i] == i + 1;
	rule(good, "1.2: it gets the arguments, those on the stack, too");
	dp_wait_for_kprobe_optimizer();
	rule(!(jp.kp.flags & DP_KPROBE_FLAG_OPTIMIZED), "5: a jprobe's function is not optimised");
	rule(c_many(9, 0, 0, 0, 0, 0, 7, 8) == 8 && args[0] == 9,
	     "1.2: what it does to its arguments does not reach the function");
	rule(refuse_jump((struct dp_jprobe){.kp.addr = (void *)c_many, .entry = (void *)just_returns}) == -EEXIST,
	     "5: not several jprobes on a function: -EEXIST");
	rule(!dp_disable_jprobe(&jp) && !c_many(1, 0, 0, 0, 0, 0, 7, 8) && jumps == 2,
	     "4.7: a disabled jprobe is not called");
	rule(!dp_enable_jprobe(&jp) && !c_many(1, 0, 0, 0, 0, 0, 7, 8) && jumps == 3, "4.8: enabled it is");
	dp_unregister_jprobe(&jp);
	rule(refuse_jump((struct dp_jprobe){.kp.addr = HERE(c_wide, 10), .entry = (void *)just_returns}) == -EINVAL,
	     "4.2: not the start of a function: -EINVAL");
	rule(refuse_jump((struct dp_jprobe){.kp.addr = (void *)c_wide}) == -EINVAL,
	     "4.2: a jprobe without an entry: -EINVAL");
	rule(dp_register_jprobes(none, 0) == -EINVAL, "4.5: a batch of no jprobes: -EINVAL");
	forget();
	rule(!dp_register_jprobe(&plain) && c_region(1, 2) == 4 && jumps == 1,
	     "1.2: a handler that returns is the same");
	dp_unregister_jprobe(&plain);
}

static void test_together(void)
{
	struct dp_kprobe kp = {.addr = (void *)c_region, .pre_handler = pre, .post_handler = post};
	struct dp_jprobe jp = {.kp.addr = (void *)c_region, .entry = (void *)just_returns};
	struct dp_kretprobe rp = {.kp.addr = (void *)c_region, .handler = on_return, .entry_handler = on_entry};

	forget();
	rule(!dp_register_jprobe(&jp) && !dp_register_kretprobe(&rp) && !dp_register_kprobe(&kp) && c_region(1, 2) == 4,
	     "5: a kprobe, a jprobe and a return probe on one function");
	rule(pres == 1 && posts == 1 && jumps == 1 && entries == 1 && returns == 1, "5: each is called once");
	dp_unregister_kprobe(&kp);
	dp_unregister_jprobe(&jp);
	dp_unregister_kretprobe(&rp);
	rule(c_region(1, 2) == 4 && pres == 1, "5: and none afterwards");
}

/* ---- 5: probes that are hit by handlers ---- */

static long inner;

static void hit_inside(void)
{
	inner = c_calls(20, 30);
}

static int inside_pre(struct dp_kprobe *p, struct pt_regs *regs)
{
	hit_inside();
	return 0;
}

static void inside_post(struct dp_kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	hit_inside();
}

static int inside_ri(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	hit_inside();
	return 0;
}

static long inside_jump(long a, long b)
{
	hit_inside();
	dp_jprobe_return();
	return 0;
}

/* c_region() has the outer probe; c_add() is hit inside of its handler. */
static void recursion(struct dp_kprobe *met, struct dp_kretprobe *met_too, const char *kind)
{
	unsigned long before = met->nmissed, before_too = met_too->kp.nmissed;
	long r;

	forget();
	inner = 0;
	r = c_region(1, 2);
	ok(r == 4 && inner == 51 && !pres && !returns && met->nmissed == before + 1 &&
	       met_too->kp.nmissed == before_too + 1,
	   "5: probes that are hit by a %s handler run nothing and count nmissed (%d %d %lu)", kind, pres, returns,
	   met->nmissed - before);
}

static void test_recursion(void)
{
	struct dp_kprobe met = {.addr = (void *)c_add, .pre_handler = pre, .nmissed = 7}, kp;
	struct dp_kretprobe met_too = {.kp.addr = (void *)c_add, .handler = on_return}, rp;
	struct dp_jprobe jp = {.kp.addr = (void *)c_region, .entry = (void *)inside_jump};

	dp_register_kprobe(&met);
	dp_register_kretprobe(&met_too);
	rule(!met.nmissed, "5: nmissed is 0 at registration");
	kp = (struct dp_kprobe){.addr = (void *)c_region, .pre_handler = inside_pre};
	dp_register_kprobe(&kp);
	recursion(&met, &met_too, "pre");
	dp_wait_for_kprobe_optimizer();
	recursion(&met, &met_too, "optimised pre");
	dp_unregister_kprobe(&kp);
	kp = (struct dp_kprobe){.addr = (void *)c_region, .post_handler = inside_post};
	dp_register_kprobe(&kp);
	recursion(&met, &met_too, "post");
	dp_unregister_kprobe(&kp);
	rp = (struct dp_kretprobe){.kp.addr = (void *)c_region, .entry_handler = inside_ri};
	dp_register_kretprobe(&rp);
	recursion(&met, &met_too, "return probe's entry");
	dp_unregister_kretprobe(&rp);
	rp = (struct dp_kretprobe){.kp.addr = (void *)c_region, .handler = inside_ri};
	dp_register_kretprobe(&rp);
	recursion(&met, &met_too, "return");
	dp_unregister_kretprobe(&rp);
	dp_register_jprobe(&jp);
	recursion(&met, &met_too, "jprobe's");
	dp_unregister_jprobe(&jp);
	dp_unregister_kretprobe(&met_too);
	dp_unregister_kprobe(&met);
}

void conform(void)
{
	test_kprobe();
	test_refusals();
	test_places();
	test_handlers();
	test_several();
	test_disabled();
	test_batches();
	test_optimised();
	test_return_probes();
	test_instances();
	test_under_way();
	test_jprobes();
	test_together();
	test_recursion();
}

#ifndef __KERNEL__
int main(void)
{
	conform();
	return tap_done();
}
#endif
