/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The members of a trace: processes that come and go, and what their probes are among the events of all. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/run-merge.h"
#include "run/run-recover.h"
#include "run/run-threads.h"
#include "run/run-trace.h"
#include "symbols/symbols.h"

u64 dp_tracee_rings_inode(const struct dp_tracee *t)
{
	return t->ops->rings_inode ? t->ops->rings_inode(t->session) : 0;
}

/* ---- come ---- */

int dp_trace_open(struct dp_trace *t, pid_t pid, char *const command[], const struct dp_session_options *opt,
		  struct dp_error *err)
{
	struct dp_trace_member *m;
	int r;

	if (!dp_grow((void **)&t->v, &t->room, t->n, sizeof(*t->v)))
		return dp_fail(err, E_RING_MEMORY, "%u processes", t->n + 1);
	m = dp_alloc(sizeof(*m));
	if (!m)
		return dp_fail(err, E_RING_MEMORY, "%u processes", t->n + 1);
	m->ends_from = ~0u;
	r = dp_recover_open(&m->tracee, pid, command, opt, err);
	if (r) {
		dp_free(m);
		return r;
	}
	pid = dp_tracee_pid(&m->tracee);
	if (pid) { /* its threads may have ended before anybody looks */
		m->threads = dp_threads_new(pid);
		dp_task_comm((u32)pid, m->comm);
	}
	t->started |= command != NULL;
	t->v[t->n++] = m;
	return 0;
}

struct dp_trace_member *dp_trace_last(const struct dp_trace *t)
{
	return t->n ? t->v[t->n - 1] : NULL;
}

static void free_member(struct dp_trace_member *m)
{
	dp_governor_free(m->governor);
	dp_reader_close(m->reader);
	dp_threads_free(m->threads);
	dp_tracee_free(&m->tracee);
	free(m->events);
	dp_free(m);
}

void dp_trace_drop_last(struct dp_trace *t)
{
	struct dp_trace_member *m = t->v[--t->n];

	if (t->now == m)
		t->now = NULL;
	free_member(m);
}

/* ---- events ---- */

