/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the files of the process host share: the tracer, calls inside the target, the target's memory. */
#ifndef DP_PROCESS_PRIV_H
#define DP_PROCESS_PRIV_H

#include <sys/types.h>
#include <sys/user.h>

#include "engine/engine.h"
#include "hit/blob.h"
#include "host/process/process.h"

struct dp_control;
struct dp_redirect;

#define DP_OWNERS_MAX 32 /* sessions in one process */

/* ---- memory of another process (process-mem.c) ---- */

struct dp_mem {
	pid_t pid;
	int fd; /* /proc/PID/mem */
};

int dp_mem_open(struct dp_mem *m, pid_t pid, struct dp_error *err);
void dp_mem_close(struct dp_mem *m);
int dp_mem_read(const struct dp_mem *m, u64 addr, void *buf, size_t n, struct dp_error *err);

/* For one look at many places in ascending order: whole pages are read, and shown as they were then. */
struct dp_mem_look {
	const struct dp_mem *mem;
	u64 lo, hi; /* what is in bytes */
	u32 ahead;  /* pages that were read beyond what was asked for: of who goes on where they end, more and more */
	u8 bytes[16 * 4096];
};

/* n bytes (at most a page) at addr; NULL and the error when they cannot be read. Good up to the next call. */
const u8 *dp_mem_look(struct dp_mem_look *l, u64 addr, u32 n, struct dp_error *err);
int dp_mem_write(const struct dp_mem *m, u64 addr, const void *buf, size_t n, struct dp_error *err);

/* stretches.c */
/*
 * From now on nobody loads anything, so the guards can go: of a process that has them by this control block. Waits for
 * loads in progress.
 */
void dp_stretches_close(pid_t pid, const struct dp_mem *mem, const struct dp_control *ctl);

/* ---- threads under ptrace (tracer.c; tracer-attach.c: the begin and the end; tracer-ask.c: they are to stop) ---- */

struct dp_thread {
	pid_t tid;
	bool running; /* not in a stop that we know of */
	bool gone;
	bool released;                  /* detached by us on purpose */
	bool group_stop;                /* stopped by job control: goes on by PTRACE_LISTEN */
	bool due;                       /* goes on at the end of the pump */
	bool asked;                     /* dp_tracer_stop waits for it */
	bool trap_due;                  /* it goes on to report a trap: not to be interrupted before */
	bool done;                      /* for passes of the caller: through with it */
	bool put_off;                   /* in this pass: it did not stop in time, or is to be looked at again later */
	bool worked;                    /* was sent to make calls, and not yet seen to be back, */
	bool given_back;                /* it left that code for a signal */
	u64 work_lo;                    /* where it can be taken out of that code: from here */
	u64 work_hi;                    /* to here, */
	struct user_regs_struct before; /* and what it goes on with then */
	bool foreign;                   /* belongs to a forked child, held until its bytes are right */
	bool followed;                  /* goes on to its next system call, of which on_call() is told */
	bool bare;                      /* seized before, without our options: it gets them when it has stopped */
	bool sharer;     /* belongs to another process in the same memory: a child of vfork before its exec */
	int signal;      /* to be delivered when it goes on */
	u64 blocked;     /* signals that it blocked when it was attached */
	u64 stopped_at;  /* nanoseconds, 0 while running */
	u64 heard;       /* the last pump that took a stop of it */
	bool unfiltered; /* it had no filter of system calls, and has executed nothing of the program since */
};

struct dp_tracer {
	pid_t pid;
	struct dp_thread *v;
	u32 n;
	size_t cap;
	bool execed, dead;
	int exit_status;  /* when dead: as waitpid gave it */
	pid_t other;      /* holds threads of the process, so that we cannot */
	u64 handled;      /* signals whose actions are to be kept, as a mask */
	u64 late_watches; /* set before attaching: of this region they are of the past, nobody gets their signals */
	u64 lost;         /* of these: the kernel has set the default action, see note_reset() */
	struct dp_hurry usual;
	sigset_t old_signals;
	const struct dp_redirect *redirects; /* traps at these go on elsewhere */
	u32 nredirects;
	bool holds; /* bytes are in some step: forked children wait until theirs are right. Else they go on at once */
	u32 held;   /* those that wait */
	u64 longest_stop_ns, stops, rescued;
	u64 pumps;  /* calls of dp_tracer_pump so far */
	u32 passed; /* so many threads, from the first on, are not due any more in this pass; */
	bool all;   /* it includes those of forked children */
	void (*on_call)(
	    void *arg,
	    struct dp_thread *th); /* at the entry and the exit of system calls of threads that are followed */
	void *on_call_arg;
};

