/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the files of the kernel host share. Two halves, as everywhere: the hit path (hit.c, k-entry.S,
 * the HIT functions of returns.c) takes no lock, allocates nothing and calls nothing of the kernel
 * that could be probed before a breakpoint is handled; the rest is the control side, under one mutex.
 */
#ifndef DP_KERNEL_PRIV_H
#define DP_KERNEL_PRIV_H

#include <linux/ftrace.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/memory.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/ptrace.h>
#include <linux/security.h>
#include <linux/stacktrace.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "dprobes/kernel.h"
#include "engine/kprobes.h"
#include "compat.h"

/* Code that runs on behalf of a hit. The kernel's own kprobes stay out of this section, too. */
#define HIT noinline notrace HIT_PLAIN __section(".kprobes.text")
/* No function of the hit path has arrays on the stack that a canary could guard. */
#if __has_attribute(__no_stack_protector__)
#define HIT_PLAIN __attribute__((__no_stack_protector__))
#else
#define HIT_PLAIN
#endif

/* ---- the hit path ---- */

struct dp_cpu {       /* of each processor; only touched by it, with preemption off */
	u32 depth;    /* >0: inside a hit. First: k-entry.S knows it */
	void *jprobe; /* stack pointer to return to: a jprobe's handler is running */
};
DECLARE_PER_CPU(struct dp_cpu, dp_cpu);

/* k-entry.S */
void dp_k_entry(void);
void dp_k_entry_tagged(void);
extern struct dp_kprobe dp_k_whole_list; /* stands for the whole list of a point, with its pre handler */
void dp_k_landed(void);
void dp_k_call_jprobe(struct pt_regs *regs, void *entry, void **sp);
void dp_k_leave_jprobe(void *sp); /* does not return */

/* Called by k-entry.S. 0: go on in the slot; 1: go on at regs->ip with all registers. */
int dp_k_hit(struct pt_regs *regs, unsigned long tagged, unsigned long back);
void dp_k_resched(void);
/* For a call whose return is probed (returns.c): not called back; free, where this processor has a spare already. */
void dp_k_return_missed(struct dp_instance *i);
void dp_k_give_to_list(struct dp_instance *i);

/* Begin and end of handlers on this processor. False: inside a hit already. */
static __always_inline bool dp_k_enter(void)
{
	preempt_disable_notrace();
	/* An interrupt in between leaves the depth as it found it. */
	if (likely(!__this_cpu_read(dp_cpu.depth))) {
		__this_cpu_write(dp_cpu.depth, 1);
		return true;
	}
	preempt_enable_notrace();
	return false;
}

static __always_inline void dp_k_leave(void)
{
	__this_cpu_write(dp_cpu.depth, 0);
	preempt_enable_notrace();
}

int dp_k_die_init(void);
void dp_k_die_exit(void);

/* ---- the control side ---- */

extern struct mutex dp_k_lock; /* protects everything below */
extern struct dp_manager dp_k_manager;

/* near.c: memory in reach of all code; its pages come when they are wanted */
#define DP_K_NEAR_DATA (1024 * 1024)
extern struct dp_near {
	u64 slots, landings, programs, data, end; /* each ends where the next begins */
} dp_k_near;
int dp_k_near_init(void);
void dp_k_near_exit(void);
int dp_k_near_want(u64 lo, u64 hi); /* pages are there afterwards, full of breakpoints or, data, of zeros. -ENOMEM */

/* code.c */
void dp_k_code_init(struct dp_mgr_host *host);
void dp_k_code_exit(void);
void dp_k_grace(void *arg);
void dp_k_settle(void *arg);
int dp_k_fill(u64 addr, const void *bytes, u32 n); /* code that nobody executes yet */

/*
 * k-symbols.c: what the kernel does not offer to modules. What is declared in its headers has their type, so that who
 * calls it with other arguments does not compile. NULL: this kernel has it not, which only the first ones may not be.
 */
