/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a hook costs where it is passed: idle against no hook, static tracepoints (SDT, LTTng-UST)
 * and a function pointer that is looked at; armed against a direct call and those. All contenders
 * take turns; the medians of the time added to a call of a function without anything are shown.
 *
 * Usage: bench-hooks [ROUNDS]
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"
#include "dprobes/hooks.h"
#ifdef HAVE_SDT
#include <sys/sdt.h>
#endif
#ifdef HAVE_UST
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#include "bench-hooks-ust.h"
#endif

#define ROUNDS 21 /* at most */
#define CALLS 20000
#define SLICES 50

#define ALONE __attribute__((noinline, noclone, noipa, aligned(64)))

DECLARE_HOOK(b_hook, long);
DECLARE_EXCLUSIVE_HOOK(b_exclusive, long);
DECLARE_GENERIC_HOOK(b_generic, long);
DECLARE_DYNAMIC_HOOK(b_dynamic, long);

static volatile long sink;

ALONE static int work(struct hook *h, long x)
{
	return HOOK_CONTINUE;
}

__attribute__((target("general-regs-only"))) ALONE static int dynamic_work(struct hook *h, struct pt_regs *regs, long x)
{
	return HOOK_CONTINUE;
}

static int (*pointer)(struct hook *h, long x);

#define FUNCTION(name, what)           \
	ALONE static long name(long x) \
	{                              \
		what;                  \
		return x + 1;          \
	}

FUNCTION(f_nothing, (void)0)
FUNCTION(f_again, (void)0) /* the same: what a difference of nothing looks like */
FUNCTION(f_direct, work(NULL, x))
FUNCTION(f_pointer, if (__builtin_expect(__atomic_load_n(&pointer, __ATOMIC_RELAXED) != NULL, 0)) pointer(NULL, x))
FUNCTION(f_hook, HOOK(b_hook, x))
FUNCTION(f_exclusive, EXCLUSIVE_HOOK(b_exclusive, x))
FUNCTION(f_generic, GENERIC_HOOK(b_generic, x))
FUNCTION(f_dynamic, (void)0)
#ifdef HAVE_SDT
FUNCTION(f_sdt, DTRACE_PROBE1(bench, sdt, x))
#endif
#ifdef HAVE_UST
FUNCTION(f_ust, lttng_ust_tracepoint(bench_hooks, passed, x))

static void ust_work(void *data, long x)
{
	work(data, x);
}

static struct lttng_ust_tracepoint_probe ust_probes[] = {{.func = (void (*)(void))ust_work}, {.func = NULL}};

/* What its own session daemon does, without the record. */
static void ust_arm(bool on)
{
	lttng_ust_tracepoint_bench_hooks___passed.probes = on ? ust_probes : NULL;
	lttng_ust_tracepoint_bench_hooks___passed.state = on;
}
#endif

static struct hook_rec r_hook = HOOK_EXIT(b_hook, work), r_exclusive = HOOK_EXIT(b_exclusive, work),
		       r_generic = HOOK_EXIT(b_generic, work), r_dynamic = HOOK_EXIT(b_dynamic, dynamic_work);

static void arm_pointer(bool on)
{
	__atomic_store_n(&pointer, on ? work : NULL, __ATOMIC_RELAXED);
}

static void arm(struct hook_rec *rec, bool on)
{
	if (on ? hook_exit_arm(rec) : hook_exit_disarm(rec)) {
		fprintf(stderr, "%s\n", dp_kprobe_error());
		exit(1);
	}
}

static const struct kind {
	const char *what;
	long (*f)(long);
	struct hook_rec *rec;
	void (*arm)(bool on);
} kinds[] = {
    {"nothing, once more", f_again},
    {"hook, idle", f_hook},
    {"exclusive hook, idle", f_exclusive},
    {"generic hook, idle", f_generic},
    {"dynamic hook, idle", f_dynamic},
    {"function pointer that is NULL", f_pointer},
#ifdef HAVE_SDT
    {"SDT probe (sys/sdt.h), idle", f_sdt},
#endif
#ifdef HAVE_UST
    {"LTTng-UST tracepoint, idle", f_ust},
#endif
    {"direct call", f_direct},
    {"function pointer that is set", f_pointer, NULL, arm_pointer},
    {"hook, one exit armed", f_hook, &r_hook},
    {"exclusive hook, armed", f_exclusive, &r_exclusive},
    {"generic hook, armed", f_generic, &r_generic},
#ifdef HAVE_UST
    {"LTTng-UST tracepoint, its callback the same", f_ust, NULL, ust_arm},
#endif
    {"dynamic hook, armed", f_dynamic, &r_dynamic},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double per_call(long (*f)(long))
{
	double v[SLICES];

	for (int s = 0; s < SLICES; s++) {
		double begin = now_ns();

		for (long i = 0; i < CALLS; i++)
			sink = f(i);
		v[s] = (now_ns() - begin) / CALLS;
	}
	return bench_median(v, SLICES);
}

static double turn(const struct kind *k)
{
	double base, with;

	if (k->rec)
		arm(k->rec, true);
	if (k->arm)
		k->arm(true);
	per_call(k->f);
	base = per_call(f_nothing);
	with = per_call(k->f);
	if (k->rec)
		arm(k->rec, false);
	if (k->arm)
		k->arm(false);
	return with - base;
}

int main(int argc, char **argv)
{
	static double v[KINDS][ROUNDS];
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;

	rounds = rounds > 0 && rounds <= ROUNDS ? rounds : ROUNDS;
	if (hook_exit_register(&b_hook, &r_hook) || hook_exit_register(&b_exclusive, &r_exclusive) ||
	    hook_exit_register(&b_generic, &r_generic) || hook_exit_register(&b_dynamic, &r_dynamic) ||
	    hook_bind(&b_dynamic, NULL, (unsigned long)f_dynamic)) {
		fprintf(stderr, "%s\n", dp_kprobe_error());
		return 1;
	}
	for (int i = 0; i < rounds; i++)
		for (size_t k = 0; k < KINDS; k++)
			v[k][i] = turn(&kinds[k]);
	printf("Time added to a call of a function; medians of %d.\n\n", rounds);
	for (size_t k = 0; k < KINDS; k++)
		printf("%-46s %7.2f ns\n", kinds[k].what, bench_median(v[k], (size_t)rounds));
	return 0;
}
