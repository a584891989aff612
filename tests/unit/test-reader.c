/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The ring reader: order, wrapping, loss of nothing, and what a program that scribbles over the
 * rings can do to it (nothing but lose records that are then told).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/abi-record.h"
#include "log/clock.h"
#include "log/log-guard.h"
#include "log/reader.h"

#define NCPUS 3u
#define NRINGS 5u
#define NPROBES 7u
#define RING_SIZE 8192u

/* ---- a producer, written from the description in abi/abi-ring.h ---- */

static u64 rdtsc(void)
{
	u32 lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (u64)hi << 32 | lo;
}

static struct dp_ring *ring_at(struct dp_rings *g, u32 i)
{
	return (struct dp_ring *)((u8 *)g + g->rings_off + i * g->ring_stride);
}

static bool put_words(struct dp_rings *g, u32 ring, const u64 *words, u64 bytes)
{
	struct dp_ring *r = ring_at(g, ring);
	u64 head = __atomic_load_n(&r->head, __ATOMIC_RELAXED);
	u8 *data = (u8 *)r + 4096;

	if (head + bytes - __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) > g->ring_size)
		return false;
	for (u64 i = 0; i < bytes; i += 8)
		*(u64 *)(data + ((head + i) & (g->ring_size - 1) & ~(u64)7)) = words[i / 8];
	__atomic_store_n(&r->head, head + bytes, __ATOMIC_RELEASE);
	return true;
}

/* A record with `n` words of payload, each of them `value`. */
static bool put(struct dp_rings *g, u32 ring, u64 tsc, u32 event, u64 value, u32 n)
{
	u64 words[DP_RECORD_MAX / 8];
	struct dp_record rec = {.event = event, .tid = 100 + ring, .cpu = ring, .tsc = tsc};

	rec.len = (u16)(sizeof(rec) + 8 * n);
	memcpy(words, &rec, sizeof(rec));
	for (u32 i = 0; i < n; i++)
		words[sizeof(rec) / 8 + i] = value;
	return put_words(g, ring, words, rec.len);
}

/* ---- collecting what comes out ---- */

struct seen {
	u64 n, last_ns, out_of_order;
	u64 values[4096];
	u32 words[4096];
	bool torn;
};

static void collect(const struct dp_record *rec, u64 ns, void *arg)
{
	struct seen *s = arg;
	const u64 *payload = (const u64 *)(rec + 1);
	u32 words = (u32)(rec->len - sizeof(*rec)) / 8;

	for (u32 i = 1; i < words; i++)
		if (payload[i] != payload[0])
			s->torn = true;
	if (s->n < 4096) {
		s->values[s->n] = words ? payload[0] : 0;
		s->words[s->n] = words;
	}
	if (ns < s->last_ns)
		s->out_of_order++;
	s->last_ns = ns;
	s->n++;
}

struct world {
	struct dp_rings *g;
	struct dp_ring_map map;
	struct dp_reader *r;
	u64 size;
};

static struct world *make_world(u64 ring_size)
{
	struct world *w = calloc(1, sizeof(*w));
	u8 *p;

	/* Pages without access on both sides: a reader that goes astray is caught in the act. */
	w->size = DP_ALIGN_UP(dp_rings_size(NCPUS, NRINGS, NPROBES, ring_size), 4096);
	p = mmap(NULL, w->size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + 4096, w->size, PROT_READ | PROT_WRITE), 0);
	w->g = (struct dp_rings *)(p + 4096);
	dp_rings_init(w->g, NCPUS, NRINGS, NPROBES, ring_size);
	w->map = (struct dp_ring_map){.at = w->g, .size = w->size};
	assert_true(dp_ring_map_lay_out(&w->map, NCPUS, NRINGS, NPROBES, ring_size));
	assert_int_equal(dp_reader_open(&w->r, &w->map, NULL), 0);
	return w;
}

static int setup(void **state)
{
	*state = make_world(RING_SIZE);
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	dp_reader_close(w->r);
	munmap((u8 *)w->g - 4096, w->size + 8192);
	free(w);
	return 0;
}

static u64 damage(struct world *w)
{
	u64 bytes;

	dp_reader_damage(w->r, &bytes, NULL);
	return bytes;
}

