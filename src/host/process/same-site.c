/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Several sessions that probe the same instruction. Each patch there has the same window, and a rank: who comes later
 * has a larger one. The code jumps to the detour of the largest rank, which has the hits of all that stood there when
 * it came: a call through a word that leads to an entry of that session. So
 *	- who comes writes a detour with the hits of all, and its patch takes the place of the one in front;
 *	- who goes and is in front leaves its place to the patch of the next rank, whose detour has the hits of those
 *	  that are left;
 *	- who changes what it has there comes in front once more, with a patch and a detour anew; points keep their
 *	  numbers, so detours of others go on to have its hits;
 *	- who goes has its entries taken out of the words of others: they lead to a return from then on.
 * Who was killed on the way leaves bytes in some step between two patches whose detours are both mapped.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/process/same-site.h"

#define TRIES 25     /* to stop all threads */
#define AT_REST 1024 /* words that are written at one stop */

/* ---- patches of others ---- */

struct standing {
	u64 addr;
	const struct dp_patch *p;
	const struct dp_block *b;
	u32 owner; /* index of its record */
};

static int by_rank(const void *a, const void *b)
{
	const struct standing *x = a, *y = b;

	return x->addr != y->addr ? (x->addr > y->addr ? 1 : -1)
				  : (x->p->rank > y->p->rank) - (x->p->rank < y->p->rank);
}

/* Sorted by address and rank; NULL: no memory. */
static struct standing *patches_of_others(const struct dp_knowns *known, u64 own, u32 *n)
{
	struct standing *v;
	u32 room = 1;

	*n = 0;
	for (u32 i = 0; i < known->n; i++)
		room += known->v[i].block.ctl.npatches;
	v = calloc(room, sizeof(*v));
	for (u32 i = 0; v && i < known->n; i++) {
		const struct dp_block *b = &known->v[i].block;

		for (u32 k = 0; b->ctl.region_lo != own && k < b->ctl.npatches; k++)
			v[(*n)++] = (struct standing){b->patches[k].addr, &b->patches[k], b, i};
	}
	if (v)
		qsort(v, *n, sizeof(*v), by_rank);
	return v;
}

/* How many from the first one on are of the same place. */
static u32 group_of(const struct standing *v, u32 n)
{
	u32 k = 1;

	while (k < n && v[k].addr == v->addr)
		k++;
	return k;
}

static u64 end_of(const struct dp_patch *p)
{
	return p->addr + DP_MAX(p->len, p->span);
}

/* ---- a session that comes ---- */

struct lookup { /* the points of one record, by address */
	struct dp_redirect *v;
	u32 n;
};

static bool index_points(struct lookup *l, const struct dp_block *b)
{
	l->v = calloc(b->ctl.npoints + 1ull, sizeof(*l->v));
	for (u32 i = 0; l->v && i < b->ctl.npoints; i++)
		if (b->points[i].n || b->points[i].store)
			l->v[l->n++] = (struct dp_redirect){b->points[i].addr, i};
	return l->v && DP_SORT_BY(l->v, l->n, pc);
}

static bool waits(const struct dp_block *b, const struct dp_point *pt)
{
	bool any = false;

	for (u32 i = pt->first; i < pt->first + pt->n; i++)
		any |= b->probes[i].flags & DP_PROBE_WAITS;
	return any;
}

static void add_hit(struct dp_plan *plan, const struct dp_block *b, u32 point)
{
	const struct dp_point *pt = &b->points[point];
	struct dp_other_hit *o = &plan->others[plan->nothers++];
	u64 region = b->ctl.region_lo;

	*o = (struct dp_other_hit){.addr = pt->addr, .point = point, .confirm = waits(b, pt)};
	o->entries[DP_ENTRY_PLAIN] = region + b->head.entry_plain;
	o->entries[DP_ENTRY_FLAGS] = region + b->head.entry_flags;
	o->entries[DP_ENTRY_ZONE] = region + b->head.entry_zone;
	o->entries[DP_ENTRY_ZONE_FLAGS] = region + b->head.entry_zone_flags;
}

