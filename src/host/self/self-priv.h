/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the files of the self host share. Two halves, as everywhere: the hit path (hit.c, entry.S,
 * trap.c, and the return and jprobe parts) calls nothing outside itself but handlers; the rest is
 * the control side, under one lock.
 */
#ifndef DP_SELF_PRIV_H
#define DP_SELF_PRIV_H

#include <sys/types.h>

#include "engine/hooks.h"
#include "engine/manager.h"

/* Code that runs on behalf of a hit. Never probed: see self_is_own(). */
#define HIT __attribute__((section("dprobes_text")))

/* ---- the hit path ---- */

struct self_instance;
#define SELF_SHELVES 16
struct self_shelf { /* free instances of one holder that a thread keeps */
	struct self_instance *first;
	u32 id; /* the holder's */
};

/* A thread that has hit a probe. Found through thread-local storage, given back when the thread is
 * gone. */
struct self_thread {
	int tid;           /* 0: free. Atomic */
	u32 depth;         /* >0: inside a hit. Read by the control side (self_grace) */
	u64 seq;           /* hits begun; the same */
	u64 sp;            /* the stack pointer of the hit that is running */
	struct kprobe *kp; /* whose handler is running */
	void *jprobe;      /* stack pointer to return to: a jprobe's handler is running */
	void *vectors;     /* of the hit that is running, as entry.S saved them */
	u32 mask;
	u32 through;    /* a return is to be probed: number of its stub, else 0 */
	u32 open, shut; /* of the store (instances.c): its owner is at it; a thief is. Atomic */
	struct hook_thread hook; /* in exits of hooks (hook-exits.c) */
	struct task_struct task;
	struct self_shelf store[SELF_SHELVES]; /* by the rest of the holder's number */
} __attribute__((aligned(64)));

#define SELF_THREADS 32768

extern struct self_thread self_threads[SELF_THREADS];
extern u32 self_threads_used; /* none at or above was ever used. Atomic */
extern __thread struct self_thread *self_mine
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Of entry.S: state components to save; those besides SSE; those that need xsavec when in use; its
 * size. */
extern u32 dp_self_xmask, dp_self_xrest, dp_self_xhigh, dp_self_xsize;

struct self_thread *self_thread(void);

/* Called by entry.S; returns HIT_* (inside.h). */
int dp_self_hit(struct pt_regs *regs, unsigned long tagged, void *vectors, u32 mask);
int dp_self_plain(struct pt_regs *regs, struct dp_kpoint *p);
int dp_self_lean(struct dp_kpoint *p, u64 *sp, u64 slot);
void dp_self_entry(void);
void dp_self_resume(struct pt_regs *regs) __attribute__((noreturn));

/* Carry out a branch; false when memory that it needs cannot be read. */
bool self_emulate(const struct dp_kpoint *p, struct pt_regs *regs);
bool self_read(u64 addr, void *buf, u32 n);
/* Of the memory operand; false when its segment is not known. next: the next instruction's. */
bool self_address_of(const struct dp_insn *in, u64 next, struct pt_regs *r, u64 *addr);

/* returns-hit.c, landing.S */
#define SELF_STUB_PAGES 64
#define SELF_STUBS (SELF_STUB_PAGES * 256) /* numbers that are multiples of 256 are not used */
extern u64 dp_self_targets[SELF_STUBS], dp_self_unwind[SELF_STUBS];
extern const char dp_self_stubs[];

struct self_holder;
struct self_instance { /* one call under way, and the stub that it returns to; bound for the life of
			  the holder */
	struct kretprobe_instance ri; /* first */
	struct self_holder *holder;
	u64 back; /* what stood in the return address's place */
	u64 loc;  /* that place */
	u32 stub;
	u32 next;                   /* on the free list: number + 1 */
	int tid;                    /* whose call it is; 0: free. Atomic */
	struct self_instance *kept; /* the next in a thread's store */
};

struct self_holder { /* the instances of a return probe; outlives it while calls are under way */
	struct self_holder *next;
	struct kretprobe *rp; /* NULL: unregistered. Atomic */
	u64 free;             /* changes << 32 | number + 1 of the first free instance. Atomic */
	u32 n, misses;
	u32 id;       /* of the threads' stores */
	u32 crowded;  /* threads had to look for instances in each other's stores: none is kept there
			 any more. Atomic */
	bool exits;   /* no stubs: the function's exits are probed */
	bool general; /* the handler leaves vector registers alone */
	char *data;
	struct self_instance v[];
};
extern struct self_instance *self_instances[SELF_STUBS]; /* by stub */
extern u8 dp_self_general[SELF_STUBS]; /* by stub: its return handler spares vector registers */
struct self_instance *self_instance_at(u64 addr); /* whose landing that is, or NULL */

