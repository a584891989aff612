/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The probe manager's plan: which bytes are overwritten, what the detours contain and where they
 * lie; and the one protocol by which the bytes are published. Makes no OS call: what touches the probed world goes
 * through struct dp_host. One thread at a time per plan.
 */
#ifndef DP_ENGINE_H
#define DP_ENGINE_H

#include "abi/abi-point.h"
#include "arch/arch.h"
#include "base/error.h"
#include "engine/area.h"

/* What a world gives to the engine. Addresses are run-time addresses of the probed world. */
struct dp_host {
	/* Overwrite n code bytes, at most five while anybody may execute them; single bytes appear at once. */
	int (*write_code)(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err);
	/* After it returns, every thread has executed a serialising instruction. */
	int (*serialise)(void *arg, struct dp_error *err);
	/* Called now and then in a long batch: the host may look after stopped threads. */
	void (*breathe)(void *arg);
	void *arg;
};

/* One place to be hit, as wanted by the caller. */
struct dp_spot {
	const struct dp_text *text;
	u64 bias;               /* run-time = link-time + bias */
	u64 addr;               /* run-time */
	u32 owner;              /* the caller's; spots at one address are ordered by it */
	struct dp_site site;    /* judged, link-time */
	u64 reach_lo, reach_hi; /* where detours for this module may lie */
	/* code compiled for this spot, to be used when all spots at its address have the same; 0 none */
	u64 direct;
	u64 shared;   /* the code that direct goes on to, which others share; 0 none */
	u8 calls;     /* the host's: direct keeps numbers of system calls, and goes on by what is at shared */
	bool confirm; /* a second hit tells when its instruction has been carried out (DP_HIT_AFTER) */
	/* output */
	u32 point; /* index of its point */
	enum dp_outcome outcome;
	enum dp_code why; /* not a jump, or not armed: the reason */
};

#define DP_PATCH_TRAP 0x1 /* one breakpoint byte, no jump */

/* One of the instructions that a patch displaces: what struct dp_detour has of each. */
struct dp_displaced {
	u64 direct;
	u32 point;
	u16 arrive, copy, after;
	u8 entry;
	bool confirm;
	/* No probe is at that point any more, but its number stays taken: detours of others may call with it. */
	bool idle;
};

/* One overwritten place and its detour. A plan may have a hundred thousand, most of which displace two instructions. */
struct dp_planned {
	const struct dp_text *text;
	u64 bias;
	u64 start; /* run-time */
	struct dp_window win;
	u64 reach_lo, reach_hi;
	u32 flags; /* DP_PATCH_* */
	u32 first; /* of win.ninsns displaced instructions of the plan: dp_displaced_by() */
	u64 detour_addr;
	u32 code_off, code_len; /* the detour's bytes in plan->code */
	u16 back, words;        /* as in struct dp_detour */
	struct dp_patch patch;
	const struct dp_shared *shared; /* others' patches stand there; NULL: none */
	bool held;                      /* it stands where others do, too: its window stays what it is */
	bool kept;                      /* it stands already, see dp_plan_next() */
	bool out;                       /* the caller has taken it out for a while: the original bytes are there */
};

/* As dp_window_reach(); a breakpoint takes nothing behind its instruction. */
static inline u32 dp_planned_reach(const struct dp_planned *p)
{
	return p->flags & DP_PATCH_TRAP ? p->win.len : dp_window_reach(&p->win);
}

struct dp_taken {
	u64 lo, hi;
	enum dp_code why;
};

/*
 * A place that other sessions have patched. A patch with the same window may take the place of theirs, if its detour
 * has their hits, too.
 */
struct dp_shared {
	struct dp_patch front; /* what stands there */
	u32 rank;              /* of who comes next */
	u32 first, n;          /* the others' hits, of plan->others */
};