/* The hits of one session in the window. False: they cannot be in another one's detour, or no memory. */
static bool add_hits(struct dp_plan *plan, const struct standing *s, const struct lookup *l)
{
	for (u32 i = dp_redirects_below(l->v, l->n, s->addr); i < l->n && l->v[i].pc < end_of(s->p); i++) {
		const struct dp_point *pt = &s->b->points[l->v[i].to];

		if (pt->store ||
		    !dp_grow((void **)&plan->others, &plan->cap_others, plan->nothers, sizeof(*plan->others)))
			return false;
		add_hit(plan, s->b, (u32)l->v[i].to);
	}
	return true;
}

/* What stands in front of all: the patch of the largest rank, which may be the session's own. */
static const struct dp_patch *largest(const struct standing *v, u32 n, const struct dp_patch *own)
{
	return !n || (own && own->rank > v[n - 1].p->rank) ? own : v[n - 1].p;
}

/* The bytes at the place are, to the last, those of the patch in front, and all have its window. */
static bool can_share(const struct standing *v, u32 n, const struct dp_patch *front, struct dp_mem_look *look)
{
	const u8 *now = dp_mem_look(look, front->addr, sizeof(front->jump), NULL);

	for (u32 i = 0; i < n; i++)
		if (v[i].p->len != sizeof(front->jump) || v[i].p->single || v[i].p->span != front->span ||
		    v[i].p->bounds != front->bounds)
			return false;
	return now && !memcmp(now, front->jump, sizeof(front->jump));
}

/*
 * How many are left without those on top whose dprobes was killed and whose patch stands in the code no more: they were
 * taken out, and some of what they had mapped had to stay. The session's own patch may stand in front of the others.
 */
static u32 without_gone(const struct dp_knowns *known, const struct standing *v, u32 n, const struct dp_patch *own,
			struct dp_mem_look *look)
{
	const u8 *now = dp_mem_look(look, v->addr, sizeof(v->p->jump), NULL);

	while (now && n > !own && (!own || v[n - 1].p->rank > own->rank) &&
	       !dp_known_owner_lives(&known->v[v[n - 1].owner]) && memcmp(now, v[n - 1].p->jump, sizeof(v->p->jump)))
		n--;
	return n;
}

static bool add_shared(struct dp_plan *plan, const struct standing *v, u32 n, const struct dp_patch *front, u32 rank,
		       const struct lookup *points)
{
	struct dp_shared *s;
	u32 first = plan->nothers;
	bool good = dp_grow((void **)&plan->shared, &plan->cap_shared, plan->nshared, sizeof(*plan->shared));

	for (u32 i = 0; i < n && good; i++)
		good = add_hits(plan, &v[i], &points[v[i].owner]);
	if (!good || plan->nothers - first > DP_OTHERS_MAX) {
		plan->nothers = first;
		return false;
	}
	s = &plan->shared[plan->nshared++];
	*s = (struct dp_shared){*front, rank, first, plan->nothers - first};
	return true;
}

static int add_taken(struct dp_plan *plan, const struct dp_patch *p)
{
	if (!dp_grow((void **)&plan->taken, &plan->cap_taken, plan->ntaken, sizeof(*plan->taken)))
		return -ENOMEM;
	plan->taken[plan->ntaken++] = (struct dp_taken){p->addr, end_of(p), E_SITE_TAKEN};
	return 0;
}

static const struct dp_patch *own_patch(const struct dp_plan *here, u64 addr)
{
	size_t n = here ? DP_COUNT_UP_TO(here->patches, here->npatches, start, addr) : 0;

	return n && here->patches[n - 1].start == addr ? &here->patches[n - 1].patch : NULL;
}

/* A place where others stand becomes one that the plan may come to, if it can. */
static void offer(struct dp_plan *plan, const struct dp_knowns *known, const struct standing *v, u32 n,
		  const struct dp_patch *own, const struct lookup *points, struct dp_mem_look *look)
{
	u32 there = without_gone(known, v, n, own, look);
	const struct dp_patch *front = largest(v, there, own);

	if (can_share(v, there, front, look))
		add_shared(plan, v, there, front, largest(v, n, own)->rank + 1, points);
}

