/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The event lines of a command line: those given as arguments and those in files, in order. */
#ifndef DP_EVENTS_H
#define DP_EVENTS_H

#include "host/host.h"

struct event_line {
	char *text;
	char *where; /* "FILE:3: ", or "" for an argument */
	char *added; /* what is compiled in addition, behind so many characters of text; NULL: nothing */
	u32 added_at;
	bool optional;                /* left out when the program has nothing of that name */
	struct dp_event_line *parsed; /* NULL: it has a mistake, */
	struct dp_error err;          /* this one */
	u32 places;                   /* sessions that have taken it */
	bool ends;                    /* the trace, with its first hit */
	bool waits;                   /* for its module, which is loaded later */
};

struct event_lines {
	struct event_line *v;
	u32 n;
};

int dp_event_lines_add(struct event_lines *e, const char *text, const char *where, struct dp_error *err);

/* One event a line; empty lines and comments (#) are left out. "-": standard input. E_CMD_EVENTS.
 */
int dp_event_lines_read(struct event_lines *e, const char *path, struct dp_error *err);
/* For a program that is started without any event: the library calls by which it meets the world.
 */
int dp_event_lines_default(struct event_lines *e, struct dp_error *err);

/* All of them, once it is known where they are for. */
void dp_event_lines_parse(struct event_lines *e, bool is_kernel);

void dp_event_lines_free(struct event_lines *e);

#endif
