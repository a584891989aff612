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
#include "abi/abi-record.h"
#include "lang/rpn/rpn-fields.h"
#include "lang/rpn/rpn.h"
#include "log/aggregate.h"
#include "log/log-rpn.h"
#include "log/reader.h"
#include "log/recording-read.h"
#include "samples.h"

#define RECORDS 300
#define COUNT_OPENED 2
#define COUNT_RECORDS 3

#define RINGS 3

enum kind { /* a recording of */
	    OF_EVENTS,
	    OF_PROGRAMS,
	    OF_PARTS, /* events, as parts of rings */
	    KINDS
};

static u64 state, seed;
static struct {
	char *bytes;
	size_t size;
	u64 sum; /* of the records that were made */
} samples[KINDS];

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
	struct dp_recording_source s = {.pid = source, .nmaps = 1, .comm = "sample"}; /* as programs tell it */
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

/* of_event: the number of the event, which stays in a recording of events only. */
static u64 sum_of(const struct dp_record *rec, bool of_event)
{
	const u8 *p = (const u8 *)(rec + 1);
	u64 sum = rec->tid * 31 + (of_event ? rec->event * 7 : 0) + rec->len + rec->cpu;

	for (u32 i = 0; i < rec->len - sizeof(*rec); i++)
		sum = sum * 131 + p[i];
	return sum;
}

struct event_record {
	struct dp_record head;
	u64 words[16];
};

static struct event_record any_event(u64 i)
{
	u64 words[16] = {0,      0x4000 + below(64), i | (u64)(64 | 5 << 16) << 32, 0x5000 + below(64), 0x1004,
			 0x6000, 0x6000 + below(9)};
	struct event_record r = {
	    .head = {.event = (u32)below(DP_ARRAY_SIZE(events)), .tid = 1 + (u32)below(3), .cpu = (u32)below(4)}};

	memcpy((u8 *)words + 64, "text", 5);
	r.head.len = (u16)(sizeof(r.head) + (events[r.head.event].layout->nfields ? 72 : 0));
	memcpy(r.words, words, sizeof(words));
	return r;
}

static void make_event(struct dp_formatter *f, u64 i)
{
	struct event_record r = any_event(i);

	samples[OF_EVENTS].sum += sum_of(&r.head, true);
	dp_formatter_source(f, (u32)below(2), 7, "main");
	if (!below(40))
		dp_formatter_lost(f, 3);
	dp_formatter_record(f, &r.head, 1000 * i);
}

/* ---- the same as parts of rings ---- */

static struct ring {
	u8 bytes[RECORDS * sizeof(struct event_record)]; /* of records that were not handed on */
	u64 size, first;
	u32 n;
} rings[RINGS];

static void put_part(struct dp_formatter *f, struct ring *g, u64 known)
{
	struct dp_reader_part part = {.ring = (u32)(g - rings),
				      .n = g->n,
				      .bytes = g->bytes,
				      .size = g->size,
				      .since = g->first,
				      .until = known + 1,
				      .known = known};

	if (g->n)
		dp_formatter_part(f, &part);
	g->n = 0;
	g->size = 0;
}

/* Some of the rings: the records of others come later, and are older then than what has been seen. */
static void put_parts(struct dp_formatter *f, bool all)
{
	u64 known = ~(u64)0;

	for (u32 i = 0; i < RINGS; i++)
		if (rings[i].n)
			known = DP_MIN(known, rings[i].first);
	for (u32 i = 0; i < RINGS; i++)
		if (below(2) || all)
			put_part(f, &rings[i], known);
}

/* A record goes to its ring; in another format, there is no ring, and it is shown. */
static void make_in_part(struct dp_formatter *f, enum dp_format format, u64 i)
{
	struct event_record r = any_event(i);
	struct ring *g = &rings[below(RINGS)];

	samples[OF_PARTS].sum += sum_of(&r.head, true);
	dp_formatter_source(f, 0, 7, "main");
	if (format != DP_FORMAT_RECORDING) {
		dp_formatter_record(f, &r.head, 1000 * i);
		return;
	}
	r.head.tsc = 1000 * i;
	if (!g->n++)
		g->first = r.head.tsc;
	memcpy(g->bytes + g->size, &r, r.head.len);
	g->size += r.head.len;
}

/* ---- the same of programs ---- */

