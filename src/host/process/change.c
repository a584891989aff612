/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probes that come and go while a session is armed, all at once and without a gap for the others. The region, with the
 * rings, the slots and the code, stays; the plan is made anew for all probes, and only patches that differ change:
 *	1. New detours and programs are written beside those that stand.
 *	2. A control block that knows both plans takes the place of the old one, by one store to the blob's head. Points
 *	   keep their numbers, so a hit in an old detour finds the programs that its point has now.
 *	3. The bytes change. Whoever comes to a probe meets an old detour or a new one.
 *	4. Each thread is seen once outside of the code: nobody is in an old detour, or uses the old control block.
 *	5. A control block that knows the new plan alone takes the place of that one.
 * Processes that inherited the probes by fork lose them, and are found anew by whoever looks for processes.
 * At any moment the record of the session is what a successor needs to take everything out.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/process/arm-priv.h"
#include "host/process/hold.h"
#include "host/process/same-site.h"
#include "host/process/publish-host.h"

#define PAGE 4096ull
#define MiB (1024 * 1024ull)
#define PATIENCE 300           /* times 10 ms, for another tracer */
#define GRACE_NS 3000000000ull /* after that detours that have gone stay mapped */

struct change {
	struct arming a;
	struct dp_spot *spots; /* all that are to stand */
	u32 nspots;
	struct dp_plan here;        /* patches of the session's plan that stand in the process, the rest is borrowed */
	struct dp_plan next;        /* what is to stand */
	struct dp_plan fresh;       /* patches of it that do not stand yet, the rest is borrowed */
	struct dp_plan both;        /* the tables while bytes change; points and space are borrowed */
	struct dp_patches old, now; /* patches that take part */
	struct dp_planned *left;    /* those that go, or have gone already */
	u32 nleft, nareas;          /* areas that were there before */
	struct dp_range jit, blocks;
	u64 first, second; /* where the control blocks are to stand, and how large they are */
	u64 first_size, second_size;
	struct dp_block before;
	bool attached, begun; /* begun: the process knows more than before */
};

u64 dp_changes_room(struct dp_session *s, u64 control_size)
{
	s->changes.size = s->opt.grows ? DP_ALIGN_UP(8 * MiB + 8 * (control_size - dp_unwind_size(&s->unwind)), PAGE)
				       : 0;
	return s->changes.size;
}

u64 dp_changes_jit(const struct dp_session *s, u64 size)
{
	return s->opt.grows ? DP_ALIGN_UP(MiB + 4 * size, PAGE) : size;
}

/* Places at the end that nobody has are none. */
static void trim_probes(struct dp_session *s)
{
	while (s->nprobes && !s->probes[s->nprobes - 1].event)
		s->nprobes--;
}

static bool is_used(void *arg, const struct dp_image *im)
{
	const struct dp_session *s = arg;

	for (u32 i = 0; i < s->nspots; i++)
		if (s->spots[i].addr >= im->lo && s->spots[i].addr < im->hi)
			return true;
	for (u32 i = 0; i < s->nidle; i++)
		if (s->idle[i].addr >= im->lo && s->idle[i].addr < im->hi)
			return true;
	for (u32 i = 0; i < s->plan.npatches; i++)
		if (s->plan.patches[i].start >= im->lo && s->plan.patches[i].start < im->hi)
			return true;
	return false;
}

/* Whether probes that come or go have instructions of other owners. */
static bool meets_others(const struct dp_session *s)
{
	struct dp_range *v;
	u32 n = dp_others_places(s->pid, s->region, &v);
	bool any = false;

	for (u32 i = 0; n && i < s->nspots && !any; i++) {
		const struct dp_probe *p = dp_spot_probe(s, &s->spots[i]);

		any = (p->fresh || p->leaving || p->out) &&
		      dp_places_meet(v, n, s->spots[i].addr, s->spots[i].addr + 1);
	}
	free(v);
	return any;
}

