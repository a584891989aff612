/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Dynamic Probes for kernel modules: handlers in C at almost any instruction of a running kernel.
 * The interface is that of Kprobes with a dp_ prefix; the implementation is dprobes.ko's own.
 *
 *	static int pre(struct dp_kprobe *p, struct pt_regs *regs)
 *	{
 *		count++;
 *		return 0;
 *	}
 *	static struct dp_kprobe kp = {.symbol_name = "vfs_read", .pre_handler = pre};
 *
 *	int err = dp_register_kprobe(&kp);	0, or a negative errno; kp.refusal tells the reason
 *	...
 *	dp_unregister_kprobe(&kp);
 *
 * Functions of this header may sleep; they may not be called from handlers. They are exported to
 * GPL modules.
 *
 * Handlers run with preemption off, in the context of the probed code or, behind a breakpoint, with
 * interrupts off; they must not sleep and must take no lock that code which cannot be interrupted
 * may hold. A probe that is hit while a handler runs on the same processor runs no handlers and
 * counts nmissed. A handler may itself be probed.
 */
#ifndef DPROBES_KERNEL_H
#define DPROBES_KERNEL_H

#include <linux/ptrace.h>
#include <linux/types.h>

struct dp_kprobe;
struct dp_kretprobe;
struct dp_kretprobe_instance;

/* Return 0; or non-zero when the handler has set regs (ip, sp and all others) to where execution
 * shall go on: the probed instruction is then not executed. */
typedef int (*dp_pre_handler_t)(struct dp_kprobe *p, struct pt_regs *regs);
/* Called after the probed instruction, with regs->ip at the next; flags is 0. */
typedef void (*dp_post_handler_t)(struct dp_kprobe *p, struct pt_regs *regs, unsigned long flags);
/*
 * The probed instruction has raised exception trapnr (regs: at the original instruction). Return 1
 * when execution shall go on at regs->ip. Not called for page faults: the kernel offers those to
 * nobody. Faults in handlers are the kernel's own business, too.
 */
typedef int (*dp_fault_handler_t)(struct dp_kprobe *p, struct pt_regs *regs, int trapnr);

#define DP_KPROBE_FLAG_GONE 1      /* read only: its module was unloaded, or all probes were removed */
#define DP_KPROBE_FLAG_DISABLED 2  /* register it disabled; dp_enable_kprobe() clears the flag */
#define DP_KPROBE_FLAG_OPTIMIZED 4 /* read only: a jump stands for the breakpoint */
#define DP_KPROBE_FLAG_FTRACE 8    /* read only: it is hit through the kernel's function tracer */
#define DP_KPROBE_FLAG_PENDING 16  /* read only: its module is not loaded */
#define DP_KPROBE_FLAG_AGAIN 32    /* a symbol of a named module: armed again whenever it is loaded */
#define DP_KPROBE_FLAG_STAYS 64    /* the pre handler never changes regs->ip */

/* Zero what is not used. The structure must stay where it is until it is unregistered. */
struct dp_kprobe {
	void *addr;              /* the instruction; or */
	const char *symbol_name; /* "function", or "module:function" */
	unsigned int offset;     /* added to either */
	unsigned int flags;      /* DP_KPROBE_FLAG_* */
	dp_pre_handler_t pre_handler;
	dp_post_handler_t post_handler;
	dp_fault_handler_t fault_handler;
	unsigned long nmissed; /* hits that ran no handlers */
	const char *refusal;   /* after an error: its code, as `dprobes explain` knows it; else NULL */
	void *dp_private;
};