static struct dp_rpn_probe probes[] = {
    {.described = (char *)"layout = T1 8 enum { \"RED\" 0, \"BLUE\" 4 }\nfield = event \"g\" \"\" \"f\" 0 0\n"
			  "field = \"at\" code\nfield = \"bt\" frame[3]\n"},
    {.described = (char *)"field = printf \"%d of %s\""},
    {.described = NULL},
};
static struct dp_rpn_aggregate aggregates[] = {
    {.name = "calls", .kind = DP_AGG_COUNT, .index = 1, .nparts = 1, .parts = {DP_KEY_CODE}, .keys = 4, .step = 1},
    {.name = "sizes", .kind = DP_AGG_HIST, .index = 40, .step = 1},
};
static struct dp_rpn_unit unit = {
    .name = "/bin/sample",
    .nlocals = 200,
    .aggregates = aggregates,
    .naggregates = DP_ARRAY_SIZE(aggregates),
    .probes = probes,
    .nprobes = DP_ARRAY_SIZE(probes),
};

static void describe_probes(void)
{
	const char *bad = "";

	for (u32 i = 0; i < DP_ARRAY_SIZE(probes); i++)
		if (probes[i].described)
			probes[i].rf = dp_rf_parse(probes[i].described, &bad);
	for (u32 i = 0; i < DP_ARRAY_SIZE(probes); i++)
		if (probes[i].described && !probes[i].rf) {
			fprintf(stderr, "%s\n", bad);
			abort();
		}
}

/* A way to show programs, as a run of them and a report have it: dp_rpn_log(), or the formatter. */
static void give_program(struct dp_formatter *f, enum dp_format format, FILE *to, const struct dp_record *rec,
			 const struct dp_rpn_context *c)
{
	struct dp_line l = {0};

	if (dp_format_of_programs(format) && dp_rpn_log(&l, format, rec, c))
		fwrite(l.text, 1, l.n, to);
	else if (dp_format_takes_programs(format))
		dp_formatter_program(f, rec, c);
	dp_line_free(&l);
}

static void give_words(struct dp_formatter *f, enum dp_format format, FILE *to, const struct dp_rpn_unit *u,
		       const u64 *words, u32 only, const struct dp_agg_view *view)
{
	if (dp_format_of_programs(format))
		dp_agg_show(format, u, words, only, view, to);
	else if (dp_format_takes_programs(format) && only == DP_AGG_ALL)
		dp_formatter_aggregates(f, u, words, view);
	else if (dp_format_takes_programs(format))
		dp_formatter_print(f, u, words, only, view);
}

static void make_program(struct dp_formatter *f, enum dp_format format, FILE *to, u64 i)
{
	struct {
		struct dp_record head;
		struct dp_rpn_head rpn;
		u8 items[48];
	} r = {.head = {.flags = DP_REC_RPN | DP_REC_ITEMS, .tid = 1 + (u32)below(3), .len = sizeof(r)},
	       .rpn = {.pid = 7, .ip = 0x4000 + below(64)}};
	u32 n = (u32)below(DP_ARRAY_SIZE(probes)), pid = 100 + (u32)below(2);
	const struct dp_rpn_context c = {.module = unit.name,
					 .comm = "main",
					 .offset = n,
					 .realtime_ns = 1000 * i + 999999999,
					 .ns = 1000 * i,
					 .symbolize = symbolize,
					 .pid = pid,
					 .rf = probes[n].rf,
					 .unit = &unit,
					 .probe = &probes[n]};
	u64 word = 0x4000 + below(64);

	r.items[0] = DP_TOKEN_WORDS;
	r.items[1] = 1;
	memcpy(r.items + 3, &word, sizeof(word));
	r.items[11] = DP_TOKEN_ASCII;
	r.items[12] = sizeof(r.items) - 14;
	memcpy(r.items + 14, "text", 5);
	samples[OF_PROGRAMS].sum += sum_of(&r.head, false);
	give_program(f, format, to, &r.head, &c);
}

static void make_words(struct dp_formatter *f, enum dp_format format, FILE *to, u32 pid, u32 only)
{
	const struct dp_agg_view view = {.pid = (pid_t)pid, .symbolize = symbolize, .ended = pid & 1};
	u64 words[200] = {0};

	for (u32 i = 0; i < 4; i++) {
		words[2 + i * 3] = DP_TABLE_VALID;
		words[3 + i * 3] = 0x4000 + i;
		words[4 + i * 3] = 10 * i + 3;
	}
	words[45] = 3;
	give_words(f, format, to, &unit, words, only, &view);
}

/* ---- both ---- */

static const struct dp_recording_head head = {.mono_ns = 1, .real_ns = 1000000000, .host = "here"};
static const struct dp_recording_env recordings[] = {
    [OF_EVENTS] = {NULL, put_source, put_rows, lasted, &head, put_budget},
    [OF_PROGRAMS] = {NULL, put_source, put_rows, lasted, &head, put_budget, .of_programs = true},
    [OF_PARTS] = {NULL, put_source, put_rows, lasted, &head, put_budget, .has_rings = true},
};

