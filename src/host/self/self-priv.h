/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the files of the self host share. Two halves, as everywhere: the hit path (hit.c, self-entry.S,
 * trap.c, and the return and jprobe parts) calls nothing outside itself but handlers; the rest is
 * the control side, under one lock.
 */
#ifndef DP_SELF_PRIV_H
#define DP_SELF_PRIV_H

#include <pthread.h>
#include <sys/types.h>

#include "engine/hooks.h"
#include "engine/kprobes.h"

/* Code that runs on behalf of a hit. Never probed: see dp_self_is_own(). */
#define HIT __attribute__((section("dprobes_text")))

/* ---- the hit path ---- */

#define SELF_SHELVES 16
struct self_shelf { /* free instances of one holder that a thread keeps */
	struct dp_instance *first;
	u32 id; /* the holder's */
};

/* A thread that has hit a probe. Found through thread-local storage, given back when the thread is
 * gone. */
struct self_thread {
	int tid;           /* 0: free. Atomic */
	u32 depth;         /* >0: inside a hit. Read by the control side (dp_self_grace) */
	u64 seq;           /* hits begun; the same */
	u64 sp;            /* the stack pointer of the hit that is running */
	struct kprobe *kp; /* whose handler is running */
	void *jprobe;      /* stack pointer to return to: a jprobe's handler is running */
	void *vectors;     /* of the hit that is running, as self-entry.S saved them */
	u32 mask;
	u32 through;             /* a return is to be probed: number of its stub, else 0 */
	u32 open, shut;          /* of the store (instances.c): its owner is at it; a thief is. Atomic */
	struct hook_thread hook; /* in exits of hooks (hook-exits.c) */
	struct task_struct task;
	struct self_shelf store[SELF_SHELVES]; /* by the rest of the holder's number */
} __attribute__((aligned(64)));

#define SELF_THREADS 32768

extern struct self_thread dp_self_threads[SELF_THREADS];
extern u32 dp_self_threads_used; /* none at or above was ever used. Atomic */
extern __thread struct self_thread *dp_self_mine __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Of self-entry.S: state components to save; those besides SSE; those that need xsavec when in use; its
 * size. */
extern u32 dp_self_xmask, dp_self_xrest, dp_self_xhigh, dp_self_xsize;

struct self_thread *dp_self_thread(void);

/* Called by self-entry.S; returns HIT_* (inside.h). */
int dp_self_hit(struct pt_regs *regs, unsigned long tagged, void *vectors, u32 mask);
int dp_self_plain(struct pt_regs *regs, struct dp_kpoint *p);
int dp_self_no_regs(struct dp_kpoint *p, u64 *sp, u64 slot);
void dp_self_entry(void);
void dp_self_resume(struct pt_regs *regs) __attribute__((noreturn));

/* Carry out a branch; false when memory that it needs cannot be read. */
bool dp_self_emulate(const struct dp_kpoint *p, struct pt_regs *regs);
bool dp_self_read(u64 addr, void *buf, u32 n);
/* Of the memory operand; false when its segment is not known. next: the next instruction's. */
bool dp_self_address_of(const struct dp_insn *in, u64 next, struct pt_regs *r, u64 *addr);

/* returns-hit.c, landing.S */
#define SELF_STUB_PAGES 64
#define SELF_LANDING 6                     /* of a stub: behind its call */
#define SELF_STUBS (SELF_STUB_PAGES * 256) /* numbers that are multiples of 256 are not used */
extern u64 dp_self_targets[SELF_STUBS], dp_self_unwind[SELF_STUBS];
extern const char dp_self_stubs[];

extern struct dp_instance *dp_self_instances[SELF_STUBS]; /* by stub */
extern u8 dp_self_general[SELF_STUBS];                    /* by stub: its return handler spares vector registers */
struct dp_instance *dp_self_instance_at(u64 addr);        /* whose landing that is, or NULL */

/* instances.c */
struct dp_instance *dp_self_find(struct dp_holder *h, struct self_thread *t, u64 sp);
void dp_self_give_shared(struct dp_instance *i);
bool dp_self_collect(struct dp_holder *h, const struct self_thread *me);

struct self_exit {        /* a probe on an exit of a function */
	struct kprobe kp; /* first */
	struct dp_mgr_probe k;
	struct dp_holder *holder;
};
int dp_self_exit_pre(struct kprobe *kp, struct pt_regs *regs);

int dp_self_return_pre(struct kprobe *kp, struct pt_regs *regs);
int dp_self_returned(struct pt_regs *regs, unsigned long stub);
int dp_self_jprobe_pre(struct kprobe *kp, struct pt_regs *regs);
void dp_self_call_jprobe(struct pt_regs *regs, void *entry, void *vectors, u32 mask, void **sp, const void *args);
void dp_self_leave_jprobe(void *sp) __attribute__((noreturn));

/* ---- the control side ---- */

/* self-state.c */
extern struct dp_manager dp_self_manager;
extern pthread_mutex_t dp_self_hooks_lock; /* protects hooks (hook-exits.c); taken before the lock of probes */
extern __thread char dp_self_reason[400];  /* what dp_kprobe_error() tells */
int dp_self_fail(const struct dp_error *err, int r); /* remember the reason */

/* One lock for everything about probes; taking it sets up the library at first. Returns 0 or a negative errno.
 */
int dp_self_lock(void);
void dp_self_unlock(void);
void dp_self_survive_forks(void); /* kprobes.c: from now on; either lock is held */
bool dp_self_is_entry(u64 addr);  /* kprobes.c: the first instruction of a function. Takes the lock */

int dp_self_host_init(struct dp_error *err);
bool dp_self_is_own(u64 addr);
int dp_self_trap_init(struct dp_error *err);
int dp_self_own_probes_init(struct dp_error *err);
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
int dp_self_images_refresh(void);
struct self_image *dp_self_image_at(u64 addr);
int dp_self_image_module(struct self_image *im, struct dp_error *err);
int dp_self_lookup(const char *name, u64 *addr, struct dp_error *err); /* -ENOENT with *addr 1: the module is missing */
void dp_self_describe(u64 addr, char *buf, size_t size);

/* self-returns.c */
extern struct dp_returns dp_self_returns;
int dp_self_exits_attach(struct dp_registered *s, u64 addr, struct dp_error *err);
void dp_self_exits_detach(struct dp_registered *s);
int dp_self_exits_flagged(struct dp_registered *s);
void dp_self_returns_forked(int old, int now);
void dp_self_sweep(void);

/* general.c: true when the handler (NULL: none) leaves vector registers alone */
bool dp_self_is_general(const void *handler);

/* kprobes.c */
extern struct dp_kprobes dp_self_kprobes;
void dp_self_modules_changed(void); /* modules came or went */

#endif
