/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A stdio stream whose writes give up when a stop is asked for and the other side does not read. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "run/run-output.h"

#define POLL_MS 100
#define FILE_CHUNK (1u << 20)
#define BUFFER (1u << 19)
#define MUCH_FILE (BUFFER / 2) /* is written: file systems take less time for large writes, */
#define MUCH_PIPE (BUFFER / 8) /* and a reader waits for what is there */
#define FLAGS (O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY)

/* Pipes and terminals take PIPE_BUF bytes without blocking once poll() reports them ready. */
static bool ready(struct dp_output *o)
{
	struct pollfd p = {.fd = o->fd, .events = POLLOUT};

	while (poll(&p, 1, POLL_MS) <= 0)
		if (*o->stop)
			return false;
	return true;
}

/*
 * Files are always ready. Others are asked to take all or nothing at once where the kernel can do that (of pipes since
 * 6.5), and are waited for where they do not. As write(); EINTR: a stop was asked for meanwhile.
 */
static ssize_t write_when_ready(struct dp_output *o, const char *buf, size_t n)
{
	struct iovec all = {(char *)buf, n};
	ssize_t w;

	if (o->chunk != PIPE_BUF)
		return write(o->fd, buf, n);
	if (!o->waits) {
		w = pwritev2(o->fd, &all, 1, -1, RWF_NOWAIT);
		if (w >= 0 || errno == EPIPE)
			return w;
		o->waits = errno != EAGAIN;
	}
	if (ready(o))
		return write(o->fd, buf, n);
	o->error = o->error ? o->error : EINTR;
	errno = EINTR;
	return -1;
}

/*
 * How much to write at once: whole lines where possible, since a program that was started for the
 * trace may write to the same pipe or terminal in between.
 */
static size_t next_chunk(const struct dp_output *o, const char *buf, size_t size)
{
	const char *end;

	if (size <= o->chunk)
		return size;
	end = memrchr(buf, '\n', o->chunk);
	return end ? (size_t)(end + 1 - buf) : o->chunk;
}

/*
 * What the file had before goes when there is something to take its place. A file that is empty is left alone: of one
 * that was made shorter some file systems write all pages to the disk when it is closed, and let us wait.
 */
static bool begin_file(struct dp_output *o)
{
	struct stat st;
	bool is_empty = !o->begun && !fstat(o->fd, &st) && !st.st_size;

	if (!o->begun && !is_empty && ftruncate(o->fd, 0))
		o->error = o->error ? o->error : errno;
	else
		o->begun = true;
	return o->begun;
}

/* The contract of a stream's write function: bytes written, less than size after an error. */
static ssize_t write_some(void *cookie, const char *buf, size_t size)
{
	struct dp_output *o = cookie;
	size_t done = 0;

	if (o->dropped)
		return (ssize_t)size;
	if (o->divert) {
		if (o->divert(o->divert_arg, buf, size))
			return (ssize_t)size;
		o->error = o->error ? o->error : ENOMEM;
		return 0;
	}
	if (!begin_file(o))
		return 0;
	while (done < size) {
		size_t n = next_chunk(o, buf + done, size - done);
		ssize_t w = write_when_ready(o, buf + done, n);

		if (w > 0) {
			done += (size_t)w;
			o->written += (u64)w;
		} else if (w == 0 || o->error || (errno != EINTR && errno != EAGAIN)) {
			o->error = o->error ? o->error : (w ? errno : EIO);
			return (ssize_t)done;
		}
	}
	return (ssize_t)done;
}

/*
 * /dev/fd/N is the descriptor that we were given: opened by that path a socket would be refused, and programs that we
 * start would have N open as well.
 */
static int open_path(struct dp_output *o, const char *path)
{
	static const char given[] = "/dev/fd/";
	char *end = NULL;
	int fd;
	long n = strncmp(path, given, strlen(given)) ? -1 : strtol(path + strlen(given), &end, 10);

	if (n > STDERR_FILENO && n <= INT_MAX && !*end)
		return fcntl((int)n, F_SETFD, FD_CLOEXEC) ? -1 : (int)n;
	o->begun = false;
	fd = open(path, FLAGS | O_EXCL, 0666);
	o->is_new = fd >= 0;
	return fd < 0 ? open(path, FLAGS, 0666) : fd;
}