static int avoid(struct dp_plan *plan, const struct dp_knowns *known, const struct standing *v, u32 n,
		 const struct dp_plan *here, const struct dp_mem *mem)
{
	struct lookup *points = calloc(known->n + 1ull, sizeof(*points));
	struct dp_mem_look look = {.mem = mem};
	int r = points ? 0 : -ENOMEM;

	for (u32 i = 0; mem && i < known->n && !r; i++)
		r = index_points(&points[i], &known->v[i].block) ? 0 : -ENOMEM;
	for (u32 i = 0, k; i < n && !r; i += k) {
		k = group_of(v + i, n - i);
		for (u32 j = i; j < i + k && !r; j++)
			r = add_taken(plan, v[j].p);
		if (!r && mem)
			offer(plan, known, v + i, k, own_patch(here, v[i].addr), points, &look);
	}
	for (u32 i = 0; points && i < known->n; i++)
		free(points[i].v);
	free(points);
	return r;
}

/*
 * Where others' detours lie, or lay: one that is killed while it unmaps its own leaves a record that names them, by
 * which they are unmapped, or jumped to, later.
 */
static int avoid_areas(struct dp_plan *plan, const struct dp_knowns *known, u64 own)
{
	int r = 0;

	for (u32 i = 0; i < known->n; i++) {
		const struct dp_block *b = &known->v[i].block;

		for (u32 k = 0; b->ctl.region_lo != own && k < b->ctl.nareas && !r; k++)
			r = dp_space_busy(&plan->space, b->areas[k].lo, b->areas[k].hi);
	}
	return r;
}

int dp_others_avoid(struct dp_plan *plan, pid_t pid, u64 own, const struct dp_plan *here, const struct dp_mem *mem,
		    struct dp_error *err)
{
	struct dp_knowns known = dp_records_of_others(pid, own);
	struct standing *v;
	u32 n;
	int r;

	v = patches_of_others(&known, own, &n);
	r = v ? avoid(plan, &known, v, n, here, mem) : -ENOMEM;
	if (!r)
		r = avoid_areas(plan, &known, own);
	free(v);
	dp_knowns_free(&known);
	return r ? dp_fail(err, E_ARM_NOMEM, "plan") : 0;
}

int dp_others_replaced(const struct dp_plan *plan, struct dp_patches *old, struct dp_error *err)
{
	old->n = 0;
	old->v = calloc(plan->npatches + 1ull, sizeof(*old->v));
	if (!old->v)
		return dp_fail(err, E_ARM_NOMEM, "plan");
	for (u32 i = 0; i < plan->npatches; i++)
		if (plan->patches[i].shared) {
			old->v[old->n] = plan->patches[i].shared->front;
			old->v[old->n++].file = plan->patches[i].patch.file; /* by which both are changed in one way */
		}
	return 0;
}

/* ---- where others stand ---- */

u32 dp_others_places(pid_t pid, u64 own, struct dp_range **v)
{
	struct dp_knowns known = dp_records_of_others(pid, own);
	struct standing *all;
	u32 n;

	all = patches_of_others(&known, own, &n);
	*v = all ? calloc(n + 1ull, sizeof(**v)) : NULL;
	for (u32 i = 0; *v && i < n; i++)
		(*v)[i] = (struct dp_range){all[i].addr, end_of(all[i].p)};
	n = *v ? n : 0;
	free(all);
	dp_knowns_free(&known);
	return n;
}

bool dp_places_meet(const struct dp_range *v, u32 n, u64 lo, u64 hi)
{
	size_t k = DP_COUNT_UP_TO(v, n, lo, hi - 1);

	return k && v[k - 1].hi > lo;
}

static u32 code_of_others(const struct dp_knowns *known, u64 own, struct dp_range *v)
{
	u32 n = 0;

	for (u32 i = 0; i < known->n && n + 2 <= 2 * DP_OWNERS_MAX; i++) {
		const struct dp_block *b = &known->v[i].block;

		if (b->ctl.region_lo == own)
			continue;
		v[n++] = (struct dp_range){b->ctl.region_lo, b->ctl.region_lo + b->head.end};
		v[n++] = (struct dp_range){b->ctl.jit_lo, b->ctl.jit_hi};
	}
	return n;
}

