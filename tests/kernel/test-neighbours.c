// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Kprobes of the kernel and probes of ours on the same code: whoever comes second to an instruction is refused, and
 * whoever goes leaves the other one's bytes alone. The function is looked at whole after each step.
 */
#include <linux/ftrace.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#ifdef CONFIG_FPROBE
#include <linux/fprobe.h>
#endif

#include "test.h"

#define LEN 14 /* t_region: push 1, mov 3, lea 4, add 4, pop 1, ret 1 */

static const u8 starts[] = {0, 1, 4, 8, 12, 13};
static unsigned char before[LEN];
static int theirs_hit, wrong;

static int count_theirs(struct kprobe *p, struct pt_regs *regs)
{
	theirs_hit++;
	return 0;
}

/* The function does what it should, and both see it as often as they stand there. */
static void step(int ours, int theirs)
{
	int was = theirs_hit;

	atomic_set(&hits, 0);
	wrong += t_region(20, 3) != 24 || atomic_read(&hits) != ours || theirs_hit - was != theirs;
}

static bool is_start(int at)
{
	for (int i = 0; i < sizeof(starts); i++)
		if (starts[i] == at)
			return true;
	return false;
}

/* Ours stands at t_region; a kprobe is tried at each byte. */
static void try_each(const char *how, bool jump)
{
	struct kprobe theirs;
	int accepted = 0, r;

	wrong = 0;
	for (int at = 0; at < LEN; at++) {
		theirs = (struct kprobe){.addr = (void *)t_region + at, .pre_handler = count_theirs};
		r = register_kprobe(&theirs);
		if (!r) {
			accepted++;
			wrong += !is_start(at) || !at || (jump && at < 8);
			step(1, 1);
			settle();
			step(1, 1);
			unregister_kprobe(&theirs);
		}
		step(1, 0);
	}
	settle();
	ok(!wrong && accepted, "over a %s the kernel's kprobes come to other instructions only, to %d (%d wrong)", how,
	   accepted, wrong);
}

static void test_second(void)
{
	struct dp_kprobe ours = {.addr = t_region, .pre_handler = count_hit};

	dp_register_kprobe(&ours);
	try_each("breakpoint", false); /* or what it becomes meanwhile */
	dp_disable_kprobe(&ours); /* where a neighbour stood when the jumps came there is none: it is looked at again */
	dp_enable_kprobe(&ours);
	dp_wait_for_kprobe_optimizer();
	ok(ours.flags & DP_KPROBE_FLAG_OPTIMIZED, "a jump that covers eight bytes");
	try_each("jump", true);
	wrong = 0;
	dp_disable_kprobe(&ours);
	step(0, 0);
	ok(!wrong && !memcmp(before, t_region, LEN), "disabled, every byte is restored");
	dp_unregister_kprobe(&ours);
}

/* A kprobe is there first, at every instruction, in each of the states that it can be in. */
static void test_first(void)
{
	static const char *const names[] = {"armed", "disabled", "optimised"};
	struct kprobe theirs;
	struct dp_kprobe ours;

	for (int how = 0; how < 3; how++) {
		int refused = 0;

		wrong = 0;
		for (int i = 0; i < sizeof(starts); i++) {
			bool on = how != 1;

			theirs = (struct kprobe){.addr = (void *)t_region + starts[i], .pre_handler = count_theirs};
			wrong += register_kprobe(&theirs) != 0;
			if (how == 1)
				wrong += disable_kprobe(&theirs) != 0;
			settle();
			if (how == 0)
				settle();
			for (int k = 0; k < sizeof(starts); k++) {
				ours = (struct dp_kprobe){
				    .addr = t_region, .offset = starts[k], .pre_handler = count_hit};
				if (dp_register_kprobe(&ours)) {
					refused++;
					wrong += strcmp(ours.refusal, "E-SITE-FOREIGN") != 0;
					step(0, on);
					continue;
				}
				wrong += k == i;
				step(1, on);
				dp_wait_for_kprobe_optimizer();
				step(1, on);
				if (how == 1) {
					wrong += enable_kprobe(&theirs) != 0;
					step(1, 1);
					settle();
					step(1, 1);
					wrong += disable_kprobe(&theirs) != 0;
				}
				step(1, on);
				dp_unregister_kprobe(&ours);
				step(0, on);
			}
			unregister_kprobe(&theirs);
			settle();
			step(0, 0);
		}
		ok(!wrong && refused >= sizeof(starts) && !memcmp(before, t_region, LEN),
		   "to where a kprobe of the kernel is %s, ours do not come (%d refused, %d wrong)", names[how],
		   refused, wrong);
	}
}

/* Both, and one of them goes first, at places that do not touch each other. */
static void test_orders(void)
{
	wrong = 0;
	for (int order = 0; order < 8; order++) {
		struct dp_kprobe ours = {.addr = t_region, .pre_handler = count_hit};
		struct kprobe theirs = {.addr = (void *)t_region + 8, .pre_handler = count_theirs};

		if (order & 1)
			wrong += register_kprobe(&theirs) != 0;
		wrong += dp_register_kprobe(&ours) != 0;
		settle();
		wrong += !(ours.flags & DP_KPROBE_FLAG_OPTIMIZED);
		if (!(order & 1))
			wrong += register_kprobe(&theirs) != 0;
		settle();
		step(1, 1);
		if (order & 2) {
			wrong += dp_disable_kprobe(&ours) != 0;
			step(0, 1);
			settle(); /* the kernel's may become a jump */
			step(0, 1);
			wrong += dp_enable_kprobe(&ours) != 0;
			settle();
			step(1, 1);
		}
		if (order & 4)
			unregister_kprobe(&theirs);
		dp_unregister_kprobe(&ours);
		step(0, !(order & 4));
		if (!(order & 4))
			unregister_kprobe(&theirs);
		settle();
		step(0, 0);
		wrong += memcmp(before, t_region, LEN) != 0;
	}
	ok(!wrong, "side by side they come and go in any order (%d wrong)", wrong);
}

