/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is told at the end of a run of programs that event lines were compiled to. */
#ifndef DP_RUN_ROWS_H
#define DP_RUN_ROWS_H

#include "run/run-trace.h"
#include "run/run.h"

/* A row for each event, *n of them, and their sum. NULL: no memory. dp_free() it. */
struct dp_trace_row *dp_run_rows(const struct dp_run *run, u32 *n, struct dp_trace_row *total);

/* Calls so far for which there was no room. */
u64 dp_run_losses(const struct dp_run *run);

/* Hits that ended because there was no room for a variable of their thread. */
u64 dp_run_thread_losses(const struct dp_run *run);

#endif
