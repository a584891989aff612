/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records of several readers, each in its own order, wait here until every reader has been looked at past their stamps.
 * The readers' own clocks are not used: two of them may differ by what reading a clock takes.
 */
#include <stdlib.h>
#include <string.h>

#include "abi/abi-record.h"
#include "log/clock.h"
#include "run/run-merge.h"

struct waiting {
	u64 tsc, at; /* at: of the record among the bytes */
	u32 source;
	struct dp_reader_mark mark;
};

struct dp_merge {
	u8 *bytes;
	u64 used, room;
	struct waiting *v;
	u64 n, v_room;
	struct dp_clock clock;
};

struct dp_merge *dp_merge_new(void)
{
	struct dp_merge *m = dp_alloc(sizeof(*m));

	if (m)
		dp_clock_start(&m->clock);
	return m;
}

void dp_merge_free(struct dp_merge *m)
{
	if (!m)
		return;
	free(m->bytes);
	free(m->v);
	dp_free(m);
}

static bool grow(void **p, u64 *room, u64 unit, u64 want)
{
	u64 bigger = DP_MAX(*room * 2, want + 256);
	void *q;

	if (want <= *room)
		return true;
	q = realloc(*p, bigger * unit);
	if (!q)
		return false;
	*p = q;
	*room = bigger;
	return true;
}

bool dp_merge_put(struct dp_merge *m, const struct dp_record *rec, u32 source, struct dp_reader_mark mark)
{
	if (!grow((void **)&m->bytes, &m->room, 1, m->used + rec->len) ||
	    !grow((void **)&m->v, &m->v_room, sizeof(*m->v), m->n + 1))
		return false;
	memcpy(m->bytes + m->used, rec, rec->len);
	m->v[m->n++] = (struct waiting){rec->tsc, m->used, source, mark};
	m->used += rec->len;
	return true;
}

/* Of the same stamp, in the order in which they came. */
static int by_stamp(const void *a, const void *b)
{
	const struct waiting *x = a, *y = b;

	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* What still waits moves to the front. */
static void close_up(struct dp_merge *m, u64 gone)
{
	u8 *bytes = NULL;
	u64 room = 0, used = 0;

	for (u64 i = gone; i < m->n; i++)
		used += ((const struct dp_record *)(m->bytes + m->v[i].at))->len;
	if (used && !grow((void **)&bytes, &room, 1, used)) {
		memmove(m->v, m->v + gone, (m->n - gone) * sizeof(*m->v)); /* the bytes stay where they are */
		m->n -= gone;
		return;
	}
	used = 0;
	for (u64 i = gone; i < m->n; i++) {
		const struct dp_record *rec = (const struct dp_record *)(m->bytes + m->v[i].at);

		memcpy(bytes + used, rec, rec->len);
		m->v[i - gone] = (struct waiting){m->v[i].tsc, used, m->v[i].source, m->v[i].mark};
		used += rec->len;
	}
	m->n -= gone;
	free(m->bytes);
	m->bytes = bytes;
	m->room = room;
	m->used = used;
}

void dp_merge_take(struct dp_merge *m, u64 tsc, void (*fn)(const struct dp_record *rec, u32 source, u64 ns, void *arg),
		   void *arg)
{
	u64 i;

	if (!m->n)
		return;
	dp_clock_mark(&m->clock);
	qsort(m->v, m->n, sizeof(*m->v), by_stamp);
	for (i = 0; i < m->n && m->v[i].tsc <= tsc; i++)
		fn((const struct dp_record *)(m->bytes + m->v[i].at), m->v[i].source,
		   dp_clock_ns(&m->clock, m->v[i].tsc), arg);
	if (i)
		close_up(m, i);
}

u64 dp_merge_error_ns(const struct dp_merge *m)
{
	return dp_clock_error_ns(&m->clock);
}

void dp_merge_each(const struct dp_merge *m, void (*fn)(u32 source, struct dp_reader_mark mark, void *arg), void *arg)
{
	for (u64 i = 0; i < m->n; i++)
		fn(m->v[i].source, m->v[i].mark, arg);
}
