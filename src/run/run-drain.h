/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The rings of one session, read again and again: for a trace of events as for each target of a run. */
#ifndef DP_RUN_DRAIN_H
#define DP_RUN_DRAIN_H

#include "host/any/any-host.h"
#include "log/reader.h"

struct dp_drain { /* begins with zeroes */
	u64 tended_ns;
	u64 rest_ns;  /* until the next turn: the longer the less there is to do, and not at all when rings fill up */
	u64 due_ns;   /* when that is over */
	u32 sessions; /* that are read in turn; the caller's */
	/* The caller's: where so much comes that a drain takes long, it is called within it, too. NULL: nothing is. */
	void (*often)(void *arg);
	void *often_arg;
};

/* Hands on what the rings have now, and tends the session where that is due. Returns the number of records. */
int dp_drain_turn(struct dp_drain *d, struct dp_tracee *session, struct dp_reader *reader,
		  void (*fn)(const struct dp_record *rec, u64 ns, void *arg), void *arg);

/* The same with parts of rings as they are. */
void dp_drain_parts(struct dp_drain *d, struct dp_tracee *session, struct dp_reader *reader,
		    void (*fn)(struct dp_reader_part *part, void *arg), void *arg);

#endif
