/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Slots of the probe manager: the code out of line that a breakpoint or a jump leads to when
 * handlers are C functions. A slot is made once and stays: whoever is inside, at whatever time,
 * finds it as it was.
 */
#include "engine/manager.h"

#define SLOT_MAX (DP_WINDOW_INSNS * DP_RELOC_MAX + 128)

struct holes { /* displacements that must come to point at the constants behind the code */
	size_t point[2], entry[2], back[2]; /* entry, back 0: none */
	u64 back_addr[2];
	u8 tag[2];
	int n;
};

static void emit_lea_rsp(struct dp_emit *e, s32 disp)
{
	dp_emit_bytes(e, disp == (s8)disp ? "\x48\x8d\x64\x24" : "\x48\x8d\xa4\x24", 4);
	if (disp == (s8)disp)
		dp_emit_u8(e, (u8)disp);
	else
		dp_emit_u32(e, (u32)disp);
}

static size_t emit_indirect(struct dp_emit *e, const char opcode[2])
{
	dp_emit_bytes(e, opcode, 2);
	dp_emit_u32(e, 0);
	return e->len - 4;
}

/* Where the entry is near, by a direct call: kernels would rather not have it predicted. */
static void emit_call_entry(struct dp_emit *e, struct holes *h, u8 tag, const struct dp_mgr_host *host)
{
	if (host->near) {
		u64 entry = tag && host->entry_tagged ? host->entry_tagged : host->entry;

		dp_emit_u8(e, 0xe8);
		dp_emit_u32(e, (u32)(entry - (dp_emit_here(e) + 4)));
		return;
	}
	h->entry[h->n] = emit_indirect(
	    e, host->entry_jumps ? "\xff\x25" : "\xff\x15"); /* jmp or call *entry(%rip) */
}

/*
 * Skip the red zone, hand over the point, go to the entry; it comes back with all registers as they
 * were or as the handlers have set them. No flag is touched here. Where the entry jumps, the
 * processor's stack of return addresses stays as the probed code has it.
 */
static void emit_hit(struct dp_emit *e, struct holes *h, u8 tag, const struct dp_mgr_host *host)
{
	if (host->zone)
		emit_lea_rsp(e, -(s32)host->zone);
	h->point[h->n] = emit_indirect(e, "\xff\x35"); /* push point(%rip) */
	if (host->entry_jumps)
		h->back[h->n] = emit_indirect(e, "\xff\x35"); /* push back(%rip) */
	emit_call_entry(e, h, tag, host);
	h->back_addr[h->n] = dp_emit_here(e);
	emit_lea_rsp(e, (s32)host->zone + 8);
	h->tag[h->n++] = tag;
}

static void emit_constant(struct dp_emit *e, size_t hole, u64 value)
{
	u32 disp = (u32)(e->len - (hole + 4));

	if (!e->overflow)
		memcpy(e->buf + hole, &disp, 4);
	dp_emit_u64(e, value);
}

static int emit_copies(struct dp_emit *e, struct dp_kpoint *p, struct dp_slot *s, u32 len,
		       bool *falls, struct dp_error *err)
{
	const u8 *code = p->text->bytes + (p->addr - p->bias - p->text->lo);
	struct dp_insn in;
	int n, r;

	s->ninsns = 0;
	for (u32 off = 0; off < len; off += (u32)n) {
		n = dp_insn_decode(&in, code + off, DP_INSN_MAX);
		if (n < 0 || s->ninsns == DP_WINDOW_INSNS)
			return dp_fail(err, E_SITE_BADINSN, "0x%llx",
				       (unsigned long long)(p->addr + off));
		s->off[s->ninsns] = (u8)off;
		s->copy[s->ninsns++] = (u16)e->len;
		r = dp_relocate(e, &in, code + off, p->addr + off, err);
		if (r)
			return r;
		*falls = dp_insn_falls_through(&in);
	}
	s->copy[s->ninsns] = (u16)e->len;
	return 0;
}

static int emit(struct dp_manager *m, struct dp_kpoint *p, enum dp_slot_kind kind,
		struct dp_slot *s, struct dp_emit *e, struct dp_error *err)
{
	u32 len = kind == DP_SLOT_JUMP ? p->win.len : p->insn.len;
	struct holes h = {0};
	bool falls = true;
	int r;

	if (kind == DP_SLOT_POST && dp_insn_branches(&p->insn)) {
		s->ninsns = 0;
		s->copy[0] = 0;
		emit_hit(e, &h, DP_HIT_EMULATE, m->host);
		dp_emit_u8(e, 0xcc); /* the hit never returns to here */
	} else {
		emit_hit(e, &h, 0, m->host);
		r = emit_copies(e, p, s, len, &falls, err);
		if (r)
			return r;
		if (kind == DP_SLOT_POST)
			emit_hit(e, &h, DP_HIT_POST, m->host);
		r = falls ? dp_emit_jmp(e, p->addr + len, err) : 0;
		if (r)
			return r;
	}
	for (int i = 0; i < h.n; i++) {
		emit_constant(e, h.point[i], (u64)(uintptr_t)p | h.tag[i]);
		if (h.entry[i])
			emit_constant(e, h.entry[i], m->host->entry);
		if (h.back[i])
			emit_constant(e, h.back[i], h.back_addr[i]);
	}
	s->len = (u32)e->len;
	return e->overflow ? dp_fail(err, E_RELOC_RANGE, "the slot is too long") : 0;
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

int dp_slot_make(struct dp_manager *m, struct dp_kpoint *p, enum dp_slot_kind kind,
		 struct dp_error *err)
{
	struct dp_slot *s = kind == DP_SLOT_PLAIN  ? &p->plain
			    : kind == DP_SLOT_POST ? &p->post
						   : &p->jump;
	struct dp_place want = {
	    .next = p->addr + DP_JUMP_LEN, .reach_lo = p->reach_lo, .reach_hi = p->reach_hi};
	u8 buf[SLOT_MAX];
	struct dp_emit e;
	u64 addr;
	int r;

	if (s->addr)
		return 0;
	if (kind == DP_SLOT_JUMP)
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
		/* dp_mgr_home() looks at any time: all else of the slot is written. */
		__atomic_store_n(&s->addr, addr, __ATOMIC_RELEASE);
	return r;
}

static bool in_slot(struct dp_slot *s, struct dp_kpoint *p, u64 pc, u64 *home, u32 *index)
{
	u64 addr = __atomic_load_n(&s->addr,
				   __ATOMIC_ACQUIRE); /* pairs with the release in dp_slot_make() */

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
	struct dp_kpoint *p =
	    __atomic_load_n(&m->points, __ATOMIC_ACQUIRE); /* pairs with new_point() */
	u64 home;

	for (; p; p = p->next)
		if (in_slot(&p->plain, p, pc, &home, index) ||
		    in_slot(&p->post, p, pc, &home, index) ||
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
