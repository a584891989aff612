/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A session without probes, of a process for which begin, end and timer bodies run and nothing else: its words are
 * memory of ours, and the process is not touched.
 */
#ifndef DP_RUN_IDLE_H
#define DP_RUN_IDLE_H

#include "host/any/any-host.h"

int dp_idle_open(struct dp_tracee *t, pid_t pid, struct dp_error *err); /* E_RPN_MEMORY */

#endif
