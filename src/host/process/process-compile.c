/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Compiled programs of a session: which spots or probes get one, where it will lie, and the code itself. The place is
 * chosen before the target is touched, the code is made when the target's capabilities are known; should they not do,
 * each place just leads to the general entry.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "hit/blob.h"
#include "host/process/arm-priv.h"
#include "host/process/compile-calls.h"

static void addresses(const struct dp_session *s, const struct dp_probe *p, struct dp_code_rt *rt)
{
	u64 words = s->region + s->rings_off + s->words_off;

	dp_program_to_rt(&p->event->prog, rt);
	rt->locals = words + 8ull * p->locals;
	rt->globals = dp_session_globals(s, p);
}

int dp_compile_spot(const struct dp_session *s, const struct dp_spot *sp, const struct dp_compile_for *to, u8 *buf,
		    struct dp_emit *e)
{
	const struct dp_program *prog = &dp_spot_probe(s, sp)->event->prog;
	struct dp_code_rt rt;
	struct dp_jit jit = {.ctl = to->ctl,
			     .entry = to->entry,
			     .point = sp->point,
			     .event = sp->owner,
			     .addr = sp->addr,
			     .flags = dp_entry_for(&sp->site) & DP_ENTRY_FLAGS,
			     .zone = dp_entry_for(&sp->site) & DP_ENTRY_ZONE,
			     .shared = to->shared,
			     .is_way = to->is_way,
			     .number = to->number,
			     .loads = s->stretches.guarded,
			     .rt = &rt};

	addresses(s, dp_spot_probe(s, sp), &rt);
	dp_emit_init(e, buf, DP_JIT_MAX, to->addr);
	return dp_jit_compile(e, prog->code, prog->len, &jit);
}

/* Compile the program of a probe, which is a function that the hit path calls (and no spot of its own). */
static int compile_rpn(const struct dp_session *s, const struct dp_probe *p, struct dp_emit *e)
{
	static const u32 at[] = {
#define DP_SERVICE(name) offsetof(struct dp_blob_head, name),
#include "abi/services.def"
	};
	const struct dp_program *prog = &p->event->prog;
	u64 services[DP_NSERVICES];
	struct dp_code_rt rt;
	struct dp_rpn_jit jit = {.code = prog->code, .rt = &rt, .services = services, .always = p->jit == DP_JIT_ON};

	for (u32 i = 0; i < DP_NSERVICES; i++)
		services[i] = s->region + *(const u32 *)(dp_blob + at[i]);
	addresses(s, p, &rt);
	return dp_rpn_jit_compile(e, &jit);
}

bool dp_compile_is_due(const struct dp_session *s, const struct dp_probe *p)
{
	return p->event && (p->fresh || !s->armed);
}

bool dp_compile_is_wanted(const struct dp_session *s, const struct dp_spot *sp)
{
	return !s->opt.interpret && dp_spot_probe(s, sp)->jit != DP_JIT_OFF && !sp->confirm &&
	       sp->site.outcome != DP_OUTCOME_REFUSED;
}

bool dp_compile_has_same_code(const struct dp_program *a, const struct dp_program *b)
{
	return a->len == b->len && (a->code == b->code || !memcmp(a->code, b->code, a->len));
}

bool dp_compile_is_same(const struct dp_program *a, const struct dp_program *b)
{
	return a->jmpmax == b->jmpmax && a->logmax == b->logmax && !memcmp(&a->rpn, &b->rpn, sizeof(a->rpn)) &&
	       dp_compile_has_same_code(a, b);
}

/* The same program with the same variables: one piece of code serves both. They follow one another. */
static bool is_copy(const struct dp_probe *p, const struct dp_probe *last)
{
	return last && p->locals == last->locals && p->globals == last->globals && p->jit == last->jit &&
	       dp_compile_is_same(&p->event->prog, &last->event->prog);
}

static u64 lay_out_rpn(struct dp_session *s, u64 size)
{
	const struct dp_probe *last = NULL;

	for (u32 i = 0; i < s->nprobes; i++) {
		struct dp_probe *p = &s->probes[i];
		struct dp_emit e;
		size_t room;
		u8 *buf;

		if (!dp_compile_is_due(s, p))
			continue;
		room = dp_rpn_jit_room(p->event->prog.len);
		p->compiled = 0;
		if (!p->event->prog.rpn.ex_mask || p->jit == DP_JIT_OFF || s->opt.interpret)
			continue;
		if (is_copy(p, last)) {
			p->compiled = last->compiled;
			continue;
		}
		last = p;
		buf = malloc(room);
		dp_emit_init(&e, buf, room, 0);
		if (buf && !compile_rpn(s, p, &e)) {
			size = DP_ALIGN_UP(size, 64) + 64; /* an address of 0 would mean: none */
			p->compiled = size;
			size += e.len;
		}
		free(buf);
	}
	return size;
}

