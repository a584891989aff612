/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The system calls of the machine's kernel: names, errors, arguments. */
#ifndef DPCC_SYSCALLS_H
#define DPCC_SYSCALLS_H

#include "base/base.h"

#define DP_SYSCALLS_MAX 512
#define DP_SYSCALL_ARGS 6

/* Numbers of those whose names match the shell pattern. */
u32 dp_syscalls_matching(const char *pattern, u32 *numbers, u32 max);

const char *dp_syscall_name_of(u32 number); /* NULL: it is not known */

/* Whether the call of this number, -1: any, may have a name that matches. */
bool dp_syscall_may_be(s32 number, const char *pattern);

/* The i-th of all, of all errors; NULL: there are no more. */
const char *dp_syscall_name(u32 i, u32 *number);
const char *dp_syscall_error(u32 i, u32 *number);

/*
 * Argument arg, from 0, of a call: its name and its kind as in syscall-args.def. 0: it has not so many; -1: its
 * arguments are not known.
 */
int dp_syscall_arg(u32 number, u32 arg, char *name, u32 size, char *kind);

#endif
