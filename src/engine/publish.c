/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The publication protocol, the only place where code bytes of a probed world change.
 *
 * A patch covers whole instructions I0 I1 .. of at least five bytes; b1, b2 .. are the offsets
 * below five at which I1, I2 .. begin. The jump's own bytes at b1, b2 .. are trapping bytes.
 *
 * Arm	1. I0's first byte and every byte bi become breakpoints. Each is the first byte of an instruction, and no other
 *	   byte changes, so a processor sees either the old instruction or a trap, whichever it has fetched.
 *	2. Serialise. From now on nobody executes I0 .. as a whole: whoever arrives at I0 or at a bi traps and is
 *	   sent to the copy in the detour.
 *	3. The remaining bytes of the displacement. Nobody can be executing them: they are no first bytes, and the
 *	   instructions that they belong to can only be entered through trapping bytes.
 *	4. Serialise.
 *	5. The first byte becomes the jump. A processor sees the breakpoint or the whole jump.
 *	6. Serialise, so that the caller knows that the jump is in force everywhere.
 * A thread that was preempted at bi, however long ago, meets a trap there as long as the patch stands.
 *
 * Disarm is the reverse: breakpoint first, serialise; bytes that are no boundaries, serialise; the boundaries,
 * serialise; the first byte, serialise. The original instruction at a boundary bi is complete when its first byte comes
 * back, because the bytes behind it were restored a step earlier.
 *
 * A patch of one byte (a breakpoint that stays) is steps 1 and 2 alone.
 *
 * Republish: from patches that stand to others, which may lie over them. Bytes that trap in either set are the first
 * bytes of instructions.
 *	1. All of them trap. Nobody comes to what is displaced but by a trap, and is sent to a detour.
 *	2. Serialise.
 *	3. All other bytes become those of the new patches, or the original ones. Nobody can be executing them, as
 *	   above.
 *	4. Serialise.
 *	5. The first bytes: jumps of the new patches; original ones where nothing new traps, whose instructions are
 *	   complete since step 3.
 *	6. Serialise.
 *
 * Rewrite: the same while nobody runs who could execute any of it, nor stands at a boundary of a new patch. Bytes that
 * lie over each other change by one write, so no breakpoint is ever in the code: who changes it may end at any moment.
 *
 * Flip: two instructions of the same length that differ in their first byte only need no breakpoint between them: that
 * byte is one store, nobody is in the middle of an instruction's bytes, and a processor sees one or the other. The
 * caller serialises, once for all that it flips.
 */
#include "engine/engine.h"

#define BREATH 64 /* patches between two looks at stopped threads */

enum step {
	STEP_BREAKPOINTS, /* first byte and boundaries trap, others original */
	STEP_TAIL,        /* bytes 1..4 of the jump */
	STEP_JUMP,        /* first byte of the jump */
	STEP_TRAP_FIRST,  /* first byte traps again */
	STEP_TAIL_BACK,   /* bytes that are no boundaries are original again */
	STEP_BOUNDS_BACK, /* the boundaries too */
	STEP_FIRST_BACK,
};

static bool is_bound(const struct dp_patch *p, u32 i)
{
	return p->bounds >> i & 1;
}

static int write_step(const struct dp_host *host, const struct dp_patch *p, enum step step, struct dp_error *err)
{
	u8 b[5];

	memcpy(b, step == STEP_TAIL || step == STEP_TAIL_BACK ? p->jump : p->orig, p->len);
	switch (step) {
	case STEP_BREAKPOINTS:
		b[0] = DP_TRAP_BYTE;
		for (u32 i = 1; i < p->len; i++)
			if (is_bound(p, i))
				b[i] = p->jump[i];
		return host->write_code(host->arg, p->addr, b, p->len, err);
	case STEP_TAIL:
		return p->len == 1 ? 0 : host->write_code(host->arg, p->addr + 1, b + 1, p->len - 1u, err);
	case STEP_JUMP:
		return p->len == 1 ? 0 : host->write_code(host->arg, p->addr, p->jump, 1, err);
	case STEP_TRAP_FIRST:
		b[0] = DP_TRAP_BYTE;
		return host->write_code(host->arg, p->addr, b, 1, err);
	case STEP_TAIL_BACK:
		for (u32 i = 1; i < p->len; i++)
			if (!is_bound(p, i))
				b[i] = p->orig[i];
		return p->len == 1 ? 0 : host->write_code(host->arg, p->addr + 1, b + 1, p->len - 1u, err);
	case STEP_BOUNDS_BACK:
		return p->len == 1 ? 0 : host->write_code(host->arg, p->addr + 1, b + 1, p->len - 1u, err);
	default:
		return host->write_code(host->arg, p->addr, p->orig, 1, err);
	}
}

