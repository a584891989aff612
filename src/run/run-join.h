/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Recordings, each of which begins with its head and with all that its records need, written one behind the other as
 * one recording: events, programs and processes stand in it once.
 */
#ifndef DP_RUN_JOIN_H
#define DP_RUN_JOIN_H

#include <stdio.h>

#include "base/base.h"

struct dp_join { /* all zero: nothing has been written */
	bool begun;
	bool only_events;                 /* of what comes next */
	u32 nevents, nprograms, nsources; /* that are described */
};

/* The n bytes at `at`, up to the last whole block of them. Whether a block was cut. */
bool dp_join_put(struct dp_join *j, FILE *to, const void *at, size_t n);

/* The same of the first n bytes of a file; ~0: all. False: it is none that can be read. */
bool dp_join_file(struct dp_join *j, FILE *to, int fd, u64 n);

/*
 * A recording of programs (n bytes at `at`, whole) that somebody else made goes behind the one that is in the file, or
 * begins it: it gets that one's numbers of programs, probes and processes, and new ones for what that one has not.
 * False: no memory.
 */
bool dp_join_other(FILE *to, const void *at, size_t n);

/* run.dpt, run.2.dpt, run.3.dpt. False: too long. */
bool dp_join_name(const char *path, u32 number, char *buf, size_t size);
/* run.recovered.dpt; before is the word in front of the number. */
bool dp_join_name_of(const char *path, const char *word, u32 number, char *buf, size_t size);

#endif
