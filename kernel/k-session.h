/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Sessions of the device: the probes of one opener, their programs and the rings that he maps. What
 * comes from user space is copied and checked in k-device.c; here it is armed and hit.
 */
#ifndef DP_KERNEL_SESSION_H
#define DP_KERNEL_SESSION_H

#include <linux/path.h>
#include <linux/uprobes.h>

#include "abi/abi-ring.h"
#include "k-unwind.h"
#include "run.h"
#include "abi/abi-device.h"

struct dp_k_session_probe {
	struct dp_kretprobe rp; /* rp.kp alone for a probe */
	struct dp_k_prog run;
	struct dp_k_session *session;
	struct dp_program prog;
	struct dp_k_code code; /* of the program, unless it is that of the probe before it */
	char place[DP_DEV_PLACE_MAX];
	bool is_return;
	struct dp_kwatch watch;    /* handler set: this, not rp */
	u64 last;                  /* the watched value at the last hit */
	u32 locals, globals, gate; /* words */
	/* In user code (user.c): inode is not NULL, and rp holds no more than the count of missed hits. */
	struct path path; /* holds the inode and its mount */
	struct inode *inode;
	loff_t offset;
	struct uprobe_consumer user;
	dp_k_uprobe uprobe;
	bool user_armed;
	bool waits; /* its records, until the instruction has been carried out (user-wait.c) */
	struct list_head user_list;
	/* k-tracepoints.c: at a tracepoint, the place, or at system calls. */
	bool is_tracepoint, is_call;
	s32 call; /* its number; below 0: every one */
	struct dp_k_session_probe *next_call;
	struct tracepoint *tracepoint; /* NULL: it is not in place */
	enum dp_dev_how trace_state;
	struct list_head trace_list;
};

#define DP_K_CALLS 512 /* more than any system call's number */

/* Of a session: its probes of system calls, where they begin and where they return; the last for every one. */
struct dp_k_calls {
	struct dp_k_session_probe *first[2][DP_K_CALLS + 1];
	bool is_in_place[2];
};

struct dp_k_session {
	struct mutex lock; /* before dp_k_lock */
	pid_t pid;         /* of the opener */
	struct dp_k_session_probe **probes;
	u32 nprobes, cap;
	bool armed, disarmed; /* each at most once */
	void *area;           /* what is mapped: rings, then words */
	u64 size;
	struct dp_rings g; /* ours: the one in the area may be overwritten */
	struct dp_k_sink *sinks;
	struct dp_k_calls *calls;
	struct dp_k_stacks *stacks;
	s32 *pids;             /* hits of other processes are passed over; in order */
	u32 npids;             /* 0: of none */
	unsigned long *family; /* a bit for each process whose hits count, in the place of pids; NULL: see there */
};

/* All under the session's lock. */
int dp_k_session_add(struct dp_k_session *s, struct dp_k_session_probe *p); /* takes p over when it succeeds */
int dp_k_session_arm(struct dp_k_session *s, struct dp_dev_arm *arm, const u64 *words, struct dp_error *err);
void dp_k_session_sync(struct dp_k_session *s);
void dp_k_session_disarm(struct dp_k_session *s);
void dp_k_session_free(struct dp_k_session *s);
void dp_k_session_probe_free(struct dp_k_session_probe *p);

/* At a hit: whether it is for the program. */
static __always_inline bool dp_k_session_wants(const struct dp_k_session_probe *p)
{
	const struct dp_k_session *s = p->session;

	if (likely(!s->npids))
		return true;
	return s->family ? test_bit(current->tgid, s->family) : dp_k_among(s->pids, s->npids, current->tgid);
}

/*
 * k-family.c. Of all others no hits count: these processes, and, from now on, those that they start. E_TRACEPOINT_NONE,
 * E_ARM_NOMEM.
 */
int dp_k_family_add(struct dp_k_session *s, const s32 *pids, u32 n, struct dp_error *err);
void dp_k_family_end(struct dp_k_session *s);          /* nobody is hit any more */
bool dp_k_session_lives(const struct dp_k_session *s); /* whether there is anybody whose hits count */

/* The session that a registered probe belongs to, or NULL. */
struct dp_k_session *dp_k_session_of(const struct dp_registered *s);

struct dp_k_session *dp_k_session_of_watch(const struct dp_kwatch *w);

/* user.c. E_KERNEL_UPROBE. */
extern struct list_head dp_k_user_probes; /* armed ones, by user_list; under dp_k_lock */
int dp_k_user_open(struct dp_k_session_probe *p, int fd, s64 offset, struct dp_error *err);
int dp_k_user_arm(struct dp_k_session_probe *p, struct dp_error *err);
void dp_k_user_disarm(struct dp_k_session_probe *p); /* when it returns no program of it runs any more */
void dp_k_user_close(struct dp_k_session_probe *p);

/*
 * user-wait.c. At a hit, in the order: room for the records, which dp_k_run_waiting() fills (NULL: no memory; may
 * sleep); then it is given to those that wait, of the instruction at addr, or freed when it is empty.
 */
struct dp_k_waiting *dp_k_waiting_new(struct dp_k_session_probe *p);
void dp_k_waiting_add(struct dp_k_waiting *w, unsigned long addr);
/* Before the first hit of a probe that waits, and behind its last one. One at a time. */
int dp_k_waiting_begin(struct dp_error *err);
void dp_k_waiting_end(struct dp_k_session_probe *p);

/* k-tracepoints.c. E_TRACEPOINT_NONE. */
int dp_k_tracepoint_check(const struct dp_k_session_probe *p, struct dp_error *err);
int dp_k_tracepoints_arm(struct dp_k_session *s, struct dp_error *err);
void dp_k_tracepoints_disarm(struct dp_k_session *s); /* when it returns no program of them runs any more */
void dp_k_tracepoints_each(void (*fn)(void *arg, const struct dp_k_session_probe *p), void *arg);
int dp_k_tracepoints_init(void);
void dp_k_tracepoints_exit(void);
/* k-entry.S calls the other one, with what the tracepoint had at the call. */
void dp_k_tracepoint(void *probe);
void dp_k_tracepoint_hit(struct dp_k_session_probe *p, struct pt_regs *regs);

/* Whether something else than a place in code is hit: there is no kprobe of it. */
static inline bool dp_k_is_traced(const struct dp_k_session_probe *p)
{
	return p->is_tracepoint || p->is_call;
}

/* k-device.c */
int dp_k_device_init(void);
void dp_k_device_exit(void);

#endif
