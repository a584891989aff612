/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Patches in a process that is being traced: the engine's view of it, and the care for modules that the program may
 * unmap while their bytes change.
 */
#ifndef DP_PUBLISH_HOST_H
#define DP_PUBLISH_HOST_H

#include "host/process/process-priv.h"

struct dp_publish_host {
	struct dp_host host; /* while the threads run */
	struct dp_host rest; /* while all of them are stopped */
	struct dp_tracer *tracer;
	struct dp_mem *mem;
	struct dp_remote *remote;
	bool registered; /* membarrier was registered for this process */
	u32 batch;       /* patches for which all threads are stopped at a time */
	struct {
		u64 at, lo, hi; /* the page, 0: none, and what has changed in it */
		u8 bytes[4096];
	} page;
};

struct dp_patches {
	struct dp_patch *v;
	u32 n;
};

void dp_publish_host_init(struct dp_publish_host *ph, struct dp_tracer *t, struct dp_mem *mem, struct dp_remote *r);

/*
 * Publish all patches, or take them back, in any order. All threads are stopped, for some patches at a time, and each
 * patch is written at once: no breakpoint stands in the code, which would end a process whose thread comes to it with
 * SIGTRAP blocked, were nobody there any more to trace it. Where a thread does not stop, code that stays is changed
 * while the threads run (dp_republish()). Other code may be unmapped, and something else be mapped in its place, at any
 * moment: there bytes change only where the patch's file is mapped and they are what they should be. On an error of
 * dp_patches_in() some patches may be in place: take them back. E_ARM_MOVED, E_SITE_FOREIGN, E_TARGET_STUCK besides
 * the errors of writing.
 */
int dp_patches_in(struct dp_publish_host *ph, struct dp_patch *v, u32 n, struct dp_error *err);
int dp_patches_out(struct dp_publish_host *ph, struct dp_patch *v, u32 n, struct dp_error *err);
/* The last step of it for patches anywhere, by a caller who has stopped all threads. */
int dp_patches_restore(struct dp_publish_host *ph, struct dp_patch *v, u32 n, struct dp_error *err);
/*
 * From the old patches, which stand (some may have gone with their modules), to those of `now`, as dp_republish(); both
 * are sorted by address. begun: bytes may be in any step; else nothing has changed. E_SITE_TARGET besides the errors of
 * dp_patches_in().
 */
int dp_patches_exchange(struct dp_publish_host *ph, const struct dp_patches *old, const struct dp_patches *now,
			bool *begun, struct dp_error *err);
/*
 * From patches of one session to those of others at the same places, one for each, with the same windows: sorted by
 * address. The bytes may be in any step between them, or between those of others.
 */
int dp_patches_hand_over(struct dp_publish_host *ph, struct dp_patches *old, struct dp_patches *now,
			 struct dp_error *err);
/* The last step of it, by a caller who has stopped all threads. */
int dp_patches_put(struct dp_publish_host *ph, const struct dp_patches *now, struct dp_error *err);
/* In a forked child that is held: take out the old patches that are there, and put in those of `now`, or NULL: none. */
void dp_patch_child(pid_t tid, const struct dp_patches *old, const struct dp_patches *now);
/* In n bytes that begin at `at`: those that patches write. */
void dp_patches_overlay(const struct dp_patches *p, u64 at, u8 *bytes, u32 n);

/*
 * What a mapping of a file at addr is known by, as in struct dp_patch, but for whether it stays; 0: no code of a file
 * is there.
 */
u32 dp_code_file(const struct dp_maps *maps, u64 addr);
/* The same of any mapping that has one. */
u32 dp_file_number(const struct dp_map *m, u64 addr);
/*
 * The same of a patch's place by the image that it was planned for, with whether it stays. (What the maps said when the
 * image was found does not tell: they are not read in one moment.)
 */
u32 dp_image_file(const struct dp_image *im, u64 addr);

enum dp_patch_state {
	DP_PATCH_ABSENT, /* the original bytes, or the file is not mapped there any more */
	DP_PATCH_OURS,   /* in some step of the protocol */
	DP_PATCH_OTHERS, /* somebody else has changed the bytes */
};
/*
 * What stands in the process at a patch. crashed: NULL, or its owner may have been killed between two steps, and had
 * all of these patches: while one takes the place of another, a byte may be of either.
 */
enum dp_patch_state dp_patch_state(struct dp_mem_look *look, const struct dp_maps *maps, const struct dp_patch *p,
				   const struct dp_patches *crashed);

#endif
