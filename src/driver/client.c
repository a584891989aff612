/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The command's side of the driver: find it, or start it, and ask. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "base/nowhere.h"
#include "base/socket.h"
#include "driver/driver-priv.h"
#include "run/run-priv.h"

#define TRIES 50
#define TEXT_MAX (64u << 20)
#define METRICS_PATIENCE_S 4

int dp_driver_dir(char *buf, size_t size, struct dp_error *err)
{
	const char *dir = getenv(DP_DRIVER_DIR_ENV), *runtime = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	if (dir && *dir)
		snprintf(buf, size, "%s", dir);
	else if (geteuid() == 0)
		snprintf(buf, size, "/run/dprobes");
	else if (runtime && *runtime == '/')
		snprintf(buf, size, "%s/dprobes", runtime);
	else
		snprintf(buf, size, "/tmp/dprobes-%u", (unsigned)geteuid());
	if (strlen(buf) > 90) /* the name of a socket has 107 bytes */
		return dp_fail(err, E_DRV_DIR, "%.150s: too long", buf);
	if (!strncmp(buf, "/run/", 5)) /* a root that has no more than a program */
		mkdir("/run", 0755);
	if (mkdir(buf, 0700) && errno != EEXIST)
		return dp_fail(err, E_DRV_DIR, "%s: %s", buf, strerror(errno));
	/* In a directory that others may write to, it could be theirs. */
	if (lstat(buf, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return dp_fail(err, E_DRV_DIR, "%s is not a directory of this user alone", buf);
	return 0;
}

static int connect_to(const char *dir)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/socket", dir);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void become_driver(int listener, int lock)
{
	int null = dp_open_nowhere();

	setsid();
	for (int i = 0; i < 3 && null >= 0; i++)
		dup2(null, i);
	if (chdir("/"))
		_exit(1);
	dp_driver_become("/proc/self/exe", &(struct dp_driver_place){.listener = listener, .lock = lock});
	_exit(127);
}

int dp_driver_listen(const char *dir, int *listener, int *lock, struct dp_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char path[128];

	*listener = -1;
	snprintf(path, sizeof(path), "%.90s/lock", dir);
	*lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*lock < 0)
		return dp_fail(err, E_DRV_DIR, "%s: %s", path, strerror(errno));
	if (flock(*lock, LOCK_EX | LOCK_NB)) { /* it is starting or ending */
		close(*lock);
		return 0;
	}
	snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/socket", dir);
	unlink(a.sun_path);
	*listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*listener >= 0 && !bind(*listener, (struct sockaddr *)&a, sizeof(a)) && !listen(*listener, 16))
		return 0;
	dp_fail(err, E_DRV_START, "%s: %s", a.sun_path, strerror(errno));
	if (*listener >= 0)
		close(*listener);
	close(*lock);
	return -dp_error_info(E_DRV_START)->number;
}

/* Begin a driver, unless another one holds the lock. The socket listens before anybody can connect.
 */
static int start_driver(const char *dir, struct dp_error *err)
{
	int lock, listener, r = dp_driver_listen(dir, &listener, &lock, err);
	pid_t pid;

	if (r || listener < 0)
		return r;
	setenv(DP_DRIVER_DIR_ENV, dir, 1);
	pid = fork();
	if (pid == 0)
		become_driver(listener, lock);
	if (pid < 0)
		r = dp_fail(err, E_DRV_START, "%s", strerror(errno));
	close(listener);
	close(lock);
	return r;
}

