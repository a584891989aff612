/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Empties rings without putting records in order: copies a part of a ring, looks at the heads of its records, hands it
 * on, and needs no more memory than that. The ring that is farthest behind comes first, so that whoever puts records in
 * order has little to keep, and what there is at any time lacks little. Believes of a ring what reader.c believes.
 */
#include <string.h>

#include "log/reader-priv.h"

#define LEAST 4096u /* bytes of a part, though other rings have older records by then */

struct taking {
	struct dp_reader *r;
	struct dp_clock_line line;
	u64 now;    /* no stamp of a record is later */
	u64 end;    /* records that are later stay in the rings */
	u64 newest; /* stamp of what was taken in this drain */
	void (*fn)(struct dp_reader_part *part, void *arg);
	void *arg;
};

/* What a part takes: records up to that stamp, and so many bytes in any case. */
struct reach {
	u64 until, least;
};

/* Goes to the next record, if there is one, and sees its stamp. */
static void find_next(struct taking *t, struct dp_reader_source *s)
{
	struct dp_record h;

	if (dp_reader_find(t->r, s, t->now, &h))
		s->stamp = h.tsc;
}

static void add(struct taking *t, struct dp_reader_part *part, struct dp_record *rec)
{
	t->newest = DP_MAX(t->newest, rec->tsc);
	rec->tsc = dp_clock_ns_near(&t->r->clock, &t->line, rec->tsc);
	part->since = part->n ? DP_MIN(part->since, rec->tsc) : rec->tsc;
	part->until = part->n ? DP_MAX(part->until, rec->tsc) : rec->tsc;
	part->n++;
	part->size += rec->len;
}

/*
 * Adds records that begin and end within the next `size` bytes of the ring, which are copied: at the first one there
 * was a record when we last looked. Filler, of which nobody writes any as a rule, ends them. False: the next record is
 * later than that, or there is none.
 */
static bool add_copied(struct taking *t, struct dp_reader_source *s, struct dp_reader_part *part, u64 size,
		       struct reach reach)
{
	u64 all = s->head - s->tail, at = 0, first;
	u8 *bytes = t->r->part + part->size;

	for (struct dp_record *rec; size - at >= sizeof(*rec); at += rec->len) {
		rec = (struct dp_record *)(bytes + at);
		memcpy(&first, rec, sizeof(first));
		if (dp_reader_filler(first, all - at) || !dp_reader_header_ok(t->r, rec, all - at, t->now) ||
		    rec->len > size - at)
			break;
		if (rec->tsc > t->end || (rec->tsc > reach.until && part->size >= reach.least)) {
			s->stamp = rec->tsc;
			s->tail += at;
			return false;
		}
		add(t, part, rec);
	}
	if (!at) /* the program has written there meanwhile */
		dp_reader_drop(t->r, s);
	s->tail += at;
	find_next(t, s);
	return s->tail != s->head;
}

static void take_part(struct taking *t, struct dp_reader_source *s, struct reach reach)
{
	struct dp_reader *r = t->r;
	struct dp_reader_part part = {.ring = (u32)(s - r->src), .bytes = r->part};
	u64 size;
	bool more = true;

	part.known = dp_clock_ns_near(&r->clock, &t->line, r->before);
	while (more && DP_READER_PART - part.size >= DP_READER_STEP) {
		size = DP_MIN(s->head - s->tail, (u64)DP_READER_STEP);
		dp_reader_copy(r, s, r->part + part.size, size);
		more = add_copied(t, s, &part, size, reach);
	}
	dp_reader_done(r, s);
	r->handed += part.n;
	if (part.n)
		t->fn(&part, t->arg);
}

/* Of those that have more, the one that is farthest behind. until: as far as all others are. */
static struct dp_reader_source *last_of_all(struct dp_reader *r, u64 *until)
{
	struct dp_reader_source *least = NULL;

	*until = ~(u64)0;
	for (u32 i = 0; i < r->g.nrings; i++) {
		struct dp_reader_source *s = &r->src[i];

		if (s->tail == s->head)
			continue;
		if (!least || s->stamp < least->stamp) {
			*until = least ? least->stamp : *until;
			least = s;
		} else {
			*until = DP_MIN(*until, s->stamp);
		}
	}
	return least;
}

/*
 * Parts of about so many bytes, in turns; then those records of others that are older than what was taken, so that the
 * next turn begins where this one ends.
 */
static void take_turns(struct taking *t, u64 left)
{
	struct dp_reader *r = t->r;
	struct dp_reader_source *s;
	u64 until;

	while ((s = last_of_all(r, &until)) && s->stamp <= t->end && (left || s->stamp <= t->newest)) {
		u64 tail = s->tail;

		r->before = DP_MAX(r->before, s->stamp);
		take_part(t, s, left ? (struct reach){until, LEAST} : (struct reach){t->newest, 0});
		left -= DP_MIN(left, s->tail - tail);
	}
	r->has_more = s && s->stamp <= t->end;
}

/* For a log that ends here, since who reads the rings is killed. */
static void tell_known(struct taking *t)
{
	struct dp_reader_part none = {.bytes = t->r->part};

	none.since = none.until = none.known = dp_clock_ns_near(&t->r->clock, &t->line, t->r->before);
	t->fn(&none, t->arg);
}

int dp_reader_take(struct dp_reader *r, bool final, void (*fn)(struct dp_reader_part *part, void *arg), void *arg)
{
	struct taking t = {.r = r, .fn = fn, .arg = arg};
	u64 before = r->handed, seen;

	if (!dp_reader_begin(r, final))
		return 0;
	if (!r->part)
		r->part = dp_alloc(DP_READER_PART);
	if (!r->part) /* the records stay where they are */
		return 0;
	/*
	 * Before the heads: what was committed earlier is seen, and what is later may lack others. Who is within a hit
	 * at this moment may have an earlier stamp, of one record. The pair behind them: no stamp of theirs is later.
	 */
	seen = dp_clock_stamp();
	for (u32 i = 0; i < r->g.nrings; i++)
		dp_reader_look(r, &r->src[i]);
	t.now = dp_clock_mark(&r->clock);
	for (u32 i = 0; i < r->g.nrings; i++)
		find_next(&t, &r->src[i]);
	t.end = final ? ~(u64)0 : seen;
	take_turns(&t, final ? ~(u64)0 : DP_READER_BATCH);
	r->before = DP_MAX(r->before, r->has_more ? t.newest : DP_MAX(seen, t.newest));
	r->known = final ? r->before : DP_MIN(r->before, dp_reader_certain(r, seen));
	for (u32 i = 0; i < r->g.nrings; i++) /* also what was passed over */
		dp_reader_done(r, &r->src[i]);
	if (r->handed != before)
		tell_known(&t);
	return (int)(r->handed - before);
}
