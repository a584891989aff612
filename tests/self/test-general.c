/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which handlers are found to leave vector registers alone: those whose every reachable instruction
 * does, and no other. Looks inside the library.
 */
#include "host/self/self-priv.h"
#include "tap.h"

#define GENERAL __attribute__((noinline, used, noipa, target("general-regs-only")))

static unsigned long hits;
static long table[64];
static double total;
static int (*volatile hook)(void);

GENERAL static int empty(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

GENERAL static int counts(struct kprobe *p, struct pt_regs *regs)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	table[regs->di % 64] += (long)(regs->si / 7 * 3);
	return 0;
}

GENERAL static long sum_to(long n)
{
	return n ? n + sum_to(n - 1) : 0;
}

GENERAL static int calls(struct kprobe *p, struct pt_regs *regs)
{
	for (int i = 0; i < 5; i++)
		table[i] += sum_to(i);
	return (int)table[3] < 0;
}

PROBED static double half(double x)
{
	return x / 2;
}

static int uses_double(struct kprobe *p, struct pt_regs *regs)
{
	total += (double)regs->di * 0.5;
	return 0;
}

/* The double lies behind a branch and a call. */
PROBED static int far_away(struct kprobe *p, struct pt_regs *regs)
{
	if (__builtin_expect(regs->di == 77, 0))
		total = half(total);
	return 0;
}

GENERAL static int by_pointer(struct kprobe *p, struct pt_regs *regs)
{
	return hook ? hook() : 0;
}

PROBED static int x87(struct kprobe *p, struct pt_regs *regs)
{
	__asm__ volatile("fninit");
	return 0;
}

PROBED static int control_word(struct kprobe *p, struct pt_regs *regs)
{
	unsigned int w;

	__asm__ volatile("stmxcsr %0" : "=m"(w));
	return (int)(w & 0);
}

/* An indirect jump: where it leads to is not followed. */
__asm__(".text\n.type jumps, @function\njumps: lea 1f(%rip), %rax\njmp *%rax\n1: xor %eax, %eax\nret\n"
	".size jumps, . - jumps\n");
int jumps(struct kprobe *p, struct pt_regs *regs);

PROBED static int linkage_table(struct kprobe *p, struct pt_regs *regs)
{
	return puts("") < 0;
}

#define IS(good, f, why) ok(dp_self_is_general((const void *)(f)) == (good), "%s: %s", #f, why)

int main(void)
{
	if (dp_self_lock()) {
		ok(0, "the library comes up: %s", dp_kprobe_error());
		return tap_done();
	}
	IS(true, NULL, "no handler");
	IS(true, empty, "nothing");
	IS(true, counts, "arithmetic and atomics");
	IS(true, calls, "calls that are known, recursion");
	IS(false, uses_double, "floating point");
	IS(false, far_away, "floating point behind a branch and a call");
	IS(false, by_pointer, "a call through a pointer");
	IS(false, jumps, "an indirect jump");
	IS(false, x87, "the x87 unit");
	IS(false, control_word, "MXCSR");
	IS(false, linkage_table, "a function of another library");
	IS(false, (void *)8, "no code at all");
	dp_self_unlock();
	return tap_done();
}