struct dp_plan {
	struct dp_planned *patches; /* sorted by start */
	u32 npatches, cap_patches;
	struct dp_displaced *displaced; /* by all patches, and some of patches that have gone */
	u32 ndisplaced, cap_displaced;
	struct dp_point *points; /* first and n are the caller's business; addr 0: not in use */
	u32 npoints, cap_points;
	u32 unused;                    /* while it is made: none of the points below is unused */
	struct dp_redirect *redirects; /* trapping byte -> detour, sorted by pc */
	u32 nredirects;
	struct dp_redirect *homes; /* place in a detour -> original address, sorted by pc */
	u32 nhomes;
	u8 *code;
	u64 code_len, cap_code;
	struct dp_space space; /* fill in what is busy before planning */
	/* Bytes that may not be touched, and why, by dp_grow(); fill in before planning. */
	struct dp_taken *taken;
	size_t cap_taken;
	u32 ntaken;
	/* Places of others that it may come to, sorted by address, and taken as well; fill in before planning. */
	struct dp_shared *shared;
	struct dp_other_hit *others;
	size_t cap_shared, cap_others;
	u32 nshared, nothers;
};

/* The instructions that a patch of the plan displaces, win.ninsns of them. */
static inline struct dp_displaced *dp_displaced_by(const struct dp_plan *plan, const struct dp_planned *p)
{
	return plan->displaced + p->first;
}

/* The order that plans and blocks have: by address, then by owner. */
void dp_spots_sort(struct dp_spot *spots, u32 n);

/*
 * Make the plan for n spots, which are sorted by address on return. Spots that cannot be armed get outcome
 * REFUSED and a reason; the others share patches where they are neighbours. entries: run addresses of the
 * entries. allow_trap: breakpoints may be used where no jump fits.
 * Returns 0 or -ENOMEM.
 */
int dp_plan_build(struct dp_plan *plan, struct dp_spot *spots, u32 n, const u64 entries[DP_NENTRIES], bool allow_trap);
/*
 * The same for a plan that is to take the place of `before`, which is armed: a point that both have keeps its number,
 * and a patch that would be the same again is kept with its detour. Where others have patches, too, one of `before`
 * never goes: it stays, with points that have no probe, or comes in front of theirs. The space is the caller's to move
 * from one to the other.
 */
int dp_plan_next(struct dp_plan *plan, const struct dp_plan *before, struct dp_spot *spots, u32 n,
		 const u64 entries[DP_NENTRIES], bool allow_trap);
void dp_plan_free(struct dp_plan *plan);

/* How the detour of a hit at this site enters the hit path. */
enum dp_entry dp_entry_for(const struct dp_site *site);

/*
 * Publish all patches, or take them back. Every thread may run meanwhile. A trap at a patched byte
 * must be redirected (redirects) from before the first call until after the last. On error in dp_publish, what was
 * published is taken back.
 */
int dp_publish(const struct dp_host *host, const struct dp_patch *v, u32 n, struct dp_error *err);
int dp_withdraw(const struct dp_host *host, const struct dp_patch *v, u32 n, struct dp_error *err);

/*
 * From one set of patches, which stand, to another one in one go. Both are sorted by address, and none overlaps another
 * one of its set. At any moment whoever comes to a probed instruction gets into a detour of the old set or of the new
 * one, so redirects must know both; of what both have, those of the new set. E_SITE_TARGET, and nothing has changed:
 * they do not agree on where instructions begin. On other errors bytes are in some step of either.
 */
int dp_republish(const struct dp_host *host, const struct dp_patch *old, u32 nold, const struct dp_patch *now, u32 nnow,
		 struct dp_error *err);
/*
 * The same while no thread runs that could execute any of these bytes, nor stands at one of the new patches behind its
 * first byte. No breakpoint is written, but where patches cross the end of a page.
 */
int dp_rewrite(const struct dp_host *host, const struct dp_patch *old, u32 nold, const struct dp_patch *now, u32 nnow,
	       struct dp_error *err);

/* Whether dp_republish() can: both see the same instructions where they overlap. */
bool dp_patches_agree(const struct dp_patch *old, u32 nold, const struct dp_patch *now, u32 nnow);

/* Turn published jumps back into breakpoints on their first bytes; all other bytes are original again. */
int dp_unjump(const struct dp_host *host, const struct dp_patch *v, u32 n, struct dp_error *err);

/* Change the first byte of an instruction to that of another one which differs in nothing else. */
int dp_flip(const struct dp_host *host, u64 addr, u8 first, struct dp_error *err);

#endif
