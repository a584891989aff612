// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Return probes and jprobes, sentence by sentence. The mirror of tests/self/test-kretprobes.c, and
 * what only a kernel has: calls that sleep while their probe goes, tasks that end inside a call.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/stacktrace.h>

#include "test.h"

static int entries, returns;
static struct dp_kretprobe_instance last;
static long value, data_seen;

static int on_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	returns++;
	last = *ri;
	value = regs_return_value(regs);
	return 0;
}

static int on_entry(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	entries++;
	*(long *)ri->data = regs->di;
	return 0;
}

static int on_return_data(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	data_seen = *(long *)ri->data;
	return on_return(ri, regs);
}

static int refuse_odd(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	entries++;
	return regs->di & 1;
}

static int change_value(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	regs->ax = 4711;
	return 0;
}

static void test_values(void)
{
	struct dp_kretprobe rp = {.kp.addr = t_wide, .handler = on_return};
	struct dp_kretprobe mid = {.kp.addr = T_WIDE_2ND, .handler = on_return};
	struct dp_kretprobe many = {.kp.addr = t_wide, .handler = on_return, .maxactive = 5000};
	unsigned char before[16];

	memcpy(before, t_wide, 16);
	ok(!dp_register_kretprobe(&rp), "a return probe");
	ok(rp.maxactive == max(10, 2 * (int)num_possible_cpus()), "the default of maxactive (%d)", rp.maxactive);
	for (int i = 0; i < 2; i++) {
		long r;

		returns = 0;
		r = t_wide(3, 4);
		ok(r == 0x1007 && returns == 1 && value == 0x1007, "%s: the handler sees the value",
		   i ? "a jump" : "a breakpoint");
		ok(last.rp == &rp && last.task == current && last.ret_addr > (void *)test_values - 4096,
		   "and the instance");
		dp_wait_for_kprobe_optimizer();
	}
	ok(rp.kp.flags & DP_KPROBE_FLAG_OPTIMIZED, "its entry is optimised");
	dp_unregister_kretprobe(&rp);
	returns = 0;
	ok(t_wide(3, 4) == 0x1007 && !returns && !memcmp(before, t_wide, 16), "unregistered, bytes restored");
	ok(dp_register_kretprobe(&mid) == -EINVAL, "not at a function's start: -EINVAL");
	ok(dp_register_kretprobe(&many) == -EINVAL, "too many instances: -EINVAL");
	rp = (struct dp_kretprobe){.kp.addr = t_wide, .handler = change_value};
	dp_register_kretprobe(&rp);
	ok(t_wide(1, 2) == 4711, "a handler changes the value");
	dp_unregister_kretprobe(&rp);
}

static noinline __attribute__((noipa)) long depth(long n)
{
	long r = n ? depth(n - 1) + 1 : 0;

	barrier();
	return r;
}

static void test_instances(void)
{
	struct dp_kretprobe rp = {
	    .kp.addr = t_wide, .handler = on_return_data, .entry_handler = on_entry, .data_size = sizeof(long)};
	struct dp_kretprobe odd = {.kp.addr = t_wide, .handler = on_return, .entry_handler = refuse_odd};
	struct dp_kretprobe few = {.kp.addr = depth, .handler = on_return, .maxactive = 3};
	struct dp_kretprobe second = {.kp.addr = depth, .handler = on_return, .maxactive = 20};
	long r;

	dp_register_kretprobe(&rp);
	entries = returns = 0;
	t_wide(17, 4);
	ok(entries == 1 && returns == 1 && data_seen == 17, "data of an instance");
	dp_unregister_kretprobe(&rp);
	dp_register_kretprobe(&odd);
	entries = returns = 0;
	t_wide(1, 4);
	t_wide(2, 4);
	ok(entries == 2 && returns == 1, "an entry handler refuses a call");
	dp_unregister_kretprobe(&odd);
	ok(!dp_register_kretprobe(&few), "few instances");
	returns = 0;
	r = depth(9);
	ok(r == 9 && returns == 3 && few.nmissed == 7, "the others are missed (%d %d)", returns, few.nmissed);
	r = depth(1);
	ok(r == 1 && returns == 5, "instances come back");
	ok(!dp_register_kretprobe(&second) && !second.nmissed, "a second return probe on the function");
	returns = 0;
	r = depth(4);
	ok(r == 4 && returns == 8, "both see returns (%d)", returns);
	ok(within_module((unsigned long)last.ret_addr, THIS_MODULE), "the real address");
	dp_disable_kretprobe(&few);
	returns = 0;
	r = depth(4);
	ok(r == 4 && returns == 5, "one is disabled");
	dp_unregister_kretprobe(&few);
	dp_unregister_kretprobe(&second);
	returns = 0;
	ok(depth(4) == 4 && !returns, "both are gone");
}