/* Of every thread, at any time but inside calls that are made for us (follow.c). */
#define DP_TRACE_OPTIONS \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)

#define SIGNAL_BIT(sig) (1ull << ((sig)-1)) /* in masks as /proc and ptrace show them */

/* A thread that is ours by its number, NULL: none; and one more, which runs. */
struct dp_thread *dp_tracer_find(struct dp_tracer *t, pid_t tid);
struct dp_thread *dp_tracer_add(struct dp_tracer *t, pid_t tid);

/* Seize every thread, those being born included. Nothing is stopped. *t is zeroed but for late_watches. */
int dp_tracer_attach(struct dp_tracer *t, pid_t pid, struct dp_error *err);

/*
 * A child gets the signal actions first and the memory later. One that is made meanwhile could have breakpoints without
 * the handler for them, or the handler's address without the handler, and die of it should nobody look after it. So
 * every thread is seen outside of a fork that it began before: between a change of the actions and the change of memory
 * that belongs to it. Threads that are made meanwhile are seized then.
 */
void dp_tracer_pass_forks(struct dp_tracer *t);

/* Handle all pending stops: new threads, signals on their way, traps at patched bytes. Never blocks. */
void dp_tracer_pump(struct dp_tracer *t);

/*
 * Between two looks at a thread that was in the wrong place: let it run. Longer at each call (*us begins with 0), since
 * on a busy machine a thread that is stopped again soon has not got the processor at all in between.
 */
void dp_tracer_pause(struct dp_tracer *t, u32 *us);

/*
 * A thread that we trace and that stops is told of by SIGCHLD. From dp_hear_stops() on, until the signals that it found
 * blocked are set again, dp_await_stop() returns at the next such signal, or after that many microseconds: the signal
 * may be ignored here, or come to another thread of ours.
 */
void dp_hear_stops(sigset_t *before);
void dp_await_stop(u64 us);

/* Sleep a little in a loop that waits for a thread; waited_ns: so far. stops: it is going to stop, which wakes us. */
void dp_tracer_rest(u64 waited_ns, bool stops);

/*
 * Stop one thread; false when it is gone or does not stop within the time, or within five times that where it waits for
 * a processor.
 */
bool dp_tracer_stop(struct dp_tracer *t, struct dp_thread *th, u64 timeout_ns);

/*
 * Passes over all threads (those of forked children, if asked for) that are not done, in the order in which they stop:
 * a few are asked at a time, so that those that run leave their processors to those that wait for one, and none is
 * stopped for long. Who is returned has stopped, and is to be done, or put_off to the next pass. NULL: the pass is
 * over; those that did not stop within the time (see above) are put_off.
 */
void dp_tracer_begin(struct dp_tracer *t, bool foreign); /* nobody is done; the first pass begins */
void dp_tracer_begin_pass(struct dp_tracer *t);
struct dp_thread *dp_tracer_next_stopped(struct dp_tracer *t, u64 timeout_ns);
bool dp_tracer_any_due(const struct dp_tracer *t, pid_t *tid); /* a thread that is not done */
void dp_tracer_resume(struct dp_tracer *t, struct dp_thread *th);
/* Each thread of the process stops once, if it does in that time, and goes on, one after the other. */
void dp_tracer_stop_each(struct dp_tracer *t, u64 timeout_ns);
/*
 * Stop all threads, so that nobody changes code or mappings; no pump until dp_tracer_resume_all(). Threads that cannot
 * be stopped sleep in calls that change neither, and are interrupted before they come back. E_TARGET_STUCK.
 */
int dp_tracer_stop_all(struct dp_tracer *t, struct dp_error *err);
void dp_tracer_resume_all(struct dp_tracer *t);                    /* after a failed one as well */
void dp_tracer_release(struct dp_tracer *t, struct dp_thread *th); /* from a stop */
void dp_tracer_detach(struct dp_tracer *t);                        /* whoever is left */
/*
 * Threads that were attached by the kernel at their birth and have not been heard of yet come into the table. Whether
 * there were any. They may stand where the thread that made them stood a while ago.
 */
bool dp_tracer_newborn(struct dp_tracer *t);
/* Whether a stopped thread is in code that makes calls for us. */
bool dp_tracer_at_work(const struct dp_thread *th, const struct user_regs_struct *regs);

/* ---- what a stop is about (tracer-stops.c), for tracer.c ---- */

