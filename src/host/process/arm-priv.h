/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Between arm.c, which carries an arming out, image.c, which makes what it puts into the target, and the parts of a
 * session.
 */
#ifndef DP_ARM_PRIV_H
#define DP_ARM_PRIV_H

#include "host/process/publish-host.h"
#include "host/process/session-priv.h"

struct dp_control;
struct dp_patch;

struct layout { /* offsets from the region's start */
	u64 table, tids, loads, cells, stretches, copies, shadows, slots, control, late, jit, jit_end, copy_code, rings,
	    rings_end, end;
	u32 nslots;
	u64 control_size;
	u32 ncpus;
	u64 ring_size;
};

struct arming {
	struct dp_session *s;
	struct dp_plan *plan;  /* what is new: the session's, or of extend.c or change.c */
	struct dp_patches old; /* whose place it takes: the session's, by change.c, or of others; sorted by address */
	struct layout lay;
	struct dp_mem mem;
	struct dp_tracer tracer;
	struct dp_remote remote;
	struct dp_maps now; /* as they are at arming */
	struct dp_caps caps;
	struct dp_control *ctl; /* image of the control block and its tables */
	struct dp_range *areas; /* merged */
	u32 nareas;
	bool waits; /* its only thread stands in our waiting code: calls may be made later, together */
	/* Those that are made behind the next ones: */
	struct dp_call opening[4]; /* the main mapping is opened, */
	struct dp_call place;      /* the page of global variables keeps its place, */
	struct dp_call *mapping;   /* the areas are mapped; NULL: not yet, */
	struct dp_call sharing[2]; /* and the rings; */
	struct dp_call asking[2];  /* for the actions of SIGTRAP and SIGSEGV */
	int rings_fd;              /* ours; -1: none */
	bool mapped;
	bool wiped;               /* what is wiped in forked children is */
	u32 unseen;               /* threads that could not be stopped in the last round */
	u64 entries[DP_NENTRIES]; /* run addresses */
};

/* Makes a->ctl and a->areas, from the plan and the layout. E_ARM_NOMEM. */
int dp_build_control(struct arming *a, struct dp_error *err);
/*
 * A control block in the place of the one that is in force, with all programs and these spots, whose points are the
 * plan's, and with the plan's tables. To stand at origin in the process, of at most size bytes; a->ctl. E_ARM_NOMEM.
 */
int dp_build_next(struct arming *a, const struct dp_plan *plan, const struct dp_spot *spots, u32 nspots, u64 origin,
		  u64 size, struct dp_error *err);
/*
 * A control block in the place of the one that is in force, with the session's points, redirects, homes, patches and
 * areas as they are in plan; all else remains where it is. To stand at origin in the process, of at most size bytes;
 * a->ctl. E_ARM_NOMEM.
 */
int dp_rebuild_control(struct arming *a, const struct dp_plan *plan, u64 origin, u64 size, struct dp_error *err);
/* The space's areas from the first-th on, sorted and joined; free() it. NULL: no memory. */
struct dp_range *dp_merge_areas(const struct dp_space *sp, u32 first, u32 *n);
/* The plan's patches alone; free() it. NULL: no memory. */
struct dp_patch *dp_plan_patches(const struct dp_plan *plan);
/* Whether a patch has a trapping byte that raises SIGSEGV. */
bool dp_plan_needs_segv(const struct dp_plan *plan);
/* Bytes that the programs of its probes take, at most. */
u64 dp_control_programs(const struct dp_session *s);
/* Bytes that its tables take, at most, for so many spots. */
u64 dp_control_tables(u64 nspots);

/*
 * What a session has beside probes at code. Arming goes through the parts at each step, in the order of their table;
 * what a part has nothing to do at is NULL.
 */
enum dp_part_step {
	DP_PART_PREPARE, /* attached, a->caps are known, nothing is mapped: whether it can be done */
	DP_PART_FILL,    /* all is mapped, no byte of code has changed: what has to be there before the first hit */
	DP_PART_BEGIN,   /* the code is published; threads have not been seen yet */
	DP_PART_READY,   /* all threads have been seen */
	DP_PART_STEPS,
};

