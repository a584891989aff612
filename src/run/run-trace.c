/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The loop of a trace: drain, put in order, format, flush, sleep. Never blocks for long, so that an end is
 * noticed at once; sleeps the longer the less there is to do, and not at all when the rings fill
 * up.
 */
#include <stdlib.h>
#include <time.h>

#include "host/process/process.h"
#include "run/run-merge.h"
#include "run/run-threads.h"
#include "run/run-trace.h"

#define MS 1000000u
#define SLEEP_BUSY (2 * MS)
#define SLEEP_USUAL (20 * MS)
#define SLEEP_IDLE (50 * MS)
#define TEND_NS 1000000000u

/* ---- showing ---- */

/* Of a record's member: names of addresses and of threads. */
static bool symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	struct dp_trace *t = arg;

	return t->now && dp_tracee_symbolize(&t->now->tracee, addr, buf, size);
}

static bool name_thread(void *arg, u32 *tid, char buf[16])
{
	struct dp_trace *t = arg;

	return t->now && t->now->threads ? dp_threads_comm(t->now->threads, tid, buf) : dp_task_comm(*tid, buf);
}

int dp_trace_begin(struct dp_trace *t, enum dp_format format, bool color, struct dp_error *err)
{
	struct dp_format_env env = {
	    .events = t->infos,
	    .nevents = t->nevents,
	    .symbolize = symbolize,
	    .arg = t,
	    .comm = name_thread,
	    .comm_arg = t,
	    .color = color,
	};

	if (dp_formatter_new(&t->formatter, format, t->out.f, &env))
		return dp_fail(err, E_RING_MEMORY, "%u events", env.nevents);
	dp_formatter_head(t->formatter);
	return dp_output_flush(&t->out, err);
}

/* The record's event is the trace's. */
static void show(struct dp_trace *t, u32 member, bool ends, const struct dp_record *rec, u64 ns)
{
	if (t->is_full)
		return;
	t->shown++;
	t->is_full = ends || t->shown == t->max_events;
	/* Once writing has failed the rest is only counted. */
	if (ferror(t->out.f))
		return;
	if (t->now != t->v[member]) {
		t->now = t->v[member];
		dp_formatter_source(t->formatter, member, t->now->comm);
	}
	dp_formatter_record(t->formatter, rec, ns);
	if (t->more)
		t->more(rec, t->more_arg);
	dp_output_line_done(&t->out);
}

struct draining {
	struct dp_trace *t;
	u32 member;
};

/* The member's events are the trace's, in the same order. */
static void show_alone(const struct dp_record *rec, u64 ns, void *arg)
{
	const struct draining *d = arg;
	struct dp_trace *t = d->t;

	t->read++;
	show(t, d->member, rec->event >= t->v[d->member]->ends_from, rec, ns);
}

static void keep(const struct dp_record *rec, u64 ns, void *arg)
{
	const struct draining *d = arg;

	if (dp_merge_put(d->t->merge, rec, d->member)) {
		d->t->read++;
		d->t->v[d->member]->waiting++;
	}
}

static void show_merged(const struct dp_record *rec, u32 source, void *arg)
{
	struct dp_trace *t = arg;
	struct dp_trace_member *m = t->v[source];
	struct dp_record *own = (struct dp_record *)rec; /* the merge's copy is ours */
	bool ends = rec->event >= m->ends_from;

	m->waiting--;
	own->event = m->events[rec->event];
	show(t, source, ends, own, dp_reader_ns(m->reader, rec->tsc));
}

/* ---- while it runs ---- */

static bool is_alone(struct dp_trace *t)
{
	if (t->n > 1 && !t->merge)
		t->merge = dp_merge_new();
	return !t->merge;
}

/* One member; *known: no older stamp will come from it. */
static int drain_member(struct dp_trace *t, u32 i, bool final, u64 *known)
{
	struct dp_trace_member *m = t->v[i];
	struct draining d = {t, i};
	/* Before the drain: its last records count. */
	bool alive = !final && (m->is_inherited || dp_tracee_alive(&m->tracee));
	int n;

	if (!alive && t->n > 1)
		dp_tracee_remove(&m->tracee, NULL);
	n = dp_reader_drain(m->reader, !alive, is_alone(t) ? show_alone : keep, &d);
	m->has_ended = !alive;
	if (alive)
		*known = DP_MIN(*known, dp_reader_known(m->reader));
	return n;
}

