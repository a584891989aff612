/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Several sessions in one process, each with a region, detours, slots and rings of its own. What they share is changed
 * by one at a time: the bytes of the code, which belong to the session whose patch stands there, and the signal
 * actions, where each handler stands above the action that it found.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>

#include "host/process/owners.h"

#define NEAR 32u /* bytes before and behind a place that its patch may take */
#define TRIES 25 /* to stop all threads */

/* ---- slots ---- */

u32 dp_owners_slots(const struct dp_mem *mem, const struct dp_maps *maps, struct dp_range v[DP_OWNERS_MAX])
{
	struct dp_owner *o;
	u32 n = dp_owners_read(mem, maps, &o);

	for (u32 i = 0; i < n; i++)
		v[i] = (struct dp_range){o[i].ctl.slots, o[i].ctl.slots + (u64)o[i].ctl.nslots * DP_HIT_SLOT_SIZE};
	free(o);
	return n;
}

bool dp_owners_watch_pages(const struct dp_mem *mem, const struct dp_maps *maps)
{
	struct dp_owner *o;
	u32 n = dp_owners_read(mem, maps, &o), pages = 0;

	for (u32 i = 0; i < n; i++)
		pages += o[i].ctl.npages;
	free(o);
	return pages;
}

/* ---- bytes ---- */

static int add_taken(struct dp_plan *plan, u64 at, u64 len, enum dp_code why)
{
	if (!dp_grow((void **)&plan->taken, &plan->cap_taken, plan->ntaken, sizeof(*plan->taken)))
		return -ENOMEM;
	plan->taken[plan->ntaken++] = (struct dp_taken){at, at + len, why};
	return 0;
}

/* What differs from the file near a place, but for what is taken anyway. */
static int avoid_near(struct dp_plan *plan, const struct dp_spot *sp, struct dp_mem_look *look)
{
	u64 lo = DP_MAX(sp->text->lo + sp->bias, sp->addr - NEAR),
	    hi = DP_MIN(sp->text->hi + sp->bias, sp->addr + NEAR);
	const u8 *now = dp_mem_look(look, lo, (u32)(hi - lo), NULL);
	const u8 *file = sp->text->bytes + (lo - sp->bias - sp->text->lo);
	int r = 0;

	for (u64 i = 0; now && i < hi - lo && !r; i++)
		if (now[i] != file[i])
			r = add_taken(plan, lo + i, 1, E_SITE_FOREIGN);
	return r;
}

int dp_foreign_avoid(struct dp_plan *plan, const struct dp_spot *spots, u32 n, const struct dp_mem *mem,
		     struct dp_error *err)
{
	struct dp_mem_look look = {.mem = mem};
	int r = 0;

	for (u32 i = 0; i < n && !r; i++)
		if (spots[i].text)
			r = avoid_near(plan, &spots[i], &look);
	return r ? dp_fail(err, E_ARM_NOMEM, "plan") : 0;
}

/* ---- signal actions ---- */

static bool is_of(const struct dp_control *c, u64 handler)
{
	return handler >= c->region_lo && handler < c->region_hi;
}

static const u64 *old_of(const struct dp_control *c, int sig)
{
	if (sig == SIGTRAP)
		return c->old_trap;
	return c->segv_taken ? c->old_segv : NULL;
}

bool dp_owners_handler(const struct dp_mem *mem, const struct dp_maps *maps, u64 handler)
{
	struct dp_owner *v;
	u32 n = dp_owners_read(mem, maps, &v);
	bool found = false;

	for (u32 i = 0; i < n; i++)
		found |= is_of(&v[i].ctl, handler);
	free(v);
	return found;
}

bool dp_owners_top(const struct dp_mem *mem, const struct dp_maps *maps, const struct dp_control *own, int sig,
		   struct dp_owner *top)
{
	struct dp_owner *v;
	u32 n = dp_owners_read(mem, maps, &v), steps = 0;
	bool found = false;

	top->ctl = *own;
	for (u32 i = 0; i < n && steps < DP_OWNERS_MAX; i++) {
		const u64 *old = old_of(&v[i].ctl, sig);

		if (!old || v[i].ctl.region_lo == top->ctl.region_lo || !is_of(&top->ctl, old[0]))
			continue;
		*top = v[i];
		found = true;
		steps++;
		i = ~0u; /* and who stands above that one? */
	}
	free(v);
	return found;
}

/* One write: should we be killed, it was made or not. */
static int write_actions(const struct dp_mem *mem, const struct dp_owner *o)
{
	u64 from = offsetof(struct dp_control, above);

	return dp_mem_write(mem, o->head.ctl + from, &o->ctl.above, offsetof(struct dp_control, signals) - from, NULL);
}

/*
 * The words change while no thread runs. A handler that has begun goes on with the old ones, or takes all of the new
 * ones (hit/signal.c).
 */
static bool change_actions(struct dp_tracer *t, const struct dp_mem *mem, const struct dp_owner *o)
{
	bool done = false;
	u32 us = 0;

	for (u32 i = 0; i < TRIES && !done && !t->dead; i++) {
		done = !dp_tracer_stop_all(t, NULL) && !write_actions(mem, o);
		dp_tracer_resume_all(t);
		if (!done)
			dp_tracer_pause(t, &us);
	}
	return done;
}

bool dp_owners_unlink(struct dp_tracer *t, const struct dp_mem *mem, const struct dp_maps *maps,
		      const struct dp_control *own, bool crashed, struct dp_range *users, u32 *nusers)
{
	struct dp_owner *v;
	u32 n = dp_owners_read(mem, maps, &v);
	u64 reset = 0;
	bool good = true;

	*nusers = 0;
	dp_mem_read(mem, own->signals, &reset, sizeof(reset), NULL);
	for (u32 i = 0; i < n; i++) {
		struct dp_control *c = &v[i].ctl;
		bool other = c->region_lo != own->region_lo;
		bool trap = other && is_of(own, c->old_trap[0]);
		bool segv = other && c->segv_taken && is_of(own, c->old_segv[0]);

		if (trap) {
			memcpy(c->old_trap, own->old_trap, sizeof(c->old_trap));
			c->old_trap[0] = reset & SIGNAL_BIT(SIGTRAP) ? 0 : c->old_trap[0];
			c->above = own->above;
		}
		if (segv) {
			memcpy(c->old_segv, own->old_segv, sizeof(c->old_segv));
			c->old_segv[0] = reset & SIGNAL_BIT(SIGSEGV) ? 0 : c->old_segv[0];
		}
		if (trap || segv)
			good &= change_actions(t, mem, &v[i]);
		if (trap || segv || (other && crashed))
			users[(*nusers)++] = (struct dp_range){c->region_lo, c->region_lo + v[i].head.end};
	}
	free(v);
	return good;
}
