/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The allocator of area.h. Only ever grows during one plan; makes no OS call. */
#include "arch/arch.h"
#include "engine/area.h"

#define CHUNK (256 * 1024ull) /* address space taken at a time; pages that stay unused cost nothing */
#define PAGE 4096ull
#define ALIKE (16 * 1024 * 1024ull) /* addresses that differ by a multiple look alike to branch predictors */

static const u8 trap_bytes[] = {DP_TRAP_BYTES};

struct pattern { /* of the displacement with its sign bit flipped, so that order is address order */
	u32 mask, val;
};

static int grow(void **v, u32 *cap, u32 n, size_t size)
{
	u32 want = *cap ? *cap * 2 : 64;
	void *p;

	if (n < *cap)
		return 0;
	p = dp_resize(*v, *cap * size, want * size);
	if (!p)
		return -ENOMEM;
	*v = p;
	*cap = want;
	return 0;
}

int dp_space_busy(struct dp_space *s, u64 lo, u64 hi)
{
	u32 i = 0, j;

	while (i < s->nbusy && s->busy[i].hi < lo)
		i++;
	for (j = i; j < s->nbusy && s->busy[j].lo <= hi; j++) {
		lo = DP_MIN(lo, s->busy[j].lo);
		hi = DP_MAX(hi, s->busy[j].hi);
	}
	if (i == j) {
		if (grow((void **)&s->busy, &s->cap_busy, s->nbusy, sizeof(*s->busy)))
			return -ENOMEM;
		memmove(&s->busy[i + 1], &s->busy[i], (s->nbusy - i) * sizeof(*s->busy));
		s->nbusy++;
	} else if (j > i + 1) {
		memmove(&s->busy[i + 1], &s->busy[j], (s->nbusy - j) * sizeof(*s->busy));
		s->nbusy -= j - i - 1;
	}
	s->busy[i].lo = lo;
	s->busy[i].hi = hi;
	return 0;
}

void dp_space_free(struct dp_space *s)
{
	for (u32 i = 0; i < s->nareas; i++)
		dp_free(s->areas[i].used);
	dp_free(s->areas);
	dp_free(s->busy);
	memset(s, 0, sizeof(*s));
}

/* The lowest value >= v that matches; false when there is none. */
static bool next_match(const struct pattern *p, u32 v, u32 *out)
{
	for (int i = 3; i >= 0; i--) {
		u32 sh = (u32)i * 8;
		u32 low = sh ? (1u << sh) - 1 : 0;
		u32 byte = v >> sh & 255, want = p->val >> sh & 255;

		if (!(p->mask >> sh & 255) || byte == want)
			continue;
		if (byte < want) { /* raise this byte, lowest below it */
			*out = (v & ~(low | 255u << sh)) | want << sh | (p->val & p->mask & low);
			return true;
		}
		for (int j = i + 1; j < 4; j++) { /* carry into the next free byte above */
			u32 up = (u32)j * 8;

			if ((p->mask >> up & 255) || (v >> up & 255) == 255)
				continue;
			v += 1u << up;
			v &= ~((1u << up) - 1);
			*out = v | (p->val & p->mask & ((1u << up) - 1));
			return true;
		}
		return false;
	}
	*out = v;
	return true;
}

/* The lowest address >= from that the jump can reach with the pattern; 0 when none below limit. */
static u64 next_addr(const struct dp_place *w, const struct pattern *p, u64 from, u64 limit)
{
	s64 rel;
	u32 v;

	from = DP_MAX(from, w->reach_lo);
	limit = DP_MIN(limit, w->reach_hi);
	rel = (s64)(from - w->next);
	if (rel < -0x80000000ll)
		rel = -0x80000000ll;
	if (rel > 0x7fffffffll || !next_match(p, (u32)rel ^ 0x80000000u, &v))
		return 0;
	from = w->next + (u64)(s64)(s32)(v ^ 0x80000000u);
	return from + w->size <= limit ? from : 0;
}

