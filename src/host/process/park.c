/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Processes that wait at their entry point, without a tracer, until probes are in place. Should
 * nobody come for them any more they go on by themselves after a few seconds.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/process-priv.h"

/* mov $2^27, %ecx; 1: pause; loop 1b; jmp *0(%rip); and the address of the entry point */
static const u8 waiting[DP_PARK_SIZE] = {0xb9, 0, 0, 0, 8, 0xf3, 0x90, 0xe2, 0xfc, 0xff, 0x25};
#define ENTRY_AT (DP_PARK_SIZE - 8)

static int gone(pid_t pid, struct dp_error *err)
{
	return dp_fail(err, E_TARGET_GONE, "process %d", (int)pid);
}

/* The next stop of the thread, at the latest after that many milliseconds. 0; -ESRCH it ended,
 * -ETIMEDOUT. */
static int wait_stop(pid_t tid, u32 ms, int *status)
{
	u64 end = dp_now_ns() + ms * 1000000ull;
	pid_t r;

	while ((r = waitpid(tid, status, __WALL | WNOHANG)) == 0 && dp_now_ns() < end)
		usleep(20);
	if (r == 0)
		return -ETIMEDOUT;
	return r == tid && WIFSTOPPED(*status) ? 0 : -ESRCH;
}

static int signal_of(int status)
{
	return status >> 16 ? 0 : WSTOPSIG(status);
}

/* Let a thread go that may be running. */
static void let_go(pid_t tid)
{
	int status;

	if (!ptrace(PTRACE_INTERRUPT, tid, 0, 0) && waitpid(tid, &status, __WALL) == tid &&
	    WIFSTOPPED(status))
		ptrace(PTRACE_DETACH, tid, 0, (long)signal_of(status));
}

static u64 entry_point(pid_t pid)
{
	char path[64];
	Elf64_auxv_t av;
	u64 entry = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, &av, sizeof(av)) == sizeof(av))
		if (av.a_type == AT_ENTRY)
			entry = av.a_un.a_val;
	if (fd >= 0)
		close(fd);
	return entry;
}

/* From a stop before it to the first instruction of the program, where its libraries are loaded. */
static int run_to_entry(pid_t pid, const struct dp_mem *mem, u64 entry, struct dp_error *err)
{
	struct user_regs_struct regs;
	u8 saved, brk = 0xcc;
	int status, r = dp_mem_read(mem, entry, &saved, 1, err);
	long sig = 0;

	if (!r)
		r = dp_mem_write(mem, entry, &brk, 1, err);
	if (r)
		return r;
	for (;;) {
		if (ptrace(PTRACE_CONT, pid, 0, sig) || waitpid(pid, &status, __WALL) != pid ||
		    !WIFSTOPPED(status) || ptrace(PTRACE_GETREGS, pid, 0, &regs))
			return gone(pid, err);
		sig = signal_of(status);
		if (sig == SIGTRAP && regs.rip == entry + 1)
			break;
	}
	regs.rip = entry;
	if (ptrace(PTRACE_SETREGS, pid, 0, &regs))
		return gone(pid, err);
	return dp_mem_write(mem, entry, &saved, 1, err);
}

static int park(struct dp_parking *p, const struct dp_mem *mem, struct dp_error *err)
{
	struct user_regs_struct regs;
	u8 code[DP_PARK_SIZE];
	struct dp_maps maps;
	int r = dp_maps_read(&maps, p->pid, err);

	if (r)
		return r;
	p->at = dp_find_slack(&maps, mem);
	dp_maps_free(&maps);
	if (!p->at)
		return dp_fail(err, E_TARGET_NOROOM, "process %d", (int)p->pid);
	p->at += DP_SLACK_PARK;
	memcpy(code, waiting, sizeof(code));
	memcpy(code + ENTRY_AT, &p->entry, 8);
	r = dp_mem_read(mem, p->at, p->saved, sizeof(p->saved), err);
	if (!r)
		r = dp_mem_write(mem, p->at, code, sizeof(code), err);
	if (r)
		return r;
	if (ptrace(PTRACE_GETREGS, p->pid, 0, &regs))
		return gone(p->pid, err);
	p->cx = regs.rcx;
	regs.rip = p->at;
	return ptrace(PTRACE_SETREGS, p->pid, 0, &regs) ? gone(p->pid, err) : 0;
}

