/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exit facilities in a library that a running process loads; they leave their marks in all registers that they may. */
#include <errno.h>
#include <string.h>

#include <dprobes/exits.h>

static volatile double sink = 1.5;

static void use_registers(void)
{
	char text[256];

	memset(text, 'x', sizeof(text));
	__asm__ volatile(
	    "pcmpeqb %%xmm0, %%xmm0\n\tpcmpeqb %%xmm1, %%xmm1\n\tpcmpeqb %%xmm15, %%xmm15\n\tfld1\n\tfstp %%st"
	    :
	    : "r"(text)
	    : "xmm0", "xmm1", "xmm15", "st", "memory");
	sink = sink * 2;
}

static int weigh(struct dp_exit *e, struct pt_regs *regs, const dp_exit_word *args, dp_exit_word *results)
{
	use_registers();
	errno = E2BIG;
	if (!args[0])
		return -EDOM;
	results[0] = (dp_exit_word)__builtin_popcountl(args[0]);
	return 0;
}

static int mark(struct dp_exit *e, struct pt_regs *regs, const dp_exit_word *args, dp_exit_word *results)
{
	use_registers();
	return 0;
}

static struct dp_exit weight_exit = {.name = "weight", .nargs = 1, .nresults = 1, .handler = weigh};
static struct dp_exit mark_exit = {.name = "mark", .handler = mark};

/* They go with the library. */
static void __attribute__((constructor)) begin(void)
{
	dp_register_exit(&weight_exit);
	dp_register_exit(&mark_exit);
}
