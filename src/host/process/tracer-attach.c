/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The begin and the end: all threads of a process are seized, those included that are born meanwhile, and let go. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/process/process-priv.h"

#define DETACH_NS 30000000000ull
#define FORKS_NS 20000000000ull
#define ENDING_NS 10000000000ull

pid_t dp_tracer_of(pid_t pid, pid_t tid)
{
	char tracer[32] = "0";

	dp_status_field(pid, tid, "TracerPid", tracer, sizeof(tracer));
	return (pid_t)atoi(tracer);
}

/* Calls fn for each child that this thread has made; whether any call was true. */
static bool each_child(struct dp_tracer *t, pid_t tid, bool (*fn)(struct dp_tracer *t, pid_t child))
{
	char path[64];
	bool any = false;
	int child;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)t->pid, (int)tid);
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &child) == 1)
		any |= fn(t, child);
	if (f)
		fclose(f);
	return any;
}

static bool seize_sharer(struct dp_tracer *t, pid_t child)
{
	if (dp_tracer_find(t, child) || !dp_shares_memory(dp_memory_tid(t->pid), child) ||
	    ptrace(PTRACE_SEIZE, child, 0, DP_TRACE_OPTIONS) || !dp_tracer_add(t, child))
		return false;
	t->v[t->n - 1].sharer = true;
	return true;
}

/* Children that were born by vfork before we came, and have not started their program yet. */
static void seize_sharers(struct dp_tracer *t)
{
	u32 n = t->n;

	for (u32 i = 0; i < n; i++)
		each_child(t, t->v[i].tid, seize_sharer);
}

/* Stopped threads wait for us while there are any. */
static void be_first(struct dp_tracer *t)
{
	dp_hear_stops(&t->old_signals);
	dp_hurry_begin(&t->usual);
}

static void be_usual(struct dp_tracer *t)
{
	pthread_sigmask(SIG_SETMASK, &t->old_signals, NULL);
	dp_hurry_end(&t->usual);
}

/*
 * Seize a thread; returns 0, or the errno why not: with EPERM, *tracer is the one that it has, 0: none. One that went
 * between the attempt and the question is no reason.
 */
static int seize(pid_t pid, pid_t tid, pid_t *tracer)
{
	*tracer = 0;
	for (int i = 0; i < 2 && !*tracer; i++) {
		if (!ptrace(PTRACE_SEIZE, tid, 0, DP_TRACE_OPTIONS))
			return 0;
		if (errno != EPERM)
			return errno;
		*tracer = dp_tracer_of(pid, tid);
	}
	return EPERM;
}

/* Seize threads that are not known yet; returns how many were new, or a negative errno. */
static int seize_new(struct dp_tracer *t)
{
	char path[64];
	struct dirent *de;
	DIR *dir;
	int fresh = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)t->pid);
	dir = opendir(path);
	if (!dir)
		return -ESRCH;
	while ((de = readdir(dir))) {
		pid_t tid = (pid_t)atoi(de->d_name), tracer;
		int why;

		if (tid <= 0 || dp_tracer_find(t, tid))
			continue;
		why = seize(t->pid, tid, &tracer);
		if (!why) {
			if (!dp_tracer_add(t, tid)) {
				closedir(dir);
				return -ENOMEM;
			}
			fresh++;
		} else if (tracer) {
			if (tracer != getpid()) {
				/* One thread that we cannot look after is enough to make it unsafe. */
				t->other = tracer;
				closedir(dir);
				return -EPERM;
			}
			/* An earlier detach, or dp_catch_start(), could not stop it: it is ours already. */
			if (!dp_tracer_add(t, tid)) {
				closedir(dir);
				return -ENOMEM;
			}
			t->v[t->n - 1].bare = true;
			fresh++;
		} else if (why == EPERM && tid == dp_memory_tid(t->pid)) {
			closedir(dir);
			return -EPERM;
		}
		/* Others: the thread ended, is a zombie, or is being attached through its parent. */
	}
	closedir(dir);
	return fresh;
}

static int fail_attach(const struct dp_tracer *t, int r, struct dp_error *err)
{
	char state[32] = "";

	if (r == -EPERM) {
		if (t->other)
			return dp_fail(err, E_TARGET_TRACED, "process %d is traced by process %d", (int)t->pid,
				       (int)t->other);
		dp_status_field(t->pid, t->pid, "State", state, sizeof(state));
		if (state[0] == 'Z' || state[0] == 'X')
			return dp_fail(err, E_TARGET_GONE, "process %d has ended", (int)t->pid);
		return dp_fail(err, E_TARGET_PERM, "process %d may not be traced", (int)t->pid);
	}
	return dp_fail(err, E_TARGET_GONE, "process %d", (int)t->pid);
}

/*
 * Whether a thread may be making a process or a thread since before it was seized: then nobody tells us of that. One
 * that is running may be anywhere; for one that sleeps the kernel names the call. By vfork it may sleep for long.
 */
static bool may_fork_unseen(pid_t tid)
{
	struct dp_thread_call call = dp_thread_call(tid, tid);
	u64 flags = call.nr == SYS_clone ? call.arg : 0;
	struct iovec to = {&flags, sizeof(flags)};
	struct iovec from = {(void *)(uintptr_t)call.arg, sizeof(flags)}; /* clone3's arguments begin with the flags */

	if (call.nr == DP_CALL_UNKNOWN)
		return true;
	if (call.nr == SYS_clone3 && process_vm_readv(tid, &to, 1, &from, 1, 0) != (ssize_t)sizeof(flags))
		return true;
	return call.nr == SYS_fork ||
	       ((call.nr == SYS_clone || call.nr == SYS_clone3) && (!(flags & CLONE_VM) || flags & CLONE_THREAD));
}

