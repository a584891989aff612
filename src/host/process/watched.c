/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a session watches: pieces of memory, sorted; groups of those that share a register; the pages of others. It only
 * computes.
 */
#include "host/process/session-priv.h"

#define PAGE 4096ull

static bool before(const struct dp_watched *a, const struct dp_watched *b)
{
	if (a->addr != b->addr)
		return a->addr < b->addr;
	if (a->len != b->len)
		return a->len < b->len;
	return a->type != b->type ? a->type < b->type : a->paged < b->paged;
}

static void number_groups(struct dp_session *s)
{
	s->watch.ngroups = 0;
	for (u32 i = 0; i < s->watch.n; i++) {
		if (!i || before(&s->watch.v[i - 1], &s->watch.v[i]))
			s->watch.ngroups++;
		s->watch.v[i].group = s->watch.ngroups - 1;
	}
}

bool dp_watched_add(struct dp_session *s, struct dp_watched piece)
{
	u32 i;

	if (!dp_grow((void **)&s->watch.v, &s->watch.cap, s->watch.n, sizeof(*s->watch.v)))
		return false;
	for (i = s->watch.n++; i && before(&piece, &s->watch.v[i - 1]); i--)
		s->watch.v[i] = s->watch.v[i - 1];
	s->watch.v[i] = piece;
	number_groups(s);
	return true;
}

void dp_watched_drop(struct dp_session *s, u32 owner)
{
	u32 n = 0;

	for (u32 i = 0; i < s->watch.n; i++)
		if (s->watch.v[i].owner != owner)
			s->watch.v[n++] = s->watch.v[i];
	s->watch.n = n;
	number_groups(s);
}

u32 dp_watched_registers(const struct dp_session *s)
{
	u32 n = 0;

	for (u32 i = 0; i < s->watch.n; i++)
		n += !s->watch.v[i].paged && (!i || s->watch.v[i].group != s->watch.v[i - 1].group);
	return n;
}

/* ---- by pages ---- */

bool dp_pages_any(const struct dp_session *s)
{
	for (u32 i = 0; i < s->watch.n; i++)
		if (s->watch.v[i].paged)
			return true;
	return false;
}

u64 dp_pages_shadows(struct dp_session *s)
{
	u64 at = 0;

	for (u32 i = 0; i < s->watch.n; i++) {
		struct dp_watched *w = &s->watch.v[i];

		if (!w->paged)
			continue;
		if (i && s->watch.v[i - 1].group == w->group) {
			w->shadow = s->watch.v[i - 1].shadow;
			continue;
		}
		/* Words lie in the copy as they do in the memory. */
		w->shadow = at + (w->addr & 7);
		at = DP_ALIGN_UP(w->shadow + w->len, 64);
	}
	return at;
}

u32 dp_pages_ranges(const struct dp_session *s, struct dp_range v[DP_PAGES_RANGES])
{
	u32 n = 0;

	for (u32 i = 0; i < s->watch.n; i++) {
		const struct dp_watched *w = &s->watch.v[i];
		u64 lo = DP_ALIGN_DOWN(w->addr, PAGE), hi = DP_ALIGN_UP(w->addr + w->len, PAGE);

		if (!w->paged)
			continue;
		if (n && lo <= v[n - 1].hi)
			v[n - 1].hi = DP_MAX(v[n - 1].hi, hi);
		else if (n < DP_PAGES_RANGES)
			v[n++] = (struct dp_range){lo, hi};
	}
	return n;
}

int dp_pages_check(const struct dp_session *s, struct dp_error *err)
{
	struct dp_range v[DP_PAGES_RANGES];
	u32 n = dp_pages_ranges(s, v), registers = 0;
	u64 pages = 0;
	int r;

	for (u32 i = 0; i < s->watch.n; i++)
		registers += !s->watch.v[i].paged;
	for (u32 i = 0; i < n; i++)
		pages += (v[i].hi - v[i].lo) / PAGE;
	if (n && s->opt.children)
		return dp_fail(err, E_WATCH_PAGES, "the children of forks");
	if (pages <= DP_PAGES_MAX && s->watch.ngroups - DP_MIN(registers, s->watch.ngroups) < DP_PAGES_RANGES)
		return 0;
	r = dp_fail(err, E_WATCH_PAGES, "too much is to be watched, at 0x%llx", (unsigned long long)(n ? v[0].lo : 0));
	dp_error_hint(err, "watch at most 64 pieces of memory, of 256 MiB in all");
	return r;
}
