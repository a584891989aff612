/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Starting a program under probes: it is run to its entry point, where its libraries are loaded,
 * and waits there in a two-byte loop on borrowed bytes until the probes are armed.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/session-priv.h"

static const u8 spin[] = {0xeb, 0xfe}; /* jmp to itself */

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

/* In the child: wait until the parent traces us, then become the program. */
static void child(int go, int result, char *const argv[])
{
	char c;
	int e;

	while (read(go, &c, 1) < 0 && errno == EINTR)
		;
	execvp(argv[0], argv);
	e = errno;
	if (write(result, &e, sizeof(e)) < 0)
		_exit(126);
	_exit(127);
}

static int wait_stop(pid_t pid, int *status)
{
	while (waitpid(pid, status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSTOPPED(*status) ? 0 : -ESRCH;
}

/* From the exec stop to the entry point of the program. */
static int run_to_entry(pid_t pid, u64 *entry, struct dp_error *err)
{
	struct user_regs_struct regs;
	struct dp_mem mem;
	u8 saved, brk = 0xcc;
	int status, r = dp_mem_open(&mem, pid, err);

	if (r)
		return r;
	*entry = entry_point(pid);
	r = dp_mem_read(&mem, *entry, &saved, 1, err);
	if (!r)
		r = dp_mem_write(&mem, *entry, &brk, 1, err);
	while (!r) {
		int sig = 0;

		if (ptrace(PTRACE_CONT, pid, 0, 0) || wait_stop(pid, &status)) {
			r = dp_fail(err, E_TARGET_GONE, "the program ended before its entry point");
			break;
		}
		sig = WSTOPSIG(status);
		if (ptrace(PTRACE_GETREGS, pid, 0, &regs)) {
			r = dp_fail(err, E_TARGET_GONE, "process %d", (int)pid);
			break;
		}
		if (sig == SIGTRAP && regs.rip == *entry + 1)
			break;
	}
	if (!r)
		r = dp_mem_write(&mem, *entry, &saved, 1, err);
	dp_mem_close(&mem);
	return r;
}

/* Let the program wait on borrowed bytes, without a tracer. */
static int park(struct dp_session *s, u64 entry, struct dp_error *err)
{
	struct user_regs_struct regs;
	struct dp_mem mem;
	int r = dp_mem_open(&mem, s->pid, err);

	if (r)
		return r;
	s->spawn_spin = dp_find_slack(&s->proc.maps, &mem);
	if (!s->spawn_spin) {
		dp_mem_close(&mem);
		return dp_fail(err, E_TARGET_NOROOM, "process %d", (int)s->pid);
	}
	s->spawn_spin += DP_SLACK_SPIN;
	r = dp_mem_read(&mem, s->spawn_spin, s->spawn_saved, sizeof(spin), err);
	if (!r)
		r = dp_mem_write(&mem, s->spawn_spin, spin, sizeof(spin), err);
	if (!r && ptrace(PTRACE_GETREGS, s->pid, 0, &regs) == 0) {
		regs.rip = s->spawn_spin;
		ptrace(PTRACE_SETREGS, s->pid, 0, &regs);
	}
	dp_mem_close(&mem);
	s->spawn_entry = entry;
	ptrace(PTRACE_DETACH, s->pid, 0, 0);
	return r;
}

int dp_spawn_go(struct dp_session *s, struct dp_error *err)
{
	struct user_regs_struct regs;
	struct dp_mem mem;
	int status, r;

	if (ptrace(PTRACE_SEIZE, s->pid, 0, 0) || ptrace(PTRACE_INTERRUPT, s->pid, 0, 0) ||
	    wait_stop(s->pid, &status) || ptrace(PTRACE_GETREGS, s->pid, 0, &regs))
		return dp_fail(err, E_TARGET_GONE, "process %d", (int)s->pid);
	if (regs.rip == s->spawn_spin) {
		regs.rip = s->spawn_entry;
		ptrace(PTRACE_SETREGS, s->pid, 0, &regs);
	}
	r = dp_mem_open(&mem, s->pid, err);
	if (!r) {
		r = dp_mem_write(&mem, s->spawn_spin, s->spawn_saved, sizeof(spin), err);
		dp_mem_close(&mem);
	}
	ptrace(PTRACE_DETACH, s->pid, 0, 0);
	return r;
}

int dp_session_spawn(struct dp_session **out, char *const argv[], const struct dp_session_options *opt,
		     struct dp_error *err)
{
	int go[2], result[2], status, e = 0, r;
	u64 entry = 0;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) || pipe2(result, O_CLOEXEC))
		return dp_fail(err, E_ARM_NOMEM, "pipe: %s", strerror(errno));
	pid = fork();
	if (pid == 0)
		child(go[0], result[1], argv);
	close(go[0]);
	close(result[1]);
	r = pid < 0 || ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC) || write(go[1], "", 1) != 1
		? dp_fail(err, E_TARGET_PERM, "%s: %s", argv[0], strerror(errno))
		: 0;
	close(go[1]);
	/* Until the exec stop; a failing exec reports through the pipe. */
	while (!r && (r = wait_stop(pid, &status)) == 0 && status >> 16 != PTRACE_EVENT_EXEC)
		ptrace(PTRACE_CONT, pid, 0, (long)WSTOPSIG(status));
	if (r && read(result[0], &e, sizeof(e)) == sizeof(e))
		r = dp_fail(err, E_FILE_OPEN, "%s: %s", argv[0], strerror(e));
	close(result[0]);
	if (!r)
		r = run_to_entry(pid, &entry, err);
	if (!r)
		r = dp_session_new(out, pid, opt, err);
	if (!r)
		r = park(*out, entry, err);
	if (r && pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, __WALL);
	}
	return r;
}
