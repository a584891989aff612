/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The state of the code bytes: decides for each point that was touched whether it shall be a
 * breakpoint, a jump or nothing, and brings all of them there in few steps. The rules of jump
 * optimisation are those of Kprobes: a breakpoint first; a jump when its region is safe, nobody
 * else is probed in it, and no probe needs control after the instruction; back to the breakpoint as
 * soon as that changes.
 */
#include "engine/manager-priv.h"

void dp_mgr_count(struct dp_manager *m, struct dp_kpoint *p, enum dp_state_now state)
{
	m->narmed += (state != DP_POINT_OFF) - (p->state != DP_POINT_OFF);
	m->noptimised += (state == DP_POINT_JUMP) - (p->state == DP_POINT_JUMP);
	p->state = state;
}

/* A point that comes or goes changes what those before it may be. */
void dp_mgr_touch_region(struct dp_manager *m, struct dp_kpoint *p)
{
	for (u64 a = p->addr - MGR_REGION_MAX; a < p->addr; a++) {
		struct dp_kpoint *before = dp_mgr_point(m, a);

		if (before && before->probes)
			dp_mgr_touch(m, before);
	}
}

/* Bytes that a jump covers. */
static u32 region(const struct dp_kpoint *p)
{
	return dp_window_reach(&p->win);
}

static bool others_in_region(struct dp_manager *m, const struct dp_kpoint *p)
{
	for (u32 i = 1; i < region(p); i++) {
		struct dp_kpoint *q = dp_mgr_point(m, p->addr + i);

		if (q && q->probes)
			return true;
	}
	return false;
}

static bool no_jump(struct dp_kpoint *p, enum dp_code why)
{
	p->no_jump = true;
	p->why = why;
	return false;
}

/* Is the region safe? Judged once; the slot is made when it is. */
static bool region_safe(struct dp_manager *m, struct dp_kpoint *p)
{
	struct dp_error err;
	u64 link = p->addr - p->bias;

	if (p->jump.addr)
		return true;
	if (p->no_jump)
		return false;
	err.code = DP_OK;
	if (dp_window_build(p->text, link, link, &p->win, &err))
		return no_jump(p, err.code);
	if (m->host->settle) /* nobody is inside when the jump comes, and nobody gets in */
		p->win.bounds = 0;
	if (dp_ool_slot_make(m, p, DP_OOL_JUMP, &err))
		return no_jump(p, err.code);
	p->win.start = p->addr;
	p->jump_patch = (struct dp_patch){.addr = p->addr, .len = DP_JUMP_LEN, .bounds = p->win.bounds};
	memcpy(p->jump_patch.orig, p->text->bytes + (link - p->text->lo), DP_JUMP_LEN);
	dp_jump_make(p->jump_patch.jump, p->addr, p->jump.addr);
	return true;
}

/* E_SITE_FOREIGN when somebody else has changed the first n bytes, or may do so soon. */
static int check(struct dp_manager *m, const struct dp_kpoint *p, u32 n, struct dp_error *err)
{
	struct dp_locus l = {.text = p->text, .bias = p->bias};

	return dp_mgr_unchanged(m, &l, p->addr, n, err);
}

static enum dp_state_now wanted(struct dp_manager *m, struct dp_kpoint *p)
{
	bool may_jump = !m->no_optimise;

	if (!p->list)
		return DP_POINT_OFF;
	for (const struct dp_mgr_probe *k = p->probes; k; k = k->next) {
		if (k->flags & (DP_MGR_POST | DP_MGR_BREAK))
			return DP_POINT_TRAP;
		may_jump |= !!(k->flags & DP_MGR_ALWAYS);
	}
	if (!may_jump)
		return DP_POINT_TRAP;
	if (m->hold && p->state != DP_POINT_JUMP && !p->no_jump) {
		p->held = true;
		return DP_POINT_TRAP;
	}
	if (!region_safe(m, p) || others_in_region(m, p))
		return DP_POINT_TRAP;
	/* Somebody else may have put a breakpoint into the region since. */
	if (p->state != DP_POINT_JUMP && check(m, p, region(p), NULL))
		return DP_POINT_TRAP;
	return DP_POINT_JUMP;
}

/* Where traps on the point's bytes lead to in a state. Any of the slots is right at any time; this
 * is the best. */
