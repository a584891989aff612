/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The system calls of the machine's kernel: names, errors, arguments. */
#ifndef DPCC_SYSCALLS_H
#define DPCC_SYSCALLS_H

#include "base/base.h"

#define DP_SYSCALLS_MAX 512
#define DP_SYSCALL_ARGS 6
#define DP_SYSCALL_OCTAL "octal" /* the set of numbers that are shown so, which has no names */
/* Sets that are generated from the kernel's headers: unknown requests are shown in hexadecimal; the names of options
   depend on the level, which is the upper half of their values. */
#define DP_SYSCALL_REQUEST "request"
#define DP_SYSCALL_LEVEL "level"
#define DP_SYSCALL_OPTION "option"

/* Numbers of those whose names match the shell pattern. */
u32 dp_syscalls_matching(const char *pattern, u32 *numbers, u32 max);

const char *dp_syscall_name_of(u32 number); /* NULL: it is not known */

bool dp_syscall_returns(u32 number); /* not those that end the thread */

/* Whether the call of this number, -1: any, may have a name that matches. */
bool dp_syscall_may_be(s32 number, const char *pattern);

/* The i-th of all, of all errors; NULL: there are no more. */
const char *dp_syscall_name(u32 i, u32 *number);
const char *dp_syscall_error(u32 i, u32 *number);

struct dp_syscall_arg {
	char name[24], set[16];
	char kind; /* as in syscall-args.def; of a set that names its values: f, several together, or e, one */
};

/* All that is known of a call's arguments, as in syscall-args.def; NULL: nothing. */
const char *dp_syscall_args(u32 number);
/* Argument i, from 0, of a call. 0: it has not so many; -1: its arguments are not known. */
int dp_syscall_arg(u32 number, u32 i, struct dp_syscall_arg *arg);

/* The i-th value of a set that has a name, and the bits that it is of. NULL: there are no more. */
const char *dp_syscall_flag(const char *set, u32 i, s64 *value, u64 *mask);

/* The value of a name of any set, or of an error. */
bool dp_syscall_constant(const char *name, s64 *value);

/* The hint of an error: the call whose name is near. */
void dp_syscall_near(const char *name, struct dp_error *err);

#endif
