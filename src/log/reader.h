/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The consumer side of the log rings: drains them in time order, converts stamps, sums counts.
 * The rings lie in memory that the probed program can overwrite: nothing in them is trusted, and
 * records are copied out before anyone looks at them. One thread at a time.
 */
#ifndef DP_READER_H
#define DP_READER_H

#include <sys/types.h>

#include "base/error.h"
#include "log/rings.h"

struct dp_counts;
struct dp_record;

struct dp_reader;

/*
 * Read from rings that are mapped here, with a layout that the caller knows: nothing is read from their header. The
 * mapping stays the caller's, and it must not become shorter (a file that is sealed, or log/log-guard.h).
 * E_RING_LAYOUT, E_RING_MEMORY.
 */
int dp_reader_open(struct dp_reader **r, const struct dp_ring_map *map, struct dp_error *err);
void dp_reader_close(struct dp_reader *r);

/*
 * Hand out committed records in time order, as far as order is certain: a record is held back until
 * every ring was looked at some milliseconds after its stamp. final: hand out all. fn's record
 * pointer is valid during the call; ns is CLOCK_MONOTONIC time of the stamp. Returns the number of
 * records handed out. Also breaks the locks of ring owners that died.
 *
 * The rings are emptied before the first record is handed out, so a slow fn costs no room in them.
 * A record that was committed late (its thread was off the processor for long) comes out of order.
 */
int dp_reader_drain(struct dp_reader *r, bool final, void (*fn)(const struct dp_record *rec, u64 ns, void *arg),
		    void *arg);

/*
 * Instead, for whoever puts records in order later: parts of rings as they are there, one behind the other. Each record
 * was checked as above, and is in memory of ours. Nothing is held back. Parts come in the order of time as far as they
 * would not be too small: a part may go on for 4 KiB where another ring has older records. What one call has handed out
 * lacks none of them, and the last part has no records, and tells so (known). Behind it dp_reader_drain() may follow,
 * not the other way round.
 */
struct dp_reader_part {
	u32 ring;
	u32 n;            /* records; 0: ring, since and until tell nothing */
	u8 *bytes;        /* of them, valid during the call; tsc: CLOCK_MONOTONIC in ns */
	u64 size;         /* at most DP_READER_PART */
	u64 since, until; /* the least and the largest of the records' times */
	u64 known;        /* nothing that comes is older, this part included, but of hits that were under way */
};
#define DP_READER_PART (256u << 10)
int dp_reader_take(struct dp_reader *r, bool final, void (*fn)(struct dp_reader_part *part, void *arg), void *arg);

/* How many records were handed out so far, the one under way among them. */
u64 dp_reader_handed(const struct dp_reader *r);

/* The stamp up to which all records were handed out at the last drain, as far as order is certain. */
u64 dp_reader_known(const struct dp_reader *r);

/*
 * For a reader that may be killed, and whose successor is to log each record once: from now on room in the rings is
 * given back by dp_reader_release() only. propose: note in the rings that all records which were handed out are logged
 * when the log has reached this epoch (not 0). release: it has. settle: what the successor does, with the epoch that
 * the log is in, before it opens a reader.
 */
void dp_reader_keep(struct dp_reader *r);
bool dp_reader_has_moved(const struct dp_reader *r); /* it has read farther than room was given back */
void dp_reader_propose(struct dp_reader *r, u64 epoch);
void dp_reader_release(struct dp_reader *r);
void dp_reader_settle(const struct dp_ring_map *map, u64 epoch);

/*
 * Where a record stands in the rings. mark: of the one that fn has at hand. withhold: it waits somewhere else, and is
 * not logged by the next proposal.
 */
struct dp_reader_mark {
	u32 ring;
	u64 pos;
};
struct dp_reader_mark dp_reader_mark(const struct dp_reader *r);
void dp_reader_withhold(struct dp_reader *r, struct dp_reader_mark mark);

/* What the clock was taken to be last: a stamp and its time; and to go on from there, for records that are older. */
void dp_reader_clock(const struct dp_reader *r, u64 *tsc, u64 *ns);
void dp_reader_clock_since(struct dp_reader *r, u64 tsc, u64 ns);

/* How full the fullest ring was at the last drain, in percent: what a caller adapts its pace to. */
unsigned dp_reader_pressure(const struct dp_reader *r);
/* Whether the last drain has left records in a ring: it takes a part at a time, which stays in a processor's cache. */
bool dp_reader_has_more(const struct dp_reader *r);

/* Returns 0, or E_RING_DAMAGED when the program has overwritten parts of the log; *bytes: how much
 * was dropped for it. */
int dp_reader_damage(const struct dp_reader *r, u64 *bytes, struct dp_error *err);

/*
 * Tell whether the thread that holds a ring is alive. Needed where the target's thread ids are not
 * ours (another pid namespace); by default the thread is looked for under its id here.
 */
void dp_reader_set_alive(struct dp_reader *r, bool (*alive)(u32 tid, void *arg), void *arg);

/* Sum of one probe's counts over all rings. */
void dp_reader_counts(struct dp_reader *r, u32 probe, struct dp_counts *out);

/* They are 0 from now on: nobody counts there any more. */
void dp_reader_forget(struct dp_reader *r, u32 probe);

#endif
