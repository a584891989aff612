/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The few functions that the compiler may call for struct copies, without string instructions. */
#include "base/base.h"

void *memcpy(void *restrict dst, const void *restrict src, size_t n)
{
	u8 *d = dst;
	const u8 *s = src;

	for (; n >= 8; n -= 8, d += 8, s += 8)
		*(u64 *)d = *(const u64 *)s;
	while (n--)
		*d++ = *s++;
	return dst;
}

void *memset(void *dst, int c, size_t n)
{
	u8 *d = dst;

	while (n--)
		*d++ = (u8)c;
	return dst;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const u8 *x = a, *y = b;

	for (; n; n--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}
