/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Output formats: which there are, and events in one of them; doc/output.md describes them. Records come from memory
 * that the probed program can overwrite, so every offset in them is checked.
 */
#ifndef DP_FORMAT_H
#define DP_FORMAT_H

#include <stdio.h>
#include <sys/types.h>

#include "log/symbol.h"
#include "program/program.h"

struct dp_reader_part;
struct dp_record;
struct dp_recording_env;
struct dp_sink_ops;
struct dp_rpn_context;
struct dp_rpn_unit;
struct dp_agg_view;

enum dp_format {
#define DP_FORMAT(id, name, events, programs, help) DP_FORMAT_##id,
#define DP_EVENT_FORMAT(id, name, events, help) DP_FORMAT_##id,
#define DP_WHOLE_FORMAT(id, name, events, help) DP_FORMAT_##id,
#include "log/formats.def"
#undef DP_WHOLE_FORMAT
#undef DP_EVENT_FORMAT
#undef DP_FORMAT
	DP_NFORMATS
};

/* By its name; false: there is none. */
bool dp_format_find(const char *name, enum dp_format *format);
const char *dp_format_name(enum dp_format format);

const struct dp_sink_ops *dp_format_of_programs(enum dp_format format); /* NULL: it is one of events only */
const struct dp_sink_ops *dp_format_of_events(enum dp_format format);   /* NULL: it cannot show programs' records */
const char *dp_format_missing(enum dp_format format);     /* why it cannot be written here; NULL: it can */
const char *dp_format_ctf_writer(void);                   /* the version of what writes CTF; NULL: nothing does */
bool dp_format_is_directory(enum dp_format format);       /* needs dp_format_env.path */
bool dp_format_takes_min(enum dp_format format);          /* dp_graph_options.min_ns has an effect on it */
bool dp_format_is_whole(enum dp_format format);           /* see dp_formatter_program() */
bool dp_format_takes_tables_again(enum dp_format format); /* of one that is whole: not at the end alone */

/* What the formatter must know of one event; index = dp_record.event. */
struct dp_event_info {
	const char *group;
	const char *name;   /* given by the user; "" or NULL: none was given */
	const char *symbol; /* "lookupCommand" */
	u64 offset;         /* from the symbol */
	bool is_return;
	const struct dp_layout *layout;
	u64 function; /* address of the function's entry, where the event is at its entry or return */
};

/* Which calls are shown. */
struct dp_graph_options {
	u64 min_ns;       /* calls that took at least so long, and those around them; see dp_format_takes_min() */
	u32 depth;        /* at most so many, one within the other; 0: all */
	const char *only; /* within calls of this function; NULL: all */
	bool summary;     /* of a tree: at the end a table of functions instead */
};

struct dp_format_env {
	const struct dp_event_info *events;
	u32 nevents;
	const struct dp_event_info *described; /* of programs, whose records tell which they are; may be NULL */
	u32 ndescribed;
	dp_symbolize_fn *symbolize; /* may be NULL */
	dp_code_file_fn *code_file; /* may be NULL */
	/* Find a thread's name by the id that the target knows, and turn that into the id by which we
	 * know it; false when it is gone. NULL: /proc/TID/comm. */
	bool (*comm)(void *arg, u32 *tid, char buf[16]);
	void *arg;      /* for symbolize and code_file */
	void *comm_arg; /* for comm */
	bool recorded;  /* /proc knows nothing of these threads */
	bool color;
	u32 pid;                              /* of the traced process; 0: none */
	const char *path;                     /* of formats that are a directory; NULL: none was named */
	const struct dp_graph_options *graph; /* NULL: a tree of all calls */
	const struct dp_sink_ops *sink;       /* takes the records in the place of the format's; NULL: that one */
	void *sink_arg;
	const struct dp_recording_env *recording; /* what is known of the trace; may be NULL */
};

struct dp_formatter;

int dp_formatter_new(struct dp_formatter **f, enum dp_format format, FILE *out, const struct dp_format_env *env);
void dp_formatter_free(struct dp_formatter *f);

/* The heads of columns, in formats that have some. */
void dp_formatter_head(struct dp_formatter *f);

/* One record. Task names are looked up in /proc by thread and cached. A failure to write shows
 * in ferror() of the stream. */
void dp_formatter_record(struct dp_formatter *f, const struct dp_record *rec, u64 ns);

/*
 * Instead: a part of a ring as it is (log/reader.h), in a format that can be told so. Records of no event become filler
 * there. Only what stands beside records is made of them: names of threads, and of addresses where events have some.
 */
bool dp_formatter_takes_parts(const struct dp_formatter *f);
void dp_formatter_part(struct dp_formatter *f, struct dp_reader_part *part);

/* When what was put has happened, by CLOCK_MONOTONIC. until 0: there was nothing. */
struct dp_time_span {
	u64 since, until;
};

enum dp_time_of {
	DP_TIME_HITS, /* records of hits, by their own time */
	DP_TIME_ALL,  /* these, and what is told by our clock: records of bodies, tables before the end */
	DP_NTIMES
};

/* Of what was put since this was asked last. */
void dp_formatter_times(struct dp_formatter *f, struct dp_time_span spans[DP_NTIMES]);

/* So many more records were lost about here. */
void dp_formatter_lost(struct dp_formatter *f, u64 n);

/* Tables that come from now on until the next commit are what there is at this time, and not the last ones. */
void dp_formatter_interval(struct dp_formatter *f, u64 ns);

/* The log was read as far as it went: formats that keep records together write them. */
void dp_formatter_commit(struct dp_formatter *f);

/* Behind the last record. Returns what went wrong in making the output; NULL: nothing. */
const char *dp_formatter_finish(struct dp_formatter *f);

/* A thread's name, from /proc; false when it is gone. */
bool dp_task_comm(u32 tid, char comm[16]);

/*
 * The records that follow come from this process: ids of threads are its own. comm: its name, for threads that have
 * ended before anybody looked; "": not known. pid: its id, for the same; 0: not known.
 */
void dp_formatter_source(struct dp_formatter *f, u32 source, u32 pid, const char *comm);

bool dp_format_takes_programs(enum dp_format format); /* it is whole, or a recording: see below */

/*
 * Of such a format, instead: a record of a probe program, and what the program's local variables add up to. Both are
 * kept until the end, or go into the recording.
 */
void dp_formatter_program(struct dp_formatter *f, const struct dp_record *rec, const struct dp_rpn_context *c);
void dp_formatter_aggregates(struct dp_formatter *f, const struct dp_rpn_unit *u, volatile const u64 *words,
			     const struct dp_agg_view *view);
/* Of these an aggregate was printed while the programs ran. Only recordings have a place for it. */
void dp_formatter_print(struct dp_formatter *f, const struct dp_rpn_unit *u, volatile const u64 *words, u32 index,
			const struct dp_agg_view *view);

/* There are more events now, the first ones unchanged. */
void dp_formatter_events(struct dp_formatter *f, const struct dp_event_info *events, u32 n);

#endif