u32 dp_others_code(pid_t pid, u64 own, struct dp_range *v)
{
	struct dp_knowns known = dp_records_of_others(pid, own);
	u32 n = code_of_others(&known, own, v);

	dp_knowns_free(&known);
	return n;
}

/* ---- a session that goes ---- */

/* Its detour is there: code that nobody can write, without a file. */
static bool has_detour(const struct dp_maps *maps, const struct dp_patch *p)
{
	const struct dp_map *m = dp_maps_at(maps, dp_jump_target(p->jump, p->addr));

	return m && m->x && !m->w && !m->shared && !m->inode;
}

/* Of the largest rank below that one; NULL: none. */
static const struct standing *next_below(const struct dp_maps *maps, const struct standing *v, u32 n, u32 rank)
{
	for (u32 i = n; i-- > 0;)
		if (v[i].p->rank < rank && has_detour(maps, v[i].p))
			return &v[i];
	return NULL;
}

/* Whose jump stands there from the first byte on, or behind a breakpoint in its place; NULL: nobody's. */
static const struct standing *whose(const struct standing *v, u32 n, const u8 *now, bool broken)
{
	for (u32 i = 0; i < n; i++)
		if (now[0] == (broken ? DP_TRAP_BYTE : v[i].p->jump[0]) && !memcmp(now + 1, v[i].p->jump + 1, 4))
			return &v[i];
	return NULL;
}

static bool is_step_of(const struct dp_patch *p, u32 i, u8 byte)
{
	return byte == p->orig[i] || byte == p->jump[i] || (!i && byte == DP_TRAP_BYTE);
}

struct owns { /* patches of the session at one place, of the same window */
	const struct dp_patch *v;
	u32 n;
};

/* In a step between two patches, of which the session's own may be some. */
static bool in_between(const struct owns *own, const struct standing *v, u32 n, const u8 *now)
{
	for (u32 i = 0; i < own->v->len; i++) {
		bool found = false;

		for (u32 k = 0; k < own->n && !found; k++)
			found = is_step_of(&own->v[k], i, now[i]);
		for (u32 k = 0; k < n && !found; k++)
			found = is_step_of(v[k].p, i, now[i]);
		if (!found)
			return false;
	}
	return true;
}

/* Somebody may have been killed between two steps. */
static bool is_unfinished(const struct dp_same *ss, const struct standing *v, u32 n, bool crashed)
{
	for (u32 i = 0; i < n; i++)
		crashed |= !dp_known_owner_lives(&ss->known.v[v[i].owner]);
	return crashed;
}

/*
 * What is to stand where others do, and whether bytes change for it. A breakpoint over a jump is a step of somebody who
 * was killed, or a debugger's. NULL: nobody else stands there, or nothing of anybody.
 */
static const struct standing *front_of(const struct dp_same *ss, const struct dp_maps *maps, const struct owns *own,
				       const struct standing *v, u32 n, const u8 *now, bool crashed, bool *replace)
{
	const struct standing *front = whose(v, n, now, false);

	*replace = false;
	if (!memcmp(now, own->v->orig, own->v->len) || front)
		return front;
	*replace = true;
	for (u32 i = 0; i < own->n; i++)
		if (!memcmp(now, own->v[i].jump, own->v->len))
			return next_below(maps, v, n, own->v[i].rank);
	if (is_unfinished(ss, v, n, crashed) && in_between(own, v, n, now))
		return next_below(maps, v, n, ~0u);
	*replace = false;
	return whose(v, n, now, true);
}

static void look_at(struct dp_same *ss, struct dp_mem_look *look, const struct dp_maps *maps, const struct owns *own,
		    const struct standing *v, u32 n, bool crashed)
{
	const struct dp_patch *p = own->v;
	const u8 *now = dp_mem_look(look, p->addr, p->len, NULL);
	const struct standing *front = NULL;
	bool replace = false;

	if (now && p->len == sizeof(p->jump) && v->p->len == p->len &&
	    (!p->file || dp_code_file(maps, p->addr) == (p->file & ~DP_FILE_STAYS)))
		front = front_of(ss, maps, own, v, n, now, crashed, &replace);
	if (!front)
		return;
	ss->v[ss->n] = (struct dp_same_site){p->addr, end_of(p), *front->p, front->b};
	ss->v[ss->n].front.file = p->file;
	if (replace) {
		ss->old.v[ss->old.n++] = *p;
		ss->now.v[ss->now.n++] = ss->v[ss->n].front;
	}
	ss->n++;
}

