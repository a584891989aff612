/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The control block and its tables as they are going to stand in the target: made here as a whole, from the plan,
 * before anything is mapped there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process/arm-priv.h"
#include "host/process/compile-calls.h"
#include "host/process/hold.h"

/* The space's areas from the first-th on, sorted and joined; NULL: no memory. */
struct dp_range *dp_merge_areas(const struct dp_space *sp, u32 first, u32 *n)
{
	struct dp_range *v = calloc(sp->nareas + 1, sizeof(*v));
	u32 all = 0;

	*n = 0;
	for (u32 i = first; v && i < sp->nareas; i++) {
		u32 k = all++;

		/* Insert in order, then join neighbours. */
		while (k && v[k - 1].lo > sp->areas[i].lo) {
			v[k] = v[k - 1];
			k--;
		}
		v[k] = (struct dp_range){sp->areas[i].lo, sp->areas[i].hi};
	}
	for (u32 i = 0; i < all; i++) {
		if (*n && v[*n - 1].hi == v[i].lo)
			v[*n - 1].hi = v[i].hi;
		else
			v[(*n)++] = v[i];
	}
	return v;
}

/* Sorted, and joined with what it touches. */
static void add_range(struct dp_control *c, u64 lo, u64 hi)
{
	struct dp_range *v = c->ranges;
	size_t k = DP_COUNT_UP_TO(v, c->nranges, lo, lo);

	if (k && v[k - 1].hi == lo) {
		v[k - 1].hi = hi;
	} else if (c->nranges < DP_MAX_RANGES) {
		memmove(v + k + 1, v + k, (c->nranges++ - k) * sizeof(*v));
		v[k++] = (struct dp_range){lo, hi};
	}
	if (k && k < c->nranges && v[k - 1].hi == v[k].lo) {
		v[k - 1].hi = v[k].hi;
		memmove(v + k, v + k + 1, (--c->nranges - k) * sizeof(*v));
	}
}

/* Memory of a module that has no file: zeroes behind its data. Other such memory may lie in a gap between segments. */
static bool is_zeroed(const struct dp_map *data, const struct dp_map *m, const struct dp_image *im)
{
	return m->w && !m->inode && data && data->w && data->inode && data->hi == m->lo && data->lo >= im->lo;
}

/*
 * Segments that stay mapped as long as the process lives: of the executable and what it is linked to (the plan has
 * asked which modules stay). Those of the executable and the C library first, should there be no room for all.
 */
static void permanent_ranges(struct arming *a, struct dp_control *c)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < a->now.n; i++) {
			const struct dp_map *m = &a->now.v[i];
			const struct dp_image *im = dp_process_image_at(&a->s->proc, m->lo);
			const char *base = im ? dp_module_base(im->mod) : "";
			bool libc = !strncmp(base, "libc.so", 7) || !strncmp(base, "ld-", 3);

			if (!im || !m->r || (!im->stays && !im->is_exe && !libc) || pass == (im->is_exe || libc))
				continue;
			if (m->inode || is_zeroed(i ? m - 1 : NULL, m, im))
				add_range(c, m->lo, DP_MIN(m->hi, im->hi));
		}
}

static void first_stack(const struct arming *a, struct dp_control *c)
{
	for (size_t i = 0; i < a->now.n; i++)
		if (!strcmp(a->now.v[i].path, "[stack]") && a->now.v[i].r)
			c->stack = (struct dp_range){a->now.v[i].lo, a->now.v[i].hi};
}

/* The image of a control block that is being filled in, up to `at`. It will stand at origin in the process. */
struct image {
	union {
		u8 *base;
		struct dp_control *ctl;
	};
	u64 at, origin;
};

/* Room for a table, and where it will stand. */
static void *make_room(struct image *im, u64 size, u64 *addr)
{
	u64 where = DP_ALIGN_UP(im->at, 16);

	im->at = where + size;
	*addr = im->origin + where;
	return im->base + where;
}

