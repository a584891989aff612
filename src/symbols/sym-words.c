/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Looking through much of a file: it is read in pieces instead of mapped, since in a virtual machine the first look at
 * a mapped page costs more than a copy of it; blocks of it are looked at with the compiler's vectors.
 */
#include <unistd.h>

#include "symbols/module-priv.h"

#define BLOCK 64

typedef u32 words_t __attribute__((vector_size(16), aligned(1), may_alias));
typedef s32 signed_t __attribute__((vector_size(16)));
typedef u8 bytes_t __attribute__((vector_size(16), aligned(1), may_alias));
typedef u64 halves_t __attribute__((vector_size(16), may_alias));

/* Numbers are compared with a sign: both sides are moved by half of the range. */
#define HALF 0x80000000u

const u8 *dp_mod_part(struct dp_module *m, const u8 *mapped, u64 n)
{
	u64 offset = (u64)(mapped - m->file);
	ssize_t k = 1;

	m->part = m->part ? m->part : dp_alloc_whole(MOD_PART);
	for (u64 done = 0; m->part && done < n && k > 0; done += (u64)k)
		k = pread(m->fd, m->part + done, n - done, (off_t)(offset + done));
	return m->part && k > 0 ? m->part : mapped;
}

/* Whether a block may hold a word of the span, whose addresses differ in their low halves only. */
static bool may_hold(const u8 *p, const struct dp_range *span)
{
	u32 n = (u32)(span->hi - span->lo);
	words_t base = {(u32)span->lo, (u32)(span->lo >> 32), (u32)span->lo, (u32)(span->lo >> 32)};
	signed_t room = {(s32)(n ^ HALF), (s32)(1 ^ HALF), (s32)(n ^ HALF), (s32)(1 ^ HALF)}, any = {0};
	halves_t hit;

	for (u32 i = 0; i < BLOCK; i += 16) {
		signed_t in = (signed_t)(*(const words_t *)(p + i) - base + HALF) < room;

		any |= in & __builtin_shuffle(in, (signed_t){1, 0, 3, 2});
	}
	hit = (halves_t)any;
	return hit[0] | hit[1];
}

u64 dp_mod_next_word(const u8 *p, u64 n, u64 from, const struct dp_range *span)
{
	bool near = span->lo < span->hi && span->lo >> 32 == (span->hi - 1) >> 32;
	u64 i = from;

	while (i + 8 <= n) {
		while (near && i + BLOCK <= n && !may_hold(p + i, span))
			i += BLOCK;
		for (u64 end = DP_MIN(i + BLOCK, n); i + 8 <= end; i += 8)
			if (mod_load64(p + i) - span->lo < span->hi - span->lo)
				return i;
	}
	return n;
}

u64 dp_mod_find(const u8 *p, u64 n, u64 from, const char *text, u64 len)
{
	bytes_t first = (bytes_t){0} + (u8)text[0], last = (bytes_t){0} + (u8)text[len - 1];
	u64 i = from;

	while (i + len <= n) {
		for (; i + len + 15 <= n; i += 16) {
			bytes_t a = *(const bytes_t *)(p + i), b = *(const bytes_t *)(p + i + len - 1);
			halves_t hit = (halves_t)((bytes_t)(a == first) & (bytes_t)(b == last));

			if (hit[0] | hit[1])
				break;
		}
		for (u64 end = DP_MIN(i + 16, n - len + 1); i < end; i++)
			if (p[i] == (u8)text[0] && !memcmp(p + i, text, len))
				return i;
	}
	return n;
}
