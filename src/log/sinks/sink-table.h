/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Aggregates as tables and bars. */
#ifndef DP_SINK_TABLE_H
#define DP_SINK_TABLE_H

#include "log/sink.h"

void dp_table_aggregate(struct dp_sink *s, const struct dp_agg_table *t);

#endif
