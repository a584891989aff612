/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where records go that are neither shown nor written to a file: to a collector of OpenTelemetry's data, by HTTP. What
 * is handed over is queued and sent by a thread, so that whoever reads the rings never waits for the network.
 */
#ifndef DP_SEND_H
#define DP_SEND_H

#include "base/error.h"

struct dp_sender;

struct dp_sender_options {
	const char *endpoint; /* http://HOST:PORT, https://...; the path of each kind is put behind it */
	/*
	 * A recording is sent: where the queue is full, its reader waits, as long as the collector takes anything. A
	 * trace never waits.
	 */
	bool patient;
};

/* The version of the library that sends. NULL: this build has nothing, or the library is not installed. */
const char *dp_sender_library(void);

/* E_OTLP_BUILD, E_OTLP_ADDRESS, E_OTLP_START. */
int dp_sender_new(struct dp_sender **s, const struct dp_sender_options *opt, struct dp_error *err);

/* Takes a piece of the output: lines, each a request (log/sinks/sink-otlp.c). For dp_output_divert(). */
bool dp_sender_take(void *sender, const char *text, size_t n);

/*
 * Sends what waits, within the time that OTEL_EXPORTER_OTLP_TIMEOUT has (10 s), and frees it. told: what was sent, as
 * a sentence. E_OTLP_LOST: not all of it was.
 */
int dp_sender_end(struct dp_sender *s, char *told, size_t size, struct dp_error *err);

#endif
