// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Kprobes of the kernel and probes of ours on the same code: whoever comes second to an instruction is refused, and
 * whoever goes leaves the other one's bytes alone. The function is looked at whole after each step.
 */
#include <linux/kprobes.h>

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

void test_neighbours(void)
{
	memcpy(before, t_region, LEN);
	test_second();
	test_first();
	test_orders();
	ok(!memcmp(before, t_region, LEN) && t_region(20, 3) == 24, "every byte is as it was");
}
