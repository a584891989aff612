/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Waits inside a call that a return probe is on, for a debugger to look at. */
#include <stdio.h>
#include <unistd.h>

#include "dprobes/kprobes.h"

__attribute__((noinline, noipa)) int inside(int a)
{
	puts("inside");
	fflush(stdout);
	pause();
	return a;
}

__attribute__((noinline, noipa)) int caller(int a)
{
	return inside(a) + 1;
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

int main(int argc, char **argv)
{
	static struct kretprobe rp = {.kp.symbol_name = "inside", .handler = on_return};

	return register_kretprobe(&rp) || caller(argc);
}