static bool is_known(const struct dp_same *ss, u64 region)
{
	bool known = false;

	for (u32 i = 0; i < ss->known.n; i++)
		known |= ss->known.v[i].block.ctl.region_lo == region;
	return known;
}

/* Another dprobes that runs has probes there, and its record cannot be read. */
static bool any_unknown(const struct dp_same *ss, const struct dp_mem *mem, const struct dp_maps *maps, u64 own)
{
	struct dp_owner *v;
	u32 n = dp_owners_read(mem, maps, &v);
	bool any = false;

	for (u32 i = 0; i < n; i++)
		any |= v[i].ctl.region_lo != own && !is_known(ss, v[i].ctl.region_lo) && dp_owner_of(&v[i].ctl);
	free(v);
	return any;
}

int dp_same_find(struct dp_same *ss, const struct dp_mem *mem, const struct dp_maps *maps, u64 own,
		 const struct dp_patch *patches, u32 n, bool crashed, struct dp_error *err)
{
	struct dp_mem_look look = {.mem = mem};
	struct standing *v;
	u32 all, k = 0;

	*ss = (struct dp_same){.known = dp_records_of_others(mem->pid, own)};
	ss->unsure = any_unknown(ss, mem, maps, own);
	v = patches_of_others(&ss->known, own, &all);
	ss->v = calloc(n + 1ull, sizeof(*ss->v));
	ss->old.v = calloc(n + 1ull, sizeof(*ss->old.v));
	ss->now.v = calloc(n + 1ull, sizeof(*ss->now.v));
	if (!v || !ss->v || !ss->old.v || !ss->now.v) {
		free(v);
		return dp_fail(err, E_ARM_NOMEM, "patches");
	}
	for (u32 i = 0, m; i < n; i += m) {
		for (m = 0; i + m < n && patches[i + m].addr == patches[i].addr; m++)
			ss->has_words |= patches[i + m].nwords != 0;
		while (k < all && v[k].addr < patches[i].addr)
			k++;
		if (k < all && v[k].addr == patches[i].addr)
			look_at(ss, &look, maps, &(struct owns){patches + i, m}, v + k, group_of(v + k, all - k),
				crashed);
	}
	free(v);
	return 0;
}

void dp_same_free(struct dp_same *ss)
{
	dp_knowns_free(&ss->known);
	free(ss->v);
	free(ss->old.v);
	free(ss->now.v);
}

/* The place whose window has this byte; NULL: none. */
static const struct dp_same_site *site_at(const struct dp_same *ss, u64 addr)
{
	size_t k = DP_COUNT_UP_TO(ss->v, ss->n, addr, addr);

	return k && addr < ss->v[k - 1].end ? &ss->v[k - 1] : NULL;
}

bool dp_same_has(const struct dp_same *ss, u64 addr)
{
	const struct dp_same_site *s = site_at(ss, addr);

	return s && s->addr == addr;
}

bool dp_same_known(const struct dp_same *ss, u64 own, u64 addr)
{
	for (u32 i = 0; i < ss->known.n; i++) {
		const struct dp_block *b = &ss->known.v[i].block;
		size_t k = DP_COUNT_UP_TO(b->patches, b->ctl.npatches, addr, addr);

		if (b->ctl.region_lo != own && k && b->patches[k - 1].addr == addr)
			return true;
	}
	return false;
}

/*
 * The instruction at `to` in the detour in front: where control arrives for it, or its copy, behind all hits that stand
 * before it. Of its places the copy is the last one.
 */
