/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Rows of functions, from a trace of their entries and returns. */
#ifndef DP_TOP_CALLS_H
#define DP_TOP_CALLS_H

#include "log/sink.h"
#include "run/run-trace.h"
#include "top/top.h"

/* What takes the records (dp_trace.sink); its argument is the struct dp_top. */
extern const struct dp_sink_ops dp_top_calls_sink;

/* The trace must stay where it is. */
struct dp_top_source dp_top_calls_source(struct dp_trace *trace);

#endif
