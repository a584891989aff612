/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Aggregates of processes that have ended: their words, and the names of the addresses in keys, since nothing could
 * tell them later. log/aggregate.c shows aggregates.
 */
#include <stdlib.h>
#include <string.h>

#include "run/run-priv.h"
#include "run/run-rows.h"

#define ENDED_MAX 32           /* processes that are remembered, for each module; */
#define ENDED_MAX_MERGED 1024u /* in a trace, where one table shows them: a driver writes all of them down */

u32 dp_run_aggregate_at(const struct dp_rpn_unit *u, u32 i)
{
	for (u32 k = 0; k < u->naggregates; k++) {
		const struct dp_rpn_aggregate *a = &u->aggregates[k];
		u32 words = (u32)dp_rpn_aggregate_words(a);

		if (i >= a->index && i - a->index < words)
			return a->index + words - i;
	}
	return 0;
}

void dp_run_clear_aggregate(const struct dp_rpn_aggregate *a, volatile u64 *words, struct dp_apart apart)
{
	struct dp_apart of_values = dp_fold_can_be_apart(a->kind) ? apart : (struct dp_apart){0, 0};
	u32 size = dp_aggregate_words(a->kind), first = 0, step = size, n = 1;

	if (a->nparts) {
		first = 2 + dp_rpn_placed_words(a);
		step = 1 + dp_rpn_placed_words(a) + size;
		n = a->keys;
		__atomic_store_n(words + a->index, 0, __ATOMIC_RELAXED);
		if (a->chains)
			__atomic_store_n(words + dp_rpn_chains_at(a), 0, __ATOMIC_RELAXED);
	}
	for (u32 i = 0; i < n; i++)
		for (u32 k = 0; k < size; k++)
			dp_apart_set(words + a->index + first + i * step + k, of_values, 0);
}

static void clear_shown(void *arg, const struct dp_rpn_unit *u, volatile u64 *words, const struct dp_agg_view *view)
{
	for (u32 i = 0; i < u->naggregates; i++)
		if (!u->aggregates[i].loss && !u->aggregates[i].thread && u->aggregates[i].kind != DP_AGG_LAST)
			dp_run_clear_aggregate(&u->aggregates[i], words, view->apart);
}

void dp_run_clear_aggregates(const struct dp_run *run)
{
	dp_run_each_words(run, clear_shown, NULL);
}

/* ---- processes that have ended ---- */

struct recorder { /* asks another, and keeps the answers in the order of addresses */
	const struct dp_agg_view *view;
	struct run_name *v;
	size_t n, room;
	struct dp_code_file *files;
	size_t nfiles, files_room;
};

