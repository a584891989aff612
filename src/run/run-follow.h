/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Processes that join a trace while it runs: those that map a file, and what the traced ones start. */
#ifndef DP_RUN_FOLLOW_H
#define DP_RUN_FOLLOW_H

#include "run/run-select.h"
#include "run/run-trace.h"

struct dp_tried;

struct dp_follow_run {
	const struct dp_select *select;
	bool join; /* else those that could are only counted */
	/* Opens one process more, with its events, and arms it. */
	int (*open)(struct dp_trace *t, pid_t pid, void *arg);
	void *arg;

	bool has_looked;      /* those that ran before are not counted */
	struct dp_pids known; /* of the trees, as far as they are alive */
	u64 *began;           /* when each of them did */
	size_t room_began;
	struct dp_tried *tried; /* that could not join, or were only counted */
	u32 ntried;
	u32 joined, strangers; /* late ones; those that run something else, without probes */
};

/* The processes of the trace so far. False: no memory. */
bool dp_follow_start(struct dp_follow_run *f, const struct dp_trace *t);

/* For dp_trace.look: arg is the struct dp_follow_run. */
bool dp_follow_look(struct dp_trace *t, void *arg);

void dp_follow_free(struct dp_follow_run *f);

#endif
