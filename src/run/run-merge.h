/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Records of several processes in one order, that of their stamps. */
#ifndef DP_RUN_MERGE_H
#define DP_RUN_MERGE_H

#include "base/base.h"

struct dp_record;
struct dp_merge;

struct dp_merge *dp_merge_new(void); /* NULL: no memory */
void dp_merge_free(struct dp_merge *m);

/* A copy of the record waits. False: no memory. */
bool dp_merge_put(struct dp_merge *m, const struct dp_record *rec, u32 source);

/* Hand out, oldest first, what has a stamp up to this one. */
void dp_merge_take(struct dp_merge *m, u64 tsc, void (*fn)(const struct dp_record *rec, u32 source, void *arg),
		   void *arg);

#endif