/* instances.c */
struct self_instance *self_find(struct self_holder *h, struct self_thread *t, u64 sp);
void self_give_shared(struct self_instance *i);
bool self_collect(struct self_holder *h, const struct self_thread *me);

struct self_exit {        /* a probe on an exit of a function */
	struct kprobe kp; /* first */
	struct dp_mgr_probe k;
	struct self_holder *holder;
};
int self_exit_pre(struct kprobe *kp, struct pt_regs *regs);

int self_return_pre(struct kprobe *kp, struct pt_regs *regs);
int dp_self_returned(struct pt_regs *regs, unsigned long stub);
int self_jprobe_pre(struct kprobe *kp, struct pt_regs *regs);
void dp_self_call_jprobe(struct pt_regs *regs, void *entry, void *vectors, u32 mask, void **sp,
			 const void *args);
void dp_self_leave_jprobe(void *sp) __attribute__((noreturn));

/* ---- the control side ---- */

extern struct dp_manager self_manager;

/* One lock for everything about probes; taking it sets up the library at first. Returns 0 or a negative errno.
 */
int self_lock(void);
void self_unlock(void);
/* The lock of hooks (hook-exits.c), which is taken before that one. */
void self_hooks_lock(void);
void self_hooks_unlock(void);
void self_survive_forks(void); /* kprobes.c: from now on; either lock is held */
bool self_is_entry(u64 addr);  /* kprobes.c: the first instruction of a function. Takes the lock */
int self_refuse(const char *why); /* E_KPROBE_ARGUMENT */
int self_fail(const struct dp_error *err, int r); /* remember the reason for dp_kprobe_error() */

int self_host_init(struct dp_error *err);
bool self_is_own(u64 addr);
int self_trap_init(struct dp_error *err);
int self_own_probes_init(struct dp_error *err);
void self_after_fork(void);

/* images.c */
struct self_image {
	struct self_image *next;
	struct dp_module *mod; /* opened when first needed */
	char *path;
	const char *name; /* its last component */
	u64 bias, lo, hi;
	bool is_exe, seen, broken;
};
int self_images_refresh(void);
struct self_image *self_image_at(u64 addr);
int self_image_module(struct self_image *im, struct dp_error *err);
struct self_image *self_image_named(const char *name, size_t len);
int self_lookup(const char *name, u64 *addr,
		struct dp_error *err); /* -ENOENT with *addr 1: the module is missing */
void self_describe(u64 addr, char *buf, size_t size);

/* general.c: true when the handler (NULL: none) leaves vector registers alone */
bool self_is_general(const void *handler);

/* kprobes.c */
struct self_probe { /* what stands behind a registered struct kprobe */
	struct dp_mgr_probe k;
	struct kprobe *kp;
	struct self_probe *next;
	char type;    /* of the list: k, r, j */
	bool general; /* its handlers, those of the entry, leave vector registers alone */
	bool pending;
	struct self_exit *exits;
	int nexits;
};
#define SELF_USER_FLAGS                                                                            \
	(KPROBE_FLAG_DISABLED | KPROBE_FLAG_GENERAL_REGS | KPROBE_FLAG_RET_EXITS |                 \
	 KPROBE_FLAG_RET_CLASSIC)
extern struct self_probe *self_probes;
void self_unregister_all(struct kprobe **kps, int num);                      /* the lock is held */
int self_exits_attach(struct self_probe *s, u64 addr, struct dp_error *err); /* returns.c */
void self_exits_detach(struct self_probe *s);
void self_returns_forked(int old, int now);
/* They could not be registered; some may have been for a moment, and have calls under way. */
void self_returns_give_up(struct kprobe **kps, int num);
int self_register_all(struct kprobe **kps, int num, char type); /* takes the lock */
int self_set_disabled(struct kprobe *kp, bool disabled);
int self_apply(struct dp_error *err);
void self_modules_changed(void); /* modules came or went */

#endif
