/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probes that are taken out of the code of an armed session for a while, and brought back. Only bytes of the code
 * change: the plan, the detours and the control block stay, so that a thread that is in a detour finds all that it
 * needs, and a successor sees the original bytes at a patch and leaves it alone. The others are not touched.
 *	1. What stands is compared with what is to stand, in the process and in each that inherited the probes.
 *	2. The bytes change, as in change.c; redirections are in force for patches of both kinds.
 *	3. Each thread is seen once, and moved if it stands on a byte that a patch which came back displaces.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/process/arm-priv.h"
#include "host/process/hold.h"
#include "host/process/same-site.h"

/* ---- which probes go together ---- */

static const struct dp_planned *patch_of(const struct dp_plan *plan, u64 addr)
{
	size_t n = DP_COUNT_UP_TO(plan->patches, plan->npatches, start, addr);

	return n ? &plan->patches[n - 1] : NULL;
}

static bool is_armed_spot(const struct dp_session *s, const struct dp_spot *sp)
{
	return sp->outcome != DP_OUTCOME_REFUSED && (sp->owner >= DP_GUARD_OWNER || dp_spot_probe(s, sp)->event);
}

/* The last spot of each patch is joined with the next one of the same patch: spots are sorted by address. */
static void join_patches(const struct dp_session *s, u32 *group)
{
	const struct dp_planned *last = NULL;
	u32 before = 0;

	for (u32 i = 0; i < s->nspots; i++) {
		const struct dp_spot *sp = &s->spots[i];
		const struct dp_planned *p = is_armed_spot(s, sp) ? patch_of(&s->plan, sp->addr) : NULL;

		if (!p || sp->owner >= DP_GUARD_OWNER) /* a patch with a guard stays anyway */
			continue;
		if (p == last)
			dp_groups_join(group, before, sp->owner);
		last = p;
		before = sp->owner;
	}
}

struct end { /* of a function: an entry or its returns */
	u64 function;
	u32 probe;
};

/* An entry without its return, or the reverse, would be taken for a call that never ends. */
static bool join_ends(const struct dp_session *s, u32 *group)
{
	struct end *v = calloc(s->nprobes + 1ull, sizeof(*v));
	u32 n = 0;

	for (u32 i = 0; v && i < s->nprobes; i++)
		if (s->probes[i].event && !s->probes[i].event->is_watch && !s->probes[i].offset)
			v[n++] = (struct end){s->probes[i].addr, i};
	if (!v || !DP_SORT_BY(v, n, function)) {
		free(v);
		return false;
	}
	for (u32 i = 1; i < n; i++)
		if (v[i].function == v[i - 1].function)
			dp_groups_join(group, v[i].probe, v[i - 1].probe);
	free(v);
	return true;
}

bool dp_session_groups(const struct dp_session *s, u32 *group)
{
	for (u32 i = 0; i < s->nprobes; i++)
		group[i] = i;
	if (!s->armed || s->pages.map || s->late.size || s->changes.unsure)
		return false;
	join_patches(s, group);
	return join_ends(s, group);
}

void dp_session_mark_out(struct dp_session *s, u32 probe, bool out)
{
	s->probes[probe].out = out;
}

/* ---- what changes in a process ---- */

struct taking {
	struct arming a;
	struct dp_plan standing;    /* patches that are to stand, the rest is the session's */
	struct dp_patches goes, in; /* in: those that come back */
	bool attached, begun;
};

/* Of an instruction that other owners probe as well: their detours have its hits, and its detour has theirs. */
static void want_shared(const struct dp_session *s, bool *wanted)
{
	struct dp_range *v;
	u32 n = dp_others_places(s->pid, s->region, &v);

	for (u32 i = 0; n && i < s->plan.npatches; i++)
		wanted[i] |= !s->plan.patches[i].out &&
			     dp_places_meet(v, n, s->plan.patches[i].start, s->plan.patches[i].start + 1);
	free(v);
}

/* For each patch of the plan, whether a probe wants it. NULL: no memory. */
static bool *find_wanted(const struct dp_session *s)
{
	bool *wanted = calloc(s->plan.npatches + 1ull, sizeof(*wanted));

	for (u32 i = 0; wanted && i < s->nspots; i++) {
		const struct dp_spot *sp = &s->spots[i];
		const struct dp_planned *p = is_armed_spot(s, sp) ? patch_of(&s->plan, sp->addr) : NULL;

		if (p && !dp_spot_probe(s, sp)->out)
			wanted[p - s->plan.patches] = true;
	}
	if (wanted)
		want_shared(s, wanted);
	return wanted;
}

static bool has_work(const struct dp_session *s, const bool *wanted)
{
	for (u32 i = 0; i < s->plan.npatches; i++)
		if (wanted[i] == s->plan.patches[i].out)
			return true;
	return false;
}

/* What is there counts: a process that inherited the probes has them as they were when it was born. */
static int compare(struct taking *p, const bool *wanted, struct dp_error *err)
{
	const struct dp_plan *plan = &p->a.s->plan;
	struct dp_mem_look look = {.mem = &p->a.mem};

	p->standing = *plan;
	p->standing.npatches = 0;
	p->standing.patches = calloc(plan->npatches + 1ull, sizeof(*plan->patches));
	p->goes.v = calloc(plan->npatches + 1ull, sizeof(*p->goes.v));
	p->in.v = calloc(plan->npatches + 1ull, sizeof(*p->in.v));
	if (!p->standing.patches || !p->goes.v || !p->in.v)
		return dp_fail(err, E_ARM_NOMEM, "process %d", (int)p->a.s->pid);
	for (u32 i = 0; i < plan->npatches; i++) {
		const struct dp_planned *q = &plan->patches[i];
		enum dp_patch_state state;

		if (wanted[i])
			p->standing.patches[p->standing.npatches++] = *q;
		if (wanted[i] && !q->out)
			continue;
		state = dp_patch_state(&look, &p->a.now, &q->patch, NULL);
		if (!wanted[i] && state == DP_PATCH_OURS)
			p->goes.v[p->goes.n++] = q->patch;
		else if (wanted[i] && state == DP_PATCH_ABSENT &&
			 dp_code_file(&p->a.now, q->patch.addr) == (q->patch.file & ~DP_FILE_STAYS))
			p->in.v[p->in.n++] = q->patch;
	}
	return 0;
}

