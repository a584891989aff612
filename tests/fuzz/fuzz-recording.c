/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Recordings with changed bytes, and cut ones, through the reader and all formats. What was not changed must come out
 * as it went in. Nothing may crash, read beyond its memory or go on for ever.
 * Usage: fuzz-recording [SECONDS [SEED [ONLY]]]; 0 seconds = endless; ONLY: one number of a run. With DP_SHORT_RUN it
 * is a test that lasts seconds.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/machine.h"
#include "log/recording-read.h"
#include "samples.h"

#define RECORDS 300
#define COUNT_OPENED 2
#define COUNT_RECORDS 3

static u64 state, seed;
static char *sample;
static size_t sample_size;
static u64 sample_sum; /* of the records that were made */

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=1024";
}

static u64 below(u64 n)
{
	return next_random(&state) % n;
}

/* ---- the sample ---- */

static struct dp_field fields[] = {
    {.name = "n", .type = DP_FIELD_U32, .offset = 16, .size = 4},
    {.name = "text", .type = DP_FIELD_STRING, .offset = 20, .size = 4},
    {.name = "at", .type = DP_FIELD_SYMBOL, .offset = 24, .size = 8},
    {.name = "bt", .type = DP_FIELD_FRAME, .offset = 32, .size = 8, .count = 4},
};
static struct dp_layout layouts[] = {
    {.nfields = DP_ARRAY_SIZE(fields), .fixed_size = 64, .has_faultmask = 1, .has_ret_addr = 1, .fields = fields},
    {.fixed_size = 0},
};
static const struct dp_event_info events[] = {
    {.group = "dprobes", .name = "", .symbol = "f", .function = 0x1000, .layout = &layouts[1]},
    {.group = "dprobes", .name = "", .symbol = "f", .function = 0x1000, .is_return = true, .layout = &layouts[0]},
    {.group = "g-1", .name = "named", .symbol = "h", .offset = 4, .layout = &layouts[0]},
};

static bool symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	dp_format(buf, size, "s%llu+0x%llx", (unsigned long long)addr / 256, (unsigned long long)addr % 256);
	return addr % 3;
}

static bool name_thread(void *arg, u32 *tid, char comm[16])
{
	dp_format(comm, 16, "t%u", *tid);
	*tid += 1000;
	return true;
}

static void put_source(void *arg, u32 source, struct dp_line *to)
{
	struct dp_recording_source s = {.pid = 100 + source, .nmaps = 1, .comm = "sample"};
	struct dp_recording_map m = {.lo = 0x1000, .hi = 0x2000, .build_id = "0123", .path = 5};

	dp_line_bytes(to, (const char *)&s, sizeof(s));
	dp_line_bytes(to, (const char *)&m, sizeof(m));
	dp_recording_put_text(to, "/bin");
}

static void put_rows(void *arg, struct dp_line *to)
{
	struct dp_recording_row row = {.hits = 1, .via = "jump", .name = "f"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(events); i++)
		dp_line_bytes(to, (const char *)&row, sizeof(row));
}

static void put_budget(void *arg, struct dp_line *to)
{
	struct dp_recording_budget b = {.budget = 100, .hits = 3, .cpu_ns = 4, .cost_ns = 5};
	struct dp_recording_governed g = {.row = 1, .times = 2, .out_ns = 3, .of_ns = 4, .missed = 5};

	dp_line_bytes(to, (const char *)&b, sizeof(b));
	dp_line_bytes(to, (const char *)&g, sizeof(g));
}

static u64 lasted(void *arg)
{
	return 1;
}

static u64 sum_of(const struct dp_record *rec)
{
	const u8 *p = (const u8 *)(rec + 1);
	u64 sum = rec->tid * 31 + rec->event * 7 + rec->len + rec->cpu;

	for (u32 i = 0; i < rec->len - sizeof(*rec); i++)
		sum = sum * 131 + p[i];
	return sum;
}

