/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * -DDPROBES_OLD_REGISTERS: the names that registers had before Linux 2.6.25, for sources of that time. Both worlds
 * include it: <dprobes/kernel-compat.h> and, in a process, <linux/ptrace.h> of include/compat.
 */
#ifndef DPROBES_OLD_REGISTERS_H
#define DPROBES_OLD_REGISTERS_H

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
