/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads under ptrace: seize all of them, stop one at a time, pass on what belongs to the program.
 * Signals always reach the program; traps at patched bytes are redirected. Knows nothing about probes beyond that.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "abi/abi-page.h"
#include "host/process/process-priv.h"

#define REST_MIN_US 5ull
#define STOP_MIN_US 50ull /* where a signal tells of it */
#define REST_MAX_US 1000ull
#define PAUSE_MIN_US 50u
#define PAUSE_MAX_US 63000u
#define DETACH_NS 30000000000ull
#define FORKS_NS 20000000000ull
#define ENDING_NS 10000000000ull
#define ASKED_AT_ONCE 4u
#define STARVED 5                /* times as long may a thread take that waits for a processor */
#define STUCK_NS 5000000ull      /* by then a thread that does not stop is looked at */
#define STOP_ALL_NS 200000000ull /* for one thread to stop */
#define STOPS_NS 5000000000ull   /* for all of them */

static struct dp_thread *find(struct dp_tracer *t, pid_t tid)
{
	for (u32 i = 0; i < t->n; i++)
		if (t->v[i].tid == tid && !t->v[i].gone && !t->v[i].released)
			return &t->v[i];
	return NULL;
}

static struct dp_thread *add(struct dp_tracer *t, pid_t tid)
{
	if (!dp_grow((void **)&t->v, &t->cap, t->n, sizeof(*t->v)))
		return NULL;
	memset(&t->v[t->n], 0, sizeof(t->v[0]));
	t->v[t->n].tid = tid;
	t->v[t->n].running = true;
	t->v[t->n].blocked = dp_signal_mask(tid, "SigBlk");
	return &t->v[t->n++];
}

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
	if (find(t, child) || !dp_shares_memory(dp_memory_tid(t->pid), child) ||
	    ptrace(PTRACE_SEIZE, child, 0, DP_TRACE_OPTIONS) || !add(t, child))
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

void dp_hear_stops(sigset_t *before)
{
	sigset_t stops;

	sigemptyset(&stops);
	sigaddset(&stops, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &stops, before);
}

void dp_await_stop(u64 us)
{
	struct timespec most = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
	sigset_t stops;

	sigemptyset(&stops);
	sigaddset(&stops, SIGCHLD);
	sigtimedwait(&stops, NULL, &most);
}

void dp_hurry_begin(struct dp_hurry *before)
{
	struct sched_param first = {.sched_priority = 1};

	before->policy = sched_getscheduler(0);
	if (before->policy != SCHED_OTHER && before->policy != SCHED_BATCH)
		return;
	before->nice = getpriority(PRIO_PROCESS, 0);
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first))
		setpriority(PRIO_PROCESS, 0, -20);
}

