/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Hooks (<dprobes/hooks.h>) of another process, seen and armed from outside. */
#ifndef DP_PROCESS_HOOKS_H
#define DP_PROCESS_HOOKS_H

#include "engine/hooks.h"
#include "host/process/process.h"

#define DP_HOOK_NAME 128

struct dp_hook_exit {
	u64 addr;                /* of its record */
	char name[DP_HOOK_NAME]; /* "": has none */
	u64 exit;
	bool armed, writable;
	int position;
};

struct dp_hook_info {
	u64 addr;
	char name[DP_HOOK_NAME];
	u32 flags; /* HOOK_* */
	bool dynamic;
	u32 nplaces, nexits;
	struct dp_hook_exit *exits; /* in the order of calls */
};

/* The process is not stopped, and may change its hooks meanwhile. n is 0 when it has none. */
int dp_hooks_read(struct dp_process *proc, struct dp_hook_info **v, u32 *n, struct dp_error *err);
void dp_hooks_free(struct dp_hook_info *v, u32 n);

/*
 * Arm or disarm an exit, or with exit NULL open the hook itself, so that its places lead to the
 * function which calls the exits and can be probed. All threads stand still meanwhile; each write
 * leaves a state that the library copes with. E_HOOK_NONE, E_HOOK_SITE, E_HOOK_BUSY,
 * E_HOOK_DYNAMIC, those of attaching.
 */
int dp_hooks_set(struct dp_process *proc, const struct dp_hook_info *hook, const struct dp_hook_exit *exit, bool on,
		 struct dp_error *err);

#endif