/*
 * Put a probe in place. The start of a traceable function means the instruction behind the bytes of
 * the function tracer: addr is set to where the probe really is. A breakpoint comes at once, the
 * jump that replaces it where possible within a second. Where no probe can stand there (the function
 * loops to there, for one) the function tracer itself is used, and addr is the function's start; such
 * handlers run with preemption off, may set regs->ip, but not regs->sp. Only one may set ip at a function's entry: a
 * pre handler without DP_KPROBE_FLAG_STAYS is refused there (-EBUSY, E-SITE-IPMODIFY) where the function is live
 * patched, and live patching is refused where there is such a handler.
 *
 * Errors: -EINVAL (both symbol_name and addr, or neither; already registered; code that may not be
 * probed), -ENOENT (no such symbol), -EILSEQ (not the start of an instruction), -EEXIST (somebody
 * else's breakpoint), -EBUSY (bytes that the kernel changes itself), -EOPNOTSUPP, -ENOMEM. A symbol
 * of a named module that is not loaded is no error: the probe waits for it. When the module goes, the
 * probe is gone with it, or waits again with DP_KPROBE_FLAG_AGAIN.
 */
int dp_register_kprobe(struct dp_kprobe *p);
/*
 * When it returns no handler of the probe runs any more. It may be registered again as it is. A probe that is not
 * registered gets addr = NULL.
 */
void dp_unregister_kprobe(struct dp_kprobe *p);
/* All of them or none. Batches of any size take little longer than one. */
int dp_register_kprobes(struct dp_kprobe **kps, int num);
void dp_unregister_kprobes(struct dp_kprobe **kps, int num);
/* -EINVAL when it is not registered or its module is gone. An error changes nothing. */
int dp_disable_kprobe(struct dp_kprobe *p);
int dp_enable_kprobe(struct dp_kprobe *p);

/* Returns when every breakpoint that may become a jump has become one. */
void dp_wait_for_kprobe_optimizer(void);

/* The address of a function or variable of the kernel or of a module, "name" or "module:name"; 0 when there is none. */
unsigned long dp_symbol_address(const char *name);

/* ---- return probes ---- */

struct dp_kretprobe_instance { /* one call that has not returned yet */
	struct dp_kretprobe *rp;
	void *ret_addr; /* where the function returns to */
	struct task_struct *task;
	char *data; /* data_size bytes of your own, with what an earlier call left there */
};

typedef int (*dp_kretprobe_handler_t)(struct dp_kretprobe_instance *ri, struct pt_regs *regs);

/*
 * Calls handler when the function returns; its result is ignored. entry_handler, if any, is called
 * at the entry: when it returns non-zero, this call's return is not probed. maxactive: calls that
 * may be under way at the same time; 0 or less means twice the number of processors, at least 10;
 * at most 4096. When all are in use the call is not probed and nmissed is counted. data_size is at most
 * 1 MiB. kp.symbol_name or kp.addr names the function; the handlers of kp are not used.
 *
 * The return address on the stack is replaced meanwhile; the kernel's unwinder finds the real callers.
 */
struct dp_kretprobe {
	struct dp_kprobe kp;
	dp_kretprobe_handler_t handler;
	dp_kretprobe_handler_t entry_handler;
	int maxactive;
	int nmissed;
	size_t data_size;
	void *dp_private;
};

int dp_register_kretprobe(struct dp_kretprobe *rp); /* -EINVAL also for what is not the start of a function */
int dp_register_kretprobes(struct dp_kretprobe **rps, int num);
void dp_unregister_kretprobe(struct dp_kretprobe *rp);
void dp_unregister_kretprobes(struct dp_kretprobe **rps, int num);
int dp_disable_kretprobe(struct dp_kretprobe *rp);
int dp_enable_kretprobe(struct dp_kretprobe *rp);

/* ---- jprobes ---- */

/*
 * entry has the prototype of the probed function and is called at its entry with the same arguments
 * (those in registers, and 64 bytes of those on the stack); it ends with dp_jprobe_return(), or
 * returns. What it does to its arguments does not reach the function. One jprobe per function:
 * -EEXIST.
 */
struct dp_jprobe {
	struct dp_kprobe kp;
	void *entry;
};

int dp_register_jprobe(struct dp_jprobe *jp);
int dp_register_jprobes(struct dp_jprobe **jps, int num);
void dp_unregister_jprobe(struct dp_jprobe *jp);
void dp_unregister_jprobes(struct dp_jprobe **jps, int num);
int dp_disable_jprobe(struct dp_jprobe *jp);
int dp_enable_jprobe(struct dp_jprobe *jp);
void dp_jprobe_return(void);

/* ---- watchpoints ---- */

