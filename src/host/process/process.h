/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The process host: probes in a foreign process by ptrace. A session attaches, maps the blob and
 * the log rings, arms its probes, and lets go: no tracer stays. One thread must use a session at a time (it
 * must be the thread that created it: ptrace is bound to the thread).
 */
#ifndef DP_PROCESS_H
#define DP_PROCESS_H

#include "base/now.h"
#include "host/host.h"
#include "symbols/symbols.h"

struct dp_session;

/* What happened so far, for bench and for people. Times in nanoseconds. */
struct dp_session_stats {
	u64 attach_ns, plan_ns, arm_ns, remove_ns;
	u64 longest_stop_ns; /* of any thread */
	u64 stops;           /* thread interruptions in all */
	u64 moved;           /* program counters moved off displaced bytes */
	u64 rescued;         /* traps redirected while arming or removing */
	u64 mapped_bytes;    /* address space added to the target */
	u64 resident_bytes;  /* of it, written by the control side */
	u64 kept_bytes;      /* could not be unmapped at the end, 0 normally */
};

/*
 * Look at the process and make ready for adding events; nothing in the target is changed.
 * Errors: E_PROC_*, E_TARGET_* (own process, kernel thread, 32-bit, not permitted, traced by another).
 */
int dp_session_new(struct dp_session **s, pid_t pid, const struct dp_session_options *opt, struct dp_error *err);

/* What a process allows its threads to do at a hit. */
struct dp_process_caps {
	u32 caps; /* DP_CAP_* */
	s32 rseq_off;
	u32 nthreads;
	bool seccomp;  /* a filter of system calls is in force */
	bool compiled; /* programs can be machine code there */
};

/* Found out as for a session; one thread is stopped for some microseconds. E_PROC_*, E_TARGET_* */
int dp_process_caps(pid_t pid, struct dp_process_caps *out, struct dp_error *err);

/* Whether this kernel lets pages be watched, tried on ourselves: E_WATCH_PAGES. */
int dp_session_can_watch_pages(struct dp_error *err);

/*
 * Start a program, stopped before its first instruction in user mode; its shared libraries are
 * loaded by running it to its entry point first, so that probes in them resolve. It goes on at dp_session_arm().
 */
int dp_session_spawn(struct dp_session **s, char *const argv[], const struct dp_session_options *opt,
		     struct dp_error *err);

/* ---- looks at threads (glance.c) ---- */

/* Its letter in /proc/PID/task/TID/stat: R, S, D, T ... 0: there is no such thread. Any thread may call this. */
char dp_thread_state(pid_t pid, pid_t tid);

struct dp_glance {
	u64 ip, sp, frame, aligned; /* frame: the frame register; aligned: that of DP_UNWIND_ALIGN */
	u64 size;                   /* of the stack, from sp on */
	u8 stack[8192];
};

/*
 * A thread that runs is asked to stop. 0: dp_glance_end() is to be called until it says something else than -EAGAIN,
 * before the calling thread ends. -EAGAIN: it does not run at the moment. -EPERM: not allowed, or somebody else traces
 * it. -ESRCH: it has ended.
 */
int dp_glance_begin(pid_t pid, pid_t tid);
/* 0: it was looked at, and goes on. -EAGAIN: it has not stopped yet. -ESRCH: it has ended. */
int dp_glance_end(pid_t tid, struct dp_glance *g);

/* ---- those who wait for us come first (tracer.c) ---- */

/*
 * Somebody waits for us: be scheduled at once, also where every processor is busy (there, a mere nice value waits until
 * the running thread's slice is over, milliseconds). Without the right to, as it is. Until the end of it.
 */
struct dp_hurry {
	int policy, nice;
};
void dp_hurry_begin(struct dp_hurry *before);
void dp_hurry_end(const struct dp_hurry *before);

/* ---- programs that others start (park.c) ---- */

