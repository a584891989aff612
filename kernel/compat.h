/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * All differences between the kernels that the module is built for, and nothing else. What a kernel has is asked of
 * its headers by features.sh, which makes dp-features.h (DP_HAVE_*); no file compares version numbers. Included by C
 * and by assembly.
 */
#ifndef DP_KERNEL_COMPAT_H
#define DP_KERNEL_COMPAT_H

#include <dp-features.h> /* made by the build */

/* Where this processor's count of who keeps preemption off is: for assembly. */
#ifdef DP_HAVE_PCPU_HOT
#define DP_K_PREEMPT_COUNT pcpu_hot + 8
#else
#define DP_K_PREEMPT_COUNT __preempt_count
#endif
/* As wide as the bit in it that says that nobody waits: only then zero behind a decrement means that somebody does. */
#ifdef CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS
#define DP_K_PREEMPT_INC incq
#define DP_K_PREEMPT_DEC decq
#else
#define DP_K_PREEMPT_INC incl
#define DP_K_PREEMPT_DEC decl
#endif

#ifdef __ASSEMBLER__
#include <linux/objtool.h>
#ifndef DP_HAVE_NOENDBR /* a kernel that wants no landing pads */
.macro ANNOTATE_NOENDBR.endm
#endif
/* Of functions that the kernel calls by their address: later kernels give others no landing pad. */
#if __has_include(<linux/cfi_types.h>)
#include <linux/cfi_types.h>
#else
#define SYM_TYPED_FUNC_START SYM_FUNC_START
#endif
#endif

#ifndef __ASSEMBLER__

#include <linux/bpf.h>
#include <linux/bug.h>
#include <linux/file.h>
#include <linux/ftrace.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/sysctl.h>
#include <linux/uprobes.h>
#include <linux/workqueue.h>

#include <asm/alternative.h>
#include <asm/cpufeatures.h>
#include <asm/fpu/api.h>
#include <asm/fpu/types.h>
#include <asm/msr.h>
#include <asm/processor.h>
/* Of cpuid_count(). */
#if __has_include(<asm/cpuid/api.h>)
#include <asm/cpuid/api.h>
#elif __has_include(<asm/cpuid.h>)
#include <asm/cpuid.h>
#endif

#ifdef DP_HAVE_PCPU_HOT
    static_assert(offsetof(struct pcpu_hot, preempt_count) == 8);
#endif

#ifndef DP_HAVE_ALTERNATIVES_RESERVED /* nothing is reserved any more */
int alternatives_text_reserved(void *start, void *end);
#endif

/* The word of ss: later kernels have a field of 16 bits there, and others above it. */
static __always_inline unsigned long *dp_k_ss(struct pt_regs *regs)
{
	return (unsigned long *)((char *)regs + offsetof(struct pt_regs, ss));
}

#ifndef DP_HAVE_BPF_KSYM /* no code that is made at run time has a name */
struct bpf_ksym {
	unsigned long start, end;
	char name[KSYM_NAME_LEN];
	struct list_head lnode;
};
void bpf_ksym_add(struct bpf_ksym *ksym);
void bpf_ksym_del(struct bpf_ksym *ksym);
#endif

/* Work that belongs to no processor. */
#ifdef DP_HAVE_DFL_WQ
#define dp_k_unbound_wq system_dfl_wq
#else
#define dp_k_unbound_wq system_unbound_wq
#endif

/* ---- where modules lie ---- */

static inline void dp_k_module_text(const struct module *mod, u64 *lo, u64 *hi)
{
#ifdef DP_HAVE_MODULE_MEM
	*lo = (u64)mod->mem[MOD_TEXT].base;
	*hi = *lo + mod->mem[MOD_TEXT].size;
#else
	*lo = (u64)mod->core_layout.base;
	*hi = *lo + mod->core_layout.text_size;
#endif
}

/* What goes after its init, or the rest, piece by piece. */
static inline void dp_k_module_each(const struct module *mod, bool init, void (*fn)(u64 base, u64 size, void *arg),
				    void *arg)
{
#ifdef DP_HAVE_MODULE_MEM
	for (int i = init ? MOD_INIT_TEXT : MOD_TEXT; i < (init ? MOD_MEM_NUM_TYPES : MOD_INIT_TEXT); i++)
		fn((u64)mod->mem[i].base, mod->mem[i].size, arg);
#else
	const struct module_layout *l = init ? &mod->init_layout : &mod->core_layout;

	fn((u64)l->base, l->size, arg);
#endif
}

/* ---- functions that the kernel calls ---- */

#ifdef DP_HAVE_CONST_CTL_TABLE
#define DP_K_CTL_TABLE const struct ctl_table
#else
#define DP_K_CTL_TABLE struct ctl_table
#endif

#ifdef DP_HAVE_SYSRQ_U8
#define DP_K_SYSRQ_KEY u8
#else
#define DP_K_SYSRQ_KEY int
#endif

/* n entries, and an empty one behind them. */
#ifdef DP_HAVE_SYSCTL_SIZE
#define dp_k_register_sysctl(dir, table, n) register_sysctl_sz(dir, table, n)
#else
#define dp_k_register_sysctl(dir, table, n) register_sysctl(dir, table)
#endif

#ifdef DP_HAVE_SYMBOL_MODULE
#define DP_K_SYMBOL_ARGS void *arg, const char *name, struct module *mod, unsigned long addr
#define dp_k_symbol_is_core(addr) (!mod)
#else /* asked of the kernel itself alone */
#define DP_K_SYMBOL_ARGS void *arg, const char *name, unsigned long addr
#define dp_k_symbol_is_core(addr) true
#endif