void dp_hurry_end(const struct dp_hurry *before)
{
	struct sched_param usual = {0};

	if (before->policy != SCHED_OTHER && before->policy != SCHED_BATCH)
		return;
	sched_setscheduler(0, before->policy, &usual);
	setpriority(PRIO_PROCESS, 0, before->nice);
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

		if (tid <= 0 || find(t, tid))
			continue;
		why = seize(t->pid, tid, &tracer);
		if (!why) {
			if (!add(t, tid)) {
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
			if (!add(t, tid)) {
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
	if (tid && !add(t, tid))
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

static void mark_running(struct dp_tracer *t, struct dp_thread *th)
{
	u64 ns;

	if (th->stopped_at) {
		ns = dp_now_ns() - th->stopped_at;
		if (ns > t->longest_stop_ns)
			t->longest_stop_ns = ns;
	}
	th->stopped_at = 0;
	th->running = true;
}

void dp_tracer_resume(struct dp_tracer *t, struct dp_thread *th)
{
	if (th->running || th->gone || th->released)
		return;
	if (ptrace(th->group_stop ? PTRACE_LISTEN
		   : th->followed ? PTRACE_SYSCALL
				  : PTRACE_CONT,
		   th->tid, 0, th->group_stop ? 0 : (long)th->signal) < 0 &&
	    errno == ESRCH)
		th->gone = true;
	th->signal = 0;
	mark_running(t, th);
}

bool dp_resume_unless_parked(struct dp_tracer *t, struct dp_thread *th)
{
	struct user_regs_struct regs;

	if (t->n == 1 && !th->running && !th->group_stop && !th->signal && !ptrace(PTRACE_GETREGS, th->tid, 0, &regs) &&
	    dp_parked_at(t->pid, dp_user_ip(&regs)))
		return true;
	dp_tracer_resume(t, th);
	return false;
}

/* It has still nothing to do but to wait, as before we came. */
static bool stays_held(const struct dp_tracer *t, const struct dp_thread *th)
{
	struct user_regs_struct regs;

	return !th->running && !th->group_stop && !th->signal && !ptrace(PTRACE_GETREGS, th->tid, 0, &regs) &&
	       dp_parked_at(t->pid, dp_user_ip(&regs));
}

void dp_tracer_release(struct dp_tracer *t, struct dp_thread *th)
{
	bool held = th->tid == dp_parked_held(t->pid);

	if (th->gone || th->released)
		return;
	if (held && !stays_held(t, th)) {
		dp_parked_let();
		held = false;
	}
	if (!held)
		ptrace(PTRACE_DETACH, th->tid, 0, (long)th->signal);
	th->signal = 0;
	th->released = true;
	t->held -= th->foreign;
	mark_running(t, th);
}

/* Who has something to report, tid or (0) whoever comes first; the report is left for the taking. 0: nobody. */
static pid_t peek(pid_t tid, siginfo_t *si)
{
	si->si_pid = 0;
	if (waitid(tid ? P_PID : P_ALL, (id_t)tid, si, WEXITED | WNOHANG | WNOWAIT | __WALL))
		return 0;
	return si->si_pid;
}

void dp_hear_ends(void)
{
	siginfo_t si = {0};
	char parent[16], self[16];

	snprintf(self, sizeof(self), "%d", (int)getpid());
	while (!waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL | __WNOTHREAD) && si.si_pid &&
	       !dp_status_field(si.si_pid, si.si_pid, "PPid", parent, sizeof(parent)) && strcmp(parent, self) != 0 &&
	       waitpid(si.si_pid, NULL, WNOHANG | __WALL) > 0)
		si.si_pid = 0;
}

/*
 * A stop for a signal is not waited for. Should we die then before the thread goes on, the kernel delivers the signal;
 * after a wait it would be lost, and a trap with it, whose program counter stands behind the breakpoint.
 */
static void take(struct dp_tracer *t, const siginfo_t *si)
{
	int status = si->si_status << 8 | 0x7f;
	struct dp_thread *th = find(t, si->si_pid);
	u32 i;

	if ((si->si_code != CLD_TRAPPED || si->si_status >> 8) &&
	    waitpid(si->si_pid, &status, __WALL | WNOHANG) != si->si_pid)
		return;
	if (!th && (!WIFSTOPPED(status) || !(th = add(t, si->si_pid))))
		return;
	if (!WIFSTOPPED(status)) {
		th->gone = true;
		th->running = false;
		if (th->tid == t->pid) {
			t->dead = true;
			t->exit_status = status;
		}
		return;
	}
	i = (u32)(th - t->v);
	th->heard = t->pumps;
	dp_tracer_on_stop(t, th, status);
	if (t->v[i].due) {
		t->v[i].due = false;
		dp_tracer_resume(t, &t->v[i]);
	}
}

/*
 * Each thread is heard once, so those that run into breakpoints again and again neither keep us here nor keep others
 * from being heard. When the only one stands there is nobody to be heard; children have time until the next pump.
 */
void dp_tracer_pump(struct dp_tracer *t)
{
	siginfo_t si;
	u32 n;

	t->pumps++;
	while ((t->n != 1 || t->v[0].running || t->v[0].released || t->v[0].heard != t->pumps) && peek(0, &si)) {
		const struct dp_thread *th = find(t, si.si_pid);

		if (!dp_is_on_way(si.si_pid) && (!th || th->heard != t->pumps)) {
			take(t, &si);
			continue;
		}
		n = t->n;
		for (u32 i = 0; i < n; i++)
			if (t->v[i].running && !t->v[i].released && t->v[i].heard != t->pumps && peek(t->v[i].tid, &si))
				take(t, &si);
		break;
	}
}

static bool interrupt(struct dp_thread *th)
{
	if (ptrace(PTRACE_INTERRUPT, th->tid, 0, 0)) {
		th->gone |= errno == ESRCH;
		return false;
	}
	th->asked = true;
	return true;
}

/* It stops as soon as it gets one. */
static bool waits_for_processor(const struct dp_tracer *t, const struct dp_thread *th)
{
	return dp_thread_state(t->pid, th->tid) == 'R';
}

bool dp_tracer_stop(struct dp_tracer *t, struct dp_thread *th, u64 timeout_ns)
{
	u64 begin = dp_now_ns(), waited;
	u32 index = (u32)(th - t->v); /* the table may move */

	for (;; th = &t->v[index]) {
		if (th->gone || th->released)
			return false;
		if (!th->running) {
			if (!dp_tracer_trap_pending(t, th->tid))
				return true;
			/*
			 * An interruption would come before the trap again, and again if the thread has to wait for a
			 * processor.
			 */
			dp_tracer_resume(t, th);
			th->trap_due = true;
		}
		if (!th->asked && !th->trap_due) {
			if (!interrupt(th))
				return false;
			dp_await_stop(STOP_MIN_US);
		}
		dp_tracer_pump(t);
		if (!t->v[index].running)
			continue;
		waited = dp_now_ns() - begin;
		if (waited > timeout_ns && (waited > STARVED * timeout_ns || !waits_for_processor(t, &t->v[index]))) {
			t->v[index].asked = false; /* should it stop after all, it goes on at once */
			return false;
		}
		dp_await_stop(DP_MIN(DP_MAX(waited / 2000, STOP_MIN_US), REST_MAX_US));
	}
}

void dp_tracer_begin_pass(struct dp_tracer *t)
{
	for (u32 i = 0; i < t->n; i++)
		t->v[i].put_off = false;
	t->passed = 0;
}

void dp_tracer_begin(struct dp_tracer *t, bool foreign)
{
	for (u32 i = 0; i < t->n; i++)
		t->v[i].done = false;
	t->all = foreign;
	dp_tracer_begin_pass(t);
}

static bool is_due(const struct dp_tracer *t, const struct dp_thread *th)
{
	return !th->done && !th->gone && !th->released && (t->all || !th->foreign);
}

bool dp_tracer_any_due(const struct dp_tracer *t, pid_t *tid)
{
	for (u32 i = 0; i < t->n; i++)
		if (is_due(t, &t->v[i])) {
			*tid = t->v[i].tid;
			return true;
		}
	return false;
}

/* The first one that has stopped, or the first of all; a few that run are asked to stop. NULL: nobody is due. */
static struct dp_thread *ask_some(struct dp_tracer *t)
{
	struct dp_thread *first = NULL;
	u32 asked = 0;

	for (u32 i = t->passed; i < t->n && asked < ASKED_AT_ONCE; i++) {
		struct dp_thread *th = &t->v[i];

		if (th->put_off || !is_due(t, th)) {
			t->passed += t->passed == i;
			continue;
		}
		if (!th->running)
			return th;
		if (!th->asked && !th->trap_due && !interrupt(th))
			continue;
		asked++;
		first = first ? first : th;
	}
	return first;
}

/* Those that were asked and run still; should one stop after all, it goes on at once. */
static void put_off_asked(struct dp_tracer *t)
{
	for (u32 i = t->passed; i < t->n; i++) {
		struct dp_thread *th = &t->v[i];

		if (th->running && (th->asked || th->trap_due) && is_due(t, th)) {
			th->asked = false;
			th->put_off = true;
		}
	}
}

struct dp_thread *dp_tracer_next_stopped(struct dp_tracer *t, u64 timeout_ns)
{
	u64 begin = dp_now_ns(), waited;
	struct dp_thread *th;

	while ((th = ask_some(t))) {
		u32 index = (u32)(th - t->v);

		if (!th->running) {
			if (dp_tracer_stop(t, th, timeout_ns))
				return &t->v[index];
			t->v[index].put_off = true;
			continue;
		}
		dp_tracer_pump(t);
		th = ask_some(t);
		if (!th || !th->running)
			continue;
		waited = dp_now_ns() - begin;
		if (waited > timeout_ns && (waited > STARVED * timeout_ns || !waits_for_processor(t, th)))
			put_off_asked(t);
		else
			dp_await_stop(DP_MIN(DP_MAX(waited / 2000, STOP_MIN_US), REST_MAX_US));
	}
	return NULL;
}

void dp_tracer_rest(u64 waited_ns, bool stops)
{
	u64 us = DP_MIN(DP_MAX(waited_ns / 4000, REST_MIN_US), REST_MAX_US);

	dp_look_at_way();
	/*
	 * Never by sched_yield: the thread that we wait for may need this processor. We come before it (be_first()),
	 * and so do others of our kind: whoever waits long looks less often, or they leave it none.
	 */
	if (stops)
		dp_await_stop(us);
	else
		usleep((useconds_t)us);
}

void dp_tracer_pause(struct dp_tracer *t, u32 *us)
{
	u64 begin = dp_now_ns();

	*us = DP_MIN(*us * 2 + PAUSE_MIN_US, PAUSE_MAX_US);
	/* Signals are passed on quickly: a program with a timer of a millisecond would do nothing but wait for us. */
	do {
		usleep(DP_MIN(*us, 100u));
		dp_tracer_pump(t);
	} while (dp_now_ns() - begin < *us * 1000ull);
}

/*
 * Whether a thread that could not be stopped may be changing what is mapped: it is in a call that does so, or it is not
 * known where it is. One that sleeps in another call meets the interruption that waits for it before it comes back.
 */
static bool may_map(pid_t tid)
{
	static const long calls[] = {SYS_mmap,  SYS_munmap, SYS_mremap, SYS_mprotect, SYS_pkey_mprotect,
				     SYS_shmat, SYS_shmdt,  SYS_execve, SYS_execveat, SYS_remap_file_pages};
	long nr = dp_thread_call(tid, tid).nr;

	for (u32 i = 0; i < DP_ARRAY_SIZE(calls); i++)
		if (nr == calls[i])
			return true;
	return nr == DP_CALL_UNKNOWN;
}

static bool is_ours(const struct dp_thread *th)
{
	return !th->gone && !th->released && !th->foreign;
}

int dp_tracer_stop_all(struct dp_tracer *t, struct dp_error *err)
{
	u64 begin = dp_now_ns();
	pid_t who;

	do {
		for (u32 i = 0; i < t->n; i++) /* all at once: they need not wait for one another */
			if (is_ours(&t->v[i]) && t->v[i].running && !t->v[i].asked && !t->v[i].trap_due)
				interrupt(&t->v[i]);
		for (u32 i = 0; i < t->n; i++) { /* threads that are born meanwhile come to the end */
			pid_t tid = t->v[i].tid;

			if (is_ours(&t->v[i]) && !dp_tracer_stop(t, &t->v[i], STUCK_NS) && may_map(tid) &&
			    is_ours(&t->v[i]))
				dp_tracer_stop(t, &t->v[i], STOP_ALL_NS);
		}
		/*
		 * From here on nobody is let go: there is no pump. Whoever runs is interrupted, once more if its stop
		 * was let pass meanwhile.
		 */
		who = 0;
		for (u32 i = 0; i < t->n; i++)
			if (is_ours(&t->v[i]) && t->v[i].running && !ptrace(PTRACE_INTERRUPT, t->v[i].tid, 0, 0) &&
			    may_map(t->v[i].tid))
				who = t->v[i].tid;
		if (!who)
			return 0;
		dp_tracer_resume_all(t);
		dp_tracer_pump(t);
	} while (!t->dead && dp_now_ns() - begin < STOPS_NS);
	return dp_fail(err, E_TARGET_STUCK, "thread %d of process %d", (int)who, (int)t->pid);
}

void dp_tracer_stop_each(struct dp_tracer *t, u64 timeout_ns)
{
	struct dp_thread *th;

	dp_tracer_begin(t, false);
	while ((th = dp_tracer_next_stopped(t, timeout_ns))) {
		th->done = true;
		dp_tracer_resume(t, th);
	}
}

void dp_tracer_resume_all(struct dp_tracer *t)
{
	for (u32 i = 0; i < t->n; i++)
		if (is_ours(&t->v[i]))
			dp_resume_unless_parked(t, &t->v[i]);
}

static bool adopt(struct dp_tracer *t, pid_t pid, pid_t tid)
{
	return tid > 0 && !find(t, tid) && tid != dp_parked_held(t->pid) && !dp_is_on_way(tid) &&
	       dp_tracer_of(pid, tid) == getpid() && add(t, tid);
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