/* ---- calls that sleep ---- */

static bool go_on;
static int threads_done;

static noinline __attribute__((noipa)) int sleeper(void *unused)
{
	while (!READ_ONCE(go_on))
		msleep(10);
	barrier();
	return 0;
}

static int thread(void *unused)
{
	sleeper(NULL);
	__atomic_fetch_add(&threads_done, 1, __ATOMIC_RELAXED);
	return 0;
}

static void test_sleepers(void)
{
	struct dp_kretprobe a = {.kp.addr = sleeper, .handler = on_return};
	struct dp_kretprobe b = {.kp.addr = sleeper, .handler = on_return};

	dp_register_kretprobe(&a);
	dp_register_kretprobe(&b);
	returns = threads_done = 0;
	go_on = false;
	for (int i = 0; i < 4; i++)
		kthread_run(thread, NULL, "dptest");
	msleep(200);
	dp_unregister_kretprobe(&a); /* under the other: its landing stands in the other's instance */
	dp_unregister_kretprobe(&b);
	dp_wait_for_kprobe_optimizer(); /* buries the instances */
	WRITE_ONCE(go_on, true);
	for (int i = 0; i < 200 && threads_done < 4; i++)
		msleep(10);
	ok(threads_done == 4 && !returns, "calls that sleep return without their probe (%d %d)", threads_done, returns);
}

static int exiter(void *unused)
{
	return 0;
}

static void test_exits(void)
{
	struct dp_kretprobe rp = {.kp.symbol_name = "do_exit", .handler = on_return, .maxactive = 8};
	int missed;

	if (dp_register_kretprobe(&rp)) {
		ok(0, "a return probe on do_exit: %s", rp.kp.refusal);
		return;
	}
	for (int i = 0; i < 40; i++) {
		struct task_struct *t = kthread_create(exiter, NULL, "dptest");

		if (!IS_ERR(t)) {
			get_task_struct(t);
			wake_up_process(t);
			kthread_stop(t);
			put_task_struct(t);
		}
		if (!(i & 3))
			synchronize_rcu(); /* tasks are freed behind it */
	}
	msleep(100);
	missed = rp.nmissed;
	ok(missed < 20, "calls that never return give their instances back (%d missed)", missed);
	dp_unregister_kretprobe(&rp);
}

/*
 * Return probes come and go on functions that sleep, that never return and that every task passes when it ends, while
 * tasks begin, sleep and end: stacks go away under calls, and instances change hands.
 */
static atomic_t lived;

static int short_life(void *unused)
{
	msleep(1 + atomic_inc_return(&lived) % 7);
	return 0;
}

void test_exits_for(int seconds)
{
	static const char *const names[] = {"do_exit",          "exit_mm",      "exit_files",   "schedule",
					    "schedule_timeout", "msleep",       "kthread_exit", "do_task_dead",
					    "do_group_exit",    "kernel_wait4", "do_nanosleep", "kernel_clone"};
	struct dp_kretprobe *rps = kcalloc(ARRAY_SIZE(names), sizeof(*rps), GFP_KERNEL), *v[ARRAY_SIZE(names)];
	unsigned long end = jiffies + seconds * HZ;
	int rounds = 0, started = 0, bad = 0;
	u32 n = 0;

	for (u32 i = 0; rps && i < ARRAY_SIZE(names); i++) {
		v[n] = &rps[n];
		rps[n].kp.symbol_name = names[i];
		n += !!find(names[i]);
	}
	returns = 0;
	while (rps && time_before(jiffies, end)) {
		for (u32 i = 0; i < n; i++)
			rps[i] = (struct dp_kretprobe){.kp.symbol_name = rps[i].kp.symbol_name,
						       .handler = on_return,
						       .maxactive = 8 + rounds % 40};
		bad += dp_register_kretprobes(v, n) != 0;
		for (int i = 0; i < 20; i++)
			started += !IS_ERR(kthread_run(short_life, NULL, "dptest"));
		if (rounds & 1)
			dp_wait_for_kprobe_optimizer();
		else
			msleep(3);
		dp_unregister_kretprobes(v, n);
		rounds++;
	}
	dp_wait_for_kprobe_optimizer();
	for (int i = 0; i < 200 && atomic_read(&lived) < started; i++)
		msleep(10);
	msleep(50); /* until they have left this module's code */
	ok(rounds > 1 && n > 8 && !bad && returns > 100 && atomic_read(&lived) == started,
	   "return probes where tasks sleep and end: %d rounds of %u, %d tasks, %d returns (%d)", rounds, n, started,
	   returns, bad);
	kfree(rps);
}

