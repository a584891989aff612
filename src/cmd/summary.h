/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The table that is printed when tracing ends. */
#ifndef DP_SUMMARY_H
#define DP_SUMMARY_H

#include <stdio.h>

#include "run/run-trace.h"

/* Sorted by hits when there are many. */
void dp_summary_print(FILE *to, const struct dp_trace *t);

#endif