static size_t position(const struct run_name *v, size_t n, u64 addr)
{
	size_t lo = 0;

	while (lo < n) {
		size_t mid = (lo + n) / 2;

		if (v[mid].addr < addr)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

static bool find_file(const struct dp_code_file *v, size_t n, u64 addr, struct dp_code_file *file)
{
	for (size_t i = 0; i < n; i++)
		if (addr >= v[i].lo && addr < v[i].hi) {
			*file = v[i];
			return true;
		}
	return false;
}

static void record_file(struct recorder *r, u64 addr)
{
	struct dp_code_file f, *to;

	if (find_file(r->files, r->nfiles, addr, &f) || !r->view->code_file ||
	    !r->view->code_file(r->view->arg, addr, &f) ||
	    !dp_grow((void **)&r->files, &r->files_room, r->nfiles, sizeof(*r->files)))
		return;
	to = &r->files[r->nfiles];
	*to = (struct dp_code_file){f.lo, f.hi, strdup(f.path), strdup(f.build_id)};
	if (to->path && to->build_id) {
		r->nfiles++;
		return;
	}
	free((char *)to->path);
	free((char *)to->build_id);
}

static bool record(void *arg, u64 addr, char *buf, size_t size)
{
	struct recorder *r = arg;
	size_t at = position(r->v, r->n, addr);

	record_file(r, addr);
	if (!r->view->symbolize(r->view->arg, addr, buf, size))
		return false;
	if ((at < r->n && r->v[at].addr == addr) || !dp_grow((void **)&r->v, &r->room, r->n, sizeof(*r->v)))
		return true;
	memmove(&r->v[at + 1], &r->v[at], (r->n - at) * sizeof(*r->v));
	r->v[at].addr = addr;
	snprintf(r->v[at].text, sizeof(r->v[at].text), "%s", buf);
	r->n++;
	return true;
}

bool dp_run_name_of_ended(void *arg, u64 addr, char *buf, size_t size)
{
	const struct run_ended *e = arg;
	size_t at = position(e->names, e->nnames, addr);

	if (at == e->nnames || e->names[at].addr != addr)
		return false;
	snprintf(buf, size, "%s", e->names[at].text);
	return true;
}

bool dp_run_file_of_ended(void *arg, u64 addr, struct dp_code_file *file)
{
	const struct run_ended *e = arg;

	return find_file(e->files, e->nfiles, addr, file);
}

static bool has_names(const struct dp_rpn_unit *u)
{
	for (u32 i = 0; i < u->naggregates; i++)
		for (u32 k = 0; k < u->aggregates[i].nparts; k++)
			if (u->aggregates[i].parts[k] == DP_KEY_CODE || u->aggregates[i].parts[k] == DP_KEY_STACK)
				return true;
	return false;
}

/* Whatever would be asked later is asked now. */
static void keep_names(const struct dp_rpn_unit *u, struct run_ended *e, const struct dp_agg_view *view)
{
	char *text = NULL;
	size_t size = 0;
	FILE *nowhere = has_names(u) ? open_memstream(&text, &size) : NULL;
	struct recorder r = {.view = view};

	if (!nowhere)
		return;
	dp_agg_show(DP_FORMAT_TEXT, u, e->words, DP_AGG_ALL, &(struct dp_agg_view){view->pid, true, record, &r},
		    nowhere);
	fclose(nowhere);
	free(text);
	e->names = r.v;
	e->nnames = (u32)r.n;
	e->files = r.files;
	e->nfiles = (u32)r.nfiles;
}

void dp_run_free_ended(struct run_ended *e)
{
	if (!e)
		return;
	for (u32 i = 0; i < e->nfiles; i++) {
		free((char *)e->files[i].path);
		free((char *)e->files[i].build_id);
	}
	free(e->files);
	free(e->names);
	free(e);
}

struct run_ended *dp_run_ended_new(const struct run_module *m, volatile const u64 *words,
				   const struct dp_agg_view *view)
{
	struct run_ended *e = calloc(1, sizeof(*e) + m->unit.nlocals * sizeof(u64));

	if (!e)
		return NULL;
	e->pid = view->pid;
	for (u32 i = 0; i < m->unit.nlocals; i++)
		e->words[i] = dp_apart_read(words + i, view->apart);
	keep_names(&m->unit, e, view);
	return e;
}

void dp_run_keep_ended(struct dp_run *run, struct run_module *m, struct run_ended *e)
{
	u32 most = !run->log && dp_agg_any_merged(&m->unit) ? ENDED_MAX_MERGED : ENDED_MAX;
	struct run_ended **p = &m->ended;
	u32 n = 0;

	if (!e || !m->unit.naggregates) {
		dp_run_free_ended(e);
		return;
	}
	while (*p) {
		n++;
		p = &(*p)->next;
	}
	*p = e;
	if (run->save_ended)
		run->save_ended(run, m, e, most);
	if (n >= most) {
		e = m->ended;
		m->ended = e->next;
		m->losses += dp_agg_losses(&m->unit, e->words);
		m->thread_losses += dp_agg_thread_losses(&m->unit, e->words);
		dp_run_free_ended(e);
	}
}

void dp_run_forget_ended(struct run_module *m)
{
	for (struct run_ended *e; (e = m->ended);) {
		m->ended = e->next;
		dp_run_free_ended(e);
	}
}