/* ---- jprobes ---- */

static long jsum;
static int jcalls;

static void j_many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	jcalls++;
	jsum = a + 2 * b + 4 * c + 8 * d + e + f + g + h + i + j;
	dp_jprobe_return();
}

static void j_wide(long a, long b)
{
	jcalls++;
	a = b = 99; /* the function does not see this */
	jsum = a + b;
}

static void test_jprobes(void)
{
	struct dp_jprobe jp = {.kp.addr = t_many, .entry = j_many};
	struct dp_jprobe two = {.kp.addr = t_many, .entry = j_many};
	struct dp_jprobe plain = {.kp.addr = t_wide, .entry = j_wide};
	struct dp_jprobe first = {.kp.symbol_name = "irq_enter_rcu", .entry = j_wide};
	struct dp_jprobe mid = {.kp.addr = T_WIDE_2ND, .entry = j_wide};
	struct dp_jprobe named = {.kp.symbol_name = "no_such_function_at_all", .entry = j_wide};
	long r;

	ok(!dp_register_jprobe(&jp), "a jprobe");
	dp_wait_for_kprobe_optimizer();
	jcalls = 0;
	r = t_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	ok(r == 94 && jcalls == 1 && jsum == 94, "ten arguments arrive, and the function gets them (%ld %ld)", r, jsum);
	ok(!(jp.kp.flags & DP_KPROBE_FLAG_OPTIMIZED), "its function is not optimised");
	ok(dp_register_jprobe(&two) == -EEXIST, "one jprobe for a function: -EEXIST");
	ok(!dp_disable_jprobe(&jp), "disabled");
	jcalls = 0;
	r = t_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	ok(r == 94 && !jcalls, "it is not called");
	ok(!dp_enable_jprobe(&jp), "enabled");
	t_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	ok(jcalls == 1, "it is called again");
	dp_unregister_jprobe(&jp);
	ok(!dp_register_jprobe(&plain), "one that ends by returning");
	r = t_wide(1, 2);
	ok(r == 0x1003 && jsum == 198, "arguments that it changes do not reach the function");
	dp_unregister_jprobe(&plain);
	/* Above its return address the stack of interrupts ends. */
	jcalls = 0;
	ok(!dp_register_jprobe(&first), "one of the first function on a stack: %s",
	   first.kp.refusal ? first.kp.refusal : "");
	for (int i = 0; i < 50 && !jcalls; i++)
		msleep(20);
	ok(jcalls > 0, "is called");
	dp_unregister_jprobe(&first);
	ok(dp_register_jprobe(&mid) == -EINVAL, "not at a function's start: -EINVAL");
	ok(dp_register_jprobe(&named) == -ENOENT, "an unknown symbol: -ENOENT");
}

/* ---- together, and in the kernel's own functions ---- */

static int post_hits;

static void post(struct dp_kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	post_hits++;
}

static void test_together(void)
{
	struct dp_kprobe kp = {.addr = t_wide, .pre_handler = count_hit, .post_handler = post};
	struct dp_kretprobe rp = {.kp.addr = t_wide, .handler = on_return};
	struct dp_jprobe jp = {.kp.addr = t_wide, .entry = j_wide};
	struct dp_kprobe getpid = {.symbol_name = "schedule", .pre_handler = count_hit};
	struct dp_kretprobe sched = {.kp.symbol_name = "schedule", .handler = on_return, .maxactive = 512};
	unsigned long start = find("schedule");
	long r;

	dp_register_kprobe(&kp);
	dp_register_jprobe(&jp);
	dp_register_kretprobe(&rp);
	atomic_set(&hits, 0);
	post_hits = returns = jcalls = 0;
	r = t_wide(1, 2);
	ok(r == 0x1003 && atomic_read(&hits) == 1 && post_hits == 1 && returns == 1 && jcalls == 1,
	   "kprobe, jprobe and return probe on one function");
	dp_unregister_jprobe(&jp);
	dp_unregister_kretprobe(&rp);
	dp_unregister_kprobe(&kp);

	atomic_set(&hits, 0);
	returns = 0;
	ok(!dp_register_kprobe(&getpid) && !dp_register_kretprobe(&sched), "the entry of a traceable function");
	ok(getpid.addr == (void *)tracers_bytes((void *)start) + 5, "is behind the function tracer's bytes");
	dp_wait_for_kprobe_optimizer();
	for (int i = 0; i < 20; i++)
		msleep(5);
	ok(atomic_read(&hits) >= 20 && returns >= 20, "schedule() is entered and left (%d %d)", atomic_read(&hits),
	   returns);
	dp_unregister_kretprobe(&sched);
	dp_unregister_kprobe(&getpid);
}

