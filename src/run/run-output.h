/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where events go: a file or standard output, as a stream that never blocks past a request to
 * stop (a pager that is not read would otherwise keep the probes in place).
 */
#ifndef DP_RUN_OUTPUT_H
#define DP_RUN_OUTPUT_H

#include <signal.h>
#include <stdio.h>

#include "base/error.h"

struct dp_output {
	char *buffer; /* of the stream: the C library takes no size without one */
	FILE *f;
	const char *name;
	int fd;
	size_t chunk; /* bytes that one write may carry without blocking, once the file is ready */
	volatile sig_atomic_t *stop;
	bool waits;                                            /* for a file to be ready: no write can be tried */
	bool is_new;                                           /* there was no such file */
	bool begun;                                            /* what the file had before is gone */
	bool dropped;                                          /* nothing is written any more */
	u64 written;                                           /* to the file */
	bool (*divert)(void *arg, const char *text, size_t n); /* takes what would be written. NULL: nobody does */
	void *divert_arg;
	int error; /* errno of the first failure; EINTR: stopped while the output was blocked */
};

/*
 * path NULL: standard output; /dev/fd/N: a descriptor that we were given. What a file had before stays until something
 * is written to it, or it is closed. E_OUT_OPEN.
 */
int dp_output_open(struct dp_output *o, const char *path, volatile sig_atomic_t *stop, struct dp_error *err);

/* Flush, and go on in the file of that name, which is made anew. E_OUT_OPEN, E_OUT_WRITE. */
int dp_output_next(struct dp_output *o, const char *path, struct dp_error *err);

/* From here on that one takes what is written, and returns false where it cannot; NULL: the file again. */
void dp_output_divert(struct dp_output *o, bool (*to)(void *arg, const char *text, size_t n), void *arg);

/* Nothing came of it: a file to which nothing was written stays as it was, and goes if there was none before. */
void dp_output_drop(struct dp_output *o);

bool dp_output_is_file(const struct dp_output *o);

/* After a line: writes out in time, so that the end of the buffer never comes within a line. */
void dp_output_line_done(struct dp_output *o);

/* Write out what is buffered. E_OUT_WRITE, also when an earlier write failed. */
int dp_output_flush(struct dp_output *o, struct dp_error *err);

/* Flush and close. E_OUT_WRITE. */
int dp_output_close(struct dp_output *o, struct dp_error *err);

/* The reader of a pipe is gone, although nothing was written since. */
bool dp_output_is_left(const struct dp_output *o);

/* The reader went away or does not read: no error of ours, but a reason to end. */
bool dp_output_unwanted(const struct dp_output *o);

#endif
