/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Shared by maps.c and sym-process.c only. */
#ifndef DP_SYM_PROCESS_PRIV_H
#define DP_SYM_PROCESS_PRIV_H

#include "symbols/symbols.h"

/*
 * Why a process could not be looked at: error is the errno of the attempt, 0 when its map was
 * empty. Always fills in *err and returns a negative errno.
 */
int dp_proc_why(pid_t pid, int error, struct dp_error *err);

#endif