static bool is_kept(const struct dp_plan *next, const struct dp_planned *p)
{
	size_t n = DP_COUNT_UP_TO(next->patches, next->npatches, start, p->start);

	return n && next->patches[n - 1].start == p->start && next->patches[n - 1].kept;
}

/* Another patch of the session takes its place, in front of those of others. */
static bool is_renewed(const struct dp_plan *next, const struct dp_planned *p)
{
	size_t n = DP_COUNT_UP_TO(next->patches, next->npatches, start, p->start);

	return n && next->patches[n - 1].start == p->start && next->patches[n - 1].shared;
}

/*
 * Every patch that stands beside those of others stays as it is, or comes in front of them: nothing has got into its
 * window. Others must find the calls of their hits when they go.
 */
static bool keeps_shared(const struct change *c)
{
	const struct dp_session *s = c->a.s;
	struct dp_range *v;
	u32 n = dp_others_places(s->pid, s->region, &v);
	bool all = true;

	for (u32 i = 0; n && i < c->here.npatches && all; i++) {
		const struct dp_planned *p = &c->here.patches[i];

		all = is_kept(&c->next, p) || is_renewed(&c->next, p) ||
		      !dp_places_meet(v, n, p->start, p->start + dp_planned_reach(p));
	}
	for (u32 i = 0; i < c->next.npatches && all; i++)
		all = !c->next.patches[i].shared || s->recorded;
	free(v);
	return all;
}

bool dp_session_can_change(struct dp_session *s, u32 *words)
{
	struct dp_changes *c = &s->changes;

	for (u32 i = 0; i < s->nprobes && s->armed; i++)
		if (s->probes[i].leaving && s->probes[i].paused)
			s->probes[i].leaving = false;
		else if (s->probes[i].leaving)
			dp_probe_free(&s->probes[i]);
	*words = c->words;
	if (!s->armed || !c->size || c->unsure || c->busy || !s->plan.npoints)
		return false;
	trim_probes(s);
	dp_process_forget(&s->proc, is_used, s);
	return !dp_process_renew(&s->proc, NULL);
}

void dp_session_drop(struct dp_session *s, u32 probe)
{
	s->probes[probe].leaving = true;
}

/* ---- what is to stand ---- */

static bool gather(struct change *c)
{
	struct dp_session *s = c->a.s;

	c->spots = calloc(s->nspots + 1ull, sizeof(*c->spots));
	for (u32 i = 0; c->spots && i < s->nspots; i++) {
		const struct dp_probe *p = dp_spot_probe(s, &s->spots[i]);

		if (!p->leaving && !p->dropped)
			c->spots[c->nspots++] = s->spots[i];
	}
	return c->spots;
}

/* What stands in the process. A library that was unmapped has taken its patches along. */
static int find_here(struct change *c, struct dp_error *err)
{
	const struct dp_plan *plan = &c->a.s->plan;
	struct dp_mem_look look = {.mem = &c->a.mem};

	c->here = *plan;
	c->here.npatches = 0;
	c->here.patches = calloc(plan->npatches + 1ull, sizeof(*plan->patches));
	c->left = calloc(plan->npatches + 1ull, sizeof(*c->left));
	if (!c->here.patches || !c->left)
		return dp_fail(err, E_ARM_NOMEM, "plan");
	for (u32 i = 0; i < plan->npatches; i++)
		if (dp_patch_state(&look, &c->a.now, &plan->patches[i].patch, NULL) != DP_PATCH_ABSENT)
			c->here.patches[c->here.npatches++] = plan->patches[i];
		else
			c->left[c->nleft++] = plan->patches[i];
	return 0;
}

