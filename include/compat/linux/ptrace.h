/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Registers: struct pt_regs and its accessors are in the library's header. */
#ifndef DP_COMPAT_LINUX_PTRACE_H
#define DP_COMPAT_LINUX_PTRACE_H

#include <dprobes/kprobes.h>

/*
 * -DDPROBES_OLD_REGISTERS: the names that registers had before Linux 2.6.25, for sources of that time.
 */
#ifdef DPROBES_OLD_REGISTERS
#define rax ax
#define rbx bx
#define rcx cx
#define rdx dx
#define rsi si
#define rdi di
#define rbp bp
#define rsp sp
#define rip ip
#define eax ax
#define ebx bx
#define ecx cx
#define edx dx
#define esi si
#define edi di
#define ebp bp
#define esp sp
#define eip ip
#define eflags flags
#define xcs cs
#define xss ss
#define orig_rax orig_ax
#define orig_eax orig_ax
#endif

#endif
