/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A kprobe: what this program writes, seen at the entry of libc's write().
 *
 *	cc kprobe-example.c $(pkg-config --cflags --libs dprobes) && ./a.out
 */
#include <dprobes/kprobes.h>
#include <stdio.h>
#include <unistd.h>

static int written;

static int at_write(struct kprobe *p, struct pt_regs *regs)
{
	/* Not the place for printf(): that would write, too. */
	written += (int)regs->dx;
	return 0;
}

static void after_first_instruction(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	/* Rarely needed; having one keeps the probe a breakpoint. */
}

int main(int argc, char **argv)
{
	struct kprobe kp = {
	    .symbol_name = "libc:write",
	    .pre_handler = at_write,
	    .post_handler = argc > 1 ? after_first_instruction : NULL,
	};
	int err = register_kprobe(&kp);

	if (err) {
		fprintf(stderr, "register_kprobe: %d, %s\n", err, dp_kprobe_error());
		return 1;
	}
	printf("planted at %p, %s\n", (void *)kp.addr,
	       kp.flags & KPROBE_FLAG_OPTIMIZED ? "optimised" : "a breakpoint");
	fflush(stdout);
	if (write(STDOUT_FILENO, "hello\n", 6) != 6)
		return 1;
	unregister_kprobe(&kp);
	printf("%d bytes were written meanwhile\n", written);
	return 0;
}