static u64 put(struct image *im, const void *data, u64 size)
{
	u64 addr;
	void *to = make_room(im, size, &addr);

	if (size)
		memcpy(to, data, size);
	return addr;
}

struct dp_patch *dp_plan_patches(const struct dp_plan *plan)
{
	struct dp_patch *v = calloc(plan->npatches + 1, sizeof(*v));

	for (u32 i = 0; v && i < plan->npatches; i++)
		v[i] = plan->patches[i].patch;
	return v;
}

/* All of the plan that a control block holds. */
static void put_plan(struct image *im, const struct dp_plan *plan, const struct dp_range *areas, u32 nareas)
{
	struct dp_control *c = im->ctl;
	struct dp_patch *patches = make_room(im, plan->npatches * sizeof(*patches), &c->patches);

	for (u32 i = 0; i < plan->npatches; i++)
		patches[i] = plan->patches[i].patch;
	c->points = put(im, plan->points, plan->npoints * sizeof(*plan->points));
	c->redirects = put(im, plan->redirects, plan->nredirects * sizeof(*plan->redirects));
	c->homes = put(im, plan->homes, plan->nhomes * sizeof(*plan->homes));
	c->areas = put(im, areas, nareas * sizeof(*areas));
	c->npoints = plan->npoints;
	c->nredirects = plan->nredirects;
	c->nhomes = plan->nhomes;
	c->npatches = plan->npatches;
	c->nareas = nareas;
}

bool dp_plan_needs_segv(const struct dp_plan *plan)
{
	for (u32 i = 0; i < plan->npatches; i++) {
		const struct dp_patch *t = &plan->patches[i].patch;

		if (t->len == 5 && t->bounds & 0x10 && t->jump[4] != DP_TRAP_BYTE)
			return true;
	}
	return false;
}

static void fill_probe(const struct dp_session *s, struct dp_probe_rt *rt, u32 owner, u64 addr, u64 code)
{
	const struct dp_probe *p = &s->probes[owner];
	const struct dp_program *prog = &p->event->prog;
	u64 words = s->region + s->rings_off + s->words_off;

	dp_program_to_rt(prog, &rt->prog);
	rt->prog.code = code;
	rt->prog.locals = words + 8ull * p->locals;
	rt->prog.globals = dp_session_globals(s, p);
	rt->prog.gate = prog->rpn.ex_mask ? words + 8ull * p->gate : 0;
	rt->prog.compiled = p->compiled;
	rt->event = owner;
	rt->flags = DP_PROBE_ENABLED | p->call_flags | (p->event->is_return ? DP_PROBE_RETURN : 0);
	rt->addr = addr;
}

static u32 fill_probes(const struct dp_session *s, const struct dp_plan *plan, const struct dp_spot *spots, u32 nspots,
		       struct dp_probe_rt *rt, const u64 *code_addr)
{
	u32 n = 0;

	for (u32 i = 0; i < nspots; i++) {
		const struct dp_spot *sp = &spots[i];
		struct dp_point *pt;

		if (sp->outcome == DP_OUTCOME_REFUSED || dp_spot_probe(s, sp)->dropped)
			continue;
		pt = &plan->points[sp->point];
		if (!pt->n)
			pt->first = n;
		pt->n++;
		if (sp->owner >= DP_GUARD_OWNER)
			rt[n].flags = dp_spot_probe(s, sp)->call_flags;
		else
			fill_probe(s, &rt[n], sp->owner, sp->addr, code_addr[sp->owner]);
		if (dp_calls_wants_number(s, sp))
			rt[n].flags |= DP_PROBE_CALL_END;
		rt[n].addr = sp->addr;
		rt[n++].flags |= sp->confirm ? DP_PROBE_WAITS : 0;
	}
	return n;
}

