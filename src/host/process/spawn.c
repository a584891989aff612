/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Starting a program under probes: it is run to its entry point, where its libraries are loaded,
 * and waits there until the probes are armed.
 */
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

/* In the child: wait until the parent traces us, then become the program. */
static void child(const int go[2], int result, char *const argv[], bool ignore_int)
{
	ssize_t n;
	char c;
	int e;

	if (ignore_int)
		signal(SIGINT, SIG_IGN);
	close(go[1]);
	while ((n = read(go[0], &c, 1)) < 0 && errno == EINTR)
		;
	if (n != 1)
		_exit(127);
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

/* Let it go on, traced. Whoever traces us traces our children, too. */
static int take(pid_t pid, int go, const char *name, struct dp_error *err)
{
	pid_t by;

	if (pid > 0 && !ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC) && write(go, "", 1) == 1)
		return 0;
	by = errno == EPERM && pid > 0 ? dp_tracer_of(pid, pid) : 0;
	if (by)
		return dp_fail(err, E_TARGET_TRACED, "%s is traced by process %d, as dprobes is", name, (int)by);
	return dp_fail(err, E_TARGET_PERM, "%s: %s", name, strerror(errno));
}

int dp_session_spawn(struct dp_session **out, char *const argv[], const struct dp_session_options *opt,
		     struct dp_error *err)
{
	int go[2], result[2], status, e = 0, r;
	struct dp_parking parking = {0};
	bool taken;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) || pipe2(result, O_CLOEXEC))
		return dp_fail(err, E_ARM_NOMEM, "pipe: %s", strerror(errno));
	pid = fork();
	if (pid == 0)
		child(go, result[1], argv, opt && opt->ignore_int);
	close(go[0]);
	close(result[1]);
	r = take(pid, go[1], argv[0], err);
	taken = !r;
	close(go[1]);
	/* Until the exec stop; a failing exec reports through the pipe. */
	while (!r && (r = wait_stop(pid, &status)) == 0 && status >> 16 != PTRACE_EVENT_EXEC)
		ptrace(PTRACE_CONT, pid, 0, (long)WSTOPSIG(status));
	if (r && taken && read(result[0], &e, sizeof(e)) == sizeof(e))
		r = dp_fail(err, E_FILE_OPEN, "%s: %s", argv[0], strerror(e));
	close(result[0]);
	if (!r)
		r = dp_park(&parking, pid, false, err);
	if (!r)
		r = dp_session_new(out, pid, opt, err);
	if (!r) {
		(*out)->spawned = true;
		(*out)->parking = parking;
		dp_park_keep(&(*out)->parking);
	}
	if (r && pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, __WALL);
	}
	return r;
}