/* Which patches change, from what to what. */
static bool compare(struct change *c)
{
	struct dp_plan *next = &c->next;

	c->old.v = calloc((u64)c->here.npatches + next->npatches + 1, sizeof(*c->old.v));
	c->now.v = calloc(next->npatches + 1ull, sizeof(*c->now.v));
	c->fresh = *next;
	c->fresh.npatches = 0;
	c->fresh.patches = calloc(next->npatches + 1ull, sizeof(*next->patches));
	if (!c->old.v || !c->now.v || !c->fresh.patches)
		return false;
	for (u32 i = 0; i < c->here.npatches; i++)
		if (!is_kept(next, &c->here.patches[i])) {
			if (!is_renewed(next, &c->here.patches[i]))
				c->old.v[c->old.n++] = c->here.patches[i].patch;
			c->left[c->nleft++] = c->here.patches[i];
		}
	for (u32 i = 0; i < next->npatches; i++) {
		const struct dp_planned *p = &next->patches[i];

		if (p->kept)
			continue;
		c->now.v[c->now.n++] = p->patch;
		c->fresh.patches[c->fresh.npatches++] = *p;
		if (p->shared) { /* whoever's stands in front */
			c->old.v[c->old.n] = p->shared->front;
			c->old.v[c->old.n++].file = p->patch.file;
		}
	}
	c->a.plan = &c->fresh;
	c->a.old = c->old;
	return DP_SORT_BY(c->old.v, c->old.n, addr);
}

/* Where bytes change there must be the file's code, or our patches. */
static int check_bytes(struct change *c, struct dp_error *err)
{
	struct dp_mem_look look = {.mem = &c->a.mem};

	for (u32 i = 0; i < c->old.n; i++)
		if (dp_patch_state(&look, &c->a.now, &c->old.v[i], NULL) == DP_PATCH_OTHERS)
			return dp_fail(err, E_SITE_FOREIGN, "at 0x%llx", (unsigned long long)c->old.v[i].addr);
	return dp_arm_check_bytes(&c->a, err);
}

/* Entries of both, sorted by pc; where both have one, a's. */
static struct dp_redirect *join(const struct dp_redirect *a, u32 na, const struct dp_redirect *b, u32 nb, u32 *n)
{
	struct dp_redirect *v = dp_alloc((na + nb + 1ull) * sizeof(*v));
	u32 i = 0, k = 0;

	*n = 0;
	while (v && (i < na || k < nb)) {
		bool first = k == nb || (i < na && a[i].pc <= b[k].pc);

		if (first && k < nb && a[i].pc == b[k].pc)
			k++;
		v[(*n)++] = first ? a[i++] : b[k++];
	}
	return v;
}

static bool join_tables(struct change *c)
{
	const struct dp_plan *plan = &c->a.s->plan, *next = &c->next;
	struct dp_plan *both = &c->both;

	both->points = next->points;
	both->npoints = next->npoints;
	both->space = next->space;
	both->redirects = join(next->redirects, next->nredirects, plan->redirects, plan->nredirects, &both->nredirects);
	both->homes = join(next->homes, next->nhomes, plan->homes, plan->nhomes, &both->nhomes);
	both->patches = dp_alloc((next->npatches + c->here.npatches + 1ull) * sizeof(*both->patches));
	if (!both->redirects || !both->homes || !both->patches)
		return false;
	memcpy(both->patches, next->patches, next->npatches * sizeof(*both->patches));
	both->npatches = next->npatches;
	for (u32 i = 0; i < c->here.npatches; i++)
		if (!is_kept(next, &c->here.patches[i]))
			both->patches[both->npatches++] = c->here.patches[i];
	return DP_SORT_BY(both->patches, both->npatches, start);
}

/* ---- room in the region ---- */

static u64 tables_size(const struct dp_plan *plan)
{
	return sizeof(struct dp_control) + plan->npoints * sizeof(*plan->points) +
	       plan->npatches * sizeof(struct dp_patch) + (plan->space.nareas + 1ull) * sizeof(struct dp_range) +
	       ((u64)plan->nredirects + plan->nhomes) * sizeof(*plan->homes) + 256;
}

