/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Kill whoever arms and removes probes, at random instants, again and again; each successor cleans
 * up what it finds. Usage: kills PID KILLS SEED EVENT...
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/process/process.h"
#include "../lib/add-line.h"

static void quiet(void *arg, const char *text)
{
	(void)arg;
	(void)text;
}

static int fail(const char *what, const struct dp_error *err)
{
	printf("%s: %s: %s\n", what, dp_error_info(err->code)->name, err->detail);
	return 1;
}

/* Arms and removes until it is killed; a byte on the pipe each time that an arming begins. */
static int victim(int pid, char **events, int n, int rounds, int pipe)
{
	struct dp_session_options opt = {.note = quiet, .ring_size = 1 << 20};

	for (int i = 0; i < rounds; i++) {
		struct dp_session *s;
		struct dp_error err = {0};

		if (dp_session_new(&s, pid, &opt, &err))
			return fail("new", &err);
		for (int k = 0; k < n; k++)
			if (add_line(s, events[k], &err))
				return fail(events[k], &err);
		if (write(pipe, "a", 1) != 1)
			return 1;
		if (dp_session_arm(s, &err))
			return fail("arm", &err);
		if (dp_session_remove(s, &err))
			return fail("remove", &err);
		dp_session_free(s);
	}
	return 0;
}

static int run(int pid, char **events, int n, int rounds, long kill_after_us)
{
	int ends[2], status;
	pid_t child;
	char byte;

	if (pipe(ends))
		return 1;
	child = fork();
	if (child == 0) {
		close(ends[0]);
		_exit(victim(pid, events, n, rounds, ends[1]) | fflush(stdout));
	}
	close(ends[1]);
	if (child > 0 && rounds > 1 && read(ends[0], &byte, 1) == 1) {
		nanosleep(&(struct timespec){0, kill_after_us * 1000}, NULL);
		kill(child, SIGKILL);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0)
		;
	close(ends[0]); /* not before: writing to it would kill the child */
	return child < 0 || (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) != SIGKILL);
}

int main(int argc, char **argv)
{
	int pid = atoi(argv[1]), kills = argc > 4 ? atoi(argv[2]) : 0, bad = 0;

	srandom((unsigned)atoi(argv[3]));
	for (int i = 0; i < kills && !bad && !kill(pid, 0); i++)
		bad = run(pid, argv + 4, argc - 4, 1000, random() % 40000);
	if (!bad)
		bad = run(pid, argv + 4, argc - 4, 1, 0); /* cleans up */
	return bad;
}
