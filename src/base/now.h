/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What time it is, in nanoseconds. Not for the kernel, nor for hits. */
#ifndef DP_NOW_H
#define DP_NOW_H

#include <time.h>

#include "base/base.h"

static inline u64 dp_clock_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

/* Since some moment before: for durations. */
static inline u64 dp_now_ns(void)
{
	return dp_clock_now(CLOCK_MONOTONIC);
}

/* Since 1970. */
static inline u64 dp_real_ns(void)
{
	return dp_clock_now(CLOCK_REALTIME);
}

#endif
