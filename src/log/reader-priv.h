/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the two ways to empty rings share: in order (reader.c), and as they lie there (reader-take.c). */
#ifndef DP_READER_PRIV_H
#define DP_READER_PRIV_H

#include "log/clock.h"
#include "log/order.h"
#include "log/reader.h"

#define DP_READER_BATCH ((u64)2 << 20) /* bytes copied out of all rings in one drain: they stay in a cache */

#define DP_READER_STEP 16384u /* that are copied and looked at in one go; a record is no longer */
_Static_assert(DP_READER_STEP >= DP_RECORD_MAX, "so that each step has a record");

struct dp_reader_source {
	struct dp_ring *ring;
	const u8 *data;
	u64 head;  /* the ring's, as this drain has found it */
	u64 tail;  /* ours; the one in the ring is for the producers */
	u64 given; /* the one in the ring */
	u64 next;  /* the first record that is not logged, as of dp_reader_propose() */
	u64 least; /* of those that wait somewhere else, */
	bool has_least;
	u64 stamp; /* of the next record, for dp_reader_take() */
	u64 ahead; /* bytes of data that have pages, as far as we know */
	bool locked;
};

struct dp_reader {
	struct dp_ring_map map;
	struct dp_rings g; /* its layout; the header in shared memory may be overwritten */
	struct dp_reader_source *src;
	struct dp_order order;
	struct dp_clock clock;
	u8 *part;   /* what dp_reader_take() hands on, */
	u64 before; /* and the stamp that none of its next records has before it, but of hits under way */
	u64 damaged;
	bool keep;   /* room is given back by dp_reader_release() */
	u64 known;   /* stamp up to which records were handed out */
	u64 handed;  /* records, in all */
	u64 horizon; /* stamps may be this many ticks ahead of now */
	unsigned pressure;
	bool is_scarce; /* room: half of a ring is not given back */
	bool has_more;  /* a ring: the drain has taken its part of it */
	bool (*alive)(u32 tid, void *arg);
	void *alive_arg;
};

/* Whether there is nothing to drain; else a drain begins, and pressure and the like are about it. */
bool dp_reader_begin(struct dp_reader *r, bool final);
/* One ring: sets its head, mends what the program has done to it. */
void dp_reader_look(struct dp_reader *r, struct dp_reader_source *s);
/* What was taken of it needs no room any more, unless it is kept. */
void dp_reader_done(struct dp_reader *r, struct dp_reader_source *s);
/* Stamps up to this one are those of records that were committed `now`, as far as that is certain. */
u64 dp_reader_certain(const struct dp_reader *r, u64 now);
/* What is looked at is the copy: the program may write to the ring meanwhile, and only harms its records. */
void dp_reader_copy(const struct dp_reader *r, const struct dp_reader_source *s, void *to, u64 size);
/* Whether a record with this header can be true, given how much is there. */
bool dp_reader_header_ok(const struct dp_reader *r, const struct dp_record *h, u64 avail, u64 now);
/* Drops what makes no sense, and all behind it: where the next record begins is then unknown. */
static inline void dp_reader_drop(struct dp_reader *r, struct dp_reader_source *s)
{
	r->damaged += s->head - s->tail;
	s->tail = s->head;
}
/* Goes to the next record, past filler and what makes no sense. *h: a copy of its head. False: there is none. */
bool dp_reader_find(struct dp_reader *r, struct dp_reader_source *s, u64 now, struct dp_record *h);
/* Length of the filler that begins with these eight bytes; 0: it is none. */
u64 dp_reader_filler(u64 first, u64 avail);

#endif
