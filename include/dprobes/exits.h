/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Exit facilities: functions in C that probe programs call by name. A kernel module registers them for programs in the
 * kernel (dprobes.ko), a program or a shared library for programs in its process (link with -ldprobes; `dprobes load`
 * brings a library into a running process).
 *
 *	static int lookup(struct dp_exit *e, struct pt_regs *regs, const dp_exit_word *args, dp_exit_word *results)
 *	{
 *		results[0] = weight_of(args[0]);
 *		return 0;
 *	}
 *	static struct dp_exit weight = {.name = "weight", .nargs = 1, .nresults = 1, .handler = lookup};
 *
 *	int err = dp_register_exit(&weight);
 *	...
 *	dp_unregister_exit(&weight);
 *
 * A probe program calls it with `call_exit 1, 1, "weight"`, a handler in C with call_exit("weight", value). A program
 * that passes or expects another number of words is refused when it is inserted (E-EXIT-SIGNATURE), and so is one whose
 * facility is not registered then (E-EXIT-NONE).
 */
#ifndef DPROBES_EXITS_H
#define DPROBES_EXITS_H

#ifdef __KERNEL__
#include <linux/ptrace.h>
#include <linux/types.h>
#else
#include <dprobes/kprobes.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct dp_exit;
typedef unsigned long dp_exit_word; /* 64 bits: a word of a program */

/*
 * args: nargs words, the one that was pushed first is args[0]. results: nresults words, zeros; results[0] is pushed
 * first. regs: those of the hit, to be read only. Returns 0, or an errno, negative or positive: then nothing is pushed,
 * and the program gets the exception INVALID_OPERAND(4, errno).
 *
 * It runs inside a hit, on any thread and on several at the same time, and must return. In the kernel preemption is
 * off, interrupts may be: no lock that the probed code may hold, nothing that sleeps, no access to memory that may
 * fault. In a process it runs on the hit's own stack (at least 64 KiB), like a signal handler that interrupts the
 * probed instruction: nothing that this code may be in the middle of (malloc, stdio). Vector registers and errno are
 * saved. Probes that are hit meanwhile are missed.
 */
typedef int (*dp_exit_handler_t)(struct dp_exit *e, struct pt_regs *regs, const dp_exit_word *args,
				 dp_exit_word *results);

#define DP_EXIT_WORDS 8 /* most words that are passed, or returned */
#define DP_EXIT_NAME 32 /* bytes of a name, with its end */

/* Zero what is not used. It must stay where it is, unchanged, until it is unregistered. */
struct dp_exit {
	const char *name;      /* 1 to 31 characters */
	unsigned int nargs;    /* words that it takes, 0 to 8 */
	unsigned int nresults; /* words that it gives, 0 to 8 */
	dp_exit_handler_t handler;
	void *dp_private;
};

/*
 * May sleep; not from a handler. Errors: -EINVAL (name, numbers, no handler; it is registered already), -EEXIST (the
 * name is taken), -ENOSPC (32 are registered), -EDEADLK (called from an exit facility of a process).
 */
#ifdef __KERNEL__
int dp_register_exit(struct dp_exit *e);
#else
int dp_register_exit_for(struct dp_exit *e, const void *owner);
void dp_unregister_exits_for(const void *owner);
extern void *__dso_handle __attribute__((__visibility__("hidden")));

static inline int dp_register_exit(struct dp_exit *e)
{
	return dp_register_exit_for(e, &__dso_handle);
}

/* What a shared object leaves registered goes with it. */
static void __attribute__((__destructor__, __used__)) dp_exits_go(void)
{
	dp_unregister_exits_for(&__dso_handle);
}
#endif

/*
 * When it returns the handler does not run any more, and programs that call it get the exception INVALID_OPERAND(4,
 * ENOENT). Nothing happens where it is not registered. Facilities of a module or a shared object that is
 * unloaded are unregistered for it.
 */
void dp_unregister_exit(struct dp_exit *e);

#ifdef __cplusplus
}
#endif

#endif
