/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Records whose program has described them (lang/rpn/fields.h): names and values instead of bytes.
 */
#ifndef DP_LOG_FIELDS_H
#define DP_LOG_FIELDS_H

#include "lang/rpn/fields.h"
#include "log/rpn.h"

/* The items of a record: as lines "  name = value", or as the members of a JSON array. False, and
 * nothing written, when they do not parse. */
bool dp_fields_text(struct dp_line *l, const struct dp_rpn_context *c, const u8 *items, size_t n);
bool dp_fields_json(struct dp_line *l, const struct dp_rpn_context *c, const u8 *items, size_t n);

#endif
