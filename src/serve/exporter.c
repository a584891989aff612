/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The parent's side of the exporter: the child's start and end, its questions and our answers. */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/part.h"
#include "base/socket.h"
#include "serve/http.h"
#include "serve/serve-priv.h"

#define NOBODY 65534

static const struct dp_http_part *load(const char **why)
{
	return dp_part_load("http", "serve", why);
}

const char *dp_exporter_library(void)
{
	const char *why;
	const struct dp_http_part *part = load(&why);

	return part ? part->version() : NULL;
}

static void limit(int what, rlim_t most)
{
	setrlimit(what, &(struct rlimit){most, most});
}

/* What is left: its own memory, the socket that listens, and the one to us. */
static bool drop_privileges(void)
{
	if (geteuid() == 0 &&
	    (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
		return false;
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_NPROC, 0);
	limit(RLIMIT_NOFILE, 64);
	limit(RLIMIT_DATA, (rlim_t)1 << 30);
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) &&
	       !prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

static _Noreturn void become_child(const struct dp_http_part *http, int listener, int fd, pid_t parent)
{
	prctl(PR_SET_NAME, "dprobes-http");
	signal(SIGINT, SIG_IGN); /* from a terminal: we are ended by our parent */
	signal(SIGPIPE, SIG_IGN);
	if (!drop_privileges() || getppid() != parent)
		_exit(1);
	http->main(listener, fd);
	_exit(1);
}

int dp_exporter_start(struct dp_exporter *x, const struct dp_listener *l, struct dp_error *err)
{
	struct timeval patience = {.tv_sec = DP_SERVE_PATIENCE_MS / 1000};
	const struct dp_http_part *http;
	pid_t parent = getpid();
	const char *why;
	int pair[2];

	x->fd = -1;
	x->pid = -1;
	http = load(&why);
	if (!http)
		return dp_fail(err, E_SERVE_BUILD, "%.400s", why);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return dp_fail(err, E_SERVE_START, "%s", strerror(errno));
	x->pid = fork();
	if (x->pid == 0) {
		close(pair[0]);
		become_child(http, l->fd, pair[1], parent);
	}
	close(pair[1]);
	x->fd = pair[0];
	if (x->pid < 0) {
		close(x->fd);
		x->fd = -1;
		return dp_fail(err, E_SERVE_START, "%s", strerror(errno));
	}
	setsockopt(x->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return 0;
}

bool dp_exporter_asks(struct dp_exporter *x)
{
	ssize_t n;

	do
		n = recv(x->fd, &x->asked, sizeof(x->asked), 0);
	while (n < 0 && errno == EINTR);
	return n == sizeof(x->asked);
}

bool dp_exporter_answer(struct dp_exporter *x, const char *driver, const char *own)
{
	struct dp_serve_answer a = {.number = x->asked,
				    .has_driver = driver != NULL,
				    .driver_len = driver ? (u32)strlen(driver) : 0,
				    .own_len = own ? (u32)strlen(own) : 0};

	return dp_send_all(x->fd, &a, sizeof(a)) && dp_send_all(x->fd, driver, a.driver_len) &&
	       dp_send_all(x->fd, own, a.own_len);
}

void dp_exporter_end(struct dp_exporter *x)
{
	if (x->fd >= 0)
		close(x->fd);
	if (x->pid > 0) {
		kill(x->pid, SIGKILL);
		waitpid(x->pid, NULL, 0);
	}
	x->fd = -1;
	x->pid = -1;
}
