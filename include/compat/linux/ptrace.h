/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Registers: struct pt_regs and its accessors are in the library's header. */
#ifndef DP_COMPAT_LINUX_PTRACE_H
#define DP_COMPAT_LINUX_PTRACE_H

#include <dprobes/kprobes.h>
#include <dprobes/old-registers.h>

#endif
