/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Log rings that the program writes over at random, between and during the reader's looks at them: the header, heads, tails, owners, epochs,
 * counts, records that were good, and the length of the file itself. The reader, the drain into text and JSON and
 * a successor's settling must stay inside the mapping and hand out sound records only.
 * Usage: fuzz-rings [SECONDS [SEED]]; 0 seconds = endless. With DP_SHORT_RUN it is a test that lasts seconds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../unit/machine.h"
#include "log/clock.h"
#include "log/format.h"
#include "log/log-guard.h"
#include "log/reader.h"
#include "log/log-rpn.h"

#define NCPUS 2u
#define NRINGS 4u
#define NPROBES 3u
#define RING 8192u

static const char *const lines[NPROBES] = {
    "p f a=+0(%di):x32[4] s=+0(%si):string c=$comm",
    "p f x=+0(%di):x64[8] b=%ax:b3@5/32 y=%si:symbol",
    "r f $retval:s64",
};

static u64 state, rounds, handed, cut, opened;
static struct dp_event events[NPROBES];
static struct dp_event_info infos[NPROBES];
static struct dp_formatter *formatters[DP_NFORMATS];
static bool wrong;

static u32 below(u32 n)
{
	return (u32)(next_random(&state) % n);
}

static bool alive(u32 tid, void *arg)
{
	(void)arg;
	return tid & 1;
}

static bool comm(void *arg, u32 *tid, char buf[16])
{
	(void)arg;
	memcpy(buf, "name\033[2J", 9);
	return *tid & 1;
}

static void take(const struct dp_record *rec, u64 ns, void *arg)
{
	struct dp_rpn_context c = {.module = "m", .comm = "c\n", .fields = rec->cpu};
	struct dp_line line = {0};

	(void)arg;
	handed++;
	if (rec->len < sizeof(*rec) || rec->len > DP_RECORD_MAX || rec->len % 8 || rec->event >= NPROBES)
		wrong = true;
	for (u32 f = 0; f < DP_NFORMATS; f++)
		if (formatters[f])
			dp_formatter_record(formatters[f], rec, ns);
	if (rec->flags & DP_REC_RPN) {
		for (u32 f = 0; f < DP_NFORMATS; f++) {
			dp_line_reset(&line);
			if (dp_format_of_programs((enum dp_format)f))
				dp_rpn_log(&line, (enum dp_format)f, rec, &c);
		}
	}
	dp_line_free(&line);
}

/* The same of those that come as they lie there; a recording has them as a whole. */
static void take_part(struct dp_reader_part *part, void *arg)
{
	u32 n = 0;

	if (!part->n ? part->size : part->size > DP_READER_PART || part->since > part->until)
		wrong = true;
	for (u64 at = 0; at < part->size; n++) {
		const struct dp_record *rec = (const struct dp_record *)(part->bytes + at);

		if (part->size - at < sizeof(*rec) || rec->len > part->size - at)
			wrong = true;
		if (wrong)
			return;
		take(rec, rec->tsc, arg);
		at += rec->len;
	}
	wrong |= n != part->n;
	dp_formatter_part(formatters[DP_FORMAT_RECORDING], part);
}

/* ---- what a program does to them ---- */

static u64 value(const struct dp_ring_map *m)
{
	switch (below(8)) {
	case 0:
		return 0;
	case 1:
		return ~0ull << below(64);
	case 2:
		return below(RING * 2) & ~7u;
	case 3:
		return 1ull << below(64);
	case 4:
		return dp_ring_of(m, below(NRINGS))->head + 8 * below(8);
	case 5:
		return m->size - below(64);
	case 6:
		return dp_clock_stamp() + below(1u << 30);
	default:
		return next_random(&state);
	}
}

/* A good record, so that a reader goes on behind it. */
static void put_record(const struct dp_ring_map *m)
{
	struct dp_ring *ring = dp_ring_of(m, below(NRINGS));
	struct dp_record rec = {
	    .event = below(NPROBES), .tid = below(100000), .cpu = below(4), .tsc = dp_clock_stamp()};
	u64 head = ring->head & ~7ull;
	u8 *data = (u8 *)ring + 4096;

	rec.len = (u16)(sizeof(rec) + 8 * below(40));
	rec.flags = (u16)(below(4) ? below(4) == 0 ? DP_REC_RPN | below(0x100) : below(2) : next_random(&state));
	for (u64 i = 0; i < rec.len; i += 8) {
		u64 word = i < sizeof(rec) ? ((u64 *)&rec)[i / 8] : below(3) ? below(64) : next_random(&state);

		memcpy(data + ((head + i) & (RING - 1)), &word, 8);
	}
	ring->head = head + rec.len;
	if (ring->head - ring->tail > RING && below(8))
		ring->head = ring->tail;
}

