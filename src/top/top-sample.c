/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See top-sample.h. By perf events: one, and a ring, for each thread, which is looked for several times a second. Where
 * the kernel allows none, each thread that runs is stopped for a moment (host/process/glance.c). What a sample holds is
 * the process's own stack: a walk stays within the copy.
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

#include "arch/arch.h"
#include "arch/unwind.h"
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
#define EAGER 50               /* looks, before they are further apart */
#define STOPS_NS 2000000000ull /* at the end, for those that are about to stop */

struct stream { /* of one thread */
	pid_t tid;
	int fd; /* of its perf event, which has this ring; or there is none, and: */
	struct perf_event_mmap_page *ring;
	bool stopping; /* it was asked to stop, and has not yet */
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
	int no_perf; /* why there are no perf events: errno; 0: there are */
	u64 next_ns; /* without them: of the next look at all threads */
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
	if (!st->ring)
		return;
	munmap(st->ring, (1 + PAGES) * PAGE);
	close(st->fd);
}

/* 0, or -errno. A thread that has ended meanwhile is none. */
static int add_thread(struct dp_sampler *s, pid_t tid)
{
	struct stream st = {.tid = tid, .seen = true};

	if (s->n == THREADS || !dp_grow((void **)&s->streams, &s->room, s->n, sizeof(*s->streams)))
		return -ENOMEM;
	if (s->no_perf) {
		s->streams[s->n++] = st;
		return 0;
	}
	st.fd = open_event(tid, s->hz);
	if (st.fd < 0)
		return errno == ESRCH ? 0 : -errno;
	st.ring = mmap(NULL, (1 + PAGES) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, st.fd, 0);
	if (st.ring == MAP_FAILED) {
		int r = -errno;

		close(st.fd);
		return r;
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
		if (s->streams[i].seen || s->streams[i].stopping)
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
	struct dp_unwind_at f;
	const u64 *aligned; /* at the sample itself; NULL: not known */
	const u8 *stack;    /* a copy of size bytes from `from` on */
	u64 from, size;
};

static bool word_at(void *stack, u64 addr, u64 *v)
{
	const struct walk *w = stack;

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
	bool exact = true; /* ip is that of an instruction, not behind a call */

	while (n < FRAMES && w->f.ip) {
		u64 at = w->f.ip - !exact;
		const struct dp_unwind_row *row = row_at(s, at);

		names[n] = name_of(s, w->f.ip, !exact);
		n++;
		if (!row || !dp_unwind_caller(&w->f, row, at, n == 1 ? w->aligned : NULL, word_at, w))
			break;
		exact = row->kind == DP_UNWIND_SIGNAL;
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
	w.f = (struct dp_unwind_at){.ip = v[3], .sp = v[2], .frame = v[1]};
	w.from = w.f.sp;
	w.stack = (const u8 *)&v[5];
	w.size = v[4] && words >= 6 + v[4] / 8 ? DP_MIN(v[4], v[5 + v[4] / 8]) : 0;
	take(s, &w);
}

/* ---- by perf events ---- */

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

/* ---- by stops ---- */

/* What the thread was asked for, if it is there. Whether it has not stopped yet. */
static bool take_glance(struct dp_sampler *s, struct stream *st)
{
	static struct dp_glance g;
	int r = dp_glance_end(st->tid, &g);
	struct walk w = {
	    .f = {g.ip, g.sp, g.frame}, .aligned = &g.aligned, .stack = g.stack, .from = g.sp, .size = g.size};

	st->stopping = r == -EAGAIN;
	if (!r)
		take(s, &w);
	return st->stopping;
}

/* For so long at most, or until nobody is awaited. */
static void await_stops(struct dp_sampler *s, u64 until)
{
	bool any = true;

	for (u32 tries = 0; any && dp_now_ns() < until; tries++) {
		any = false;
		for (u32 i = 0; i < s->n; i++)
			any |= s->streams[i].stopping && take_glance(s, &s->streams[i]);
		if (any)
			usleep(tries < EAGER ? 20 : 500);
	}
}

/* Those that run, and whom nobody else traces at the moment. */
static void glance(struct dp_sampler *s)
{
	for (u32 i = 0; i < s->n; i++) {
		struct stream *st = &s->streams[i];
		int r = st->stopping ? -EAGAIN : dp_glance_begin(s->pid, st->tid);

		st->stopping |= !r;
	}
}

static void turn_by_stops(struct dp_sampler *s, u64 until)
{
	u64 period = 1000000000ull / s->hz;

	for (u64 now; (now = dp_now_ns()) < until;) {
		u64 next = DP_MIN(s->next_ns, until);

		if (now < next) {
			await_stops(s, next);
			now = dp_now_ns();
			if (now < next)
				usleep((useconds_t)((next - now) / 1000 + 1));
			continue;
		}
		glance(s);
		s->next_ns = DP_MAX(s->next_ns + period, now);
	}
}

bool dp_sampler_turn(struct dp_sampler *s, int ms)
{
	s->renewed = false;
	if (s->no_perf)
		turn_by_stops(s, dp_now_ns() + (u64)ms * 1000000);
	else
		poll(NULL, 0, ms);
	for (u32 i = 0; i < s->n && !s->no_perf; i++)
		drain(s, &s->streams[i]);
	if (dp_now_ns() - s->looked_ns > LOOK_NS)
		look_for_threads(s);
	return s->n;
}

const char *dp_sampler_no_perf(const struct dp_sampler *s)
{
	return s->no_perf ? strerror(s->no_perf) : NULL;
}

/* ---- begin and end ---- */

/* Nobody is left who was asked to stop: we may end now. */
static void forget_streams(struct dp_sampler *s)
{
	await_stops(s, dp_now_ns() + STOPS_NS);
	for (u32 i = 0; i < s->n; i++)
		close_stream(&s->streams[i]);
	s->n = 0;
}

/* Whether threads may be stopped, tried on any that runs. */
static int try_stops(struct dp_sampler *s)
{
	for (u32 i = 0; i < s->n; i++) {
		int r = dp_glance_begin(s->pid, s->streams[i].tid);

		s->streams[i].stopping = !r;
		if (r == -EPERM)
			return r;
	}
	return 0;
}

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
	if (r) {
		s->no_perf = -r;
		forget_streams(s);
		r = look_for_threads(s);
		if (!r)
			r = try_stops(s);
	}
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
	forget_streams(s);
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
