/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Rows of event lines, from a run of the programs that they were compiled to: times are added up at the hits. */
#ifndef DP_TOP_EVENTS_H
#define DP_TOP_EVENTS_H

#include "run/run.h"
#include "top/top.h"

/* Whether a text is an event line, and no pattern of functions. */
bool dp_top_is_line(const char *text);

/*
 * What keeps the times of a line's calls, to be inserted at *at, where it shows returns and has no table of its own; ""
 * otherwise. number tells it from other lines. NULL: no memory. free() it.
 */
char *dp_top_addition(const char *text, u32 number, u32 *at);

struct dp_top_events {
	struct dp_run *run;
	char *const *lines; /* as the user has them */
	u32 nlines;
};
struct dp_top_source dp_top_events_source(struct dp_top_events *e);

#endif
