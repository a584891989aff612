/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Watchpoints inside a process: a handler in C that is called when memory is accessed.
 *
 *	static void on_write(struct watchpoint *w, struct pt_regs *regs, void *addr)
 *	{
 *		writes++;			regs->ip is behind the instruction that wrote
 *	}
 *	static struct watchpoint wp = {.addr = &counter, .len = sizeof(counter), .type = WATCH_WRITE,
 *				       .handler = on_write};
 *
 *	int err = register_watchpoint(&wp);	0, or a negative errno; dp_kprobe_error() tells more
 *	...
 *	unregister_watchpoint(&wp);
 *
 * Link with -ldprobes. Each watchpoint takes one of the processor's four debug registers in every
 * thread, those that are born later as well; children of fork are not watched.
 *
 * Threads: both functions may be called from any thread, but not from a handler. Handlers run on the
 * thread that made the access, in a signal handler (SIGTRAP), on several threads at the same time.
 * They may call anything that the interrupted code is not in the middle of, and must return. An access that is made
 * while a handler of any probe runs on the same thread, or while SIGTRAP is blocked, calls nothing and counts nmissed.
 * When one instruction hits two watchpoints, only one of them is told.
 */
#ifndef DPROBES_WATCH_H
#define DPROBES_WATCH_H

#include <dprobes/kprobes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct watchpoint;

/*
 * addr: what is watched. regs may be changed. For WATCH_EXECUTE regs->ip is the instruction, which has not run yet;
 * else it is the one behind the instruction that made the access, which is complete.
 */
typedef void (*watch_handler_t)(struct watchpoint *w, struct pt_regs *regs, void *addr);

/* The numbers are those of the processor. */
#define WATCH_EXECUTE 0 /* len 1 */
#define WATCH_WRITE 1
#define WATCH_IO 2 /* I/O ports: -EOPNOTSUPP, Linux offers nothing of the kind */
#define WATCH_RW 3 /* reads and writes; the processor cannot watch reads alone */

/* Zero what is not used. The structure must stay where it is until it is unregistered. */
struct watchpoint {
	void *addr;
	unsigned int len; /* 1, 2, 4 or 8; addr is a multiple of it */
	int type;         /* WATCH_* */
	watch_handler_t handler;
	unsigned long nmissed; /* accesses that called no handler, as far as they were seen */
	void *dp_private;
};

/*
 * Errors: -EINVAL (length, alignment, type, no handler; already registered), -EOPNOTSUPP (WATCH_IO; a kernel or machine
 * without), -ENODEV (the debug registers of this machine can be set but never fire: one was tried),
 * -EBUSY (no debug register is free), -EACCES (kernel.perf_event_paranoid, a container's filter), -EMFILE, -ENOMEM.
 * Accesses of threads that run meanwhile may be seen or not.
 */
int register_watchpoint(struct watchpoint *w);
/* When it returns no handler of the watchpoint runs any more. */
void unregister_watchpoint(struct watchpoint *w);

#ifdef __cplusplus
}
#endif

#endif