/* Two control blocks, beside those that are in use. */
static int find_blocks(struct change *c)
{
	const struct dp_session *s = c->a.s;
	const struct dp_range *used = &s->changes.blocks;
	u64 lo = s->region + s->changes.off, hi = lo + s->changes.size, all;

	c->first_size = tables_size(&c->both) +
			(c->nspots + s->watch.n) * (sizeof(struct dp_probe_rt) + sizeof(struct dp_watch_rt));
	c->first_size = DP_ALIGN_UP(c->first_size + dp_control_programs(s), PAGE);
	c->second_size = DP_ALIGN_UP(tables_size(&c->next), PAGE);
	all = c->first_size + c->second_size;
	if (used->hi && all > used->lo - lo)
		lo = used->hi;
	if (all > hi - lo)
		return -ENOSPC;
	c->blocks = (struct dp_range){lo, lo + all};
	c->first = lo;
	c->second = lo + c->first_size;
	return 0;
}

/* Programs that have gone leave their room when nothing behind them is in use. */
static void trim_compiled(struct dp_session *s)
{
	u64 lo = s->block.ctl.jit_lo, used = 0;

	for (u32 i = 0; i < s->nspots; i++)
		if (s->spots[i].direct && !dp_spot_probe(s, &s->spots[i])->fresh)
			used = DP_MAX(used, s->spots[i].direct + DP_JIT_MAX - lo);
	for (u32 i = 0; i < s->nprobes; i++)
		if (s->probes[i].event && s->probes[i].compiled && !s->probes[i].fresh)
			used = DP_MAX(used, s->probes[i].compiled + dp_rpn_jit_room(s->probes[i].event->prog.len) - lo);
	s->changes.jit_used = DP_MIN(s->changes.jit_used, DP_ALIGN_UP(used, 64));
}

/* What finds no room is interpreted. */
static void place_compiled(struct change *c)
{
	struct dp_session *s = c->a.s;
	u64 size = dp_compile_lay_out(s, c->spots, c->nspots), lo;

	trim_compiled(s);
	lo = DP_ALIGN_UP(s->block.ctl.jit_lo + s->changes.jit_used, 64);
	if (size > s->block.ctl.jit_hi - lo) {
		for (u32 i = 0; i < c->nspots; i++)
			if (dp_spot_probe(s, &c->spots[i])->fresh)
				c->spots[i].direct = 0;
		for (u32 i = 0; i < s->nprobes; i++)
			if (s->probes[i].fresh)
				s->probes[i].compiled = 0;
		size = 0;
	}
	dp_compile_place(s, c->spots, c->nspots, lo);
	c->jit = (struct dp_range){lo, lo + size};
}

/* ---- the plan ---- */

static int make_plan(struct change *c, struct dp_error *err)
{
	struct dp_session *s = c->a.s;
	int r = gather(c) ? find_here(c, err) : dp_fail(err, E_ARM_NOMEM, "plan");

	if (r)
		return r;
	c->next.space = s->plan.space;
	c->nareas = s->plan.space.nareas;
	memset(&s->plan.space, 0, sizeof(s->plan.space));
	dp_arm_entries(&c->a);
	place_compiled(c);
	if (dp_others_avoid(&c->next, s->pid, s->region, &c->here, s->stops ? NULL : &c->a.mem, err))
		return -dp_error_info(E_ARM_NOMEM)->number;
	if (dp_arm_mark_busy(&c->next.space, &c->a.now, &s->proc) ||
	    dp_plan_next(&c->next, &c->here, c->spots, c->nspots, c->a.entries, s->opt.allow_trap))
		return dp_fail(err, E_ARM_NOMEM, "plan");
	if (!keeps_shared(c))
		return -ENOSPC;
	r = dp_arm_settle(s, c->spots, c->nspots, err);
	if (!r)
		r = dp_semaphores_check(s, c->spots, c->nspots, err);
	if (r)
		return r;
	dp_arm_name_files(&c->next, &s->proc, c->spots, c->nspots);
	for (u32 i = 0; i < c->next.npatches; i++)
		c->next.patches[i].patch.single = s->stops;
	if (!compare(c) || !join_tables(c) || !(c->a.areas = dp_merge_areas(&c->next.space, c->nareas, &c->a.nareas)))
		return dp_fail(err, E_ARM_NOMEM, "plan");
	r = check_bytes(c, err);
	return r ? r : find_blocks(c);
}

