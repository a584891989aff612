/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Calls by function and by caller: how many, and how long they took. */
#ifndef DP_GRAPH_TABLE_H
#define DP_GRAPH_TABLE_H

#include "log/stacks.h"

struct dp_graph_row {
	u64 calls, total, self, longest; /* total: of calls that are not within another one of the function */
};

struct dp_graph_table {
	struct dp_stacks names;    /* below the root: functions; below them: their callers */
	struct dp_graph_row *rows; /* by node */
	size_t nrows, room;
};

bool dp_graph_table_init(struct dp_graph_table *t);
void dp_graph_table_free(struct dp_graph_table *t);

/*
 * A call that has ended: outer[depth]. functions: their names, by event; outside: the caller of calls that have none
 * around them.
 */
void dp_graph_table_add(struct dp_graph_table *t, const struct dp_event_info *functions, const struct dp_call *outer,
			u32 depth, u64 ns, const char *outside);

/* One call more of a function by a caller, both by the numbers of their names. */
void dp_graph_table_count(struct dp_graph_table *t, u32 function, u32 caller);

void dp_graph_table_put(struct dp_line *l, const struct dp_graph_table *t);

/* "  2.405 us", eleven columns; with --raw-units nanoseconds */
void dp_graph_duration(struct dp_line *l, u64 ns);

#endif
