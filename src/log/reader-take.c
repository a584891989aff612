/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Empties rings without putting records in order: copies a part of a ring, looks at the heads of its records, hands it
 * on, and needs no more memory than that. Believes of a ring what reader.c believes.
 */
#include <string.h>

#include "log/reader-priv.h"

struct taking {
	struct dp_reader *r;
	struct dp_clock_line line;
	u64 now;
	void (*fn)(struct dp_reader_part *part, void *arg);
	void *arg;
};

/* What is looked at afterwards is the copy: the program may write to the ring meanwhile, and only harms its records. */
static void copy_part(const struct dp_reader *r, const struct dp_reader_source *s, u64 size)
{
	u64 at = s->tail & (r->g.ring_size - 1), first = DP_MIN(size, r->g.ring_size - at);

	memcpy(r->part, s->data + at, first);
	memcpy(r->part + first, s->data, size - first);
}

static void hand_on(struct taking *t, struct dp_reader_part *part)
{
	t->r->handed += part->n;
	if (part->n)
		t->fn(part, t->arg);
}

static void add(struct taking *t, struct dp_reader_source *s, struct dp_reader_part *part, struct dp_record *rec)
{
	s->stamp = rec->tsc;
	rec->tsc = dp_clock_ns_near(&t->r->clock, &t->line, rec->tsc);
	part->since = part->n ? DP_MIN(part->since, rec->tsc) : rec->tsc;
	part->until = part->n ? DP_MAX(part->until, rec->tsc) : rec->tsc;
	part->n++;
	part->size += rec->len;
}

/* The records that begin and end within the next bytes of the ring. Filler ends a part: as a rule nobody writes any. */
static void take_part(struct taking *t, struct dp_reader_source *s, u64 most)
{
	struct dp_reader *r = t->r;
	u64 all = s->head - s->tail, size = DP_MIN(all, most), at = 0;
	struct dp_reader_part part = {
	    .ring = (u32)(s - r->src), .bytes = r->part, .known = dp_clock_ns(&r->clock, r->before)};

	copy_part(r, s, size);
	while (at < size) {
		struct dp_record *rec = (struct dp_record *)(r->part + at);
		u64 first, skip;

		memcpy(&first, rec, sizeof(first));
		skip = dp_reader_filler(first, all - at);
		if (skip) {
			at += skip;
			break;
		}
		if (size < all && (size - at < sizeof(*rec) || (rec->len > size - at && rec->len <= DP_RECORD_MAX)))
			break; /* it goes on in the next part */
		if (size - at < sizeof(*rec) || !dp_reader_header_ok(r, rec, size - at, t->now)) {
			r->damaged += all - at;
			at = all;
			break;
		}
		add(t, s, &part, rec);
		at += rec->len;
	}
	s->tail += at;
	hand_on(t, &part);
}

static void take_share(struct taking *t, struct dp_reader_source *s, u64 share)
{
	u64 start = s->tail;

	while (s->tail != s->head && s->tail - start < share)
		take_part(t, s, DP_MIN((u64)DP_READER_PART, DP_MAX(share - (s->tail - start), (u64)DP_RECORD_MAX)));
	t->r->has_more |= s->tail != s->head;
	dp_reader_done(t->r, s);
}

/* Of those that have more, the one that is farthest behind: then who puts them in order has little to keep. */
static struct dp_reader_source *last_of_all(struct dp_reader *r)
{
	struct dp_reader_source *least = NULL;

	for (u32 i = 0; i < r->g.nrings; i++) {
		struct dp_reader_source *s = &r->src[i];

		if (s->tail != s->head && (!least || s->stamp < least->stamp))
			least = s;
	}
	return least;
}

static void take_all(struct taking *t, u64 share)
{
	struct dp_reader_source *s;

	while ((s = last_of_all(t->r))) {
		t->r->before = DP_MAX(t->r->before, s->stamp);
		take_part(t, s, DP_MIN(share, (u64)DP_READER_PART));
		dp_reader_done(t->r, s);
	}
}

/* As dp_reader_drain() knows it. */
static u64 known_now(const struct dp_reader *r, u64 now)
{
	u64 limit = now;

	for (u32 i = 0; i < r->g.nrings; i++)
		if (r->src[i].tail != r->src[i].head)
			limit = DP_MIN(limit, r->src[i].stamp);
	return dp_reader_limit(r, limit, now);
}

int dp_reader_take(struct dp_reader *r, bool final, void (*fn)(struct dp_reader_part *part, void *arg), void *arg)
{
	struct taking t = {.r = r, .fn = fn, .arg = arg};
	u64 now, before = r->handed, share = DP_MAX((DP_READER_BATCH / r->g.nrings) & ~(u64)7, (u64)DP_RECORD_MAX);

	if (!dp_reader_begin(r, final))
		return 0;
	if (!r->part)
		r->part = dp_alloc(DP_READER_PART);
	if (!r->part) /* the records stay where they are */
		return 0;
	/* Before the heads: what was committed earlier is seen. The pair behind them: no stamp of theirs is later. */
	now = dp_clock_stamp();
	for (u32 i = 0; i < r->g.nrings; i++)
		dp_reader_look(r, &r->src[i]);
	t.now = dp_clock_mark(&r->clock);
	if (final)
		take_all(&t, share);
	for (u32 i = 0; !final && i < r->g.nrings; i++)
		take_share(&t, &r->src[i], share);
	r->known = r->before = final ? now : known_now(r, now);
	return (int)(r->handed - before);
}
