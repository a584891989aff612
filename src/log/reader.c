/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Drains the log rings. Each drain copies what every ring holds into private memory, gives the room
 * back at once (or when the caller says so), sorts by stamp and hands out what is old enough. Must not
 * believe anything that it reads from the rings, and must never write to them except for tail, next and owner.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "abi/abi-record.h"
#include "log/reader-priv.h"

#define PAGE 4096u
#define HOLD_MS 50          /* how long a record waits for others with older stamps, */
#define HOLD_SHORT_MS 10    /* and where it takes room that is getting scarce meanwhile, */
#define HOLD_MOST 33554432u /* or more bytes than these wait */
#define AHEAD_LEAST 65536u  /* bytes of a ring that have pages before anybody writes */
#define WORDS 64            /* read in one call */

/* ---- life ---- */

/* A thread that ended but was not waited for still has its id; it will not come back either. */
static bool thread_alive(u32 tid, void *arg)
{
	char path[64], text[256], *p;
	ssize_t n;
	int fd;

	if (kill((pid_t)tid, 0) && errno == ESRCH)
		return false;
	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return true;
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name before it may hold anything */
	return !p || p[1] != ' ' || (p[2] != 'Z' && p[2] != 'X');
}

/* The layout is one that can be, as a whole: it comes from a caller who may have read it somewhere. */
static bool layout_ok(const struct dp_ring_map *map)
{
	struct dp_ring_map again = {.at = map->at, .size = map->size};

	return map->at && dp_ring_map_lay_out(&again, map->g.ncpus, map->g.nrings, map->g.nprobes, map->g.ring_size) &&
	       !memcmp(&again.g, &map->g, offsetof(struct dp_rings, owner_pid));
}

int dp_reader_open(struct dp_reader **out, const struct dp_ring_map *map, struct dp_error *err)
{
	const struct dp_rings g = map->g;
	struct dp_reader *r;

	if (!layout_ok(map))
		return dp_fail(err, E_RING_LAYOUT, "%u rings of %#llx bytes and %u probes in %llu bytes", g.nrings,
			       (unsigned long long)g.ring_size, g.nprobes, (unsigned long long)map->size);
	r = dp_alloc(sizeof(*r));
	if (r)
		r->src = dp_alloc(g.nrings * sizeof(*r->src));
	if (!r || !r->src) {
		dp_free(r);
		return dp_fail(err, E_RING_MEMORY, "%u rings", g.nrings);
	}
	r->map = *map;
	r->g = g;
	r->alive = thread_alive;
	for (u32 i = 0; i < g.nrings; i++) {
		struct dp_reader_source *s = &r->src[i];

		s->ring = dp_ring_of(map, i);
		s->data = (const u8 *)s->ring + PAGE;
		s->tail = s->given = s->next = __atomic_load_n(&s->ring->tail, __ATOMIC_RELAXED);
		s->locked = i >= g.ncpus;
	}
	dp_clock_start(&r->clock);
	r->horizon = 1000 * dp_clock_ticks_per_ms(&r->clock);
	*out = r;
	return 0;
}

void dp_reader_close(struct dp_reader *r)
{
	if (!r)
		return;
	dp_order_free(&r->order);
	dp_free(r->part);
	dp_free(r->src);
	dp_free(r);
}

void dp_reader_set_alive(struct dp_reader *r, bool (*alive)(u32 tid, void *arg), void *arg)
{
	r->alive = alive ? alive : thread_alive;
	r->alive_arg = arg;
}

/* ---- copying out of the rings ---- */

void dp_reader_copy(const struct dp_reader *r, const struct dp_reader_source *s, void *to, u64 size)
{
	u64 at = s->tail & (r->g.ring_size - 1), first = DP_MIN(size, r->g.ring_size - at);

	memcpy(to, s->data + at, first);
	memcpy((u8 *)to + first, s->data, size - first);
}

