// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Every function of the kernel at once, and random instructions inside them, while the guest is at
 * work: as breakpoints, as jumps, with return probes; coming and going.
 */
#include <linux/delay.h>
#include <linux/kallsyms.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "test.h"

#define MOST 60000
#define LONGEST 96 /* bytes into a function for random sites */

static unsigned long *addrs;
static u32 naddrs;
static struct dp_kprobe *probes, **pointers;
static void **places;
static unsigned long text_lo, text_hi;

/* For finding out which place does harm. */
static uint first, last = MOST;
module_param(first, uint, 0400);
module_param(last, uint, 0400);
static uint step = 1; /* every step-th function: for kernels that take long */
module_param(step, uint, 0400);
static DEFINE_PER_CPU(unsigned long, here);

static int count_here(struct dp_kprobe *p, struct pt_regs *regs)
{
	this_cpu_inc(here);
	return 0;
}

static unsigned long all_here(void)
{
	unsigned long n = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		n += *per_cpu_ptr(&here, cpu);
	return n;
}

/* Later kernels have names for the padding in front of functions, too: half of all. */
static int collect(DP_K_SYMBOL_ARGS)
{
	if (dp_k_symbol_is_core(addr) && addr >= text_lo && addr < text_hi && naddrs < MOST &&
	    strncmp(name, "__pfx_", 6))
		addrs[naddrs++] = addr;
	return 0;
}

/*
 * Which of them may be probed: found out one by one, then unregistered as a batch. The places stay
 * in places[]. Offset: a random one below `inside`.
 */
static u32 choose(u32 inside)
{
	unsigned long before = 0;
	u32 n = 0;

	for (u32 i = first; i < min(naddrs, last); i += step) {
		u32 offset = inside ? get_random_u32() % inside : 0;

		if (addrs[i] + offset == before)
			continue;
		before = addrs[i] + offset;
		probes[n] = (struct dp_kprobe){.addr = (void *)addrs[i],
					       .offset = offset,
					       .flags = DP_KPROBE_FLAG_DISABLED,
					       .pre_handler = count_here};
		if (dp_register_kprobe(&probes[n]))
			continue;
		places[n] = probes[n].addr;
		pointers[n] = &probes[n];
		n++;
	}
	dp_unregister_kprobes(pointers, n);
	return n;
}

static int arm(u32 n)
{
	for (u32 i = 0; i < n; i++) {
		probes[i].addr = places[i];
		probes[i].offset = 0;
		probes[i].flags = 0;
	}
	return dp_register_kprobes(pointers, n);
}

static u32 optimised(u32 n)
{
	u32 k = 0;

	dp_wait_for_kprobe_optimizer();
	for (u32 i = 0; i < n; i++)
		k += !!(probes[i].flags & DP_KPROBE_FLAG_OPTIMIZED);
	return k;
}

/* Armed, left alone while the guest works, removed; again and again. */
static void round_of(const char *what, u32 inside, bool jumps, int seconds)
{
	unsigned long end, before, hits_seen = 0;
	u32 n, rounds = 0, k = 0;
	ktime_t t = ktime_get();
	int r = 0;

	n = choose(inside);
	pr_info("tap: # %s: %u of %u places in %lld ms\n", what, n, naddrs, ktime_ms_delta(ktime_get(), t));
	end = jiffies + seconds * HZ;
	do {
		t = ktime_get();
		before = all_here();
		r = arm(n);
		if (r)
			break;
		if (!rounds)
			pr_info("tap: # armed in %lld ms\n", ktime_ms_delta(ktime_get(), t));
		t = ktime_get();
		if (jumps)
			k = optimised(n);
		if (jumps && !rounds)
			pr_info("tap: # %u optimised in %lld ms\n", k, ktime_ms_delta(ktime_get(), t));
		msleep(clamp(seconds * 500, 500, 2000));
		hits_seen += all_here() - before;
		t = ktime_get();
		dp_unregister_kprobes(pointers, n);
		if (!rounds)
			pr_info("tap: # removed in %lld ms\n", ktime_ms_delta(ktime_get(), t));
		rounds++;
	} while (time_before(jiffies, end));
	ok(!r && n > 5000 / step && hits_seen > 1000 / step, "%s: %u rounds of %u probes, %lu hits (%d)", what, rounds,
	   n, hits_seen, r);
	if (jumps)
		ok(k > n / 4, "%s: %u are jumps", what, k);
}

/* ---- return probes ---- */

#define RETURNS 1500
static atomic_long_t nreturned;

static int on_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	atomic_long_inc(&nreturned);
	return 0;
}

static void returns_of(int seconds)
{
	struct dp_kretprobe *rps = vzalloc(RETURNS * sizeof(*rps)), **v = vzalloc(RETURNS * sizeof(*v));
	unsigned long end = jiffies + seconds * HZ;
	u32 n = 0, rounds = 0;

	for (u32 i = 0; i < RETURNS * 4 / step && n < RETURNS && rps && v; i++) {
		rps[n] = (struct dp_kretprobe){.kp.addr = (void *)addrs[get_random_u32() % naddrs],
					       .kp.flags = DP_KPROBE_FLAG_DISABLED,
					       .handler = on_return,
					       .maxactive = 16};
		addrs[MOST + n] = (unsigned long)rps[n].kp.addr;
		v[n] = &rps[n];
		if (!dp_register_kretprobe(&rps[n]))
			n++;
	}
	dp_unregister_kretprobes(v, n);
	do {
		for (u32 i = 0; i < n; i++) {
			rps[i].kp.addr = (void *)addrs[MOST + i];
			rps[i].kp.flags = 0;
		}
		dp_wait_for_kprobe_optimizer(); /* landings come back */
		if (dp_register_kretprobes(v, n))
			break;
		msleep(2000);
		dp_unregister_kretprobes(v, n);
		rounds++;
	} while (time_before(jiffies, end));
	ok(rounds && n > 500 / step && atomic_long_read(&nreturned) > 100,
	   "return probes: %u rounds of %u, %ld returns", rounds, n, atomic_long_read(&nreturned));
	vfree(rps);
	vfree(v);
}

void test_many(int seconds, const char *what)
{
	typeof(kallsyms_on_each_symbol) *on_each = (void *)find("kallsyms_on_each_symbol");

	text_lo = find("_stext");
	text_hi = find("_etext");
	addrs = vzalloc((MOST + RETURNS) * sizeof(*addrs));
	probes = vzalloc(MOST * sizeof(*probes));
	pointers = vzalloc(MOST * sizeof(*pointers));
	places = vzalloc(MOST * sizeof(*places));
	if (on_each && addrs && probes && pointers && places) {
		on_each(collect, NULL);
		if (strstr(what, "traps"))
			round_of("functions, breakpoints", 0, false, seconds);
		if (strstr(what, "jumps"))
			round_of("functions, jumps", 0, true, seconds);
		if (strstr(what, "inside"))
			round_of("random places, jumps", LONGEST, true, seconds);
		if (strstr(what, "returns"))
			returns_of(seconds);
	} else {
		ok(0, "no memory, or no list of symbols");
	}
	vfree(places);
	vfree(pointers);
	vfree(probes);
	vfree(addrs);
}