static void scribble(const struct dp_ring_map *m)
{
	struct dp_ring *ring = dp_ring_of(m, below(NRINGS));
	u64 *words = (u64 *)m->at;

	switch (below(8)) {
	case 0: /* the header */
		words[below(sizeof(struct dp_rings) / 8)] = value(m);
		break;
	case 1:
		((u64 *)ring)[below(24)] = value(m);
		break;
	case 2:
		ring->head = value(m);
		break;
	case 3:
		ring->epoch = below(4);
		ring->next = value(m);
		break;
	case 4: /* anything */
		words[next_random(&state) % (m->size / 8)] = value(m);
		break;
	default: /* in a record */
		((u64 *)((u8 *)ring + 4096))[(ring->tail & (RING - 1)) / 8] ^= next_random(&state) >> below(64);
	}
}

/* ---- one life of a reader ---- */

static int running; /* atomic */

static void *meanwhile(void *arg)
{
	const struct dp_ring_map *m = arg;
	u64 x = 88172645463325252ull;

	while (__atomic_load_n(&running, __ATOMIC_RELAXED)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		((volatile u64 *)m->at)[x % (m->size / 8)] = x >> (x & 31);
	}
	return NULL;
}

static void life(void)
{
	struct dp_ring_map m = {.size = dp_rings_size(NCPUS, NRINGS, NPROBES, RING)};
	int fd = memfd_create("dprobes-rings", MFD_CLOEXEC);
	bool keep = below(2), thread = below(8) == 0, cuts = below(16) == 0, parts = below(2);
	struct dp_reader *r;
	struct dp_counts counts;
	pthread_t t;

	if (ftruncate(fd, (off_t)m.size) ||
	    (m.at = mmap(NULL, m.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ||
	    !dp_ring_map_lay_out(&m, NCPUS, NRINGS, NPROBES, RING) || !dp_guard_add(m.at, m.size))
		exit(1);
	*m.at = m.g;
	for (u32 i = below(20); i; i--)
		put_record(&m);
	for (u32 i = below(3); i; i--)
		scribble(&m);
	dp_reader_settle(&m, below(4));
	if (dp_reader_open(&r, &m, NULL))
		exit(1);
	opened++;
	dp_reader_set_alive(r, alive, NULL);
	if (keep)
		dp_reader_keep(r);
	__atomic_store_n(&running, 1, __ATOMIC_RELAXED);
	if (thread && pthread_create(&t, NULL, meanwhile, &m))
		exit(1);
	for (u32 k = 1 + below(6); k; k--) {
		for (u32 i = below(12); i; i--)
			put_record(&m);
		for (u32 i = below(6); i; i--)
			scribble(&m);
		if (cuts && below(3) == 0)
			cut += !ftruncate(fd, (off_t)(below((u32)m.size) & (below(2) ? ~4095u : ~0u)));
		if (parts)
			dp_reader_take(r, k == 1 || below(4) == 0, take_part, NULL);
		else
			dp_reader_drain(r, k == 1 || below(4) == 0, take, NULL);
		if (keep && below(2)) {
			dp_reader_propose(r, 1 + below(3));
			dp_reader_release(r);
		}
		dp_reader_counts(r, below(NPROBES + 1), &counts);
	}
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
	if (thread)
		pthread_join(t, NULL);
	dp_reader_close(r);
	dp_guard_drop(m.at);
	munmap(m.at, m.size);
	close(fd);
}

int main(int argc, char **argv)
{
#ifdef DP_SHORT_RUN
	long seconds = 3;
#else
	long seconds = argc > 1 ? atol(argv[1]) : 10;
#endif
	static const struct dp_event_env env = {.symbol = NULL};
	struct dp_format_env fe = {.events = infos, .nevents = NPROBES, .comm = comm};
	FILE *null = fopen("/dev/null", "we");
	time_t end = time(NULL) + seconds;
	struct dp_error err = {0};

	for (u32 i = 0; i < NPROBES; i++) {
		if (dp_event_compile(&events[i], lines[i], false, &env, &err)) {
			printf("Bail out! %s: %s\n", lines[i], err.detail);
			return 1;
		}
		infos[i] = (struct dp_event_info){"dprobes", events[i].name,      "f",
						  0,         events[i].is_return, &events[i].prog.layout};
	}
	for (u32 f = 0; f < DP_NFORMATS; f++)
		if (!dp_format_is_directory((enum dp_format)f) &&
		    dp_formatter_new(&formatters[f], (enum dp_format)f, null, &fe))
			return 1;
	state = argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : (u64)time(NULL) * 0x9e3779b97f4a7c15ull | 1;
	printf("# seed 0x%llx\n", (unsigned long long)state);
	while (!wrong && (!seconds || time(NULL) < end))
		for (u32 k = 0; k < 50 && !wrong; k++, rounds++)
			life();
	for (u32 f = 0; f < DP_NFORMATS; f++)
		if (formatters[f])
			dp_formatter_free(formatters[f]);
	for (u32 i = 0; i < NPROBES; i++)
		dp_event_free(&events[i]);
	fclose(null);
	printf("# %llu readers, %llu records handed out, %llu files cut\n", (unsigned long long)opened,
	       (unsigned long long)handed, (unsigned long long)cut);
	ok(!wrong, "rings with any content: the reader stays inside and hands out sound records");
	ok(handed > 100 && cut > 0, "records came, and files were cut");
	return done();
}
