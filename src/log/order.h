/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records that wait to be handed out in the order of their stamps: for those who read rings, and for those who show
 * parts of rings that were recorded as they are. Knows neither where records come from nor when order is certain.
 */
#ifndef DP_LOG_ORDER_H
#define DP_LOG_ORDER_H

#include "abi/abi-record.h"

#define DP_ORDER_AHEAD 8 /* records */

struct dp_order_entry { /* one record */
	u64 stamp;
	u64 off;  /* of its bytes in the batch */
	u64 pos;  /* the caller's, */
	u32 from; /* too */
};

/* Records one behind the other, with an index that is in order. */
struct dp_order_batch {
	u8 *bytes;
	size_t used, room;
	u64 gone; /* of the bytes used, those of records that were handed out, and what is none */
	struct dp_order_entry *index;
	size_t first, n, index_room; /* entries before first were handed out */
};

struct dp_order { /* begins with zeroes */
	struct dp_order_batch batch, spare;
};

/* Room for so many bytes of records, each of which is then added. NULL: no memory. */
u8 *dp_order_room(struct dp_order *o, u64 size);
/*
 * A record of len bytes, `skipped` bytes behind the one before in the room that was given last. False: there is no
 * memory, and nothing was added.
 */
bool dp_order_add(struct dp_order *o, u64 skipped, u64 len, u64 stamp, u64 pos, u32 from);

/*
 * Brings entries in order again, which were up to the first `old` of them. Those of one stamp stay as they came.
 * Returns how many had to be moved past others.
 */
u64 dp_order_arrange(struct dp_order *o, u64 old);

/* The next one up to that stamp, which counts as handed out now and stays until room is asked for. NULL: none. */
static inline const struct dp_record *dp_order_next(struct dp_order *o, u64 limit)
{
	struct dp_order_batch *b = &o->batch;
	const struct dp_record *rec;

	if (b->first == b->n || b->index[b->first].stamp > limit)
		return NULL;
	/* They have waited, and may be in no cache any more. */
	__builtin_prefetch(b->bytes + b->index[DP_MIN(b->first + DP_ORDER_AHEAD, b->n - 1)].off);
	rec = (const struct dp_record *)(b->bytes + b->index[b->first++].off);
	b->gone += rec->len;
	return rec;
}

/* The one that dp_order_next() has returned last. */
static inline const struct dp_order_entry *dp_order_last(const struct dp_order *o)
{
	return &o->batch.index[o->batch.first - 1];
}

static inline bool dp_order_is_empty(const struct dp_order *o)
{
	return o->batch.first == o->batch.n;
}

/*
 * Give up the room of what was handed out, once it is more than what is left: so each record is moved once at most on
 * average. Returns bytes of records for which there was no memory.
 */
u64 dp_order_close_up(struct dp_order *o);

void dp_order_free(struct dp_order *o);

#endif
