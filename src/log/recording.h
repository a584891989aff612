/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A recording (.dpt): records of events as they are, with all that is needed to show them elsewhere. A head, then
 * blocks, which follow in the order in which things happened; each is whole when it is written, so that a file which
 * ends anywhere can be read up to there. Little endian, everything on 8 bytes. doc/recording.md describes it.
 */
#ifndef DP_RECORDING_H
#define DP_RECORDING_H

#include "abi/abi-ring.h"
#include "log/format.h"
#include "log/line.h"

#define DP_RECORDING_MAGIC 0x0a316365727064d0ull /* "\xd0dprec1\n" */
#define DP_RECORDING_VERSION 1
#define DP_RECORDING_VERSION_PROGRAMS 2 /* the same, with records of probe programs, which the first one did not have */
#define DP_RECORDING_VERSION_RINGS 3    /* 1, with parts of rings, which the others do not have */
#define DP_RECORDING_BLOCK 0x6b6c6270u  /* "pblk" */
#define DP_RECORDING_BLOCK_MAX (16u << 20)
#define DP_RECORDING_EVENTS (1u << 20)
#define DP_RECORDING_SOURCES (1u << 20)
#define DP_RECORDING_TEXT 4096 /* bytes of one name, its NUL included */
#define DP_RECORDING_PROGRAMS 4096u
#define DP_RECORDING_WORDS (1u << 25) /* of all tables that are kept until the end */

struct dp_recording_head {
	u64 magic;
	u32 version;
	u32 size;             /* of this head: what follows it is skipped up to there */
	u64 mono_ns, real_ns; /* one moment by CLOCK_MONOTONIC, which all stamps are of, and by CLOCK_REALTIME */
	char system[64], release[64], machine[64], host[64]; /* as uname() tells */
};

struct dp_recording_block {
	u32 magic;
	u32 kind;   /* enum dp_recording_kind; others are skipped */
	u32 source; /* the process that it is about; 0 where it is about none */
	u32 size;   /* bytes that follow, a multiple of 8 */
};

enum dp_recording_kind {
	DP_RECORDING_EVENT = 1, /* struct dp_recording_event, then fields, then texts; indexes count up from 0 */
	DP_RECORDING_SOURCE,    /* struct dp_recording_source, then struct dp_recording_map, each with its text */
	DP_RECORDING_TASK,      /* struct dp_recording_task: the name of a thread from here on */
	DP_RECORDING_NAME,      /* struct dp_recording_name and its text: what an address is called */
	DP_RECORDING_DATA,      /* struct dp_record; event: the index above, tsc: nanoseconds */
	DP_RECORDING_LOST,      /* u64: so many records were lost about here */
	DP_RECORDING_ROWS,      /* struct dp_recording_row: what became of each event's hits */
	DP_RECORDING_END,       /* struct dp_recording_end: behind it comes nothing */
	DP_RECORDING_BUDGET,    /* struct dp_recording_budget, then struct dp_recording_governed */
	DP_RECORDING_PROGRAM,   /* struct dp_recording_program, then its aggregates, then texts; indexes count from 0 */
	DP_RECORDING_PROBE,     /* struct dp_recording_probe and its text; indexes are those of events */
	DP_RECORDING_TABLES,    /* struct dp_recording_tables, then struct dp_recording_run, each with its words */
	DP_RECORDING_INTERVAL,  /* u64: the tables before it were what there was at this time, and are not the last */
	DP_RECORDING_RING,      /* struct dp_recording_ring, then records as in DATA, of one ring; none: a turn ends */
};

/* A text stands behind what it belongs to, with a NUL, filled up to 8 bytes; sizes count the NUL. */
struct dp_recording_event {
	u32 index;
	u8 is_return, has_faultmask, has_ret_addr, pad;
	u64 offset, function;
	u16 fixed_size, nfields;
	u16 group, name, symbol; /* sizes of the three texts */
	u16 pad2;
};

struct dp_recording_source {
	u32 pid; /* 0: the kernel; ~0: not known any more */
	u32 nmaps;
	char comm[16];
};

struct dp_recording_map { /* a file with code in it */
	u64 lo, hi, bias;
	char build_id[64]; /* in hexadecimal */
	u32 path;          /* size of its text */
	u32 pad;
};

struct dp_recording_task {
	u32 tid;  /* as records have it */
	u32 ours; /* as the recorder knew it */
	char comm[16];
};

struct dp_recording_name {
	u64 addr;
	u32 text; /* its size; 1: it has no name */
	u32 pad;
};

struct dp_recording_ring { /* times in nanoseconds, as those of the records */
	u32 ring, n;       /* records */
	u64 known;         /* nothing that comes is older, this block included, but of hits that were under way */
	u64 since, until;  /* the least and the largest of the records' times */
};

struct dp_recording_row {
	struct dp_counts counts;
	u64 hits;
	double cost_ns;
	char via[16];
	char name[80];
};

struct dp_recording_budget {
	u64 budget; /* in 0.01 % of the processor time */
	u64 hits, cpu_ns;
	double cost_ns; /* of all hits */
};

struct dp_recording_governed { /* of a row whose probes were taken out */
	u32 row, times;
	u64 out_ns, of_ns;
	double missed; /* hits meanwhile, by the rate before */
};

struct dp_recording_end {
	u64 lasted_ns;
};

/* ---- lines that are compiled to probe programs ---- */

/*
 * What a program (lang/rpn/rpn.h) says of its records and variables, without its code. The description is that of its
 * first probe, "layout = ..." and "field = ..."; size 1: there is none.
 */
struct dp_recording_program {
	u32 index;
	u32 id, modtype, nlocals;
	u32 naggregates; /* struct dp_rpn_aggregate */
	u32 aggregate;   /* its size */
	u32 name, description;
};

/* A probe of it, or a body; records have its index as that of an event. */
struct dp_recording_probe {
	u32 index, program;
	u64 offset;
	u32 description, pad;
};

/* What the program's local variables are in the process, but for those that are 0. */
struct dp_recording_tables {
	u32 program;
	u32 number;    /* 0: the first of all that are told together; those that were told before count no more */
	u32 only;      /* the index of an aggregate that was printed here; ~0: what it came to in the end */
	u32 taken_out; /* of its probes, to keep a budget, by then */
	u32 ended;     /* the process */
	u32 nruns;
};

struct dp_recording_run { /* of words that follow one another */
	u32 first, n;
};

/* ---- what a sink does not know of a trace ---- */

struct dp_recording_env {
	void *arg;
	void (*source)(void *arg, u32 source, struct dp_line *to); /* struct dp_recording_source and what follows it */
	void (*rows)(void *arg, struct dp_line *to);               /* struct dp_recording_row, one for each event */
	u64 (*lasted_ns)(void *arg);
	const struct dp_recording_head *head; /* of a recording that is shown; NULL: of this machine, now */
	/* struct dp_recording_budget and what follows it; nothing: there was no budget. May be NULL. */
	void (*budget)(void *arg, struct dp_line *to);
	bool of_programs; /* the records are of programs: a source is the id of a process */
	bool has_rings;   /* there may be parts of rings (dp_formatter_ring()) */
};

/* Where and when. env may be NULL. */
void dp_recording_head_of(const struct dp_recording_env *env, struct dp_recording_head *h);

/* A text as it stands in a file: cut to DP_RECORDING_TEXT; and its size there. */
void dp_recording_put_text(struct dp_line *l, const char *text);
u32 dp_recording_text_size(const char *text);

#endif
