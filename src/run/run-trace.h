/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A trace of events: one session of some host, from its start until its last record is shown. The calls follow one
 * another in the order in which they stand here; events are added between dp_trace_open() and dp_trace_begin().
 */
#ifndef DP_RUN_TRACE_H
#define DP_RUN_TRACE_H

#include "host/any/any-host.h"
#include "log/format.h"
#include "log/reader.h"
#include "run/run-output.h"

struct dp_threads;

struct dp_trace {
	/* Set by the caller. */
	struct dp_output out;                                 /* open; its stop ends the trace, too */
	double seconds;                                       /* 0: no limit */
	void (*more)(const struct dp_record *rec, void *arg); /* what is shown behind a record; may be NULL */
	void *more_arg;

	struct dp_tracee tracee;
	struct dp_event_info *infos; /* by the session's index */
	struct dp_formatter *formatter;
	struct dp_reader *reader; /* NULL: not armed */
	struct dp_threads *threads;
	bool started, armed;
	u64 shown;     /* records handed out */
	double lasted; /* seconds */
};

/* As dp_tracee_open(). */
int dp_trace_open(struct dp_trace *t, pid_t pid, char *const command[], const struct dp_session_options *opt,
		  struct dp_error *err);

/* What formats must know of the events: infos, which the caller may change. */
int dp_trace_describe(struct dp_trace *t, struct dp_error *err);

/* The format; heads of columns are written before anything is armed: a full disk is best noticed here. */
int dp_trace_begin(struct dp_trace *t, enum dp_format format, bool color, struct dp_error *err);

int dp_trace_arm(struct dp_trace *t, struct dp_error *err);

/* Until stop, the end of the target, the time limit, or a failure to write (E_OUT_WRITE). */
int dp_trace_run(struct dp_trace *t, struct dp_error *err);

/* After the probes were removed: show what is left, and close the output. */
int dp_trace_end(struct dp_trace *t, struct dp_error *err);

/* Of an armed trace: records that found no room, and those that were recorded and not shown. */
void dp_trace_losses(const struct dp_trace *t, u64 *lost, u64 *unread);

/* Ends a program that was started and has not run an instruction of its own. */
void dp_trace_free(struct dp_trace *t);

/* ---- the summary: what became of every hit, and what the hits cost ---- */

struct dp_trace_row {
	char name[80];   /* the event's, where the user gave one; else "function+0x12", "<-function" for a return */
	const char *via; /* how hits come about: "jump", "trap", "exits", "exits+trap" */
	struct dp_counts counts;
	u64 hits;
	double cost_ns; /* an estimate */
};

/* A row for each event, and their sum in *total. NULL: no memory. */
struct dp_trace_row *dp_trace_rows(const struct dp_trace *t, struct dp_trace_row *total);

#endif
