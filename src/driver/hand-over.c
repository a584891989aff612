/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A driver gives its place to one of another file, such as that of a newer package. It ends as a driver that is killed,
 * with all probes in place, and the successor takes them over (run/run-state.c). It has the socket and the lock from
 * the beginning, so that commands wait for it and nobody else can come between.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "driver/driver-priv.h"
#include "run/run-priv.h"

#define NOTIFY "NOTIFY_SOCKET"

void dp_driver_notify(const char *text)
{
	const char *path = getenv(NOTIFY);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = path ? strlen(path) : 0;
	int fd;

	if (!n || n >= sizeof(a.sun_path))
		return;
	memcpy(a.sun_path, path, n);
	if (*path == '@')
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		fprintf(stderr, "dprobes: %s: %s\n", path, strerror(errno));
	close(fd);
}

/* The words after the name are what every version understands: they are not changed. */
void dp_driver_become(const char *program, const struct dp_driver_place *place)
{
	char listener[16], lock[16];

	fcntl(place->listener, F_SETFD, 0);
	fcntl(place->lock, F_SETFD, 0); /* held as long as the driver lives */
	snprintf(listener, sizeof(listener), "%d", place->listener);
	snprintf(lock, sizeof(lock), "%d", place->lock);
	execl(program, "dprobesd", "driver-serve", listener, lock, place->stays ? "stays" : NULL, (char *)NULL);
}

int dp_driver_understands(const struct dp_run_request *rq, struct dp_error *err)
{
	if (rq->protocol == DP_RUN_PROTOCOL && (rq->op != DP_RUN_HAND_OVER || rq->abi == DP_ABI))
		return 0;
	return dp_fail(err, E_DRV_VERSION, "the driver, process %d, is of dprobes %s, interface %u.%u; this is %u.%u",
		       (int)getpid(), DP_VERSION, DP_RUN_PROTOCOL, DP_ABI, rq->protocol, rq->abi);
}

/* Until then its descriptors, and what it traces, are its own. */
static void await_end_of(pid_t parent)
{
	while (getppid() == parent)
		nanosleep(&(struct timespec){0, 500000}, NULL);
}

void dp_driver_give_place(const char *program, const struct dp_driver_place *place)
{
	const pid_t parent = getpid();
	sigset_t ends;
	char text[32];
	pid_t pid;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL); /* what comes is the successor's, who lets it in */
	pid = fork();
	if (pid == 0) {
		await_end_of(parent);
		dp_driver_become(program, place);
		dp_driver_become("/proc/self/exe", place); /* so that somebody has the probes */
		_exit(127);
	}
	if (pid > 0) {
		snprintf(text, sizeof(text), "MAINPID=%d", (int)pid);
		dp_driver_notify(text);
		_exit(0);
	}
	sigprocmask(SIG_UNBLOCK, &ends, NULL);
}