static u64 place_in_front(const struct dp_same_site *s, u64 to, bool behind)
{
	const struct dp_redirect *h = s->block->homes;
	u32 n = s->block->ctl.nhomes;
	u64 found = 0;

	for (u32 i = dp_redirects_below(h, n, dp_jump_target(s->front.jump, s->addr)); i < n; i++) {
		u64 home = h[i].to & ~DP_HOME_BEHIND;

		if (home < s->addr || home > s->end || (found && home != to))
			break;
		if (home != to)
			continue;
		found = h[i].pc;
		if (!behind)
			break;
	}
	return found ? found : to;
}

void dp_same_lead(const struct dp_same *ss, struct dp_redirect *redirects, u32 nredirects, struct dp_redirect *homes,
		  u32 nhomes)
{
	for (u32 i = 0; i < nredirects; i++) {
		const struct dp_same_site *s = site_at(ss, redirects[i].pc);

		if (s)
			redirects[i].to = place_in_front(s, redirects[i].pc, false);
	}
	for (u32 i = 0; i < nhomes; i++) {
		u64 to = homes[i].to & ~DP_HOME_BEHIND;
		const struct dp_same_site *s = site_at(ss, to);

		homes[i].to = s ? place_in_front(s, to, homes[i].to != to) : to;
	}
}

bool dp_same_area(const struct dp_same *ss, u64 own, u64 lo, u64 *hi)
{
	for (u32 i = 0; i < ss->known.n; i++) {
		const struct dp_block *b = &ss->known.v[i].block;

		for (u32 k = 0; b->ctl.region_lo != own && k < b->ctl.nareas; k++) {
			const struct dp_range *a = &b->areas[k];

			if (lo >= a->lo && lo < a->hi) {
				*hi = DP_MIN(*hi, a->hi);
				return true;
			}
			if (a->lo > lo)
				*hi = DP_MIN(*hi, a->lo);
		}
	}
	return false;
}

/* ---- hits in others' detours ---- */

struct word {
	u64 at, to;
};

struct words {
	struct word *v;
	u32 n;
	size_t cap;
};

static bool add_words(struct words *w, struct dp_mem_look *look, const struct dp_patch *p, const struct dp_control *own)
{
	const u8 *bytes = p->nwords ? dp_mem_look(look, p->words, p->nwords * 8u, NULL) : NULL;

	for (u32 i = 0; bytes && i < p->nwords; i++) {
		u64 to;

		memcpy(&to, bytes + i * 8, sizeof(to));
		if (to < own->region_lo || to >= own->region_hi)
			continue;
		if (!dp_grow((void **)&w->v, &w->cap, w->n, sizeof(*w->v)))
			return false;
		w->v[w->n++] = (struct word){p->words + i * 8ull, p->words - 1};
	}
	return true;
}

/* No thread runs: whoever goes on calls with the old word or with the new one. */
static bool write_words(const struct word *v, u32 n, struct dp_tracer *t, const struct dp_mem *mem)
{
	bool done = false;
	u32 us = 0;

	for (u32 i = 0; i < TRIES && !done && !t->dead; i++) {
		done = !dp_tracer_stop_all(t, NULL);
		for (u32 k = 0; k < n && done; k++)
			done = !dp_mem_write(mem, v[k].at, &v[k].to, sizeof(v[k].to), NULL);
		dp_tracer_resume_all(t);
		if (!done)
			dp_tracer_pause(t, &us);
	}
	return done;
}

bool dp_same_silence(const struct dp_same *ss, const struct dp_control *own, struct dp_tracer *t,
		     const struct dp_mem *mem)
{
	struct dp_mem_look look = {.mem = mem};
	struct words w = {.n = 0};
	bool good = !ss->unsure;

	for (u32 i = 0; i < ss->known.n; i++) {
		const struct dp_block *b = &ss->known.v[i].block;

		for (u32 k = 0; b->ctl.region_lo != own->region_lo && k < b->ctl.npatches && good; k++)
			good = add_words(&w, &look, &b->patches[k], own);
	}
	for (u32 i = 0; i < w.n && good; i += AT_REST)
		good = write_words(w.v + i, DP_MIN(w.n - i, (u32)AT_REST), t, mem);
	free(w.v);
	return good;
}

u32 dp_same_code(const struct dp_same *ss, u64 own, struct dp_range *v)
{
	return ss->has_words ? code_of_others(&ss->known, own, v) : 0;
}