/* Whether it finds a name of its own without going through all of them. */
#ifdef DP_HAVE_SYMBOL_INDEX
#define DP_K_NAMES_INDEXED true
#else
#define DP_K_NAMES_INDEXED false
#endif

#ifdef DP_HAVE_FTRACE_REGS
#define DP_K_FTRACE_REGS struct ftrace_regs
#define dp_k_ftrace_regs(fregs) ftrace_get_regs(fregs)
#else
#define DP_K_FTRACE_REGS struct pt_regs
#define dp_k_ftrace_regs(fregs) (fregs)
#endif

#ifndef DP_HAVE_FTRACE_FILTER_IPS
static inline int ftrace_set_filter_ips(struct ftrace_ops *ops, unsigned long *ips, unsigned int n, int remove,
					int reset)
{
	int r = 0;

	for (unsigned int i = 0; i < n && !r; i++)
		r = ftrace_set_filter_ip(ops, ips[i], remove, reset && !i);
	return r;
}
#endif

/* ---- probes in user code ---- */

#ifdef DP_HAVE_UPROBE_COOKIE
#define DP_K_UPROBE_ARGS , __u64 *cookie
#else
#define DP_K_UPROBE_ARGS
#endif

#ifdef CONFIG_UPROBES
#ifdef DP_HAVE_UPROBE_OBJECT
typedef struct uprobe *dp_k_uprobe;

static inline int dp_k_uprobe_register(dp_k_uprobe *u, struct inode *inode, loff_t at, struct uprobe_consumer *c)
{
	*u = uprobe_register(inode, at, 0, c);
	return PTR_ERR_OR_ZERO(*u);
}

static inline void dp_k_uprobe_unregister(dp_k_uprobe u, struct inode *inode, loff_t at, struct uprobe_consumer *c)
{
	uprobe_unregister_nosync(u, c);
	uprobe_unregister_sync();
}
#else
typedef struct {
} dp_k_uprobe;

static inline int dp_k_uprobe_register(dp_k_uprobe *u, struct inode *inode, loff_t at, struct uprobe_consumer *c)
{
	return uprobe_register(inode, at, c);
}

static inline void dp_k_uprobe_unregister(dp_k_uprobe u, struct inode *inode, loff_t at, struct uprobe_consumer *c)
{
	uprobe_unregister(inode, at, c);
}
#endif
#endif

#ifndef DP_HAVE_FD_FILE
#define fd_file(f) ((f).file)
#endif

/* ---- the processor ---- */

#ifdef DP_HAVE_RDMSRQ
#define rdmsrl rdmsrq
#define rdmsrl_safe rdmsrq_safe
#endif

#ifdef DP_HAVE_TASK_FPU
#ifdef CONFIG_X86_DEBUG_FPU /* a function, which modules are not offered: this is what it returns */
#define dp_k_task_fpu(task) ((struct fpu *)((task) + 1))
#else
#define dp_k_task_fpu x86_task_fpu
#endif
#endif

/* What the kernel has kept of a task's vector and x87 registers, or NULL. Not for threads of the kernel. */
static __always_inline const union fpregs_state *dp_k_fpregs(struct task_struct *task)
{
#if defined(DP_HAVE_TASK_FPU)
	const struct fpstate *f = dp_k_task_fpu(task)->fpstate;

	return f ? &f->regs : NULL;
#elif defined(DP_HAVE_FPSTATE)
	const struct fpstate *f = task->thread.fpu.fpstate;

	return f ? &f->regs : NULL;
#else
	return &task->thread.fpu.state;
#endif
}

/* ---- for tests ---- */

#ifdef DP_HAVE_HRTIMER_SETUP
#define dp_k_hrtimer_init(timer, fn) hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL)
#else
#define dp_k_hrtimer_init(timer, fn)                                    \
	do {                                                            \
		hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL); \
		(timer)->function = fn;                                 \
	} while (0)
#endif

/* A function's calls go through a stub: what trampolines of BPF are made of. */
static inline int dp_k_direct_begin(struct ftrace_ops *ops, unsigned long ip, unsigned long stub)
{
#if !defined(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)
	return -EOPNOTSUPP;
#elif defined(DP_HAVE_FTRACE_DIRECT_OPS)
	int r = ftrace_set_filter_ip(ops, ip, 0, 1);

	return r ? r : register_ftrace_direct(ops, stub);
#else
	return register_ftrace_direct(ip, stub);
#endif
}

static inline void dp_k_direct_end(struct ftrace_ops *ops, unsigned long ip, unsigned long stub)
{
#if !defined(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)
#elif defined(DP_HAVE_FTRACE_DIRECT_OPS)
	unregister_ftrace_direct(ops, stub, true);
#else
	unregister_ftrace_direct(ip, stub);
#endif
}

/* ---- tables ---- */

#if defined(CONFIG_GENERIC_BUG) && defined(CONFIG_GENERIC_BUG_RELATIVE_POINTERS)
/* An entry of a table of BUG() at another place: what it says is distances from where it stands. */
static inline void dp_k_bug_move(struct bug_entry *to, const struct bug_entry *from)
{
	s64 by = (s64)from - (s64)to;

	*to = *from;
	to->bug_addr_disp += (s32)by;
#ifdef HAVE_ARCH_BUG_FORMAT
	to->format_disp += (s32)by;
#endif
#ifdef CONFIG_DEBUG_BUGVERBOSE
	to->file_disp += (s32)by;
#endif
}
#endif

#endif
#endif
