/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Code that keeps the numbers of system calls, and finds the thread's slot for it. */
#ifndef DP_DIRECT_CALLS_H
#define DP_DIRECT_CALLS_H

#include "arch/compile.h"

#define DP_DIRECT_SLOT_MAX 56 /* bytes of what finds the slot, in the longest way */

/*
 * The thread's slot into rdx, where it is the first that the thread has looked at: the zero flag tells. rdi: the
 * address of all slots. Clobbers rcx.
 */
void dp_direct_slot(struct dp_emit *e, const struct dp_control *ctl);

/* What dp_jit_compile() does for jit->calls. */
int dp_direct_calls(struct dp_emit *e, const struct dp_jit *jit);

#endif