/* ---- stack traces ---- */

#define FRAMES 32

static unsigned long inside[FRAMES], at_entry[FRAMES], at_return[FRAMES], from_regs[FRAMES];
static u32 ninside, nat_entry, nat_return, nfrom_regs;
static bool print_inside; /* once, as where the kernel reports a bug */
static void *returned_to;
static void *bottom; /* a function of the kernel that is below all of them */

static noinline __attribute__((noipa)) long traced_leaf(long a)
{
	ninside = stack_trace_save(inside, FRAMES, 0);
	if (print_inside)
		dump_stack(); /* guest.sh looks at it */
	print_inside = false;
	return a + 1;
}

static noinline __attribute__((noipa)) long traced_middle(long a)
{
	return traced_leaf(a) + 1;
}

static noinline __attribute__((noipa)) long traced_outer(long a)
{
	return traced_middle(a) + 1;
}

static int trace_entry(struct dp_kprobe *p, struct pt_regs *regs)
{
	nat_entry = stack_trace_save(at_entry, FRAMES, 0);
	return 0;
}

static int trace_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	returned_to = ri->ret_addr;
	nat_return = stack_trace_save(at_return, FRAMES, 0);
	nfrom_regs = ((typeof(stack_trace_save_regs) *)find("stack_trace_save_regs"))(regs, from_regs, FRAMES, 0);
	return 0;
}

/* How many frames lie in the function. */
static u32 frames_in(const unsigned long *v, u32 n, const void *function)
{
	unsigned long size, off;
	u32 found = 0;

	for (u32 i = 0; i < n; i++)
		found += ((typeof(kallsyms_lookup_size_offset) *)find("kallsyms_lookup_size_offset"))(v[i], &size,
												      &off) &&
			 v[i] - off == (unsigned long)function;
	return found;
}

static u32 frames_equal(const unsigned long *v, u32 n, const void *addr)
{
	u32 found = 0;

	for (u32 i = 0; i < n; i++)
		found += v[i] == (unsigned long)addr;
	return found;
}

static void expect_traces(const char *how)
{
	ninside = nat_entry = nat_return = nfrom_regs = 0;
	ok(traced_outer(1) == 4, "a call with stack traces, %s", how);
	ok(frames_in(inside, ninside, traced_middle) == 1 && frames_in(inside, ninside, traced_outer) == 1 &&
	       frames_in(inside, ninside, bottom) == 1,
	   "below probed calls the trace goes through all of them (%u frames)", ninside);
	ok(frames_equal(at_return, nat_return, returned_to) == 1 &&
	       frames_in(at_return, nat_return, traced_outer) == 1 && frames_in(at_return, nat_return, bottom) == 1,
	   "in a return handler it goes on at the caller (%u frames)", nat_return);
	ok(nfrom_regs > 1 && from_regs[0] == (unsigned long)returned_to &&
	       frames_in(from_regs, nfrom_regs, bottom) == 1,
	   "from its registers, too (%u frames)", nfrom_regs);
	ok(frames_in(at_entry, nat_entry, traced_outer) == 1 && frames_in(at_entry, nat_entry, bottom) == 1,
	   "in a pre handler it goes through the probed function (%u frames)", nat_entry);
}

static void test_traces(void)
{
	struct dp_kretprobe outer = {.kp.addr = traced_outer},
			    middle = {.kp.addr = traced_middle, .handler = trace_return};
	struct dp_kretprobe again = {.kp.addr = traced_middle}, leaf = {.kp.addr = traced_leaf};
	struct dp_kprobe entry = {.addr = traced_middle, .pre_handler = trace_entry};

	bottom = (void *)find("do_init_module");
	ok(!dp_register_kretprobe(&middle) && !dp_register_kretprobe(&leaf) && !dp_register_kretprobe(&outer) &&
	       !dp_register_kprobe(&entry),
	   "returns of three functions that call each other");
	expect_traces("by breakpoints");
	dp_wait_for_kprobe_optimizer();
	expect_traces("by jumps");
	ok(!dp_register_kretprobe(&again), "one more on the same call");
	print_inside = true;
	expect_traces("with two landings of one call");
	dp_unregister_kretprobe(&middle);
	ok(traced_outer(1) == 4 && frames_in(inside, ninside, bottom) == 1, "and when the first has gone");
	dp_unregister_kprobe(&entry);
	dp_unregister_kretprobe(&again);
	dp_unregister_kretprobe(&leaf);
	dp_unregister_kretprobe(&outer);
}

void test_returns(void)
{
	test_values();
	test_instances();
	test_sleepers();
	test_exits();
	test_jprobes();
	test_together();
	test_traces();
}
