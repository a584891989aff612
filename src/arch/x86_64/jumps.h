/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Which functions have jumps to computed addresses: those are few, and the only ones that have tables. Kernel-clean. */
#ifndef DP_JUMPS_H
#define DP_JUMPS_H

#include "arch/analysis.h"

/*
 * Calls found(arg, i) for each function i of the range in which there may be one, upwards: all others have none. Bytes
 * are looked at through c->look.
 */
void dp_jumps_find(const struct dp_analysis *c, const struct dp_code_text *ct, void (*found)(void *arg, u32 i),
		   void *arg);

#endif
