/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The lines by which a probe program describes its records: "layout =" for structures, "field =" for the items in a
 * record.
 */
#ifndef DP_FIELDS_H
#define DP_FIELDS_H

#include "program/described.h"

/* Parse lines "layout = ..." and "field = ..."; NULL when one is wrong: *bad points to it. */
struct dp_rf *dp_rf_parse(const char *lines, const char **bad);
void dp_rf_free(struct dp_rf *rf);

/* Take out the layouts to which no field of these lines leads. */
void dp_rf_drop_unused(char *lines);

#endif
