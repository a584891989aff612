/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between arm.c, which carries an arming out, and image.c, which makes what it puts into the target. */
#ifndef DP_ARM_PRIV_H
#define DP_ARM_PRIV_H

#include "host/process/session-priv.h"

struct dp_control;
struct dp_patch;

struct layout { /* offsets from the region's start */
	u64 table, tids, cells, copies, shadows, slots, control, late, jit, jit_end, copy_code, rings, rings_end, end;
	u32 nslots;
	u64 control_size;
	u32 ncpus;
	u64 ring_size;
};

struct arming {
	struct dp_session *s;
	struct dp_plan *plan; /* what is new: the session's, or of extend.c */
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
/*
 * A control block in the place of the one that is in force, with the session's points, redirects, homes, patches and
 * areas as they are in plan; all else remains where it is. To stand at origin in the process; a->ctl. E_ARM_NOMEM.
 */
int dp_rebuild_control(struct arming *a, const struct dp_plan *plan, u64 origin, struct dp_error *err);
/* The space's areas from the first-th on, sorted and joined; free() it. NULL: no memory. */
struct dp_range *dp_merge_areas(const struct dp_space *sp, u32 first, u32 *n);
/* The plan's patches alone; free() it. NULL: no memory. */
struct dp_patch *dp_plan_patches(const struct dp_plan *plan);
/* Whether a patch has a trapping byte that raises SIGSEGV. */
bool dp_plan_needs_segv(const struct dp_plan *plan);
/* Bytes that its tables take, at most, for so many spots. */
u64 dp_control_tables(u64 nspots);

/* arm.c, the steps that extend.c takes as well */
int dp_arm_mark_busy(struct dp_space *space, const struct dp_maps *maps, const struct dp_process *proc);
void dp_arm_entries(struct arming *a); /* a->entries, of the mapped region */
int dp_arm_check_bytes(struct arming *a, struct dp_error *err);
/* Map a->areas and write the plan's detours. */
int dp_arm_map_areas(struct arming *a, struct dp_error *err);
int dp_arm_take_signal(struct arming *a, int sig, u64 old[4], struct dp_error *err);
int dp_arm_publish(struct arming *a, struct dp_error *err);
int dp_arm_last_round(struct arming *a, bool watch, struct dp_error *err); /* watch: what is watched is, from then on */
void dp_arm_finish_children(struct arming *a);

/* extend.c: bytes that control blocks to come take in the region; 0 where none will come. */
u64 dp_extend_room(struct dp_session *s);

/* pagepoint.c: what is needed from the process to mark its pages; marks them. E_WATCH_PAGES */
int dp_pages_open(struct arming *a, struct dp_error *err);

#endif