/* The groups, and their probes behind those of sites. */
static void fill_watches(const struct dp_session *s, struct dp_control *ctl, struct dp_probe_rt *rt,
			 struct dp_watch_rt *watches, const u64 *code_addr)
{
	for (u32 i = 0; i < s->watch.n; i++) {
		const struct dp_watched *w = &s->watch.v[i];
		struct dp_watch_rt *out = &watches[w->group];

		if (!out->n)
			*out = (struct dp_watch_rt){.addr = w->addr,
						    .len = w->len,
						    .type = w->type,
						    .first = ctl->nprobes,
						    .last = w->paged ? s->region + s->pages.shadows_off + w->shadow
								     : s->region + s->watch.cells_off + 8ull * w->group,
						    .paged = w->paged};
		out->n++;
		fill_probe(s, &rt[ctl->nprobes++], w->owner, w->addr, code_addr[w->owner]);
	}
}

/*
 * The program of a probe that is to be there, which is *last from then on; NULL: the probe is not. *again: the one
 * before has the same, as the probes of a pattern and many lines have.
 */
static const struct dp_program *next_program(const struct dp_session *s, u32 i, const struct dp_program **last,
					     bool *again)
{
	const struct dp_probe *p = &s->probes[i];

	if (!p->event || p->leaving)
		return NULL;
	*again = *last && dp_compile_has_same_code(&p->event->prog, *last);
	*last = &p->event->prog;
	return *last;
}

/* Where the program of each probe stands: once, where the one before has the same. */
static void put_programs(const struct dp_session *s, struct image *im, u64 *code_addr)
{
	const struct dp_program *last = NULL, *prog;
	bool again = false;
	u64 at = 0;

	for (u32 i = 0; i < s->nprobes; i++) {
		prog = next_program(s, i, &last, &again);
		if (!prog)
			continue;
		at = again ? at : put(im, prog->code, prog->len);
		code_addr[i] = at;
	}
}

u64 dp_control_programs(const struct dp_session *s)
{
	const struct dp_program *last = NULL, *prog;
	bool again = false;
	u64 size = 0;

	for (u32 i = 0; i < s->nprobes; i++) {
		prog = next_program(s, i, &last, &again);
		size += prog && !again ? DP_ALIGN_UP(prog->len, 16) + 16 : 0;
	}
	return size;
}

/* The programs, their probes, and the plan. The image is zero where nothing has been put. */
static int put_all(struct dp_session *s, struct image *im, const struct dp_plan *plan, const struct dp_spot *spots,
		   u32 nspots, const struct dp_range *areas, u32 nareas)
{
	struct dp_control *c = im->ctl;
	u64 *code_addr = calloc(s->nprobes + 1ull, sizeof(*code_addr));
	struct dp_watch_rt *watches;
	struct dp_probe_rt *rt;

	if (!code_addr || !areas) {
		free(code_addr);
		return -ENOMEM;
	}
	put_programs(s, im, code_addr);
	watches = make_room(im, s->watch.ngroups * sizeof(*watches), &c->watches);
	rt = make_room(im, 0, &c->probes); /* how many they are is known when they are there */
	c->nprobes = fill_probes(s, plan, spots, nspots, rt, code_addr);
	fill_watches(s, c, rt, watches, code_addr);
	im->at += c->nprobes * sizeof(*rt);
	c->nwatches = s->watch.ngroups;
	put_plan(im, plan, areas, nareas); /* whose points have got their probes */
	free(code_addr);
	return 0;
}

