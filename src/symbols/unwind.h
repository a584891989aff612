/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who called: the return addresses above a moment of a thread, from its registers and a copy of the top of its
 * stack, by the unwind tables of the modules. Control side only; one thread at a time.
 */
#ifndef DP_UNWIND_H
#define DP_UNWIND_H

#include <sys/types.h>

#include "base/base.h"

struct dp_unwinder;

struct dp_moment { /* registers, and n bytes of the stack from sp on */
	u64 ip, sp, bp, bx, r12, r13, r14, r15;
	const u8 *stack;
	u32 n;
};

/* The modules as they are mapped now. NULL when they cannot be read. */
struct dp_unwinder *dp_unwinder_new(pid_t pid);
void dp_unwinder_free(struct dp_unwinder *u);

/* Return addresses, the caller's first; at most max. Ends where tables or the copied stack end. */
u32 dp_unwind(struct dp_unwinder *u, const struct dp_moment *m, u64 *pcs, u32 max);

#endif