struct dp_symbols {
	typeof(kallsyms_lookup_size_offset) *size_offset;
	typeof(core_kernel_text) *core_text;
	typeof(__module_text_address) *module_text;
	typeof(find_module) *find_module;
	typeof(__get_vm_area_caller) *vm_area;
	typeof(init_mm) *init_mm;
	unsigned long stext, etext;
	typeof(within_kprobe_blacklist) *kprobe_blacklist;
	typeof(arch_within_kprobe_blacklist) *kprobe_never; /* by where it is */
	typeof(lookup_symbol_name) *symbol_name;
	typeof(ftrace_location) *ftrace_location;
	typeof(alternatives_text_reserved) *alternatives_reserved;
	typeof(text_mutex) *text_mutex;
	typeof(get_kprobe) *get_kprobe;
	typeof(security_locked_down) *locked_down;
	typeof(kallsyms_on_each_symbol) *each_symbol;
	typeof(copy_to_kernel_nofault) *copy_to_kernel;
	typeof(stack_trace_save_regs) *save_trace;
	typeof(bpf_ksym_add) *ksym_add; /* this and the next: NULL where the kernel has no compiler of BPF */
	typeof(bpf_ksym_del) *ksym_del;
	/* In no header for modules: */
	unsigned long (*recover)(u8 *buf, unsigned long addr); /* an instruction under a kprobe */
	struct mutex *klp_mutex;                               /* of the next */
	struct list_head *klp_patches;                         /* live patches; NULL: this kernel has none */
	struct mutex *kprobe_mutex;                            /* with it no kprobe comes, goes or becomes a jump */
	struct list_head *kprobe_list;                         /* what is never probed, under that mutex */
	int (*kgdb_enter)(int vector, int signo, int code,
			  struct pt_regs *regs); /* this and the next: NULL without kgdb */
	int *kgdb_connected, *kdb_mode;          /* gdb has connected; kdb would ask, where the kernel has it */
	unsigned long kdb;                       /* not 0: it has */
	void **kgdb_line;                        /* what the debugger talks through, or NULL */
};
extern struct dp_symbols dp_k_sym;

int dp_k_symbols_init(unsigned long lookup);
unsigned long dp_k_lookup(const char *name); /* 0: none */
/* "function" or "module:function"; E_KERNEL_SYMBOL, or 1 when the named module is not loaded, or going. */
int dp_k_resolve(const char *name, u64 *addr, struct dp_error *err);
bool dp_k_ambiguous(const char *name);   /* several symbols of the kernel have it */
struct module *dp_k_module_of(u64 addr); /* NULL: none */
void dp_k_text_lock(void);
void dp_k_text_unlock(void);
bool dp_k_is_alternative(u64 addr, u32 len);
/* A kprobe of the kernel is registered in [addr, addr + n), or one before has a jump over addr, or may get one. */
bool dp_k_kprobe_covers(u64 addr, u32 n);
bool dp_k_is_patched(u64 function, bool unsure); /* live patched; unsure: what to say when that cannot be known */
u32 dp_k_landing_pad(u64 addr);                  /* the length of the one at addr, or 0 */
u64 dp_k_tracers_bytes(u64 function); /* those of the function tracer in the function that begins there, or 0 */

/* reserve.c: while it is reserved, Kprobes refuses the instruction of the point. */
void dp_k_reserve(struct dp_kpoint *p);
void dp_k_unreserve(struct dp_kpoint *p);
void dp_k_reserve_init(void);
void dp_k_reserve_exit(void);

/* blacklist.c */
enum dp_mark_kind { MARK_EXTABLE, MARK_JUMPLABEL, MARK_STATICCALL };
struct dp_mark {          /* an instruction that the kernel knows by its address */
	u64 addr, target; /* target: where control may arrive because of it, or 0 */
	u32 kind;
};
struct dp_marks {
	struct dp_mark *v; /* sorted by addr */
	u32 n;
	u64 *targets; /* all targets and what other functions jump to, sorted */
	u32 ntargets;
};
int dp_k_blacklist_init(void);
void dp_k_blacklist_exit(void);
int dp_k_allowed(u64 addr, struct dp_error *err); /* by where it is: E_SITE_*, E_KPROBE_BLACKLIST */
int dp_k_marked(const struct dp_marks *m, u64 addr, u32 len, struct dp_error *err);
int dp_k_marks_of(struct module *mod, struct dp_marks *m); /* NULL: the kernel itself */
void dp_k_marks_free(struct dp_marks *m);
void dp_k_blacklist_show(struct seq_file *s);
int dp_k_forbid(u64 addr); /* the function at addr */

/* nokprobe.c; its begin and end are those of blacklist.c */
int dp_k_nokprobe_init(void);
void dp_k_nokprobe_exit(void);
bool dp_k_is_nokprobe(u64 lo, u64 hi); /* a function, or a part of one, that Kprobes never probes */

