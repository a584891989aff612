/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Time in nanoseconds. */
#ifndef DP_COMPAT_LINUX_KTIME_H
#define DP_COMPAT_LINUX_KTIME_H

#include <linux/types.h>
#include <time.h>

typedef s64 ktime_t;

static inline ktime_t ktime_get(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline u64 ktime_get_ns(void)
{
	return (u64)ktime_get();
}

static inline s64 ktime_to_ns(ktime_t t)
{
	return t;
}

static inline s64 ktime_to_us(ktime_t t)
{
	return t / 1000;
}

static inline ktime_t ktime_sub(ktime_t a, ktime_t b)
{
	return a - b;
}

static inline ktime_t ktime_add(ktime_t a, ktime_t b)
{
	return a + b;
}

#endif
