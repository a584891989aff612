/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Numbers as people read them: "1.23ms", "64KiB"; and how wide their lines may be. */
#ifndef DP_LOG_HUMAN_H
#define DP_LOG_HUMAN_H

#include "lang/rpn/rpn.h"

/* What the command line, or a request, and the terminal say of it. Set before anything is shown. */
struct dp_human {
	bool raw_units; /* --raw-units: whole numbers, of nanoseconds and of bytes */
	u32 columns;    /* of the terminal; 0: there is none */
};
extern struct dp_human dp_human;

/* Three digits and a unit; of no unit, or with raw_units, the whole number. */
void dp_human_number(enum dp_rpn_unit_kind unit, double v, char *buf, size_t size);

/* "1.23ms"; a whole number of nanoseconds with raw_units. */
void dp_human_duration(double ns, char *buf, size_t size);

/* Three digits and k, M, G, T, the steps being 1000; with raw_units the whole number. */
void dp_human_count(double v, char *buf, size_t size);

/* Columns for a bar behind so many of the line. */
u32 dp_human_bar(u32 before);

#endif
