/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Kprobes, jprobes and return probes as their callers know them: registering, unregistering, disabling, probes that
 * wait for a module or have lost theirs, batches that succeed as a whole. One manager for every host: what differs is
 * behind struct dp_kprobes_host. Everything is under the host's lock; it is not the hit path.
 */
#ifndef DP_KPROBES_H
#define DP_KPROBES_H

#include "engine/kprobe-names.h"
#include "engine/manager.h"
#include "engine/returns.h"

struct dp_registered { /* what stands behind a registered struct dp_kprobe */
	struct dp_mgr_probe k;
	struct dp_kprobe *kp;
	struct dp_registered *next, *prev; /* the next is younger */
	struct dp_registered *bucket;
	void *given;  /* the address that its owner has given */
	u32 hints;    /* DP_KPROBE_* that the host has found out about its handlers */
	char type;    /* k, r, j */
	bool pending; /* its module is not loaded */
	u32 nown;
	void *own; /* the host's, with nown */
};

struct dp_kprobes_host {
	unsigned int user_flags; /* DP_KPROBE_FLAG_* that a caller may set */
	dp_pre_handler_t return_entry, jprobe_entry;
	/* lock() may fail; the reason has been told then. */
	int (*lock)(void);
	void (*unlock)(void);
	/* The result of a call for one of its probes, or for none (NULL). */
	void (*tell)(struct dp_kprobe *kp, const struct dp_error *err, int r);
	/* "function" or "module:function". 1: the named module is not loaded. */
	int (*resolve)(const char *name, u64 *addr, struct dp_error *err);
	u32 (*hints)(const struct dp_kprobe *kp, char type);
	/*
	 * Put the probe on *addr, which becomes where it really is. For j and r that must be the start of a function,
	 * which for r must return once. After an error with k.point set, hits may have seen it for a moment.
	 */
	int (*attach)(struct dp_registered *s, u64 *addr, struct dp_error *err);
	void (*detach)(struct dp_registered *s);
	/* Flags of the probe (NULL: the knobs) have changed. */
	int (*flagged)(struct dp_registered *s);
	bool (*is_gone)(const struct dp_registered *s); /* of one without a point; NULL: there are none */
	/* Bring the code in line; afterwards no hit sees what was detached. */
	int (*apply)(struct dp_error *err);
	/* There are holders to be given back: now, or later when it takes long. */
	void (*sweep)(void);
};

#define DP_KPROBES_HASH 4096

struct dp_kprobes {
	const struct dp_kprobes_host *host;
	struct dp_manager *m;
	struct dp_returns *returns;
	struct dp_registered *first, *last; /* the oldest and the newest */
	struct dp_registered *by_kp[DP_KPROBES_HASH];
};

/* Of a point that dp_mgr_apply() has looked at: show its state in the flags of its probes. */
void dp_kprobes_show_state(struct dp_kpoint *p);

struct dp_registered *dp_kprobes_find(const struct dp_kprobes *kr, const struct dp_kprobe *kp); /* under the lock */

/* The calls of the public headers; each takes the lock. err may be NULL. */
int dp_kprobes_register(struct dp_kprobes *kr, struct dp_kprobe **kps, int num, char type, struct dp_error *err);
void dp_kprobes_unregister(struct dp_kprobes *kr, struct dp_kprobe **kps, int num);
int dp_kprobes_disable(struct dp_kprobes *kr, struct dp_kprobe *kp, bool disabled);

/* A switch of all probes: 1 or 0, else it is only asked for. *was: what it was. Takes the lock. */
int dp_kprobes_knob(struct dp_kprobes *kr, bool optimisation, int on, int *was);

/* The rest is called under the lock. */

/* Probes that wait for the module of this name (NULL: for any) are tried; then the code is brought in line. */
void dp_kprobes_try_pending(struct dp_kprobes *kr, const char *module);

/* Points or entries are gone: their probes are marked, or wait again. */
void dp_kprobes_mark_gone(struct dp_kprobes *kr);

/* Their owners still have them, but nothing is probed any more. */
void dp_kprobes_remove_all(struct dp_kprobes *kr);

#endif
