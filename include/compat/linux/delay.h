/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Waiting. */
#ifndef DP_COMPAT_LINUX_DELAY_H
#define DP_COMPAT_LINUX_DELAY_H

#include <time.h>

static inline void dp_compat_wait(unsigned long us)
{
	struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};

	while (nanosleep(&t, &t))
		;
}

#define udelay(us) dp_compat_wait(us)
#define mdelay(ms) dp_compat_wait((ms) * 1000ul)
#define msleep(ms) dp_compat_wait((ms) * 1000ul)
#define ssleep(s) dp_compat_wait((s) * 1000000ul)

#endif
