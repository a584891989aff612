/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Memory. Not in handlers of probes that may be inside malloc(). */
#ifndef DP_COMPAT_LINUX_SLAB_H
#define DP_COMPAT_LINUX_SLAB_H

#include <linux/types.h>
#include <stdlib.h>

#define GFP_KERNEL 0u
#define GFP_ATOMIC 1u

static inline void *kmalloc(size_t size, gfp_t flags)
{
	return malloc(size);
}

static inline void *kzalloc(size_t size, gfp_t flags)
{
	return calloc(1, size);
}

static inline void *kcalloc(size_t n, size_t size, gfp_t flags)
{
	return calloc(n, size);
}

static inline void kfree(const void *p)
{
	free((void *)p);
}

#endif