/* Whether any thread may still be in a fork that it began before. */
static bool any_in_fork(struct dp_tracer *t)
{
	bool any = false;

	for (u32 i = 0; i < t->n; i++) {
		struct dp_thread *th = &t->v[i];

		th->done |= th->gone || th->released || th->foreign || !th->running || !may_fork_unseen(th->tid);
		any |= !th->done;
	}
	return any;
}

/* On a busy machine a thread may wait long for a processor; one that hangs in the kernel is in some other call. */
void dp_tracer_pass_forks(struct dp_tracer *t)
{
	u64 begin = dp_now_ns();
	struct dp_thread *th;

	dp_tracer_begin(t, false);
	do
		while (any_in_fork(t) && dp_now_ns() - begin < FORKS_NS) {
			dp_tracer_begin_pass(t);
			while ((th = dp_tracer_next_stopped(t, 1000000000))) {
				th->done = true;
				dp_resume_unless_parked(t, th);
			}
		}
	while (seize_new(t) > 0);
}

/* A process that was killed has no program any more, but traces until it has come to its end. */
static bool is_ending(pid_t tracer)
{
	char path[64], program[8];

	dp_format(path, sizeof(path), "/proc/%d/exe", (int)tracer);
	return readlink(path, program, sizeof(program)) < 0 && errno == ENOENT;
}

/* The one that waits for us, stopped, since it was caught. */
static int take_held(struct dp_tracer *t)
{
	pid_t tid = dp_parked_held(t->pid);

	if (tid && ptrace(PTRACE_SETOPTIONS, tid, 0, DP_TRACE_OPTIONS)) {
		dp_parked_let();
		return -ESRCH;
	}
	if (tid && !dp_tracer_add(t, tid))
		return -ENOMEM;
	if (tid) {
		t->v[0].running = false;
		t->v[0].stopped_at = dp_now_ns();
	}
	return 0;
}

static int attach(struct dp_tracer *t, pid_t pid, u64 late, struct dp_error *err)
{
	int r;

	memset(t, 0, sizeof(*t));
	t->pid = pid;
	t->late_watches = late;
	be_first(t);
	r = take_held(t);
	/*
	 * Until a look finds nobody new: threads that are born of a seized thread are attached by the kernel, those of
	 * a thread not yet seized show up here. Both may happen at once.
	 */
	if (!r)
		do {
			r = seize_new(t);
			dp_tracer_pump(t);
		} while (r > 0);
	if (r < 0 || t->n == 0) {
		r = fail_attach(t, r < 0 ? r : -EPERM, err);
		dp_tracer_detach(t);
		return r;
	}
	seize_sharers(t);
	return 0;
}

/* One that was killed while it traced the process is waited for: it is over soon, and had nothing to say about us. */
int dp_tracer_attach(struct dp_tracer *t, pid_t pid, struct dp_error *err)
{
	u64 late = t->late_watches, begin = dp_now_ns();
	int r = attach(t, pid, late, err);

	while (r && t->other && is_ending(t->other) && dp_now_ns() - begin < ENDING_NS) {
		usleep(1000);
		r = attach(t, pid, late, err);
	}
	return r;
}

static bool adopt(struct dp_tracer *t, pid_t pid, pid_t tid)
{
	return tid > 0 && !dp_tracer_find(t, tid) && tid != dp_parked_held(t->pid) && !dp_is_on_way(tid) &&
	       dp_tracer_of(pid, tid) == getpid() && dp_tracer_add(t, tid);
}

static bool adopt_child(struct dp_tracer *t, pid_t child)
{
	return adopt(t, child, child);
}

/* Calls fn for each number in the process's list of threads; whether any call was true. */
static bool each_thread(struct dp_tracer *t, bool (*fn)(struct dp_tracer *t, pid_t tid))
{
	char path[64];
	struct dirent *de;
	bool any = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)t->pid);
	dir = opendir(path);
	while (dir && (de = readdir(dir)))
		any |= fn(t, (pid_t)atoi(de->d_name));
	if (dir)
		closedir(dir);
	return any;
}

static bool adopt_thread(struct dp_tracer *t, pid_t tid)
{
	return adopt(t, t->pid, tid);
}

static bool adopt_children(struct dp_tracer *t, pid_t tid)
{
	return tid > 0 && each_child(t, tid, adopt_child);
}

bool dp_tracer_newborn(struct dp_tracer *t)
{
	return each_thread(t, adopt_thread);
}

/* Children, too: they would stay stopped for as long as we live. */
static bool adopt_newborn(struct dp_tracer *t)
{
	bool any = dp_tracer_newborn(t);

	return each_thread(t, adopt_children) || any;
}

void dp_tracer_detach(struct dp_tracer *t)
{
	u64 begin = dp_now_ns();
	struct dp_thread *th;
	pid_t tid;

	dp_tracer_begin(t, true);
	/* A thread that stays attached would wait for us at its next signal: do not give up soon. */
	do {
		dp_tracer_begin_pass(t);
		while ((th = dp_tracer_next_stopped(t, 50000000)))
			dp_tracer_release(t, th);
	} while ((dp_tracer_any_due(t, &tid) || adopt_newborn(t)) && dp_now_ns() - begin < DETACH_NS);
	free(t->v);
	t->v = NULL;
	t->n = t->cap = 0;
	if (t->pid)
		be_usual(t);
	t->pid = 0;
}