/* It has stopped, and what it is to go on with is settled. */
void dp_tracer_on_stop(struct dp_tracer *t, struct dp_thread *th, int status);
bool dp_tracer_trap_pending(const struct dp_tracer *t, pid_t tid);
u64 dp_signal_mask(pid_t tid, const char *name); /* of a line of its status */
bool dp_shares_memory(pid_t a, pid_t b);

/* ---- calls made by a thread of the target (remote.c) ---- */

struct dp_call {
	s64 nr;
	u64 arg[6];
	s64 ret;
};

/* ---- calls that are seen at their entry and exit (follow.c) ---- */

struct dp_follow {
	pid_t tid;         /* of the thread */
	struct dp_call *v; /* what it is to call, and the results */
	u32 n, done;
	u64 lo, hi; /* where the instructions stand that make the calls */
	bool lifts; /* a filter is in force, and is suspended inside the calls */
	bool inside;
};

/* The stopped thread is going to make these calls; its results are there when done. Only one thread at a time. */
void dp_follow_begin(struct dp_follow *f, struct dp_tracer *t, struct dp_thread *th, struct dp_call *v, u32 n, u64 lo,
		     u64 hi);
bool dp_follow_done(void *follow);
void dp_follow_end(struct dp_follow *f, struct dp_tracer *t);

struct dp_remote {
	struct dp_tracer *tracer;
	struct dp_mem *mem;
	u64 stub; /* borrowed bytes: one call at a time */
	u8 stub_saved[32];
	bool stub_in;
	bool stuck;  /* a thread did not come back from a call */
	u64 noted;   /* what a predecessor that was killed was mapping or unmapping last, 0: nothing */
	u64 service; /* the blob's service loop, 0 before it is mapped */
	u64 service_end;
	bool service_in;                          /* its code stands there; there are breakpoints otherwise */
	u64 table;                                /* writable page for it */
	struct dp_range slots[DP_OWNERS_MAX + 1]; /* threads may be on these stacks, see struct dp_moves */
	u32 nslots;
	struct dp_follow follow;
	const struct dp_maps *maps;
	struct dp_call *later[32]; /* calls that are made behind the next ones */
	u32 nlater;
	u64 looked; /* when its control group was not frozen, */
	int group;  /* as this file has told; -1: there is none to be seen */
};

/*
 * Executable bytes that nobody uses: behind a code segment's end, on its last page. The first 24 serve for calls; at
 * DP_SLACK_PARK a program that is being started waits.
 */
#define DP_SLACK_SIZE 48
#define DP_SLACK_PARK 24
u64 dp_find_slack(const struct dp_maps *maps, const struct dp_mem *mem);

/* Find the bytes to borrow in the executable mappings. */
int dp_remote_init(struct dp_remote *r, struct dp_tracer *t, struct dp_mem *mem, const struct dp_maps *maps,
		   struct dp_error *err);
/* owners.c: the stacks of hits of all sessions; their number. */
u32 dp_owners_slots(const struct dp_mem *mem, const struct dp_maps *maps, struct dp_range v[DP_OWNERS_MAX]);
void dp_remote_end(struct dp_remote *r); /* gives the borrowed bytes back */
/* Whether they are borrowed: now, or by one that was killed. */
bool dp_remote_left(const struct dp_maps *maps, const struct dp_mem *mem);
/* Take away a mapping that such a one has left and that nothing tells of. */
int dp_remote_unmap_left(struct dp_remote *r, struct dp_error *err);

/* Wait until every thread that made calls has left the code for it: the last call's effect is visible before that. */
int dp_remote_leave(struct dp_remote *r, struct dp_error *err);

/* Wait until no thread is in the service loop on behalf of a predecessor that was killed. */
int dp_remote_settle(struct dp_remote *r, u64 service_size, struct dp_error *err);

/*
 * One call (mmap, munmap, mprotect) through the borrowed bytes; arg[0] is an address. E_TARGET_CALL when it is refused.
 */
int dp_remote_stub(struct dp_remote *r, s64 nr, const u64 arg[6], struct dp_error *err);

/* The service loop of the region that begins there; there: its code is known to stand in it. */
struct dp_blob_head;
void dp_remote_serve(struct dp_remote *r, u64 region, const struct dp_blob_head *head, u64 slots, u32 nslots,
		     bool there);

/*
 * When all calls are made: wait until nobody is in the service loop, and leave breakpoints in its place. The next call
 * puts it back.
 */
int dp_remote_retire(struct dp_remote *r, struct dp_error *err);