static void put_head(struct dp_formatter *f, enum dp_format format, FILE *to, bool of_programs)
{
	struct dp_line l = {0};

	if (!of_programs || !dp_format_of_programs(format))
		dp_formatter_head(f);
	else
		dp_rpn_log_head(&l, format, true);
	fwrite(l.text ? l.text : "", 1, l.n, to);
	dp_line_free(&l);
}

/* The same records each time. Text: all that comes out; free it. */
static char *make(enum dp_format format, enum kind kind, size_t *size)
{
	bool of_programs = kind == OF_PROGRAMS;
	struct dp_format_env env = {.events = events,
				    .nevents = of_programs ? 0 : DP_ARRAY_SIZE(events),
				    .symbolize = symbolize,
				    .comm = name_thread,
				    .recording = &recordings[kind]};
	struct dp_formatter *f;
	char *text;
	FILE *to = open_memstream(&text, size);

	state = seed;
	samples[kind].sum = 0;
	if (dp_formatter_new(&f, format, to, &env))
		abort();
	put_head(f, format, to, of_programs);
	for (u64 i = 0; i < RECORDS; i++) {
		if (of_programs)
			make_program(f, format, to, i);
		else if (kind == OF_PARTS)
			make_in_part(f, format, i);
		else
			make_event(f, i);
		if (!below(20))
			dp_formatter_commit(f);
		if (kind == OF_PARTS && !(i % 16))
			put_parts(f, false);
		if (of_programs && !below(40))
			make_words(f, format, to, 100, 40);
		if (of_programs && !below(100)) {
			dp_formatter_interval(f, 1000 * i);
			make_words(f, format, to, 100, DP_AGG_ALL);
			make_words(f, format, to, 101, DP_AGG_ALL);
			dp_formatter_commit(f);
		}
	}
	for (u32 pid = 100; of_programs && pid < 102; pid++)
		make_words(f, format, to, pid, DP_AGG_ALL);
	put_parts(f, true);
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
	enum dp_format format;
	FILE *to;
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

static u32 pid_of(const struct showing *s, u32 source)
{
	struct dp_recording_process p;

	dp_recording_process(s->r, source, &p);
	return p.pid;
}

static struct dp_agg_view view_of(struct showing *s, const struct dp_recording_tables_read *t)
{
	s->source = t->source;
	return (struct dp_agg_view){
	    .pid = (pid_t)pid_of(s, t->source), .symbolize = name_address, .arg = s, .ended = t->ended};
}

static void show_program(struct showing *s, const struct dp_record *rec)
{
	const struct dp_recording_hit *hit = dp_recording_hit(s->r, rec->event);
	const struct dp_rpn_context c = {.module = hit->unit->name,
					 .comm = "main",
					 .offset = hit->offset,
					 .realtime_ns = rec->tsc + 999999999,
					 .ns = rec->tsc,
					 .symbolize = name_address,
					 .symbolize_arg = s,
					 .pid = pid_of(s, s->source),
					 .rf = hit->probe->rf,
					 .unit = hit->unit,
					 .probe = hit->probe};

	s->sum += sum_of(rec, false);
	give_program(s->f, s->format, s->to, rec, &c);
}

static bool show(void *arg, u32 source, const struct dp_record *rec)
{
	struct showing *s = arg;

	s->source = source;
	s->n++;
	if (dp_recording_hit(s->r, rec->event)->probe) {
		show_program(s, rec);
		return true;
	}
	s->sum += sum_of(rec, true);
	dp_formatter_source(s->f, source, 7, "main");
	dp_formatter_record(s->f, rec, rec->tsc);
	return true;
}

static void print(void *arg, const struct dp_recording_tables_read *t)
{
	struct showing *s = arg;
	const struct dp_agg_view view = view_of(s, t);

	give_words(s->f, s->format, s->to, dp_recording_program(s->r, t->program), t->words, t->only, &view);
}

static void show_interval(void *arg, u64 ns, const struct dp_recording_tables_read *v, u32 n)
{
	struct showing *s = arg;

	dp_formatter_interval(s->f, ns);
	for (u32 i = 0; i < n; i++)
		print(s, &v[i]);
	dp_formatter_commit(s->f);
}

static void lose(void *arg, u64 n)
{
	struct showing *s = arg;

	dp_formatter_lost(s->f, n);
}

static void show_tables(struct showing *s, u32 ntables)
{
	for (u32 i = 0; i < ntables; i++)
		print(s, &dp_recording_tables(s->r)[i]);
}

/* Whether all was as it went in. Its text in *text; free it. */
static bool show_all(struct dp_recording *r, enum kind kind, enum dp_format format, char **text, size_t *size)
{
	static const struct dp_recording_ops ops = {show, lose, print, show_interval};
	struct dp_recording_info info;
	struct dp_recording_env facts;
	FILE *to = open_memstream(text, size);
	struct showing s = {.r = r, .format = format, .to = to};
	struct dp_error err;
	bool whole, of_programs;

	dp_recording_info(r, &info);
	of_programs = info.nprograms;
	facts = recordings[of_programs ? OF_PROGRAMS : OF_EVENTS];
	facts.head = &info.head;
	struct dp_format_env env = {.events = info.events,
				    .nevents = of_programs ? 0 : info.nevents,
				    .symbolize = name_address,
				    .arg = &s,
				    .comm = task_of,
				    .comm_arg = &s,
				    .recording = &facts};

	if (!to || dp_formatter_new(&s.f, format, to, &env))
		abort();
	put_head(s.f, format, to, of_programs);
	whole = !dp_recording_play(r, &ops, &s, &err) && s.sum == samples[kind].sum && s.n == RECORDS && info.nrows;
	show_tables(&s, info.ntables);
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
static char *read_back(const char *bytes, size_t size, enum kind kind, enum dp_format format, size_t *shown)
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
		if (!show_all(r, kind, format, &text, shown)) {
			free(text);
			text = NULL;
		}
		dp_recording_close(r);
	}
	close(fd);
	return text;
}

