/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which records belong to the calls that a user wants to see (--only, --depth): all other records of calls are left
 * out before any format sees them, so that each format shows the same calls.
 */
#ifndef DP_LOG_SCOPE_H
#define DP_LOG_SCOPE_H

#include "log/format.h"
#include "log/sink.h"

struct dp_scope;

/* NULL: no memory. env stays, its events may become more. */
struct dp_scope *dp_scope_new(const struct dp_format_env *env);
void dp_scope_free(struct dp_scope *s); /* may be NULL */

/* Whether the options leave anything out. */
bool dp_scope_limits(const struct dp_graph_options *opt);

/* Each record, in their order. False: leave it out. */
bool dp_scope_takes(struct dp_scope *s, const struct dp_sink_record *r);

#endif
