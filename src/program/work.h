/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a run may cost. A jump or a return costs the bytes of code that it leads back over, about a nanosecond each; a
 * call forward gives back those that it passes over. So the sum, and the length of the program, are at least what was
 * executed, without a look at each instruction. Here, and in opcodes.def, stands what costs much more than its bytes.
 * Also included by the hit path: no functions with state.
 */
#ifndef DP_WORK_H
#define DP_WORK_H

#include "abi/abi-program.h"
#include "program/opcode.h"

/*
 * Of one run, in nanoseconds of a usual machine. In a kernel nothing else runs on the processor meanwhile. In a process
 * it is as much as 65535 jumps with a read of memory each take.
 */
#define DP_WORK_KERNEL 100000u
#define DP_WORK_PROCESS 50000000u

/* When all is spent an exception is raised. Its handler gets this much more, once. */
static inline __attribute__((__always_inline__)) u32 dp_work_reserve(u32 work)
{
	return work / 8;
}

#define DP_WORK_READ (DP_RING0 ? 50u : 500u) /* in a process it may be a system call */
#define DP_WORK_DEVICE (DP_RING0 * 2000u)    /* of a port or a register that may leave a virtual machine */
#define DP_WORK_HANDLED 500u                 /* an exception that a handler takes; the bytes of the program besides */
#define DP_WORK_EXIT 1000u                   /* of an exit facility; what it does is its own affair */
#define DP_WORK_FRAME 100u                   /* of a call chain */

/* Besides DP_WORK_READ for a text of n bytes, which is read by pieces, or for so many bytes of memory. */
static inline __attribute__((__always_inline__)) u32 dp_work_of_text(u32 n)
{
	return n / 64 * DP_WORK_READ + n / 8;
}

static inline __attribute__((__always_inline__)) u32 dp_work_of_memory(u32 n)
{
	return n / 8;
}

static inline __attribute__((__always_inline__)) u32 dp_work_of_words(u32 n)
{
	return n / 4;
}

static inline __attribute__((__always_inline__)) u32 dp_work_of_pattern(u32 len)
{
	return 128 * len; /* against a text that fills the scratch memory */
}

/* A walk over blocks of the heap, the last of which is this one. */
static inline __attribute__((__always_inline__)) u32 dp_work_of_walk(u64 handle)
{
	return (u32)handle / 4;
}

#endif
