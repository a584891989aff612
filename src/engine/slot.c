/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Slots of the probe manager: the code out of line that a breakpoint or a jump leads to when
 * handlers are C functions. A slot is made once and stays: whoever is inside, at whatever time,
 * finds it as it was.
 */
#include "engine/manager.h"

#define SLOT_MAX (DP_WINDOW_INSNS * DP_RELOC_MAX + 128)

static int emit(struct dp_manager *m, struct dp_kpoint *p, enum dp_ool_kind kind, struct dp_ool_slot *s,
		struct dp_emit *e, struct dp_error *err)
{
	bool emulated = kind == DP_OOL_POST && dp_insn_branches(&p->insn), post = kind == DP_OOL_POST && !emulated;
	u64 point = (u64)(uintptr_t)p, tagged = m->host->entry_tagged ? m->host->entry_tagged : m->host->entry;
	struct dp_outline o = {
	    .code = p->text->bytes + (p->addr - p->bias - p->text->lo),
	    .start = p->addr,
	    .len = emulated              ? 0
		   : kind == DP_OOL_JUMP ? p->win.len
					 : p->insn.len,
	    .word = {emulated ? point | DP_HIT_EMULATE : point, post ? point | DP_HIT_POST : 0},
	    .entry = {emulated ? tagged : m->host->entry, tagged},
	    .zone = m->host->zone,
	    .near = m->host->near,
	    .entry_jumps = m->host->entry_jumps,
	};
	int r = dp_outline_emit(e, &o, err);

	if (r)
		return r;
	s->ninsns = o.ninsns;
	memcpy(s->off, o.off, sizeof(s->off));
	memcpy(s->copy, o.copy, sizeof(s->copy));
	s->len = (u32)e->len;
	return 0;
}

/* Areas that the space has taken since are mapped; one that somebody else has taken meanwhile is
 * given up. */
static int map_areas(struct dp_manager *m, struct dp_error *err)
{
	for (; m->mapped < m->space.nareas; m->mapped++) {
		struct dp_area *a = &m->space.areas[m->mapped];
		int r = m->host->map(m->host->arg, a->lo, a->hi, err);

		if (r == -EEXIST) {
			memset(a->used, 0xff, (a->hi - a->lo) / 8);
			a->hint = a->hi;
			m->mapped++;
		}
		if (r)
			return r;
	}
	return 0;
}

static int place(struct dp_manager *m, const struct dp_place *want, u64 *addr, struct dp_error *err)
{
	int r, tries = 0;

	do {
		u32 areas = m->space.nareas;

		r = dp_space_place(&m->space, want, addr, err);
		if (r)
			return r;
		if (m->space.nareas > areas) { /* it chose by what it knew: has that changed? */
			r = m->host->refresh(m->host->arg, &m->space);
			if (r)
				return r;
		}
		r = map_areas(m, err);
	} while (r == -EEXIST && ++tries < 16);
	return r;
}

int dp_ool_slot_make(struct dp_manager *m, struct dp_kpoint *p, enum dp_ool_kind kind, struct dp_error *err)
{
	struct dp_ool_slot *s = kind == DP_OOL_PLAIN ? &p->plain : kind == DP_OOL_POST ? &p->post : &p->jump;
	struct dp_place want = {.next = p->addr + DP_JUMP_LEN, .reach_lo = p->reach_lo, .reach_hi = p->reach_hi};
	u8 buf[SLOT_MAX];
	struct dp_emit e;
	u64 addr;
	int r;

	if (s->addr)
		return 0;
	if (kind == DP_OOL_JUMP)
		want.bounds = p->win.bounds;
	dp_emit_init(&e, buf, sizeof(buf), p->addr + DP_JUMP_LEN);
	r = emit(m, p, kind, s, &e, err); /* for its length, which does not depend on the address */
	if (r)
		return r;
	want.size = DP_ALIGN_UP((u32)e.len, 8u);
	r = place(m, &want, &addr, err);
	if (r)
		return r;
	dp_emit_init(&e, buf, sizeof(buf), addr);
	r = emit(m, p, kind, s, &e, err);
	if (!r)
		r = m->host->fill(m->host->arg, addr, buf, (u32)e.len, err);
	if (!r)
		/* Pairs with the acquire in in_slot(): dp_mgr_home() looks at any time, and finds the slot whole. */
		__atomic_store_n(&s->addr, addr, __ATOMIC_RELEASE);
	return r;
}

static bool in_slot(struct dp_ool_slot *s, struct dp_kpoint *p, u64 pc, u64 *home, u32 *index)
{
	u64 addr = __atomic_load_n(&s->addr, __ATOMIC_ACQUIRE); /* pairs with the release in dp_ool_slot_make() */

	if (!addr || pc - addr >= s->len)
		return false;
	for (u8 i = 0; i < s->ninsns; i++)
		if (pc - addr >= s->copy[i] && pc - addr < s->copy[i + 1]) {
			*home = p->addr + s->off[i];
			*index = i;
			return true;
		}
	return false;
}

u64 dp_mgr_home(struct dp_manager *m, u64 pc, struct dp_kpoint **point, u32 *index)
{
	struct dp_kpoint *p = __atomic_load_n(&m->points, __ATOMIC_ACQUIRE); /* pairs with new_point() */
	u64 home;

	for (; p; p = p->next)
		if (in_slot(&p->plain, p, pc, &home, index) || in_slot(&p->post, p, pc, &home, index) ||
		    in_slot(&p->jump, p, pc, &home, index)) {
			*point = p;
			return home;
		}
	return 0;
}

bool dp_insn_branches(const struct dp_insn *in)
{
	switch (in->cls) {
	case DP_INSN_PLAIN:
	case DP_INSN_SYSCALL:
	case DP_INSN_INT:
		return false;
	}
	return true;
}