static int open_file(struct dp_output *o, const char *path, struct dp_error *err)
{
	struct stat st;
	int fd;

	o->begun = true;
	o->is_new = false;
	fd = path ? open_path(o, path) : STDOUT_FILENO;
	if (fd < 0)
		return dp_fail(err, E_OUT_OPEN, "%s: %s", path, strerror(errno));
	o->fd = fd;
	o->chunk = !fstat(fd, &st) && S_ISREG(st.st_mode) ? FILE_CHUNK : PIPE_BUF;
	o->begun |= o->chunk != FILE_CHUNK;
	o->waits = false;
	o->written = 0;
	return 0;
}

int dp_output_open(struct dp_output *o, const char *path, volatile sig_atomic_t *stop, struct dp_error *err)
{
	cookie_io_functions_t io = {.write = write_some};
	int r;

	path = path && !strcmp(path, "-") ? NULL : path;
	*o = (struct dp_output){.name = path ? path : "standard output", .stop = stop};
	r = open_file(o, path, err);
	if (r)
		return r;
	o->buffer = malloc(BUFFER);
	o->f = o->buffer ? fopencookie(o, "w", io) : NULL;
	if (!o->f) {
		free(o->buffer);
		if (path)
			close(o->fd);
		return dp_fail(err, E_OUT_OPEN, "%s: no memory", o->name);
	}
	setvbuf(o->f, o->buffer, _IOFBF, BUFFER);
	return 0;
}

int dp_output_next(struct dp_output *o, const char *path, struct dp_error *err)
{
	int r = dp_output_flush(o, err), before = o->fd;

	if (!r && !begin_file(o))
		r = dp_output_flush(o, err);
	if (!r)
		r = open_file(o, path, err);
	if (!r && close(before)) {
		o->error = errno;
		r = dp_fail(err, E_OUT_WRITE, "%s: %s", o->name, strerror(errno));
	}
	return r;
}

void dp_output_divert(struct dp_output *o, bool (*to)(void *arg, const char *text, size_t n), void *arg)
{
	o->divert = to;
	o->divert_arg = arg;
}

void dp_output_drop(struct dp_output *o)
{
	if (o->f && !o->begun)
		o->dropped = true;
}

bool dp_output_is_file(const struct dp_output *o)
{
	return o->chunk == FILE_CHUNK;
}

void dp_output_line_done(struct dp_output *o)
{
	if (__fpending(o->f) > (dp_output_is_file(o) ? MUCH_FILE : MUCH_PIPE))
		fflush(o->f);
}

int dp_output_flush(struct dp_output *o, struct dp_error *err)
{
	if (!fflush(o->f) && !ferror(o->f) && !o->error)
		return 0;
	return dp_fail(err, E_OUT_WRITE, "%s: %s", o->name, strerror(o->error ? o->error : EIO));
}

int dp_output_close(struct dp_output *o, struct dp_error *err)
{
	int r;

	if (!o->f)
		return 0;
	fflush(o->f);
	if (!o->dropped)
		begin_file(o); /* nothing was written: it is empty */
	else if (o->is_new)
		unlink(o->name);
	r = dp_output_flush(o, err);
	fclose(o->f);
	free(o->buffer);
	o->f = NULL;
	/* Some file systems tell a full disk only now. */
	if (o->fd != STDOUT_FILENO && close(o->fd) && !r) {
		o->error = errno;
		r = dp_fail(err, E_OUT_WRITE, "%s: %s", o->name, strerror(errno));
	}
	return r;
}

bool dp_output_is_left(const struct dp_output *o)
{
	struct pollfd p = {.fd = o->fd};

	return o->chunk == PIPE_BUF && poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

bool dp_output_unwanted(const struct dp_output *o)
{
	return o->error == EPIPE || o->error == EINTR;
}
