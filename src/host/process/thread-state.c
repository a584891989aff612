/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a thread is doing, as the kernel tells it, and the results of system calls that we have interrupted. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process/process-priv.h"

#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

int dp_status_field(pid_t pid, pid_t tid, const char *name, char *buf, size_t size)
{
	char path[64], text[8192], *line = text, *end; /* it has some 1500 bytes, and all are read at once */
	size_t n = strlen(name);
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[DP_MAX(got, 0)] = '\0';
	for (; (end = strchr(line, '\n')); line = end + 1)
		if (!strncmp(line, name, n) && line[n] == ':') {
			const char *p = line + n + 1 + strspn(line + n + 1, " \t");

			snprintf(buf, size, "%.*s", (int)(end - p), p);
			return 0;
		}
	return -ENOENT;
}

struct dp_thread_call dp_thread_call(pid_t pid, pid_t tid)
{
	struct dp_thread_call call = {DP_CALL_UNKNOWN, 0, 0};
	char path[64], line[256] = "", *end;
	long nr;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
	f = fopen(path, "re");
	if (!f)
		return call;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	nr = strtol(line, &end, 10);
	if (end == line)
		return call; /* "running" */
	call.nr = nr;
	call.arg = strtoull(end, NULL, 16);
	call.ip = strtoull(strrchr(line, ' ') ? strrchr(line, ' ') : "", NULL, 16);
	return call;
}

/* Where a process waits whose turn it is: one at a time is brought to its probes. */
static struct {
	pid_t pid;
	u64 at;
	u32 size;
	pid_t held;
} parked;

void dp_note_parked(pid_t pid, u64 at, u32 size, pid_t held)
{
	parked.pid = pid;
	parked.at = at;
	parked.size = size;
	parked.held = held;
}

pid_t dp_parked_held(pid_t pid)
{
	return parked.pid == pid ? parked.held : 0;
}

void dp_parked_let(void)
{
	parked.held = 0;
}

bool dp_parked_at(pid_t pid, u64 ip)
{
	return parked.pid == pid && ip - parked.at < parked.size;
}

static struct {
	pid_t tid;
	void (*look)(void);
} way;

void dp_note_way(pid_t tid, void (*look)(void))
{
	way.tid = tid;
	way.look = look;
}

bool dp_is_on_way(pid_t tid)
{
	return way.tid && way.tid == tid;
}

void dp_look_at_way(void)
{
	if (way.tid)
		way.look();
}

u64 dp_passed(pid_t pid, u64 type)
{
	Elf64_auxv_t av[64]; /* some twenty are passed */
	char path[64];
	u64 value = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, av, sizeof(av));
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(av[0]); i++)
		if (av[i].a_type == type)
			value = av[i].a_un.a_val;
	close(fd);
	return value;
}

bool dp_signal_pending(pid_t tid)
{
	char pnd[32] = "0", shd[32] = "0", blk[32] = "0";

	dp_status_field(tid, tid, "SigPnd", pnd, sizeof(pnd));
	dp_status_field(tid, tid, "ShdPnd", shd, sizeof(shd));
	dp_status_field(tid, tid, "SigBlk", blk, sizeof(blk));
	return ((strtoull(pnd, NULL, 16) | strtoull(shd, NULL, 16)) & ~strtoull(blk, NULL, 16)) != 0;
}

/*
 * Calls that give up with EINTR even when no handler runs (signal(7) lists them). Our interruption must not be
 * seen, so they are made again, unless a signal is on its way that would have ended them anyway.
 */
static bool gives_up(u64 nr)
{
	switch (nr) {
	case 65:  /* semop */
	case 220: /* semtimedop */
	case 128: /* rt_sigtimedwait */
	case 208: /* io_getevents */
	case 333: /* io_pgetevents */
	case 232: /* epoll_wait */
	case 281: /* epoll_pwait */
	case 441: /* epoll_pwait2 */
	case 34:  /* pause */
	case 130: /* rt_sigsuspend */
		return true;
	default:
		return false;
	}
}

bool dp_will_restart(const struct user_regs_struct *regs)
{
	s64 ret = (s64)dp_user_result(regs);

	return (s64)dp_user_call(regs) >= 0 && (ret == -ERESTARTSYS || ret == -ERESTARTNOINTR ||
						ret == -ERESTARTNOHAND || ret == -ERESTART_RESTARTBLOCK);
}

void dp_fix_restart(pid_t tid, struct user_regs_struct *regs, bool by_hand)
{
	s64 ret = (s64)dp_user_result(regs);

	if ((s64)dp_user_call(regs) < 0)
		return; /* not in a system call */
	if (ret == -EINTR && gives_up(dp_user_call(regs)) && !dp_signal_pending(tid)) {
		dp_user_result(regs) = dp_user_call(regs);
		dp_user_ip(regs) -= DP_SYSCALL_LEN;
		dp_user_call(regs) = (u64)-1;
		return;
	}
	if (!by_hand)
		return; /* the kernel does the rest when the thread leaves the stop */
	if (dp_will_restart(regs)) {
		dp_user_result(regs) = ret == -ERESTART_RESTARTBLOCK ? 219 /* restart_syscall */ : dp_user_call(regs);
		dp_user_ip(regs) -= DP_SYSCALL_LEN;
	}
	dp_user_call(regs) = (u64)-1;
}
