/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Random numbers: the kernel's own, by a system call, so that handlers may ask for them. */
#ifndef DP_COMPAT_LINUX_RANDOM_H
#define DP_COMPAT_LINUX_RANDOM_H

#include <linux/types.h>
#include <sys/random.h>

/* At most 256 bytes come at once without a break by a signal. */
static inline void get_random_bytes(void *buf, int n)
{
	char *p = (char *)buf;

	while (n > 0) {
		ssize_t got = getrandom(p, n < 256 ? (size_t)n : 256, 0);

		if (got > 0) {
			p += got;
			n -= (int)got;
		}
	}
}

static inline u32 get_random_u32(void)
{
	u32 v;

	get_random_bytes(&v, sizeof(v));
	return v;
}

static inline u64 get_random_u64(void)
{
	u64 v;

	get_random_bytes(&v, sizeof(v));
	return v;
}

/* Names of earlier kernels. */
#define get_random_int() get_random_u32()
#define get_random_long() ((unsigned long)get_random_u64())
#define prandom_u32() get_random_u32()
#define random32() get_random_u32()

#endif
