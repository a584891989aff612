/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The driver's loop: requests, new processes, log rings. One thread, since ptrace is bound to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver/driver-priv.h"

#define REQUEST_MAX (16u << 20)
#define PATIENCE_MS 5000 /* with a command that says nothing */
#define SCAN_NS 200000000ull
#define TEND_NS 1000000000ull
#define LINGER_NS 2000000000ull /* without work, before it ends */

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = sig;
}

static bool receive_all(int fd, void *p, size_t n)
{
	while (n) {
		struct pollfd pfd = {fd, POLLIN, 0};
		ssize_t r;

		if (poll(&pfd, 1, PATIENCE_MS) <= 0)
			return false;
		r = recv(fd, p, n, MSG_DONTWAIT);
		if (r <= 0 && errno != EAGAIN && errno != EINTR)
			return false;
		if (r == 0)
			return false;
		if (r > 0) {
			p = (char *)p + r;
			n -= (size_t)r;
		}
	}
	return true;
}

static void send_all(int fd, const void *p, size_t n)
{
	while (n) {
		struct pollfd pfd = {fd, POLLOUT, 0};
		ssize_t w;

		if (poll(&pfd, 1, PATIENCE_MS) <= 0)
			return;
		w = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (w < 0 && errno != EAGAIN && errno != EINTR)
			return;
		if (w > 0) {
			p = (const char *)p + w;
			n -= (size_t)w;
		}
	}
}

static int handle(struct driver *d, const struct dp_driver_request *rq, const char *rest, FILE *out,
		  struct dp_error *err)
{
	char *name = strndup(rest, rq->name_len);
	int r;

	if (!name)
		return dp_fail(err, E_RPN_MEMORY, "request");
	switch (rq->op) {
	case DP_DRIVER_INSERT:
		r = drv_insert(d, rq, rest + rq->name_len + rq->file_len, out, err);
		break;
	case DP_DRIVER_REMOVE:
		r = drv_remove(d, rq, name, out, err);
		break;
	case DP_DRIVER_QUERY:
		r = drv_query(d, rq, name, out, err);
		break;
	case DP_DRIVER_VARS:
		r = drv_vars(d, rq, name, out, err);
		break;
	default:
		r = dp_fail(err, E_DRV_TALK, "request %u", rq->op);
	}
	free(name);
	return r;
}

static void serve(struct driver *d, int fd)
{
	struct dp_driver_request rq;
	struct dp_driver_reply reply = {0};
	struct dp_error err = {0};
	char *rest = NULL, *text = NULL;
	size_t n = 0;
	FILE *out;

	if (!receive_all(fd, &rq, sizeof(rq)) || rq.size < sizeof(rq) || rq.size > REQUEST_MAX ||
	    rq.name_len > REQUEST_MAX || rq.file_len > REQUEST_MAX || rq.object_len > REQUEST_MAX ||
	    rq.size != sizeof(rq) + rq.name_len + rq.file_len + rq.object_len)
		return;
	rest = malloc(rq.size);
	out = open_memstream(&text, &n);
	if (rest && out && receive_all(fd, rest, rq.size - sizeof(rq))) {
		int r = handle(d, &rq, rest, out, &err);

		reply.code = r ? err.code : 0;
		fclose(out);
		reply.detail_len = (u32)strlen(err.detail);
		reply.hint_len = (u32)strlen(err.hint);
		reply.text_len = (u32)n;
		send_all(fd, &reply, sizeof(reply));
		send_all(fd, err.detail, reply.detail_len);
		send_all(fd, err.hint, reply.hint_len);
		send_all(fd, text, n);
	} else if (out) {
		fclose(out);
	}
	free(rest);
	free(text);
}

static void drain_all(struct driver *d)
{
	u64 now = dp_now_ns();

	for (struct drv_target *t = d->targets; t; t = t->next) {
		if (!t->session)
			continue;
		drv_drain(d, t, false);
		if (now - t->tended_ns > TEND_NS) {
			tracee_tend(t->session);
			t->tended_ns = now;
		}
	}
	drv_log_commit(d);
}

/* -1: nobody's. The descriptor becomes readable when the owner has ended. */
static int watch_owner(void)
{
	const char *owner = getenv(DP_DRIVER_OWNER_ENV);
	int fd = owner ? (int)syscall(SYS_pidfd_open, atoi(owner), 0) : -1;

	if (owner && fd < 0)
		stop = SIGTERM; /* it has ended already */
	return fd;
}

static void loop(struct driver *d, int listener)
{
	u64 idle_since = dp_now_ns();
	int owner = watch_owner();

	while (!stop) {
		struct pollfd p[3] = {
		    {listener, POLLIN, 0}, {d->watch_wake, POLLIN, 0}, {owner, POLLIN, 0}};
		int fd;

		poll(p, 3, d->targets ? 20 : 200);
		if (p[2].revents)
			break;
		drv_catch(d);
		if (p[0].revents & POLLIN) {
			fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0) {
				serve(d, fd);
				close(fd);
			}
			idle_since = dp_now_ns();
		}
		drain_all(d);
		if (d->modules && dp_now_ns() - d->scanned_ns > SCAN_NS)
			drv_scan(d, false);
		if (d->modules)
			idle_since = dp_now_ns();
		else if (dp_now_ns() - idle_since > LINGER_NS)
			break;
	}
}

int dp_driver_main(int listener, const char *dir)
{
	static struct driver d = {.watch_wake = -1};
	struct sigaction sa = {.sa_handler = on_signal};
	char path[4096];

	prctl(PR_SET_NAME, "dprobesd");
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a log that may not grow is a full disk */
	fcntl(listener, F_SETFD, FD_CLOEXEC);
	if (drv_log_open(&d, dir, NULL))
		return 1;
	if (!getenv(DP_DRIVER_OWNER_ENV)) {
		drv_state_open(&d, dir);
		drv_adopt(&d);
	}
	loop(&d, listener);
	/* Asked to end, it takes its probes along. */
	snprintf(path, sizeof(path), "%s/socket", dir);
	unlink(path);
	while (d.modules)
		drv_drop(&d, d.modules);
	while (d.targets)
		drv_target_end(&d, d.targets);
	drv_log_commit(&d);
	return 0;
}
