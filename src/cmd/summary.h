/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The table that is printed when tracing ends: what became of every hit, and what the hits cost. */
#ifndef DP_SUMMARY_H
#define DP_SUMMARY_H

#include <stdio.h>

#include "abi/abi-ring.h"
#include "host/host.h"

struct summary_row {
	char name[80];   /* of the event, or its place */
	const char *via; /* jump, trap, exits */
	bool compiled;   /* the program runs as machine code */
	struct dp_counts counts;
};

/* How the hits of a probe come about: "jump", "trap", "exits", "exits+trap". */
const char *dp_summary_via(const struct dp_probe_info *info);

/* The event's name, where the user gave one; else "function+0x12", "<-function" for a return. */
void dp_summary_name(const struct dp_probe_info *info, char *buf, size_t size);

u64 dp_summary_hits(const struct dp_counts *c);

/* Rows are sorted when there are too many to show all. seconds: how long the probes were in place.
 */
void dp_summary_print(FILE *to, struct summary_row *rows, u32 n, double seconds);

#endif