/* ---- spots that are alike ---- */

#define KINDS 32      /* of spots that are told apart; of any other each has its own code */
#define SHARE_FROM 16 /* spots of a kind: a few have room in the processor's caches, and need no stub */

/* Spots with the same program, and the same entry. */
struct kind {
	const struct dp_spot *first;
	u32 n;
	u64 shared; /* where their code is; 0: not placed yet */
};

struct kinds {
	struct kind v[KINDS];
	u32 n;
};

/* Programs of the Dynamic Probes language have variables, whose addresses are in the code. */
static bool is_alike(const struct dp_session *s, const struct dp_spot *a, const struct dp_spot *b)
{
	const struct dp_probe *p = dp_spot_probe(s, a), *q = dp_spot_probe(s, b);
	const struct dp_program *x = &p->event->prog, *y = &q->event->prog;

	if (dp_entry_for(&a->site) != dp_entry_for(&b->site))
		return false;
	return x->rpn.ex_mask || y->rpn.ex_mask ? is_copy(p, q) : dp_compile_has_same_code(x, y);
}

/* NULL: it is none of them. */
static struct kind *kind_of(const struct dp_session *s, struct kinds *k, const struct dp_spot *sp)
{
	for (u32 i = 0; i < k->n; i++)
		if (is_alike(s, k->v[i].first, sp))
			return &k->v[i];
	return NULL;
}

static void find_kinds(const struct dp_session *s, const struct dp_spot *spots, u32 n, struct kinds *k)
{
	for (u32 i = 0; i < n; i++) {
		struct kind *kind;

		if (!dp_compile_is_due(s, dp_spot_probe(s, &spots[i])) || !dp_compile_is_wanted(s, &spots[i]))
			continue;
		kind = kind_of(s, k, &spots[i]);
		if (!kind && k->n < KINDS) {
			kind = &k->v[k->n++];
			kind->first = &spots[i];
		}
		if (kind)
			kind->n++;
	}
}

/* ---- places ---- */

static const struct dp_control nothing;

/* Where the code of a kind is, if its spots share it; it is laid out behind *size bytes when that is not known yet. */
static u64 shared_by(const struct dp_session *s, struct kind *kind, const struct dp_spot *sp, u64 *size)
{
	u8 buf[DP_JIT_MAX];
	struct dp_emit e;

	if (!kind || kind->shared || kind->n < SHARE_FROM)
		return kind ? kind->shared : 0;
	if (dp_compile_spot(s, sp, &(struct dp_compile_for){.ctl = &nothing, .shared = true}, buf, &e)) {
		kind->n = 0; /* it has to know its place, or cannot be compiled */
		return 0;
	}
	kind->shared = DP_ALIGN_UP(*size, DP_JIT_ALIGN) + DP_JIT_ENTRY;
	*size = DP_ALIGN_UP(kind->shared - DP_JIT_ENTRY + e.len, DP_JIT_STUB);
	return kind->shared;
}

/* The way to its code, and the code, behind size bytes. Returns their new number. */
static u64 lay_out_spot(const struct dp_session *s, struct kinds *kinds, struct dp_spot *sp, u64 size)
{
	u8 buf[DP_JIT_MAX];
	struct dp_emit e;

	sp->shared = shared_by(s, kind_of(s, kinds, sp), sp, &size);
	if (sp->shared) {
		sp->direct = size;
		return size + DP_JIT_STUB;
	}
	if (dp_compile_spot(s, sp, &(struct dp_compile_for){.ctl = &nothing}, buf, &e))
		return size;
	size = DP_ALIGN_UP(size, DP_JIT_ALIGN);
	sp->direct = size + DP_JIT_ENTRY;
	return size + DP_ALIGN_UP(e.len, DP_JIT_ALIGN);
}

u64 dp_compile_lay_out(struct dp_session *s, struct dp_spot *spots, u32 n)
{
	struct kinds kinds = {0};
	u64 size = 0;

	find_kinds(s, spots, n, &kinds);
	for (u32 i = 0; i < n; i++) {
		if (!dp_compile_is_due(s, dp_spot_probe(s, &spots[i])))
			continue;
		spots[i].direct = spots[i].shared = 0;
		if (dp_compile_is_wanted(s, &spots[i]))
			size = lay_out_spot(s, &kinds, &spots[i], size);
	}
	return lay_out_rpn(s, dp_calls_lay_out(s, spots, n, size));
}

void dp_compile_place(struct dp_session *s, struct dp_spot *spots, u32 n, u64 base)
{
	for (u32 i = 0; i < n; i++)
		if (spots[i].direct && dp_compile_is_due(s, dp_spot_probe(s, &spots[i]))) {
			spots[i].direct += base;
			spots[i].shared += spots[i].shared ? base : 0;
		}
	dp_calls_share(s, spots, n);
	for (u32 i = 0; i < s->nprobes; i++)
		if (s->probes[i].compiled && dp_compile_is_due(s, &s->probes[i]))
			s->probes[i].compiled += base;
}