int dp_park(struct dp_parking *p, pid_t pid, struct dp_error *err)
{
	struct dp_mem mem;
	int r = dp_mem_open(&mem, pid, err);

	if (r)
		return r;
	memset(p, 0, sizeof(*p));
	p->pid = pid;
	p->entry = entry_point(pid);
	r = run_to_entry(pid, &mem, p->entry, err);
	if (!r)
		r = park(p, &mem, err);
	dp_mem_close(&mem);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	return r;
}

int dp_unpark(struct dp_parking *p, struct dp_error *err)
{
	struct user_regs_struct regs;
	struct dp_mem mem;
	int status = 0, r;

	if (ptrace(PTRACE_SEIZE, p->pid, 0, 0) || ptrace(PTRACE_INTERRUPT, p->pid, 0, 0) ||
	    waitpid(p->pid, &status, __WALL) != p->pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_GETREGS, p->pid, 0, &regs))
		return gone(p->pid, err);
	if (regs.rip - p->at < DP_PARK_SIZE) {
		regs.rip = p->entry;
		regs.rcx = p->cx;
		ptrace(PTRACE_SETREGS, p->pid, 0, &regs);
	}
	r = dp_mem_open(&mem, p->pid, err);
	if (!r) {
		r = dp_mem_write(&mem, p->at, p->saved, sizeof(p->saved), err);
		dp_mem_close(&mem);
	}
	ptrace(PTRACE_DETACH, p->pid, 0, (long)signal_of(status));
	return r;
}

/* Until the thread runs another program; one whose execve fails goes on as it was. */
static int await_exec(pid_t tid, pid_t pid, struct dp_error *err)
{
	int status, r;

	for (;;) {
		r = wait_stop(tid, DP_CATCH_MS, &status);
		if (r == -ESRCH && tid != pid) { /* it has become the process's first thread */
			tid = pid;
			continue;
		}
		if (r == -ETIMEDOUT)
			let_go(tid);
		if (r)
			return gone(pid, err);
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return 0;
		ptrace(PTRACE_CONT, tid, 0, (long)signal_of(status));
	}
}

/* Whether the stopped thread is still loading its program: it has no thread area yet. */
static bool is_loading(pid_t pid)
{
	struct user_regs_struct regs;

	return !ptrace(PTRACE_GETREGS, pid, 0, &regs) && !regs.fs_base;
}

int dp_catch(struct dp_parking *p, pid_t tid, pid_t pid, bool in_exec, void (*go)(void *arg),
	     void *arg, struct dp_error *err)
{
	int status, r = 0;

	if (ptrace(PTRACE_SEIZE, tid, 0, in_exec ? PTRACE_O_TRACEEXEC : 0)) {
		go(arg);
		return dp_fail(err, E_TARGET_PERM, "process %d: %s", (int)pid, strerror(errno));
	}
	if (!in_exec)
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	go(arg);
	if (in_exec)
		return await_exec(tid, pid, err) ?: dp_park(p, pid, err);
	r = wait_stop(tid, DP_CATCH_MS, &status);
	if (r == -ETIMEDOUT)
		let_go(tid);
	if (r)
		return gone(pid, err);
	if (tid == pid && is_loading(pid) && !signal_of(status))
		return dp_park(p, pid, err);
	ptrace(PTRACE_DETACH, tid, 0, (long)signal_of(status));
	return dp_fail(err, E_TARGET_GONE, "process %d is not being started", (int)pid);
}
