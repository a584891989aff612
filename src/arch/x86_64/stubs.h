/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Pieces of code that the control side puts into a process that it has stopped. */
#ifndef DP_STUBS_H
#define DP_STUBS_H

#include "base/base.h"

/*
 * Makes a system call with the registers as they are, takes the old ones from the stack, and goes back above the red
 * zone.
 */
#define DP_STUB_CALL 19
extern const u8 dp_stub_call[DP_STUB_CALL];

/*
 * Waits for so many pauses, a u32, and as many more as often as the word at its end changes: whoever wants the process
 * to wait goes on changing it. Nobody needs rcx and r11 at an entry point, nor behind a system call; flags are left
 * alone.
 */
#define DP_STUB_WAIT 38
#define DP_STUB_WAIT_PAUSES 8
#define DP_STUB_WAIT_WORD (DP_STUB_WAIT - 4)
extern const u8 dp_stub_wait[DP_STUB_WAIT];

/* Where there is no room for that. */
#define DP_STUB_WAIT_ONCE 9
#define DP_STUB_WAIT_ONCE_PAUSES 1
extern const u8 dp_stub_wait_once[DP_STUB_WAIT_ONCE];

/* Waits as they do: to find out how long pauses take here. n: at least 1. */
static inline void dp_stub_pause(u32 n)
{
	u64 left = n;

	__asm__ volatile("1: pause; loop 1b" : "+c"(left));
}

/* Jumps to the address that stands behind it. */
#define DP_STUB_FAR 6
extern const u8 dp_stub_far[DP_STUB_FAR];

#endif