/* ---- tests ---- */

static void records_come_in_time_order(void **state)
{
	struct world *w = *state;
	struct seen s = {0};
	u64 t = rdtsc();

	for (u32 i = 0; i < 300; i++)
		assert_true(put(w->g, (i * 7) % NRINGS, t + i, i % NPROBES, i, 1 + i % 3));
	assert_int_equal(dp_reader_drain(w->r, true, collect, &s), 300);
	assert_int_equal(s.n, 300);
	for (u32 i = 0; i < 300; i++) {
		assert_int_equal(s.values[i], i);
		assert_int_equal(s.words[i], 1 + i % 3);
	}
	assert_int_equal(s.out_of_order, 0);
	assert_int_equal(dp_reader_drain(w->r, true, collect, &s), 0);
}

/* A thread that lost the processor between stamp and commit leaves an older stamp behind a younger.
 */
static void late_commits_are_sorted_within_a_ring(void **state)
{
	struct world *w = *state;
	struct seen s = {0};
	u64 t = rdtsc();

	for (u32 i = 0; i < 100; i += 2) {
		put(w->g, 0, t + i + 1, 0, i + 1, 1);
		put(w->g, 0, t + i, 0, i, 1);
	}
	dp_reader_drain(w->r, true, collect, &s);
	for (u32 i = 0; i < 100; i++)
		assert_int_equal(s.values[i], i);
}

static void records_wrap_word_by_word(void **state)
{
	struct world *w = *state;
	static struct seen s;
	u64 sent = 0;

	for (u32 round = 0; round < 200; round++) {
		u32 n = 1 + (round * 37) % 400; /* lengths that put the wrap at every word */

		memset(&s, 0, sizeof(s));
		for (u32 k = 0; k < 2; k++)
			assert_true(put(w->g, 1, rdtsc(), 0, sent + k, n));
		dp_reader_drain(w->r, true, collect, &s);
		assert_int_equal(s.n, 2);
		assert_false(s.torn);
		assert_int_equal(s.words[0], n);
		assert_int_equal(s.values[0], sent);
		assert_int_equal(s.values[1], sent + 1);
		sent += 2;
	}
	assert_int_equal(damage(w), 0);
}

static void a_full_ring_is_read_whole(void **state)
{
	struct world *w = *state;
	static struct seen s;
	u64 sent = 0;

	memset(&s, 0, sizeof(s));
	while (put(w->g, 2, rdtsc(), 1, sent, 1))
		sent++;
	assert_int_equal(sent, RING_SIZE / 32);
	dp_reader_drain(w->r, true, collect, &s);
	assert_int_equal(s.n, sent);
	assert_int_equal(dp_reader_pressure(w->r), 100);
	assert_true(put(w->g, 2, rdtsc(), 1, sent, 1));
}

static void a_drain_takes_a_part_and_says_so(void **state)
{
	struct world *w = make_world(4u << 20);
	void *made = w;
	static struct seen s;
	u64 sent = 0;
	u32 parts = 1;

	memset(&s, 0, sizeof(s));
	while (put(w->g, 0, rdtsc(), 1, sent, 1))
		sent++;
	for (dp_reader_drain(w->r, false, collect, &s); dp_reader_has_more(w->r); parts++)
		dp_reader_drain(w->r, false, collect, &s);
	assert_in_range(parts, 2, 100);
	dp_reader_drain(w->r, true, collect, &s);
	assert_int_equal(s.n, sent);
	assert_int_equal(s.out_of_order, 0);
	assert_false(dp_reader_has_more(w->r));
	teardown(&made);
}

static void young_records_wait(void **state)
{
	struct world *w = *state;
	struct seen s = {0};
	struct timespec later = {0, 120 * 1000000};

	put(w->g, 0, rdtsc(), 0, 1, 1);
	assert_int_equal(dp_reader_drain(w->r, false, collect, &s), 0);
	put(w->g, 1, rdtsc(), 0, 2, 1);
	nanosleep(&later, NULL);
	assert_int_equal(dp_reader_drain(w->r, false, collect, &s), 2);
	assert_int_equal(s.values[0], 1);
	assert_int_equal(s.values[1], 2);
	put(w->g, 1, rdtsc(), 0, 3, 1);
	assert_int_equal(dp_reader_drain(w->r, false, collect, &s), 0);
	assert_int_equal(dp_reader_drain(w->r, true, collect, &s), 1);
}

