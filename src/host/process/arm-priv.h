/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between arm.c, which carries an arming out, and image.c, which makes what it puts into the target. */
#ifndef DP_ARM_PRIV_H
#define DP_ARM_PRIV_H

#include "host/process/session-priv.h"

struct layout { /* offsets from the region's start */
	u64 table, tids, cells, copies, shadows, slots, control, jit, jit_end, copy_code, rings, rings_end, end;
	u32 nslots;
	u64 control_size;
	u32 ncpus;
	u64 ring_size;
};

struct arming {
	struct dp_session *s;
	struct layout lay;
	struct dp_mem mem;
	struct dp_tracer tracer;
	struct dp_remote remote;
	struct dp_maps now; /* as they are at arming */
	struct dp_caps caps;
	struct dp_control *ctl; /* image of the control block and its tables */
	struct dp_range *areas; /* merged */
	u32 nareas;
	bool mapped;
	u64 entries[DP_NENTRIES]; /* run addresses */
};

/* Makes a->ctl and a->areas, from the plan and the layout. E_ARM_NOMEM. */
int dp_build_control(struct arming *a, struct dp_error *err);

/* pagepoint.c: what is needed from the process to mark its pages; marks them. E_WATCH_PAGES */
int dp_pages_open(struct arming *a, struct dp_error *err);

#endif