bool dp_reader_header_ok(const struct dp_reader *r, const struct dp_record *h, u64 avail, u64 now)
{
	if (h->len % 8 || h->len < sizeof(*h) || h->len > DP_RECORD_MAX || h->len > avail)
		return false;
	if (h->event >= r->g.nprobes)
		return false;
	if (h->tsc <= now || h->tsc - now <= r->horizon)
		return true;
	/* Perhaps it is `now` that is old: a busy machine may have kept us from running since. */
	now = dp_clock_stamp();
	return h->tsc <= now || h->tsc - now <= r->horizon;
}

u64 dp_reader_filler(u64 first, u64 avail)
{
	u16 len = (u16)first, flags = (u16)(first >> 16);

	return (flags & DP_REC_PAD) && len >= 8 && !(len % 8) && len <= avail ? len : 0;
}

bool dp_reader_find(struct dp_reader *r, struct dp_reader_source *s, u64 now, struct dp_record *h)
{
	u64 avail, first, skip;

	for (; (avail = s->head - s->tail); s->tail += skip) {
		dp_reader_copy(r, s, &first, sizeof(first));
		skip = dp_reader_filler(first, avail);
		if (skip)
			continue;
		if (avail >= sizeof(*h))
			dp_reader_copy(r, s, h, sizeof(*h));
		if (avail >= sizeof(*h) && dp_reader_header_ok(r, h, avail, now))
			return true;
		dp_reader_drop(r, s);
		break;
	}
	return false;
}

/*
 * Takes records into the batch that begin and end within the next `size` bytes of the ring, and steps over them and
 * over filler. False: there is no memory.
 */
static bool take(struct dp_reader *r, struct dp_reader_source *s, u64 size, u64 now)
{
	u64 avail = s->head - s->tail, at = 0, skipped = 0, first, filler;
	u8 *bytes = dp_order_room(&r->order, size);
	bool good = bytes;

	if (!good)
		return false;
	dp_reader_copy(r, s, bytes, size);
	while (at + sizeof(first) <= size) {
		const struct dp_record *rec = (const struct dp_record *)(bytes + at);

		memcpy(&first, rec, sizeof(first));
		filler = dp_reader_filler(first, avail - at);
		if (filler) {
			at += filler;
			skipped += filler;
			continue;
		}
		if (at + sizeof(*rec) > size && size < avail)
			break;
		if (at + sizeof(*rec) > size || !dp_reader_header_ok(r, rec, avail - at, now)) {
			s->tail += at;
			dp_reader_drop(r, s);
			return true;
		}
		if (rec->len > size - at)
			break;
		good = dp_order_add(&r->order, skipped, rec->len, rec->tsc, s->tail + at, (u32)(s - r->src));
		if (!good)
			break;
		at += rec->len;
		skipped = 0;
	}
	s->tail += at;
	return good;
}

static void give(struct dp_reader_source *s, u64 tail)
{
	/* Pairs with the producer's acquire of tail: our reads come before its writes to that room.
	 */
	__atomic_store_n(&s->ring->tail, tail, __ATOMIC_RELEASE);
	s->given = tail;
}

/*
 * Enter pages that are there into the page tables of the program, too, which would take a fault of its own for each.
 * None of its threads is stopped for that. To read is enough: what is shared and may be written to is entered as such.
 * Each page is read, since how many neighbours are entered with it is the kernel's affair. A child that inherited the
 * rings has its own tables, and its faults. Where it fails they all do.
 */
static void map_there(const struct dp_reader *r, const u8 *from, u64 n)
{
	u64 first = r->map.there + (u64)(from - (const u8 *)r->map.at), end = first + n, at = first;
	u8 seen[WORDS] = {0};

	while (r->map.pid && at < end) {
		struct iovec there[WORDS], here = {seen, 0};
		unsigned long k = 0;

		for (; k < WORDS && at < end; at += PAGE)
			there[k++] = (struct iovec){(void *)at, 1};
		here.iov_len = k;
		if (process_vm_readv(r->map.pid, &here, 1, there, k, 0) < 0)
			return;
	}
}

