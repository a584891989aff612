/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Blocks of bytes are looked at with the compiler's vectors; the few that may hold something, byte by byte. */
#include "arch/x86_64/code-scan.h"

#define BLOCK 16
#define BEHIND 4 /* most bytes of an instruction behind the four that refer relative to its end */

typedef u8 bytes_t __attribute__((vector_size(BLOCK), aligned(1), may_alias));
typedef u32 words_t __attribute__((vector_size(BLOCK), aligned(1), may_alias));
typedef s32 signed_t __attribute__((vector_size(BLOCK)));
typedef u64 halves_t __attribute__((vector_size(BLOCK), may_alias));

static bool is_jump(const u8 *p, u64 left)
{
	if (p[0] == 0xc7)
		return p[1] == 0xf8; /* xbegin */
	if (p[0] != 0xff)
		return false;
	switch (p[1]) {
	case 0xe0 ... 0xe7: /* jmp *REG */
	case 0x65:          /* jmp *disp(%rbp) */
	case 0xa5:
		return true;
	case 0x24: /* jmp *(%rsp, ...); with the other base there is none, but an address */
		return left < 3 || (p[2] & 7) == 4;
	case 0x64: /* jmp *disp(%rsp, ...) or (%rbp, ...) */
	case 0xa4:
		return left < 3 || (p[2] & 6) == 4;
	}
	return false;
}

u64 dp_scan_jump(const u8 *code, u64 n, u64 from)
{
	u64 i = from;

	while (i + 1 < n) {
		for (; i + BLOCK + 1 <= n; i += BLOCK) {
			bytes_t a = *(const bytes_t *)(code + i), b = *(const bytes_t *)(code + i + 1);
			bytes_t jump = (bytes_t)(((b & 0xf8) == 0xe0) | ((b & 0x3e) == 0x24));
			halves_t hit = (halves_t)(((bytes_t)(a == 0xff) & jump) |
						  ((bytes_t)(a == 0xc7) & (bytes_t)(b == 0xf8)));

			if (hit[0] | hit[1])
				break;
		}
		for (u64 end = DP_MIN(i + BLOCK, n - 1); i < end; i++)
			if (is_jump(code + i, n - i))
				return i;
	}
	return n;
}

/* A word w at offset i is of interest where w + i - rel < rel_n, or w - abs < abs_n; all without a sign. */
struct window {
	u32 rel, rel_n, abs, abs_n;
};

static bool refers(const struct window *w, const u8 *p, u64 i)
{
	u32 v;

	memcpy(&v, p, 4);
	return v + (u32)i - w->rel < w->rel_n || v - w->abs < w->abs_n;
}

/* Numbers are compared with a sign: both sides are moved by half of the range. */
#define HALF 0x80000000u

static bool none_refers(const struct window *w, const u8 *p, u64 i)
{
	words_t step = {0, 4, 8, 12};
	signed_t any = {0};
	s32 rel_n = (s32)(w->rel_n ^ HALF), abs_n = (s32)(w->abs_n ^ HALF);
	halves_t hit;

	for (u32 k = 0; k < 4; k++) {
		words_t v = *(const words_t *)(p + k);

		any |= (signed_t)(v + step + ((u32)i + k - w->rel + HALF)) < rel_n;
		if (w->abs_n)
			any |= (signed_t)(v + (HALF - w->abs)) < abs_n;
	}
	hit = (halves_t)any;
	return !(hit[0] | hit[1]);
}

u64 dp_scan_ref(const struct dp_scan_refs *refs, const u8 *code, u64 n, u64 from)
{
	/* What is relative is so to the instruction's end: up to BEHIND bytes behind the word. */
	struct window w = {.rel = (u32)(refs->lo - refs->addr - 4 - BEHIND),
			   .rel_n = (u32)(refs->hi - refs->lo + BEHIND),
			   .abs = (u32)refs->lo,
			   .abs_n = refs->absolute ? (u32)(refs->hi - refs->lo) : 0};
	u64 i = from;

	while (i + 4 <= n) {
		while (i + BLOCK + 4 <= n && none_refers(&w, code + i, i))
			i += BLOCK;
		for (u64 end = DP_MIN(i + BLOCK, n - 3); i < end; i++)
			if (refers(&w, code + i, i))
				return i;
	}
	return n;
}
