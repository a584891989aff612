/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Return probes: the instances of each (its holder), and the landings that stand on the stack in place of return
 * addresses, one for each instance. Made ahead of time, so that a hit finds all that it needs. What a hit does with
 * them is the host's.
 */
#ifndef DP_RETURNS_H
#define DP_RETURNS_H

#include "base/error.h"
#include "engine/freelist.h"
#include "engine/kprobe-names.h"

#define DP_MAXACTIVE 4096
#define DP_RETURN_DATA (1 << 20) /* bytes of an instance's data at most */

struct dp_holder;

struct dp_instance {                     /* one call under way, and the landing that it returns to */
	struct dp_kretprobe_instance ri; /* first */
	struct dp_holder *holder;
	u64 back;                 /* what stood in the return address's place. Atomic */
	u64 loc;                  /* that place */
	u64 landing;              /* its own, as an address; 0: it needs none */
	u64 owner;                /* whose call it is, a word of the host's; 0: free. Atomic */
	struct dp_instance *kept; /* the host's: the next in a thread's store */
	u32 number;               /* of the landing */
	u32 next;                 /* on the free list */
};

struct dp_holder { /* the instances of a return probe; outlives it until nobody can return to them */
	struct dp_holder *next;
	struct dp_kretprobe *rp; /* NULL: unregistered. Atomic */
	dp_freelist free;        /* by index + 1 */
	void *spare;             /* the host's */
	char *data;
	u32 n;
	u32 id, misses, crowded; /* the host's */
	bool exits;              /* no landings: the function's exits are probed */
	bool general;            /* the host's */
	struct dp_instance v[];
};

struct dp_returns_host {
	u32 numbers; /* of landings, from 0 */
	/* The address of a landing for an instance of h; 0: there is none of this number. */
	u64 (*landing)(const struct dp_holder *h, u32 number);
	/* A holder that is about to be used, or -ENOMEM. */
	int (*opened)(struct dp_holder *h);
	/* NULL, or: no entry leads to it any more; let calls that are under way return to their callers. */
	void (*closed)(struct dp_holder *h);
	/* NULL, or: can nobody return to it any more? */
	bool (*is_unused)(struct dp_holder *h);
	/* NULL, or: it is about to be freed. */
	void (*freed)(struct dp_holder *h);
};

struct dp_returns {
	const struct dp_returns_host *host;
	struct dp_instance **by_number; /* the host's table. Atomic */
	u32 cpus, hint;
	struct dp_holder *open, *closed; /* the first may be read at any time */
};

/* The arguments of a return probe; maxactive is filled in. */
int dp_return_check(const struct dp_returns *rt, struct dp_kretprobe *rp, struct dp_error *err);

/* Make its instances: rp->dp_private is their holder. */
int dp_return_open(struct dp_returns *rt, struct dp_kretprobe *rp, struct dp_error *err);

/* Its return handler is called no more from the next apply on. */
struct dp_manager;
void dp_return_forget(struct dp_manager *m, struct dp_kretprobe *rp);

/* After that apply: no entry leads to the holder any more. */
void dp_return_close(struct dp_returns *rt, struct dp_kretprobe *rp);

/* Free the closed holders that nobody can return to. */
void dp_returns_sweep(struct dp_returns *rt);

/* The call whose return address lies at top begins; outer: another probe's instance of the same call, or NULL. */
static inline __attribute__((__always_inline__)) void dp_instance_begin(struct dp_instance *i, u64 *top,
									const struct dp_instance *outer)
{
	i->back = *top;
	i->loc = (u64)(unsigned long)top;
	i->ri.ret_addr = outer ? outer->ri.ret_addr : (void *)(unsigned long)*top;
}

#endif
