/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A trace of events: sessions of some host, one for each process, from its start until its last record is shown. The
 * calls follow one another in the order in which they stand here; events are added to a member behind dp_trace_open().
 */
#ifndef DP_RUN_TRACE_H
#define DP_RUN_TRACE_H

#include "host/any/any-host.h"
#include "log/format.h"
#include "log/recording.h"
#include "log/reader.h"
#include "run/run-drain.h"
#include "run/run-govern.h"
#include "run/run-output.h"
#include "run/run-chunks.h"
#include "run/run-keep.h"

struct dp_journal;
struct dp_merge;
struct dp_threads;

/* The file that is mapped at an address of the traced process: a dp_code_file_fn, but for the type of its argument. */
bool dp_tracee_code_file(const struct dp_tracee *t, u64 addr, struct dp_code_file *file);

/* Of the file that the rings of an armed session are, as processes that inherit them map it too; 0: they are none. */
u64 dp_tracee_rings_inode(const struct dp_tracee *t);

struct dp_trace_member { /* a process, or the kernel */
	struct dp_tracee tracee;
	u32 ends_from; /* probes from this one on end the trace; ~0: none does */
	u32 *events;   /* of its probes: which of the trace's events they are; NULL: not described yet */
	struct dp_drain drain;
	struct dp_reader *reader;     /* NULL: not armed, or put away */
	struct dp_governor *governor; /* NULL: there is no budget */
	struct dp_threads *threads;
	char comm[16];     /* of threads whose name nobody has seen; "": not known */
	u32 waiting;       /* records that wait for those of other members */
	u64 rings_inode;   /* of the rings, as children that inherit them map them */
	bool is_inherited; /* somebody does: set by look() */
	bool has_ended;    /* and its last record was read */
	bool is_needed;    /* the trace shows what this one has described */
	bool was_put_away;
	bool is_journaled; /* and armed: room in the rings is given back when the recording has their records */
	u64 lost;          /* losses that have been noted */
};

/* More hits in a second than a trace may have. */
struct dp_rate {
	u64 most;           /* 0: no limit */
	u64 begun_ns, hits; /* of the second */
};
bool dp_rate_exceeded(struct dp_rate *r, u64 hits, u64 now_ns);

struct dp_trace_place { /* where an event was described */
	u32 member, probe;
};

struct dp_trace_gone { /* of an event: of members that were put away */
	struct dp_counts counts;
	struct dp_governed governed; /* what the budget did there */
};

struct dp_trace {
	/* Set by the caller. */
	struct dp_output out;                                 /* open; its stop ends the trace, too */
	double seconds;                                       /* 0: no limit */
	u64 max_events;                                       /* 0: no limit */
	struct dp_rate rate;                                  /* E_TRACE_RATE */
	const char *path;                                     /* of formats that are a directory */
	struct dp_chunks *chunks;                             /* of a recording; NULL: it is one */
	const struct dp_graph_options *graph;                 /* may be NULL */
	const struct dp_keep_rule *rule;                      /* which requests are shown; NULL: all records are */
	void (*more)(const struct dp_record *rec, void *arg); /* what is shown behind a record; may be NULL */
	void *more_arg;
	u32 budget; /* of each process's time, for its hits; struct dp_govern_setup; 0: none */
	void (*note)(void *arg, const char *text);
	void (*last)(struct dp_trace *t, void *arg); /* behind the last record: may write more to out. May be NULL */
	void *last_arg;
	/* Called every look_ns: opens, with events, what has come since. Whether more may come. May be NULL */
	bool (*look)(struct dp_trace *t, void *arg);
	void *look_arg;
	u64 look_ns;
	/* Called after each drain; false ends the trace. May be NULL */
	bool (*turn)(struct dp_trace *t, void *arg);
	void *turn_arg;
	const struct dp_sink_ops *sink; /* takes the records in the place of the format; may be NULL */
	void *sink_arg;

	struct dp_trace_member **v;
	u32 n;
	size_t room, infos_room, places_room;
	struct dp_event_info *infos; /* of the trace's events */
	struct dp_trace_place *places;
	struct dp_trace_gone *gone; /* of the first ngone of them; NULL: no member was put away */
	u32 nevents, ngone;
	struct dp_formatter *formatter;
	struct dp_recording_env recording;
	struct dp_journal *journal;  /* of a recording, for a successor; NULL: there is none */
	u32 described;               /* events that the journal knows; ~0: they are to be told again */
	struct dp_keep *keep;        /* with a rule: requests that have not ended yet */
	struct dp_merge *merge;      /* NULL: there is one member only */
	struct dp_trace_member *now; /* whose record is shown */
	bool started, was_armed;
	u64 read;                       /* records that came out of the rings */
	u64 shown;                      /* of them, those that were shown */
	bool is_full;                   /* no record is shown any more: max_events, or one that ends the trace */
	u64 untold;                     /* losses of which the formatter does not know yet */
	bool looked;                    /* for them, in this drain, */
	u64 looked_ns;                  /* and when their counts were read */
	struct dp_govern_cost governed; /* of members that were put away */
	double lasted;                  /* seconds */
};

