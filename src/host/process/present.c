/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `exit 1`: a debugger that comes to the stopped process is to find the thread at the probed instruction, with its
 * registers, not in our code. The thread cannot stop itself there, since it stops in a system call, so it is sent there
 * while it stands. When it goes on, the hit comes again and is passed over (comes_again() in hit/hit.c).
 */
#include <dirent.h>
#include <errno.h>
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
#define MOST 16                                       /* threads in one turn */

_Static_assert(sizeof(struct dp_regs) == offsetof(struct user_regs_struct, fs_base), "struct user_regs_struct");

static bool stands(pid_t pid, pid_t tid)
{
	char state[32];

	return !dp_status_field(pid, tid, "State", state, sizeof(state)) && state[0] == 'T';
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

/* To the state that the slot of its thread pointer has for it. */
static void send_back(struct dp_session *s, pid_t tid, struct dp_hit_stopped *v, const u64 *slots, u32 n)
{
	struct user_regs_struct user;
	struct dp_regs now;

	if (!seize(tid))
		return;
	for (u32 i = 0; i < n && !ptrace(PTRACE_GETREGS, tid, 0, &user); i++) {
		if (dp_user_thread(&user) != v[i].thread || !is_ours(s, dp_user_ip(&user)) ||
		    dp_hit_slot_leave(s->pid, slots[i], NULL))
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
	u32 n = 0;
	DIR *dir;

	if (!s->armed || !s->stops || !stands(s->pid, s->pid))
		return;
	for (u32 i = 0; i < s->nslots && n < MOST; i++) {
		slots[n] = s->region + s->slots_off + (u64)i * DP_HIT_SLOT_SIZE;
		n += dp_hit_slot_stopped(s->pid, slots[n], &v[n]);
	}
	snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
	dir = n ? opendir(path) : NULL;
	while (dir && (de = readdir(dir))) {
		pid_t tid = (pid_t)atoi(de->d_name);

		if (tid > 0 && is_ours(s, dp_thread_call(s->pid, tid).ip) && stands(s->pid, tid))
			send_back(s, tid, v, slots, n);
	}
	if (dir)
		closedir(dir);
}
