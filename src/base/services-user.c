/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Host services of base.h for programs that run on libc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void dp_free(void *p)
{
	free(p);
}

int dp_vformat(char *buf, size_t size, const char *fmt, va_list ap)
{
	return vsnprintf(buf, size, fmt, ap);
}
