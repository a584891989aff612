/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Kprobes inside a process: handlers in C at almost any instruction of the program and its
 * libraries.
 *
 *	static int pre(struct kprobe *p, struct pt_regs *regs)
 *	{
 *		printf("open of %s\n", (char *)regs->si);
 *		return 0;
 *	}
 *	static struct kprobe kp = {.symbol_name = "libc:openat", .pre_handler = pre};
 *
 *	int err = register_kprobe(&kp);		0, or a negative errno
 *	...
 *	unregister_kprobe(&kp);
 *
 * Link with -ldprobes. Names and meanings are those of the kernel's Kprobes; doc/kprobes.md tells
 * what is different in a process.
 *
 * Threads: every function here may be called from any thread, but not from a handler. Handlers run
 * on the thread that hit the probe, on its own stack (about 4 KiB of it, and what the handler
 * needs), on several threads at the same time. They may call anything that the interrupted code is
 * not in the middle of: a handler of a probe inside malloc must not call malloc. A probe that is hit
 * while a handler runs, on the same thread, runs no handlers and counts nmissed. A handler must
 * return: no longjmp, no exception, no pthread_exit.
 */
#ifndef DPROBES_KPROBES_H
#define DPROBES_KPROBES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The registers at a hit. Handlers may change them. ip is the address of the probed instruction
 * (post handlers: of the one that comes next; return handlers: where the function returns to); sp
 * is the stack pointer as the instruction sees it. <asm/ptrace.h> has a structure of this name too,
 * with the same layout; include it after this header only with DPROBES_NO_PT_REGS defined before
 * both, and use the accessors below.
 */
#if !defined(DPROBES_NO_PT_REGS) && !defined(_ASM_X86_PTRACE_H)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax; /* always -1 */
	unsigned long ip, cs, flags, sp, ss;
};

static inline unsigned long regs_return_value(const struct pt_regs *regs)
{
	return regs->ax;
}

static inline unsigned long instruction_pointer(const struct pt_regs *regs)
{
	return regs->ip;
}

static inline void instruction_pointer_set(struct pt_regs *regs, unsigned long ip)
{
	regs->ip = ip;
}

static inline unsigned long kernel_stack_pointer(const struct pt_regs *regs)
{
	return regs->sp;
}

static inline unsigned long user_stack_pointer(const struct pt_regs *regs)
{
	return regs->sp;
}

static inline unsigned long frame_pointer(const struct pt_regs *regs)
{
	return regs->bp;
}

static inline void regs_set_return_value(struct pt_regs *regs, unsigned long value)
{
	regs->ax = value;
}

/* The n-th word on the stack, n from 0 (at a function's entry: the return address). */
static inline unsigned long regs_get_kernel_stack_nth(const struct pt_regs *regs, unsigned int n)
{
	return ((const unsigned long *)regs->sp)[n];
}

/* The n-th integer or pointer argument, n from 0; only at a function's entry. */
static inline unsigned long regs_get_kernel_argument(const struct pt_regs *regs, unsigned int n)
{
	const unsigned long v[] = {regs->di, regs->si, regs->dx, regs->cx, regs->r8, regs->r9};

	return n < 6 ? v[n] : regs_get_kernel_stack_nth(regs, n - 5);
}
#else
struct pt_regs;
#endif

struct kprobe;
struct kretprobe;
struct kretprobe_instance;

typedef unsigned char kprobe_opcode_t;

/* Return 0; or non-zero when the handler has set regs->ip (and whatever else) to where execution
 * shall go on. */
typedef int (*kprobe_pre_handler_t)(struct kprobe *p, struct pt_regs *regs);
/* Called after the probed instruction; flags is 0. */
typedef void (*kprobe_post_handler_t)(struct kprobe *p, struct pt_regs *regs, unsigned long flags);
/*
 * A fault in the probed instruction (regs: at the original instruction) or in a handler of this
 * probe (regs: where it happened, changes count). trapnr: 0 divide error, 6 invalid opcode, 13
 * general protection, 14 page fault, ... Return 1 when it was handled: execution goes on at
 * regs->ip; 0: it is the program's business. Runs in a signal handler: only async-signal-safe
 * functions may be called.
 */
