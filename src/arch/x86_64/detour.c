/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Emits detours: for each displaced instruction the hits that stand before it and its copy, then
 * the jump back; and code out of line for hosts whose handlers are C functions. Touches neither memory of the target
 * nor any allocator.
 */
#include "abi/abi-point.h"
#include "arch/detour.h"
#include "arch/x86_64/relocate.h"

#define ZONE 128

/* lea disp(%rsp),%rsp: moves the stack pointer without touching a flag. */
static void emit_lea_rsp(struct dp_emit *e, s32 disp)
{
	static const u8 lea8[] = {0x48, 0x8d, 0x64, 0x24};
	static const u8 lea32[] = {0x48, 0x8d, 0xa4, 0x24};

	if (disp >= -128 && disp <= 127) {
		dp_emit_bytes(e, lea8, sizeof(lea8));
		dp_emit_u8(e, (u8)disp);
	} else {
		dp_emit_bytes(e, lea32, sizeof(lea32));
		dp_emit_u32(e, (u32)disp);
	}
}

/* Returns the offset of the displacement that must come to point at the entry's address. */
static size_t emit_hit(struct dp_emit *e, u32 point, bool zone)
{
	size_t hole;

	if (zone)
		emit_lea_rsp(e, -ZONE);
	dp_emit_u8(e, 0x57); /* push %rdi */
	dp_emit_u8(e, 0xbf); /* mov $point,%edi */
	dp_emit_u32(e, point);
	dp_emit_u8(e, 0xff); /* call *entry(%rip) */
	dp_emit_u8(e, 0x15);
	hole = e->len;
	dp_emit_u32(e, 0);
	dp_emit_u8(e, 0x5f); /* pop %rdi */
	if (zone)
		emit_lea_rsp(e, ZONE);
	return hole;
}

/* A copy of the instruction at code, whose address is from; *in is what it is. */
static int emit_copy(struct dp_emit *e, const u8 *code, u64 from, struct dp_insn *in, struct dp_error *err)
{
	int r = dp_insn_decode(in, code, DP_INSN_MAX);

	if (r < 0)
		return dp_fail(err, E_SITE_BADINSN, "at 0x%llx", (unsigned long long)from);
	return dp_relocate(e, in, code, from, err);
}

/* Let the instruction whose displacement stands at hole reach the constant that comes next. */
static void point_here(struct dp_emit *e, size_t hole)
{
	u32 disp = (u32)(e->len - (hole + 4));

	if (!e->overflow)
		memcpy(e->buf + hole, &disp, 4);
}

/* The addresses to call, as constants behind the code; each entry is there once, and once more for second hits. */
static void emit_pointers(struct dp_emit *e, const struct dp_detour *d, const size_t *holes, const size_t *after,
			  const u64 entries[DP_NENTRIES])
{
	bool any = false;

	for (int k = 0; k < DP_NENTRIES; k++) {
		bool used = false;

		for (u8 i = 0; i < d->win->ninsns; i++) {
			if (d->point[i] == DP_NO_POINT || d->entry[i] != k || d->direct[i])
				continue;
			used = true;
			point_here(e, holes[i]);
		}
		if (used)
			dp_emit_u64(e, entries[k]);
	}
	for (u8 i = 0; i < d->win->ninsns; i++)
		if (d->point[i] != DP_NO_POINT && d->direct[i]) {
			point_here(e, holes[i]);
			dp_emit_u64(e, d->direct[i]);
		}
	for (u8 i = 0; i < d->win->ninsns; i++)
		if (d->confirm[i]) {
			point_here(e, after[i]);
			any = true;
		}
	if (any)
		dp_emit_u64(e, entries[DP_ENTRY_ZONE_FLAGS]);
}

struct other_hole { /* a displacement that must come to point at a word with that address */
	size_t hole;
	u64 entry;
};

/* The hits of others at that instruction: those before its copy, or those behind it. */
static void emit_others(struct dp_emit *e, struct dp_detour *d, u64 addr, bool behind, struct other_hole *holes)
{
	for (u32 i = 0; i < d->nothers; i++) {
		const struct dp_other_hit *o = &d->others[i];

		if (o->addr != addr || (behind && !o->confirm))
			continue;
		holes[d->nwords].entry = o->entries[behind ? DP_ENTRY_ZONE_FLAGS : o->entry];
		holes[d->nwords++].hole = emit_hit(e, behind ? o->point | DP_HIT_AFTER : o->point,
						   behind || o->entry >= DP_ENTRY_ZONE);
	}
}

/*
 * The words of others are aligned, so that each changes at once; as many bytes at any address. Before them are returns,
 * which a hit of one that has gone leads to.
 */
static void emit_words(struct dp_emit *e, struct dp_detour *d, const struct other_hole *holes)
{
	static const u8 returns[] = {0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3};
	u32 before = 8 - (u32)(dp_emit_here(e) & 7);

	if (!d->nwords)
		return;
	dp_emit_bytes(e, returns, before);
	d->words = (u16)e->len;
	for (u32 i = 0; i < d->nwords; i++) {
		point_here(e, holes[i].hole);
		dp_emit_u64(e, holes[i].entry);
	}
	dp_emit_bytes(e, returns, 8 - before);
}

