/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Fields of records as JSON, for formats that are JSON. */
#ifndef DP_SINK_JSON_H
#define DP_SINK_JSON_H

#include "log/json.h"
#include "log/sink.h"

struct dp_json_sink { /* begins the sinks of these formats */
	struct dp_sink s;
	struct dp_json j;
};

static inline struct dp_json *dp_json_of(struct dp_sink *s)
{
	struct dp_json_sink *js = (struct dp_json_sink *)s;

	js->j.line = s->line;
	return &js->j;
}

/* Of events: members of an object that is open. */
void dp_json_field(struct dp_sink *s, const char *name, unsigned i);
void dp_json_group(struct dp_sink *s, enum dp_sink_group what);
void dp_json_member(struct dp_sink *s, const char *name);
void dp_json_group_end(struct dp_sink *s, enum dp_sink_group what);
void dp_json_value(struct dp_sink *s, const struct dp_sink_value *v);

struct dp_agg_table;
void dp_json_put_aggregate(struct dp_json *j, const struct dp_agg_table *t); /* as one object */

#endif
