/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The Kprobes interface. */
#ifndef DP_COMPAT_LINUX_KPROBES_H
#define DP_COMPAT_LINUX_KPROBES_H

#include <dprobes/kprobes.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/ptrace.h>

#endif
