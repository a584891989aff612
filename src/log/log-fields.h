/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Records whose program has described them (program/described.h): names and values instead of bytes. */
#ifndef DP_LOG_FIELDS_H
#define DP_LOG_FIELDS_H

#include "program/described.h"
#include "log/log-rpn.h"

/* Whether a record's items parse, and each of them handed to the sink as a field. */
bool dp_fields_parse(const u8 *items, size_t n);
void dp_walk_described(struct dp_sink *s, const struct dp_rpn_context *c, const u8 *items, size_t n);

/*
 * The name that a value has in an enumeration; of flags all names, with | between them, and what is left as a number.
 * False: it has none. 400 bytes are enough for flags; more of them are cut off.
 */
bool dp_layout_name(const struct dp_rf_layout *e, u64 v, char *buf, size_t size);

#endif