int dp_build_control(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	struct dp_plan *plan = &s->plan;
	struct image im = {
	    .base = dp_alloc(a->lay.control_size), .at = sizeof(struct dp_control), .origin = s->control};
	struct dp_control *c = im.ctl;
	struct dp_range pages[DP_PAGES_RANGES];

	a->areas = dp_merge_areas(&plan->space, 0, &a->nareas);
	if (!c || put_all(s, &im, plan, s->spots, s->nspots, a->areas, a->nareas)) {
		dp_free(c);
		return dp_fail(err, E_ARM_NOMEM, "control block");
	}
	a->ctl = c;
	c->unwind = s->unwind.n ? im.origin + dp_unwind_place(&s->unwind, im.base, &im.at, im.origin) : 0;
	c->exits = s->exits;
	c->npages = dp_pages_ranges(s, pages);
	c->pages = put(&im, pages, c->npages * sizeof(*pages));
	c->pagemap = -1;
	c->copies = s->region + a->lay.copies;
	c->copies_lo = s->region + a->lay.copy_code;
	c->copies_hi = s->region + a->lay.rings;
	c->magic = DP_CONTROL_MAGIC;
	c->abi = DP_ABI;
	c->self = im.origin;
	c->size = im.at;
	c->slots = s->region + a->lay.slots;
	c->nslots = a->lay.nslots;
	c->tids = s->region + a->lay.tids;
	c->stretches = s->stretches.guards ? s->region + a->lay.stretches : 0;
	c->loads = s->region + a->lay.loads;
	c->jit_lo = s->region + a->lay.jit;
	c->jit_hi = s->region + a->lay.jit_end;
	c->region_lo = s->region;
	c->region_hi = s->region + a->lay.end;
	c->owner_pid = (u32)getpid();
	c->owner_ns = (u32)dp_pid_namespace();
	c->pid = (u32)dp_inner_tid(s->pid, s->pid);
	c->old_trap[2] = ~0ull;
	c->signals = s->region + a->lay.cells + s->watch.ngroups * 8ull;
	c->segv_taken = dp_plan_needs_segv(plan);
	permanent_ranges(a, c);
	first_stack(a, c);
	return 0;
}

u64 dp_control_tables(u64 nspots)
{
	return nspots * (sizeof(struct dp_point) + sizeof(struct dp_patch) + sizeof(struct dp_range) +
			 (5 + 2 * DP_WINDOW_INSNS + 1) * sizeof(struct dp_redirect));
}

int dp_build_next(struct arming *a, const struct dp_plan *plan, const struct dp_spot *spots, u32 nspots, u64 origin,
		  u64 size, struct dp_error *err)
{
	struct image im = {.base = dp_alloc(size), .at = sizeof(struct dp_control), .origin = origin};
	struct dp_control *c = im.ctl;
	u32 nareas = 0;
	struct dp_range *areas = dp_merge_areas(&plan->space, 0, &nareas);
	int r = c ? 0 : -ENOMEM;

	if (!r) {
		*c = a->s->block.ctl;
		c->exits = a->s->exits;
		c->unwind = a->s->changes.unwind ? a->s->changes.unwind : c->unwind;
		r = put_all(a->s, &im, plan, spots, nspots, areas, nareas);
		c->self = origin;
		c->size = im.at;
	}
	free(areas);
	if (r) {
		dp_free(c);
		return dp_fail(err, E_ARM_NOMEM, "control block");
	}
	a->ctl = c;
	return 0;
}

int dp_rebuild_control(struct arming *a, const struct dp_plan *plan, u64 origin, u64 most, struct dp_error *err)
{
	struct image im = {.base = dp_alloc(most), .at = sizeof(struct dp_control), .origin = origin};
	struct dp_control *c = im.ctl;
	u32 nareas = 0;
	struct dp_range *areas = dp_merge_areas(&plan->space, 0, &nareas);
	u64 size = im.at + plan->npoints * sizeof(*plan->points) + plan->npatches * sizeof(struct dp_patch) +
		   nareas * sizeof(*areas) + ((u64)plan->nredirects + plan->nhomes) * sizeof(*plan->homes) + 5 * 16;
	int r = c && areas && size <= most ? 0 : dp_fail(err, E_ARM_NOMEM, "control block");

	if (!r) {
		*c = a->s->block.ctl;
		put_plan(&im, plan, areas, nareas);
		c->self = origin;
		c->size = im.at;
		a->ctl = c;
	} else {
		dp_free(c);
	}
	free(areas);
	return r;
}