static int write_rpn(struct dp_session *s, struct dp_range to, u8 *all, struct dp_error *err)
{
	u64 written = 0;

	for (u32 i = 0; i < s->nprobes; i++) {
		struct dp_probe *p = &s->probes[i];
		struct dp_emit e;

		if (!p->compiled || !dp_compile_is_due(s, p))
			continue;
		p->ncompiled = p->nsites;
		if (p->compiled == written)
			continue;
		written = p->compiled;
		dp_emit_init(&e, all + (p->compiled - to.lo), to.hi - p->compiled, p->compiled);
		if (compile_rpn(s, p, &e)) /* it went well when the place was chosen */
			return dp_fail(err, E_ARM_NOMEM, "compiled programs");
	}
	return 0;
}

/* The compiled code of a session, and what it is made for. */
struct writing {
	struct dp_session *s;
	const struct arming *a;
	struct dp_range to;
	u8 *all; /* its bytes */
	bool usable;
	const struct dp_spot *spots; /* all that will be there */
	u32 nspots;
};

static int compile_here(const struct writing *w, const struct dp_spot *sp, bool shared, u64 at, u8 *to,
			struct dp_emit *e)
{
	const struct dp_compile_for here = {
	    .ctl = w->a->ctl, .entry = w->a->entries[dp_entry_for(&sp->site)], .addr = at, .shared = shared};

	return dp_compile_spot(w->s, sp, &here, to, e);
}

/* The code that it shares is there: the first byte of what is compiled is no zero. */
static bool write_shared(const struct writing *w, const struct dp_spot *sp)
{
	u64 at = sp->shared - DP_JIT_ENTRY;
	u8 *to = w->all + (at - w->to.lo), buf[DP_JIT_MAX];
	struct dp_emit e;

	if (to[DP_JIT_ENTRY])
		return true;
	if (compile_here(w, sp, true, at, buf, &e))
		return false;
	memcpy(to, buf, e.len);
	return true;
}

/* Its code is there. */
static bool write_direct(const struct writing *w, const struct dp_spot *sp)
{
	u64 at = sp->shared && !sp->calls ? sp->direct : sp->direct - DP_JIT_ENTRY;
	u8 *to = w->all + (at - w->to.lo);
	struct dp_emit e;

	if (sp->calls)
		return dp_calls_write(w->a, w->spots, w->nspots, sp, at, to);
	if (!w->usable)
		return false;
	if (!sp->shared)
		return !compile_here(w, sp, false, at, to, &e);
	dp_emit_init(&e, to, DP_JIT_STUB, at);
	return write_shared(w, sp) &&
	       !dp_jit_compile(&e, NULL, 0, &(struct dp_jit){.event = sp->owner, .stub_to = sp->shared});
}

void dp_compile_forget(struct dp_session *s)
{
	for (u32 i = 0; i < s->nspots; i++)
		if (!s->spots[i].calls && s->spots[i].outcome != DP_OUTCOME_REFUSED &&
		    s->plan.points[s->spots[i].point].n > 1)
			s->spots[i].direct = s->spots[i].shared = 0;
}

int dp_compile_write(struct arming *a, const struct dp_spot *spots, u32 n, const struct dp_plan *plan,
		     struct dp_range to, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u64 size = to.hi - to.lo;
	u8 *all = calloc(1, size + DP_JIT_MAX);
	const struct writing w = {s, a, to, all, dp_jit_usable(a->ctl), spots, n};
	int r = 0;

	if (!all)
		return dp_fail(err, E_ARM_NOMEM, "compiled programs");
	for (u32 i = 0; i < n && !r; i++) {
		const struct dp_spot *sp = &spots[i];
		u64 entry = a->entries[dp_entry_for(&sp->site)];

		if (i % 64 == 63)
			dp_tracer_pump(&a->tracer);
		dp_session_tell(s, "programs compiled:", i, n);
		if (!sp->direct || sp->outcome == DP_OUTCOME_REFUSED || sp->calls == DP_CALLS_SHARED ||
		    (!sp->calls && plan->points[sp->point].n != 1) || !dp_compile_is_due(s, dp_spot_probe(s, sp)))
			continue;
		if (write_direct(&w, sp)) {
			dp_spot_probe(s, sp)->ncompiled += !sp->calls;
			dp_spot_probe(s, sp)->nplain += !sp->calls;
			continue;
		}
		if (!dp_jump_make(all + (sp->direct - to.lo), sp->direct, entry))
			r = dp_fail(err, E_RELOC_RANGE, "a jump from 0x%llx", (unsigned long long)sp->direct);
	}
	if (!r)
		r = write_rpn(s, to, all, err);
	if (!r && size)
		r = dp_mem_write(&a->mem, to.lo, all, size, err);
	free(all);
	return r;
}
