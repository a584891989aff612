/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who called: the return addresses above a moment of a thread, from its registers and a copy of the top of its
 * stack, by the unwind tables of the modules. Control side only; one thread at a time.
 */
#ifndef DP_CALLERS_H
#define DP_CALLERS_H

#include <sys/types.h>

#include "base/base.h"

struct dp_callers;

struct dp_moment { /* registers, and n bytes of the stack from sp on */
	u64 ip, sp, bp, bx, r12, r13, r14, r15;
	const u8 *stack;
	u32 n;
};

/* The modules as they are mapped now. NULL when they cannot be read. */
struct dp_callers *dp_callers_new(pid_t pid);
void dp_callers_free(struct dp_callers *u);

/* Return addresses, the caller's first; at most max. Ends where tables or the copied stack end. */
u32 dp_callers_find(struct dp_callers *u, const struct dp_moment *m, u64 *pcs, u32 max);

#endif
