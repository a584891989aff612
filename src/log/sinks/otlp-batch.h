/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Requests of the OpenTelemetry protocol in its JSON encoding, one a line, as its file format has them: spans, log
 * records and metrics are gathered by the process that they are of, until they are written together.
 */
#ifndef DP_OTLP_BATCH_H
#define DP_OTLP_BATCH_H

#include "log/json.h"
#include "log/recording.h"

enum dp_otlp_kind { DP_OTLP_SPANS, DP_OTLP_LOGS, DP_OTLP_METRICS, DP_OTLP_KINDS };

struct dp_otlp_batch;

/* host: where the processes run. NULL: no memory. */
struct dp_otlp_batch *dp_otlp_batch_new(const char *host);
void dp_otlp_batch_free(struct dp_otlp_batch *b); /* may be NULL */

/* Writes the next item: its object is to be opened and closed. comm: the name of the process. NULL: no memory. */
struct dp_json *dp_otlp_item(struct dp_otlp_batch *b, enum dp_otlp_kind kind, u32 pid, const char *comm);

/* Whether the process is known, so that nobody needs to look for its name. */
bool dp_otlp_knows(const struct dp_otlp_batch *b, u32 pid);

/* There is as much as belongs into one request. */
bool dp_otlp_is_full(const struct dp_otlp_batch *b);
/* The oldest item waits for a second. */
bool dp_otlp_is_due(const struct dp_otlp_batch *b);

/* All of it, and none is left. */
void dp_otlp_write(struct dp_otlp_batch *b, struct dp_line *to);

/* ---- pieces ---- */

/* {"key":KEY,"value":{TYPE:: the value is to follow, then dp_otlp_close(). */
void dp_otlp_open(struct dp_json *j, const char *key, const char *type);
void dp_otlp_close(struct dp_json *j);
void dp_otlp_text(struct dp_json *j, const char *key, const char *text);
void dp_otlp_number(struct dp_json *j, const char *key, s64 v);
/* 64-bit integers are texts. */
void dp_otlp_integer(struct dp_json *j, s64 v);
void dp_otlp_put_time(struct dp_json *j, const char *key, u64 unix_ns);

#endif
