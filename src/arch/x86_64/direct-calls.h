/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Code that keeps the numbers of system calls. */
#ifndef DP_DIRECT_CALLS_H
#define DP_DIRECT_CALLS_H

#include "arch/compile.h"

/* What dp_jit_compile() does for jit->calls. */
int dp_direct_calls(struct dp_emit *e, const struct dp_jit *jit);

#endif