static void make_record(struct dp_formatter *f, u64 i)
{
	u64 words[16] = {0,      0x4000 + below(64), i | (u64)(64 | 5 << 16) << 32, 0x5000 + below(64), 0x1004,
			 0x6000, 0x6000 + below(9)};
	struct {
		struct dp_record head;
		u64 words[16];
	} r = {.head = {.event = (u32)below(DP_ARRAY_SIZE(events)), .tid = 1 + (u32)below(3), .cpu = (u32)below(4)}};

	memcpy((u8 *)words + 64, "text", 5);
	r.head.len = (u16)(sizeof(r.head) + (events[r.head.event].layout->nfields ? 72 : 0));
	memcpy(r.words, words, sizeof(words));
	sample_sum += sum_of(&r.head);
	dp_formatter_source(f, (u32)below(2), 7, "main");
	if (!below(40))
		dp_formatter_lost(f, 3);
	dp_formatter_record(f, &r.head, 1000 * i);
}

static const struct dp_recording_head head = {.mono_ns = 1, .real_ns = 1000000000, .host = "here"};
static const struct dp_recording_env recording = {NULL, put_source, put_rows, lasted, &head, put_budget};

/* The same records each time. Text: all that comes out; free it. */
static char *make(enum dp_format format, size_t *size)
{
	struct dp_format_env env = {.events = events,
				    .nevents = DP_ARRAY_SIZE(events),
				    .symbolize = symbolize,
				    .comm = name_thread,
				    .recording = &recording};
	struct dp_formatter *f;
	char *text;
	FILE *to = open_memstream(&text, size);

	state = seed;
	sample_sum = 0;
	if (dp_formatter_new(&f, format, to, &env))
		abort();
	dp_formatter_head(f);
	for (u64 i = 0; i < RECORDS; i++) {
		make_record(f, i);
		if (!below(20))
			dp_formatter_commit(f);
	}
	dp_formatter_finish(f);
	dp_formatter_free(f);
	fclose(to);
	return text;
}

/* ---- reading ---- */

struct showing {
	const struct dp_recording *r;
	struct dp_formatter *f;
	u32 source;
	u64 n, sum;
};

static bool name_address(void *arg, u64 addr, char *buf, size_t size)
{
	const struct showing *s = arg;

	return dp_recording_symbolize(s->r, s->source, addr, buf, size);
}

static bool task_of(void *arg, u32 *tid, char comm[16])
{
	const struct showing *s = arg;

	return dp_recording_task(s->r, s->source, tid, comm);
}

static bool show(void *arg, u32 source, const struct dp_record *rec)
{
	struct showing *s = arg;

	s->source = source;
	s->sum += sum_of(rec);
	s->n++;
	dp_formatter_source(s->f, source, 7, "main");
	dp_formatter_record(s->f, rec, rec->tsc);
	return true;
}

static void lose(void *arg, u64 n)
{
	struct showing *s = arg;

	dp_formatter_lost(s->f, n);
}

/* Whether all was as it went in. Its text in *text; free it. */
static bool show_all(struct dp_recording *r, enum dp_format format, char **text, size_t *size)
{
	static const struct dp_recording_ops ops = {show, lose};
	struct dp_recording_info info;
	struct dp_recording_env facts = recording;
	struct showing s = {.r = r};
	struct dp_error err;
	FILE *to = open_memstream(text, size);
	bool whole;

	dp_recording_info(r, &info);
	facts.head = &info.head;
	struct dp_format_env env = {.events = info.events,
				    .nevents = info.nevents,
				    .symbolize = name_address,
				    .arg = &s,
				    .comm = task_of,
				    .comm_arg = &s,
				    .recording = &facts};

	if (!to || dp_formatter_new(&s.f, format, to, &env))
		abort();
	dp_formatter_head(s.f);
	whole = !dp_recording_play(r, &ops, &s, &err) && s.sum == sample_sum && s.n == RECORDS && info.nrows;
	dp_formatter_finish(s.f);
	dp_formatter_free(s.f);
	fclose(to);
	fuzz_counts[COUNT_RECORDS] += s.n;
	return whole;
}

