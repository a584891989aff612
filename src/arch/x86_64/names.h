/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Registers as front ends write them into the texts of programs, and as DWARF numbers them. program/registers.def has
 * all names that a text may use.
 */
#ifndef DP_NAMES_H
#define DP_NAMES_H

#include "base/base.h"

#define DP_NAME_IP "rip"
#define DP_NAME_SP "rsp"
#define DP_NAME_GOROUTINE "r14"    /* where Go 1.17 and later have the running goroutine's structure */
#define DP_NAME_RESULT "rax"       /* of a call: the value, or where it is */
#define DP_NAME_RESULT_2 "rdx"     /* the second word of one that has two */
#define DP_NAME_REAL_RESULT "xmm0" /* of a call that returns a float or double, in its low bytes */
#define DP_NAME_REAL_RESULT_2 "xmm1"
#define DP_NAME_ARG0 "rdi"

#define DP_NAME_ARGS 6 /* arguments of a call that travel in registers */

static inline const char *dp_name_of_arg(u32 n)
{
	static const char *const names[DP_NAME_ARGS] = {DP_NAME_ARG0, "rsi", "rdx", "rcx", "r8", "r9"};

	return names[n];
}

/* Words of what a function of Go 1.17 and later returns; NULL: they are on the stack. */
static inline const char *dp_name_of_go_result(u32 n)
{
	static const char *const names[] = {"rax", "rbx", "rcx", "rdi", "rsi", "r8", "r9", "r10", "r11"};

	return n < DP_ARRAY_SIZE(names) ? names[n] : NULL;
}

static inline const char *dp_name_of_go_real(u32 n)
{
	static const char *const names[] = {"xmm0", "xmm1", "xmm2",  "xmm3",  "xmm4",  "xmm5",  "xmm6", "xmm7",
					    "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14"};

	return n < DP_ARRAY_SIZE(names) ? names[n] : NULL;
}

/* Of a system call: its number, and then what it gives; argument n, from 0. */
#define DP_NAME_CALL "rax"
/* Behind it, the number that the host has kept of it; in front of it, that it would keep. Negative: none. */
#define DP_NAME_KEPT_CALL "orig_ax"

static inline const char *dp_name_of_call_arg(u32 n)
{
	static const char *const names[] = {"rdi", "rsi", "rdx", "r10", "r8", "r9"};

	return names[n];
}

enum dp_dwarf_register { DP_DWARF_FRAME = 6, DP_DWARF_SP = 7, DP_DWARF_ALIGN = 10, DP_DWARF_IP = 16 };

/* NULL: programs cannot read it. is_vector: `push r` of it leaves two words. */
static inline const char *dp_name_of_dwarf(u64 number, bool *is_vector)
{
	static const char *const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", DP_NAME_SP, "r8",
					    "r9",  "r10", "r11", "r12", "r13", "r14", "r15", DP_NAME_IP};
	static const char *const vectors[] = {"xmm0", "xmm1", "xmm2",  "xmm3",  "xmm4",  "xmm5",  "xmm6",  "xmm7",
					      "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"};

	*is_vector = number >= DP_ARRAY_SIZE(names) && number < DP_ARRAY_SIZE(names) + DP_ARRAY_SIZE(vectors);
	if (*is_vector)
		return vectors[number - DP_ARRAY_SIZE(names)];
	return number < DP_ARRAY_SIZE(names) ? names[number] : NULL;
}

#endif