/* Not all that a program logs in 50 ms is kept in memory: with more than 32 MiB, what is older than 10 ms is due. */
static void many_records_wait_less(void **state)
{
	const u32 words = (DP_RECORD_MAX - sizeof(struct dp_record)) / 8;
	struct world *w = *state;
	struct seen s = {0};
	struct dp_clock c;
	u64 ms, begin;

	dp_clock_start(&c);
	ms = dp_clock_ticks_per_ms(&c);
	for (u64 bytes = 0; bytes < 33u << 20; bytes += DP_RECORD_MAX) {
		put(w->g, 0, rdtsc() + 900 * ms, 0, 1, words); /* not due before the end of this test */
		dp_reader_drain(w->r, false, collect, &s);
		if (!bytes)
			assert_true(dp_reader_known(w->r) <= rdtsc() - 45 * ms);
	}
	begin = rdtsc();
	dp_reader_drain(w->r, false, collect, &s);
	assert_true(dp_reader_known(w->r) >= begin - 15 * ms);
}

static void filler_is_skipped(void **state)
{
	struct world *w = *state;
	struct seen s = {0};
	u64 pad = 8 | (u64)DP_REC_PAD << 16;

	put_words(w->g, 0, &pad, 8);
	put(w->g, 0, rdtsc(), 0, 5, 1);
	put_words(w->g, 0, &pad, 8);
	dp_reader_drain(w->r, true, collect, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.values[0], 5);
	assert_int_equal(damage(w), 0);
}

/* After each kind of damage the ring must work again. */
static void damage_is_counted_and_survived(void **state)
{
	struct world *w = *state;
	static struct seen s;
	struct dp_ring *ring = ring_at(w->g, 0);
	static const u16 lengths[] = {0, 8, 16, 25, 31, 4104, 65528};
	u64 before, words[4];
	struct dp_record rec = {.event = 0};

	for (u32 i = 0; i < DP_ARRAY_SIZE(lengths); i++) {
		rec.len = lengths[i];
		rec.tsc = rdtsc();
		memcpy(words, &rec, sizeof(rec));
		before = damage(w);
		put_words(w->g, 0, words, 32);
		memset(&s, 0, sizeof(s));
		dp_reader_drain(w->r, true, collect, &s);
		assert_int_equal(s.n, 0);
		assert_int_equal(damage(w) - before, 32);
		put(w->g, 0, rdtsc(), 0, 9, 1);
		assert_int_equal(dp_reader_drain(w->r, true, collect, &s), 1);
	}
	before = damage(w);
	put(w->g, 0, rdtsc(), NPROBES, 0, 1);            /* no such probe */
	put(w->g, 1, rdtsc() + ((u64)1 << 50), 0, 0, 1); /* a stamp from the future */
	assert_int_equal(dp_reader_drain(w->r, true, collect, &s), 0);
	assert_int_equal(damage(w) - before, 64);
	ring->head += 1u << 30; /* head where it cannot be */
	before = damage(w);
	assert_int_equal(dp_reader_drain(w->r, true, collect, &s), 0);
	assert_int_equal(damage(w) - before, RING_SIZE);
	ring->head -= 12345 * 8; /* and backwards */
	assert_int_equal(dp_reader_drain(w->r, true, collect, &s), 0);
	ring->tail = 42;
	dp_reader_drain(w->r, true, collect, &s);
	assert_int_equal(ring->tail, ring->head);
	put(w->g, 0, rdtsc(), 0, 9, 1);
	assert_int_equal(dp_reader_drain(w->r, true, collect, &s), 1);
}

static u64 random_state = 88172645463325252ull;