/* Without a recording between, the same text comes out. */
static void compare(enum dp_format format, enum kind kind)
{
	size_t n, m;
	char *direct, *text = read_back(samples[kind].bytes, samples[kind].size, kind, format, &n);

	/*
	 * What is lost ends a block of records when it is read again; only a recording's identities are not drawn; a
	 * page has the events of programs in its head, where they are known before the first record.
	 */
	if (format == DP_FORMAT_RECORDING || format == DP_FORMAT_OTLP ||
	    (kind == OF_PROGRAMS && format == DP_FORMAT_HTML)) {
		if (!text)
			abort();
		free(text);
		return;
	}
	direct = make(format, kind, &m);
	if (!text || n != m || memcmp(text, direct, n)) {
		fprintf(stderr, "%s: %s\n---- and not\n%s\n", dp_format_name(format), text ? text : "", direct);
		abort();
	}
	free(direct);
	free(text);
}

/* ---- changes ---- */

static void change(char *bytes, size_t sample_size)
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
	enum kind kind = (enum kind)(i % KINDS);
	size_t n, size = samples[kind].size;
	char *copy;

	state = seed * 1000003 + i;
	next_random(&state);
	if (i % 24 < KINDS) {
		compare(any_format(), kind);
		return;
	}
	copy = malloc(size);
	memcpy(copy, samples[kind].bytes, size);
	change(copy, size);
	free(read_back(copy, below(4) ? size : below(size), kind, any_format(), &n));
	free(copy);
}

static void make_samples(void)
{
	describe_probes();
	for (u32 i = 0; i < KINDS; i++)
		samples[i].bytes = make(DP_FORMAT_RECORDING, (enum kind)i, &samples[i].size);
}

#ifdef FUZZ_RECORDING
/* For libFuzzer (build-libfuzzer.sh): the last byte is the format. */
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);
int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static u64 counts[8];
	enum dp_format format = (enum dp_format)(size ? data[size - 1] % DP_NFORMATS : 0);
	size_t n;

	fuzz_counts = counts;
	if (size && !dp_format_is_directory(format))
		free(read_back((const char *)data, size - 1, OF_EVENTS, format, &n));
	return 0;
}
#elif defined(FUZZ_SEEDS)
/* DIR: the samples go there. */
int main(int argc, char **argv)
{
	char path[4096];

	seed = 1;
	make_samples();
	for (u32 i = 0; i < KINDS; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%u", argv[argc - 1], i);
		f = fopen(path, "we");
		if (!f || fwrite(samples[i].bytes, 1, samples[i].size, f) != samples[i].size || fclose(f))
			return 1;
	}
	return 0;
}
#else
int main(int argc, char **argv)
{
	struct fuzz_args args = fuzz_args(argc, argv, 4000);
	u64 at = 0;
	bool good;

	seed = args.seed;
	make_samples();
	good = fuzz_run(one, args.first, args.seconds, args.times, &at);
	if (!good)
		printf("# again: fuzz-recording 0 %llu %llu\n", (unsigned long long)seed, (unsigned long long)at);
	printf("1..1\n%s 1 - %llu recordings with changed bytes: %llu opened, %llu records\n", good ? "ok" : "not ok",
	       (unsigned long long)fuzz_counts[1], (unsigned long long)fuzz_counts[COUNT_OPENED],
	       (unsigned long long)fuzz_counts[COUNT_RECORDS]);
	for (u32 i = 0; i < KINDS; i++)
		free(samples[i].bytes);
	for (u32 i = 0; i < DP_ARRAY_SIZE(probes); i++)
		dp_rf_free(probes[i].rf);
	return good ? 0 : 1;
}
#endif