static int aim(struct dp_manager *m, struct dp_kpoint *p, enum dp_state_now state)
{
	bool post = false;
	int r = 0;

	for (const struct dp_mgr_probe *k = p->probes; k; k = k->next)
		post |= !!(k->flags & DP_MGR_POST);
	__atomic_store_n(&p->aim,
			 state == DP_POINT_JUMP ? &p->jump
			 : post && p->post.addr ? &p->post
						: &p->plain,
			 __ATOMIC_RELEASE); /* pairs with the acquire in a host's trap handler */
	if (state != DP_POINT_JUMP)
		return dp_traps_set(m, p->addr, p->aim->addr);
	for (u8 i = 1; i < p->jump.ninsns && !r; i++)
		if (p->jump.off[i] < DP_JUMP_LEN)
			r = dp_traps_set(m, p->addr + p->jump.off[i], p->jump.addr + p->jump.copy[i]);
	return r ? r : dp_traps_set(m, p->addr, p->jump.addr);
}

struct batch {
	struct dp_patch *v;
	struct dp_kpoint **p;
	u32 n;
};

static void add(struct batch *b, struct dp_kpoint *p, const struct dp_patch *patch)
{
	b->v[b->n] = *patch;
	b->p[b->n++] = p;
}

static void done(struct dp_manager *m, struct batch *b, enum dp_state_now state)
{
	for (u32 i = 0; i < b->n; i++)
		dp_mgr_count(m, b->p[i], state);
	b->n = 0;
}

/* Those in whose region somebody else has put something stay breakpoints. */
static void drop_changed(struct dp_manager *m, struct batch *b)
{
	u32 n = 0;

	for (u32 i = 0; i < b->n; i++)
		if (!check(m, b->p[i], region(b->p[i]), NULL)) {
			b->v[n] = b->v[i];
			b->p[n++] = b->p[i];
		}
	b->n = n;
}

/* Who has overwritten our breakpoint meanwhile, has the byte now: putting another there would break what is his. */
static bool is_ours(struct dp_manager *m, const struct dp_kpoint *p)
{
	u8 byte;

	return m->host->peek(m->host->arg, p->addr, &byte, 1) || byte == p->trap_patch.jump[0];
}

/*
 * Has somebody put something on our jump? Then no byte of it may change: what he has copied, and will write back, is
 * the jump. The jump stays until he is gone, and leads nowhere but through its slot when nobody is to be called.
 */
static bool jump_is_ours(struct dp_manager *m, const struct dp_kpoint *p)
{
	u8 have[DP_JUMP_LEN + MGR_REGION_MAX];
	u32 n = DP_JUMP_LEN + dp_mgr_padding(m, p);

	if (m->host->peek(m->host->arg, p->addr, have, n))
		return true;
	for (u32 i = 0; i < n; i++)
		if (have[i] != (i < DP_JUMP_LEN ? p->jump_patch.jump[i] : MGR_PADDING))
			return false;
	return true;
}

u32 dp_mgr_padding(const struct dp_manager *m, const struct dp_kpoint *p)
{
	return m->host->settle && p->state == DP_POINT_JUMP ? region(p) - DP_JUMP_LEN : 0;
}

/*
 * What a jump covers behind its own bytes. It is the end of an instruction whose beginning is gone, and others who
 * decode the function would take it for instructions, and put their breakpoints there. Breakpoints of ours keep them
 * out, and bring their decoding in step again with what follows. Written only while traps on the point lead to the
 * jump's slot and nobody stands in the region; what is published next serialises.
 */
static int set_padding(struct dp_manager *m, const struct batch *b, bool up, struct dp_error *err)
{
	const struct dp_host *code = &m->host->code;
	u8 padding[MGR_REGION_MAX];
	int r = 0;

	memset(padding, MGR_PADDING, sizeof(padding));
	for (u32 i = 0; i < b->n && !r && m->host->settle; i++) {
		const struct dp_kpoint *p = b->p[i];
		const u8 *orig = p->text->bytes + (p->addr - p->bias - p->text->lo);

		if (region(p) > DP_JUMP_LEN)
			r = code->write_code(code->arg, p->addr + DP_JUMP_LEN, up ? padding : orig + DP_JUMP_LEN,
					     region(p) - DP_JUMP_LEN, err);
	}
	return r;
}

/* The steps in their order: no two patches overlap at any time. */
static int carry_out(struct dp_manager *m, struct dp_kpoint **v, const u8 *goal, u32 n, struct batch *b,
		     struct dp_error *err)
{
	const struct dp_host *code = &m->host->code;
	int r;