static u64 xorshift(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void touch(const struct dp_record *rec, u64 ns, void *arg)
{
	const u8 *p = (const u8 *)rec;
	u64 *sum = arg;

	assert_true(rec->len >= sizeof(*rec) && rec->len <= DP_RECORD_MAX);
	for (u32 i = 0; i < rec->len; i++)
		*sum += p[i];
	*sum += ns;
}

static void scribbling_cannot_harm(void **state)
{
	struct world *w = *state;
	u64 words = w->size / 8, sum = 0, drained = 0, heads[NRINGS];

	for (u32 i = 0; i < NRINGS; i++)
		heads[i] = (u64)((u8 *)ring_at(w->g, i) - (u8 *)w->g) / 8;
	for (u32 round = 0; round < 20000; round++) {
		struct dp_rings bad;

		for (u64 i = 0, n = xorshift() % 20; i < n; i++) {
			u64 at = xorshift() % words, v = xorshift();

			/* Favour the rings' heads, tails and owners, and values that look like
			 * headers. */
			if (xorshift() % 4 == 0)
				at = heads[xorshift() % NRINGS] + xorshift() % 3 * 8;
			if (xorshift() % 2)
				v &= 0x7ffff8;
			((u64 *)w->g)[at] = v;
		}
		bad = *w->g; /* put() must know the layout, the reader must not ask for it again */
		dp_rings_init(w->g, NCPUS, NRINGS, NPROBES, RING_SIZE);
		put(w->g, (u32)(xorshift() % NRINGS), rdtsc(), 0, 1, 1);
		*w->g = bad;
		drained += (u64)dp_reader_drain(w->r, round % 2, touch, &sum);
	}
	assert_true(damage(w) > 0);
	assert_true(sum > 0 && drained > 1000);
}

static void rings_of_the_dead_are_freed(void **state)
{
	struct world *w = *state;
	struct seen s = {0};
	struct dp_ring *ring = ring_at(w->g, NCPUS), *other = ring_at(w->g, NCPUS + 1);
	pid_t child = fork();

	if (!child)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	ring->owner = (u32)child | 0x80000000u; /* ended, not waited for */
	other->owner = (u32)getpid() | 0x80000000u;
	dp_reader_drain(w->r, false, collect, &s);
	assert_int_equal(ring->owner, 0);
	assert_int_equal(other->owner, (u32)getpid() | 0x80000000u);
	assert_int_equal(waitpid(child, NULL, 0), child);
	ring->owner = (u32)child; /* gone altogether */
	dp_reader_drain(w->r, false, collect, &s);
	assert_int_equal(ring->owner, 0);
}

static bool nobody_lives(u32 tid, void *arg)
{
	*(u32 *)arg = tid;
	return false;
}

static void liveness_can_be_asked_elsewhere(void **state)
{
	struct world *w = *state;
	struct seen s = {0};
	u32 asked = 0;

	dp_reader_set_alive(w->r, nobody_lives, &asked);
	ring_at(w->g, NCPUS)->owner = (u32)getpid() | 0x80000000u;
	dp_reader_drain(w->r, false, collect, &s);
	assert_int_equal(asked, getpid());
	assert_int_equal(ring_at(w->g, NCPUS)->owner, 0);
}

static void counts_are_summed(void **state)
{
	struct world *w = *state;
	struct dp_counts c;

	for (u32 ring = 0; ring < NRINGS; ring++) {
		struct dp_counts *base = (struct dp_counts *)((u8 *)w->g + w->g->counts_off +
							      ring * w->g->counts_stride);

		for (u32 p = 0; p < NPROBES; p++)
			for (u32 k = 0; k < DP_NCOUNTS; k++)
				base[p].v[k] = (ring + 1) * 1000 + p * 10 + k;
	}
	for (u32 p = 0; p < NPROBES; p++) {
		dp_reader_counts(w->r, p, &c);
		for (u32 k = 0; k < DP_NCOUNTS; k++)
			assert_int_equal(c.v[k], 15000 + NRINGS * (p * 10 + k));
	}
	dp_reader_counts(w->r, NPROBES, &c);
	assert_int_equal(c.v[0], 0);
}

static void wrong_layouts_are_refused(void **state)
{
	struct world *w = *state;
	struct dp_reader *r = NULL;
	struct dp_ring_map map;
	struct dp_error err;

#define REFUSED(change)                                          \
	do {                                                     \
		map = w->map;                                    \
		map.change;                                      \
		assert_true(dp_reader_open(&r, &map, &err) < 0); \
		assert_int_equal(err.code, E_RING_LAYOUT);       \
	} while (0)
	REFUSED(at = NULL);
	REFUSED(size -= 4096);
	REFUSED(size = 0);
	REFUSED(g.nrings = 0);
	REFUSED(g.nrings++);
	REFUSED(g.nrings = 0xffffffff);
	REFUSED(g.ncpus = NRINGS + 1);
	REFUSED(g.ring_size = 12288);
	REFUSED(g.ring_size = 0);
	REFUSED(g.ring_size = (u64)1 << 63);
	REFUSED(g.rings_off += 8);
	REFUSED(g.counts_off = 0);
	REFUSED(g.counts_stride = 64);
	REFUSED(g.ring_stride -= 4096);
	REFUSED(g.nprobes = 1 << 20);
#undef REFUSED
}

/* The program can write over the header whenever it likes: nobody who reads looks at it. */
static void headers_are_not_believed(void **state)
{
	struct world *w = *state;
	struct dp_rings good = *w->g, bad = good;
	struct dp_reader *r;
	struct dp_counts c;
	struct seen s = {0};

	bad.nrings = 100000;
	bad.nprobes = 1 << 26;
	bad.counts_off = bad.rings_off = (u64)1 << 46;
	bad.counts_stride = bad.ring_stride = (u64)1 << 40;
	bad.ring_size = (u64)1 << 36;
	bad.size = ~(u64)0;
	bad.magic = 0;
	put(w->g, 1, rdtsc(), 3, 77, 1);
	*w->g = bad;
	assert_int_equal(dp_reader_open(&r, &w->map, NULL), 0);
	dp_reader_keep(r);
	assert_int_equal(dp_reader_drain(r, true, collect, &s), 1);
	assert_int_equal(s.values[0], 77);
	dp_reader_propose(r, 5);
	dp_reader_settle(&w->map, 5);
	dp_reader_counts(r, NPROBES - 1, &c);
	dp_reader_close(r);
	*w->g = good;
	assert_int_equal(ring_at(w->g, 1)->tail, ring_at(w->g, 1)->head);
}

struct marked {
	struct dp_reader *r;
	struct dp_reader_mark v[4];
	u32 n;
};

static void take_mark(const struct dp_record *rec, u64 ns, void *arg)
{
	struct marked *m = arg;

	m->v[m->n++] = dp_reader_mark(m->r);
}

/* Room is given back up to the first record that waits somewhere else, and by the next proposal behind it. */
static void what_waits_elsewhere_is_kept(void **state)
{
	struct world *w = *state;
	struct marked m = {.n = 0};
	u64 second;

	assert_int_equal(dp_reader_open(&m.r, &w->map, NULL), 0);
	dp_reader_keep(m.r);
	put(w->g, 0, rdtsc(), 0, 1, 1);
	second = ring_at(w->g, 0)->head;
	put(w->g, 0, rdtsc(), 0, 2, 1);
	put(w->g, 0, rdtsc(), 0, 3, 1);
	assert_int_equal(dp_reader_drain(m.r, true, take_mark, &m), 3);
	dp_reader_withhold(m.r, m.v[2]);
	dp_reader_withhold(m.r, m.v[1]);
	dp_reader_propose(m.r, 1);
	dp_reader_release(m.r);
	assert_int_equal(ring_at(w->g, 0)->tail, second);
	dp_reader_propose(m.r, 2);
	dp_reader_settle(&w->map, 2);
	assert_int_equal(ring_at(w->g, 0)->tail, ring_at(w->g, 0)->head);
	dp_reader_close(m.r);
}

/* A successor's tail is between the tail and the head, or stays. */
static void made_up_tails_are_none(void **state)
{
	struct world *w = *state;
	struct dp_ring *ring = ring_at(w->g, 0);

	for (u32 i = 0; i < 4; i++)
		put(w->g, 0, rdtsc(), 0, i, 1);
	ring->epoch = 9;
	ring->next = ring->head + 8;
	dp_reader_settle(&w->map, 9);
	assert_int_equal(ring->tail, 0);
	ring->next = ~(u64)7;
	dp_reader_settle(&w->map, 9);
	assert_int_equal(ring->tail, 0);
	ring->next = 64;
	dp_reader_settle(&w->map, 8);
	assert_int_equal(ring->tail, 0);
	dp_reader_settle(&w->map, 9);
	assert_int_equal(ring->tail, 64);
}

/* Its file becomes shorter than what is mapped: what was behind its end is empty from then on. */
static void shortened_files_are_survived(void **state)
{
	u64 size = dp_rings_size(NCPUS, NRINGS, NPROBES, RING_SIZE);
	int fd = memfd_create("rings", MFD_CLOEXEC);
	struct dp_ring_map map = {.size = size};
	struct dp_reader *r;
	struct dp_counts c;
	struct seen s = {0};

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	map.at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map.at, MAP_FAILED);
	dp_rings_init(map.at, NCPUS, NRINGS, NPROBES, RING_SIZE);
	assert_true(dp_ring_map_lay_out(&map, NCPUS, NRINGS, NPROBES, RING_SIZE));
	assert_true(dp_guard_add(map.at, size));
	assert_int_equal(dp_reader_open(&r, &map, NULL), 0);
	put(map.at, 0, rdtsc(), 0, 1, 1);
	assert_int_equal(ftruncate(fd, 0), 0);
	dp_reader_drain(r, false, collect, &s);
	dp_reader_drain(r, true, collect, &s);
	for (u32 i = 0; i < NPROBES; i++)
		dp_reader_counts(r, i, &c);
	dp_reader_close(r);
	dp_guard_drop(map.at);
	munmap(map.at, size);
	close(fd);
}