static bool receive_all(int fd, void *p, size_t n)
{
	while (n) {
		ssize_t r = recv(fd, p, n, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		p = (char *)p + r;
		n -= (size_t)r;
	}
	return true;
}

/* -EAGAIN: the driver went away before it answered. */
static int exchange(int fd, const struct dp_run_request *rq, const char *name, const char *file, const void *object,
		    char **text, struct dp_error *err)
{
	struct dp_driver_reply reply;
	char detail[256] = "", hint[160] = "";

	/* A driver of another version may answer before all is sent. */
	if (dp_send_all(fd, rq, sizeof(*rq)) && dp_send_all(fd, name, rq->name_len) &&
	    dp_send_all(fd, file, rq->file_len))
		dp_send_all(fd, object, rq->object_len);
	if (!receive_all(fd, &reply, sizeof(reply)))
		return -EAGAIN;
	if (reply.code >= DP_NCODES || reply.detail_len >= sizeof(detail) || reply.hint_len >= sizeof(hint) ||
	    reply.text_len > TEXT_MAX)
		return dp_fail(err, E_DRV_TALK, "the reply cannot be understood");
	*text = calloc(1, reply.text_len + 1);
	if (!*text || !receive_all(fd, detail, reply.detail_len) || !receive_all(fd, hint, reply.hint_len) ||
	    !receive_all(fd, *text, reply.text_len))
		return dp_fail(err, E_DRV_TALK, "the reply ends too early");
	if (!reply.code)
		return 0;
	dp_fail(err, (enum dp_code)reply.code, "%s", detail);
	if (hint[0])
		dp_error_hint(err, "%s", hint);
	return -dp_error_info((enum dp_code)reply.code)->number;
}

int dp_driver_metrics(char **text, struct dp_error *err)
{
	struct dp_run_request rq = {
	    .size = sizeof(rq), .protocol = DP_RUN_PROTOCOL, .abi = DP_ABI, .op = DP_RUN_METRICS};
	const struct timeval patience = {.tv_sec = METRICS_PATIENCE_S};
	char dir[256];
	int fd, r = dp_driver_dir(dir, sizeof(dir), err);

	*text = NULL;
	if (r)
		return r;
	fd = connect_to(dir);
	if (fd < 0)
		return dp_fail(err, E_DRV_NONE, "%s", dir);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	r = exchange(fd, &rq, "", "", "", text, err);
	close(fd);
	return r == -EAGAIN ? dp_fail(err, E_DRV_TALK, "no answer") : r;
}

int dp_driver_ask(const struct dp_run_request *rq, const char *name, const char *file, const void *object, bool start,
		  char **text, struct dp_error *err)
{
	struct dp_run_request full = *rq;
	char dir[256];
	int fd, r = dp_driver_dir(dir, sizeof(dir), err);

	*text = NULL;
	full.protocol = DP_RUN_PROTOCOL;
	full.abi = DP_ABI;
	full.name_len = (u32)strlen(name);
	full.file_len = (u32)strlen(file);
	full.size = (u32)sizeof(full) + full.name_len + full.file_len + full.object_len;
	for (int i = 0; i < TRIES && !r; i++) {
		fd = connect_to(dir);
		if (fd >= 0) {
			r = exchange(fd, &full, name, file, object, text, err);
			close(fd);
			if (r != -EAGAIN)
				return r;
			r = 0;
		} else if (!start && !dp_run_state_exists(dir)) {
			return dp_fail(err, E_DRV_NONE, "%s", dir);
		} else {
			r = start_driver(dir, err);
		}
		nanosleep(&(struct timespec){0, 20000000}, NULL);
	}
	return r ? r : dp_fail(err, E_DRV_TALK, "no answer");
}

/* Its answer to a question comes when it has taken all over. */
static int await_successor(struct dp_error *err)
{
	struct dp_run_request rq = {.op = DP_RUN_QUERY, .flags = DP_RUN_ALL};
	char *text = NULL;
	int r = dp_driver_ask(&rq, "", "", "", false, &text, err);

	free(text);
	return r;
}

int dp_driver_hand_over(char **text, struct dp_error *err)
{
	struct dp_run_request rq = {.op = DP_RUN_HAND_OVER};
	char program[4096];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	int r;

	*text = NULL;
	if (n < 0)
		return dp_fail(err, E_DRV_START, "/proc/self/exe: %s", strerror(errno));
	program[n] = '\0';
	r = dp_driver_ask(&rq, program, "", "", false, text, err);
	return r ? r : await_successor(err);
}
