/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Puts entries and returns of functions together to calls, thread by thread. Where events have an argument "sp=%sp" the
 * stack pointer decides: it is the same at the entry of a call and at its return, and a call below it is over, even
 * if no return was seen (exceptions, longjmp()). A thread may have several stacks: those of signal handlers, of
 * coroutines. Without it the last open call of the function returns. Knows nothing of formats.
 */
#ifndef DP_LOG_CALLS_H
#define DP_LOG_CALLS_H

#include "log/format.h"
#include "log/sink.h"

enum dp_call_end {
	DP_CALL_RETURNED,
	DP_CALL_LEFT, /* it is over, but no return was seen */
	DP_CALL_OPEN, /* it goes on at the end of the trace */
};

struct dp_call {
	u64 function; /* address of its entry */
	u64 sp;       /* 0: not known */
	u64 begin_ns;
	u64 inner_ns; /* spent in calls below it that have ended */
	u32 event;    /* of its entry */
	u32 stack;    /* calls on one stack have one number */
	bool lost;    /* while it was open records were lost: what is below it is not whole */
	bool brief;   /* it has ended, after less than dp_graph_options.min_ns: its time is its caller's own */
	bool shown;   /* the user's, and */
	u32 node;     /* this, */
	void *text;   /* and this */
};

struct dp_calls_ops {
	/* parent: NULL for the outermost; depth: calls around it. */
	void (*enter)(void *arg, u32 tid, struct dp_call *c, const struct dp_call *parent, u32 depth);
	/* outer: the open calls, this one is outer[depth]. */
	void (*leave)(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how);
};

/* What a record is: one of a function both of whose ends are traced, or any other. */
enum dp_call_role {
	DP_CALL_POINT,
	DP_CALL_ENTRY,
	DP_CALL_RETURN,
	DP_CALL_ORPHAN, /* a return whose entry was not seen */
};

struct dp_calls;

/* NULL: no memory. The events of env stay as they are meanwhile. */
struct dp_calls *dp_calls_new(const struct dp_format_env *env, const struct dp_calls_ops *ops, void *arg);
void dp_calls_free(struct dp_calls *c); /* may be NULL; calls nothing */

/* Of all events: whether entry and return of some function are among them. */
bool dp_calls_any(const struct dp_calls *c);

/* One record; leave and enter are called for what follows from it. */
enum dp_call_role dp_calls_take(struct dp_calls *c, const struct dp_sink_record *r);

/* The call that the thread is in; NULL: none. */
struct dp_call *dp_calls_innermost(struct dp_calls *c, u32 tid);

/* All calls that are known. */
void dp_calls_each(struct dp_calls *c, void (*fn)(void *arg, struct dp_call *call), void *arg);

/* Records were lost somewhere before the next one. */
void dp_calls_lost(struct dp_calls *c);

/* The end of the trace: leave is called for whatever is open. */
void dp_calls_end(struct dp_calls *c);

/* Calls whose memory was missing are not known; their number. */
u64 dp_calls_dropped(const struct dp_calls *c);

#endif
