/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The loop of a trace: drain, put in order, format, flush, rest. Never blocks for long, so that an end is noticed at
 * once.
 */
#include <stdlib.h>
#include <time.h>

#include "host/process/process.h"
#include "log/view.h"
#include "run/run-merge.h"
#include "run/run-threads.h"
#include "run/run-trace.h"

#define REST_NS 50000000ull    /* at most */
#define LOSSES_NS 100000000ull /* they are looked for so often in any case, */
#define FULL 90                /* and whenever a ring was filled so far, in percent */

/* ---- showing ---- */

/* Of a record's member: names of addresses and of threads. */
static bool symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	struct dp_trace *t = arg;

	return t->now && dp_tracee_symbolize(&t->now->tracee, addr, buf, size);
}

static bool code_file(void *arg, u64 addr, struct dp_code_file *file)
{
	struct dp_trace *t = arg;

	return t->now && dp_tracee_code_file(&t->now->tracee, addr, file);
}

static bool name_thread(void *arg, u32 *tid, char buf[16])
{
	struct dp_trace *t = arg;

	return t->now && t->now->threads ? dp_threads_comm(t->now->threads, tid, buf) : dp_task_comm(*tid, buf);
}

static void show_kept(void *arg, u32 member, const struct dp_record *rec, u64 ns);
static void ask_for_file(void *arg);
static const struct dp_keep_ops keep_ops = {.show = show_kept, .met = ask_for_file};

/* Something has to see each record, in order, while they are recorded. */
static bool needs_records(const struct dp_trace *t)
{
	for (u32 i = 0; i < t->n; i++)
		if (t->v[i]->ends_from != ~0u)
			return true;
	return t->rule || t->max_events || t->more || t->sink || (t->chunks && t->chunks->on_event);
}

int dp_trace_begin(struct dp_trace *t, enum dp_format format, bool color, struct dp_error *err)
{
	struct dp_format_env env = {
	    .events = t->infos,
	    .nevents = t->nevents,
	    .symbolize = symbolize,
	    .code_file = code_file,
	    .arg = t,
	    .comm = name_thread,
	    .comm_arg = t,
	    .color = color,
	    .pid = t->n ? (u32)dp_tracee_pid(&t->v[0]->tracee) : 0,
	    .path = t->path,
	    .graph = t->graph,
	    .recording = &t->recording,
	    .sink = t->sink,
	    .sink_arg = t->sink_arg,
	};
	int r;

	dp_trace_recording_env(t);
	if (format == DP_FORMAT_RECORDING)
		dp_trace_journal_open(t);
	t->keep = t->rule ? dp_keep_new(t->rule, &keep_ops, t) : NULL;
	if (t->rule && !t->keep)
		return dp_fail(err, E_RING_MEMORY, "requests");
	t->recording.has_rings = format == DP_FORMAT_RECORDING && !needs_records(t);
	r = t->chunks ? dp_chunks_begin(t->chunks, &t->out, t->journal, err) : 0;
	if (r)
		return r;
	if (dp_formatter_new(&t->formatter, format, t->out.f, &env))
		return dp_fail(err, E_RING_MEMORY, "%u events", env.nevents);
	dp_formatter_head(t->formatter);
	r = dp_output_flush(&t->out, err);
	if (!r)
		dp_trace_journal_commit(t);
	return r;
}

/* ---- losses ---- */

static bool any_was_full(const struct dp_trace *t)
{
	for (u32 i = 0; i < t->n; i++)
		if (t->v[i]->reader && dp_reader_pressure(t->v[i]->reader) > FULL)
			return true;
	return false;
}

/* Counts of thousands of probes take time to read: where no ring was nearly full, it is not done in each drain. */
static bool may_have_lost(struct dp_trace *t)
{
	u64 now = dp_now_ns();

	t->looked = true;
	if (now - t->looked_ns < LOSSES_NS && !any_was_full(t))
		return false;
	t->looked_ns = now;
	return true;
}

/* The rings have just been emptied: what was lost so far, was lost near the first record that comes now. */
static void tell_lost(struct dp_trace *t)
{
	for (u32 i = 0; i < t->n; i++)
		dp_trace_note_losses(t, t->v[i]);
	if (t->untold)
		dp_formatter_lost(t->formatter, t->untold);
	t->untold = 0;
}

/* Formats know the process of what follows, and what was lost before it. */
static void show_next(struct dp_trace *t, u32 member)
{
	if (t->now != t->v[member]) {
		t->now = t->v[member];
		dp_formatter_source(t->formatter, member, (u32)dp_tracee_pid(&t->now->tracee), t->now->comm);
	}
	if (!t->looked && may_have_lost(t))
		tell_lost(t);
}

/* The record's event is the trace's. */
static void show_now(struct dp_trace *t, u32 member, bool ends, const struct dp_record *rec, u64 ns)
{
	if (t->is_full)
		return;
	t->shown++;
	if (ends && t->chunks && t->chunks->on_event) {
		*t->chunks->asked = 1;
		ends = false;
	}
	t->is_full = ends || t->shown == t->max_events;
	/* Once writing has failed the rest is only counted. */
	if (ferror_unlocked(t->out.f)) /* only this thread writes there */
		return;
	show_next(t, member);
	dp_formatter_record(t->formatter, rec, ns);
	if (t->more)
		t->more(rec, t->more_arg);
	dp_output_line_done(&t->out);
}

