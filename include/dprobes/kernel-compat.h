/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A module written for <linux/kprobes.h>, built against Dynamic Probes without an edit:
 *
 *	ccflags-y += -I/path/to/include -include dprobes/kernel-compat.h
 *
 * The names of Kprobes then mean what <dprobes/kernel.h> declares, jprobes included, which later kernels do not have
 * any more. The kernel's own headers are included here, so that including them again changes nothing.
 * kallsyms_lookup_name(), which kernels from 5.7 on do not export, is offered, too.
 */
#ifndef DPROBES_KERNEL_COMPAT_H
#define DPROBES_KERNEL_COMPAT_H

#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>

#include "dprobes/kernel.h"
#include "dprobes/old-registers.h"

#define kprobe dp_kprobe
#define kretprobe dp_kretprobe
#define kretprobe_instance dp_kretprobe_instance
#define jprobe dp_jprobe

#define kallsyms_lookup_name dp_symbol_address

#define kprobe_pre_handler_t dp_pre_handler_t
#define kprobe_post_handler_t dp_post_handler_t
#define kprobe_fault_handler_t dp_fault_handler_t
#define kretprobe_handler_t dp_kretprobe_handler_t

#define register_kprobe dp_register_kprobe
#define unregister_kprobe dp_unregister_kprobe
#define register_kprobes dp_register_kprobes
#define unregister_kprobes dp_unregister_kprobes
#define disable_kprobe dp_disable_kprobe
#define enable_kprobe dp_enable_kprobe

#define register_kretprobe dp_register_kretprobe
#define unregister_kretprobe dp_unregister_kretprobe
#define register_kretprobes dp_register_kretprobes
#define unregister_kretprobes dp_unregister_kretprobes
#define disable_kretprobe dp_disable_kretprobe
#define enable_kretprobe dp_enable_kretprobe
#define get_kretprobe(ri) ((ri)->rp)
#define get_kretprobe_retaddr(ri) ((unsigned long)(ri)->ret_addr)

#define register_jprobe dp_register_jprobe
#define unregister_jprobe dp_unregister_jprobe
#define register_jprobes dp_register_jprobes
#define unregister_jprobes dp_unregister_jprobes
#define disable_jprobe dp_disable_jprobe
#define enable_jprobe dp_enable_jprobe
#define jprobe_return dp_jprobe_return
#undef JPROBE_ENTRY
#define JPROBE_ENTRY(handler) (handler)

#undef KPROBE_FLAG_GONE
#undef KPROBE_FLAG_DISABLED
#undef KPROBE_FLAG_OPTIMIZED
#undef KPROBE_FLAG_FTRACE
#define KPROBE_FLAG_GONE DP_KPROBE_FLAG_GONE
#define KPROBE_FLAG_DISABLED DP_KPROBE_FLAG_DISABLED
#define KPROBE_FLAG_OPTIMIZED DP_KPROBE_FLAG_OPTIMIZED
#define KPROBE_FLAG_FTRACE DP_KPROBE_FLAG_FTRACE
#define kprobe_gone(p) (!!((p)->flags & DP_KPROBE_FLAG_GONE))
#define kprobe_disabled(p) (!!((p)->flags & (DP_KPROBE_FLAG_DISABLED | DP_KPROBE_FLAG_GONE)))
#define kprobe_optimized(p) (!!((p)->flags & DP_KPROBE_FLAG_OPTIMIZED))
#define kprobe_ftrace(p) (!!((p)->flags & DP_KPROBE_FLAG_FTRACE))

/*
 * Functions that are a module's init and exit by their names alone: kernels with landing pads want to see somebody take
 * the address of what they call.
 */
#if __has_include(<asm/ibt.h>)
#include <asm/ibt.h>
asm(".weakref dp_compat_init, init_module\n\t" IBT_NOSEAL("dp_compat_init"));
asm(".weakref dp_compat_exit, cleanup_module\n\t" IBT_NOSEAL("dp_compat_exit"));
#endif

#endif
