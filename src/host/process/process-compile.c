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

static void addresses(const struct dp_session *s, const struct dp_probe *p, struct dp_code_rt *rt)
{
	u64 words = s->region + s->rings_off + s->words_off;

	dp_program_to_rt(&p->event->prog, rt);
	rt->locals = words + 8ull * p->locals;
	rt->globals = dp_session_globals(s, p);
}

/* Compile the spot's program to run at addr. */
static int compile(const struct dp_session *s, const struct dp_spot *sp, const struct dp_control *ctl, u64 entry,
		   u64 addr, u8 *buf, struct dp_emit *e)
{
	const struct dp_program *prog = &dp_spot_probe(s, sp)->event->prog;
	struct dp_code_rt rt;
	struct dp_jit jit = {.ctl = ctl,
			     .entry = entry,
			     .point = sp->point,
			     .event = sp->owner,
			     .addr = sp->addr,
			     .flags = dp_entry_for(&sp->site) & DP_ENTRY_FLAGS,
			     .zone = dp_entry_for(&sp->site) & DP_ENTRY_ZONE,
			     .rt = &rt};

	addresses(s, dp_spot_probe(s, sp), &rt);
	dp_emit_init(e, buf, DP_JIT_MAX, addr);
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

/* Its program is not there yet. */
static bool is_due(const struct dp_session *s, const struct dp_probe *p)
{
	return p->event && (p->fresh || !s->armed);
}

/* The same program with the same variables: one piece of code serves both. They follow one another. */
static bool is_copy(const struct dp_probe *p, const struct dp_probe *last)
{
	const struct dp_program *a = &p->event->prog, *b = last ? &last->event->prog : NULL;

	return b && a->len == b->len && p->locals == last->locals && p->globals == last->globals &&
	       p->jit == last->jit && a->jmpmax == b->jmpmax && a->logmax == b->logmax &&
	       !memcmp(&a->rpn, &b->rpn, sizeof(a->rpn)) && !memcmp(a->code, b->code, a->len);
}

static u64 lay_out_rpn(struct dp_session *s, u64 size)
{
	const struct dp_probe *last = NULL;

	for (u32 i = 0; i < s->nprobes; i++) {
		struct dp_probe *p = &s->probes[i];
		struct dp_emit e;
		size_t room;
		u8 *buf;

		if (!is_due(s, p))
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

u64 dp_compile_lay_out(struct dp_session *s, struct dp_spot *spots, u32 n)
{
	static const struct dp_control nothing;
	u8 buf[DP_JIT_MAX];
	struct dp_emit e;
	u64 size = 0;

	for (u32 i = 0; i < n; i++) {
		if (!is_due(s, dp_spot_probe(s, &spots[i])))
			continue;
		spots[i].direct = 0;
		if (s->opt.interpret || dp_spot_probe(s, &spots[i])->jit == DP_JIT_OFF || spots[i].confirm ||
		    spots[i].site.outcome == DP_OUTCOME_REFUSED)
			continue;
		if (compile(s, &spots[i], &nothing, 0, 0, buf, &e))
			continue;
		spots[i].direct = size + DP_JIT_ENTRY;
		size += DP_ALIGN_UP(e.len, DP_JIT_ALIGN);
	}
	return lay_out_rpn(s, size);
}

void dp_compile_place(struct dp_session *s, struct dp_spot *spots, u32 n, u64 base)
{
	for (u32 i = 0; i < n; i++)
		if (spots[i].direct && is_due(s, dp_spot_probe(s, &spots[i])))
			spots[i].direct += base;
	for (u32 i = 0; i < s->nprobes; i++)
		if (s->probes[i].compiled && is_due(s, &s->probes[i]))
			s->probes[i].compiled += base;
}

static int write_rpn(struct dp_session *s, struct dp_range to, u8 *all, struct dp_error *err)
{
	u64 written = 0;

	for (u32 i = 0; i < s->nprobes; i++) {
		struct dp_probe *p = &s->probes[i];
		struct dp_emit e;

		if (!p->compiled || !is_due(s, p))
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

int dp_compile_write(struct arming *a, const struct dp_spot *spots, u32 n, const struct dp_plan *plan,
		     struct dp_range to, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u64 size = to.hi - to.lo;
	u8 *all = calloc(1, size + DP_JIT_MAX);
	bool usable = dp_jit_usable(a->ctl);
	struct dp_emit e;
	int r = 0;

	if (!all)
		return dp_fail(err, E_ARM_NOMEM, "compiled programs");
	for (u32 i = 0; i < n && !r; i++) {
		const struct dp_spot *sp = &spots[i];
		u64 at = sp->direct - DP_JIT_ENTRY;
		u64 entry = a->entries[dp_entry_for(&sp->site)];

		if (i % 64 == 63)
			dp_tracer_pump(&a->tracer);
		dp_session_tell(s, "programs compiled:", i, n);
		if (!sp->direct || sp->outcome == DP_OUTCOME_REFUSED || plan->points[sp->point].n != 1 ||
		    !is_due(s, dp_spot_probe(s, sp)))
			continue;
		if (usable && !compile(s, sp, a->ctl, entry, at, all + (at - to.lo), &e)) {
			dp_spot_probe(s, sp)->ncompiled++;
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
