/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The driver's loop: a run (run/run.h) that commands talk to through a socket. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver/driver-priv.h"
#include "run/run-priv.h"

#define REQUEST_MAX (16u << 20)
#define PATIENCE_NS 5000000000ull /* with a command that says nothing */
#define LINGER_NS 2000000000ull   /* without work, before it ends */

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = sig;
}

/*
 * Both wait for a command for some seconds in all. Meanwhile the driver does its work: a command that says nothing, or
 * does not read, costs no records.
 */
static bool receive_all(struct dp_run *run, int fd, void *p, size_t n)
{
	u64 end = dp_now_ns() + PATIENCE_NS;

	while (n) {
		ssize_t r = recv(fd, p, n, MSG_DONTWAIT);

		if (r == 0 || (r < 0 && errno != EAGAIN && errno != EINTR) || dp_now_ns() > end || stop)
			return false;
		if (r > 0) {
			p = (char *)p + r;
			n -= (size_t)r;
		} else {
			dp_run_turn(run, fd);
		}
	}
	return true;
}

static void send_all(struct dp_run *run, int fd, const void *p, size_t n)
{
	u64 end = dp_now_ns() + PATIENCE_NS;

	while (n) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if ((w < 0 && errno != EAGAIN && errno != EINTR) || dp_now_ns() > end || stop)
			return;
		if (w > 0) {
			p = (const char *)p + w;
			n -= (size_t)w;
		} else {
			dp_run_turn(run, -1);
		}
	}
}

/* Whose file takes the place when the reply is sent; NULL: nobody's. */
static char *successor;

static int take_successor(const struct dp_run *run, char *program, FILE *out, struct dp_error *err)
{
	u32 n = 0;

	if (getpid() == 1) {
		free(program);
		return dp_fail(err, E_DRV_START, "the driver is the first process of its container");
	}
	for (const struct run_module *m = run->modules; m; m = m->next)
		n++;
	fprintf(out, "process %d has handed %u inserted program%s over\n", (int)getpid(), n, n == 1 ? "" : "s");
	successor = program;
	return 0;
}

static int handle(struct dp_run *run, const struct dp_run_request *rq, const char *rest, FILE *out,
		  struct dp_error *err)
{
	char *name = strndup(rest, rq->name_len);
	int r;

	if (!name)
		return dp_fail(err, E_RPN_MEMORY, "request");
	if (rq->op == DP_RUN_HAND_OVER)
		return take_successor(run, name, out, err);
	r = dp_run_request(run, rq, name, rest + rq->name_len + rq->file_len, out, err);
	free(name);
	return r;
}

static void reply_to(struct dp_run *run, int fd, const struct dp_error *err, const char *text, size_t n)
{
	struct dp_driver_reply reply = {.code = err->code,
					.detail_len = (u32)strlen(err->detail),
					.hint_len = (u32)strlen(err->hint),
					.text_len = (u32)n};

	send_all(run, fd, &reply, sizeof(reply));
	send_all(run, fd, err->detail, reply.detail_len);
	send_all(run, fd, err->hint, reply.hint_len);
	send_all(run, fd, text, n);
}

/* Its first members say whether the others can be understood. */
static bool receive_request(struct dp_run *run, int fd, struct dp_run_request *rq)
{
	const size_t head = offsetof(struct dp_run_request, op);
	struct dp_error err = {0};

	*rq = (struct dp_run_request){.size = 0};
	if (!receive_all(run, fd, rq, head))
		return false;
	if (!dp_driver_understands(rq, &err))
		return receive_all(run, fd, (char *)rq + head, sizeof(*rq) - head);
	reply_to(run, fd, &err, "", 0);
	return false;
}

static void serve(struct dp_run *run, int fd)
{
	struct dp_run_request rq;
	struct dp_error err = {0};
	char *rest = NULL, *text = NULL;
	size_t n = 0;
	FILE *out;

	if (!receive_request(run, fd, &rq) || rq.size < sizeof(rq) || rq.size > REQUEST_MAX ||
	    rq.name_len > REQUEST_MAX || rq.file_len > REQUEST_MAX || rq.object_len > REQUEST_MAX ||
	    rq.size != sizeof(rq) + rq.name_len + rq.file_len + rq.object_len)
		return;
	rest = malloc(rq.size);
	out = open_memstream(&text, &n);
	if (rest && out && receive_all(run, fd, rest, rq.size - sizeof(rq))) {
		int r = dp_driver_understands(&rq, &err);

		if (!r)
			r = handle(run, &rq, rest, out, &err);
		if (!r)
			err = (struct dp_error){0};
		fclose(out);
		reply_to(run, fd, &err, text, n);
	} else if (out) {
		fclose(out);
	}
	free(rest);
	free(text);
}

/* Returns only if it goes on itself. */
static void hand_over(struct dp_run *run, const struct dp_driver_place *place)
{
	dp_run_log_commit(run);
	dp_driver_give_place(successor, place);
	free(successor);
	successor = NULL;
}

static void loop(struct dp_run *run, const struct dp_driver_place *place)
{
	u64 idle_since = dp_now_ns();

	while (!stop) {
		int fd = -1;

		if (dp_run_turn(run, place->listener)) {
			fd = accept4(place->listener, NULL, NULL, SOCK_CLOEXEC);
			idle_since = dp_now_ns();
		}
		if (fd >= 0) {
			serve(run, fd);
			close(fd);
		}
		if (successor && !stop)
			hand_over(run, place);
		if (run->modules || place->stays)
			idle_since = dp_now_ns();
		else if (dp_now_ns() - idle_since > LINGER_NS)
			break;
	}
}

/* Those two may have come while it took its place from another one, which has blocked them. */
static void admit_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigprocmask(SIG_UNBLOCK, &ends, NULL);
}

int dp_driver_main(int listener, int lock, const char *dir, bool stays)
{
	const struct dp_driver_place place = {.listener = listener, .lock = lock, .stays = stays};
	static struct dp_run run = {.watch_wake = -1};
	char path[4096];

	prctl(PR_SET_NAME, "dprobesd");
	admit_signals();
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a log that may not grow is a full disk */
	fcntl(listener, F_SETFD, FD_CLOEXEC);
	dp_allow_descriptors(); /* one for each process that is probed, and one for each file that they map */
	fcntl(lock, F_SETFD, FD_CLOEXEC);
	if (dp_run_log_open(&run, dir, NULL))
		return 1;
	dp_run_state_open(&run, dir);
	dp_run_adopt(&run);
	loop(&run, &place);
	/* Asked to end, it takes its probes along. */
	snprintf(path, sizeof(path), "%s/socket", dir);
	unlink(path);
	dp_run_end(&run);
	return 0;
}
