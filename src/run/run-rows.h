/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is told while, and at the end of, a run of programs that event lines were compiled to. */
#ifndef DP_RUN_ROWS_H
#define DP_RUN_ROWS_H

#include "run/run-trace.h"
#include "run/run.h"

/* A row for each event, *n of them, and their sum. NULL: no memory. dp_free() it. */
struct dp_trace_row *dp_run_rows(const struct dp_run *run, u32 *n, struct dp_trace_row *total);

/* All of them, as a recording has them. */
struct dp_line;
void dp_run_put_rows(const struct dp_run *run, struct dp_line *to);

/* What the hits of programs with a budget have cost. */
void dp_run_govern_cost(const struct dp_run *run, struct dp_govern_cost *sum);

/* The local variables of all targets, live ones and those that have ended. */
struct dp_agg_view;
struct dp_rpn_unit;
typedef void dp_run_words_fn(void *arg, const struct dp_rpn_unit *u, volatile u64 *words,
			     const struct dp_agg_view *view);
void dp_run_each_words(const struct dp_run *run, dp_run_words_fn *fn, void *arg);

/*
 * The probes of the row of that name (dp_trace_row), with those by which its lines know of entries, are taken out of
 * all targets, or put back. E_ARM_CHANGE where that cannot be done.
 */
int dp_run_pause(struct dp_run *run, const char *row, bool pause, struct dp_error *err);

/* All of their tables and sums begin anew; variables that handlers keep stay. */
void dp_run_clear_aggregates(const struct dp_run *run);

/* Whether the row is of the entries of a line that shows returns, which nobody has asked for. */
bool dp_run_row_is_entry(const char *row);

/* Calls so far for which there was no room. */
u64 dp_run_losses(const struct dp_run *run);

/* Hits that ended because there was no room for a variable of their thread. */
u64 dp_run_thread_losses(const struct dp_run *run);

#endif
