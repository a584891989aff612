/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who called the probed code: from the registers at the hit outwards, by a table that the control side has made of the
 * modules' unwind information. Memory is read with guards, and each step must go up the stack, so that a wrong table or
 * a damaged stack ends the walk and does nothing else.
 *
 * Programs come the same way again and again. Frames that a thread has found are kept with the words of the stack that
 * led to them: where these words are as they were, nothing is looked up.
 */
#include "arch/unwind.h"
#include "hit/hit-priv.h"

#define BLOCK 512ull /* read at one time where it is not the thread's stack */

struct walk {
	struct dp_hit *h;
	const struct dp_unwind *tables;
	struct dp_known *known;
	struct dp_known_frames *noted; /* what the walk adds frames to; NULL: nothing */
	u64 noted_at;
	struct dp_unwind_at f;
	u64 stack, stack_end; /* what can be loaded */
	u64 block_at;         /* address of what is in block; ~0: nothing */
	u64 block[BLOCK / 8];
};

static bool word_at(void *stack, u64 addr, u64 *v)
{
	struct walk *w = stack;
	u64 at = addr & ~(BLOCK - 1);

	if (addr & 7)
		return false;
	if (addr >= w->stack && addr < w->stack_end) {
		*v = *(const volatile u64 *)addr;
		return true;
	}
	if (at != w->block_at) {
		if (dp_hit_read(w->h, w->block, at, BLOCK))
			return false;
		w->block_at = at;
	}
	*v = w->block[(addr - at) / 8];
	return true;
}

/*
 * The row of that address: mostly one that the thread has found before. A signal handler of the program may leave the
 * hit anywhere, so a place is empty while it changes.
 */
static const struct dp_unwind_row *row_at(struct walk *w, u64 at)
{
	volatile struct dp_known_row *k = &w->known->rows[(at ^ at >> 6) % DP_KNOWN_ROWS];
	const struct dp_unwind_row *row;

	if (!at) /* of an empty place */
		return NULL;
	if (k->at == at)
		return (const struct dp_unwind_row *)&k->row;
	row = dp_unwind_row_at(w->tables, at);
	if (row) {
		k->at = 0;
		*(volatile u64 *)&k->row = *(const u64 *)row;
		k->at = at;
	}
	return row;
}

/* ---- frames that were found before ---- */

#define SETS (DP_KNOWN_CHAINS / DP_KNOWN_WAYS)
#define REACH_MAX 0x100000ull
#define FACTOR 0x9e3779b97f4a7c15ull

static bool can_be_known(const struct walk *w, u64 sp, u64 at)
{
	return w->tables && at && !(sp & 7) && sp >= w->stack && sp < w->stack_end;
}

/* Those that may begin there. */
static struct dp_known_frames *set_of(const struct walk *w, u64 sp, u64 at)
{
	return w->known->chains + ((at ^ sp << 13) * FACTOR >> 32) % SETS * DP_KNOWN_WAYS;
}

/* Offsets are less than reach. */
static bool is_same(const struct walk *w, const struct dp_known_frames *k, u64 at)
{
	u64 sp = w->f.sp;

	if (k->at != at || k->sp != sp || (k->by_frame && k->frame != w->f.frame) || w->stack_end - sp < k->reach)
		return false;
	for (u32 i = 0; i < k->nframes; i++)
		if (*(const volatile u64 *)(sp + k->returns_at[i]) != k->returns[i])
			return false;
	for (u32 i = 0; i < k->nsaved; i++)
		if (*(const volatile u64 *)(sp + k->saved_at[i]) != k->saved[i])
			return false;
	return true;
}

/* Frames for which the walk would read the same words at the same places; NULL: they are not known. */
static const struct dp_known_frames *known_at(const struct walk *w, u64 at)
{
	const struct dp_known_frames *k;

	if (!can_be_known(w, w->f.sp, at))
		return NULL;
	k = set_of(w, w->f.sp, at);
	for (u32 i = 0; i < DP_KNOWN_WAYS; i++)
		if (is_same(w, &k[i], at))
			return &k[i];
	return NULL;
}

