/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Host services of base.h for programs that run on libc. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

void *dp_alloc(size_t size)
{
	return calloc(1, size ? size : 1);
}

void *dp_resize(void *old, size_t old_size, size_t new_size)
{
	char *p = realloc(old, new_size ? new_size : 1);

	if (p && new_size > old_size)
		memset(p + old_size, 0, new_size - old_size);
	return p;
}

bool dp_grow(void **v, size_t *cap, size_t n, size_t elem)
{
	size_t want = *cap ? *cap * 2 : 64;
	void *p;

	if (n < *cap)
		return true;
	p = reallocarray(*v, want, elem);
	if (!p)
		return false;
	*v = p;
	*cap = want;
	return true;
}

/* O_PATH finds out what the file is without opening it, and pins it: what is opened is what was looked at. */
int dp_open_regular(const char *path)
{
	int at = open(path, O_PATH | O_CLOEXEC), fd = -1, error;
	struct stat st;
	char link[32];

	if (at < 0)
		return -1;
	if (fstat(at, &st) || !S_ISREG(st.st_mode)) {
		errno = EINVAL;
	} else {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
		fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	error = errno;
	close(at);
	errno = error;
	return fd;
}

bool dp_is_odd_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISREG(st.st_mode);
}

void dp_free(void *p)
{
	free(p);
}

int dp_vformat(char *buf, size_t size, const char *fmt, va_list ap)
{
	return vsnprintf(buf, size, fmt, ap);
}