/* Up to 32 calls through the service loop, results in v[].ret. */
int dp_remote_calls(struct dp_remote *r, struct dp_call *v, u32 n, struct dp_error *err);
/*
 * Calls that nobody waits for are made behind the next ones, so that the thread is sent once for both: each time it may
 * have to wait for a processor. v stays where it is until then; so few fit.
 */
#define DP_REMOTE_LATER 24
void dp_remote_later(struct dp_remote *r, struct dp_call *v, u32 n);

/*
 * What a predecessor that was killed in dp_share_file() left open in the process, as far as it can be told; before any
 * other call.
 */
void dp_share_clean(struct dp_remote *r);

/* Close those descriptors of the process for which which() is true; path: below /proc. */
int dp_remote_close(struct dp_remote *r, bool (*which)(const char *path, void *arg), void *arg, struct dp_error *err);

/*
 * Send a stopped thread to code with { data, rbp, rbx, rax, rcx, rdx, rsi, rdi, r8..r11, flags, rip } on its stack
 * below the red zone; the code must bring it back. done() tells when it has done its work; dp_remote_leave() waits for
 * its return.
 */
int dp_remote_run(struct dp_remote *r, struct dp_thread *th, u64 code, u64 data, bool (*done)(void *arg), void *arg,
		  struct dp_error *err);

/* Tests: whether a call is to fail, with this error; 0: it is made. Asked before each. */
extern int (*dp_remote_refuse)(const struct dp_call *c);

bool dp_signal_pending(pid_t tid); /* one that it does not block */

/* Let the kernel's view of an interrupted system call stand: repair results that only our interruption caused. */
void dp_fix_restart(pid_t tid, struct user_regs_struct *regs, bool by_hand);
/* Stopped in a system call that the kernel makes again, from two bytes before, unless a handler is to run first. */
bool dp_will_restart(const struct user_regs_struct *regs);

/* The thread will not go on where it is: if that is inside a restartable sequence, abort it as the kernel would. */
void dp_fix_rseq(pid_t tid, const struct dp_mem *mem, struct user_regs_struct *regs);

#define DP_GET_RSEQ_CONFIGURATION ((enum __ptrace_request)0x420f)
struct dp_rseq_configuration {
	u64 pointer;
	u32 size, signature, flags, pad;
};

/* A value that the kernel has passed to the program (getauxval(3)); 0: none. */
u64 dp_passed(pid_t pid, u64 type);

/* ---- waiting at the entry point: struct dp_parking of process.h (park.c) ---- */

/*
 * A process that we trace, stopped before its entry point: it waits there for dp_unpark(), held by us or else traced no
 * more.
 */
int dp_park(struct dp_parking *p, pid_t pid, bool hold, struct dp_error *err);

/* Whether a thread stands in the waiting code of the process that was parked last, and so in none of the program's. */
bool dp_parked_at(pid_t pid, u64 ip);
void dp_note_parked(pid_t pid, u64 at, u32 size, pid_t held); /* 0: nobody waits */
/*
 * The thread of the process that stands there, still traced by us since it was caught, so that it need neither be
 * stopped again nor spend a processor on waiting; 0: none. A tracer takes it as it is, and leaves it so where it still
 * stands there. If we die, it waits by itself.
 */
pid_t dp_parked_held(pid_t pid);
void dp_parked_let(void); /* it has been let go */
/* A thread that we trace on its way there (dp_catch_begin()): what it reports is for dp_catch_arrived(). */
void dp_note_way(pid_t tid, void (*look)(void)); /* 0: nobody */
bool dp_is_on_way(pid_t tid);
void dp_look_at_way(void); /* whenever there is time */
/*
 * Let a thread run that was stopped for a step; not so the only one of a process that waits there, which has nothing to
 * do but to wait for its probes: it need not be stopped again for the next step. Whether it stays stopped.
 */
bool dp_resume_unless_parked(struct dp_tracer *t, struct dp_thread *th);

/* It waits from now on, while we live, until the end of this; *p stays where it is. */
void dp_park_keep(struct dp_parking *p);
void dp_park_keep_end(struct dp_parking *p);

/* ---- what the target allows (caps.c) ---- */

struct dp_caps {
	u32 caps; /* DP_CAP_* */
	s32 rseq_off, tid_off;
	u32 stack_off;
	bool seccomp; /* a filter or strict mode is in force */
};

/*
 * The number of a call that does nothing with all arguments 0 and that the stopped thread's filters allow, if there is
 * one.
 */
s64 dp_harmless_call(pid_t tid);