/* All that can be shown now. Returns how many records came. */
static int drain(struct dp_trace *t, bool final, struct dp_error *err, int *n)
{
	u64 known = ~(u64)0;

	*n = 0;
	for (u32 i = 0; i < t->n; i++)
		if (!t->v[i]->reader)
			t->v[i]->has_ended |= !dp_tracee_any(&t->v[i]->tracee) || !dp_tracee_alive(&t->v[i]->tracee);
		else if (final || !t->v[i]->has_ended)
			*n += drain_member(t, i, final, &known);
	if (t->merge)
		dp_merge_take(t->merge, known, show_merged, t);
	return dp_output_flush(&t->out, err);
}

/* Of those that have ended nothing is kept but their counts. */
static void put_away_ended(struct dp_trace *t)
{
	for (u32 i = 0; t->n > 1 && i < t->n; i++)
		if (t->v[i]->has_ended && !t->v[i]->waiting && !t->v[i]->was_put_away)
			dp_trace_put_away(t, t->v[i]);
}

static bool any_alive(const struct dp_trace *t)
{
	for (u32 i = 0; i < t->n; i++)
		if (!t->v[i]->has_ended)
			return true;
	return false;
}

static u64 next_sleep(const struct dp_trace *t, u64 last, int shown)
{
	unsigned pressure = 0;

	for (u32 i = 0; i < t->n; i++)
		if (t->v[i]->reader && !t->v[i]->has_ended)
			pressure = DP_MAX(pressure, dp_reader_pressure(t->v[i]->reader));
	if (pressure > 40)
		return 0;
	if (pressure > 10)
		return SLEEP_BUSY;
	if (shown)
		return SLEEP_USUAL;
	return DP_MIN(last + last / 4 + MS, (u64)SLEEP_IDLE);
}

static void tend(struct dp_trace *t, bool all)
{
	for (u32 i = 0; i < t->n; i++) {
		if (!t->v[i]->reader || t->v[i]->has_ended)
			continue;
		dp_tracee_tend_pages(&t->v[i]->tracee);
		if (all)
			dp_tracee_tend(&t->v[i]->tracee);
	}
}

/* Pages that are watched may end the rest early; of several members one has to do. */
static void rest(struct dp_trace *t, u64 ns)
{
	struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	for (u32 i = 0; i < t->n; i++)
		if (t->v[i]->reader && !t->v[i]->has_ended) {
			dp_tracee_rest(&t->v[i]->tracee, ns);
			return;
		}
	nanosleep(&time, NULL);
}

int dp_trace_run(struct dp_trace *t, struct dp_error *err)
{
	u64 start = dp_now_ns(), now = start, tended = start, looked = 0, sleep = SLEEP_BUSY;
	u64 end = t->seconds > 0 ? start + (u64)(t->seconds * 1e9) : ~(u64)0;
	bool more = false;
	int n, r = 0;

	while (!*t->out.stop && now < end) {
		if (t->look && now - looked >= t->look_ns) {
			more = t->look(t, t->look_arg);
			looked = now;
		}
		r = drain(t, false, err, &n);
		if (r || t->is_full || (!more && !any_alive(t)))
			break;
		put_away_ended(t);
		now = dp_now_ns();
		tend(t, now - tended > TEND_NS);
		if (now - tended > TEND_NS)
			tended = now;
		sleep = next_sleep(t, sleep, n);
		if (t->look)
			sleep = DP_MIN(sleep, t->look_ns);
		if (sleep && now < end)
			rest(t, DP_MIN(sleep, end - now));
		now = dp_now_ns();
	}
	t->lasted = (double)(dp_now_ns() - start) / 1e9;
	return r;
}

/* ---- the end ---- */

int dp_trace_end(struct dp_trace *t, struct dp_error *err)
{
	struct dp_error late;
	int n, r = drain(t, true, err, &n);
	int closed = dp_output_close(&t->out, r ? &late : err);

	return r ? r : closed;
}
