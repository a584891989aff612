/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads under ptrace: their table, what they report, and how they go on; what belongs to the program is passed on.
 * Signals always reach the program; traps at patched bytes are redirected. Knows nothing about probes beyond that.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "host/process/process-priv.h"

struct dp_thread *dp_tracer_find(struct dp_tracer *t, pid_t tid)
{
	for (u32 i = 0; i < t->n; i++)
		if (t->v[i].tid == tid && !t->v[i].gone && !t->v[i].released)
			return &t->v[i];
	return NULL;
}

struct dp_thread *dp_tracer_add(struct dp_tracer *t, pid_t tid)
{
	if (!dp_grow((void **)&t->v, &t->cap, t->n, sizeof(*t->v)))
		return NULL;
	memset(&t->v[t->n], 0, sizeof(t->v[0]));
	t->v[t->n].tid = tid;
	t->v[t->n].running = true;
	t->v[t->n].blocked = dp_signal_mask(tid, "SigBlk");
	return &t->v[t->n++];
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
	struct dp_thread *th = dp_tracer_find(t, si->si_pid);
	u32 i;

	if ((si->si_code != CLD_TRAPPED || si->si_status >> 8) &&
	    waitpid(si->si_pid, &status, __WALL | WNOHANG) != si->si_pid)
		return;
	if (!th && (!WIFSTOPPED(status) || !(th = dp_tracer_add(t, si->si_pid))))
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
		const struct dp_thread *th = dp_tracer_find(t, si.si_pid);

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