/* What a walk has found. */
struct found {
	u64 *ips; /* NULL: the digest is enough */
	u32 n, most;
	u64 digest, power; /* dp_chain_digest(), and what the next address is multiplied by */
};

static DP_ALWAYS void put(struct found *to, u64 ip)
{
	if (to->ips) {
		to->ips[to->n++] = ip;
		return;
	}
	to->digest += dp_chain_mixed(ip) * to->power;
	to->power *= DP_CHAIN_BASE;
	to->n++;
}

/* On to the last of them, or behind the end of the chain. */
static DP_ALWAYS void follow(struct walk *w, const struct dp_known_frames *k, struct found *to)
{
	u32 passed = k->nframes - !k->is_end;

	put(to, w->f.ip);
	if (!to->ips && passed <= to->most - to->n) {
		to->digest += k->digest * to->power;
		to->power *= k->power;
		to->n += passed;
	} else {
		for (u32 i = 0; i < passed && to->n < to->most; i++)
			put(to, k->returns[i]);
	}
	w->f.ip = k->is_end ? 0 : k->returns[passed];
	if (k->frame_at != DP_KNOWN_NOWHERE)
		w->f.frame = *(const volatile u64 *)(w->f.sp + k->frame_at);
	w->f.sp += k->reach;
}

/*
 * The places of a set are used in turn. Like those of rows, they are empty while they change. f: where the walk is at,
 * on its way to the first of the frames.
 */
static void begin_noting(struct walk *w, const struct dp_unwind_at *f, u64 at)
{
	struct dp_known_frames *k;

	if (!can_be_known(w, f->sp, at))
		return;
	k = set_of(w, f->sp, at) + w->known->turn++ % DP_KNOWN_WAYS;
	*(volatile u64 *)&k->at = 0;
	__atomic_signal_fence(__ATOMIC_RELEASE); /* pairs with the one of end_noting() */
	k->sp = f->sp;
	k->frame = f->frame;
	k->nframes = k->nsaved = k->by_frame = k->is_end = 0;
	k->frame_at = DP_KNOWN_NOWHERE;
	k->reach = 0;
	w->noted = k;
	w->noted_at = at;
}

static void end_noting(struct walk *w)
{
	struct dp_known_frames *k = w->noted;

	if (k && (k->nframes || k->is_end)) {
		u32 passed = k->nframes - !k->is_end;

		k->digest = dp_chain_digest(k->returns, passed);
		for (k->power = 1; passed > 0; passed--)
			k->power *= DP_CHAIN_BASE;
		__atomic_signal_fence(__ATOMIC_RELEASE); /* pairs with the one of begin_noting() */
		*(volatile u64 *)&k->at = w->noted_at;
	}
	w->noted = NULL;
}

static void note_end(struct walk *w, u64 at)
{
	if (!w->noted)
		begin_noting(w, &w->f, at);
	if (w->noted)
		w->noted->is_end = true;
}

/* The frame register, whose value this is, decides where the next caller's frame is. */
static void note_frame(struct dp_known_frames *k, u64 frame)
{
	if (k->frame_at == DP_KNOWN_NOWHERE) {
		k->by_frame = true;
		return;
	}
	k->saved_at[k->nsaved] = k->frame_at;
	k->saved[k->nsaved++] = frame;
}

/*
 * The caller to which the walk has come from `before` by this row. False: it is none of those whose words are kept, or
 * these are not where the thread can load them.
 */
static bool note_caller(struct walk *w, const struct dp_unwind_row *row, const struct dp_unwind_at *before)
{
	struct dp_known_frames *k = w->noted;
	u64 reach = w->f.sp - k->sp;
	u64 at = row->frame == DP_UNWIND_AT_FRAME ? before->frame : w->f.sp + (u64)(row->frame * 8ll);

	if (reach > REACH_MAX || w->f.sp > w->stack_end || w->f.sp & 7)
		return false;
	if (row->frame && (at - k->sp >= reach || at & 7))
		return false;
	if (row->kind == DP_UNWIND_FRAME || row->frame == DP_UNWIND_AT_FRAME)
		note_frame(k, before->frame);
	if (row->frame)
		k->frame_at = (u32)(at - k->sp);
	k->returns_at[k->nframes] = (u32)reach - 8;
	k->returns[k->nframes++] = w->f.ip;
	k->reach = reach;
	return true;
}