typedef int (*kprobe_fault_handler_t)(struct kprobe *p, struct pt_regs *regs, int trapnr);

#define KPROBE_FLAG_GONE 1      /* read only: its module was unloaded */
#define KPROBE_FLAG_DISABLED 2  /* register it disabled; enable_kprobe() clears the flag */
#define KPROBE_FLAG_OPTIMIZED 4 /* read only: a jump stands for the breakpoint */
#define KPROBE_FLAG_PENDING 16  /* read only: its module is not loaded yet */
/*
 * A promise: the handlers touch general registers only (compiled with -mgeneral-regs-only, and
 * calling nothing that is not). Saves the time for saving vector registers. Needed only where the
 * library cannot find it out by itself: for handlers that call through pointers or into other
 * libraries.
 */
#define KPROBE_FLAG_GENERAL_REGS 256

/*
 * How a return probe learns of returns, in kretprobe.kp.flags. Without either the stub calls the
 * function (see struct kretprobe). EXITS: every return instruction and tail call of the function is
 * a probe of its own, and nothing on the stack is touched: for coroutines that move stacks about,
 * and for functions that look at their return address; -EOPNOTSUPP when not every exit is known;
 * where a function ends by a tail call the handler runs before that, and there is no value yet.
 * CLASSIC: the return address leads to the stub, but the function is not called through it.
 */
#define KPROBE_FLAG_RET_EXITS 512
#define KPROBE_FLAG_RET_CLASSIC 1024

/* Zero what is not used. The structure must stay where it is until it is unregistered. */
struct kprobe {
	kprobe_opcode_t *addr;   /* the instruction; or */
	const char *symbol_name; /* "function", or "module:function" ("libc:malloc", "exe:main") */
	unsigned int offset;     /* added to either */
	unsigned int flags;      /* KPROBE_FLAG_* */
	kprobe_pre_handler_t pre_handler;
	kprobe_post_handler_t post_handler;
	kprobe_fault_handler_t fault_handler;
	unsigned long nmissed; /* hits that ran no handlers */
	void *dp_private;
};

/*
 * Put a probe in place. Errors: -EINVAL (both symbol_name and addr, or neither; code of the library
 * itself or marked with NOKPROBE_SYMBOL; already registered), -ENOENT (no such symbol), -EILSEQ
 * (not the start of an instruction), -EFAULT (no code there), -EEXIST (somebody else's breakpoint),
 * -EOPNOTSUPP, -EBUSY (a thread blocks SIGTRAP; the bytes cannot be probed safely), -ENOMEM.
 * dp_kprobe_error() tells the reason in words. A symbol in a named module that is not loaded yet is
 * no error: the probe waits for it (KPROBE_FLAG_PENDING).
 */
int register_kprobe(struct kprobe *p);
/* Remove it. When it returns no handler of the probe runs any more. It may be registered again as it
 * is. A probe that is not registered gets addr = NULL. */
void unregister_kprobe(struct kprobe *p);
/* All of them or none: an error unregisters what had been registered. */
int register_kprobes(struct kprobe **kps, int num);
void unregister_kprobes(struct kprobe **kps, int num);
/* -EINVAL when it is not registered or its module is gone. An error changes nothing. */
int disable_kprobe(struct kprobe *p);
int enable_kprobe(struct kprobe *p);

/* ---- return probes ---- */

struct task_struct {   /* the thread */
	int pid;       /* its number */
	int tgid;      /* the process */
	void *mm;      /* never NULL: every thread has memory of its own */
	char comm[16]; /* its name when it hit a probe for the first time */
};

/* The calling thread. */
struct task_struct *dp_current(void);

/* One call that has not returned yet. */
struct kretprobe_instance {
	struct kretprobe *rp;
	kprobe_opcode_t *ret_addr; /* where the function returns to */
	struct task_struct *task;
	char *data; /* data_size bytes of your own; what the last call that used this instance left
		       there */
};

/* regs: at the function's return; regs_return_value(regs) is its value and may be changed. The
 * result is ignored. */