/* ---- others who see the calls of a function ---- */

static int count_their_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	theirs_hit++;
	return 0;
}

static struct kprobe at_start;
static struct kretprobe at_return;
static struct ftrace_ops direct;

static int kprobe_begin(void)
{
	at_start = (struct kprobe){.addr = (void *)int_sqrt, .pre_handler = count_theirs};
	return register_kprobe(&at_start);
}

static void kprobe_end(void)
{
	unregister_kprobe(&at_start);
}

static int kretprobe_begin(void)
{
	at_return = (struct kretprobe){.kp.addr = (void *)int_sqrt, .handler = count_their_return};
	return register_kretprobe(&at_return);
}

static void kretprobe_end(void)
{
	unregister_kretprobe(&at_return);
}

static int direct_begin(void)
{
	memset(&direct, 0, sizeof(direct));
	return dp_k_direct_begin(&direct, tracers_bytes(int_sqrt), (unsigned long)t_stub);
}

static void direct_end(void)
{
	dp_k_direct_end(&direct, tracers_bytes(int_sqrt), (unsigned long)t_stub);
}

#ifdef CONFIG_FPROBE
static int fprobe_hit(void)
{
	theirs_hit++;
	return 0;
}

static struct fprobe at_both;

static int fprobe_begin(void)
{
	/* What the handlers are given differs between kernels; these look at nothing of it. */
	at_both = (struct fprobe){.entry_handler = (void *)fprobe_hit, .exit_handler = (void *)fprobe_hit};
	return register_fprobe(&at_both, "int_sqrt", NULL);
}

static void fprobe_end(void)
{
	unregister_fprobe(&at_both);
}
#endif

static const struct other {
	const char *name;
	int (*begin)(void);
	void (*end)(void);
	int hits; /* for each call */
} others[] = {
    {"a kprobe", kprobe_begin, kprobe_end, 1},
    {"a return probe", kretprobe_begin, kretprobe_end, 1},
    {"a direct call, as of a trampoline of BPF,", direct_begin, direct_end, 1},
#ifdef CONFIG_FPROBE
    {"an fprobe", fprobe_begin, fprobe_end, 2},
#endif
};

static int count_our_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	atomic_inc(&hits);
	return 0;
}

static void call(int ours, int theirs)
{
	int was = theirs_hit + t_stub_hits;

	atomic_set(&hits, 0);
	wrong += int_sqrt(49) != 7 || atomic_read(&hits) != ours || theirs_hit + t_stub_hits - was != theirs;
}

/* Bit 0: theirs comes first; bit 1: theirs goes first; bit 2: ours are jumps by then. */
static void in_order(const struct other *o, int order)
{
	struct dp_kprobe start = {.addr = (void *)int_sqrt, .pre_handler = count_hit};
	struct dp_kretprobe end = {.kp.addr = (void *)int_sqrt, .handler = count_our_return};

	if (order & 1)
		wrong += o->begin() != 0;
	wrong += dp_register_kprobe(&start) != 0;
	wrong += dp_register_kretprobe(&end) != 0;
	if (order & 4)
		settle();
	if (!(order & 1))
		wrong += o->begin() != 0;
	call(2, o->hits);
	settle();
	call(2, o->hits);
	if (order & 2) {
		o->end();
		call(2, 0);
	}
	dp_unregister_kretprobe(&end);
	call(1, order & 2 ? 0 : o->hits);
	dp_unregister_kprobe(&start);
	call(0, order & 2 ? 0 : o->hits);
	if (!(order & 2))
		o->end();
	call(0, 0);
}

static void test_calls(void)
{
	for (int i = 0; i < ARRAY_SIZE(others); i++) {
		wrong = 0;
		for (int order = 0; order < 8; order++)
			in_order(&others[i], order);
		ok(!wrong, "%s and ours see each call of a function, in any order of coming and going (%d wrong)",
		   others[i].name, wrong);
	}
}

/* All at once. */
static void test_all(void)
{
	struct dp_kprobe start = {.addr = (void *)int_sqrt, .pre_handler = count_hit};
	struct dp_kretprobe end = {.kp.addr = (void *)int_sqrt, .handler = count_our_return};
	int n = 0;

	wrong = dp_register_kprobe(&start) != 0;
	for (int i = 0; i < ARRAY_SIZE(others); i++) {
		wrong += others[i].begin() != 0;
		n += others[i].hits;
	}
	wrong += dp_register_kretprobe(&end) != 0;
	call(2, n);
	settle();
	call(2, n);
	dp_unregister_kprobe(&start);
	call(1, n);
	for (int i = 0; i < ARRAY_SIZE(others); i++) {
		others[i].end();
		n -= others[i].hits;
		call(1, n);
	}
	dp_unregister_kretprobe(&end);
	call(0, 0);
	ok(!wrong, "so do all of them together (%d wrong)", wrong);
}

void test_neighbours(void)
{
	memcpy(before, t_region, LEN);
	test_second();
	test_first();
	test_orders();
	test_calls();
	test_all();
	ok(!memcmp(before, t_region, LEN) && t_region(20, 3) == 24, "every byte is as it was");
}