/*
 * Pages that the program is going to write to for the first time are made here, not in its hits: four times as many as
 * it has used, so that a ring that holds little stays small.
 */
static void make_pages(const struct dp_reader *r, struct dp_reader_source *s, u64 head)
{
	u64 used = DP_MIN(head, r->g.ring_size), want = DP_ALIGN_UP(used * 4, (u64)PAGE);

	want = DP_MIN(r->g.ring_size, s->locked && !used ? 0 : DP_MAX(want, (u64)AHEAD_LEAST));
	if (s->ahead >= want)
		return;
	/* Where the kernel cannot (before 5.14), they come with faults. */
	if (!madvise((u8 *)s->data + s->ahead, want - s->ahead, MADV_POPULATE_WRITE))
		map_there(r, s->data + s->ahead, want - s->ahead);
	s->ahead = want;
}

void dp_reader_look(struct dp_reader *r, struct dp_reader_source *s)
{
	u64 avail;

	/* Pairs with the producer's release of head: the words of the records are visible. */
	s->head = __atomic_load_n(&s->ring->head, __ATOMIC_ACQUIRE);
	avail = s->head - s->tail;
	make_pages(r, s, s->head);
	if (__atomic_load_n(&s->ring->tail, __ATOMIC_RELAXED) != s->given)
		r->damaged += 8; /* overwritten; mended below */
	if (avail > r->g.ring_size || (s->head | s->tail) & 7) {
		r->damaged += DP_MIN(avail, r->g.ring_size);
		s->tail = s->head;
	}
	r->pressure = DP_MAX(r->pressure, (unsigned)((s->head - s->tail) * 100 / r->g.ring_size));
	r->is_scarce |= r->keep && s->head - s->given > r->g.ring_size / 2;
}

void dp_reader_done(struct dp_reader *r, struct dp_reader_source *s)
{
	if (!r->keep)
		give(s, s->tail);
}

/*
 * Empty one ring into the batch, at most `share` bytes. Returns the stamp up to which this ring
 * is known: `now`, or that of the last record taken when some had to stay.
 */
static u64 empty(struct dp_reader *r, struct dp_reader_source *s, u64 share, u64 now)
{
	const struct dp_order_batch *b = &r->order.batch;
	u64 start, known = now;

	dp_reader_look(r, s);
	start = s->tail;
	while (s->tail != s->head) {
		u64 size = DP_MIN(s->head - s->tail, (u64)DP_READER_STEP);

		if (s->tail - start >= share || !take(r, s, size, now)) {
			r->has_more |= s->tail - start >= share;
			known = b->n ? DP_MIN(now, b->index[b->n - 1].stamp) : 0;
			break;
		}
	}
	dp_reader_done(r, s);
	return known;
}

/*
 * A producer that was killed between taking a ring and leaving it has published nothing, since
 * head is its last write: freeing the ring is all there is to do. The exchange fails when the ring
 * has changed hands meanwhile.
 */
