/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A recording in chunks. Rotation: where a file has its size or its age, the next one begins; each is whole in itself.
 * Flight recorder: chunks are kept in memory, the oldest goes where there are enough of them, and all that is there is
 * written to a file when somebody asks for it, and at the end. What is recorded makes time pass for it, not the clock:
 * a program that is idle, or has ended long before anybody notices, loses nothing of what it did last.
 */
#ifndef DP_RUN_CHUNKS_H
#define DP_RUN_CHUNKS_H

#include <signal.h>

#include "base/error.h"
#include "log/format.h"

#define DP_CHUNKS_KEPT 8u                    /* of the bytes or the time that is to be kept each has so much */
#define DP_CHUNKS_MOST (4u * DP_CHUNKS_KEPT) /* some were begun for the one, some for the other */

struct dp_output;
struct dp_chunk;
struct dp_journal;
struct dp_journal_point;

struct dp_chunks {
	/* Set by the caller. */
	const char *path;               /* of the first file; the others are called NAME.2.dpt, NAME.3.dpt, ... */
	bool in_memory;                 /* a flight recorder */
	u64 bytes, ns;                  /* of a file; or so much is kept, at least. 0: no limit */
	u32 keep;                       /* files; 0: all */
	bool on_event;                  /* the event that would end the trace asks for a file instead */
	volatile sig_atomic_t *asked;   /* somebody does; set back when it is written */
	void (*note)(const char *text); /* may be NULL */
	void (*ending)(void *arg);      /* gives the formatter what stands at the end of a recording; may be NULL */
	void *ending_arg;

	struct dp_chunk *v[DP_CHUNKS_MOST]; /* the oldest first */
	u32 n, files;
	u64 since; /* of the file */
	u64 held;  /* bytes in memory */
	u64 newest[DP_NTIMES];
	u32 begun; /* chunks */
	bool broken;
	const struct dp_journal *journal; /* has the chunks' files; NULL: they are memory of ours */
};

/* The output is open. E_OUT_OPEN: it is no file. */
int dp_chunks_begin(struct dp_chunks *p, struct dp_output *o, const struct dp_journal *journal, struct dp_error *err);
/* Which file and which chunks there are, for the journal. */
void dp_chunks_point(const struct dp_chunks *p, struct dp_journal_point *point);
/* All that was read is in the output, which has been flushed. E_OUT_OPEN, E_OUT_WRITE. */
int dp_chunks_turn(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err);
/* Behind the last block of the recording. */
int dp_chunks_end(struct dp_chunks *p, struct dp_output *o, struct dp_formatter *f, struct dp_error *err);
void dp_chunks_free(struct dp_chunks *p);

#endif
