/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The line of an event: what is the same in all its lines is put together once, and numbers of the record are written
 * between these texts, several times as fast as a walk through the fields. Only for records that are as they should be:
 * nothing is missing, all could be read. What is no number is put by the sink, as in a walk.
 */
#ifndef DP_LOG_TEMPLATE_H
#define DP_LOG_TEMPLATE_H

#include "log/sink.h"

struct dp_template;

/* Of this record's event, as the sink has it. NULL: no memory. */
struct dp_template *dp_template_new(struct dp_sink *s, const struct dp_sink_record *r);
void dp_template_free(struct dp_template *t); /* may be NULL */

/*
 * By dp_sink_ops.lay_out: behind what was put into the sink's line comes field `i`. has_hex: numbers that are better
 * shown in hexadecimal are.
 */
void dp_template_field(struct dp_template *t, unsigned i, bool has_hex);
/* Whether the field is a number; else the sink puts it. */
bool dp_template_has_number(const struct dp_field *f);

/* A record of that event into the sink's line. False: it is not as it should be, and nothing was put. */
bool dp_template_put(const struct dp_template *t, struct dp_sink *s, const struct dp_sink_record *r);

#endif
