/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The table that is printed when tracing ends. */
#ifndef DP_SUMMARY_H
#define DP_SUMMARY_H

#include <stdio.h>

#include "run/run-trace.h"

/* Sorted by hits when there are many. */
void dp_summary_print(FILE *to, const struct dp_trace *t);

/* The same of n rows with their sum, of so many seconds; it may sort them. */
void dp_summary_rows(FILE *to, struct dp_trace_row *rows, u32 n, const struct dp_trace_row *total, double lasted);

#endif
