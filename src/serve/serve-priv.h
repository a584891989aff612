/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The inside of the exporter: what parent and child say, and what the child is made of. */
#ifndef DP_SERVE_PRIV_H
#define DP_SERVE_PRIV_H

#include "serve/families.h"
#include "serve/serve.h"

#define DP_SERVE_PATIENCE_MS 10000

/* A question is its number. The answer begins with this; texts follow. */
struct dp_serve_answer {
	u32 number;
	u32 has_driver;
	u32 driver_len, own_len;
};

/* snapshot.c: lines of a run (run-metrics.c) to families. */
struct dp_snapshot;
struct dp_snapshot *dp_snapshot_new(void); /* NULL: no memory */
/* driver, own: NULL: there is none. */
void dp_snapshot_take(struct dp_snapshot *s, const char *driver, const char *own, double seconds);
void dp_snapshot_write(struct dp_snapshot *s, enum dp_exposition format, struct dp_line *out);

#endif