static void show_kept(void *arg, u32 member, const struct dp_record *rec, u64 ns)
{
	show_now(arg, member, false, rec, ns);
}

/* As --dump-on says, of a duration. */
static void ask_for_file(void *arg)
{
	struct dp_trace *t = arg;

	if (t->chunks)
		*t->chunks->asked = 1;
}

static void take_hit(struct dp_trace *t, u32 member, const struct dp_record *rec, u64 ns)
{
	const struct dp_event_info *ev = &t->infos[rec->event];
	struct dp_keep_hit hit = {.source = member,
				  .process = member,
				  .event = rec->event,
				  .is_mark = dp_keep_is_mark(ev->group),
				  .is_return = ev->is_return};
	struct dp_view v;

	dp_view_init(&v, rec, ev->layout);
	if (hit.is_mark)
		hit.sp = dp_view_value(&v, 0, 0).bits;
	if (hit.is_mark && ev->layout->nfields > 1)
		hit.value = dp_view_value(&v, 1, 0).bits;
	dp_keep_take(t->keep, &hit, rec, ns);
}

/* What ends the trace is shown in any case. */
static void show(struct dp_trace *t, u32 member, bool ends, const struct dp_record *rec, u64 ns)
{
	if (!t->keep || ends)
		show_now(t, member, ends, rec, ns);
	else if (rec->event < t->nevents)
		take_hit(t, member, rec, ns);
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

/* As it is: whoever reads the recording puts it in order. */
static void show_part(struct dp_reader_part *part, void *arg)
{
	const struct draining *d = arg;
	struct dp_trace *t = d->t;

	t->read += part->n;
	t->shown += part->n;
	if (!ferror_unlocked(t->out.f)) {
		show_next(t, d->member);
		dp_formatter_part(t->formatter, part);
		dp_output_line_done(&t->out);
	}
}

static void keep(const struct dp_record *rec, u64 ns, void *arg)
{
	const struct draining *d = arg;

	struct dp_trace_member *m = d->t->v[d->member];

	if (dp_merge_put(d->t->merge, rec, d->member, dp_reader_mark(m->reader))) {
		d->t->read++;
		m->waiting++;
	}
}

static void show_merged(const struct dp_record *rec, u32 source, u64 ns, void *arg)
{
	struct dp_trace *t = arg;
	struct dp_trace_member *m = t->v[source];
	struct dp_record *own = (struct dp_record *)rec; /* the merge's copy is ours */
	bool ends = rec->event >= m->ends_from;

	m->waiting--;
	own->event = m->events[rec->event];
	show(t, source, ends, own, ns);
}

/* ---- while it runs ---- */

static bool is_alone(struct dp_trace *t)
{
	if (t->n > 1 && !t->merge)
		t->merge = dp_merge_new();
	return !t->merge;
}

/* Once there is another member they come one by one, in one order. */
static bool takes_parts(const struct dp_trace *t)
{
	return t->recording.has_rings && t->n == 1 && !t->merge && t->formatter &&
	       dp_formatter_takes_parts(t->formatter);
}

static void govern(void *arg)
{
	const struct dp_trace_member *m = arg;

	dp_governor_turn(m->governor);
}

/* One member; *known: no older stamp will come from it. */
static void drain_member(struct dp_trace *t, u32 i, bool final, u64 *known)
{
	struct dp_trace_member *m = t->v[i];
	struct draining d = {t, i};
	/* Before the drain: its last records count. */
	bool alive = !final && (m->is_inherited || dp_tracee_alive(&m->tracee)), parts = takes_parts(t);
	void (*show_one)(const struct dp_record *, u64, void *) = is_alone(t) ? show_alone : keep;

	if (m->governor) {
		m->drain.often = govern;
		m->drain.often_arg = m;
	}
	if (!alive && t->n > 1)
		dp_tracee_remove(&m->tracee, NULL);
	if (parts && alive)
		dp_drain_parts(&m->drain, &m->tracee, m->reader, show_part, &d);
	else if (parts)
		dp_reader_take(m->reader, true, show_part, &d);
	else if (alive)
		dp_drain_turn(&m->drain, &m->tracee, m->reader, show_one, &d);
	else
		dp_reader_drain(m->reader, true, show_one, &d);
	if (alive)
		dp_governor_turn(m->governor);
	else
		dp_governor_end(m->governor);
	m->has_ended = !alive;
	if (alive)
		*known = DP_MIN(*known, dp_reader_known(m->reader));
}

/* All that can be shown now. */
static int drain(struct dp_trace *t, bool final, struct dp_error *err)
{
	u64 known = ~(u64)0;

	t->looked = false;
	for (u32 i = 0; i < t->n; i++)
		if (!t->v[i]->reader)
			t->v[i]->has_ended |= !dp_tracee_any(&t->v[i]->tracee) || !dp_tracee_alive(&t->v[i]->tracee);
		else if (final || !t->v[i]->has_ended)
			drain_member(t, i, final, &known);
	if (t->merge)
		dp_merge_take(t->merge, known, show_merged, t);
	if (t->formatter) /* what waits in it may have waited long enough */
		dp_formatter_commit(t->formatter);
	return dp_output_flush(&t->out, err);
}

/* Of those that have ended nothing is kept but their counts. */
static void put_away_ended(struct dp_trace *t)
{
	for (u32 i = 0; t->n > 1 && i < t->n; i++)
		if (t->v[i]->has_ended && !t->v[i]->waiting && !t->v[i]->was_put_away) {
			dp_keep_end(t->keep, i);
			dp_trace_put_away(t, t->v[i]);
		}
}

static bool any_alive(const struct dp_trace *t)
{
	for (u32 i = 0; i < t->n; i++)
		if (!t->v[i]->has_ended)
			return true;
	return false;
}

/* As long as the busiest member wants. */
static u64 next_rest(const struct dp_trace *t)
{
	u64 ns = t->look ? DP_MIN(t->look_ns, REST_NS) : REST_NS;

	for (u32 i = 0; i < t->n; i++)
		if (t->v[i]->reader && !t->v[i]->has_ended)
			ns = DP_MIN(ns, t->v[i]->drain.rest_ns);
	return ns;
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

/* What was drained is in the output. Both before and after it goes on in another file the journal has where it is. */
static int turn(struct dp_trace *t, struct dp_error *err)
{
	int r;

	dp_trace_journal_commit(t);
	r = t->chunks ? dp_chunks_turn(t->chunks, &t->out, t->formatter, err) : 0;
	if (!r && t->chunks)
		dp_trace_journal_commit(t);
	return r;
}

bool dp_rate_exceeded(struct dp_rate *r, u64 hits, u64 now_ns)
{
	u64 seconds;

	if (!r->most)
		return false;
	if (!r->begun_ns)
		r->begun_ns = now_ns; /* what was hit before is of its first second */
	seconds = (now_ns - r->begun_ns) / 1000000000u;
	if ((hits - r->hits) / DP_MAX(seconds, 1u) > r->most)
		return true;
	if (seconds) {
		r->begun_ns = now_ns;
		r->hits = hits;
	}
	return false;
}

static u64 hits_of(const struct dp_trace *t)
{
	struct dp_counts *c = dp_trace_counts(t);
	u64 n = 0;

	for (u32 i = 0; c && i < t->nevents; i++)
		n += dp_counts_hits(&c[i]);
	free(c);
	return n;
}

static int check_rate(struct dp_trace *t, struct dp_error *err)
{
	if (!t->rate.most || !dp_rate_exceeded(&t->rate, hits_of(t), dp_now_ns()))
		return 0;
	return dp_fail(err, E_TRACE_RATE, "more than %llu hits in a second", (unsigned long long)t->rate.most);
}

int dp_trace_run(struct dp_trace *t, struct dp_error *err)
{
	u64 start = dp_now_ns(), now = start, looked = 0, ns;
	u64 end = t->seconds > 0 ? start + (u64)(t->seconds * 1e9) : ~(u64)0;
	bool more = false;
	int r = 0;

	while (!*t->out.stop && now < end) {
		if (t->look && now - looked >= t->look_ns) {
			more = t->look(t, t->look_arg);
			looked = now;
		}
		r = drain(t, false, err);
		t->lasted = (double)(dp_now_ns() - start) / 1e9;
		r = r ? r : turn(t, err);
		r = r ? r : check_rate(t, err);
		if (r || t->is_full || (!more && !any_alive(t)) || dp_output_is_left(&t->out) ||
		    (t->turn && !t->turn(t, t->turn_arg)))
			break;
		put_away_ended(t);
		dp_hear_ends();
		now = dp_now_ns();
		ns = next_rest(t);
		if (ns && now < end)
			rest(t, DP_MIN(ns, end - now));
		now = dp_now_ns();
	}
	t->lasted = (double)(dp_now_ns() - start) / 1e9;
	return r;
}

/* ---- the end ---- */

int dp_trace_end(struct dp_trace *t, struct dp_error *err)
{
	const char *trouble = NULL;
	struct dp_error late;
	int r = drain(t, true, err);
	int closed;

	if (!r && t->formatter && t->was_armed && !ferror(t->out.f)) {
		dp_keep_end(t->keep, ~0u);
		tell_lost(t);
		trouble = dp_formatter_finish(t->formatter);
		if (t->last && !trouble)
			t->last(t, t->last_arg);
	}
	if (!r && t->chunks && t->was_armed)
		r = dp_chunks_end(t->chunks, &t->out, t->formatter, err);
	if (trouble)
		r = dp_fail(err, E_OUT_WHOLE, "%s: %s", t->path ? t->path : t->out.name, trouble);
	closed = dp_output_close(&t->out, r ? &late : err);
	dp_trace_journal_close(t);
	return r ? r : closed;
}
