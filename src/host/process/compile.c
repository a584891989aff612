/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Compiled programs of a session: which spots get one, where it will lie, and the code itself. The place is chosen
 * before the target is touched, the code is made when the target's capabilities are known; should they not do, each
 * place just leads to the general entry.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/x86_64/jit.h"
#include "host/process/process-priv.h"
#include "host/process/session-priv.h"

/* Compile the spot's program to run at addr. */
static int compile(const struct dp_session *s, const struct dp_spot *sp, const struct dp_control *ctl, u64 entry,
		   u64 addr, u8 *buf, struct dp_emit *e)
{
	const struct dp_program *prog = &s->probes[sp->owner].event->prog;
	struct dp_jit jit = {.ctl = ctl, .entry = entry, .point = sp->point, .event = sp->owner, .addr = sp->addr,
			     .flags = dp_entry_for(&sp->site) & DP_ENTRY_FLAGS,
			     .zone = dp_entry_for(&sp->site) & DP_ENTRY_ZONE};

	dp_emit_init(e, buf, DP_JIT_MAX, addr);
	return dp_jit_compile(e, prog->code, prog->len, &jit);
}

u64 dp_compile_lay_out(struct dp_session *s)
{
	static const struct dp_control nothing;
	u8 buf[DP_JIT_MAX];
	struct dp_emit e;
	u64 size = 0;

	for (u32 i = 0; i < s->nspots; i++) {
		s->spots[i].direct = 0;
		if (s->opt.interpret || s->spots[i].site.outcome == DP_OUTCOME_REFUSED)
			continue;
		if (compile(s, &s->spots[i], &nothing, 0, 0, buf, &e))
			continue;
		s->spots[i].direct = size + DP_JIT_ENTRY;
		size += DP_ALIGN_UP(e.len, DP_JIT_ALIGN);
	}
	return size;
}

void dp_compile_place(struct dp_session *s, u64 base)
{
	for (u32 i = 0; i < s->nspots; i++)
		if (s->spots[i].direct)
			s->spots[i].direct += base;
}

int dp_compile_write(struct dp_session *s, const struct dp_control *ctl, const u64 entries[DP_NENTRIES],
		     const struct dp_mem *mem, struct dp_tracer *t, struct dp_error *err)
{
	u64 size = ctl->jit_hi - ctl->jit_lo;
	u8 *all = calloc(1, size + DP_JIT_MAX);
	bool usable = dp_jit_usable(ctl);
	struct dp_emit e;
	int r = 0;

	if (!all)
		return dp_fail(err, E_ARM_NOMEM, "compiled programs");
	for (u32 i = 0; i < s->nspots && !r; i++) {
		const struct dp_spot *sp = &s->spots[i];
		u64 at = sp->direct - DP_JIT_ENTRY;
		u64 entry = entries[dp_entry_for(&sp->site)];

		if (i % 64 == 63)
			dp_tracer_pump(t);
		if (!sp->direct || sp->outcome == DP_OUTCOME_REFUSED || s->plan.points[sp->point].n != 1)
			continue;
		if (usable && !compile(s, sp, ctl, entry, at, all + (at - ctl->jit_lo), &e)) {
			s->probes[sp->owner].ncompiled++;
			continue;
		}
		dp_emit_init(&e, all + (sp->direct - ctl->jit_lo), DP_JIT_MAX, sp->direct);
		r = dp_emit_jmp(&e, entry, err);
	}
	if (!r && size)
		r = dp_mem_write(mem, ctl->jit_lo, all, size, err);
	free(all);
	return r;
}
