/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See top-sample.h. One event and one ring for each thread, which is looked for several times a second. What a sample
 * holds is the process's own stack: each step of a walk must go up, within the copy.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/abi-unwind.h"
#include "arch/arch.h"
#include "host/process/process.h"
#include "log/sink.h"
#include "symbols/sym-unwind.h"
#include "symbols/symbolize.h"
#include "top/top-sample.h"

#define STACK 8192 /* bytes of it that are copied */
#define FRAMES 128
#define PAGES 128 /* of a ring; a power of two, and what users without privileges may lock */
#define PAGE 4096ull
#define LOOK_NS 100000000ull
#define THREADS 4096

struct stream { /* of one thread */
	pid_t tid;
	int fd;
	struct perf_event_mmap_page *ring;
	bool seen;
};

struct table { /* unwind rows of a module */
	struct dp_module *mod;
	struct dp_unwind_row *rows;
	u32 n;
};

struct dp_sampler {
	pid_t pid;
	u32 hz;
	struct dp_top *top;
	struct dp_process process;
	struct symbolizer *names;
	struct stream *streams;
	u32 n;
	size_t room;
	struct table *tables;
	u32 ntables;
	size_t tables_room;
	u64 looked_ns;
	bool renewed; /* in this turn */
};

/* ---- events ---- */

static int open_event(pid_t tid, u32 hz)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_SOFTWARE,
	    .size = sizeof(attr),
	    .config = PERF_COUNT_SW_CPU_CLOCK,
	    .sample_freq = hz,
	    .freq = 1,
	    .sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
	    .sample_regs_user = DP_PERF_REGS,
	    .sample_stack_user = STACK,
	    .exclude_kernel = 1,
	    .exclude_hv = 1,
	    .wakeup_events = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void close_stream(struct stream *st)
{
	munmap(st->ring, (1 + PAGES) * PAGE);
	close(st->fd);
}

/* 0, or -errno. A thread that has ended meanwhile is none. */
static int add_thread(struct dp_sampler *s, pid_t tid)
{
	struct stream st = {.tid = tid, .seen = true};

	if (s->n == THREADS || !dp_grow((void **)&s->streams, &s->room, s->n, sizeof(*s->streams)))
		return -ENOMEM;
	st.fd = open_event(tid, s->hz);
	if (st.fd < 0)
		return errno == ESRCH ? 0 : -errno;
	st.ring = mmap(NULL, (1 + PAGES) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, st.fd, 0);
	if (st.ring == MAP_FAILED) {
		close(st.fd);
		return -ENOMEM;
	}
	s->streams[s->n++] = st;
	return 0;
}

static struct stream *stream_of(struct dp_sampler *s, pid_t tid)
{
	for (u32 i = 0; i < s->n; i++)
		if (s->streams[i].tid == tid)
			return &s->streams[i];
	return NULL;
}

/* Threads that have come, and those that have gone. The first failure. */
static int look_for_threads(struct dp_sampler *s)
{
	char path[40];
	struct dirent *e;
	DIR *dir;
	int r = 0;
	u32 kept = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
	dir = opendir(path);
	for (u32 i = 0; i < s->n; i++)
		s->streams[i].seen = false;
	while (dir && (e = readdir(dir))) {
		pid_t tid = (pid_t)atoi(e->d_name);
		struct stream *st = tid ? stream_of(s, tid) : NULL;

		if (st)
			st->seen = true;
		else if (tid && !r)
			r = add_thread(s, tid);
	}
	if (dir)
		closedir(dir);
	for (u32 i = 0; i < s->n; i++) {
		if (s->streams[i].seen)
			s->streams[kept++] = s->streams[i];
		else
			close_stream(&s->streams[i]);
	}
	s->n = kept;
	s->looked_ns = dp_now_ns();
	return r;
}

/* ---- unwinding ---- */

struct walk {
	u64 ip, sp, frame;
	const u8 *stack; /* a copy of size bytes from `from` on */
	u64 from, size;
};

