/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Digits of numbers, and short texts between them, written where there is room for them: most of what a trace shows is
 * numbers. Each function returns the end of what it has written. Kernel-clean.
 */
#ifndef DP_LOG_DIGITS_H
#define DP_LOG_DIGITS_H

#include "base/base.h"

#define DP_DIGITS_ROOM 24 /* bytes that a number may take with a sign, and what may be written behind it */

#define DP_TEXT_BLOCK 16 /* bytes that dp_put_text() copies at once */

extern const char dp_digit_pairs[201]; /* all numbers of two digits: a number is divided half as often; line.c */
extern const u64 dp_powers_of_ten[20]; /* but for the first, which is 0: a number has one digit at least */

static inline u32 dp_count_digits(u64 v)
{
	u32 bits = 64 - (u32)__builtin_clzll(v | 1), least = bits * 1233 >> 12; /* 1233 / 4096 is nearly log10(2) */

	return least + (v >= dp_powers_of_ten[least]);
}

/* By whole blocks, also behind both ends: a call of memcpy() takes longer than most texts do. */
static inline char *dp_put_text(char *to, const char *from, u32 n)
{
	for (u32 i = 0; i < n; i += DP_TEXT_BLOCK)
		memcpy(to + i, from + i, DP_TEXT_BLOCK);
	return to + n;
}

/* The last n digits. */
static inline char *dp_put_digits(char *to, u64 v, u32 n)
{
	for (u32 at = n; at > 0; v /= 100)
		if (at == 1)
			to[--at] = (char)('0' + v % 10);
		else
			memcpy(to + (at -= 2), dp_digit_pairs + 2 * (v % 100), 2);
	return to + n;
}

static inline char *dp_put_unsigned(char *to, u64 v)
{
	return dp_put_digits(to, v, dp_count_digits(v));
}

static inline char *dp_put_signed(char *to, s64 v)
{
	if (v < 0)
		*to++ = '-';
	return dp_put_unsigned(to, v < 0 ? 0 - (u64)v : (u64)v);
}

/* Eight digits at once: each four bits to a byte of their own, the highest ones first in memory. */
static inline void dp_put_nibbles(char *to, u32 v)
{
	u64 x = v;

	x = (x | x << 16) & 0x0000ffff0000ffffull;
	x = (x | x << 8) & 0x00ff00ff00ff00ffull;
	x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
	/* '0' to each, and to those from 10 on what is missing to 'a'. */
	x += 0x3030303030303030ull + ((x + 0x0606060606060606ull) >> 4 & 0x0101010101010101ull) * ('a' - '0' - 10);
	x = __builtin_bswap64(x);
	memcpy(to, &x, 8);
}

/* With 0x. */
static inline char *dp_put_hex(char *to, u64 v)
{
	u32 digits = (u32)(67 - __builtin_clzll(v | 1)) / 4;

	v <<= 64 - 4 * digits;
	memcpy(to, "0x", 2);
	dp_put_nibbles(to + 2, (u32)(v >> 32));
	if (digits > 8)
		dp_put_nibbles(to + 10, (u32)v);
	return to + 2 + digits;
}

#endif