/* text.c */
int dp_k_text_init(void);
void dp_k_text_exit(void);
int dp_k_locate(void *arg, u64 addr, struct dp_locus *l, struct dp_error *err);
/* What stands in [addr, addr + len) that no jump may cover: its code, or DP_OK. */
enum dp_code dp_k_guard_at(u64 addr, u32 len);
void dp_k_text_gone(u64 lo, u64 hi, struct module *mod); /* what is known of these addresses is void */
int dp_k_text_cross(void); /* find jumps between functions: before the first jump of ours. Takes the lock */
bool dp_k_text_is_target(const struct dp_text *t, u64 addr);

/* kprobes.c */
extern struct dp_kprobes dp_k_kprobes;
int dp_k_kprobes_init(void);
void dp_k_kprobes_quiet(void);
void dp_k_kprobes_exit(void);
void dp_k_later(void);                                                               /* there is something to reap */
int dp_k_register(struct dp_kprobe **kps, int num, char type, struct dp_error *err); /* err may be NULL */
/*
 * What a probe at *addr would be: DP_OUTCOME_JUMP, or TRAP or FTRACE with the reason in *why; a refusal is an
 * error. *addr becomes the instruction that would be probed, *opcode its first byte. Takes the lock.
 */
int dp_k_judge(u64 *addr, enum dp_outcome *how, enum dp_code *why, u8 *opcode, struct dp_error *err);
bool dp_k_is_passed_by(const struct dp_registered *s); /* its function is live patched: it is not reached */
bool dp_k_may_move(const struct dp_registered *s);     /* its handler may send control elsewhere */
void dp_k_unregister(struct dp_kprobe **kps, int num);
void dp_k_remove_all(void);                /* takes the lock */
void dp_k_try_pending(struct module *mod); /* these two as well */
void dp_k_gone(u64 lo, u64 hi, struct module *mod);

/* ftrace.c: entries hit through the kernel's function tracer, addr being its bytes. All under the lock. */
int dp_k_fentry_attach(struct dp_registered *s, u64 addr, struct dp_error *err); /* E_KPROBE_JPROBE */
void dp_k_fentry_detach(struct dp_registered *s);
void dp_k_fentry_touch(void); /* flags of probes, or the knobs, have changed */
void dp_k_fentry_gone(u64 lo, u64 hi);
bool dp_k_fentry_is_gone(const struct dp_registered *s);
int dp_k_fentry_apply(struct dp_error *err); /* carries out what has changed; waits until no hit sees the old */

/* returns.c */
int dp_k_returns_init(void);
void dp_k_returns_exit(void);
extern struct dp_returns dp_k_returns;
void dp_k_returns_reap(void); /* free what nobody can return to any more; waits */
int dp_k_return_pre(struct dp_kprobe *kp, struct pt_regs *regs);
int dp_k_jprobe_pre(struct dp_kprobe *kp, struct pt_regs *regs);

/* What stands behind a landing that a task has at this place of its stack; 0: no landing, or not of that call. */
u64 dp_k_return_behind(u64 landing, u64 task, u64 at);

/* unwind.c */
void dp_k_unwind_begin(void); /* around registering return probes */
void dp_k_unwind_end(void);
void dp_k_unwind_look(bool last);
bool dp_k_unwind_is_own(const struct dp_kprobe *kp);
int dp_k_unwind_pre(struct dp_kprobe *kp, struct pt_regs *regs);

/* k-watch.c, user.c, k-tracepoints.c: theirs, as dp_k_remove_all(). */
void dp_k_watches_remove_all(void);
void dp_k_user_remove_all(void);
void dp_k_tracepoints_remove_all(void);

/* k-watch.c */
int dp_k_watch_check(struct dp_kwatch *w, u64 *at,
		     enum dp_code *why);                /* what is wrong with it but for a missing handler */
void dp_k_watches_gone(u64 lo, u64 hi);                 /* memory that goes away */
const char *dp_k_watch_holders(char *buf, size_t size); /* "symbol for handler, ..."; or "nothing" */
void dp_k_watches_each(void (*fn)(void *arg, const struct dp_kwatch *w),
		       void *arg); /* those that watch; under its lock */
int dp_k_watches_show(struct seq_file *m, void *v);

/* debugger.c */
int dp_k_debugger_check(struct dp_error *err);  /* E_KERNEL_DEBUGGER: programs may not enter it, or could not */
void dp_k_debugger_enter(struct pt_regs *regs); /* at a hit; comes back at once when nobody is there any more */

/* k-modules.c, debugfs.c */
int dp_k_modules_init(void);
void dp_k_modules_exit(void);
extern struct dentry *dp_k_top; /* debugfs dprobes/ */
int dp_k_debugfs_init(void);
void dp_k_debugfs_exit(void);

#endif
