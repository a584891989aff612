// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Host services of base.h for the control side in a kernel. May sleep. */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "base/base.h"

void *dp_alloc(size_t size)
{
	return kvzalloc(size ? size : 1, GFP_KERNEL);
}

void *dp_resize(void *old, size_t old_size, size_t new_size)
{
	void *p = dp_alloc(new_size);

	if (!p)
		return NULL;
	if (old)
		memcpy(p, old, min(old_size, new_size));
	kvfree(old);
	return p;
}

void dp_free(void *p)
{
	kvfree(p);
}

int dp_vformat(char *buf, size_t size, const char *fmt, va_list ap)
{
	return vsnprintf(buf, size, fmt, ap);
}