typedef int (*kretprobe_handler_t)(struct kretprobe_instance *ri, struct pt_regs *regs);

/*
 * Calls handler when the function returns. entry_handler, if any, is called at its entry; when it
 * returns non-zero this call's return is not probed. kp.symbol_name or kp.addr (with kp.flags)
 * names the function; the handlers of kp are not used, except for kp.fault_handler.
 *
 * maxactive: how many calls may be under way at the same time (recursion, threads); 0 or less:
 * twice the number of processors, at least 10; at most 4096. When all are in use the call is not
 * probed and nmissed is counted. Calls that never return (exceptions, longjmp, pthread_exit) give
 * their instance back when it is needed. data_size is at most 1 MiB.
 *
 * The function is called on its behalf, so that it returns to the library first. Unwinders see
 * through that: exceptions, backtrace(), cancellation and debuggers work; backtrace() shows one
 * more frame.
 */
struct kretprobe {
	struct kprobe kp;
	kretprobe_handler_t handler;
	kretprobe_handler_t entry_handler;
	int maxactive;
	int nmissed;
	size_t data_size;
	void *dp_private;
};

/* As for kprobes; -EINVAL also when the address is not the start of a function. */
int register_kretprobe(struct kretprobe *rp);
int register_kretprobes(struct kretprobe **rps, int num);
void unregister_kretprobe(struct kretprobe *rp);
void unregister_kretprobes(struct kretprobe **rps, int num);
int disable_kretprobe(struct kretprobe *rp);
int enable_kretprobe(struct kretprobe *rp);

static inline struct kretprobe *get_kretprobe(struct kretprobe_instance *ri)
{
	return ri->rp;
}

/* ---- jprobes ---- */

/*
 * entry has the prototype of the probed function and is called at its entry with the same
 * arguments; it ends with jprobe_return() (or returns: that is the same). What it does to its
 * arguments does not reach the function. All register arguments arrive, floating point and vector
 * ones too, and 256 bytes of stack arguments; of longer argument lists the rest is not seen by
 * entry (the function itself is unaffected). One jprobe per function: -EEXIST.
 */
struct jprobe {
	struct kprobe kp;
	void *entry;
};

int register_jprobe(struct jprobe *jp);
int register_jprobes(struct jprobe **jps, int num);
void unregister_jprobe(struct jprobe *jp);
void unregister_jprobes(struct jprobe **jps, int num);
int disable_jprobe(struct jprobe *jp);
int enable_jprobe(struct jprobe *jp);
void jprobe_return(void);

#define JPROBE_ENTRY(handler) ((void *)(handler))

/* ---- all probes of the process ---- */

/* The reason of this thread's last failure of a function of this header, as one line; "" when there
 * was none. */
const char *dp_kprobe_error(void);

/* Mark a function as not to be probed: registration fails with -EINVAL. At file scope. */
#define NOKPROBE_SYMBOL(function)                                                    \
	static void __attribute__((constructor, used)) _dp_nokprobe_##function(void) \
	{                                                                            \
		dp_kprobe_blacklist((const void *)(function));                       \
	}                                                                            \
	struct _dp_nokprobe_end
/* The same at run time, for the function that contains addr. */
void dp_kprobe_blacklist(const void *addr);

/*
 * Jump optimisation on (1, the default) or off (0), for all probes at once; returns the old
 * setting. Any other value only asks.
 */
int dp_kprobes_optimization(int on);

/* Arm (1) or disarm (0) all probes; each keeps its own state. Returns the old setting; any other
 * value only asks. */
int dp_kprobes_enabled(int on);

/*
 * The address of a symbol, written as in kprobe.symbol_name; 0 when there is none (dp_kprobe_error() tells why).
 */
unsigned long dp_symbol_address(const char *name);

/*
 * The list of all registered probes in the form of debugfs' kprobes/list:
 *	000055d0c3a1e139  k  exe:work+0x0    [OPTIMIZED]
 * Writes at most size bytes, terminated; returns the length of the whole list.
 */
int dp_kprobes_list(char *buf, size_t size);

#ifdef __cplusplus
}
#endif

#endif
