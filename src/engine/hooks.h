/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The exits of hooks (<dprobes/hooks.h>) and the places where hooks are passed: order, arming,
 * which instructions have to change. Kernel-clean; the hosts bring locks, waiting and the places.
 * One thread at a time; exits are called meanwhile.
 */
#ifndef DP_ENGINE_HOOKS_H
#define DP_ENGINE_HOOKS_H

#define DPROBES_HOOKS_INSIDE
#include "dprobes/hooks.h"
#include "engine/engine.h"

struct dp_hook_place {
	u64 code, armed; /* the instruction, and where it leads when armed */
	struct hook *hook;
	const void *owner; /* the host's: what comes and goes together */
	bool on;
};

/* What these bytes at the place are: DP_HOOK_IDLE, DP_HOOK_ARMED, or 0: something else. */
static inline u8 dp_hook_now(const struct dp_hook_place *p, const u8 bytes[DP_HOOK_LEN])
{
	u64 distance = p->armed - (p->code + DP_HOOK_LEN);

	if (memcmp(bytes + 1, &distance, 4))
		return 0;
	return bytes[0] == DP_HOOK_IDLE || bytes[0] == DP_HOOK_ARMED ? bytes[0] : 0;
}

struct dp_hook_host {
	struct dp_host code;
	/* Read code as it is in memory. */
	int (*peek)(void *arg, u64 addr, void *bytes, u32 n);
	/* Let a dynamic hook be hit, or not. */
	int (*enable)(struct hook *hook, bool on, struct dp_error *err);
};

struct dp_hooks {
	const struct dp_hook_host *host;
	struct hook *heads; /* all that are known, by `next`. Others read it from outside */
	struct dp_hook_place *places;
	u32 n, cap;
};

/* Something has come: -ENOMEM. Known ones may come again. */
int dp_hooks_add_place(struct dp_hooks *k, const struct dp_hook_place *p);
void dp_hooks_know(struct dp_hooks *k, struct hook *hook);
/* Its memory goes: it is not touched any more, its exits are registered nowhere. */
void dp_hooks_forget(struct dp_hooks *k, struct hook *hook);
void dp_hooks_forget_places(struct dp_hooks *k, const void *owner);

/* As the calls of the header. After taking out a grace period is due. */
int dp_hooks_insert(struct dp_hooks *k, struct hook *hook, struct hook_rec *rec, struct dp_error *err);
int dp_hooks_take_out(struct dp_hooks *k, struct hook_rec *rec, struct dp_error *err);
int dp_hooks_arm(struct dp_hooks *k, struct hook_rec **recs, int n, bool on, struct dp_error *err);

/* Active without an exit, or not: what is passed can be seen by probes. E_HOOK_DYNAMIC. */
int dp_hooks_open(struct dp_hooks *k, struct hook *hook, bool on, struct dp_error *err);

/* Bring every place into the state that its hook's exits ask for. E_HOOK_SITE. */
int dp_hooks_apply(struct dp_hooks *k, struct dp_error *err);
/* The same for what dp_hooks_apply() has found out: new places of hooks that are active already. */
int dp_hooks_apply_places(struct dp_hooks *k, struct dp_error *err);

/* Is an exit of the hook armed? */
bool dp_hook_wanted(const struct hook *hook);

#endif