/* The room that new detours were to have. */
static void give_back(struct change *c)
{
	struct dp_space *sp = &c->next.space;

	for (u32 i = 0; i < c->next.npatches; i++)
		if (!c->next.patches[i].kept && c->next.patches[i].code_len)
			dp_space_give(sp, c->next.patches[i].detour_addr, c->next.patches[i].code_len);
	while (sp->nareas > c->nareas)
		dp_free(sp->areas[--sp->nareas].used);
	c->a.s->plan.space = *sp;
	memset(sp, 0, sizeof(*sp));
}

/* ---- into the process ---- */

/* The control block at this address is the one that hits use. */
static int swing(struct change *c, u64 to, struct dp_error *err)
{
	int r = dp_mem_write(&c->a.mem, c->a.s->region + offsetof(struct dp_blob_head, ctl), &to, sizeof(to), err);

	if (!r)
		c->a.s->control = to;
	return r;
}

/* The first of the two blocks, and all that it speaks of; nobody uses any of it yet. */
static int put_first(struct change *c, struct dp_error *err)
{
	struct dp_session *s = c->a.s;
	struct arming *a = &c->a;
	int r = dp_first_map(a, err);

	if (!r)
		r = dp_build_next(a, &c->both, c->spots, c->nspots, c->first, c->first_size, err);
	if (r)
		return r;
	a->ctl->state = DP_STATE_ARMING; /* nobody goes on with it who does not know both plans */
	if (!a->ctl->clock_mult)
		dp_arm_set_clock(a);
	c->before = s->block;
	memset(&s->block, 0, sizeof(s->block));
	c->begun = true;
	r = dp_block_of_image(&s->block, a->ctl, a->ctl->size, c->first, &c->before.head, err);
	if (!r) {
		dp_record_write(s);
		r = dp_mem_write(&a->mem, c->first, a->ctl, a->ctl->size, err);
	}
	if (!r)
		r = dp_arm_map_areas(a, err);
	if (!r && c->jit.hi > c->jit.lo)
		r = dp_compile_write(a, c->spots, c->nspots, &c->next, c->jit, err);
	if (!r)
		r = swing(c, c->first, err);
	if (!r && !a->ctl->segv_taken && dp_plan_needs_segv(&c->fresh)) {
		a->ctl->segv_taken = 1;
		r = dp_arm_take_signal(a, SIGSEGV, a->ctl->old_segv, err);
	}
	return r;
}

/* Nothing of the code has changed: as it was. */
static void take_back(struct change *c)
{
	struct dp_session *s = c->a.s;
	struct dp_call gone;

	if (!c->begun || s->changes.unsure)
		return;
	dp_arm_finish_children(&c->a);
	if (c->a.ctl && c->a.ctl->segv_taken && !c->before.ctl.segv_taken) { /* our action stays until the end */
		c->before.ctl.segv_taken = 1;
		memcpy(c->before.ctl.old_segv, c->a.ctl->old_segv, sizeof(c->before.ctl.old_segv));
		dp_mem_write(&c->a.mem, c->before.ctl.self, &c->before.ctl, sizeof(c->before.ctl), NULL);
	}
	swing(c, c->before.ctl.self, NULL);
	for (u32 i = 0; i < c->a.nareas; i++) {
		gone = (struct dp_call){SYS_munmap, {c->a.areas[i].lo, c->a.areas[i].hi - c->a.areas[i].lo}, 0};
		dp_remote_calls(&c->a.remote, &gone, 1, NULL);
	}
	dp_block_free(&s->block);
	s->block = c->before;
	memset(&c->before, 0, sizeof(c->before));
	dp_record_write(s);
}

