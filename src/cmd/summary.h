/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The table that is printed when tracing ends. */
#ifndef DP_SUMMARY_H
#define DP_SUMMARY_H

#include <stdio.h>

#include "run/run-trace.h"

extern bool dp_summary_all; /* --all-rows: also rows of probes that were never hit, and any number of rows */

/* Sorted by hits when there are many. */
void dp_summary_print(FILE *to, const struct dp_trace *t);

/*
 * The same of n rows with their sum, of so many seconds; it may sort them. without: of so many probes more, which were
 * never hit, there are no rows.
 */
void dp_summary_rows(FILE *to, struct dp_trace_row *rows, u32 n, u32 without, const struct dp_trace_row *total,
		     double lasted);

/* The same as an object: all rows, those that were never hit as well. */
struct dp_json;
void dp_summary_json(struct dp_json *j, const struct dp_trace_row *rows, u32 n, const struct dp_trace_row *total,
		     double lasted);

/* What the budget of a trace has cost and spared; quiet: only probes that were taken out. */
void dp_summary_budget(FILE *to, const struct dp_trace *t, bool quiet);
/* The same of rows, of which budget and costs are known; it sorts them. */
void dp_summary_budget_rows(FILE *to, u32 budget, const struct dp_govern_cost *cost, struct dp_trace_row *rows, u32 n,
			    bool quiet);

/* An object for each event whose probes were taken out. The first one is for dp_trace.last. */
void dp_summary_budget_json(struct dp_trace *t, void *arg);
void dp_summary_budget_json_rows(FILE *to, u32 budget, const struct dp_trace_row *rows, u32 n);

#endif
