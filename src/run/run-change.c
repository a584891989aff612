/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs that come to a process, or go, while others stay: the session that has them goes on, and changes as a whole
 * or not at all. Where it cannot (no room, watchpoints), it is made anew (run-targets.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/run-priv.h"

#define MOVED_TRIES 20

static u32 end_of(const struct run_range *r)
{
	return r->gates + r->room_gates;
}

/* ---- what changes ---- */

struct edit {
	struct dp_run *run;
	struct run_target *t;
	struct run_range *v; /* the ranges as they are to be: those that stay, then those that come */
	u32 n, nstay;
	bool *goes, any;        /* of the target's ranges; some are in */
	struct run_probe *free; /* as the target's probes, where something may come */
	u32 nprobes, words;
};

static bool has_watchpoints(const struct run_module *m)
{
	for (u32 i = 0; i < m->unit.nprobes; i++)
		if (m->unit.probes[i].place == DP_RPN_WATCH)
			return true;
	return false;
}

/* Whether the session can do with the module what the module wants. */
static bool suits(struct dp_run *run, struct run_target *t, const struct run_module *m)
{
	bool traps = m->flags & DP_RUN_ALLOW_TRAP && !t->allows_trap, globals = m->unit.nglobals && !t->shares;

	if (has_watchpoints(m) || (globals && !dp_run_open_globals(run)))
		return false;
	return !(traps || globals) || dp_tracee_permit(t->session, traps, globals ? run->globals_fd : -1);
}

/* Of a module that is in, and that this one was before, or is again. */
static struct run_range *range_before(const struct run_target *t, const struct run_module *m)
{
	for (u32 i = 0; i < t->nranges; i++)
		if (!t->ranges[i].left_out && dp_run_goes_on(m, t->ranges[i].m))
			return &t->ranges[i];
	return NULL;
}

static struct run_range *range_of(const struct run_target *t, const struct run_module *m)
{
	for (u32 i = 0; i < t->nranges; i++)
		if (t->ranges[i].m == m)
			return &t->ranges[i];
	return NULL;
}

/* The first gap between ranges that is large enough. */
static bool find_words(const struct edit *e, struct run_range *r)
{
	u32 size = r->room_locals + r->room_gates, at = RUN_GLOBALS;
	bool moved = true;

	while (moved) {
		moved = false;
		for (u32 i = 0; i < e->n + e->t->nranges; i++) {
			const struct run_range *o = i < e->n ? &e->v[i] : &e->t->ranges[i - e->n];

			if (at < end_of(o) && o->locals < at + size && end_of(o) > o->locals) {
				at = end_of(o);
				moved = true;
			}
		}
	}
	r->locals = at;
	r->gates = at + r->room_locals;
	return at + size <= e->words;
}

static bool find_places(struct edit *e, struct run_range *r)
{
	u32 next = 0;

	for (u32 i = 0; i < r->ngates; i++) {
		while (next < e->nprobes && e->free[next].m)
			next++;
		if (next == e->nprobes) {
			struct run_probe *v = realloc(e->free, (e->nprobes + 1ull) * sizeof(*v));

			if (!v)
				return false;
			e->free = v;
			e->nprobes++;
		}
		e->free[next] = (struct run_probe){r->m, i};
		r->at[i] = next++;
	}
	return true;
}

/* What processors have is looked at only where somebody has had the word before: it takes memory of the process. */
static void clear_word(struct run_target *t, u32 i)
{
	volatile u64 *word = dp_tracee_words(t->session) + i;

	if (i < t->nwords)
		dp_apart_clear(word, dp_run_apart(t));
	else
		*word = 0;
}

/*
 * A module that was there before, in whatever form, goes on with its words. Those of others, and those that it did not
 * have, begin anew: nobody uses them yet.
 */
static bool place_words(struct edit *e, struct run_range *r, const struct run_range *before)
{
	volatile u64 *words = dp_tracee_words(e->t->session);
	u32 locals = 0;

	if (before && before->room_locals >= r->nlocals && before->room_gates >= r->ngates) {
		locals = DP_MIN(before->nlocals, r->nlocals);
		r->locals = before->locals;
		r->gates = before->gates;
		r->room_locals = before->room_locals;
		r->room_gates = before->room_gates;
	} else if (before || !find_words(e, r)) {
		return false;
	}
	for (u32 i = locals; i < r->room_locals; i++)
		clear_word(e->t, r->locals + i);
	for (u32 i = 0; i < r->room_gates; i++)
		if (!before || !dp_run_keeps_gate(r, before, i))
			clear_word(e->t, r->gates + i);
	for (u32 k = 0; k < r->m->unit.ninits; k++)
		if (r->m->unit.inits[k].index >= locals)
			words[r->locals + r->m->unit.inits[k].index] = (u64)r->m->unit.inits[k].value;
	if (!before)
		r->fresh = !dp_run_bring_back(e->t, r, words);
	dp_run_fill_known(e->t, r, words);
	return true;
}

static int add(struct edit *e, struct run_range *r, struct dp_error *err)
{
	int rc = dp_run_check_build(e->t->session, &r->m->unit, err);

	for (u32 i = 0; i < r->ngates && !rc; i++)
		rc = dp_run_add_probe(e->t->session, r, i, err);
	return rc;
}

/* ---- carrying it out ---- */

/* Which ranges stay; what of w has none comes. NULL, or more than the session can do: false. */
static bool sort_out(struct edit *e, const struct run_wanted *w)
{
	struct run_target *t = e->t;

	e->v = calloc((u64)t->nranges + w->n + 1, sizeof(*e->v));
	e->goes = calloc(t->nranges + 1ull, sizeof(*e->goes));
	e->free = calloc(t->nprobes + 1ull, sizeof(*e->free));
	if (!e->v || !e->goes || !e->free)
		return false;
	memcpy(e->free, t->probes, t->nprobes * sizeof(*e->free));
	e->nprobes = t->nprobes;
	for (u32 i = 0; i < t->nranges; i++) {
		struct run_range *r = &t->ranges[i];

		e->goes[i] = r->left_out || r->stale || r->generation != r->m->generation || !dp_run_is_among(w, r->m);
		e->any |= e->goes[i] && !r->left_out;
		if (e->goes[i] && !r->left_out && has_watchpoints(r->m))
			return false;
		if (!e->goes[i])
			e->v[e->n++] = *r;
	}
	e->nstay = e->n;
	for (u32 i = 0; i < w->n; i++) {
		struct run_range *r = range_of(t, w->v[i]);

		if (r && !e->goes[r - t->ranges])
			continue;
		if (!suits(e->run, t, w->v[i]) || !dp_run_place_range(&e->v[e->n], w->v[i], 0, true))
			return false;
		if (!place_words(e, &e->v[e->n], range_before(t, w->v[i])) || !find_places(e, &e->v[e->n])) {
			free(e->v[e->n].at);
			return false;
		}
		e->n++;
	}
	return e->n;
}

static bool has_place(const struct run_target *t, u32 index)
{
	const struct run_range *r = t->probes[index].m ? range_of(t, t->probes[index].m) : NULL;

	return r && !r->left_out && t->probes[index].index < r->ngates && r->at[t->probes[index].index] == index;
}

/* Of a probe that goes: to its module, from the rings. */
static void take_counts(struct run_target *t, u32 index)
{
	const struct run_probe *p = &t->probes[index];
	struct dp_counts c;

	dp_reader_counts(t->reader, index, &c);
	for (u32 k = 0; k < DP_NCOUNTS; k++)
		p->m->done[p->index].v[k] += c.v[k];
	dp_reader_forget(t->reader, index);
}

/* What has gone leaves its counts, and its places to others. */
static void settle(struct edit *e, const struct run_wanted *w)
{
	struct run_target *t = e->t;
	struct dp_run *run = e->run;

	dp_run_end_governors(run, t);
	free(t->probes);
	t->probes = e->free; /* those that go, too */
	t->nprobes = e->nprobes;
	e->free = NULL;
	dp_run_drain(run, t, true);
	dp_run_note_how(t);
	for (u32 i = 0; i < t->nranges; i++) {
		const struct run_range *r = &t->ranges[i];

		for (u32 k = 0; e->goes[i] && !r->left_out && k < r->ngates; k++)
			take_counts(t, r->at[k]);
	}
	dp_run_keep_words(t, dp_tracee_words(t->session), dp_run_apart(t), t->ranges, t->nranges, w);
	dp_run_log_commit(run);
	for (u32 i = 0; i < t->nranges; i++)
		if (e->goes[i])
			dp_run_save_module(run, t->ranges[i].m);
	for (u32 i = 0; i < t->nranges; i++)
		if (e->goes[i])
			free(t->ranges[i].at);
	free(t->ranges);
	t->ranges = e->v;
	t->nranges = e->n;
	for (u32 i = 0; i < t->nranges; i++) {
		t->nwords = DP_MAX(t->nwords, end_of(&t->ranges[i]));
		t->shares |= t->pid && t->ranges[i].m->unit.nglobals && !t->ranges[i].left_out;
		t->allows_trap |= !!(t->ranges[i].m->flags & DP_RUN_ALLOW_TRAP);
	}
	e->v = NULL;
	for (u32 i = 0; i < t->nprobes; i++)
		if (!has_place(t, i))
			t->probes[i].m = NULL;
	dp_run_save_target(run, t, t->ranges, t->nranges, dp_tracee_words(t->session), dp_run_apart(t), t->nwords);
	for (u32 i = 0; i < t->nranges; i++)
		dp_run_forget_kept(t, t->ranges[i].m);
}

static int attempt(struct dp_run *run, struct run_target *t, const struct run_wanted *w, struct dp_error *err)
{
	struct edit e = {.run = run, .t = t};
	int r = dp_tracee_can_change(t->session, &e.words) && sort_out(&e, w) ? 0 : -ENOSPC;

	for (u32 i = 0; i < t->nranges && !r; i++)
		for (u32 k = 0; e.goes[i] && !t->ranges[i].left_out && k < t->ranges[i].ngates; k++)
			dp_tracee_drop(t->session, t->ranges[i].at[k]);
	for (u32 i = e.nstay; i < e.n && !r; i++)
		r = add(&e, &e.v[i], err);
	if (r && r != -ENOSPC)
		dp_tracee_cancel(t->session);
	if (!r && !dp_tracee_fits(t->session)) { /* before anybody begins */
		dp_tracee_cancel(t->session);
		r = -ENOSPC;
	}
	for (u32 i = e.nstay; i < e.n && !r; i++)
		if (e.v[i].fresh)
			dp_run_begin_bodies(run, t, e.v[i].m, dp_tracee_words(t->session) + e.v[i].locals);
	if (!r && (e.any || e.n > e.nstay))
		r = dp_tracee_change(t->session, err);
	if (!r)
		settle(&e, w);
	for (u32 i = e.nstay; e.v && i < e.n; i++)
		free(e.v[i].at);
	free(e.v);
	free(e.goes);
	free(e.free);
	return r;
}

/* Its probes are not in: noted, so that it is not tried at each look. */
static bool note_left_out(struct run_target *t, struct run_module *m, const struct dp_error *err)
{
	struct run_range *v = realloc(t->ranges, (t->nranges + 1ull) * sizeof(*v));

	if (!v)
		return false;
	t->ranges = v;
	if (!dp_run_place_range(&v[t->nranges], m, 0, false))
		return false;
	v[t->nranges].room_locals = v[t->nranges].room_gates = 0;
	dp_run_leave_out(&v[t->nranges++], t->pid, err);
	return true;
}

/* A module that was to take the place of another one was refused: the other one stays, as all others. */
static bool stay_as_they_are(struct run_target *t, const struct run_wanted *w, const struct dp_error *err)
{
	bool any = false;

	for (u32 i = 0; i < w->n; i++) {
		struct run_range *before = w->v[i]->before ? range_of(t, w->v[i]->before) : NULL;

		if (!before || before->left_out || !before->m->leaving)
			continue;
		before->stale = false;
		any |= note_left_out(t, w->v[i], err);
	}
	return any;
}

/* These alone. One that the program has unmapped goes, too, if the others cannot stay with it. */
static int attempt_some(struct dp_run *run, struct run_target *t, struct run_wanted *some, struct dp_error *err)
{
	int r = some->n ? attempt(run, t, some, err) : 0;

	for (u32 i = 0; r == -dp_error_info(E_ARM_MOVED)->number && some->n > 1 && i < some->n; i++) {
		struct run_wanted less = *some;

		memmove(&less.v[i], &less.v[i + 1], (less.n - i - 1) * sizeof(*less.v));
		less.n--;
		r = attempt(run, t, &less, err);
		if (!r)
			*some = less;
	}
	return r;
}

bool dp_run_change(struct dp_run *run, struct run_target *t, const struct run_wanted *w)
{
	struct dp_error err = {0};
	struct run_wanted some;
	u32 words;
	int r;

	if (!t->session || !t->pid || !dp_tracee_alive(t->session))
		return false;
	r = attempt(run, t, w, &err);
	/* The program has unmapped a module meanwhile: seen by its patches, or by memory that cannot be read. */
	for (u32 i = 1; (r == -dp_error_info(E_ARM_MOVED)->number || err.code == E_TARGET_MEM) && r && i < MOVED_TRIES;
	     i++) {
		usleep(i * 1000); /* until the program has loaded the module again */
		r = attempt(run, t, w, &err);
	}
	/* What was begun is ended by a new session. */
	if (!r || r == -ENOSPC || !dp_tracee_can_change(t->session, &words))
		return !r;
	if (stay_as_they_are(t, w, &err))
		return true;
	/* Not all together: those that go, then one by one. */
	some.n = 0;
	for (u32 i = 0; i < w->n; i++) {
		const struct run_range *have = range_of(t, w->v[i]);

		if (have && !have->left_out && !have->stale && have->generation == w->v[i]->generation)
			some.v[some.n++] = w->v[i];
	}
	if (attempt_some(run, t, &some, &err))
		return false;
	for (u32 i = 0; i < w->n; i++) {
		if (dp_run_is_among(&some, w->v[i]))
			continue;
		some.v[some.n++] = w->v[i];
		r = attempt(run, t, &some, &err);
		if (r == -ENOSPC)
			return false;
		if (r && !note_left_out(t, w->v[i], &err))
			return false;
		if (r)
			some.n--;
	}
	return some.n; /* nobody stays and nobody comes: those that go are still there */
}
