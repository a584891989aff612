/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the files of the self host share. Two halves, as everywhere: the hit path (hit.c, entry.S, trap.c, and the
 * return and jprobe parts) calls nothing outside itself but handlers; the rest is the control side, under one lock.
 */
#ifndef DP_SELF_PRIV_H
#define DP_SELF_PRIV_H

#include <sys/types.h>

#include "dprobes/kprobes.h"
#include "engine/manager.h"

/* Code that runs on behalf of a hit. Never probed: see self_is_own(). */
#define HIT __attribute__((section("dprobes_text")))

/* ---- the hit path ---- */

/* A thread that has hit a probe. Found through thread-local storage, given back when the thread is gone. */
struct self_thread {
	int tid;	     /* 0: free. Atomic */
	u32 depth;	     /* >0: inside a hit. Read by the control side (self_grace) */
	u64 seq;	     /* hits begun; the same */
	u64 sp;		     /* the stack pointer of the hit that is running */
	struct kprobe *kp;   /* whose handler is running */
	struct self_jump *jump; /* a jprobe's handler is running */
} __attribute__((aligned(64)));

#define SELF_THREADS 32768

extern struct self_thread self_threads[SELF_THREADS];
extern u32 self_threads_used; /* none at or above was ever used. Atomic */

extern u32 dp_self_xmask, dp_self_xrest, dp_self_xsize;

struct self_thread *self_thread(void);

/* Called by entry.S. 0: go on in the slot; 1: go on at regs->ip with all registers; -1: again, with vectors saved. */
int dp_self_hit(struct pt_regs *regs, unsigned long tagged, void *vectors, u32 mask);
void dp_self_entry(void);
void dp_self_resume(struct pt_regs *regs) __attribute__((noreturn));

/* Carry out a branch; false when memory that it needs cannot be read. */
bool self_emulate(const struct dp_kpoint *p, struct pt_regs *regs);
bool self_read(u64 addr, void *buf, u32 n);

/* ---- the control side ---- */

extern struct dp_manager self_manager;

/* One lock for everything; taking it sets up the library at first. Returns 0 or a negative errno. */
int self_lock(void);
void self_unlock(void);
int self_fail(const struct dp_error *err, int r); /* remember the reason for dp_kprobe_error() */

int self_host_init(struct dp_error *err);
bool self_is_own(u64 addr);
int self_trap_init(struct dp_error *err);
int self_hooks_init(struct dp_error *err);
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
int self_lookup(const char *name, u64 *addr, struct dp_error *err); /* -ENOENT with *addr 1: the module is missing */
void self_describe(u64 addr, char *buf, size_t size);

/* kprobes.c */
struct self_probe { /* what stands behind a registered struct kprobe */
	struct dp_kprobe k;
	struct kprobe *kp;
	struct self_probe *next;
	char type; /* of the list: k, r, j */
	bool pending;
};
extern struct self_probe *self_probes;
int self_register(struct kprobe *kp, char type, struct dp_error *err);
void self_unregister(struct kprobe *kp);
bool self_registered(const struct kprobe *kp);
int self_apply(struct dp_error *err);
void self_modules_changed(void); /* modules came or went */

#endif
