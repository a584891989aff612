/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* From the rings of an armed session to the output, until something ends it. */
#ifndef DP_STREAM_H
#define DP_STREAM_H

#include "cmd/output.h"
#include "host/any/any-host.h"
#include "log/format.h"
#include "log/reader.h"

struct dp_record;

struct stream {
	struct dp_tracee *tracee;
	struct dp_reader *reader;
	struct dp_formatter *formatter;
	/* What is shown behind a record; may be NULL. */
	void (*more)(const struct dp_record *rec, void *arg);
	void *more_arg;
	struct output *out;
	double seconds; /* 0: no limit */
	volatile sig_atomic_t *stop;
	u64 shown;     /* records handed out */
	double lasted; /* seconds */
};

/* Run until stop, the end of the target, the time limit, or a failure to write (E_OUT_WRITE). */
int dp_stream_run(struct stream *s, struct dp_error *err);

/* Show what is left, after the probes are gone. */
int dp_stream_finish(struct stream *s, struct dp_error *err);

#endif
