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

void dp_free(void *p)
{
	free(p);
}

int dp_vformat(char *buf, size_t size, const char *fmt, va_list ap)
{
	return vsnprintf(buf, size, fmt, ap);
}