/* Whether the jump can lead there as far as distances go. */
static bool reaches(const struct dp_place *w, u64 addr)
{
	s64 rel = (s64)(addr - w->next);

	return addr >= w->reach_lo && addr <= w->reach_hi && rel >= -0x80000000ll && rel <= 0x7fffffffll;
}

/* First used byte in [off, off + size), as offset, or ~0. */
static u64 first_used(const struct dp_area *a, u64 off, u32 size)
{
	for (u64 i = off; i < off + size; i++) {
		if (!(i & 7) && i + 8 <= off + size && !a->used[i >> 3]) {
			i += 7;
			continue;
		}
		if (a->used[i >> 3] >> (i & 7) & 1)
			return i;
	}
	return ~0ull;
}

static void take(struct dp_area *a, u64 off, u32 size)
{
	for (u64 i = off; i < off + size; i++)
		a->used[i >> 3] |= (u8)(1 << (i & 7));
}

static u64 place_in_area(struct dp_area *a, const struct dp_place *w, const struct pattern *p)
{
	bool low_fixed = p->mask & 0xff;
	u8 low = (u8)(w->next + p->val);
	u64 d = low_fixed ? a->lo + a->low_hint[low] : a->hint;
	bool exact = !(p->mask & 0xffff00); /* hints hold for every request of this kind */

	if (exact && d + w->size > a->hi)
		return 0;
	while ((d = next_addr(w, p, d, a->hi))) {
		u64 hit = first_used(a, d - a->lo, w->size);

		if (hit == ~0ull) {
			take(a, d - a->lo, w->size);
			if (exact && low_fixed)
				a->low_hint[low] = (u32)(d - a->lo);
			else if (exact)
				a->hint = d + w->size;
			return d;
		}
		d = a->lo + hit + 1;
	}
	/* It is full, but for pieces that are too small: nobody looks again, where all of it was in reach. */
	if (!(p->mask & 0xffffff00) && reaches(w, a->lo) && reaches(w, a->hi)) {
		if (low_fixed)
			a->low_hint[low] = (u32)(a->hi - a->lo);
		else
			a->hint = a->hi;
	}
	return 0;
}

static struct dp_area *new_area(struct dp_space *s, u64 lo, u64 hi)
{
	struct dp_area *a;

	if (grow((void **)&s->areas, &s->cap_areas, s->nareas, sizeof(*s->areas)))
		return NULL;
	a = &s->areas[s->nareas];
	memset(a, 0, sizeof(*a));
	a->used = dp_alloc((hi - lo) / 8);
	if (!a->used || dp_space_busy(s, lo, hi)) {
		dp_free(a->used);
		return NULL;
	}
	a->lo = a->hint = lo;
	a->hi = hi;
	s->nareas++;
	return a;
}

/*
 * Take a piece of the free gap [lo, hi) around a matching address. Not at a distance of whole 16 MiB from the
 * site: branch predictors know branches by their low address bits, and what the detour's branches teach them
 * would be believed of the code behind the site (10 to 18 ns a call).
 */
static u64 place_in_gap(struct dp_space *s, const struct dp_place *w, const struct pattern *p, u64 lo, u64 hi)
{
	u64 d = next_addr(w, p, lo, hi), other;
	u64 first, last;

	if (!d)
		return 0;
	if (((d - w->next + ALIKE / 16) & (ALIKE - 1)) < ALIKE / 8) {
		other = next_addr(w, p, d + ALIKE / 2, hi);
		d = other ? other : d;
	}
	first = DP_MAX(DP_ALIGN_DOWN(d, CHUNK), lo);
	last = DP_MIN(DP_ALIGN_UP(d + w->size, CHUNK), hi);
	struct dp_area *a = new_area(s, first, last);
	return a ? place_in_area(a, w, p) : 0;
}

