/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Rings whose records are taken as they lie there, recorded so, and put in order when they are shown: all of them, in
 * the order of their stamps, whatever the program writes into the rings, and however long order stays uncertain.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/abi-record.h"
#include "log/format.h"
#include "log/reader.h"
#include "log/recording-read.h"

#define NCPUS 2u
#define NRINGS 3u
#define NPROBES 2u
#define RING_SIZE (1u << 20)
#define WORDS 4 /* of a record's payload: the first is its number */
#define LIKE_FILLER (8 | (u64)DP_REC_PAD << 16)

struct world {
	struct dp_ring_map map;
	struct dp_reader *r;
};

static struct dp_ring *ring_of(struct world *w, u32 i)
{
	return dp_ring_of(&w->map, i);
}

static bool put_of(struct world *w, u32 ring, u64 tsc, u64 number, u32 payload)
{
	struct {
		struct dp_record head;
		u64 words[WORDS];
	} rec = {.head = {.tid = 100 + ring, .cpu = ring, .tsc = tsc},
		 .words = {number, LIKE_FILLER, LIKE_FILLER, LIKE_FILLER}};
	struct dp_ring *r = ring_of(w, ring);
	u64 words[sizeof(rec) / 8];

	rec.head.len = (u16)(sizeof(rec.head) + 8 * payload);
	if (r->head + rec.head.len - r->tail > RING_SIZE)
		return false;
	memcpy(words, &rec, sizeof(rec));
	for (u64 i = 0; i < rec.head.len; i += 8)
		memcpy((u8 *)r + 4096 + ((r->head + i) & (RING_SIZE - 1)), &words[i / 8], 8);
	__atomic_store_n(&r->head, r->head + rec.head.len, __ATOMIC_RELEASE);
	return true;
}

static bool put(struct world *w, u32 ring, u64 tsc, u64 number)
{
	return put_of(w, ring, tsc, number, WORDS);
}

