/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What sessions of several dprobes in one process have to do with one another (doc/several-owners.md). */
#ifndef DP_OWNERS_H
#define DP_OWNERS_H

#include "abi/abi-slot.h"
#include "host/process/record.h"

/*
 * The plan is not to touch bytes that are not the file's: somebody else has changed them. Behind dp_others_avoid().
 * E_ARM_NOMEM.
 */
int dp_foreign_avoid(struct dp_plan *plan, const struct dp_spot *spots, u32 n, const struct dp_mem *mem,
		     struct dp_error *err);

/* Whether one of them watches pages: of descriptors for that there can be one set in a process. */
bool dp_owners_watch_pages(const struct dp_mem *mem, const struct dp_maps *maps);

/* Whether a signal's handler is that of a session. */
bool dp_owners_handler(const struct dp_mem *mem, const struct dp_maps *maps, u64 handler);
/* The session whose handler of sig stands above all others over that of own; false: that is own. */
bool dp_owners_top(const struct dp_mem *mem, const struct dp_maps *maps, const struct dp_control *own, int sig,
		   struct dp_owner *top);
/*
 * own goes: who has its handlers as old actions gets its old actions. A thread that is in a handler of those may still
 * go to a handler of own: users is the code in which that may be, *nusers of them, at most DP_OWNERS_MAX. crashed: a
 * predecessor may have done this, and not have waited for them. False: the threads could not be stopped.
 */
bool dp_owners_unlink(struct dp_tracer *t, const struct dp_mem *mem, const struct dp_maps *maps,
		      const struct dp_control *own, bool crashed, struct dp_range *users, u32 *nusers);

#endif