#define DP_PARK_MAX 128 /* bytes of code that a waiting process runs */
#define DP_CATCH_MS 500 /* how long a thread may take to stop */

struct dp_parking { /* a process that waits at its entry point, or where it has loaded a library */
	pid_t pid, tid;
	u64 entry;
	u64 at; /* where it waits */
	u32 size;
	bool left;        /* dp_unpark() found that it had gone on */
	u64 word;         /* waits as long as this changes; 0: some seconds */
	bool keeps, kept; /* a thread of ours changes it; it is to end */
	pthread_t keeper;
	bool asked, there; /* to stop, to see whether it has come; it has */
	u64 since, due;    /* when it was sent there; when it is asked next */
	u8 first[16], saved[DP_PARK_MAX];
};

/*
 * Catch a program at its start, or a thread that loads a library. start: the process has come out of execve and is kept
 * from running its first instruction (or is not, and may be further). load: thread tid is held in an open by its
 * dynamic linker. Both until go(arg), which is called once in any case. The process then waits at its entry point, or
 * the thread where the library is mapped, for dp_unpark(), which must be called by the same thread as arming; if that
 * does not come it goes on by itself after three seconds. dp_unpark() calls ready(arg), unless ready is NULL, before
 * the first instruction that the thread executes of its own: what it opens after that may be held again. E_TARGET_GONE
 * when it has ended, or opens the file for something else; E_TARGET_STUCK when it cannot be stopped at its entry point,
 * or is past that already.
 */
int dp_catch_start(struct dp_parking *p, pid_t pid, void (*go)(void *arg), void *arg, struct dp_error *err);
/*
 * The first half of dp_catch_start(): the process is on its way to its entry point, where dp_catch_arrived(), the
 * second half, finds it. Meanwhile probes may be put into another one; no more than one at a time is on its way.
 */
int dp_catch_begin(struct dp_parking *p, pid_t pid, void (*go)(void *arg), void *arg, struct dp_error *err);
int dp_catch_arrived(struct dp_parking *p, struct dp_error *err);
int dp_catch_load(struct dp_parking *p, pid_t tid, pid_t pid, void (*go)(void *arg), void *arg, struct dp_error *err);
void dp_catch_settle(void); /* now and then: let threads go that could not be stopped for it when their time was over */
int dp_unpark(struct dp_parking *p, void (*ready)(void *arg), void *arg, struct dp_error *err);

/*
 * Now and then: hear that threads have ended that this one traced when they were killed, and that nothing of ours waits
 * for any more. Until then their parents do not hear of it. Children are left to whoever has started them.
 */
void dp_hear_ends(void);

/* Resolve and compile one event line; a pattern adds a probe for every match that can be probed
 * (and a note about the others). On error nothing is added. */
int dp_session_add(struct dp_session *s, struct dp_event_line *line, struct dp_error *err);

/* Copies the program. E_RPN_OPCODE and E_WATCH_* besides the errors of dp_session_add(). */
int dp_session_add_spec(struct dp_session *s, const struct dp_probe_spec *spec, struct dp_error *err);

/* The run-time address of [MODULE:]SYMBOL in the process. */
int dp_session_symbol(struct dp_session *s, const char *symbol, u64 *addr, struct dp_error *err);

/*
 * How many words the programs share, and their first values; before arming. The process, its children and the caller
 * see the same words (after arming).
 */
int dp_session_set_words(struct dp_session *s, const u64 *values, u32 n, struct dp_error *err);
volatile u64 *dp_session_words(struct dp_session *s);
struct dp_apart dp_session_apart(const struct dp_session *s);
u64 dp_session_words_at(const struct dp_session *s); /* where the process has them, once armed */

/* Attach, map, arm all added probes, let go. All or nothing. A program that was started goes on without any, too. */
int dp_session_arm(struct dp_session *s, struct dp_error *err);

