/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See order.h. */
#include <string.h>

#include "log/order.h"

#define LEAST_GONE 65536 /* bytes that are worth moving others for */

static bool grow(void **p, size_t *room, size_t unit, size_t want)
{
	while (*room < want)
		if (!dp_grow(p, room, *room, unit))
			return false;
	return true;
}

static u8 *room_for(struct dp_order_batch *b, u64 size)
{
	return grow((void **)&b->bytes, &b->room, 1, b->used + size) ? b->bytes + b->used : NULL;
}

static bool add(struct dp_order_batch *b, u64 skipped, u64 len, u64 stamp, u64 pos, u32 from)
{
	if (!grow((void **)&b->index, &b->index_room, sizeof(*b->index), b->n + 1))
		return false;
	b->index[b->n++] = (struct dp_order_entry){stamp, b->used + skipped, pos, from};
	b->used += skipped + len;
	b->gone += skipped;
	return true;
}

u8 *dp_order_room(struct dp_order *o, u64 size)
{
	return room_for(&o->batch, size);
}

bool dp_order_add(struct dp_order *o, u64 skipped, u64 len, u64 stamp, u64 pos, u32 from)
{
	return add(&o->batch, skipped, len, stamp, pos, from);
}

/*
 * Merge sort that starts from the runs which are there already: the index is made of one nearly
 * sorted run for each ring. Equal stamps keep their order. tmp has room for n entries.
 */
static void sort_entries(struct dp_order_entry *v, struct dp_order_entry *tmp, u64 n)
{
	struct dp_order_entry *from = v, *to = tmp;
	u64 runs;

	do {
		u64 i = 0, out = 0;

		runs = 0;
		while (i < n) {
			u64 mid = i + 1, end, a = i, b;

			while (mid < n && from[mid - 1].stamp <= from[mid].stamp)
				mid++;
			end = mid < n ? mid + 1 : mid;
			while (end < n && from[end - 1].stamp <= from[end].stamp)
				end++;
			for (b = mid; a < mid || b < end;)
				to[out++] = b == end || (a < mid && from[a].stamp <= from[b].stamp) ? from[a++]
												    : from[b++];
			i = end;
			runs++;
		}
		struct dp_order_entry *swap = from;
		from = to;
		to = swap;
	} while (runs > 1);
	if (from != v)
		memcpy(v, from, n * sizeof(*v));
}

/* What came behind `old` mostly has later stamps than what was there. */
u64 dp_order_arrange(struct dp_order *o, u64 old)
{
	struct dp_order_batch *b = &o->batch;
	u64 least = ~(u64)0, lo;
	bool ordered = true;

	if (old == b->n || !grow((void **)&o->spare.index, &o->spare.index_room, sizeof(struct dp_order_entry), b->n))
		return 0;
	for (u64 i = old; i < b->n; i++) {
		least = DP_MIN(least, b->index[i].stamp);
		ordered &= i == b->first || b->index[i - 1].stamp <= b->index[i].stamp;
	}
	if (ordered) /* as what one thread writes is */
		return 0;
	lo = b->first + DP_COUNT_UP_TO(b->index + b->first, old - b->first, stamp, least);
	sort_entries(b->index + lo, o->spare.index, b->n - lo);
	return b->n - lo;
}

/* The rest moves to the other batch, which takes over. */
u64 dp_order_close_up(struct dp_order *o)
{
	struct dp_order_batch *b = &o->batch, *spare = &o->spare, swap;
	u64 lost = 0;

	if (b->first == b->n) {
		b->used = b->gone = b->first = b->n = 0;
		return 0;
	}
	if (b->gone < b->used - b->gone || b->gone < LEAST_GONE)
		return 0;
	spare->used = spare->gone = spare->first = spare->n = 0;
	for (u64 i = b->first; i < b->n; i++) {
		const struct dp_order_entry *e = &b->index[i];
		const struct dp_record *rec = (const struct dp_record *)(b->bytes + e->off);
		u8 *to = room_for(spare, rec->len);

		if (to)
			memcpy(to, rec, rec->len);
		if (!to || !add(spare, 0, rec->len, e->stamp, e->pos, e->from))
			lost += rec->len;
	}
	swap = *b;
	*b = *spare;
	*spare = swap;
	return lost;
}

void dp_order_free(struct dp_order *o)
{
	dp_free(o->batch.bytes);
	dp_free(o->batch.index);
	dp_free(o->spare.bytes);
	dp_free(o->spare.index);
}
