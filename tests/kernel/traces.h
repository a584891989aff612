/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The tracepoint of traced.c, as the kernel's own are written. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dptraced

#if !defined(DP_TRACES_H) || defined(TRACE_HEADER_MULTI_READ)
#define DP_TRACES_H

#include <linux/tracepoint.h>

/* clang-format off */
TRACE_EVENT(dptraced_work,
	TP_PROTO(int number, long b, long c, long d, long e, long f, long sum),
	TP_ARGS(number, b, c, d, e, f, sum),
	TP_STRUCT__entry(__field(int, number)),
	TP_fast_assign(__entry->number = number;),
	TP_printk("number=%d", __entry->number)
);
/* clang-format on */

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE traces
#include <trace/define_trace.h>