static bool any_after(const struct dp_detour *d, u8 i)
{
	bool any = d->confirm[i];

	for (u32 k = 0; k < d->nothers; k++)
		any |= d->others[k].confirm && d->others[k].addr == d->start + d->win->off[i];
	return any;
}

int dp_detour_emit(struct dp_emit *e, struct dp_detour *d, const u64 entries[DP_NENTRIES], struct dp_error *err)
{
	size_t holes[DP_WINDOW_INSNS] = {0}, after[DP_WINDOW_INSNS] = {0};
	struct other_hole others[2 * DP_OTHERS_MAX];
	struct dp_insn in;
	int r;

	d->nwords = 0;
	d->words = 0;
	for (u8 i = 0; i < d->win->ninsns; i++) {
		u64 addr = d->start + d->win->off[i];

		d->arrive[i] = (u16)e->len;
		if (d->point[i] != DP_NO_POINT)
			holes[i] = emit_hit(e, d->point[i], d->entry[i] >= DP_ENTRY_ZONE);
		emit_others(e, d, addr, false, others);
		d->copy[i] = (u16)e->len;
		r = emit_copy(e, d->code + d->win->off[i], addr, &in, err);
		if (r)
			return r;
		/* Nothing is known of flags and red zone behind it. */
		d->after[i] = any_after(d, i) ? (u16)e->len : 0;
		if (d->confirm[i])
			after[i] = emit_hit(e, d->point[i] | DP_HIT_AFTER, true);
		emit_others(e, d, addr, true, others);
	}
	d->back = 0;
	if (d->win->falls) {
		d->back = (u16)e->len;
		r = dp_emit_jmp(e, d->start + d->win->len, err);
		if (r)
			return r;
	}
	emit_pointers(e, d, holes, after, entries);
	emit_words(e, d, others);
	return e->overflow ? dp_fail(err, E_RELOC_RANGE, "the detour is too long") : 0;
}

/* ---- hits that hand over a word and go to a host's entry ---- */

struct word_hit { /* displacements that must come to point at the constants behind the code; 0: none */
	size_t word, entry, back;
	u64 back_addr;
};

/* An instruction with an operand that is a constant behind the code; returns the offset of its displacement. */
static size_t emit_indirect(struct dp_emit *e, const char opcode[2])
{
	dp_emit_bytes(e, opcode, 2);
	dp_emit_u32(e, 0);
	return e->len - 4;
}

static struct word_hit emit_word_hit(struct dp_emit *e, const struct dp_outline *o, u64 entry)
{
	struct word_hit h = {0};

	if (o->zone)
		emit_lea_rsp(e, -(s32)o->zone);
	h.word = emit_indirect(e, "\xff\x35"); /* push word(%rip) */
	if (o->entry_jumps)
		h.back = emit_indirect(e, "\xff\x35"); /* push back(%rip) */
	if (o->near) {
		dp_emit_u8(e, 0xe8); /* call entry */
		dp_emit_u32(e, (u32)(entry - (dp_emit_here(e) + 4)));
	} else {
		h.entry = emit_indirect(e, o->entry_jumps ? "\xff\x25" : "\xff\x15"); /* jmp or call *entry(%rip) */
	}
	h.back_addr = dp_emit_here(e);
	emit_lea_rsp(e, (s32)o->zone + 8);
	return h;
}

static void emit_constants(struct dp_emit *e, const struct word_hit *h, u64 word, u64 entry)
{
	point_here(e, h->word);
	dp_emit_u64(e, word);
	if (h->entry) {
		point_here(e, h->entry);
		dp_emit_u64(e, entry);
	}
	if (h->back) {
		point_here(e, h->back);
		dp_emit_u64(e, h->back_addr);
	}
}

static int emit_copies(struct dp_emit *e, struct dp_outline *o, bool *falls, struct dp_error *err)
{
	struct dp_insn in;
	int r;

	for (u32 off = 0; off < o->len; off += in.len) {
		if (o->ninsns == DP_WINDOW_INSNS)
			return dp_fail(err, E_SITE_BADINSN, "0x%llx", (unsigned long long)(o->start + off));
		o->off[o->ninsns] = (u8)off;
		o->copy[o->ninsns++] = (u16)e->len;
		r = emit_copy(e, o->code + off, o->start + off, &in, err);
		if (r)
			return r;
		*falls = dp_insn_falls_through(&in);
	}
	o->copy[o->ninsns] = o->ninsns ? (u16)e->len : 0;
	return 0;
}

int dp_outline_emit(struct dp_emit *e, struct dp_outline *o, struct dp_error *err)
{
	struct word_hit first = {0}, second = {0};
	bool falls = false;
	int r;

	if (o->entry[0])
		first = emit_word_hit(e, o, o->entry[0]);
	o->ninsns = 0;
	r = emit_copies(e, o, &falls, err);
	if (r)
		return r;
	if (!o->len)
		dp_emit_u8(e, DP_TRAP_BYTE); /* the hit never returns to here */
	if (o->word[1])
		second = emit_word_hit(e, o, o->entry[1]);
	r = falls ? dp_emit_jmp(e, o->start + o->len, err) : 0;
	if (r)
		return r;
	if (o->entry[0])
		emit_constants(e, &first, o->word[0], o->entry[0]);
	if (o->word[1])
		emit_constants(e, &second, o->word[1], o->entry[1]);
	return e->overflow ? dp_fail(err, E_RELOC_RANGE, "the slot is too long") : 0;
}
