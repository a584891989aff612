/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Shared by maps.c, open.c and sym-process.c only. */
#ifndef DP_SYM_PROCESS_PRIV_H
#define DP_SYM_PROCESS_PRIV_H

#include <sys/stat.h>

#include "symbols/symbols.h"

/*
 * Why a process could not be looked at: error is the errno of the attempt, 0 when its map was
 * empty. Always fills in *err and returns a negative errno.
 */
int dp_proc_why(pid_t pid, int error, struct dp_error *err);

/* What file that is; false: only the opened file can tell. Opens nothing. */
bool dp_map_identify(pid_t pid, const struct dp_map *map, struct stat *st);

#endif
