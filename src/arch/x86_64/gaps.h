/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Code and data between functions. Kernel-clean. */
#ifndef DP_GAPS_H
#define DP_GAPS_H

#include "arch/analysis.h"

/*
 * Finds the instructions between functions to which control may come, when the whole module is known. Returns 0 or
 * -ENOMEM.
 */
int dp_gaps_follow(struct dp_analysis *c);

#endif
