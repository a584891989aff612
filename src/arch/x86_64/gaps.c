/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Bytes between functions are tables, padding, or code that nothing describes (assembly without unwind rules and
 * symbols). They are followed from each place to which anything leads: branches and addresses in functions, words of
 * data, symbols, entries of the unwinder, functions that run on behind their end. An address counts as the beginning of
 * code though it may be a table's: rather too much is taken for code than too little. Kernel-clean.
 */
#include "arch/x86_64/gaps.h"

struct flow {
	struct dp_analysis *c;
	u64 *todo; /* followed from there */
	size_t n, cap;
	bool short_of_memory;
};

/* The bytes of no function around addr; NULL: it is in one, or not in code. */
static struct dp_code_text *gap_at(struct dp_analysis *c, u64 addr, struct dp_range *gap)
{
	struct dp_code_text *ct = dp_code_at(c, addr);
	size_t n = ct ? DP_COUNT_UP_TO(ct->t.funcs, ct->t.nfuncs, lo, addr) : 0;

	if (!ct || (n && addr < ct->t.funcs[n - 1].hi))
		return NULL;
	gap->lo = n ? ct->t.funcs[n - 1].hi : ct->t.lo;
	gap->hi = n < ct->t.nfuncs ? ct->t.funcs[n].lo : ct->t.hi;
	return ct;
}

static void arrive(struct flow *f, u64 addr)
{
	struct dp_range gap;
	struct dp_code_text *ct = gap_at(f->c, addr, &gap);

	if (!ct || dp_code_get(ct->runs, addr - ct->t.lo))
		return;
	dp_code_set(ct->runs, addr - ct->t.lo);
	if (f->n == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 256;
		u64 *v = dp_resize(f->todo, f->cap * sizeof(*v), cap * sizeof(*v));

		if (!v) {
			f->short_of_memory = true;
			return;
		}
		f->todo = v;
		f->cap = cap;
	}
	f->todo[f->n++] = addr;
}

static int decode(const struct dp_text *t, u64 addr, struct dp_insn *in)
{
	return dp_insn_decode(in, t->bytes + (addr - t->lo), t->hi - addr);
}

/* The address behind the instruction there, or behind a byte of none: in->len is 0 then. */
static u64 step(const struct dp_text *t, u64 addr, struct dp_insn *in)
{
	if (decode(t, addr, in) <= 0)
		in->len = 0;
	return addr + (in->len ? in->len : 1);
}

/* Addresses that an instruction takes; not those that it only reads or writes at. */
static u32 taken(const struct dp_analysis *c, const struct dp_insn *in, u64 next, u64 v[2])
{
	u32 n = 0;

	if (in->rip_relative && in->opcode == 0x8d && in->map == DP_MAP_ONE && in->enc == DP_ENC_LEGACY)
		v[n++] = next + (u64)in->disp;
	if (c->absolute && in->imm_size >= 4)
		v[n++] = in->imm_size == 4 ? (u32)in->imm : (u64)in->imm;
	return n;
}

/* Bytes of each of two bitmaps: of instructions, and, behind it, of gaps that were given up, by their beginnings. */
static size_t map_size(const struct dp_code_text *ct)
{
	return (ct->t.hi - ct->t.lo) / 8 + 1;
}

/* A computed jump may lead to any byte around addr. */
static void give_up(struct flow *f, u64 addr)
{
	struct dp_range gap;
	struct dp_code_text *ct = gap_at(f->c, addr, &gap);
	u8 *given_up = ct ? ct->runs + map_size(ct) : NULL;
	struct dp_insn in;

	if (!ct || dp_code_get(given_up, gap.lo - ct->t.lo))
		return;
	dp_code_set(given_up, gap.lo - ct->t.lo);
	for (u64 a = gap.lo, next; a < gap.hi; a = next) {
		next = step(&ct->t, a, &in);
		if (in.len)
			arrive(f, a); /* for what it leads to */
	}
	for (u64 a = gap.lo; a < gap.hi; a++)
		dp_code_set(ct->runs, a - ct->t.lo);
}

/* In a straight line, up to a function, or to what has been seen. */
static void follow(struct flow *f, u64 addr)
{
	struct dp_range gap = {0, 0};
	struct dp_code_text *ct = gap_at(f->c, addr, &gap);
	u64 target, v[2];
	struct dp_insn in;

	while (addr < gap.hi && decode(&ct->t, addr, &in) > 0) {
		u64 next = addr + in.len;

		if (dp_insn_target(&in, addr, &target))
			arrive(f, target);
		for (u32 i = taken(f->c, &in, next, v); i--;)
			arrive(f, v[i]);
		/* Where a word of data leads is known. */
		if (in.cls == DP_INSN_JMP_IND && !in.rip_relative)
			give_up(f, addr);
		if (!dp_insn_falls_through(&in) || next >= gap.hi || dp_code_get(ct->runs, next - ct->t.lo))
			return;
		dp_code_set(ct->runs, next - ct->t.lo);
		addr = next;
	}
}

/* All bytes around an address that a function takes whose computed jumps are not understood, and those beside it. */
static void from_unproven(struct flow *f, const struct dp_code_text *ct, const struct dp_func *func)
{
	struct dp_insn in;
	u64 v[2];

	give_up(f, func->lo - 1);
	give_up(f, func->hi);
	for (u64 a = func->lo, next; a < func->hi; a = next) {
		next = step(&ct->t, a, &in);
		for (u32 i = in.len ? taken(f->c, &in, next, v) : 0; i--;)
			give_up(f, v[i]);
	}
}

/* In a file with a fixed address a table of addresses needs no relocations. */
static void from_words(struct flow *f, const struct dp_code_text *ct)
{
	const struct dp_text *t = &ct->t;
	struct dp_range gap;
	u32 word;

	for (u32 i = 0; i <= t->nfuncs; i++) {
		gap.lo = i ? t->funcs[i - 1].hi : t->lo;
		gap.hi = i < t->nfuncs ? t->funcs[i].lo : t->hi;
		for (u64 a = gap.lo; a + sizeof(word) <= gap.hi; a++) {
			memcpy(&word, t->bytes + (a - t->lo), sizeof(word));
			arrive(f, word);
		}
	}
}

static void begin(struct flow *f, struct dp_code_text *ct)
{
	for (u64 i = 0; i < ct->t.hi - ct->t.lo; i++) {
		if (!(i & 7) && !ct->led[i >> 3])
			i += 7;
		else if (dp_code_get(ct->led, i))
			arrive(f, ct->t.lo + i);
	}
	if (f->c->absolute)
		from_words(f, ct);
	for (u32 i = 0; i < ct->t.nfuncs; i++)
		if (ct->funcs[i].flags & DP_FUNC_UNPROVEN)
			from_unproven(f, ct, &ct->funcs[i]);
}

int dp_gaps_follow(struct dp_analysis *c)
{
	struct flow f = {.c = c};

	for (u32 i = 0; i < c->ntexts; i++) {
		struct dp_code_text *ct = &c->texts[i];

		if (ct->runs)
			return 0;
		ct->runs = dp_alloc(2 * map_size(ct));
		f.short_of_memory |= !ct->runs || !ct->led;
	}
	for (u32 i = 0; i < c->ntexts && !f.short_of_memory; i++)
		begin(&f, &c->texts[i]);
	while (f.n && !f.short_of_memory)
		follow(&f, f.todo[--f.n]);
	dp_free(f.todo);
	if (f.short_of_memory)
		dp_code_release(c);
	return f.short_of_memory ? -ENOMEM : 0;
}
