/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who called the probed code: from the registers at the hit outwards, by a table that the control side has made of the
 * modules' unwind information. Memory is read with guards, and each step must go up the stack, so that a wrong table or
 * a damaged stack ends the walk and does nothing else.
 */
#include "arch/unwind.h"
#include "hit/hit-priv.h"

#define BLOCK 512ull /* read at one time where it is not the thread's stack */

struct walk {
	struct dp_hit *h;
	const struct dp_unwind *tables;
	struct dp_known_row *known;
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
	volatile struct dp_known_row *k = &w->known[(at ^ at >> 6) % DP_KNOWN_ROWS];
	const struct dp_unwind_row *row;

	if (k->at == at)
		return (const struct dp_unwind_row *)&k->row;
	row = dp_unwind_row_at(w->tables, at);
	if (row && at) {
		k->at = 0;
		*(volatile u64 *)&k->row = *(const u64 *)row;
		k->at = at;
	}
	return row;
}

/* To the caller; false: there is none, or it is not known. at: an address inside the instruction that is under way. */
static bool step(struct walk *w, u64 at, bool *signal)
{
	const struct dp_unwind_row *row = row_at(w, at);
	u64 align = dp_regs_align(w->h->regs);

	*signal = row && row->kind == DP_UNWIND_SIGNAL;
	return row && dp_unwind_caller(&w->f, row, at, w->f.ip == w->h->regs->ip ? &align : (void *)0, word_at, w);
}

/* Rows of other tables, of a control block that was in force before, are forgotten. */
static void know_rows(struct dp_hit_slot *slot, const struct dp_unwind *tables)
{
	u64 digest = tables ? tables->digest : 0;

	if (slot->rows_of == digest)
		return;
	for (u32 i = 0; i < DP_KNOWN_ROWS; i++)
		((volatile struct dp_known_row *)slot->rows)[i].at = 0;
	slot->rows_of = digest;
}

u32 dp_hit_frames(struct dp_hit *h, u64 *ips, u32 n)
{
	struct dp_hit_slot *slot = dp_slot_of(h);
	struct walk w;     /* the block is not worth clearing */
	bool exact = true; /* ip is that of an instruction, not behind a call */
	u32 found = 0;

	w.h = h;
	w.tables = (const struct dp_unwind *)h->ctl->unwind;
	w.known = slot->rows;
	w.f = (struct dp_unwind_at){h->regs->ip, h->regs->sp, dp_regs_frame(h->regs)};
	w.stack = DP_ALIGN_UP(h->regs->sp, 8);
	w.stack_end = DP_ALIGN_DOWN(dp_stack_end(h), 8ull);
	w.block_at = ~0ull;
	know_rows(slot, w.tables);
	while (found < n && w.f.ip) {
		ips[found++] = w.f.ip;
		if (!step(&w, w.f.ip - !exact, &exact))
			break;
	}
	return found;
}
