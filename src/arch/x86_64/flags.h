/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Are the arithmetic flags dead at an address? Freestanding. */
#ifndef DP_FLAGS_H
#define DP_FLAGS_H

#include "arch/site.h"

/*
 * True when it is certain that nobody looks at the arithmetic flags that are in force at addr: the code from there on
 * overwrites them, or makes a call, before anything could read them. False in doubt. Being a function's entry is not
 * enough: some routines (Go's asynchronous preemption, for one) are entered with live flags and save them.
 */
bool dp_flags_dead(const struct dp_text *t, u64 addr);

#endif