/* ---- time ---- */

static u64 monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000u + (u64)ts.tv_nsec;
}

static void stamps_agree_with_the_clock(void **state)
{
	struct dp_clock c;
	struct timespec ms = {0, 3000000};
	u64 worst = 0;

	dp_clock_start(&c);
	for (int i = 0; i < 100; i++) {
		u64 best = ~(u64)0, tsc = 0, before = 0, after = 0, ns;

		/* A stamp with a close bracket, converted after the next pair was taken. */
		for (int k = 0; k < 5; k++) {
			u64 b = monotonic(), t = rdtsc(), a = monotonic();

			if (a - b < best) {
				best = a - b;
				tsc = t;
				before = b;
				after = a;
			}
		}
		nanosleep(&ms, NULL);
		dp_clock_mark(&c);
		ns = dp_clock_ns(&c, tsc);
		if (ns < before)
			worst = DP_MAX(worst, before - ns);
		else if (ns > after)
			worst = DP_MAX(worst, ns - after);
	}
	printf("# figure: stamp conversion is at most %llu ns outside its bracket\n", (unsigned long long)worst);
	assert_true(worst < 100000); /* machines under load; usually below 100 ns */
}

static void time_never_runs_backwards(void **state)
{
	struct dp_clock c = {.n = 0};
	u64 tsc = 5000000000, ns = 1000000000, last = 0, start = 0;

	dp_clock_add(&c, tsc, ns);
	for (int i = 0; i < 200; i++) {
		/* A counter of about 3 GHz, read with an error of up to 300 ns either way. */
		tsc += 3000000 + xorshift() % 1000;
		ns += 1000000 + xorshift() % 600 - 300;
		dp_clock_add(&c, tsc, ns);
	}
	start = c.pair[0].tsc - 10000000;
	for (u64 t = start; t < tsc + 10000000; t += 9973) {
		u64 now = dp_clock_ns(&c, t);

		assert_true(now >= last);
		last = now;
	}
	for (u32 i = 0; i < c.n; i++)
		assert_int_equal(dp_clock_ns(&c, c.pair[i].tsc), c.pair[i].ns);
	assert_int_equal(dp_clock_ns(&c, 0) < ns, 1);
	assert_true(dp_clock_ns(&c, ~(u64)0) > ns);
	dp_clock_add(&c, 1000, ns + 50); /* the counter was set back */
	assert_int_equal(dp_clock_ns(&c, 1000), ns + 50);
	assert_true(dp_clock_ns(&c, 1000 + 3000000) > ns + 900000);
}

