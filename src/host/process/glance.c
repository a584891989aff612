/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A look at a thread that runs: it is stopped for some microseconds. Nothing in it is changed, and nobody waits: a
 * thread that does not stop at once is asked again later. Should we be killed, the kernel lets it go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/abi-regs.h"
#include "host/process/process-priv.h"

char dp_thread_state(pid_t pid, pid_t tid)
{
	char path[64], text[256], *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[DP_MAX(n, (ssize_t)0)] = '\0';
	end = strrchr(text, ')'); /* the name before it may hold anything */
	return end && end[1] == ' ' ? end[2] : 0;
}

int dp_glance_begin(pid_t pid, pid_t tid)
{
	if (dp_thread_state(pid, tid) != 'R')
		return -EAGAIN;
	if (ptrace(PTRACE_SEIZE, tid, 0, 0))
		return -errno;
	ptrace(PTRACE_INTERRUPT, tid, 0, 0); /* it fails only for one that has ended, which waitpid() tells */
	return 0;
}

static void take(pid_t tid, const struct user_regs_struct *user, struct dp_glance *g)
{
	struct dp_regs regs;
	struct iovec here = {g->stack, sizeof(g->stack)}, there = {NULL, sizeof(g->stack)};
	ssize_t n;

	memcpy(&regs, user, sizeof(regs)); /* present.c asserts that they are alike */
	g->ip = regs.ip;
	g->sp = regs.sp;
	g->frame = dp_regs_frame(&regs);
	g->aligned = dp_regs_align(&regs);
	there.iov_base = (void *)regs.sp; // NOLINT(performance-no-int-to-ptr): an address in the other process
	/* The stack may end before that: what is on the page of the stack pointer is there in any case. */
	n = process_vm_readv(tid, &here, 1, &there, 1, 0);
	if (n <= 0) {
		here.iov_len = there.iov_len = 4096 - (regs.sp & 4095);
		n = process_vm_readv(tid, &here, 1, &there, 1, 0);
	}
	g->size = n > 0 ? (u64)n : 0;
}

int dp_glance_end(pid_t tid, struct dp_glance *g)
{
	struct user_regs_struct user, before;
	int status, sig = 0;
	pid_t r = waitpid(tid, &status, __WALL | WNOHANG);

	if (!r)
		return -EAGAIN;
	if (r != tid || !WIFSTOPPED(status))
		return -ESRCH;
	if (!(status >> 16)) /* a signal on its way to the program: it gets it */
		sig = WSTOPSIG(status);
	g->size = 0;
	r = ptrace(PTRACE_GETREGS, tid, 0, &user) ? -1 : 0;
	if (!r) {
		take(tid, &user, g);
		before = user;
		dp_fix_restart(tid, &user, false);
		if (memcmp(&before, &user, sizeof(user)))
			ptrace(PTRACE_SETREGS, tid, 0, &user);
	}
	ptrace(PTRACE_DETACH, tid, 0, (long)sig);
	return r ? -ESRCH : 0;
}