static int publish(struct change *c, struct dp_error *err)
{
	struct arming *a = &c->a;
	struct dp_publish_host ph;
	int r;

	dp_publish_host_init(&ph, &a->tracer, &a->mem, &a->remote);
	r = dp_arm_begin_publish(a, c->both.redirects, c->both.nredirects, err);
	if (r)
		return r;
	r = dp_patches_exchange(&ph, &c->old, &c->now, &a->s->changes.unsure, err);
	if (!r)
		r = dp_arm_renew_signals(a, err);
	if (!r)
		r = dp_remote_retire(&a->remote, err);
	return r;
}

/* ---- out of the old detours ---- */

static const struct dp_planned *patch_over(const struct dp_plan *plan, u64 addr, u8 *k)
{
	size_t n = DP_COUNT_UP_TO(plan->patches, plan->npatches, start, addr);
	const struct dp_planned *p = n ? &plan->patches[n - 1] : NULL;

	for (*k = 0; p && *k < p->win.ninsns; ++*k)
		if (p->start + p->win.off[*k] == addr)
			return p;
	return NULL;
}

/* A second hit, in a detour that goes, has its like in one that comes; 0: pc is none, or there is none. */
static u64 second_hit(const struct change *c, const struct dp_planned *p, u64 pc)
{
	const struct dp_displaced *v = dp_displaced_by(&c->a.s->plan, p);
	const struct dp_planned *q;
	u16 after;
	u8 i = 0, k;

	while (i < p->win.ninsns && (!v[i].after || pc != p->detour_addr + v[i].after))
		i++;
	q = i < p->win.ninsns ? patch_over(&c->next, p->start + p->win.off[i], &k) : NULL;
	after = q ? dp_displaced_by(&c->next, q)[k].after : 0;
	return after ? q->detour_addr + after : 0;
}

/*
 * Where a place in a detour that goes belongs: in a detour that comes, or in the code. Whoever is behind a hit does not
 * come to another one of the same instruction.
 */
static u64 move_of(const struct change *c, const struct dp_planned *p, const struct dp_redirect *home)
{
	u64 addr = home->to & ~DP_HOME_BEHIND, second = second_hit(c, p, home->pc);
	u64 to = dp_redirect_find(c->next.redirects, c->next.nredirects, addr);
	u8 k;
	const struct dp_planned *q = addr != home->to ? patch_over(&c->next, addr, &k) : NULL;

	if (second)
		return second;
	return q ? q->detour_addr + dp_displaced_by(&c->next, q)[k].copy : to ? to : addr;
}

/* Program counters on bytes that are displaced now, and those in detours that go. */
static struct dp_redirect *find_moves(const struct change *c, u32 *n)
{
	const struct dp_plan *plan = &c->a.s->plan, *next = &c->next;
	struct dp_redirect *v = calloc(plan->nhomes + next->nredirects + 1ull, sizeof(*v));

	*n = 0;
	for (u32 i = 0; v && i < c->nleft; i++) {
		const struct dp_planned *p = &c->left[i];
		u32 k = dp_redirects_below(plan->homes, plan->nhomes, p->detour_addr);

		for (; k < plan->nhomes && plan->homes[k].pc < p->detour_addr + p->code_len; k++)
			v[(*n)++] = (struct dp_redirect){plan->homes[k].pc, move_of(c, p, &plan->homes[k])};
	}
	for (u32 i = 0; v && i < next->nredirects; i++)
		v[(*n)++] = next->redirects[i];
	if (v && !DP_SORT_BY(v, *n, pc)) {
		free(v);
		return NULL;
	}
	return v;
}

static void finish_children(void *arg)
{
	dp_arm_finish_children(arg);
}

