/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* FNV-1a: of names that nobody chooses to collide. Freestanding. */
#ifndef DP_HASH_H
#define DP_HASH_H

#include "base/base.h"

#define DP_HASH_BEGIN 0xcbf29ce484222325ull

/* h, or DP_HASH_BEGIN, with n more bytes. */
static inline u64 dp_hash(u64 h, const void *v, size_t n)
{
	const u8 *p = v;

	while (n--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

#endif
