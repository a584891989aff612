/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The probes that a `dprobes trace` holds in a process, read from the control block inside it. Only
 * looks: the process is neither stopped nor attached to, and its probes may come and go meanwhile.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "host/process/hold.h"
#include "host/process/same-site.h"

/* Somebody runs who has its id, or it is in a namespace into which we cannot see. */
static bool is_tended(pid_t owner)
{
	return owner == DP_OWNER_UNSEEN || (owner && (!kill(owner, 0) || errno == EPERM));
}

/* The original bytes of a patch: its file is there as it was, and somebody goes on with the probe. */
static bool is_out(const struct dp_patch *p, const struct dp_maps *maps, pid_t owner)
{
	return dp_code_file(maps, p->addr) == (p->file & ~DP_FILE_STAYS) && is_tended(owner);
}

/* The jump of another session which came later to the same instruction: its detour has the hits of this one. */
static bool is_covered(const struct dp_knowns *known, const struct dp_patch *p, const u8 *now)
{
	for (u32 i = 0; i < known->n; i++) {
		const struct dp_patch *q = dp_block_patch(&known->v[i].block, p->addr);

		if (q && q->addr == p->addr && q->len == p->len && q->rank > p->rank && !memcmp(q->jump, now, p->len))
			return true;
	}
	return false;
}

static enum dp_standing_state state_of(const struct dp_block *t, const struct dp_patch *p, const struct dp_mem *mem,
				       const struct dp_maps *maps, const struct dp_knowns *known, pid_t owner)
{
	u8 now[sizeof(p->orig)];

	if (dp_mem_read(mem, p->addr, now, p->len, NULL))
		return DP_STANDING_GONE;
	if (!memcmp(now, p->jump, p->len) || is_covered(known, p, now))
		return DP_STANDING_ARMED;
	if (t->ctl.state == DP_STATE_ARMING)
		return DP_STANDING_ARMING;
	if (memcmp(now, p->orig, p->len))
		return DP_STANDING_ALTERED;
	return is_out(p, maps, owner) ? DP_STANDING_OUT : DP_STANDING_GONE;
}

static u32 collect(const struct dp_block *t, const struct dp_mem *mem, const struct dp_maps *maps,
		   const struct dp_knowns *known, struct dp_standing *v)
{
	const struct dp_control *c = &t->ctl;
	pid_t owner = dp_id_in_namespace(c->owner_pid, c->owner_ns);
	u32 n = 0;

	for (u32 i = 0; i < c->npoints; i++) {
		const struct dp_point *pt = &t->points[i];
		const struct dp_patch *patch = dp_block_patch(t, pt->addr);

		for (u32 k = pt->first; patch && k < pt->first + pt->n && n < c->nprobes; k++) {
			if (t->probes[k].flags & (DP_PROBE_GUARD | DP_PROBE_GUARD_END))
				continue;
			v[n].addr = pt->addr;
			v[n].is_return = t->probes[k].flags & DP_PROBE_RETURN;
			v[n].outcome = patch->len == 1 ? DP_OUTCOME_TRAP : DP_OUTCOME_JUMP;
			v[n].state = state_of(t, patch, mem, maps, known, owner);
			v[n].owner = owner;
			n++;
		}
	}
	/* Nothing is watched any more when the owner has ended. */
	for (u32 i = 0; i < c->nwatches && is_tended(owner); i++) {
		const struct dp_watch_rt *w = &t->watches[i];

		for (u32 k = 0; w->addr && k < w->n && n < c->nprobes; k++)
			v[n++] = (struct dp_standing){.addr = w->addr,
						      .is_watch = true,
						      .outcome = DP_OUTCOME_JUMP,
						      .state = DP_STANDING_ARMED,
						      .owner = owner};
	}
	return n;
}

/* Those of one session are added. */
static int add_block(pid_t pid, const struct dp_mem *mem, const struct dp_maps *maps, const struct dp_knowns *known,
		     u64 addr, struct dp_standing **out, u32 *n, struct dp_error *err)
{
	struct dp_block t = {.points = NULL};
	int r = dp_block_read(&t, mem, addr, err);

	if (!r && t.ctl.state != DP_STATE_EMPTY) {
		struct dp_standing *v = realloc(*out, ((size_t)*n + t.ctl.nprobes + 1) * sizeof(*v));

		if (v) {
			*out = v;
			memset(v + *n, 0, ((size_t)t.ctl.nprobes + 1) * sizeof(*v));
			*n += collect(&t, mem, maps, known, v + *n);
		} else {
			r = dp_fail(err, E_ARM_NOMEM, "process %d", (int)pid);
		}
	} else if (r && !dp_block_there(pid, addr)) {
		r = 0; /* its dprobes has just removed them */
	}
	dp_block_free(&t);
	return r;
}

int dp_standing_read(pid_t pid, struct dp_standing **out, u32 *n, struct dp_error *err)
{
	u64 v[DP_OWNERS_MAX];
	struct dp_knowns known = {.n = 0};
	struct dp_maps maps = {.n = 0};
	struct dp_mem mem;
	u32 nowners;
	int r;

	*out = NULL;
	*n = 0;
	r = dp_mem_open(&mem, pid, err);
	if (r)
		return r;
	nowners = dp_find_controls(pid, v);
	if (nowners) {
		known = dp_records_of(pid);
		r = dp_maps_read(&maps, pid, err);
	}
	for (u32 i = 0; i < nowners && !r; i++)
		r = add_block(pid, &mem, &maps, &known, v[i], out, n, err);
	if (!r && !DP_SORT_BY(*out, *n, addr))
		r = dp_fail(err, E_ARM_NOMEM, "%u probes", *n);
	dp_knowns_free(&known);
	dp_maps_free(&maps);
	dp_mem_close(&mem);
	return r;
}
