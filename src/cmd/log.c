/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes log`: what inserted probes have logged, from the driver's file; and the entry to the
 * driver itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "driver/driver.h"
#include "log/log-rpn.h"
#include "run/run-guard.h"

struct view {
	bool raw;            /* rows of bytes, too */
	bool inside, hidden; /* of a line, which is not shown */
};

/* A line, or a part of it. */
static bool put(struct view *v, const char *p, size_t n)
{
	size_t mark = !v->inside && *p == DP_RPN_RAW;

	if (!v->inside)
		v->hidden = mark && !v->raw;
	v->inside = p[n - 1] != '\n';
	return v->hidden || fwrite(p + mark, 1, n - mark, stdout) == n - mark;
}

/* The lines from here on that begin in the next `most` bytes, or until a signal; false when they cannot be written. */
static bool copy(struct view *v, FILE *f, off_t most)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	bool well = true;

	clearerr(f);
	while (well && !dp_cmd_stop && most > 0 && (n = getline(&line, &size, f)) > 0) {
		well = put(v, line, (size_t)n);
		most -= n;
	}
	free(line);
	return !fflush(stdout) && well;
}

static bool replaced(FILE *f, const char *path)
{
	struct stat here, there;

	return !fstat(fileno(f), &here) && !stat(path, &there) &&
	       (here.st_ino != there.st_ino || (off_t)ftello(f) > there.st_size);
}

static int show(const char *path, bool follow, bool raw)
{
	struct view v = {.raw = raw};
	FILE *f = fopen(path, "re");
	struct stat st = {0};

	dp_cmd_catch_signals();
	if (f && fstat(fileno(f), &st)) /* a log that grows faster than it can be shown has an end, too */
		st.st_size = 0;
	for (;;) {
		if (f && !copy(&v, f, follow ? INT64_MAX : st.st_size))
			break;
		if (!follow || dp_cmd_stop)
			break;
		if (!f || replaced(f, path)) {
			if (f)
				fclose(f);
			f = fopen(path, "re");
		}
		nanosleep(&(struct timespec){0, 50000000}, NULL);
	}
	if (f)
		fclose(f);
	return CMD_OK;
}

int dp_cmd_log(int argc, char **argv)
{
	struct dp_error err = {0};
	struct cmd_words w = {.most = 0};
	char dir[256], path[300];
	bool follow, clear;
	int status;

	if (!dp_cmd_words(VERB_LOG, argc, argv, &w, &status))
		return status;
	follow = dp_cmd_has(&w, OPT_FOLLOW);
	clear = dp_cmd_has(&w, OPT_CLEAR);
	if (dp_driver_dir(dir, sizeof(dir), &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	snprintf(path, sizeof(path), "%s/log", dir);
	if (clear && truncate(path, 0) && errno != ENOENT)
		return dp_ui_fail(E_OUT_WRITE, NULL, "%s: %s", path, strerror(errno));
	return clear && !follow ? CMD_OK : show(path, follow, dp_cmd_has(&w, OPT_RAW));
}

/* Only the command itself, and another driver, start this: with a socket that listens, and a lock. */
int dp_cmd_driver_serve(int argc, char **argv)
{
	const char *dir = getenv(DP_DRIVER_DIR_ENV);
	int fd = argc >= 3 ? atoi(argv[1]) : -1, lock = argc >= 3 ? atoi(argv[2]) : -1;
	bool stays = argc == 4 && !strcmp(argv[3], "stays");

	if (fd <= 2 || lock <= 2 || !dir || fcntl(fd, F_GETFD) < 0 || fcntl(lock, F_GETFD) < 0)
		return dp_ui_fail(E_CMD_UNKNOWN, "the driver is started by `dprobes insert`", "driver-serve");
	return dp_driver_main(fd, lock, dir, stays);
}

/* Only the driver starts this, with a socket; and only the guard its keeper, with a pipe. */
int dp_cmd_guard(int argc, char **argv)
{
	int fd = argc >= 2 ? atoi(argv[1]) : -1;

	if (fd <= 2 || fcntl(fd, F_GETFD) < 0)
		return dp_ui_fail(E_CMD_UNKNOWN, "it is started by the driver", "%s", argv[0]);
	return argc == 3 ? dp_guard_main(fd, atoi(argv[2])) : dp_keeper_main(fd);
}
