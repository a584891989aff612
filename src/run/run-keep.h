/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Keeps the records of those requests that turn out to be wanted. A request is a call of one function; the records of
 * its thread wait here from its entry on until it returns, and are then shown or passed over as a condition says.
 * Knows nothing of formats and of hosts.
 */
#ifndef DP_RUN_KEEP_H
#define DP_RUN_KEEP_H

#include <string.h>

#include "log/format.h"

#define DP_KEEP_GROUP "keep_if"  /* the group of the events at entry and return of the function */
#define DP_KEEP_BYTES (1u << 20) /* of the records of one request, at most: the oldest go */
#define DP_KEEP_NODES 64u

/* A condition: nodes, each of which comes behind its operands; the last one is the condition. */
enum dp_keep_op {
	DP_KEEP_LT,
	DP_KEEP_LE,
	DP_KEEP_GT,
	DP_KEEP_GE,
	DP_KEEP_EQ,
	DP_KEEP_NE,
	DP_KEEP_AND,
	DP_KEEP_OR,
	DP_KEEP_NOT
};

struct dp_keep_node {
	enum dp_keep_op op;
	u8 a, b;       /* and, or, not: the operands' nodes */
	bool duration; /* of a comparison: the duration in nanoseconds, or else the value that is returned */
	bool is_signed;
	u8 bytes; /* of that value */
	s64 value;
};

struct dp_keep_rule {
	struct dp_keep_node v[DP_KEEP_NODES];
	u32 n;           /* 0: there is no rule */
	bool outside;    /* records of threads that are in no request are shown */
	bool unfinished; /* and requests of which no return was seen */
	bool asks;       /* nothing waits, all is shown: of requests that meet the condition it is only told */
};

struct dp_keep_counts {
	u64 kept, passed, passed_records; /* requests, and records in them */
	u64 unfinished;                   /* requests; kept or passed over as the rule says, and counted there, too */
	u64 outside;                      /* records that were passed over */
	u64 cut;                          /* records that were dropped, since their request had too many */
};

/* Records of one event that were not shown: with their request, or for want of room. */
struct dp_keep_event {
	u64 passed, lost;
};

/* A record that comes: whose it is, and what it is of. */
struct dp_keep_hit {
	u32 source;  /* as show gets it */
	u32 process; /* whose threads have numbers of their own */
	u32 event;   /* which show finds in its record */
	bool is_mark, is_return;
	u64 sp, value; /* of a mark; value: of one that is a return */
};

/* Of the event in whose group the mark is. */
static inline bool dp_keep_is_mark(const char *group)
{
	return group && !strcmp(group, DP_KEEP_GROUP);
}

struct dp_keep;

struct dp_keep_ops {
	/* What is kept, request by request. */
	void (*show)(void *arg, u32 source, const struct dp_record *rec, u64 ns);
	/* Of a rule that asks: a request that meets it. */
	void (*met)(void *arg);
	/* A record that is not shown, or for which there was no room. NULL: they are counted, see dp_keep_event(). */
	void (*left)(void *arg, u32 event, bool lost);
};

/* NULL: no memory. The rule and the functions stay the caller's. */
struct dp_keep *dp_keep_new(const struct dp_keep_rule *rule, const struct dp_keep_ops *ops, void *arg);
void dp_keep_free(struct dp_keep *k);

/* The next record. */
void dp_keep_take(struct dp_keep *k, const struct dp_keep_hit *hit, const struct dp_record *rec, u64 ns);
/* Behind the last one of a source whose requests these are; ~0: of all. Nothing, where k is NULL. */
void dp_keep_end(struct dp_keep *k, u32 source);
void dp_keep_counts(const struct dp_keep *k, struct dp_keep_counts *out);
/* By dp_keep_hit.event. Nothing, where k is NULL. */
struct dp_keep_event dp_keep_event(const struct dp_keep *k, u32 event);

#endif
