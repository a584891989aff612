/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a recorder notes beside the records of its sessions (host/process/record.h), in the same directory, for whoever
 * comes after it should it be killed: where the recording is, how much of it there is, and which rings go on from
 * there. Files of one recorder begin with the same name:
 *
 *   .recording-OWNER-STARTED        the journal
 *   .recording-OWNER-STARTED.head   a recording without records: all events, and how their hits come about
 *   .recording-OWNER-STARTED.N      a chunk of a flight recorder (run-chunks.h)
 *   .recording-OWNER-STARTED.state  of programs: a directory with all that goes on in processes (run-state.c)
 *
 * As with the driver's log (dp_reader_keep()) room in the rings is given back only when the recording has the records,
 * so each record is in the recording as the journal has it, or in the rings.
 */
#ifndef DP_RUN_JOURNAL_H
#define DP_RUN_JOURNAL_H

#include <limits.h>
#include <sys/types.h>

#include "base/base.h"

#define DP_JOURNAL_MEMBERS 4096u /* of a trace: those behind are not journaled */

struct dp_journal_point {
	u64 size;        /* of the file or, of a flight recorder, the last chunk */
	u64 dev, inode;  /* of the file; 0, 0: it is to be made */
	u32 number;      /* of the file among those of the recording */
	u32 first, last; /* chunks */
	u32 rotates;     /* another file comes behind this one, without records before there is a point in it */
	u64 tsc, ns;     /* one moment by both clocks */
};

struct dp_journal_head {
	u64 magic;
	u32 abi, size;
	char boot[40];
	u64 pid_namespace;
	s32 owner;
	u32 in_memory; /* a flight recorder */
	u64 owner_started;
	u64 begun_ns;           /* of programs, else 0: CLOCK_MONOTONIC at the beginning */
	u64 dir_dev, dir_inode; /* of the directory that the path leads to */
	u64 epoch;              /* which of the points counts: its lowest bit */
	struct dp_journal_point point[2];
	u32 nmembers;
	u32 saved; /* by successors: members */
	char path[PATH_MAX];
};

struct dp_journal_member {
	s32 pid;
	u32 nevents;
	u64 started;
	u64 events_at; /* in the file: for each of its probes, which of the recording's events it is */
	u64 lost[2];   /* losses that the recording has, at each point */
	u32 done;      /* a successor has saved what was left */
	u32 pad;
};

#define DP_JOURNAL_MEMBERS_AT 8192u
#define DP_JOURNAL_EVENTS_AT (DP_JOURNAL_MEMBERS_AT + DP_JOURNAL_MEMBERS * sizeof(struct dp_journal_member))
_Static_assert(sizeof(struct dp_journal_head) <= DP_JOURNAL_MEMBERS_AT, "the head has two pages");

struct dp_journal;

/* ---- the recorder's own ---- */

struct dp_output;

/* Of a recording in the file of that path. NULL: there is no room for it. */
struct dp_journal *dp_journal_open(const char *path, bool in_memory);
/* The recording is of programs: that directory, which the caller makes, goes with the journal. */
void dp_journal_of_programs(struct dp_journal *j, char *dir, size_t size);
/* A recording without records. */
void dp_journal_describe(struct dp_journal *j, const void *bytes, size_t n);
/* A process that is going to be probed; events: of each probe, which of the recording's it is. False: no room. */
bool dp_journal_add(struct dp_journal *j, u32 index, pid_t pid, const u32 *events, u32 nevents);
/* The point that is to be filled in, for its members, too, and what the rings are told of it; then it counts. */
struct dp_journal_point *dp_journal_next(struct dp_journal *j, u64 *epoch);
void dp_journal_note_lost(struct dp_journal *j, u32 index, u64 lost);
void dp_journal_publish(struct dp_journal *j);
/* Where the recording is, what was written included; chunks may be NULL. */
struct dp_chunks;
void dp_journal_fill(struct dp_journal_point *p, const struct dp_output *out, const struct dp_chunks *chunks);
/* The recording has ended. May be NULL. */
void dp_journal_close(struct dp_journal *j);

/* A file for a chunk of that number, which a successor finds; j may be NULL. -1: there is none. */
int dp_journal_chunk(const struct dp_journal *j, u32 number);
void dp_journal_drop_chunk(const struct dp_journal *j, u32 number);
/* There is little room left where chunks are kept: they are to go somewhere else. */
bool dp_journal_is_full(const struct dp_journal *j);

/* ---- a successor's ---- */

struct dp_journal_left {
	struct dp_journal_head *head; /* mapped, for us alone; NULL: none */
	struct dp_journal_member *members;
	int fd;
	char path[200];
	char state[220]; /* the directory, of programs */
};

/* The journal of a recorder that was killed, if there is one and nobody else has it. */
bool dp_journal_find(struct dp_journal_left *l, pid_t owner, u64 owner_started);
/* fn is called for each journal whose recorder does not live. */
void dp_journal_each(void (*fn)(struct dp_journal_left *l, void *arg), void *arg);
void dp_journal_release(struct dp_journal_left *l);
/* Its file of that name, to be read; -1: there is none. */
int dp_journal_part(const struct dp_journal_left *l, const char *name);
/* The recording is at that path. False: it cannot be found. */
bool dp_journal_place(struct dp_journal_head *h, const char *path);
/* Nobody needs it any more. */
void dp_journal_forget(const struct dp_journal_left *l);

#endif
