/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A verified program as the interpreter and compiled code want it, and the limits of its machine. Read-only in the
 * target.
 */
#ifndef DP_ABI_PROGRAM_H
#define DP_ABI_PROGRAM_H

#include "base/base.h"

struct dp_code_rt { /* one verified program, as the interpreter wants it */
	u64 code;   /* address of the bytecode */
	u32 len;
	u32 jmpmax; /* jumps allowed in one run */
	u32 logmax; /* payload bytes allowed in one record, <= DP_RECORD_MAX - sizeof header */
	u32 nlocals;
	u64 locals; /* address of the module's local variables (u64 each), 0 none */
	u64 globals;
	u32 nglobals;
	u32 ex_mask;
	/* RPN programs only, those with an ex_mask: */
	u64 gate; /* address of the count of hits, shared; 0: none. Counted only where pass or max want to know */
	u64 pass; /* hits to pass over first, then */
	u64 max;  /* hits that may run */
	u32 heap; /* bytes allocated at one time */
	u32 ex_logmax;
	u16 major, minor;
	u32 work;     /* what a run may cost (program/work.h) */
	u64 compiled; /* address of the program as machine code, 0: none (arch/compile.h) */
};

/* In ex_mask, above the exceptions. */
#define DP_RPN 0x80000000u           /* always set in RPN programs */
#define DP_RPN_AUTOTRACE 0x40000000u /* a stack trace at every exception */

#define DP_NO_LIMIT (~0ull)          /* of hits that may run */
#define DP_GATE_REMOVED (1ull << 63) /* in the count of hits: the program has removed its probe */

/* The machine. */
#define DP_VM_STACK 1024
#define DP_FRAMES_MAX 64   /* of a call chain */
#define DP_FRAMES_USUAL 16 /* of one whose length the user does not say */
#define DP_VM_CALLS 32
#define DP_VM_CALLS_TOTAL 65535 /* calls in one run: what bounds recursion that branches */
#define DP_VM_HANDLED 256       /* exceptions that handlers may take in one run */
#define DP_HEAP_MAX 16384
#define DP_EX_LOG_MAX 1024

#endif
