/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The public structures by one name. In a process they have the names of Kprobes; in a kernel, which has Kprobes of its
 * own, a prefix.
 */
#ifndef DP_KPROBE_NAMES_H
#define DP_KPROBE_NAMES_H

#ifdef __KERNEL__
#include "dprobes/kernel.h"
#define DP_KPROBE_FLAG_RET_EXITS 512 /* for processes */
#else
#include "dprobes/kprobes.h"
#define dp_kprobe kprobe
#define dp_kretprobe kretprobe
#define dp_kretprobe_instance kretprobe_instance
#define dp_jprobe jprobe
#define dp_pre_handler_t kprobe_pre_handler_t
#define DP_KPROBE_FLAG_GONE KPROBE_FLAG_GONE
#define DP_KPROBE_FLAG_DISABLED KPROBE_FLAG_DISABLED
#define DP_KPROBE_FLAG_OPTIMIZED KPROBE_FLAG_OPTIMIZED
#define DP_KPROBE_FLAG_PENDING KPROBE_FLAG_PENDING
#define DP_KPROBE_FLAG_AGAIN 32 /* for kernels */
#define DP_KPROBE_FLAG_RET_EXITS KPROBE_FLAG_RET_EXITS
#endif

#endif
