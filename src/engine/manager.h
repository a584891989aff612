/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The probe manager: points (probed addresses), the probes on them, and the state each point is in:
 * nothing, breakpoint, jump. Kernel-clean: it knows neither handlers nor threads; a host gives it
 * code to write, room for slots and a grace period. One thread at a time, except for what is marked
 * "any time".
 */
#ifndef DP_MANAGER_H
#define DP_MANAGER_H

#include "abi/abi-point.h"
#include "engine/engine.h"

/* Tags in the lowest bits of the pointer that a slot hands to the entry. */
#define DP_HIT_POST 1ul    /* the instruction has been executed: post handlers are due */
#define DP_HIT_EMULATE 2ul /* no copy follows: the hit path carries the branch out itself */
#define DP_HIT_TAGS 3ul

#define DP_MGR_DISABLED 0x1
#define DP_MGR_POST 0x2    /* has a post handler: control must come back after the instruction */
#define DP_MGR_BREAK 0x4   /* a jprobe: at most one on a point, behind all others, and no jump */
#define DP_MGR_ALWAYS 0x10 /* the host's own: called inside handlers too, whatever the knobs say */
#define DP_MGR_GENERAL 0x8 /* its handlers touch general registers only */
#define DP_MGR_PRE 0x40    /* it has a pre handler */
#define DP_MGR_NO_REGS \
	0x20 /* it has no handler that looks at registers: the host's shorter way \
			       */

struct dp_mgr_probe { /* one registered probe; the owner knows what it stands for */
	struct dp_kpoint *point;
	struct dp_mgr_probe *next; /* on the same point, oldest first */
	u32 flags;                 /* DP_KPROBE_* */
	void *owner;
};

struct dp_hitlist { /* the enabled probes of a point, as the hit path sees them; never changed once
		       published */
	struct dp_hitlist *old;
	bool general; /* no handler touches vector registers */
	bool post;    /* somebody wants control after the instruction */
	bool no_regs; /* all of them are DP_MGR_NO_REGS */
	u32 n;
	struct dp_mgr_probe *v[];
};

enum dp_state_now { DP_POINT_OFF, DP_POINT_TRAP, DP_POINT_JUMP };

#define DP_OOL_INSNS (DP_WINDOW_INSNS + 1)

/* A piece of code out of line: the hit, copies of instructions, and the way back. Never freed or
 * changed. */
struct dp_ool_slot {
	u64 addr; /* 0: not made */
	u32 len;
	u8 ninsns;
	u8 off[DP_WINDOW_INSNS]; /* of the originals, from the point's address */
	u16 copy[DP_OOL_INSNS];  /* of the copies, from addr; the last: the end of the last copy */
};

struct dp_kpoint {
	u64 addr;                /* must stay first: self-entry.S reads it */
	u32 vectors;             /* second: 0 when no handler here touches vector registers */
	u32 no_regs;             /* third: not 0 when nothing here looks at registers */
	bool gone;               /* the module was unloaded */
	bool dirty;              /* on the manager's list of points to look at */
	bool held;               /* it may become a jump, but not now */
	bool fresh;              /* made since the last apply: nobody else has changed its bytes */
	u8 state;                /* enum dp_state_now */
	bool no_jump;            /* its region is not safe for one: why */
	struct dp_hitlist *list; /* atomic; NULL: nobody is to be called */
	void *single;            /* atomic: the owner of the only probe to be called, when it has a pre
				    handler; else the host's `whole_list`, which looks at the list */
	struct dp_mgr_probe *probes;
	const struct dp_text *text;
	u64 bias, reach_lo, reach_hi;
	void *module; /* the host's */
	u32 reserved; /* the host's */
	struct dp_insn insn;
	u8 bytes[DP_INSN_MAX];
	struct dp_ool_slot plain, post, jump;
	struct dp_ool_slot *aim; /* atomic: the one that its breakpoint leads to */
	struct dp_window win;    /* of the jump; run-time start */
	enum dp_code why;        /* no jump fits: the reason */
	struct dp_patch trap_patch, jump_patch;
	struct dp_kpoint *hash_next, *next, *work_next;
};

struct dp_locus { /* what a host knows about an address */
	const struct dp_text *text;
	u64 bias;
	u64 reach_lo, reach_hi; /* where slots for this module may lie */
	void *module;
};