/* ---- many producers ---- */

#define THREADS 4
#define RECORDS 100000u

struct producer {
	struct dp_rings *g;
	u32 id;
	u64 sent, lost;
};

static void *produce(void *arg)
{
	struct producer *p = arg;
	u32 n = p->g->nrings - p->g->ncpus;

	for (u64 i = 0; i < RECORDS; i++) {
		bool done = false;

		for (u32 k = 0; k < n && !done; k++) {
			struct dp_ring *r = ring_at(p->g, p->g->ncpus + (p->id + k) % n);
			u32 nobody = 0;

			if (!__atomic_compare_exchange_n(&r->owner, &nobody, (u32)gettid() | 0x80000000u, false,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				continue;
			done = put(p->g, p->g->ncpus + (p->id + k) % n, rdtsc(), p->id, (u64)p->id << 32 | i,
				   1 + i % 5);
			__atomic_store_n(&r->owner, 0, __ATOMIC_RELEASE);
			break;
		}
		if (done)
			p->sent++;
		else
			p->lost++;
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

struct check {
	u64 next[THREADS], got;
	bool wrong;
};

static void check_sequence(const struct dp_record *rec, u64 ns, void *arg)
{
	struct check *c = arg;
	const u64 *payload = (const u64 *)(rec + 1);
	u32 id = (u32)(payload[0] >> 32), words = (u32)(rec->len - sizeof(*rec)) / 8;
	u64 i = payload[0] & 0xffffffff;

	c->got++;
	if (id >= THREADS || rec->event != id || i < c->next[id] || words != 1 + i % 5) {
		c->wrong = true;
		return;
	}
	for (u32 k = 1; k < words; k++)
		if (payload[k] != payload[0])
			c->wrong = true;
	c->next[id] = i + 1;
}

static void many_producers_lose_nothing_untold(void **state)
{
	struct world *w = *state;
	struct producer p[THREADS];
	struct check c = {0};
	pthread_t t[THREADS];
	u64 sent = 0, lost = 0;

	for (u32 i = 0; i < THREADS; i++) {
		p[i] = (struct producer){.g = w->g, .id = i};
		assert_int_equal(pthread_create(&t[i], NULL, produce, &p[i]), 0);
	}
	for (int running = 1; running;) {
		running = 0;
		for (u32 i = 0; i < THREADS; i++)
			running |= __atomic_load_n(&p[i].sent, __ATOMIC_RELAXED) +
				       __atomic_load_n(&p[i].lost, __ATOMIC_RELAXED) <
				   RECORDS;
		dp_reader_drain(w->r, false, check_sequence, &c);
	}
	for (u32 i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		sent += p[i].sent;
		lost += p[i].lost;
	}
	dp_reader_drain(w->r, true, check_sequence, &c);
	assert_false(c.wrong);
	assert_int_equal(sent + lost, THREADS * RECORDS);
	assert_int_equal(c.got, sent);
	assert_int_equal(damage(w), 0);
	printf("# figure: %llu records read while %u threads wrote, %llu found no room\n", (unsigned long long)c.got,
	       THREADS, (unsigned long long)lost);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(records_come_in_time_order),
	    TEST(late_commits_are_sorted_within_a_ring),
	    TEST(records_wrap_word_by_word),
	    TEST(a_full_ring_is_read_whole),
	    TEST(a_drain_takes_a_part_and_says_so),
	    TEST(young_records_wait),
	    TEST(many_records_wait_less),
	    TEST(filler_is_skipped),
	    TEST(damage_is_counted_and_survived),
	    TEST(scribbling_cannot_harm),
	    TEST(rings_of_the_dead_are_freed),
	    TEST(liveness_can_be_asked_elsewhere),
	    TEST(counts_are_summed),
	    TEST(wrong_layouts_are_refused),
	    TEST(headers_are_not_believed),
	    TEST(what_waits_elsewhere_is_kept),
	    TEST(made_up_tails_are_none),
	    TEST(shortened_files_are_survived),
	    TEST(many_producers_lose_nothing_untold),
	    cmocka_unit_test(stamps_agree_with_the_clock),
	    cmocka_unit_test(time_never_runs_backwards),
	};

	return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
