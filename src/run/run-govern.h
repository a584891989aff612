/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The governor of a session with a budget: it knows what hits cost and how much processor time the process uses, asks
 * the judge (budget.h) at each turn, and takes probes out of the code and brings them back.
 */
#ifndef DP_RUN_GOVERN_H
#define DP_RUN_GOVERN_H

#include "host/any/any-host.h"
#include "log/reader.h"

#define DP_BUDGET_UNIT 10000.0 /* budgets are kept as whole numbers: 1 is 0.01 % */

struct dp_governed {   /* what a budget has done to a probe, or to some of them */
	u32 probes;    /* that were taken out, in all processes */
	u32 times;     /* of taking out */
	u64 out_ns;    /* time out of the code, */
	u64 of_ns;     /* of this time */
	double missed; /* hits meanwhile: an estimate by the rate before */
};

struct dp_govern_cost { /* of all governed probes */
	double cost_ns; /* estimated */
	u64 hits, cpu_ns;
};

struct dp_govern_setup {
	u32 budget; /* in DP_BUDGET_UNITs of the processor time */
	struct dp_tracee *tracee;
	struct dp_reader *reader;
	/* Of which probes, and which go together beside those that must; may be NULL: all, and no others. */
	bool (*has)(void *arg, u32 probe);
	void (*join)(void *arg, u32 *group);
	/* The processes that have the probes, to be freed; NULL: the host looks at all that there are. */
	u32 (*processes)(void *arg, pid_t **pids);
	void *arg;
	void (*note)(void *arg, const char *text); /* may be NULL */
	void *note_arg;
};

struct dp_governor;

/* Of an armed session. NULL: no memory, or nothing that can be taken out. */
struct dp_governor *dp_governor_new(const struct dp_govern_setup *setup);

/* As often as there is time: does something ten times a second at most. */
void dp_governor_turn(struct dp_governor *g);
/* The last turn: the probes are about to go. */
void dp_governor_end(struct dp_governor *g);
void dp_governor_free(struct dp_governor *g);

bool dp_governor_is_out(const struct dp_governor *g, u32 probe);
/* Adds what was done to a probe; what all have cost. NULL: nothing. */
void dp_governor_add(const struct dp_governor *g, u32 probe, struct dp_governed *sum);
void dp_governor_add_cost(const struct dp_governor *g, struct dp_govern_cost *sum);

/* "taken out 3 times, 41.2 s of 60.0 s, about 1,200,000 hits passed over" */
void dp_governed_text(const struct dp_governed *s, char *buf, size_t size);
void dp_governed_sum(struct dp_governed *to, const struct dp_governed *add);

#endif