/* Each thread has been outside of what goes. False: perhaps not. */
static bool all_out(struct change *c)
{
	struct dp_session *s = c->a.s;
	struct dp_range *avoid = calloc(c->nleft + 2ull + 2 * DP_OWNERS_MAX, sizeof(*avoid));
	struct dp_moves mv = {.slots = c->a.remote.slots, .nslots = c->a.remote.nslots};
	pid_t inside = 0;
	bool all = false, calls_others = false;

	mv.map = find_moves(c, &mv.nmap);
	for (u32 i = 0; avoid && i < c->nleft; i++) {
		avoid[mv.navoid++] = (struct dp_range){c->left[i].detour_addr,
						       c->left[i].detour_addr + c->left[i].code_len};
		calls_others |= c->left[i].patch.nwords != 0;
	}
	if (avoid && mv.map) {
		avoid[mv.navoid++] = (struct dp_range){s->region, s->region + DP_ALIGN_UP(dp_blob_size, PAGE)};
		avoid[mv.navoid++] = (struct dp_range){s->block.ctl.jit_lo, s->block.ctl.jit_hi};
		if (calls_others)
			mv.navoid += dp_others_code(s->pid, s->region, avoid + mv.navoid);
		mv.avoid = avoid;
		all = dp_move_all(&c->a.tracer, &c->a.mem, &c->a.now, &mv, GRACE_NS, finish_children, &c->a, &inside);
		s->stats.moved += mv.moved;
	}
	free(avoid);
	free((void *)mv.map);
	return all;
}

/* The second block: the new plan alone. */
static int put_second(struct change *c, struct dp_error *err)
{
	struct dp_session *s = c->a.s;
	int r;

	free(c->a.ctl);
	c->a.ctl = NULL;
	r = dp_rebuild_control(&c->a, &c->next, c->second, c->second_size, err);
	if (r)
		return r;
	c->a.ctl->state = DP_STATE_ARMED;
	r = dp_block_renew(&s->block, c->a.ctl, c->second, err);
	if (!r)
		r = dp_mem_write(&c->a.mem, c->second, c->a.ctl, c->a.ctl->size, err);
	if (!r)
		r = swing(c, c->second, err);
	if (!r)
		dp_record_write(s);
	return r;
}

/* ---- the end ---- */

/* Points without a patch have a number to give; nobody calls with it any more. */
static void forget_points(struct dp_plan *plan)
{
	u8 *used = calloc(1, plan->npoints + 1ull);

	for (u32 i = 0; used && i < plan->npatches; i++) {
		const struct dp_displaced *v = dp_displaced_by(plan, &plan->patches[i]);

		for (u8 k = 0; k < plan->patches[i].win.ninsns; k++)
			if (v[k].point != DP_NO_POINT)
				used[v[k].point] = 1;
	}
	for (u32 i = 0; used && i < plan->npoints; i++)
		if (!used[i])
			plan->points[i] = (struct dp_point){.addr = 0};
	free(used);
}

static void adopt_plan(struct change *c, bool out)
{
	struct dp_session *s = c->a.s;
	struct dp_plan old = s->plan;

	s->plan = c->next;
	memset(&c->next, 0, sizeof(c->next));
	dp_plan_free(&old);
	free(s->spots);
	s->spots = c->spots;
	s->nspots = s->cap_spots = c->nspots;
	c->spots = NULL;
	dp_compile_forget(s);
	for (u32 i = 0; i < s->plan.npatches; i++)
		s->plan.patches[i].kept = false;
	s->changes.blocks = c->blocks;
	if (c->jit.hi > c->jit.lo)
		s->changes.jit_used = c->jit.hi - s->block.ctl.jit_lo;
	for (u32 i = 0; i < s->nprobes; i++) /* those that leave are still looked at by whoever shows their records */
		s->probes[i].fresh = s->probes[i].resumed = s->probes[i].out = false;
	dp_session_forget_idle(s);
	if (out) {
		forget_points(&s->plan);
		for (u32 i = 0; i < c->nleft; i++)
			dp_space_give(&s->plan.space, c->left[i].detour_addr, c->left[i].code_len);
	}
	s->changes.busy = !out;
}

