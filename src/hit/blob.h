/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The flat hit path as the control side sees it. */
#ifndef DP_BLOB_H
#define DP_BLOB_H

#include "base/base.h"
#include "abi/abi-offsets.h"

extern const u8 dp_blob[];
extern const u32 dp_blob_size;

struct dp_blob_head { /* at the blob's start; offsets count from there */
	u64 magic;
	u64 ctl, slots, mask; /* filled in by the control side */
	u32 entry_plain, entry_flags, entry_zone, entry_zone_flags;
	u32 signal_entry, restorer, service, service_end, end;
	/* How the entries find the thread: 0 rdfsbase, 1 the word at %fs:0, 2 arch_prctl; set by the control side. */
	u32 thread_by;
	/* Functions that compiled programs call, in the order of services.def. */
#define DP_SERVICE(name) u32 name;
#include "abi/services.def"
};

#endif
