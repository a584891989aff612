/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A tracepoint of LTTng-UST for bench-hooks; its macros read this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench_hooks
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "bench-hooks-ust.h"

#if !defined(BENCH_HOOKS_UST_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_HOOKS_UST_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench_hooks, passed, LTTNG_UST_TP_ARGS(long, x), LTTNG_UST_TP_FIELDS())

#endif
#include <lttng/tracepoint-event.h>