static bool word_at(const struct walk *w, u64 addr, u64 *v)
{
	if (addr < w->from || w->size < 8 || addr - w->from > w->size - 8)
		return false;
	memcpy(v, w->stack + (addr - w->from), 8);
	return true;
}

static const struct table *table_of(struct dp_sampler *s, struct dp_module *mod)
{
	struct table *t;

	for (u32 i = 0; i < s->ntables; i++)
		if (s->tables[i].mod == mod)
			return &s->tables[i];
	if (!dp_grow((void **)&s->tables, &s->tables_room, s->ntables, sizeof(*s->tables)))
		return NULL;
	t = &s->tables[s->ntables++];
	*t = (struct table){.mod = mod};
	if (dp_module_unwind(mod, &t->rows, &t->n, NULL))
		t->n = 0;
	return t;
}

static const struct dp_unwind_row *row_at(struct dp_sampler *s, u64 at)
{
	struct dp_image *im = dp_process_image_at(&s->process, at);
	const struct table *t;
	u64 from, lo = 0, hi;

	if (!im && !s->renewed) { /* it may have loaded a library */
		s->renewed = true;
		if (!dp_process_renew(&s->process, NULL))
			im = dp_process_image_at(&s->process, at);
	}
	t = im ? table_of(s, im->mod) : NULL;
	from = im ? im->bias + dp_module_lowest(im->mod) : 0;
	for (hi = t ? t->n : 0; lo < hi;) {
		u64 mid = (lo + hi) / 2;

		if (from + t->rows[mid].pc <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &t->rows[lo - 1] : NULL;
}

/* To the caller, as the hit path goes (hit-unwind.c). Signal frames and aligned stacks end the walk. */
static bool step(struct dp_sampler *s, struct walk *w, u64 at)
{
	const struct dp_unwind_row *row = row_at(s, at);
	u64 offset = row ? (u64)(row->cfa * 8ll) : 0, cfa = 0, frame = w->frame;

	switch (row ? row->kind : DP_UNWIND_END) {
	case DP_UNWIND_SP:
		cfa = w->sp + offset;
		break;
	case DP_UNWIND_FRAME:
		cfa = w->frame + offset;
		break;
	case DP_UNWIND_FRAME_WORD:
		if (!word_at(w, w->frame + offset, &cfa))
			return false;
		break;
	case DP_UNWIND_PLT:
		cfa = w->sp + 8 + ((at & 15) >= (u64)row->cfa ? 8 : 0);
		break;
	default:
		return false;
	}
	if (cfa <= w->sp || !word_at(w, cfa - 8, &w->ip))
		return false;
	if (row->frame &&
	    !word_at(w, row->frame == DP_UNWIND_AT_FRAME ? w->frame : cfa + (u64)(row->frame * 8ll), &frame))
		return false;
	w->sp = cfa;
	w->frame = frame;
	return true;
}

/* ---- samples ---- */

/* The function that an address is in. behind: behind a call. */
static u32 name_of(struct dp_sampler *s, u64 ip, bool behind)
{
	char text[DP_SINK_SYMBOL];

	dp_symbol_text(dp_symbolize, s->names, ip, behind, text, sizeof(text));
	dp_stacks_function(text);
	return dp_stacks_name(&s->top->edges.names, text);
}

static bool is_among(const u32 *v, u32 n, u32 name)
{
	for (u32 i = 0; i < n; i++)
		if (v[i] == name)
			return true;
	return false;
}

static void count(struct dp_sampler *s, const u32 *names, u32 n)
{
	struct dp_top *t = s->top;

	t->samples++;
	for (u32 i = 0; i < n; i++) {
		struct dp_top_row *row = dp_top_row(t, t->edges.names.names[names[i]]);

		if (!row || is_among(names, i, names[i])) /* recursion counts once */
			continue;
		row->hits++;
		row->total++;
		row->self += i == 0;
		if (i + 1 < n)
			dp_graph_table_count(&t->edges, names[i], names[i + 1]);
	}
}

static void take(struct dp_sampler *s, struct walk *w)
{
	u32 names[FRAMES], n = 0;

	while (n < FRAMES && w->ip) {
		names[n] = name_of(s, w->ip, n > 0);
		n++;
		if (!step(s, w, w->ip - (n > 1)))
			break;
	}
	if (n)
		count(s, names, n);
}

/* abi, three registers, size, stack, size that is filled. */
static void take_record(struct dp_sampler *s, const u64 *v, size_t words)
{
	struct walk w = {0};

	if (words < 5 || !v[0] || v[4] > (words - 5) * 8)
		return;
	w.frame = v[1];
	w.sp = v[2];
	w.ip = v[3];
	w.from = w.sp;
	w.stack = (const u8 *)&v[5];
	w.size = v[4] && words >= 6 + v[4] / 8 ? DP_MIN(v[4], v[5 + v[4] / 8]) : 0;
	take(s, &w);
}

static void copy_out(const u8 *ring, u64 at, void *to, size_t n)
{
	size_t size = PAGES * PAGE, from = at % size, first = DP_MIN(n, size - from);

	memcpy(to, ring + from, first);
	memcpy((u8 *)to + first, ring, n - first);
}

static void drain(struct dp_sampler *s, struct stream *st)
{
	static u64 record[65536 / 8];
	const u8 *ring = (const u8 *)st->ring + PAGE;
	/* Pairs with the kernel's barrier behind the records that it has written. */
	u64 head = __atomic_load_n(&st->ring->data_head, __ATOMIC_ACQUIRE), tail = st->ring->data_tail;

	while (tail < head) {
		struct perf_event_header h;

		copy_out(ring, tail, &h, sizeof(h));
		if (h.size < sizeof(h) || h.size > head - tail)
			break;
		copy_out(ring, tail + sizeof(h), record, h.size - sizeof(h));
		if (h.type == PERF_RECORD_SAMPLE)
			take_record(s, record, (h.size - sizeof(h)) / 8);
		else if (h.type == PERF_RECORD_LOST)
			s->top->lost += record[1];
		tail += h.size;
	}
	/* Pairs with the kernel's look at data_tail: the records have been read. */
	__atomic_store_n(&st->ring->data_tail, head, __ATOMIC_RELEASE);
}

bool dp_sampler_turn(struct dp_sampler *s, int ms)
{
	poll(NULL, 0, ms);
	s->renewed = false;
	for (u32 i = 0; i < s->n; i++)
		drain(s, &s->streams[i]);
	if (dp_now_ns() - s->looked_ns > LOOK_NS)
		look_for_threads(s);
	return s->n;
}

/* ---- begin and end ---- */

int dp_sampler_new(struct dp_sampler **out, pid_t pid, u32 hz, struct dp_top *top, struct dp_error *err)
{
	struct dp_sampler *s = calloc(1, sizeof(*s));
	int r = s ? dp_process_read(&s->process, pid, err) : dp_fail(err, E_ARM_NOMEM, "samples");

	if (r) {
		free(s);
		return r;
	}
	s->pid = pid;
	s->hz = hz;
	s->top = top;
	s->names = dp_symbolizer_new(&s->process);
	r = s->names ? look_for_threads(s) : -ENOMEM;
	if (r || !s->n) {
		r = dp_fail(err, E_SAMPLE_PERF, "process %d: %s", (int)pid, strerror(r ? -r : ESRCH));
		dp_sampler_free(s);
		return r;
	}
	*out = s;
	return 0;
}

void dp_sampler_free(struct dp_sampler *s)
{
	for (u32 i = 0; i < s->n; i++)
		close_stream(&s->streams[i]);
	for (u32 i = 0; i < s->ntables; i++)
		free(s->tables[i].rows);
	free(s->streams);
	free(s->tables);
	dp_symbolizer_free(s->names);
	dp_process_free(&s->process);
	free(s);
}

static void refresh(void *arg, struct dp_top *t)
{
}

struct dp_top_source dp_top_samples_source(void)
{
	return (struct dp_top_source){.refresh = refresh};
}
