/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of several processes, and of the kernel, in one order, that of their stamps. All stamps are of one counter,
 * and one clock here converts them, so that times have the order of the records.
 */
#ifndef DP_RUN_MERGE_H
#define DP_RUN_MERGE_H

#include "log/reader.h"

struct dp_merge;

struct dp_merge *dp_merge_new(void); /* NULL: no memory */
void dp_merge_free(struct dp_merge *m);

/* A copy of the record waits; mark: where it stands in the rings. False: no memory. */
bool dp_merge_put(struct dp_merge *m, const struct dp_record *rec, u32 source, struct dp_reader_mark mark);

/* Hand out, oldest first, what has a stamp up to this one. ns: CLOCK_MONOTONIC time of the stamp. */
void dp_merge_take(struct dp_merge *m, u64 tsc, void (*fn)(const struct dp_record *rec, u32 source, u64 ns, void *arg),
		   void *arg);

/* By how much a time may be wrong, in nanoseconds; the difference of two times is better. */
u64 dp_merge_error_ns(const struct dp_merge *m);

/* For each record that waits. */
void dp_merge_each(const struct dp_merge *m, void (*fn)(u32 source, struct dp_reader_mark mark, void *arg), void *arg);

#endif