static bool same_text(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

static bool same_layout(const struct dp_layout *a, const struct dp_layout *b)
{
	if (a->nfields != b->nfields)
		return false;
	for (u32 i = 0; i < a->nfields; i++) {
		const struct dp_field *x = &a->fields[i], *y = &b->fields[i];

		if (x->type != y->type || x->offset != y->offset || x->size != y->size || x->count != y->count ||
		    strcmp(x->name, y->name) != 0)
			return false;
	}
	return true;
}

static bool same_event(const struct dp_event_info *a, const struct dp_event_info *b)
{
	return a->offset == b->offset && a->is_return == b->is_return && same_text(a->symbol, b->symbol) &&
	       same_text(a->name, b->name) && same_text(a->group, b->group) && same_layout(a->layout, b->layout);
}

/* Among the first n: the same event of other members, unless this one has it already; most often `likely`. n: none. */
static u32 find_event(const struct dp_trace *t, u32 n, const struct dp_event_info *info, const bool *used, u32 likely)
{
	for (u32 i = 0; i < n; i++) {
		u32 k = (likely + i) % n;

		if (!used[k] && same_event(&t->infos[k], info))
			return k;
	}
	return n;
}

/* As much as the first member needs: it may have a hundred thousand, and as a rule others have the same. */
static bool make_room(struct dp_trace *t, u32 n)
{
	if (t->infos || !n)
		return true;
	t->infos = calloc(n, sizeof(*t->infos));
	t->places = calloc(n, sizeof(*t->places));
	t->infos_room = t->infos ? n : 0;
	t->places_room = t->places ? n : 0;
	return t->infos && t->places;
}

static bool grow_events(struct dp_trace *t)
{
	return dp_grow((void **)&t->infos, &t->infos_room, t->nevents, sizeof(*t->infos)) &&
	       dp_grow((void **)&t->places, &t->places_room, t->nevents, sizeof(*t->places));
}

static void describe(const struct dp_trace_member *m, u32 i, struct dp_event_info *info)
{
	struct dp_probe_info p;

	dp_tracee_probe(&m->tracee, i, &p);
	*info = (struct dp_event_info){
	    .group = p.event->group,
	    .name = p.event->is_named ? p.name : "",
	    .symbol = p.symbol,
	    .offset = p.offset,
	    .is_return = p.event->is_return,
	    .function = p.addr - p.offset,
	    .layout = &p.event->prog.layout,
	};
}

static int describe_member(struct dp_trace *t, u32 member, struct dp_error *err)
{
	struct dp_trace_member *m = t->v[member];
	u32 n = dp_tracee_nprobes(&m->tracee), others = t->nevents, likely = 0, done = 0;
	bool *used = calloc(others + 1, sizeof(*used));

	m->events = calloc(n + 1, sizeof(*m->events));
	for (u32 i = 0; used && m->events && make_room(t, n) && i < n; i++) {
		struct dp_event_info info;
		u32 k;

		describe(m, i, &info);
		k = find_event(t, others, &info, used, likely);
		if (k < others) {
			used[k] = true;
			likely = k + 1;
		} else if (!grow_events(t)) {
			break;
		} else {
			k = t->nevents++;
			t->infos[k] = info;
			t->places[k] = (struct dp_trace_place){.member = member, .probe = i};
			m->is_needed = true;
		}
		m->events[i] = k;
		done++;
	}
	free(used);
	return m->events && done == n ? 0 : dp_fail(err, E_RING_MEMORY, "%u events", n);
}

int dp_trace_describe(struct dp_trace *t, struct dp_error *err)
{
	int r = 0;

	for (u32 i = 0; i < t->n && !r; i++)
		if (!t->v[i]->events)
			r = describe_member(t, i, err);
	if (!r && t->formatter)
		dp_formatter_events(t->formatter, t->infos, t->nevents);
	return r;
}

static u32 index_of(const struct dp_trace *t, const struct dp_trace_member *m)
{
	u32 i = 0;

	while (t->v[i] != m)
		i++;
	return i;
}

int dp_trace_arm(struct dp_trace *t, struct dp_trace_member *m, struct dp_error *err)
{
	bool journaled = dp_trace_journal_add(t, index_of(t, m));
	int r = dp_tracee_arm(&m->tracee, err);

	if (r)
		return r;
	t->was_armed = true;
	if (!dp_tracee_nprobes(&m->tracee)) /* a program that was started for those that it will start */
		return 0;
	r = dp_reader_open(&m->reader, dp_tracee_rings(&m->tracee), err);
	m->rings_inode = r ? 0 : dp_tracee_rings_inode(&m->tracee);
	if (!r && t->budget)
		m->governor = dp_governor_new(&(struct dp_govern_setup){
		    .budget = t->budget, .tracee = &m->tracee, .reader = m->reader, .note = t->note});
	m->is_journaled = !r && journaled;
	if (m->is_journaled)
		dp_reader_keep(m->reader);
	if (!r && m->threads)
		dp_reader_set_alive(m->reader, dp_threads_alive, m->threads);
	return r;
}

/* ---- rest ---- */

static int pause_in(struct dp_trace *t, struct dp_trace_member *m,
		    bool (*is_meant)(const struct dp_event_info *ev, const void *arg), const void *arg, bool pause,
		    struct dp_error *err)
{
	u32 words, n = 0;
	int r = dp_tracee_can_change(&m->tracee, &words) ? 0 : -EINVAL;

	for (u32 i = 0; !r && i < dp_tracee_nprobes(&m->tracee); i++)
		if (is_meant(&t->infos[m->events[i]], arg)) {
			r = dp_tracee_pause(&m->tracee, i, pause);
			n++;
		}
	if (!r && !n)
		return 0;
	if (r && n)
		dp_tracee_cancel(&m->tracee);
	if (!r)
		r = dp_tracee_change(&m->tracee, err);
	return r && !err->code ? dp_fail(err, E_ARM_CHANGE, "process %d", (int)dp_tracee_pid(&m->tracee)) : r;
}

int dp_trace_pause(struct dp_trace *t, bool (*is_meant)(const struct dp_event_info *ev, const void *arg),
		   const void *arg, bool pause, struct dp_error *err)
{
	int r = 0;

	*err = (struct dp_error){0};
	for (u32 i = 0; i < t->n && !r; i++)
		if (t->v[i]->reader && !t->v[i]->has_ended)
			r = pause_in(t, t->v[i], is_meant, arg, pause, err);
	return r;
}

/* ---- and go ---- */

int dp_trace_remove(struct dp_trace *t, struct dp_error *err)
{
	struct dp_error e;
	int first = 0;

	for (u32 i = 0; i < t->n; i++) {
		int r;

		dp_governor_end(t->v[i]->governor);
		r = dp_tracee_remove(&t->v[i]->tracee, &e);

		if (r && !first && err)
			*err = e;
		first = first ? first : r;
	}
	return first;
}

static void add_counts(const struct dp_trace_member *m, u32 i, struct dp_counts *to)
{
	struct dp_counts c;

	dp_reader_counts(m->reader, i, &c);
	for (u32 k = 0; k < DP_NCOUNTS; k++)
		to->v[k] += c.v[k];
}

/* Records that never came: hits that found no room in the log, and those that were met within another hit. */
void dp_trace_note_losses(struct dp_trace *t, struct dp_trace_member *m)
{
	u64 n = 0;

	for (u32 i = 0; m->reader && i < dp_tracee_nprobes(&m->tracee); i++) {
		struct dp_counts c = {0};

		add_counts(m, i, &c);
		n += c.v[DP_COUNT_LOST] + c.v[DP_COUNT_MISSED];
	}
	if (n > m->lost) {
		t->untold += n - m->lost;
		m->lost = n;
	}
}

static bool make_gone(struct dp_trace *t)
{
	struct dp_trace_gone *v;

	if (t->ngone == t->nevents)
		return true;
	v = dp_resize(t->gone, t->ngone * sizeof(*v), t->nevents * sizeof(*v));
	if (!v)
		return false;
	t->gone = v;
	t->ngone = t->nevents;
	return true;
}

void dp_trace_put_away(struct dp_trace *t, struct dp_trace_member *m)
{
	dp_governor_end(m->governor);
	dp_trace_note_losses(t, m);
	if (!make_gone(t)) /* another time, perhaps */
		return;
	for (u32 i = 0; m->reader && i < dp_tracee_nprobes(&m->tracee); i++) {
		add_counts(m, i, &t->gone[m->events[i]].counts);
		dp_governor_add(m->governor, i, &t->gone[m->events[i]].governed);
	}
	dp_governor_add_cost(m->governor, &t->governed);
	dp_governor_free(m->governor);
	m->governor = NULL;
	dp_reader_close(m->reader);
	m->reader = NULL;
	m->is_journaled = false;
	m->was_put_away = true;
	if (!m->is_needed && !(t->started && m == t->v[0]))
		dp_tracee_free(&m->tracee);
}

struct dp_counts *dp_trace_counts(const struct dp_trace *t)
{
	struct dp_counts *sums = calloc(t->nevents + 1, sizeof(*sums));

	for (u32 i = 0; sums && i < t->ngone; i++)
		sums[i] = t->gone[i].counts;
	for (u32 i = 0; sums && i < t->n; i++) {
		const struct dp_trace_member *m = t->v[i];

		for (u32 k = 0; m->reader && k < dp_tracee_nprobes(&m->tracee); k++)
			add_counts(m, k, &sums[m->events[k]]);
	}
	return sums;
}

void dp_trace_losses(const struct dp_trace *t, u64 *lost, u64 *unread)
{
	struct dp_counts *sums = dp_trace_counts(t);
	u64 recorded = 0;

	*lost = 0;
	for (u32 i = 0; sums && i < t->nevents; i++) {
		*lost += sums[i].v[DP_COUNT_LOST];
		recorded += sums[i].v[DP_COUNT_RECORDED];
	}
	*unread = recorded > t->read ? recorded - t->read : 0;
	free(sums);
}

void dp_trace_free(struct dp_trace *t)
{
	pid_t pid = t->started && t->n ? dp_tracee_pid(&t->v[0]->tracee) : 0;

	if (pid && !t->was_armed)
		kill(pid, SIGKILL);
	dp_formatter_free(t->formatter);
	dp_trace_journal_close(t);
	dp_merge_free(t->merge);
	dp_keep_free(t->keep);
	while (t->n)
		dp_trace_drop_last(t);
	free(t->v);
	free(t->infos);
	free(t->places);
	dp_free(t->gone);
}
