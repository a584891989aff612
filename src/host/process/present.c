/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `exit 1`: a debugger that comes to the stopped process is to find the thread at the probed instruction, with its
 * registers, not in our code. The thread cannot stop itself there, since it stops in a system call, so it is sent there
 * while it stands. When it goes on, the hit comes again and is passed over (comes_again() in hit/hit.c).
 *
 * Behind a watched access the rest of the hit is still to be done: a signal handler returns, or a page is closed again.
 * The thread does it, step by step, up to the program's next instruction.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/abi-slot.h"
#include "host/process/session-priv.h"
#include "host/process/untrusted.h"

#define GROUP_STOP (SIGSTOP | PTRACE_EVENT_STOP << 8) /* of a status, without its lowest byte */
#define LOOKS 5                                       /* a millisecond each, for a thread that stands to say so */
#define MOST 16                                       /* hits in one turn */
#define MOST_TRIED 64                                 /* threads: others may be in our code, or pretend it */
#define STEPS_MS 100                                  /* for the rest of all hits of one turn */

_Static_assert(sizeof(struct dp_regs) == offsetof(struct user_regs_struct, fs_base), "struct user_regs_struct");

static bool stands(pid_t pid, pid_t tid)
{
	return dp_thread_state(pid, tid) == 'T';
}

/* Seized, and as it was: stopped with its process. False: it is not traced. */
static bool seize(pid_t tid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, 0, 0))
		return false; /* a debugger was faster, say */
	for (u32 i = 0;; i++) {
		pid_t r = waitpid(tid, &status, __WALL | WNOHANG);

		if (r == tid && WIFSTOPPED(status)) {
			if (status >> 8 == GROUP_STOP)
				return true;
			ptrace(PTRACE_DETACH, tid, 0, WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
			return false;
		}
		if (r == tid || (r < 0 && errno != EINTR))
			return false; /* it has ended */
		if (i == LOOKS)       /* it goes on already */
			ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		usleep(1000);
	}
}

static bool is_ours(const struct dp_session *s, u64 ip)
{
	return ip - s->region < s->block.ctl.region_hi - s->region;
}

static bool in_detour(const struct dp_session *s, u64 ip)
{
	for (u32 i = 0; i < s->plan.space.nareas; i++)
		if (ip - s->plan.space.areas[i].lo < s->plan.space.areas[i].hi - s->plan.space.areas[i].lo)
			return true;
	return false;
}

/* One instruction of a thread that is traced and stands. False: it has been detached, or has ended. */
static bool step(pid_t tid, u64 until)
{
	siginfo_t si;
	int status;
	pid_t r;

	if (ptrace(PTRACE_SINGLESTEP, tid, 0, 0))
		return false;
	do {
		r = waitpid(tid, &status, __WALL | WNOHANG);
		if (!r && dp_now_ns() > until)
			ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		if (!r)
			sched_yield();
	} while (!r || (r < 0 && errno == EINTR));
	if (r != tid || !WIFSTOPPED(status))
		return false;
	if (status >> 16) /* by an event, no signal */
		return true;
	if (WSTOPSIG(status) == SIGTRAP && !ptrace(PTRACE_GETSIGINFO, tid, 0, &si) &&
	    (si.si_code == TRAP_TRACE || si.si_code == TRAP_BRKPT)) /* the latter behind a system call */
		return true;
	ptrace(PTRACE_DETACH, tid, 0, WSTOPSIG(status)); /* a signal of the program's comes first */
	return false;
}

/* Whether the thread is traced still. Where time runs out before it is in the program it goes on in the next turn. */
static bool step_out(struct dp_session *s, pid_t tid, u64 until)
{
	struct user_regs_struct user;

	s->stepping = 0;
	while (!ptrace(PTRACE_GETREGS, tid, 0, &user) &&
	       (is_ours(s, dp_user_ip(&user)) || in_detour(s, dp_user_ip(&user)))) {
		if (dp_now_ns() > until) {
			s->stepping = tid;
			break;
		}
		if (!step(tid, until))
			return false;
	}
	return true;
}

/* To the state that the slot of its thread pointer has for it. */
static void send_back(struct dp_session *s, pid_t tid, struct dp_hit_stopped *v, const u64 *slots, u32 n, u64 until)
{
	struct user_regs_struct user;
	struct dp_regs now;

	if (!seize(tid))
		return;
	if (tid == s->stepping && !step_out(s, tid, until))
		return;
	for (u32 i = 0; i < n && !ptrace(PTRACE_GETREGS, tid, 0, &user); i++) {
		/* Once more, now that it stands: it may have gone on meanwhile, and have stopped at another hit. */
		if (!dp_hit_slot_stopped(s->pid, slots[i], &v[i]))
			continue;
		if (dp_user_thread(&user) != v[i].thread || !is_ours(s, dp_user_ip(&user)))
			continue;
		if (v[i].behind) {
			if (!step_out(s, tid, until))
				return;
			break;
		}
		if (dp_hit_slot_leave(s->pid, slots[i], NULL))
			continue;
		memcpy(&now, &user, sizeof(now));
		v[i].regs.cs = now.cs;
		v[i].regs.ss = now.ss;
		memcpy(&user, &v[i].regs, sizeof(now));
		dp_user_call(&user) = (u64)-1;
		if (!ptrace(PTRACE_SETREGS, tid, 0, &user) && v[i].blocked)
			ptrace(PTRACE_SETSIGMASK, tid, sizeof(v[i].mask), &v[i].mask);
		break;
	}
	ptrace(PTRACE_DETACH, tid, 0, 0); /* the process is stopped, and so it stays */
}

void dp_session_present(struct dp_session *s)
{
	struct dp_hit_stopped v[MOST];
	u64 slots[MOST];
	char path[64];
	struct dirent *de;
	u32 n = 0, tried = 0;
	u64 until;
	DIR *dir;

	if (!s->armed || !s->stops)
		return;
	if (!stands(s->pid, s->pid)) {
		s->stepping = 0;
		return;
	}
	for (u32 i = 0; i < s->nslots && n < MOST; i++) {
		slots[n] = s->region + s->slots_off + (u64)i * DP_HIT_SLOT_SIZE;
		n += dp_hit_slot_stopped(s->pid, slots[n], &v[n]);
	}
	snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
	dir = n || s->stepping ? opendir(path) : NULL;
	until = dp_now_ns() + STEPS_MS * 1000000ull;
	while (dir && tried < MOST_TRIED && (de = readdir(dir))) {
		pid_t tid = (pid_t)atoi(de->d_name);

		if (tid <= 0 || !is_ours(s, dp_thread_call(s->pid, tid).ip) || !stands(s->pid, tid))
			continue;
		send_back(s, tid, v, slots, n, until);
		tried++;
	}
	if (dir)
		closedir(dir);
}