struct dp_part {
	int (*steps[DP_PART_STEPS])(struct arming *a, struct dp_error *err);
	/* Between begin and ready, for each thread: it is stopped, or stuck in the kernel. */
	int (*thread)(struct dp_session *s, pid_t tid, struct dp_error *err);
	/* After whichever step, or without any. */
	void (*end)(struct dp_session *s);
};

extern const struct dp_part dp_calls_part, dp_watch_part, dp_pages_part, dp_semaphores_part, dp_stretches_part;

/* session-parts.c */
int dp_parts_step(struct arming *a, enum dp_part_step step, struct dp_error *err);
int dp_parts_thread(struct dp_session *s, pid_t tid, struct dp_error *err);

/* Whose files take memory as long as they are not given back, of which there are some megabytes. */
#define DP_MANY_PATCHES 16384

/* arm-plan.c, for all three that make a plan: arm.c, extend.c, change.c */
int dp_arm_mark_busy(struct dp_space *space, const struct dp_maps *maps, const struct dp_process *proc);
void dp_arm_entries(struct arming *a); /* a->entries, of the mapped region */
/* Each patch gets to know the file that the plan is of, and whether it may be written while threads run. */
void dp_arm_name_files(struct dp_plan *plan, struct dp_process *proc, const struct dp_spot *spots, u32 n);
int dp_arm_check_bytes(struct arming *a, struct dp_error *err);
/*
 * What came of each spot, as outcomes of probes: those that could not be planned are left out, if they come from a
 * pattern and are not armed, else E_ARM_SITE.
 */
int dp_arm_settle(struct dp_session *s, const struct dp_spot *spots, u32 n, struct dp_error *err);

/* arm-steps.c, for the same three */
/* For parts, too, that have changed a->ctl: the block without its tables, for a successor and into the process. */
int dp_arm_put_control(struct arming *a, struct dp_error *err);
/* The calls that map a->areas; free() them. NULL: no memory. */
struct dp_call *dp_arm_area_calls(const struct arming *a);
/* Map a->areas and write the plan's detours. */
int dp_arm_map_areas(struct arming *a, struct dp_error *err);
/* arm-detours.c: all detours of the plan, into areas that are mapped. */
int dp_arm_write_detours(struct arming *a, struct dp_error *err);
/* Calls of the process; one that the kernel refuses is E_TARGET_CALL. */
int dp_arm_calls(struct arming *a, struct dp_call *v, u32 n, const char *what, struct dp_error *err);
int dp_arm_made(const struct dp_call *v, u32 n, const char *what, struct dp_error *err); /* of calls that were made */
/* For what stands there, behind the next calls, so that dp_arm_take_signal() need not. */
void dp_arm_ask_signals(struct arming *a);
/* Our handler before the action that stands there, which is left in old, a part of the control block. */
int dp_arm_take_signal(struct arming *a, int sig, u64 old[4], struct dp_error *err);
int dp_arm_publish(struct arming *a, struct dp_error *err);
/* Each thread is seen once; each(), if it is not NULL, sees it while it is stopped, or stuck in the kernel. */
int dp_arm_last_round(struct arming *a, int (*each)(struct dp_session *s, pid_t tid, struct dp_error *err),
		      struct dp_error *err);
void dp_arm_finish_children(struct arming *a);
/*
 * To a process where the session is armed already, or that has inherited its probes. Others trace a process for moments
 * only, as a rule: so often it is tried, every 10 ms.
 */
int dp_arm_attach(struct arming *a, pid_t pid, u32 tries, struct dp_error *err);
/* From now on the plan's redirections are in force, and forked children are held. The block says that bytes change. */
int dp_arm_begin_publish(struct arming *a, const struct dp_redirect *redirects, u32 n, struct dp_error *err);
/* A trap in a thread that blocks the signal made the kernel reset the action: set that of the first handler again. */
int dp_arm_renew_signals(struct arming *a, struct dp_error *err);
/* The clock of programs, where one asks. */
void dp_arm_set_clock(struct arming *a);

/* change.c: bytes that control blocks and compiled programs to come take in the region; 0 where none will come. */
u64 dp_changes_room(struct dp_session *s, u64 control_size);
u64 dp_changes_jit(const struct dp_session *s, u64 size); /* of which the first are taken by programs */

/* extend.c: bytes that control blocks to come take in the region; 0 where none will come. */
u64 dp_extend_room(struct dp_session *s);

#endif