	/* 1. Jumps that must go become breakpoints. */
	for (u32 i = 0; i < n; i++)
		if (v[i]->state == DP_POINT_JUMP && goal[i] != DP_POINT_JUMP)
			add(b, v[i], &v[i]->jump_patch);
	r = set_padding(m, b, false, err);
	r = b->n && !r ? dp_unjump(code, b->v, b->n, err) : r;
	if (r)
		return r;
	done(m, b, DP_POINT_TRAP);
	/* 2. Where traps shall lead, before there are any. Boundary bytes of jumps that stay keep
	 * their entries. */
	for (u32 i = 0; i < n; i++)
		if (goal[i] != DP_POINT_OFF) {
			r = aim(m, v[i], goal[i]);
			if (r)
				return dp_fail(err, E_ARM_NOMEM, "the table of traps");
		}
	/* 3. Breakpoints that must go, */
	for (u32 i = 0; i < n; i++)
		if (v[i]->state == DP_POINT_TRAP && goal[i] == DP_POINT_OFF) {
			if (is_ours(m, v[i]))
				add(b, v[i], &v[i]->trap_patch);
			else
				dp_mgr_count(m, v[i], DP_POINT_OFF);
		}
	r = b->n ? dp_withdraw(code, b->v, b->n, err) : 0;
	if (r)
		return r;
	done(m, b, DP_POINT_OFF);
	/* 4. and those that come. */
	for (u32 i = 0; i < n; i++)
		if (v[i]->state == DP_POINT_OFF && goal[i] != DP_POINT_OFF)
			add(b, v[i], &v[i]->trap_patch);
	r = b->n ? dp_publish(code, b->v, b->n, err) : 0;
	if (r)
		return r;
	done(m, b, DP_POINT_TRAP);
	/* 5. Breakpoints that become jumps: every processor has seen the breakpoint by now. */
	for (u32 i = 0; i < n; i++)
		if (v[i]->state == DP_POINT_TRAP && goal[i] == DP_POINT_JUMP)
			add(b, v[i], &v[i]->jump_patch);
	if (b->n && m->host->settle) {
		m->host->settle(m->host->arg);
		drop_changed(m, b); /* that took a while */
	}
	r = set_padding(m, b, true, err);
	r = b->n && !r ? dp_publish(code, b->v, b->n, err) : r;
	if (!r)
		done(m, b, DP_POINT_JUMP);
	else
		set_padding(m, b, false, NULL);
	return r;
}

void dp_mgr_free_retired(struct dp_manager *m)
{
	while (m->retired) {
		struct dp_hitlist *next = m->retired->old;

		dp_free(m->retired);
		m->retired = next;
	}
}

int dp_mgr_apply(struct dp_manager *m, struct dp_error *err)
{
	struct dp_kpoint **v, *p;
	struct batch b = {0};
	u32 n = 0, k = 0;
	int r = -ENOMEM, changed, foreign = 0;
	u8 *goal;

	for (p = m->work; p; p = p->work_next)
		n++;
	v = dp_alloc((n + 1) * sizeof(*v));
	goal = dp_alloc(n + 1);
	b.v = dp_alloc((n + 1) * sizeof(*b.v));
	b.p = dp_alloc((n + 1) * sizeof(*b.p));
	if (!v || !goal || !b.v || !b.p) {
		dp_fail(err, E_ARM_NOMEM, "a batch of %u points", n);
		goto out;
	}
	m->nstuck = 0;
	for (p = m->work; p; p = p->work_next) {
		p->dirty = false;
		if (p->gone)
			continue;
		v[k] = p;
		goal[k] = wanted(m, p);
		/* A point that was there before: somebody else may have come in between. */
		changed = p->state == DP_POINT_OFF && goal[k] != DP_POINT_OFF && !p->fresh
			      ? check(m, p, p->insn.len, err)
			      : 0;
		if (changed) {
			goal[k] = DP_POINT_OFF;
			foreign = changed;
		}
		p->fresh = false;
		if (p->state == DP_POINT_JUMP && goal[k] != DP_POINT_JUMP && !jump_is_ours(m, p)) {
			goal[k] = DP_POINT_JUMP;
			p->held = true; /* to be looked at again */
			m->nstuck++;
		}
		k++;
		if (!(k & 63) && m->host->code.breathe) /* tens of thousands take a while */
			m->host->code.breathe(m->host->code.arg);
	}
	m->work = NULL;
	r = k ? carry_out(m, v, goal, k, &b, err) : 0;
	r = r ? r : foreign;
	for (u32 i = 0; i < k && m->host->looked_at; i++)
		m->host->looked_at(m->host->arg, v[i]);
	for (u32 i = 0; i < k; i++)
		if (v[i]->held) {
			v[i]->held = false;
			dp_mgr_touch(m, v[i]);
		}
	if (m->stale)
		m->host->grace(m->host->arg);
	m->stale = false;
	dp_mgr_free_retired(m);
out:
	dp_free(v);
	dp_free(goal);
	dp_free(b.v);
	dp_free(b.p);
	return r;
}