static void free_if_dead(struct dp_reader *r, struct dp_reader_source *s)
{
	u32 owner = __atomic_load_n(&s->ring->owner, __ATOMIC_RELAXED);
	u32 tid = owner & 0x7fffffff; /* the top bit only says that the ring is taken */

	if (!tid || r->alive(tid, r->alive_arg))
		return;
	/* Pairs with the acquire of the next producer that takes the ring. */
	__atomic_compare_exchange_n(&s->ring->owner, &owner, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/*
 * Nothing waits anywhere, and nobody holds a ring. Most of a thousand targets are like that at any time: it costs no
 * more than a look at what their programs have not written to.
 */
static bool is_quiet(const struct dp_reader *r)
{
	if (!dp_order_is_empty(&r->order))
		return false;
	for (u32 i = 0; i < r->g.nrings; i++) {
		const struct dp_reader_source *s = &r->src[i];

		if (!(s->locked ? !__atomic_load_n(&s->ring->owner, __ATOMIC_RELAXED) : s->ahead) ||
		    __atomic_load_n(&s->ring->head, __ATOMIC_RELAXED) != s->tail || s->tail != s->given ||
		    __atomic_load_n(&s->ring->tail, __ATOMIC_RELAXED) != s->given)
			return false;
	}
	return true;
}

u64 dp_reader_certain(const struct dp_reader *r, u64 now)
{
	return now - (r->is_scarce ? HOLD_SHORT_MS : HOLD_MS) * dp_clock_ticks_per_ms(&r->clock);
}

bool dp_reader_begin(struct dp_reader *r, bool final)
{
	/* The stamp comes first: whatever was committed before it is seen below. */
	u64 now = dp_clock_stamp();

	r->pressure = 0;
	r->is_scarce = r->has_more = false;
	if (is_quiet(r)) {
		r->known = final ? now : dp_reader_certain(r, now);
		return false;
	}
	for (u32 i = 0; i < r->g.nrings; i++)
		if (r->src[i].locked)
			free_if_dead(r, &r->src[i]);
	return true;
}

int dp_reader_drain(struct dp_reader *r, bool final, void (*fn)(const struct dp_record *rec, u64 ns, void *arg),
		    void *arg)
{
	u64 now, limit, share, old = r->order.batch.n;
	struct dp_clock_line line = {0};
	u64 before = r->handed;
	const struct dp_record *rec;

	if (!dp_reader_begin(r, final))
		return 0;
	limit = now = dp_clock_mark(&r->clock);
	share = DP_MAX(DP_READER_BATCH / r->g.nrings, (u64)DP_RECORD_MAX);
	for (u32 i = 0; i < r->g.nrings; i++)
		limit = DP_MIN(limit, empty(r, &r->src[i], final ? ~(u64)0 : share, now));
	r->is_scarce |= r->order.batch.used - r->order.batch.gone > HOLD_MOST;
	if (!final)
		limit = DP_MIN(limit, dp_reader_certain(r, now));
	r->known = limit;
	dp_order_arrange(&r->order, old);
	while ((rec = dp_order_next(&r->order, final ? ~(u64)0 : limit))) {
		r->handed++;
		fn(rec, dp_clock_ns_near(&r->clock, &line, rec->tsc), arg);
	}
	r->damaged += dp_order_close_up(&r->order); /* no memory: told with the other losses */
	return (int)(r->handed - before);
}

u64 dp_reader_known(const struct dp_reader *r)
{
	return r->known;
}

/* ---- a reader that may be killed ---- */

void dp_reader_keep(struct dp_reader *r)
{
	r->keep = true;
}

bool dp_reader_has_moved(const struct dp_reader *r)
{
	for (u32 i = 0; i < r->g.nrings; i++)
		if (r->src[i].tail != r->src[i].given)
			return true;
	return false;
}

struct dp_reader_mark dp_reader_mark(const struct dp_reader *r)
{
	const struct dp_order_entry *e = dp_order_last(&r->order);

	return (struct dp_reader_mark){e->from, e->pos};
}

void dp_reader_withhold(struct dp_reader *r, struct dp_reader_mark mark)
{
	struct dp_reader_source *s = &r->src[mark.ring];

	/* The oldest of those that wait: positions only grow, and lie within a ring's size. */
	if (!s->has_least || s->tail - mark.pos > s->tail - s->least)
		s->least = mark.pos;
	s->has_least = true;
}

void dp_reader_propose(struct dp_reader *r, u64 epoch)
{
	const struct dp_order_batch *b = &r->order.batch;

	for (u64 i = b->first; i < b->n; i++)
		dp_reader_withhold(r, (struct dp_reader_mark){b->index[i].from, b->index[i].pos});
	for (u32 i = 0; i < r->g.nrings; i++) {
		struct dp_reader_source *s = &r->src[i];

		s->next = s->has_least ? s->least : s->tail;
		s->has_least = false;
		if (s->next == s->given) /* then its tail is right in any epoch */
			continue;
		__atomic_store_n(&s->ring->next, s->next, __ATOMIC_RELAXED);
		/* Pairs with our death, which a successor comes after: if it reads this epoch it sees that position. */
		__atomic_store_n(&s->ring->epoch, epoch, __ATOMIC_RELEASE);
	}
}

void dp_reader_release(struct dp_reader *r)
{
	for (u32 i = 0; i < r->g.nrings; i++) {
		struct dp_reader_source *s = &r->src[i];

		if (s->next != s->given || __atomic_load_n(&s->ring->tail, __ATOMIC_RELAXED) != s->given)
			give(s, s->next);
	}
}

/* A tail that the program has made up is none: it lies between the one that is there and the head. */
void dp_reader_settle(const struct dp_ring_map *map, u64 epoch)
{
	for (u32 i = 0; layout_ok(map) && i < map->g.nrings; i++) {
		struct dp_ring *ring = dp_ring_of(map, i);
		u64 tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED),
		    next = __atomic_load_n(&ring->next, __ATOMIC_RELAXED);
		u64 head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);

		if (__atomic_load_n(&ring->epoch, __ATOMIC_RELAXED) == epoch && next - tail <= head - tail &&
		    head - tail <= map->g.ring_size)
			__atomic_store_n(&ring->tail, next, __ATOMIC_RELAXED);
	}
}

