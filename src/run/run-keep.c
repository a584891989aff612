/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See run-keep.h. The stack pointer tells which return belongs to the request: it is the same at the entry of a call
 * and at its return. The outermost call decides. One that was left without a return (an exception, longjmp()) has ended
 * when the function is entered, or returns, at the same or a shallower depth.
 */
#include <stdlib.h>
#include <string.h>

#include "abi/abi-record.h"
#include "log/recording-table.h"
#include "run/run-keep.h"

struct thread {
	u32 source; /* of the request */
	bool open;
	u64 sp, begin_ns;
	u8 *bytes; /* its records, each behind a struct waiting */
	size_t first, used, room;
	u64 nrecords;
};

struct waiting {
	u64 ns;
	u32 source, pad;
};

struct dp_keep {
	const struct dp_keep_rule *rule;
	const struct dp_keep_ops *ops;
	void *arg;
	struct dp_recording_table table; /* threads by id and process */
	struct thread *v;
	u32 n;
	size_t room;
	struct dp_keep_counts counts;
	struct dp_keep_event *events;
	u32 nevents;
	size_t events_room;
};

struct dp_keep *dp_keep_new(const struct dp_keep_rule *rule, const struct dp_keep_ops *ops, void *arg)
{
	struct dp_keep *k = calloc(1, sizeof(*k));

	if (k)
		*k = (struct dp_keep){.rule = rule, .ops = ops, .arg = arg};
	return k;
}

void dp_keep_free(struct dp_keep *k)
{
	for (u32 i = 0; k && i < k->n; i++)
		free(k->v[i].bytes);
	if (k) {
		dp_recording_table_free(&k->table);
		free(k->v);
		free(k->events);
	}
	free(k);
}

void dp_keep_counts(const struct dp_keep *k, struct dp_keep_counts *out)
{
	*out = k->counts;
}

struct dp_keep_event dp_keep_event(const struct dp_keep *k, u32 event)
{
	return k && event < k->nevents ? k->events[event] : (struct dp_keep_event){0};
}

/* A record of that event is not shown. */
static void leave_out(struct dp_keep *k, u32 event, bool lost)
{
	k->counts.cut += lost;
	if (k->ops->left) {
		k->ops->left(k->arg, event, lost);
		return;
	}
	while (k->nevents <= event) {
		if (!dp_grow((void **)&k->events, &k->events_room, k->nevents, sizeof(*k->events)))
			return;
		k->events[k->nevents++] = (struct dp_keep_event){0};
	}
	if (lost)
		k->events[event].lost++;
	else
		k->events[event].passed++;
}

/* NULL: no memory. */
static struct thread *thread_of(struct dp_keep *k, u32 process, u32 tid)
{
	u32 i;

	if (dp_recording_find(&k->table, tid, process, &i))
		return &k->v[i];
	if (!dp_grow((void **)&k->v, &k->room, k->n, sizeof(*k->v)) || !dp_recording_add(&k->table, tid, process, k->n))
		return NULL;
	k->v[k->n] = (struct thread){.source = 0};
	return &k->v[k->n++];
}

/* ---- the condition ---- */

static bool compare(const struct dp_keep_node *n, u64 duration, u64 retval)
{
	u32 shift = n->duration ? 0 : 64 - 8u * n->bytes;
	u64 bits = (n->duration ? duration : retval) << shift;
	s64 is = n->is_signed ? (s64)bits >> shift : 0;
	bool less = n->is_signed ? is < n->value : bits >> shift < (u64)n->value;
	bool same = n->is_signed ? is == n->value : bits >> shift == (u64)n->value;

	switch (n->op) {
	case DP_KEEP_LT:
		return less;
	case DP_KEEP_LE:
		return less || same;
	case DP_KEEP_GT:
		return !less && !same;
	case DP_KEEP_GE:
		return !less;
	case DP_KEEP_EQ:
		return same;
	default:
		return !same;
	}
}

static bool holds(const struct dp_keep_rule *rule, u64 duration, u64 retval)
{
	bool v[DP_KEEP_NODES] = {false};

	for (u32 i = 0; i < rule->n; i++) {
		const struct dp_keep_node *n = &rule->v[i];

		if (n->op == DP_KEEP_NOT)
			v[i] = !v[n->a];
		else if (n->op == DP_KEEP_AND)
			v[i] = v[n->a] && v[n->b];
		else if (n->op == DP_KEEP_OR)
			v[i] = v[n->a] || v[n->b];
		else
			v[i] = compare(n, duration, retval);
	}
	return v[rule->n - 1];
}

/* ---- records that wait ---- */

static const struct dp_record *record_at(const struct thread *t, size_t at)
{
	return (const struct dp_record *)(t->bytes + at + sizeof(struct waiting));
}

static size_t entry_size(const struct thread *t, size_t at)
{
	return sizeof(struct waiting) + record_at(t, at)->len;
}

