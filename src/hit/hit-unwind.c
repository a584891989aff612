/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who called the probed code: from the registers at the hit outwards, by a table that the control side has made of the
 * modules' unwind information. Memory is read with guards, and each step must go up the stack, so that a wrong table or
 * a damaged stack ends the walk and does nothing else.
 */
#include "arch/unwind.h"
#include "hit/hit-priv.h"

#define PAGE 4096ull
#define BLOCK 512ull /* read at one time from pages other than the stack pointer's */

struct walk {
	struct dp_hit *h;
	struct dp_unwind_at f;
	u64 block_at; /* address of what is in block; ~0: nothing */
	u64 block[BLOCK / 8];
};

static bool word_at(void *stack, u64 addr, u64 *v)
{
	struct walk *w = stack;
	u64 at = addr & ~(BLOCK - 1), page = w->h->regs->sp & ~(PAGE - 1);

	if (addr & 7)
		return false;
	if (addr - page < PAGE)
		return !dp_hit_read(w->h, v, addr, 8);
	if (at != w->block_at) {
		if (dp_hit_read(w->h, w->block, at, BLOCK))
			return false;
		w->block_at = at;
	}
	*v = w->block[(addr - at) / 8];
	return true;
}

/* To the caller; false: there is none, or it is not known. at: an address inside the instruction that is under way. */
static bool step(struct walk *w, u64 at, bool *signal)
{
	const struct dp_unwind_row *row = dp_unwind_row_at((const struct dp_unwind *)w->h->ctl->unwind, at);
	u64 align = dp_regs_align(w->h->regs);

	*signal = row && row->kind == DP_UNWIND_SIGNAL;
	return row && dp_unwind_caller(&w->f, row, at, w->f.ip == w->h->regs->ip ? &align : (void *)0, word_at, w);
}

u32 dp_hit_frames(struct dp_hit *h, u64 *ips, u32 n)
{
	struct walk w = {.h = h, .f = {h->regs->ip, h->regs->sp, dp_regs_frame(h->regs)}, .block_at = ~0ull};
	bool exact = true; /* ip is that of an instruction, not behind a call */
	u32 found = 0;

	while (found < n && w.f.ip) {
		ips[found++] = w.f.ip;
		if (!step(&w, w.f.ip - !exact, &exact))
			break;
	}
	return found;
}
