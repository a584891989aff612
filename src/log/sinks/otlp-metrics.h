/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Tables of programs as metrics of OpenTelemetry. */
#ifndef DP_OTLP_METRICS_H
#define DP_OTLP_METRICS_H

#include "log/aggregate.h"
#include "log/json.h"

/* As one metric. What it counts began at begin_ns, since 1970, and is as it is now. */
void dp_otlp_put_table(struct dp_json *j, const struct dp_agg_table *t, u64 begin_ns, u64 now_ns);

#endif
