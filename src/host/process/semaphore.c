/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Semaphores of static probes: counts in the program's data, which it asks before it comes to a probe. One that is
 * raised stands in the control block, with a state that is written before and after the count itself. So whoever
 * cleans up knows what is to be lowered, whenever we were killed. A forked child has a copy of both.
 */
#include <stddef.h>

#include "host/process/arm-priv.h"
#include "host/process/untrusted.h"
#include "symbols/statics.h"

static u32 file_at(const struct dp_maps *maps, u64 addr)
{
	const struct dp_map *m = dp_maps_at(maps, addr);

	return m && m->w && m->inode && !m->shared ? dp_file_number(m, addr) : 0;
}

static u64 entry_of(u64 control, u32 i)
{
	return control + offsetof(struct dp_control, semaphores) + i * sizeof(struct dp_semaphore);
}

/* The entry in the process, in one piece: 16 bytes. */
static int put_entry(const struct dp_mem *mem, u64 control, u32 i, const struct dp_semaphore *s, struct dp_error *err)
{
	return dp_mem_write(mem, entry_of(control, i), s, sizeof(*s), err);
}

static int step(const struct dp_mem *mem, u64 control, u32 i, struct dp_semaphore *s, bool up, struct dp_error *err)
{
	u16 value;
	int r = dp_mem_read(mem, s->addr, &value, sizeof(value), err);

	if (r)
		return r;
	s->before = value;
	s->state = up ? DP_SEMAPHORE_RAISING : DP_SEMAPHORE_LOWERING;
	r = put_entry(mem, control, i, s, err);
	value = (u16)(up ? value + 1 : value - (value > 0));
	if (!r)
		r = dp_mem_write(mem, s->addr, &value, sizeof(value), err);
	s->state = up ? DP_SEMAPHORE_RAISED : DP_SEMAPHORE_NONE;
	return r ? r : put_entry(mem, control, i, s, err);
}

/* ---- what a session wants ---- */

struct wanted {
	struct dp_semaphore v[DP_MAX_SEMAPHORES];
	u32 n;
};

static bool add_wanted(struct wanted *w, u64 addr)
{
	for (u32 i = 0; i < w->n; i++)
		if (w->v[i].addr == addr)
			return true;
	if (w->n == DP_MAX_SEMAPHORES)
		return false;
	w->v[w->n++] = (struct dp_semaphore){.addr = addr};
	return true;
}

static int find_wanted(struct dp_session *s, const struct dp_spot *spots, u32 n, struct wanted *w, struct dp_error *err)
{
	w->n = 0;
	for (u32 i = 0; i < n; i++) {
		const struct dp_probe *p = dp_spot_probe(s, &spots[i]);
		struct dp_image *im = p->dropped || p->leaving ? NULL : dp_process_image_at(&s->proc, spots[i].addr);
		u64 at = im ? dp_module_semaphore(im->mod, spots[i].addr - im->bias) : 0;

		if (at && !add_wanted(w, at + im->bias))
			return dp_fail(err, E_STATIC_MANY, "more than %d", DP_MAX_SEMAPHORES);
	}
	return 0;
}

int dp_semaphores_check(struct dp_session *s, const struct dp_spot *spots, u32 n, struct dp_error *err)
{
	struct wanted w;

	return find_wanted(s, spots, n, &w, err);
}

static struct dp_semaphore *find_in(struct dp_semaphore *v, u32 n, u64 addr)
{
	for (u32 i = 0; i < n; i++)
		if (v[i].addr == addr)
			return &v[i];
	return NULL;
}

int dp_semaphores_settle(struct dp_session *s, const struct dp_mem *mem, struct dp_error *err)
{
	struct dp_semaphore *have = s->block.ctl.semaphores;
	struct dp_maps maps = {NULL};
	struct wanted w;
	int r = find_wanted(s, s->spots, s->nspots, &w, err);
	bool any = w.n;

	for (u32 i = 0; i < DP_MAX_SEMAPHORES; i++)
		any |= have[i].addr != 0;
	if (r || !any)
		return r;
	r = dp_maps_read(&maps, s->pid, err);
	for (u32 i = 0; i < DP_MAX_SEMAPHORES && !r; i++) {
		if (!have[i].addr || find_in(w.v, w.n, have[i].addr))
			continue;
		if (file_at(&maps, have[i].addr) == have[i].file)
			r = step(mem, s->control, i, &have[i], false, err);
		have[i] = (struct dp_semaphore){.addr = 0};
		if (!r)
			r = put_entry(mem, s->control, i, &have[i], err);
	}
	for (u32 i = 0; i < w.n && !r; i++) {
		u32 file = file_at(&maps, w.v[i].addr); /* 0: its module has gone since */

		if (file && !find_in(have, DP_MAX_SEMAPHORES, w.v[i].addr))
			*find_in(have, DP_MAX_SEMAPHORES, 0) = (struct dp_semaphore){w.v[i].addr, file};
	}
	dp_record_update(s); /* where they are, before any is raised */
	for (u32 i = 0; i < DP_MAX_SEMAPHORES && !r; i++)
		if (have[i].addr && have[i].state == DP_SEMAPHORE_NONE)
			r = step(mem, s->control, i, &have[i], true, err);
	dp_maps_free(&maps);
	dp_record_update(s);
	return r;
}

static int raise_all(struct arming *a, struct dp_error *err)
{
	return dp_semaphores_settle(a->s, &a->mem, err);
}

static int check(struct arming *a, struct dp_error *err)
{
	return dp_semaphores_check(a->s, a->s->spots, a->s->nspots, err);
}

static void end(struct dp_session *s)
{
}

const struct dp_part dp_semaphores_part = {
    .steps = {[DP_PART_PREPARE] = check, [DP_PART_READY] = raise_all},
    .end = end,
};

/* ---- whoever cleans up ---- */

void dp_semaphores_lower(const struct dp_mem *mem, const struct dp_maps *maps, u64 control,
			 const struct dp_semaphore known[DP_MAX_SEMAPHORES])
{
	for (u32 i = 0; i < DP_MAX_SEMAPHORES; i++) {
		struct dp_semaphore s;
		u16 now;

		/* What is raised the process's copy says: a record may be older, and a forked child has its own. */
		if (!dp_semaphore_read(mem, entry_of(control, i), &known[i], &s) || file_at(maps, s.addr) != s.file ||
		    dp_mem_read(mem, s.addr, &now, sizeof(now), NULL))
			continue;
		if (s.state == DP_SEMAPHORE_RAISED || (s.state == DP_SEMAPHORE_RAISING && now != s.before) ||
		    (s.state == DP_SEMAPHORE_LOWERING && now == s.before))
			step(mem, control, i, &s, false, NULL);
	}
}