struct dp_kwatch;

/*
 * regs may be changed. For DP_KWATCH_EXECUTE regs->ip is the instruction, which has not run yet; else the one behind
 * the instruction that made the access. Runs in the debug exception, interrupts off: no lock, nothing that sleeps.
 */
typedef void (*dp_kwatch_handler_t)(struct dp_kwatch *w, struct pt_regs *regs, void *addr);

/* The numbers are those of the processor. */
#define DP_KWATCH_EXECUTE 0 /* len 1 */
#define DP_KWATCH_WRITE 1
#define DP_KWATCH_IO 2 /* I/O ports: -EOPNOTSUPP, the kernel keeps the processor's debug extension off */
#define DP_KWATCH_RW 3 /* reads and writes; the processor cannot watch reads alone */

#define DP_KWATCH_FLAG_DR \
	1 /* dr is a register that dp_dr_alloc() has set aside: registering cannot fail for want of one */
#define DP_KWATCH_FLAG_GONE 2 /* read only: its module was unloaded, or all probes were removed */

/* Memory of the kernel, watched on all processors. Zero what is not used; it must stay until it is unregistered. */
struct dp_kwatch {
	void *addr;              /* what is watched; or */
	const char *symbol_name; /* a variable or function of the kernel, "variable" or "module:variable" */
	unsigned int offset;     /* added to either */
	unsigned int len;        /* 1, 2, 4 or 8; the address is a multiple of it */
	int type;                /* DP_KWATCH_* */
	unsigned int flags;      /* DP_KWATCH_FLAG_* */
	int dr; /* the arbiter's number of its register, 0 to 3: given with DP_KWATCH_FLAG_DR, else told */
	dp_kwatch_handler_t handler;
	unsigned long nmissed; /* accesses inside a hit of a probe, which ran no handler */
	const char *refusal;   /* after an error: its code, as `dprobes explain` knows it; else NULL */
	void *dp_private;
};

/*
 * Errors: -EINVAL (length, alignment, type, both symbol_name and addr or neither, an address of user memory, already
 * registered; DP_KWATCH_FLAG_DR with a register that was not set aside, or watches something already), -ENOENT (no such
 * symbol), -EBUSY (no debug register is free on some processor), -EOPNOTSUPP. When the watched memory is a module's,
 * and goes with that, nothing is watched any more.
 */
int dp_register_kwatch(struct dp_kwatch *w);
/* When it returns no handler of the watchpoint runs any more. */
void dp_unregister_kwatch(struct dp_kwatch *w);

/* ---- debug registers ---- */

#define DP_DR_ANY (-1)
#define DP_DR_GLOBAL 0 /* for one owner, on all processors */
#define DP_DR_LOCAL 1  /* for tasks, that is their debuggers; any number of users share one */

/*
 * The arbiter of debug registers: number (0 to 3, or DP_DR_ANY) is set aside until dp_dr_free(). Returns the number.
 *
 * DP_DR_GLOBAL: from now on nobody else gets this register on any processor, neither other modules nor debuggers nor
 * perf. Watch something with it by DP_KWATCH_FLAG_DR, one thing after the other; between them nothing is watched and
 * the register stays yours. DP_DR_ANY takes the highest number that is unused.
 *
 * DP_DR_LOCAL: dprobes leaves one register to tasks: watchpoints of the kernel (and DP_DR_GLOBAL) do not take it. The
 * kernel gives it to whatever debugger or perf event of a task asks first. DP_DR_ANY takes one that is shared already,
 * else the lowest that is unused.
 *
 * The numbers are the arbiter's. The kernel may keep one in another register of the processor, so do not write to debug
 * registers yourself: the kernel would overwrite what you write.
 *
 * Errors: -EINVAL (number or kind out of range), -EBUSY (in use, in the other kind, or the kernel has given the
 * processor's registers to others), -EOPNOTSUPP, -ENOMEM.
 */
int dp_dr_alloc(int number, int kind);
/*
 * Gives it back; a shared one becomes unused with its last user. -EINVAL: it was not set aside; -EBUSY: it watches
 * something.
 */
int dp_dr_free(int number);

#endif