struct dp_mgr_host {
	struct dp_host code;
	int (*locate)(void *arg, u64 addr, struct dp_locus *out, struct dp_error *err);
	/* Tell the space what is in use now. */
	int (*refresh)(void *arg, struct dp_space *space);
	/* Make [lo, hi) readable and executable; -EEXIST when something is there already. */
	int (*map)(void *arg, u64 lo, u64 hi, struct dp_error *err);
	/* Write into such memory; no thread executes these bytes yet. */
	int (*fill)(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err);
	/* Read code as it is in memory. */
	int (*peek)(void *arg, u64 addr, void *bytes, u32 n);
	/*
	 * NULL, or: has somebody else a patch in [addr, addr + n), or one over addr that begins before it, or may he
	 * get one?
	 */
	bool (*is_covered)(void *arg, u64 addr, u32 n);
	/* Returns when every hit that had begun before has ended. */
	void (*grace)(void *arg);
	/*
	 * NULL, or: returns when no thread stands inside code that has been behind a breakpoint since
	 * before the call. A host that can tell needs no trapping bytes inside its jumps.
	 */
	void (*settle)(void *arg);
	/* NULL, or: an apply has looked at the point; its state may be another now. */
	void (*looked_at)(void *arg, struct dp_kpoint *p);
	/*
	 * Slots call this, the tagged point on the stack (self-entry.S); with entry_jumps they push
	 * where to come back to and jump to it, and it comes back by a jump.
	 */
	u64 entry;
	u64 entry_tagged; /* 0, or what slots call with a tagged point; only where near */
	void *whole_list; /* see struct dp_kpoint */
	bool entry_jumps;
	u32 zone;  /* bytes below the stack pointer that slots must leave alone */
	bool near; /* the entry is in reach of a direct call from every slot; not with entry_jumps */
	void *arg;
};

struct dp_traps { /* trapping byte -> where it goes on; read at any time */
	struct dp_traps *old;
	u32 mask, used;
	struct dp_redirect v[];
};

#define DP_MGR_HASH 16384 /* all functions of a kernel at once are 43 000 points: three of them in each */

struct dp_manager {
	const struct dp_mgr_host *host;
	struct dp_kpoint *hash[DP_MGR_HASH];
	struct dp_kpoint *points, *work; /* all of them, newest first; those to look at */
	struct dp_traps *traps;          /* atomic */
	struct dp_space space;
	u32 mapped;                 /* areas of the space that are mapped */
	struct dp_hitlist *retired; /* to be freed after a grace period */
	bool stale;                 /* hits may still see what was replaced */
	bool disarmed, no_optimise; /* the two global knobs, as "off" */
	bool hold;                  /* breakpoints only for now: jumps wait for a later apply */
	u32 npoints, narmed, noptimised;
	u32 nstuck; /* jumps that stay for now, because somebody else has changed their bytes */
};

int dp_mgr_init(struct dp_manager *m, const struct dp_mgr_host *host);

/* Release everything. No probe is attached, nothing armed, and nobody will come any more. */
void dp_mgr_free(struct dp_manager *m);

/*
 * Attach a probe (owner and flags filled in) to an address; nothing is armed before dp_mgr_apply().
 * Errors: E_SITE_*, E_KPROBE_JPROBE.
 */
int dp_mgr_attach(struct dp_manager *m, u64 addr, struct dp_mgr_probe *p, struct dp_error *err);
void dp_mgr_detach(struct dp_manager *m, struct dp_mgr_probe *p);
int dp_mgr_flags(struct dp_manager *m, struct dp_mgr_probe *p, u32 flags);

/* Bring every point into the state that its probes and the knobs ask for, then wait out a grace
 * period. */
int dp_mgr_apply(struct dp_manager *m, struct dp_error *err);

int dp_mgr_knobs(struct dp_manager *m, bool disarmed, bool no_optimise);

/* The code in [lo, hi) is no more: its points are [GONE] and nothing is written there any more. How many they are. */
u32 dp_mgr_gone(struct dp_manager *m, u64 lo, u64 hi);

static inline u32 dp_mgr_bucket(u64 addr)
{
	return (u32)((addr * 0x9e3779b97f4a7c15ull) >> 40) % DP_MGR_HASH;
}

/* Any time: the point at an address, or NULL. */
static inline struct dp_kpoint *dp_mgr_point(struct dp_manager *m, u64 addr)
{
	/* Pairs with the release in new_point(): a trap may look while points come and go. */
	struct dp_kpoint *p = __atomic_load_n(&m->hash[dp_mgr_bucket(addr)], __ATOMIC_ACQUIRE);

	while (p && p->addr != addr)
		p = __atomic_load_n(&p->hash_next, __ATOMIC_ACQUIRE);
	return p;
}

/*
 * The host has settled since dp_mgr_gone(): nobody is in a slot of those points. What has no probes any more is
 * forgotten, and its slots are filled with breakpoints and given back.
 */
void dp_mgr_reap(struct dp_manager *m);

/* Any time, also in a signal handler: where a trap at pc goes on; 0: not ours. */
u64 dp_mgr_redirect(struct dp_manager *m, u64 pc);

/*
 * Any time: the original address of a program counter in a slot, 0: not in a slot's copies. *point
 * gets the point and *index the number of the displaced instruction.
 */
u64 dp_mgr_home(struct dp_manager *m, u64 pc, struct dp_kpoint **point, u32 *index);

/* slot.c: make the code of a slot. -EOPNOTSUPP when the instruction does not allow it. */
enum dp_ool_kind { DP_OOL_PLAIN, DP_OOL_POST, DP_OOL_JUMP };
int dp_ool_slot_make(struct dp_manager *m, struct dp_kpoint *p, enum dp_ool_kind kind, struct dp_error *err);

/* Does control leave the instruction otherwise than by falling through? Then a post handler needs
 * emulation. */
bool dp_insn_branches(const struct dp_insn *in);

/* traps.c */
int dp_traps_set(struct dp_manager *m, u64 pc, u64 to);

#endif