static int all(const struct dp_host *host, const struct dp_patch *v, u32 n, enum step step, struct dp_error *err)
{
	for (u32 i = 0; i < n; i++) {
		int r = write_step(host, &v[i], step, err);

		if (r)
			return r;
		if (i % BREATH == BREATH - 1)
			host->breathe(host->arg);
	}
	return host->serialise(host->arg, err);
}

static int each(const struct dp_host *host, const struct dp_patch *v, u32 n, const enum step *steps, u32 nsteps,
		struct dp_error *err)
{
	int r = 0;

	for (u32 s = 0; s < nsteps && !r; s++)
		r = all(host, v, n, steps[s], err);
	return r;
}

/* In this order; dp_unjump() leaves the breakpoint in. */
static const enum step steps_back[] = {STEP_TRAP_FIRST, STEP_TAIL_BACK, STEP_BOUNDS_BACK, STEP_FIRST_BACK};

int dp_withdraw(const struct dp_host *host, const struct dp_patch *v, u32 n, struct dp_error *err)
{
	return each(host, v, n, steps_back, DP_ARRAY_SIZE(steps_back), err);
}

int dp_unjump(const struct dp_host *host, const struct dp_patch *v, u32 n, struct dp_error *err)
{
	return each(host, v, n, steps_back, DP_ARRAY_SIZE(steps_back) - 1, err);
}

int dp_publish(const struct dp_host *host, const struct dp_patch *v, u32 n, struct dp_error *err)
{
	static const enum step steps[] = {STEP_BREAKPOINTS, STEP_TAIL, STEP_JUMP};
	int r = each(host, v, n, steps, DP_ARRAY_SIZE(steps), err);

	if (r)
		dp_withdraw(host, v, n, NULL);
	return r;
}

/* ---- from one set to another ---- */

struct change {
	const struct dp_host *host;
	const struct dp_patch *old, *now;
	u32 nold, nnow;
};

static bool traps_at(const struct dp_patch *p, u64 addr)
{
	return addr == p->addr || is_bound(p, (u32)(addr - p->addr));
}

/* The patch that has a byte of its own at addr. */
static const struct dp_patch *at(const struct dp_patch *v, u32 n, u64 addr)
{
	size_t k = DP_COUNT_UP_TO(v, n, addr, addr);

	return k && addr < v[k - 1].addr + v[k - 1].len ? &v[k - 1] : NULL;
}

bool dp_patches_agree(const struct dp_patch *old, u32 nold, const struct dp_patch *now, u32 nnow)
{
	for (u32 i = 0; i < nnow; i++)
		for (u64 a = now[i].addr; a < now[i].addr + now[i].len; a++) {
			const struct dp_patch *o = at(old, nold, a);

			if (o && traps_at(o, a) != traps_at(&now[i], a))
				return false;
		}
	return true;
}

static int put(const struct change *c, u64 addr, u8 byte, struct dp_error *err)
{
	return c->host->write_code(c->host->arg, addr, &byte, 1, err);
}

static int all_trap(const struct change *c, const struct dp_patch *p, bool is_new, struct dp_error *err)
{
	int r = 0;

	if (!is_new) /* its boundaries do already; its first byte may be a boundary of the new one */
		return at(c->now, c->nnow, p->addr) ? 0 : put(c, p->addr, DP_TRAP_BYTE, err);
	for (u32 i = 0; i < p->len && !r; i++)
		if (traps_at(p, p->addr + i))
			r = put(c, p->addr + i, i ? p->jump[i] : DP_TRAP_BYTE, err);
	return r;
}