/*
 * Of an armed session with `grows`: what is added is armed by dp_session_change(), which takes out what was dropped,
 * both at once: probes that are neither miss nothing meanwhile. When it fails nothing has changed, and what was added
 * is gone; unless dp_session_can_change() says no from then on: then the session can only be removed. -ENOSPC, with
 * nothing in *err: there is no room for it in this session, as never for watchpoints. Words of new probes have their
 * first values before, in dp_session_words(); places of probes that were dropped are free when dp_session_can_change()
 * says yes again.
 */
bool dp_session_can_change(struct dp_session *s, u32 *words); /* how many there is room for */
/* Before dp_session_change(): false: it would be -ENOSPC. True: it may be, still. */
bool dp_session_fits(struct dp_session *s);
/* What is added may use breakpoints, and this file for its global variables (-1: it has none), as by the options. */
void dp_session_permit(struct dp_session *s, bool traps, int globals_fd);
void dp_session_cancel(struct dp_session *s); /* what was added or dropped, and not yet changed */
void dp_session_drop(struct dp_session *s, u32 probe);
/*
 * The same for a probe that stays known, with its counts, and comes back by pause == false. It must not be the same
 * already, and no watchpoint: -EINVAL. -ENOMEM.
 */
int dp_session_pause(struct dp_session *s, u32 probe, bool pause);
int dp_session_change(struct dp_session *s, struct dp_error *err);

/*
 * Of an armed session: probes can be taken out of the code for a while, and brought back; nothing else of them changes.
 * group[] gets for each probe the first one of those that go together, since they share a patch, or are entry and
 * return of one function. False: this session cannot (it watches pages).
 */
bool dp_session_groups(const struct dp_session *s, u32 *group);
/*
 * Whether a probe is to be out. dp_session_take_out() makes it true for all at once, also in children. A failed one has
 * changed nothing, or the session can only be removed: dp_session_groups() tells. dp_session_change() brings all back.
 */
void dp_session_mark_out(struct dp_session *s, u32 probe, bool out);
int dp_session_take_out(struct dp_session *s, struct dp_error *err);
u32 dp_session_places_out(const struct dp_session *s); /* places in code that are out */
/* The process and those that have inherited its probes; free() them. */
u32 dp_session_processes(const struct dp_session *s, pid_t **pids);

/*
 * Instead of arming: take over the probes that a dprobes which was killed has left in the process, with its rings,
 * counts and words. False, and nothing has changed, unless they are the same probes and programs, added in the same
 * order, and the kernel lets us open the rings (for that it wants CAP_CHECKPOINT_RESTORE). Afterwards as after
 * dp_session_arm().
 */
bool dp_session_adopt(struct dp_session *s);
/* Afterwards: these processes, which have inherited the probes, are told whose they are. */
void dp_session_adopted(struct dp_session *s, const pid_t *heirs, u32 n);

/*
 * What stands in the rings that such a dprobes has left in the process, as it is now, with nwords words behind them, at
 * *words; inode: of their file. Their layout is as that dprobes has written it down, for nprobes probes. False: there
 * is nothing. munmap(map->at, map->size).
 */
bool dp_rings_copy(pid_t pid, u64 inode, u32 nprobes, u32 nwords, struct dp_ring_map *map, u64 **words);

/*
 * The rings that dprobes which were killed have left in the process, each with whose they are. is_live: they are mapped
 * here, and hits go on writing into them; else the kernel does not let us (that wants CAP_CHECKPOINT_RESTORE), and this
 * is a copy. At most DP_RINGS_LEFT; their number. munmap() each.
 */
#define DP_RINGS_LEFT 32u
struct dp_rings_left {
	struct dp_ring_map map;
	bool is_live;
	pid_t pid, owner; /* pid: for which they were made: this process, or one from which it inherited them */
	u64 started, owner_started;
};
u32 dp_rings_left(pid_t pid, struct dp_rings_left *v);

/* Restore every byte, unmap after the grace period; also in children that inherited the probes. Safe to
 * call when the process is gone, and more than once. */