static void drop_oldest(struct dp_keep *k, struct thread *t)
{
	leave_out(k, record_at(t, t->first)->event, true);
	t->first += entry_size(t, t->first);
	t->nrecords--;
	if (t->first < t->used / 2)
		return;
	memmove(t->bytes, t->bytes + t->first, t->used - t->first);
	t->used -= t->first;
	t->first = 0;
}

static bool make_room(struct thread *t, size_t size)
{
	size_t want = t->used + size, room = DP_MAX(t->room * 2, want + 4096);
	u8 *more;

	if (want <= t->room)
		return true;
	more = realloc(t->bytes, room);
	if (!more)
		return false;
	t->bytes = more;
	t->room = room;
	return true;
}

static void put(struct dp_keep *k, struct thread *t, const struct dp_keep_hit *hit, const struct dp_record *rec, u64 ns)
{
	struct waiting w = {.ns = ns, .source = hit->source};
	struct dp_record own = *rec;
	size_t size = sizeof(w) + rec->len;
	u8 *to;

	while (t->nrecords && t->used - t->first + size > DP_KEEP_BYTES)
		drop_oldest(k, t);
	if (!make_room(t, size)) {
		leave_out(k, hit->event, true);
		return;
	}
	own.event = hit->event;
	to = t->bytes + t->used;
	memcpy(to, &w, sizeof(w));
	memcpy(to + sizeof(w), &own, sizeof(own));
	memcpy(to + sizeof(w) + sizeof(own), rec + 1, rec->len - sizeof(own));
	t->used += size;
	t->nrecords++;
}

/* The request is over. */
static void decide(struct dp_keep *k, struct thread *t, bool keep)
{
	if (keep && k->rule->asks)
		k->ops->met(k->arg);
	if (keep)
		k->counts.kept++;
	else
		k->counts.passed++;
	if (!keep)
		k->counts.passed_records += t->nrecords;
	for (size_t at = t->first; at < t->used; at += entry_size(t, at)) {
		struct waiting w;

		memcpy(&w, t->bytes + at, sizeof(w));
		if (keep)
			k->ops->show(k->arg, w.source, record_at(t, at), w.ns);
		else
			leave_out(k, record_at(t, at)->event, false);
	}
	free(t->bytes);
	*t = (struct thread){.source = 0};
}

static void leave_unfinished(struct dp_keep *k, struct thread *t)
{
	k->counts.unfinished++;
	decide(k, t, k->rule->unfinished);
}

/* ---- in order ---- */

static void enter(struct dp_keep *k, struct thread *t, const struct dp_keep_hit *hit, u64 ns)
{
	if (t->open && hit->sp < t->sp) /* within the request */
		return;
	if (t->open)
		leave_unfinished(k, t);
	t->open = true;
	t->source = hit->source;
	t->sp = hit->sp;
	t->begin_ns = ns;
}

static void leave(struct dp_keep *k, struct thread *t, const struct dp_keep_hit *hit, u64 ns)
{
	if (!t->open || hit->sp < t->sp)
		return;
	if (hit->sp > t->sp) /* of a call whose entry was not seen: ours was left */
		leave_unfinished(k, t);
	else
		decide(k, t, holds(k->rule, ns - t->begin_ns, hit->value));
}

static void pass_outside(struct dp_keep *k, u32 event)
{
	k->counts.outside++;
	leave_out(k, event, false);
}

/* Now. */
static void show(struct dp_keep *k, const struct dp_keep_hit *hit, const struct dp_record *rec, u64 ns)
{
	union {
		struct dp_record rec;
		u8 bytes[DP_RECORD_MAX];
	} own;

	memcpy(own.bytes, rec, rec->len);
	own.rec.event = hit->event;
	k->ops->show(k->arg, hit->source, &own.rec, ns);
}

void dp_keep_take(struct dp_keep *k, const struct dp_keep_hit *hit, const struct dp_record *rec, u64 ns)
{
	struct thread *t = thread_of(k, hit->process, rec->tid);

	if (!t) {
		leave_out(k, hit->event, true);
		return;
	}
	if (k->rule->asks)
		show(k, hit, rec, ns);
	else if (hit->is_mark)
		leave_out(k, hit->event, false);
	if (hit->is_mark && !hit->is_return)
		enter(k, t, hit, ns);
	else if (hit->is_mark)
		leave(k, t, hit, ns);
	else if (k->rule->asks)
		return;
	else if (t->open)
		put(k, t, hit, rec, ns);
	else if (k->rule->outside)
		show(k, hit, rec, ns);
	else
		pass_outside(k, hit->event);
}

void dp_keep_end(struct dp_keep *k, u32 source)
{
	for (u32 i = 0; k && i < k->n; i++)
		if (k->v[i].open && (source == ~0u || k->v[i].source == source))
			leave_unfinished(k, &k->v[i]);
}