/* One member more, as dp_tracee_open(); on error there is none. */
int dp_trace_open(struct dp_trace *t, pid_t pid, char *const command[], const struct dp_session_options *opt,
		  struct dp_error *err);
/* The member that was opened last, and its end, where it cannot be used. Nothing may be armed in it. */
struct dp_trace_member *dp_trace_last(const struct dp_trace *t);
void dp_trace_drop_last(struct dp_trace *t);

/* What formats must know of the events of new members: infos, which the caller may change. */
int dp_trace_describe(struct dp_trace *t, struct dp_error *err);

/* The format; heads of columns are written before anything is armed: a full disk is best noticed here. */
int dp_trace_begin(struct dp_trace *t, enum dp_format format, bool color, struct dp_error *err);

/* A member that was described. */
int dp_trace_arm(struct dp_trace *t, struct dp_trace_member *m, struct dp_error *err);

/* Of a member that has ended, and whose records are shown: its counts stay. */
void dp_trace_put_away(struct dp_trace *t, struct dp_trace_member *m);

/*
 * Of members that were opened with `grows`: the probes of events that are meant are taken out of all of them, or put
 * back. E_ARM_CHANGE where that cannot be done.
 */
int dp_trace_pause(struct dp_trace *t, bool (*is_meant)(const struct dp_event_info *ev, const void *arg),
		   const void *arg, bool pause, struct dp_error *err);

/* run-commit.c: the journal of a recording; nothing where there can be none. */
void dp_trace_journal_open(struct dp_trace *t);
bool dp_trace_journal_add(struct dp_trace *t, u32 member); /* before it is armed. False: it is not journaled */
/* What was read is in the recording, and flushed. */
void dp_trace_journal_commit(struct dp_trace *t);
/* The recording has ended, or there will be none. */
void dp_trace_journal_close(struct dp_trace *t);

/* Adds what the member has lost since the last time to t->untold. */
void dp_trace_note_losses(struct dp_trace *t, struct dp_trace_member *m);

/* The process of a recording's source; p: what is mapped in it, or NULL; pid: ~0: not known. */
void dp_recording_put_process(struct dp_line *to, const struct dp_process *p, u32 pid, const char *comm);

/* What formats that record a trace ask of it. */
void dp_trace_recording_env(struct dp_trace *t);

/* Until stop, the end of all members or of the reader, a limit, or a failure to write (E_OUT_WRITE). */
int dp_trace_run(struct dp_trace *t, struct dp_error *err);

/* Take the probes out; the first failure. */
int dp_trace_remove(struct dp_trace *t, struct dp_error *err);

/* After that: show what is left, and close the output. E_OUT_WRITE, E_OUT_WHOLE. */
int dp_trace_end(struct dp_trace *t, struct dp_error *err);

/* When anything was armed: records that found no room, and those that were recorded and not read. */
void dp_trace_losses(const struct dp_trace *t, u64 *lost, u64 *unread);
/* For each event the sum of its counts over all members. NULL: no memory; free() it. */
struct dp_counts *dp_trace_counts(const struct dp_trace *t);

/* Ends a program that was started and has not run an instruction of its own. */
void dp_trace_free(struct dp_trace *t);

/* ---- the summary: what became of every hit, and what the hits cost ---- */

struct dp_trace_way {     /* how a program runs where it is */
	bool interpreted; /* it is not compiled */
	bool needs_slot;  /* of the thread's: it is not plain (lower.h) */
	bool loads;       /* most of the memory that it reads */
};

static inline struct dp_trace_way dp_trace_way_of(const struct dp_probe_info *info)
{
	return (struct dp_trace_way){info->ncompiled != info->nsites, info->nplain != info->nsites, info->loads};
}

struct dp_trace_row {
	char name[80];   /* the event's, where the user gave one; else "function+0x12", "<-function" for a return */
	const char *via; /* how hits come about: "jump", "trap", "exits", "exits+trap" */
	struct dp_counts counts;
	u64 hits;
	bool interpreted;            /* its program is not compiled */
	double run_ns, filtered_ns;  /* of a run, and of one that records nothing: beyond what each run takes */
	double cost_ns;              /* an estimate */
	struct dp_governed governed; /* by the budget */
};

/*
 * A row for each event, n of them, and their sum in *total. Where more than `quiet` were never hit, and no budget was
 * held, these have none. NULL: no memory. dp_free() it.
 */
struct dp_trace_row *dp_trace_rows(const struct dp_trace *t, u32 quiet, u32 *n, struct dp_trace_row *total);

/* As a recording has it. */
void dp_trace_put_row(const struct dp_trace_row *row, struct dp_line *to);

/* What the hits of all processes with a budget have cost. */
void dp_trace_govern_cost(const struct dp_trace *t, struct dp_govern_cost *sum);

/* run-cost.c */
/* Of one row: hits and cost_ns, from all else. Adds it to the sum. */
void dp_trace_row_finish(struct dp_trace_row *row, struct dp_trace_row *total);
/* This is the program of the row, or one of its programs; what all hits of the row have cost. */
void dp_trace_row_program(struct dp_trace_row *row, const struct dp_program *prog, struct dp_trace_way way);
double dp_trace_cost_ns(const struct dp_trace_row *row);
const char *dp_trace_row_via(const struct dp_probe_info *info);

#endif