void dp_session_cancel(struct dp_session *s)
{
	u32 n = 0;

	for (u32 i = 0; i < s->nspots; i++)
		if (!dp_spot_probe(s, &s->spots[i])->fresh)
			s->spots[n++] = s->spots[i];
	s->nspots = n;
	for (u32 i = 0; i < s->nprobes; i++) {
		struct dp_probe *p = &s->probes[i];

		if (p->resumed)
			p->paused = true;
		else if (p->leaving)
			p->paused = false;
		if (p->fresh && !p->resumed)
			dp_probe_free(p);
		p->leaving = p->fresh = p->resumed = false;
	}
	dp_session_forget_idle(s);
	trim_probes(s);
	dp_first_cancel(s);
}

static void detach(struct change *c)
{
	struct dp_session_stats *st = &c->a.s->stats;

	if (!c->attached)
		return;
	c->attached = false;
	dp_remote_end(&c->a.remote);
	st->longest_stop_ns = DP_MAX(st->longest_stop_ns, c->a.tracer.longest_stop_ns);
	st->stops += c->a.tracer.stops;
	st->rescued += c->a.tracer.rescued;
	dp_tracer_detach(&c->a.tracer);
}

static void finish(struct change *c)
{
	detach(c);
	if (c->next.space.areas || c->next.space.busy) /* nothing came of it */
		give_back(c);
	c->both.points = NULL;
	memset(&c->both.space, 0, sizeof(c->both.space));
	dp_plan_free(&c->both);
	dp_plan_free(&c->next);
	free(c->here.patches);
	free(c->fresh.patches);
	free(c->spots);
	free(c->left);
	free(c->old.v);
	free(c->now.v);
	dp_block_free(&c->before);
	dp_mem_close(&c->a.mem);
	dp_maps_free(&c->a.now);
	free(c->a.areas);
	free(c->a.ctl);
}

/* Whether what is asked for can be done here. */
static bool has_room(const struct dp_session *s)
{
	for (u32 i = 0; i < s->nprobes; i++)
		if (s->probes[i].event && (s->probes[i].fresh || s->probes[i].leaving) && s->probes[i].event->is_watch)
			return false;
	return s->nprobes <= s->changes.probes;
}

bool dp_session_fits(struct dp_session *s)
{
	/* Who comes back to an instruction for a debugger would come to the hits of others, too. */
	return has_room(s) && !(s->stops && meets_others(s));
}

static int change(struct dp_session *s, struct dp_error *err)
{
	struct change c = {.a = {.s = s, .mem = {s->pid, -1}}};
	bool out = false;
	int r = dp_session_fits(s) ? 0 : -ENOSPC;

	if (!r)
		r = dp_maps_read(&c.a.now, s->pid, err);
	if (!r)
		r = dp_mem_open(&c.a.mem, s->pid, err);
	if (!r)
		dp_block_actions(&c.a.mem, &s->block.ctl);
	if (!r)
		r = dp_first_prepare(s, &c.a.mem, err);
	if (!r)
		r = make_plan(&c, err);
	if (!r) {
		c.attached = true;
		r = dp_arm_attach(&c.a, s->pid, PATIENCE, err);
	}
	if (!r)
		r = put_first(&c, err);
	if (!r)
		r = publish(&c, err);
	if (!r) {
		out = all_out(&c);
		dp_arm_finish_children(&c.a);
		detach(&c);
		/* While the record still knows what they have. */
		dp_withdraw_inheritors(s, &c.before);
		r = put_second(&c, err);
	}
	s->changes.unsure &= r != 0;
	if (r) {
		take_back(&c);
		dp_session_cancel(s);
	} else {
		adopt_plan(&c, out);
		if (dp_semaphores_settle(s, &c.a.mem, NULL))
			dp_session_say(s,
				       "semaphores of static probes could not be changed: such probes may not be hit");
	}
	finish(&c);
	return r;
}

int dp_session_change(struct dp_session *s, struct dp_error *err)
{
	int r = dp_process_hold(s->pid, err);

	if (r) {
		dp_session_cancel(s);
		return r;
	}
	r = change(s, err);
	dp_process_release(s->pid);
	return r;
}
