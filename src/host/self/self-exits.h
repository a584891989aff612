/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exit facilities of this process: exits-hit.c calls them, self-exits.c registers them. */
#ifndef DP_SELF_EXITS_H
#define DP_SELF_EXITS_H

#include <dprobes/exits.h>

#include "abi/abi-exits.h"

#define EXPORT __attribute__((visibility("default")))

extern struct dp_exits_registry dp_self_exits;
/* What exits.S saves: components and bytes of the processor's extended state; 0 bytes: it has none. */
extern u32 dp_self_exit_xmask, dp_self_exit_xsize;
extern __thread u32 dp_self_exit_depth __attribute__((tls_model("initial-exec"))); /* in a facility */

dp_exit_call_fn dp_self_exit_call;
int dp_self_exit_run(dp_exit_handler_t handler, struct dp_exit *e, struct pt_regs *regs, const dp_exit_word *args,
		     dp_exit_word *results);

#endif
