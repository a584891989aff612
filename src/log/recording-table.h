/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Numbers by what they are of, an address or a thread, and by the process: for those who write and read recordings. */
#ifndef DP_RECORDING_TABLE_H
#define DP_RECORDING_TABLE_H

#include "base/base.h"

struct dp_recording_key {
	u64 what;
	u32 source;
	u32 value; /* one more than it is; 0: free */
};

struct dp_recording_table { /* begins with zeroes */
	struct dp_recording_key *v;
	u32 n, room; /* room: a power of two */
};

/* False: there is none. */
bool dp_recording_find(const struct dp_recording_table *t, u64 what, u32 source, u32 *value);
/* One that is not there yet. False: no memory. */
bool dp_recording_add(struct dp_recording_table *t, u64 what, u32 source, u32 value);
void dp_recording_table_free(struct dp_recording_table *t);

#endif