static u64 stamp(void)
{
	return __builtin_ia32_rdtsc();
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	u64 size = dp_rings_size(NCPUS, NRINGS, NPROBES, RING_SIZE);

	w->map.at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w->map.size = size;
	assert_ptr_not_equal(w->map.at, MAP_FAILED);
	dp_rings_init(w->map.at, NCPUS, NRINGS, NPROBES, RING_SIZE);
	assert_true(dp_ring_map_lay_out(&w->map, NCPUS, NRINGS, NPROBES, RING_SIZE));
	assert_int_equal(dp_reader_open(&w->r, &w->map, NULL), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	dp_reader_close(w->r);
	munmap(w->map.at, w->map.size);
	free(w);
	return 0;
}

static u64 damage(const struct world *w)
{
	u64 bytes;

	dp_reader_damage(w->r, &bytes, NULL);
	return bytes;
}

/* ---- what comes out of the rings ---- */

struct taken {
	u64 n, parts, largest;
	u64 next[NRINGS]; /* the number that a ring's next record has at least */
	u64 known, newest;
	bool wrong;
	bool whole; /* the last part has told so */
};

static void look(struct dp_reader_part *part, void *arg)
{
	struct taken *t = arg;
	u64 n = 0, since = ~(u64)0, until = 0;

	t->wrong |= part->known < t->known; /* what was certain stays so */
	t->known = part->known;
	t->whole = !part->n;
	if (t->whole) {
		t->wrong |= part->size || part->known < t->newest;
		return;
	}
	t->parts++;
	t->largest = DP_MAX(t->largest, part->size);
	for (u64 at = 0; at < part->size; n++) {
		const struct dp_record *rec = (const struct dp_record *)(part->bytes + at);
		const u64 *payload = (const u64 *)(rec + 1);

		t->wrong |= rec->tid != 100 + part->ring || payload[0] < t->next[part->ring];
		t->wrong |= rec->tsc < part->known;
		t->newest = DP_MAX(t->newest, rec->tsc);
		t->next[part->ring] = payload[0] + 1;
		since = DP_MIN(since, rec->tsc);
		until = DP_MAX(until, rec->tsc);
		at += rec->len;
	}
	t->wrong |= n != part->n || since != part->since || until != part->until;
	t->n += n;
}

static void all_records_come_as_they_lie(void **state)
{
	struct world *w = *state;
	struct taken t = {0};
	u64 sent = 0;

	for (u32 round = 0; round < 20; round++) { /* several times around */
		for (u32 i = 0; i < 9000; i++)
			sent += put(w, (i / 7) % NRINGS, stamp(), round * 9000 + i);
		dp_reader_take(w->r, false, look, &t);
	}
	dp_reader_take(w->r, true, look, &t);
	assert_int_equal(t.n, sent);
	assert_int_equal(sent, 20 * 9000);
	assert_false(t.wrong);
	assert_in_range(t.largest, 1, DP_READER_PART);
	assert_int_equal(damage(w), 0);
	assert_int_equal(dp_reader_take(w->r, true, look, &t), 0);
}

static void what_has_no_room_in_a_turn_comes_with_the_next(void **state)
{
	struct world *w = *state;
	struct taken t = {0};
	u64 sent = 0, mixed = 1;

	for (u32 round = 0; round < 200; round++) {
		for (u32 i = 0; i < NRINGS; i++)
			while (put_of(w, i, stamp(), sent, 1 + (u32)(mixed >> 60) % WORDS)) { /* turns end anywhere */
				mixed = mixed * 6364136223846793005u + 1442695040888963407u;
				sent++;
			}
		dp_reader_take(w->r, false, look, &t);
		assert_true(dp_reader_has_more(w->r) && t.whole);
	}
	dp_reader_take(w->r, true, look, &t);
	assert_false(dp_reader_has_more(w->r));
	assert_int_equal(t.n, sent);
	assert_false(t.wrong);
	assert_int_equal(damage(w), 0);
}

/* Of full rings the one that is farthest behind: what a file has at any time lacks little. */
static void rings_come_side_by_side(void **state)
{
	struct world *w = *state;
	struct taken t = {0};
	u64 sent = 0;

	while (put(w, 0, stamp(), sent) && put(w, 1, stamp(), sent))
		sent++;
	dp_reader_take(w->r, true, look, &t);
	assert_in_range(t.n, 2 * sent, 2 * sent + 1);
	assert_false(t.wrong);
	assert_in_range(t.largest, 1, 2 * 4096);
	assert_in_range(t.parts, 2 * RING_SIZE / (2 * 4096), 2 * RING_SIZE / 4096 + 2);
	assert_true(t.known > 0);
}

static void records_behind_a_forged_one_are_dropped(void **state)
{
	static const u16 lengths[] = {0, 8, 25, 4104, 65528};
	struct world *w = *state;
	u64 before, at;

	for (u32 i = 0; i < DP_ARRAY_SIZE(lengths); i++) {
		struct taken t = {0};

		put(w, 0, stamp(), 1);
		at = ring_of(w, 0)->head;
		put(w, 0, stamp(), 2);
		put(w, 0, stamp(), 3);
		put(w, 1, stamp(), 4);
		memcpy((u8 *)ring_of(w, 0) + 4096 + (at & (RING_SIZE - 1)), &lengths[i], sizeof(lengths[i]));
		before = damage(w);
		assert_int_equal(dp_reader_take(w->r, true, look, &t), 2);
		assert_int_equal(damage(w) - before, 2 * (sizeof(struct dp_record) + 8 * WORDS));
		assert_false(t.wrong);
		put(w, 0, stamp(), 5);
		assert_int_equal(dp_reader_take(w->r, true, look, &t), 1);
	}
	put(w, 0, stamp() + ((u64)1 << 50), 6); /* from the future */
	assert_int_equal(dp_reader_take(w->r, true, look, &(struct taken){0}), 0);
}

static void filler_is_left_out(void **state)
{
	struct world *w = *state;
	struct taken t = {0};
	u64 pad = LIKE_FILLER;
	struct dp_ring *r = ring_of(w, 0);

	for (u32 i = 0; i < 3; i++) {
		put(w, 0, stamp(), i);
		memcpy((u8 *)r + 4096 + r->head, &pad, 8);
		r->head += 8;
	}
	assert_int_equal(dp_reader_take(w->r, false, look, &t), 3);
	assert_int_equal(t.parts, 1);
	assert_false(t.wrong);
	assert_int_equal(damage(w), 0);
}

/* For a recorder that may be killed. */
static void room_is_given_back_when_it_is_said(void **state)
{
	struct world *w = *state;
	struct taken t = {0};

	dp_reader_keep(w->r);
	put(w, 0, stamp(), 0);
	assert_int_equal(dp_reader_take(w->r, false, look, &t), 1);
	assert_int_equal(ring_of(w, 0)->tail, 0);
	dp_reader_propose(w->r, 7);
	assert_int_equal(ring_of(w, 0)->next, ring_of(w, 0)->head);
	dp_reader_release(w->r);
	assert_int_equal(ring_of(w, 0)->tail, ring_of(w, 0)->head);
}

/* ---- recordings ---- */

static struct dp_field field = {.name = "n", .type = DP_FIELD_U64, .size = 8};
static struct dp_layout layout = {.nfields = 1, .fixed_size = 8, .fields = &field};
static const struct dp_event_info event = {.group = "g", .name = "", .symbol = "f", .layout = &layout};

static void put_source(void *arg, u32 source, struct dp_line *to)
{
	struct dp_recording_source s = {.pid = 7};

	dp_line_bytes(to, (const char *)&s, sizeof(s));
}

static void put_rows(void *arg, struct dp_line *to)
{
}

static u64 lasted(void *arg)
{
	return 1;
}

static const struct dp_recording_env facts = {NULL, put_source, put_rows, lasted, .has_rings = true};

struct recording {
	struct dp_formatter *f;
	FILE *to;
	int fd;
	char path[40];
};

static void begin(struct recording *rec)
{
	const struct dp_format_env env = {.events = &event, .nevents = 1, .recording = &facts};

	rec->fd = memfd_create("recording", MFD_CLOEXEC);
	snprintf(rec->path, sizeof(rec->path), "/proc/self/fd/%d", rec->fd);
	rec->to = fdopen(dup(rec->fd), "w");
	assert_int_equal(dp_formatter_new(&rec->f, DP_FORMAT_RECORDING, rec->to, &env), 0);
	dp_formatter_source(rec->f, 0, 7, "main");
	dp_formatter_head(rec->f);
	assert_true(dp_formatter_takes_parts(rec->f));
}

static void end(struct recording *rec)
{
	assert_null(dp_formatter_finish(rec->f));
	dp_formatter_free(rec->f);
	fclose(rec->to);
}

static void write_part(struct dp_reader_part *part, void *arg)
{
	struct recording *rec = arg;

	dp_formatter_part(rec->f, part);
}

struct shown {
	struct dp_recording *r;
	u64 n, gaps, last_ns, last, done, total, left_out;
	bool wrong;
};

static bool show(void *arg, u32 source, const struct dp_record *rec)
{
	struct shown *s = arg;
	u64 number = ((const u64 *)(rec + 1))[0];

	if (!s->n)
		dp_recording_place(s->r, &s->done, &s->total);
	s->wrong |= rec->tsc < s->last_ns || (s->n && number <= s->last);
	s->gaps += number != s->n;
	s->last_ns = rec->tsc;
	s->last = number;
	s->n++;
	return true;
}

static int play(const struct recording *rec, struct shown *s)
{
	static const struct dp_recording_ops ops = {.record = show};
	struct dp_error err;
	int r;

	assert_int_equal(dp_recording_open(&s->r, rec->path, &err), 0);
	r = dp_recording_play(s->r, &ops, s, &err);
	s->left_out = dp_recording_left_out(s->r);
	dp_recording_close(s->r);
	return r;
}

static void what_was_recorded_so_is_shown_in_order(void **state)
{
	struct world *w = *state;
	struct recording rec;
	struct shown s = {0};
	u64 sent = 0;

	begin(&rec);
	for (u32 round = 0; round < 20; round++) {
		for (u32 i = 0; i < 5000; i++) {
			u64 before = stamp() + 1000; /* one nanosecond holds several stamps */

			while (stamp() < before)
				;
			sent += put(w, i % 5 ? i % NRINGS : 0, stamp(), sent);
		}
		dp_reader_take(w->r, false, write_part, &rec);
	}
	dp_reader_take(w->r, true, write_part, &rec);
	end(&rec);
	assert_int_equal(play(&rec, &s), 0);
	assert_int_equal(s.n, sent);
	assert_false(s.wrong);
	close(rec.fd);
}

/* Wherever it ends, and if all came in one turn. */
static void what_is_cut_shows_the_first_records_of_all(void **state)
{
	struct world *w = *state;
	struct recording rec;
	u64 sent = 0, size, most = 0;

	begin(&rec);
	for (u32 round = 0; round < 4; round++) {
		for (u32 i = 0; i < 9000; i++) {
			u64 before = stamp() + 1000;

			while (stamp() < before)
				;
			sent += put(w, (u32)(sent / 100) % NRINGS, stamp(), sent);
		}
		if (round < 2)
			dp_reader_take(w->r, false, write_part, &rec);
	}
	dp_reader_take(w->r, true, write_part, &rec);
	end(&rec);
	size = (u64)lseek(rec.fd, 0, SEEK_END);
	for (u64 left = size - 8; left > size / 4; left -= DP_MIN(left, (size / 60) & ~7ull)) {
		struct shown s = {0};

		assert_int_equal(ftruncate(rec.fd, (off_t)left), 0);
		assert_int_equal(play(&rec, &s), 0);
		assert_int_equal(s.gaps, 0);
		assert_true(s.n + s.left_out <= sent);
		most = DP_MAX(most, s.n);
	}
	assert_in_range(most, sent * 9 / 10, sent); /* what was in the last turn, too */
	close(rec.fd);
}

/* The parts are written here as anybody might: nothing is ever told to be certain. */
static void what_is_never_certain_takes_no_more_memory(void **state)
{
	static struct {
		struct dp_record head;
		u64 words[WORDS];
	} records[DP_READER_PART / 56];
	struct recording rec;
	struct shown s = {0};
	u64 sent = 0;

	begin(&rec);
	for (u32 round = 0; round < 400; round++) { /* 100 MiB */
		struct dp_reader_part part = {.bytes = (u8 *)records, .size = sizeof(records)};

		for (part.n = 0; part.n < DP_ARRAY_SIZE(records); part.n++) {
			records[part.n].head = (struct dp_record){.len = sizeof(records[0]), .tid = 1, .tsc = sent};
			records[part.n].words[0] = sent++;
		}
		dp_formatter_part(rec.f, &part);
	}
	end(&rec);
	assert_int_equal(play(&rec, &s), 0);
	assert_int_equal(s.n, sent);
	assert_false(s.wrong);
	assert_in_range(s.done, 1, s.total * 3 / 4); /* the first one was shown long before the last one was read */
	close(rec.fd);
}

/* Each record is older than all before it, and each time more is certain: that must not take the square of all. */
static void records_that_come_backwards_are_shown(void **state)
{
	struct {
		struct dp_record head;
		u64 words[WORDS];
	} one = {.head = {.len = sizeof(one), .tid = 1}};
	struct recording rec;
	struct shown s = {0};
	u64 sent = 200000;

	begin(&rec);
	for (u64 i = 0; i < sent; i++) {
		struct dp_reader_part part = {.n = 1, .bytes = (u8 *)&one, .size = sizeof(one), .since = 1 + i};

		one.head.tsc = 1000000000 - i;
		one.words[0] = sent - i;
		dp_formatter_part(rec.f, &part);
	}
	end(&rec);
	assert_int_equal(play(&rec, &s), 0);
	assert_int_equal(s.n, sent);
	close(rec.fd);
}

/* In the file: what is beside it is shown. */
static void a_forged_record_costs_its_part(void **state)
{
	struct world *w = *state;
	struct recording rec;
	struct shown s = {0};
	struct dp_recording_block b;
	u16 len = 12;
	u64 at = sizeof(struct dp_recording_head);

	begin(&rec);
	for (u32 i = 0; i < 10; i++) {
		put(w, 0, stamp(), i);
		put(w, 1, stamp() + 1000000, 100 + i);
	}
	dp_reader_take(w->r, true, write_part, &rec);
	end(&rec);
	while (pread(rec.fd, &b, sizeof(b), (off_t)at) == sizeof(b) && b.kind != DP_RECORDING_RING)
		at += sizeof(b) + b.size;
	at += sizeof(b) + sizeof(struct dp_recording_ring) + 3 * sizeof(struct dp_record) + 3 * 8 * WORDS;
	assert_int_equal(pwrite(rec.fd, &len, sizeof(len), (off_t)at), sizeof(len));
	assert_true(play(&rec, &s) < 0);
	assert_int_equal(s.n, 3 + 10);
	assert_false(s.wrong);
	close(rec.fd);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(all_records_come_as_they_lie),
	    TEST(what_has_no_room_in_a_turn_comes_with_the_next),
	    TEST(rings_come_side_by_side),
	    TEST(records_behind_a_forged_one_are_dropped),
	    TEST(filler_is_left_out),
	    TEST(room_is_given_back_when_it_is_said),
	    TEST(what_was_recorded_so_is_shown_in_order),
	    TEST(what_is_cut_shows_the_first_records_of_all),
	    TEST(what_is_never_certain_takes_no_more_memory),
	    TEST(records_that_come_backwards_are_shown),
	    TEST(a_forged_record_costs_its_part),
	};

	return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