/* ---- carrying it out ---- */

static int publish(struct taking *p, bool is_own, struct dp_error *err)
{
	struct arming *a = &p->a;
	const struct dp_plan *plan = &a->s->plan;
	struct dp_publish_host ph;
	int r = 0;

	dp_publish_host_init(&ph, &a->tracer, &a->mem, &a->remote);
	if (is_own) {
		r = dp_arm_begin_publish(a, plan->redirects, plan->nredirects, err);
	} else { /* what the record says is about the session's process */
		a->tracer.redirects = plan->redirects;
		a->tracer.nredirects = plan->nredirects;
		dp_tracer_pass_forks(&a->tracer);
		a->tracer.holds = true;
	}
	if (!r)
		r = dp_patches_exchange(&ph, &p->goes, &p->in, &p->begun, err);
	if (!r)
		r = dp_arm_renew_signals(a, err);
	if (!r)
		r = dp_remote_retire(&a->remote, err);
	if (is_own && (!r || !p->begun)) {
		a->ctl->state = DP_STATE_ARMED;
		dp_arm_put_control(a, NULL);
	}
	return r;
}

static void finish(struct taking *p)
{
	if (p->attached) {
		struct dp_session_stats *st = &p->a.s->stats;

		dp_arm_finish_children(&p->a);
		dp_remote_end(&p->a.remote);
		st->longest_stop_ns = DP_MAX(st->longest_stop_ns, p->a.tracer.longest_stop_ns);
		st->stops += p->a.tracer.stops;
		st->rescued += p->a.tracer.rescued;
		dp_tracer_detach(&p->a.tracer);
	}
	free(p->standing.patches);
	free(p->goes.v);
	free(p->in.v);
	free(p->a.ctl);
	dp_mem_close(&p->a.mem);
	dp_maps_free(&p->a.now);
}

static int attach(struct taking *p, pid_t pid, struct dp_error *err)
{
	const struct dp_session *s = p->a.s;

	p->a.plan = &p->standing;
	p->a.old = p->goes;
	p->a.ctl = malloc(sizeof(*p->a.ctl));
	if (!p->a.ctl)
		return dp_fail(err, E_ARM_NOMEM, "process %d", (int)pid);
	*p->a.ctl = s->block.ctl;
	return dp_arm_attach(&p->a, pid, 1, err);
}

/*
 * In one process that nobody else changes meanwhile. *begun: bytes have changed; with an error they may be in any
 * step.
 */
static int take_out_in(struct dp_session *s, pid_t pid, const bool *wanted, bool *begun, struct dp_error *err)
{
	struct taking p = {.a = {.s = s, .mem = {pid, -1}}};
	bool is_own = pid == s->pid;
	int r = dp_maps_read(&p.a.now, pid, err);

	if (!r)
		r = dp_mem_open(&p.a.mem, pid, err);
	if (!r && is_own)
		dp_block_actions(&p.a.mem, &s->block.ctl);
	if (!r && !is_own && dp_control_of(&p.a.mem, s->region) != s->control)
		r = -ESRCH; /* born before the session changed: it is about to lose the probes */
	if (!r)
		r = compare(&p, wanted, err);
	if (!r && (p.goes.n || p.in.n)) {
		p.attached = true;
		r = attach(&p, pid, err);
		if (!r)
			r = publish(&p, is_own, err);
		if (!r)
			r = dp_arm_last_round(&p.a, NULL, err);
	}
	*begun = p.begun;
	finish(&p);
	return r;
}

/* Those that cannot be changed now (a debugger holds them) are tried again at the next change. */
static void take_out_in_heirs(struct dp_session *s, const bool *wanted)
{
	struct dp_error err;
	pid_t *heirs;
	u32 n = dp_session_heirs(s, &heirs);
	bool begun;

	for (u32 i = 0; i < n; i++) {
		if (dp_process_hold(heirs[i], NULL))
			continue;
		take_out_in(s, heirs[i], wanted, &begun, &err);
		dp_process_release(heirs[i]);
	}
	free(heirs);
}

int dp_session_take_out(struct dp_session *s, struct dp_error *err)
{
	bool *wanted = find_wanted(s), begun = false;
	int r = wanted ? 0 : dp_fail(err, E_ARM_NOMEM, "process %d", (int)s->pid);

	if (r || !has_work(s, wanted)) {
		free(wanted);
		return r;
	}
	r = dp_process_hold(s->pid, err);
	if (!r) {
		want_shared(s, wanted); /* who has come meanwhile */
		r = take_out_in(s, s->pid, wanted, &begun, err);
		dp_process_release(s->pid);
	}
	if (r && !dp_session_alive(s)) /* its children may still have the probes */
		r = 0;
	s->changes.unsure |= r && begun;
	if (!r)
		take_out_in_heirs(s, wanted);
	for (u32 i = 0; !r && i < s->plan.npatches; i++)
		s->plan.patches[i].out = !wanted[i];
	free(wanted);
	return r;
}

u32 dp_session_places_out(const struct dp_session *s)
{
	u32 n = 0;

	for (u32 i = 0; i < s->plan.npatches; i++)
		n += s->plan.patches[i].out;
	return n;
}