static bool can_be_noted(const struct dp_unwind_row *row)
{
	return row->kind == DP_UNWIND_SP || row->kind == DP_UNWIND_PLT || row->kind == DP_UNWIND_FRAME;
}

static void note(struct walk *w, const struct dp_unwind_row *row, const struct dp_unwind_at *before, u64 at)
{
	if (w->noted && (w->noted->nframes == DP_KNOWN_FRAMES || w->noted->nsaved == DP_KNOWN_SAVED))
		end_noting(w);
	if (!w->noted && can_be_noted(row))
		begin_noting(w, before, at);
	if (w->noted && !(can_be_noted(row) && note_caller(w, row, before)))
		end_noting(w);
}

/* To the caller; false: there is none, or it is not known. at: an address inside the instruction that is under way. */
static bool step(struct walk *w, u64 at, bool *signal)
{
	const struct dp_unwind_row *row = row_at(w, at);
	const struct dp_unwind_at before = w->f;
	u64 align = dp_regs_align(w->h->regs);

	*signal = row && row->kind == DP_UNWIND_SIGNAL;
	if (!row || row->kind == DP_UNWIND_END) {
		note_end(w, at);
		return false;
	}
	if (!dp_unwind_caller(&w->f, row, at, before.ip == w->h->regs->ip ? &align : (void *)0, word_at, w))
		return false;
	note(w, row, &before, at);
	return true;
}

/* What was found by other tables, of a control block that was in force before, is forgotten. */
static void know_tables(struct walk *w)
{
	u64 digest = w->tables ? w->tables->digest : 0;

	if (w->known->of == digest)
		return;
	for (u32 i = 0; i < DP_KNOWN_ROWS; i++)
		((volatile struct dp_known_row *)w->known->rows)[i].at = 0;
	for (u32 i = 0; i < DP_KNOWN_CHAINS; i++)
		((volatile struct dp_known_frames *)w->known->chains)[i].at = 0;
	w->known->of = digest;
}

static DP_ALWAYS void walk_up(struct dp_hit *h, struct found *to)
{
	struct walk w;     /* the block is not worth clearing */
	bool exact = true; /* ip is that of an instruction, not behind a call */

	w.h = h;
	w.tables = (const struct dp_unwind *)h->ctl->unwind;
	w.known = (struct dp_known *)((u8 *)dp_slot_of(h) - DP_HIT_SLOT_HEAD + DP_HIT_SLOT_KNOWN);
	w.noted = NULL;
	w.f = (struct dp_unwind_at){h->regs->ip, h->regs->sp, dp_regs_frame(h->regs)};
	w.stack = DP_ALIGN_UP(h->regs->sp, 8);
	w.stack_end = DP_ALIGN_DOWN(dp_stack_end(h), 8ull);
	w.block_at = ~0ull;
	know_tables(&w);
	while (to->n < to->most && w.f.ip) {
		u64 at = w.f.ip - !exact;
		const struct dp_known_frames *k = w.noted ? NULL : known_at(&w, at);

		if (k) {
			follow(&w, k, to);
			exact = false;
			continue;
		}
		put(to, w.f.ip);
		if (!step(&w, at, &exact))
			break;
	}
	end_noting(&w);
}

u32 dp_hit_frames(struct dp_hit *h, u64 *ips, u32 n)
{
	struct found to = {.ips = ips, .most = n};

	walk_up(h, &to);
	return to.n;
}

u64 dp_hit_chain(struct dp_hit *h, u32 n)
{
	struct found to = {.most = n, .power = 1};

	walk_up(h, &to);
	return to.digest;
}