/* Gaps nearest to the site first: below it downwards, then above it upwards. */
static u64 place_in_gaps(struct dp_space *s, const struct dp_place *w, const struct pattern *p)
{
	u32 at = 0;
	u64 d;

	while (at < s->nbusy && s->busy[at].hi <= w->next)
		at++;
	for (u32 i = at + 1; i-- > 0;) { /* the gap below busy[i] */
		u64 hi = i < s->nbusy ? s->busy[i].lo : w->reach_hi;
		u64 lo = i ? s->busy[i - 1].hi : 16 * PAGE;

		if (hi <= w->reach_lo)
			break;
		/* Stay close to the upper end of a wide gap: the lower reaches may be far away. */
		if (!(p->mask & 0xff000000) && hi - lo > 64 * CHUNK && hi > 64 * CHUNK &&
		    (d = place_in_gap(s, w, p, hi - 64 * CHUNK, hi)))
			return d;
		if (hi > lo && (d = place_in_gap(s, w, p, lo, hi)))
			return d;
	}
	for (u32 i = at; i < s->nbusy; i++) {
		u64 lo = s->busy[i].hi;
		u64 hi = i + 1 < s->nbusy ? s->busy[i + 1].lo : w->reach_hi;

		if (lo >= w->reach_hi)
			break;
		if (hi > lo && (d = place_in_gap(s, w, p, lo, hi)))
			return d;
	}
	return 0;
}

static u64 place(struct dp_space *s, const struct dp_place *w, const struct pattern *p)
{
	for (u32 i = s->nareas; i-- > 0;) {
		u64 d;

		if (s->areas[i].hi <= w->reach_lo || s->areas[i].lo >= w->reach_hi)
			continue;
		d = place_in_area(&s->areas[i], w, p);
		if (d)
			return d;
	}
	return place_in_gaps(s, w, p);
}

int dp_space_place(struct dp_space *s, const struct dp_place *want, u64 *addr, struct dp_error *err)
{
	struct pattern p = {0, 0};
	u32 tries = want->bounds & 0x10 ? DP_ARRAY_SIZE(trap_bytes) : 1;

	for (int i = 1; i <= 3; i++)
		if (want->bounds >> i & 1) {
			p.mask |= 0xffu << (i - 1) * 8;
			p.val |= 0xccu << (i - 1) * 8;
		}
	for (u32 t = 0; t < tries; t++) {
		struct dp_place to = *want;
		struct pattern q = p;

		if (want->bounds & 0x10) { /* of the highest byte the rest is 16 MiB: nobody need look elsewhere */
			u64 lo = want->next + (u64)(s64)(s32)((u32)trap_bytes[t] << 24);

			q.mask |= 0xff000000;
			q.val |= (u32)(trap_bytes[t] ^ 0x80) << 24;
			to.reach_lo = DP_MAX(to.reach_lo, lo);
			to.reach_hi = DP_MIN(to.reach_hi, lo + (1 << 24) + to.size);
			if (to.reach_lo >= to.reach_hi)
				continue;
		}
		*addr = place(s, &to, &q);
		if (*addr)
			return 0;
	}
	return dp_fail(err, E_SITE_REACH, "no free memory for the detour of 0x%llx",
		       (unsigned long long)(want->next - 5));
}

void dp_space_give(struct dp_space *s, u64 addr, u32 size)
{
	for (u32 k = 0; k < s->nareas; k++) {
		struct dp_area *a = &s->areas[k];
		u64 off = addr - a->lo;

		if (addr < a->lo || addr >= a->hi)
			continue;
		for (u64 i = off; i < off + size; i++)
			a->used[i >> 3] &= (u8) ~(1 << (i & 7));
		a->hint = DP_MIN(a->hint, addr);
		for (u32 b = 0; b < 256; b++)
			a->low_hint[b] = DP_MIN(a->low_hint[b], (u32)off);
	}
}