/* ---- figures ---- */

u64 dp_reader_handed(const struct dp_reader *r)
{
	return r->handed;
}

unsigned dp_reader_pressure(const struct dp_reader *r)
{
	return r->pressure;
}

bool dp_reader_has_more(const struct dp_reader *r)
{
	return r->has_more;
}

int dp_reader_damage(const struct dp_reader *r, u64 *bytes, struct dp_error *err)
{
	*bytes = r->damaged;
	if (!r->damaged)
		return 0;
	return dp_fail(err, E_RING_DAMAGED, "%llu bytes dropped", (unsigned long long)r->damaged);
}

void dp_reader_forget(struct dp_reader *r, u32 probe)
{
	for (u32 i = 0; i < r->g.nrings && probe < r->g.nprobes; i++)
		for (int k = 0; k < DP_NCOUNTS; k++)
			__atomic_store_n(&dp_ring_counts(&r->map, i)[probe].v[k], 0, __ATOMIC_RELAXED);
}

void dp_reader_counts(struct dp_reader *r, u32 probe, struct dp_counts *out)
{
	memset(out, 0, sizeof(*out));
	if (probe >= r->g.nprobes)
		return;
	for (u32 i = 0; i < r->g.nrings; i++) {
		const struct dp_counts *c = dp_ring_counts(&r->map, i) + probe;

		/* Single words that only grow; a sum taken meanwhile is as good as one a moment
		 * earlier. */
		for (int k = 0; k < DP_NCOUNTS; k++)
			out->v[k] += __atomic_load_n(&c->v[k], __ATOMIC_RELAXED);
	}
}

void dp_reader_clock(const struct dp_reader *r, u64 *tsc, u64 *ns)
{
	const struct dp_clock_pair *last = &r->clock.pair[r->clock.n - 1];

	*tsc = last->tsc;
	*ns = last->ns;
}

/* The line goes through both moments; a pair that is not older is none. */
void dp_reader_clock_since(struct dp_reader *r, u64 tsc, u64 ns)
{
	struct dp_clock_pair first = r->clock.pair[0];

	if (!tsc || tsc >= first.tsc || ns >= first.ns)
		return;
	r->clock.n = 0;
	dp_clock_add(&r->clock, tsc, ns);
	dp_clock_mark(&r->clock);
}
