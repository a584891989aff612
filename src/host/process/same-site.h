/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Several sessions that probe the same instruction (doc/several-owners.md). Who comes last stands in front: the code
 * jumps to its detour, which has the hits of all of them. Others' patches are known from their records.
 */
#ifndef DP_SAME_SITE_H
#define DP_SAME_SITE_H

#include "host/process/publish-host.h"
#include "host/process/record.h"

/*
 * Bytes that other sessions have patched are taken, and where their detours lie is busy. mem: places where the plan may
 * come in front of them are known to it, too; NULL: it is not to. own: the region of the session whose plan it is.
 * here: NULL, or what of the session stands there already. E_ARM_NOMEM.
 */
int dp_others_avoid(struct dp_plan *plan, pid_t pid, u64 own, const struct dp_plan *here, const struct dp_mem *mem,
		    struct dp_error *err);
/* The patches that those of the plan are to replace, sorted by address; free(old->v). Behind dp_arm_name_files(). */
int dp_others_replaced(const struct dp_plan *plan, struct dp_patches *old, struct dp_error *err);

/* The places of patches of other sessions, sorted; their number. free(*v). */
u32 dp_others_places(pid_t pid, u64 own, struct dp_range **v);
/* Whether one of them has a byte of [lo, hi). */
bool dp_places_meet(const struct dp_range *v, u32 n, u64 lo, u64 hi);
/* The code of other sessions, in which a hit from a detour of this one may be: at most 2 * DP_OWNERS_MAX. */
u32 dp_others_code(pid_t pid, u64 own, struct dp_range *v);

/* ---- a session that goes ---- */

struct dp_same_site { /* where others stand, too */
	u64 addr;
	u64 end;                      /* of the window */
	struct dp_patch front;        /* what is to stand */
	const struct dp_block *block; /* of whose patch that is */
};

struct dp_same {
	struct dp_knowns known; /* of the others, and the session's own */
	struct dp_same_site *v; /* sorted by address */
	u32 n;
	struct dp_patches old, now; /* those of them whose bytes change */
	bool has_words;             /* detours of the session have hits of others */
	bool unsure;                /* so may those of somebody of whom no record can be read */
};

/*
 * patches: of the session, sorted by address; of one place there may be two, an old one and the one that is to take its
 * place. crashed: it may have left them in any step. E_ARM_NOMEM.
 */
int dp_same_find(struct dp_same *ss, const struct dp_mem *mem, const struct dp_maps *maps, u64 own,
		 const struct dp_patch *patches, u32 n, bool crashed, struct dp_error *err);
void dp_same_free(struct dp_same *ss);
/* Whether others stand at the place of this patch. Elsewhere dp_patch_state() tells. */
bool dp_same_has(const struct dp_same *ss, u64 addr);
/* Others have patches at this address, whatever stands there. */
bool dp_same_known(const struct dp_same *ss, u64 own, u64 addr);
/* Whether detours of others lie at lo; *hi becomes the end of what the answer is about, if that is below it. */
bool dp_same_area(const struct dp_same *ss, u64 own, u64 lo, u64 *hi);
/*
 * Where the session's redirects and places in its detours lead: in the window of others, to the same place in the
 * detour that stands there. Takes DP_HOME_BEHIND out.
 */
void dp_same_lead(const struct dp_same *ss, struct dp_redirect *redirects, u32 nredirects, struct dp_redirect *homes,
		  u32 nhomes);
/* No detour of others has hits of the session any more. False: one may, as the threads could not be stopped. */
bool dp_same_silence(const struct dp_same *ss, const struct dp_control *own, struct dp_tracer *t,
		     const struct dp_mem *mem);
/* The code of others in which a hit from the session's detours may be: two of each of ss->known. Their number. */
u32 dp_same_code(const struct dp_same *ss, u64 own, struct dp_range *v);

#endif