int dp_caps_find(struct dp_caps *c, struct dp_tracer *t, const struct dp_mem *mem, struct dp_error *err);
/* No thread of it can be stopped, or work for us: E_TARGET_STUCK with the reason and what helps, or E_TARGET_GONE. */
int dp_fail_stuck(const struct dp_tracer *t, struct dp_error *err);
int dp_fail_frozen(pid_t pid, struct dp_error *err); /* E_TARGET_STUCK, where that is known */
int dp_status_field(pid_t pid, pid_t tid, const char *name, char *buf, size_t size);
pid_t dp_tracer_of(pid_t pid, pid_t tid); /* 0: none */

/* What a thread waits in, without stopping it. */
#define DP_CALL_NONE (-1)    /* no system call: a page fault, a stop */
#define DP_CALL_UNKNOWN (-2) /* it runs, or is gone */
struct dp_thread_call {
	long nr;
	u64 arg; /* its first argument */
	u64 ip;  /* program counter; 0: not known */
};
struct dp_thread_call dp_thread_call(pid_t pid, pid_t tid);
/* Its control group is frozen, as far as one can see: its threads can be stopped, but run nothing. */
bool dp_process_frozen(pid_t pid);
/* For those who ask again and again: the file that tells it; -1: there is none to be seen. */
int dp_group_open(pid_t pid);
enum dp_group_state { DP_GROUP_RUNS, DP_GROUP_FROZEN, DP_GROUP_EMPTY /* the process is elsewhere by now */ };
enum dp_group_state dp_group_look(int events);
pid_t dp_inner_tid(pid_t pid, pid_t tid); /* the thread's id as it knows it itself; 0: it is gone */

/* ---- program counters of stopped threads (frames.c) ---- */

struct dp_moves {
	const struct dp_redirect *map; /* where a program counter found at .pc goes on */
	u32 nmap;
	const struct dp_range *avoid;
	u32 navoid;
	const struct dp_range *slots; /* on whose stacks hits run: those of all sessions in the process */
	u32 nslots;
	bool no_frames; /* where the threads are now is all that matters */
	u64 moved;      /* counted up */
	u64 where;      /* the last program counter that was found in `avoid` */
};

/*
 * Look at one stopped thread. Its program counter, and those in signal frames that may still be in use on its stacks,
 * are moved by `map`. True when none is left in `avoid`. (no_frames: the program counter alone.)
 */
bool dp_move_thread(struct dp_thread *th, const struct dp_mem *mem, const struct dp_maps *maps, struct dp_moves *mv);

/*
 * Wait until each thread was seen with nothing left in `avoid`, at most that long, and move it; each() is called in
 * between. False: *inside is a thread that may still be there.
 */
bool dp_move_all(struct dp_tracer *t, const struct dp_mem *mem, const struct dp_maps *maps, struct dp_moves *mv,
		 u64 patience_ns, void (*each)(void *arg), void *arg, pid_t *inside);

/* Whether a signal frame stands on the stopped thread's stack: then it may have been interrupted anywhere. */
bool dp_in_handler(struct dp_thread *th, const struct dp_mem *mem, const struct dp_maps *maps);

/* ---- taking probes out of a process (withdraw.c) ---- */

struct dp_withdrawn {
	u32 restored;   /* patches taken back */
	u32 skipped;    /* somebody else changed the bytes */
	u32 absent;     /* their module was unmapped, or is there anew, without them */
	u64 kept_bytes; /* still mapped because a thread may be inside */
	pid_t inside;   /* that thread, and where it or a signal frame of it stands; 0: the bytes are not ours */
	u64 where;
	struct dp_error halted; /* why all threads had to be stopped to write the bytes; its code is DP_OK otherwise */
	u64 longest_stop_ns, stops, moved, rescued;
};

/*
 * Take the probes of a control block out of process pid: restore bytes, wait for the grace period, unmap, put the
 * signal actions back. known: the block as we have it ourselves, the process's or that of its parent, from which it
 * inherited the probes. NULL: what the process says about itself at ctl_addr, checked (untrusted.h). crashed: the bytes
 * may be in any step.
 */
struct dp_block;
int dp_withdraw_process(pid_t pid, const struct dp_block *known, u64 ctl_addr, bool crashed, struct dp_withdrawn *out,
			struct dp_error *err);
/* What a dprobes that was killed in a call of the process has left, of which no control block tells. */
void dp_withdraw_call(pid_t pid);

/* By which a descriptor of ours for /proc/self/pagemap is known: flags that mean nothing there. */
#define DP_PAGEMAP_FLAGS (O_APPEND | O_NONBLOCK | O_DSYNC | O_CLOEXEC)

#endif
