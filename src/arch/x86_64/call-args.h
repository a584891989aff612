/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* System calls in a module's code whose arguments are loaded a few instructions before. */
#ifndef DP_CALL_ARGS_H
#define DP_CALL_ARGS_H

#include "arch/x86_64/site.h"

/* addr: of the instruction that loads the address which is the call's second argument, long enough for a jump. */
typedef void (*dp_call_fn)(u64 addr, void *arg);

/*
 * Each call of this number with this constant as its first argument, as far as registers can be followed in a straight
 * line. Link-time addresses.
 */
void dp_text_find_calls(const struct dp_text *t, u32 number, u32 first, dp_call_fn found, void *arg);

#endif
