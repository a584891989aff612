/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reads a recording. Whoever made the file may have written anything into it: each block is checked as a whole, and
 * handed on as a copy that is sound. What follows something that makes no sense is left out, and told.
 */
#ifndef DP_RECORDING_READ_H
#define DP_RECORDING_READ_H

#include "base/error.h"
#include "log/recording.h"

struct dp_recording;
struct dp_rpn_probe;
struct dp_rpn_unit;

/* Reads all but the records. E_FILE_OPEN, E_REC_NONE, E_REC_VERSION, E_REC_MEMORY. */
int dp_recording_open(struct dp_recording **r, const char *path, struct dp_error *err);
void dp_recording_close(struct dp_recording *r);

struct dp_recording_info {
	struct dp_recording_head head;
	const struct dp_event_info *events;
	const struct dp_recording_row *rows; /* of events, none: the recording was not ended */
	u32 nevents, nrows, nsources;
	u32 nprograms, ntables;
	bool has_intervals;
	u64 lasted_ns;                     /* 0: not known */
	struct dp_recording_budget budget; /* .budget 0: there was none */
	const struct dp_recording_governed *governed;
	u32 ngoverned;
	u64 cut; /* bytes behind the last whole block */
};
void dp_recording_info(const struct dp_recording *r, struct dp_recording_info *info);

struct dp_recording_process {
	u32 pid; /* 0: the kernel; ~0: not known */
	u32 nmaps;
	char comm[16];
};
void dp_recording_process(const struct dp_recording *r, u32 source, struct dp_recording_process *p);
/* Map i < nmaps; its path may be any text. */
const char *dp_recording_map(const struct dp_recording *r, u32 source, u32 i, struct dp_recording_map *map);

/* Where records with an event's index come from. */
struct dp_recording_hit {
	struct dp_rpn_probe *probe; /* NULL: an event line that was not compiled */
	const struct dp_rpn_unit *unit;
	u64 offset;
};
const struct dp_recording_hit *dp_recording_hit(const struct dp_recording *r, u32 event);

/* Programs: their names, aggregates, and as their only probe the description of the first one. */
const struct dp_rpn_unit *dp_recording_program(const struct dp_recording *r, u32 program);

struct dp_recording_tables_read { /* the variables of a program in a process */
	u32 source, program;
	u32 only, taken_out; /* as in struct dp_recording_tables */
	bool ended;
	u64 *words; /* all of the program's */
};
/* Those that were there at the end: info's ntables. */
const struct dp_recording_tables_read *dp_recording_tables(const struct dp_recording *r);

struct dp_recording_ops {
	bool (*record)(void *arg, u32 source, const struct dp_record *rec); /* false: enough */
	void (*lost)(void *arg, u64 n);
	void (*printed)(void *arg, const struct dp_recording_tables_read *t); /* t->only is a table of its program */
	/* All that were there at this time (info.has_intervals). */
	void (*interval)(void *arg, u64 ns, const struct dp_recording_tables_read *v, u32 n);
};

/* The records in their order. E_REC_DAMAGED: all before that was handed on. E_REC_MEMORY. */
int dp_recording_play(struct dp_recording *r, const struct dp_recording_ops *ops, void *arg, struct dp_error *err);

/*
 * How many records at the end it has not handed on, though they are sound: the recording was not ended, and of other
 * processors older ones may be missing.
 */
u64 dp_recording_left_out(const struct dp_recording *r);

/* How far dp_recording_play() has come, in bytes, and of how many. */
void dp_recording_place(const struct dp_recording *r, u64 *done, u64 *total);

/* As formats ask for them, at this place of the recording. */
bool dp_recording_symbolize(const struct dp_recording *r, u32 source, u64 addr, char *buf, size_t size);
bool dp_recording_task(const struct dp_recording *r, u32 source, u32 *tid, char comm[16]);

#endif