static int tails(const struct change *c, const struct dp_patch *p, bool is_new, struct dp_error *err)
{
	int r = 0;

	for (u32 i = 1; i < p->len && !r; i++) {
		u64 a = p->addr + i;

		if (traps_at(p, a) || (!is_new && at(c->now, c->nnow, a)))
			continue;
		r = put(c, a, is_new ? p->jump[i] : p->orig[i], err);
	}
	return r;
}

static int firsts(const struct change *c, const struct dp_patch *p, bool is_new, struct dp_error *err)
{
	int r = is_new ? put(c, p->addr, p->jump[0], err) : 0;

	for (u32 i = 0; i < p->len && !is_new && !r; i++)
		if (traps_at(p, p->addr + i) && !at(c->now, c->nnow, p->addr + i))
			r = put(c, p->addr + i, p->orig[i], err);
	return r;
}

int dp_republish(const struct dp_host *host, const struct dp_patch *old, u32 nold, const struct dp_patch *now, u32 nnow,
		 struct dp_error *err)
{
	static int (*const steps[])(const struct change *c, const struct dp_patch *p, bool is_new,
				    struct dp_error *err) = {all_trap, tails, firsts};
	const struct change c = {host, old, now, nold, nnow};

	if (!dp_patches_agree(old, nold, now, nnow))
		return dp_fail(err, E_SITE_TARGET, "a probe beside another one");
	for (u32 s = 0; s < DP_ARRAY_SIZE(steps); s++) {
		int r = 0;

		for (u32 i = 0; i < nold + nnow && !r; i++) {
			r = steps[s](&c, i < nold ? &old[i] : &now[i - nold], i >= nold, err);
			if (i % BREATH == BREATH - 1)
				host->breathe(host->arg);
		}
		if (!r)
			r = host->serialise(host->arg, err);
		if (r)
			return r;
	}
	return 0;
}

/* ---- while nobody runs ---- */

#define WRITE_MAX 64 /* bytes that are written at once */
#define PAGE 4096ull

/* Patches whose bytes lie over each other, from the first ones of both sets on. */
static struct change next_cluster(const struct change *all, u64 *lo, u64 *hi)
{
	struct change c = {all->host, all->old, all->now, 0, 0};

	for (*lo = *hi = 0;;) {
		const struct dp_patch *o = c.nold < all->nold ? &c.old[c.nold] : NULL;
		const struct dp_patch *n = c.nnow < all->nnow ? &c.now[c.nnow] : NULL;
		const struct dp_patch *p = !n || (o && o->addr <= n->addr) ? o : n;

		if (!p || (*hi && p->addr - *lo >= *hi - *lo))
			return c;
		*lo = *hi ? *lo : p->addr;
		*hi = DP_MAX(*hi, p->addr + p->len);
		p == o ? c.nold++ : c.nnow++;
	}
}

static int write_cluster(const struct change *c, u64 lo, u64 hi, struct dp_error *err)
{
	u8 b[WRITE_MAX];

	/* A write to two pages may end between them. */
	if (hi - lo > sizeof(b) || DP_ALIGN_DOWN(lo, PAGE) != DP_ALIGN_DOWN(hi - 1, PAGE))
		return dp_republish(c->host, c->old, c->nold, c->now, c->nnow, err);
	for (u32 i = 0; i < c->nold; i++)
		memcpy(b + (c->old[i].addr - lo), c->old[i].orig, c->old[i].len);
	for (u32 i = 0; i < c->nnow; i++)
		memcpy(b + (c->now[i].addr - lo), c->now[i].jump, c->now[i].len);
	return c->host->write_code(c->host->arg, lo, b, (u32)(hi - lo), err);
}

int dp_rewrite(const struct dp_host *host, const struct dp_patch *old, u32 nold, const struct dp_patch *now, u32 nnow,
	       struct dp_error *err)
{
	struct change left = {host, old, now, nold, nnow};
	int r = 0;

	while ((left.nold || left.nnow) && !r) {
		u64 lo, hi;
		struct change c = next_cluster(&left, &lo, &hi);

		r = write_cluster(&c, lo, hi, err);
		left = (struct change){host, c.old + c.nold, c.now + c.nnow, left.nold - c.nold, left.nnow - c.nnow};
	}
	return r;
}

int dp_flip(const struct dp_host *host, u64 addr, u8 first, struct dp_error *err)
{
	return host->write_code(host->arg, addr, &first, 1, err);
}