int dp_session_remove(struct dp_session *s, struct dp_error *err);
void dp_session_free(struct dp_session *s); /* removes first when still armed */

u32 dp_session_nprobes(const struct dp_session *s);
void dp_session_probe(const struct dp_session *s, u32 i, struct dp_probe_info *out);
const struct dp_ring_map *dp_session_rings(const struct dp_session *s); /* after arm; the session made the layout */
u64 dp_session_rings_inode(const struct dp_session *s);
struct dp_process *dp_session_process(struct dp_session *s);
pid_t dp_session_pid(const struct dp_session *s);
bool dp_session_alive(struct dp_session *s);                     /* the target (or, spawned, its exit status waits) */
bool dp_session_status(const struct dp_session *s, int *status); /* spawned and ended: as waitpid gave it */
void dp_session_stats(const struct dp_session *s, struct dp_session_stats *out);

/* What can be done now and then while armed: frees the slots of threads that are gone. */
void dp_session_tend(struct dp_session *s);

/*
 * While armed with `pages`, as often as can be: a page that was left open (by a thread that was not told, or could not
 * tell) is watched again, and instructions that have stored there get points of their own where there are several
 * threads (extend.c). Costs some microseconds, and some 10 ns for each page; with such instructions what arming costs.
 */
void dp_session_tend_pages(struct dp_session *s);
/*
 * While armed, several times a second: threads that have stopped the process for a debugger are sent to where they hit.
 * Costs nothing unless a program has `exit 1`, then one look at /proc; while the process stands, one at each slot.
 */
void dp_session_present(struct dp_session *s);
/*
 * The same: memory that has come since is loaded by hits, instead of read by system calls. Costs a read of a word, and
 * a look at the maps where that is worth it.
 */
void dp_session_tend_stretches(struct dp_session *s);
/* Sleep between two such looks, or until the process has something for dp_session_tend_pages(). */
void dp_session_rest(struct dp_session *s, u64 ns);

extern const struct dp_host_ops dp_process_ops; /* process-ops.c: of a struct dp_session */

/* ---- what stands in a process, whichever session set it (inspect.c) ---- */

enum dp_standing_state {
	DP_STANDING_ARMED,
	DP_STANDING_ARMING,  /* the bytes are being changed */
	DP_STANDING_ALTERED, /* somebody else has written over the jump or breakpoint */
	DP_STANDING_OUT,     /* its dprobes has taken it out of the code for a while */
	DP_STANDING_GONE,    /* the original bytes are there, or the module is unmapped */
};

#define DP_OWNER_UNSEEN (-1) /* in a namespace of process ids into which this one cannot see */

struct dp_standing { /* one probe at one address; a return probe has one for each exit */
	u64 addr;
	bool is_return, is_watch;
	enum dp_outcome outcome;
	enum dp_standing_state state;
	pid_t owner; /* the dprobes that set it, which may have ended; 0: nobody any more; or DP_OWNER_UNSEEN */
};

/*
 * The probes that a session has set in pid, sorted by address; none is no error (*n = 0). The caller frees *v.
 * Reads memory only; of probes that come or go meanwhile some may be shown. Errors: E_TARGET_PERM, E_TARGET_GONE,
 * E_TARGET_MEM.
 */
int dp_standing_read(pid_t pid, struct dp_standing **v, u32 *n, struct dp_error *err);

/* Memory of a process that is neither stopped nor attached to. */
bool dp_process_peek(pid_t pid, u64 addr, void *buf, size_t n);
void dp_process_peek_name(pid_t pid, u64 addr, char *buf, size_t size);

/* What a library keeps for us under this name, and begins with these two words. E_CMD_LIST, E_TARGET_PERM. */
int dp_process_registry(struct dp_process *proc, const char *name, u64 magic, u32 version, void *buf, size_t size,
			bool *found, struct dp_error *err);

#endif