static void look_at_processes(const struct dp_recording *r)
{
	struct dp_recording_info info;
	struct dp_recording_process p;
	struct dp_recording_map m;

	dp_recording_info(r, &info);
	for (u32 i = 0; i < info.nsources; i++) {
		dp_recording_process(r, i, &p);
		for (u32 k = 0; k < p.nmaps; k++)
			if (strlen(dp_recording_map(r, i, k, &m)) > DP_RECORDING_TEXT)
				abort();
	}
}

/* A directory is no format for this. */
static enum dp_format any_format(void)
{
	enum dp_format format;

	do
		format = (enum dp_format)below(DP_NFORMATS);
	while (dp_format_is_directory(format));
	return format;
}

/* What the recording shows in a format; free it. NULL: it cannot be opened, or is not whole. */
static char *read_back(const char *bytes, size_t size, enum dp_format format, size_t *shown)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);
	struct dp_recording *r;
	struct dp_error err;
	char path[40], *text = NULL;

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	dp_format(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!dp_recording_open(&r, path, &err)) {
		fuzz_counts[COUNT_OPENED]++;
		look_at_processes(r);
		if (!show_all(r, format, &text, shown)) {
			free(text);
			text = NULL;
		}
		dp_recording_close(r);
	}
	close(fd);
	return text;
}

/* Without a recording between, the same text comes out. */
static void compare(enum dp_format format)
{
	size_t n, m;
	char *direct, *text = read_back(sample, sample_size, format, &n);

	/* What is lost ends a block of records when it is read again; only a recording's identities are not drawn. */
	if (format == DP_FORMAT_RECORDING || format == DP_FORMAT_OTLP) {
		if (!text)
			abort();
		free(text);
		return;
	}
	direct = make(format, &m);
	if (!text || n != m || memcmp(text, direct, n)) {
		fprintf(stderr, "%s: %s\n---- and not\n%s\n", dp_format_name(format), text ? text : "", direct);
		abort();
	}
	free(direct);
	free(text);
}

/* ---- changes ---- */

static void change(char *bytes)
{
	static const u64 odd[] = {0, 1, 7, 8, 0x7f, 0xff, 0xffff, 0x7fffffff, ~(u64)0, (u64)1 << 32, (u64)1 << 63};
	size_t n = 1 + below(4);

	while (n--) {
		size_t at = below(sample_size), len = (size_t)1 << below(4);
		u64 v = below(2) ? odd[below(DP_ARRAY_SIZE(odd))] : next_random(&state);

		memcpy(bytes + at, &v, DP_MIN(len, sample_size - at));
	}
}

static void one(u64 i)
{
	char *copy;
	size_t n;

	state = seed * 1000003 + i;
	next_random(&state);
	if (!(i % 8)) {
		compare(any_format());
		return;
	}
	copy = malloc(sample_size);
	memcpy(copy, sample, sample_size);
	change(copy);
	free(read_back(copy, below(4) ? sample_size : below(sample_size), any_format(), &n));
	free(copy);
}

int main(int argc, char **argv)
{
	struct fuzz_args args = fuzz_args(argc, argv, 4000);
	u64 at = 0;
	bool good;

	seed = args.seed;
	sample = make(DP_FORMAT_RECORDING, &sample_size);
	good = fuzz_run(one, args.first, args.seconds, args.times, &at);
	if (!good)
		printf("# again: fuzz-recording 0 %llu %llu\n", (unsigned long long)seed, (unsigned long long)at);
	printf("1..1\n%s 1 - %llu recordings with changed bytes: %llu opened, %llu records\n", good ? "ok" : "not ok",
	       (unsigned long long)fuzz_counts[1], (unsigned long long)fuzz_counts[COUNT_OPENED],
	       (unsigned long long)fuzz_counts[COUNT_RECORDS]);
	free(sample);
	return good ? 0 : 1;
}
