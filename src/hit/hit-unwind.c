/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who called the probed code: from the registers at the hit outwards, by a table that the control side has made of the
 * modules' unwind information. Memory is read with guards, and each step must go up the stack, so that a wrong table or
 * a damaged stack ends the walk and does nothing else.
 */
#include "abi/abi-unwind.h"
#include "hit/hit-priv.h"

#define PAGE 4096ull
#define BLOCK 512ull /* read at one time from pages other than the stack pointer's */

/* Where a signal frame keeps what was interrupted, from the stack pointer behind its return address on. */
#define UC_BP 120
#define UC_SP 160
#define UC_IP 168

struct walk {
	struct dp_hit *h;
	u64 ip, sp, frame;
	u64 block_at; /* address of what is in block; ~0: nothing */
	u64 block[BLOCK / 8];
};

static bool word_at(struct walk *w, u64 addr, u64 *v)
{
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

/* How many of n entries begin with a number that is at most v: they are sorted by it. */
#define BELOW(entries, n, member, v)                       \
	({                                                 \
		u32 lo_ = 0, hi_ = (n);                    \
		while (lo_ < hi_) {                        \
			u32 mid_ = (lo_ + hi_) / 2;        \
			if ((entries)[mid_].member <= (v)) \
				lo_ = mid_ + 1;            \
			else                               \
				hi_ = mid_;                \
		}                                          \
		lo_;                                       \
	})

static const struct dp_unwind_row *row_at(const struct dp_control *ctl, u64 ip)
{
	const struct dp_unwind *u = (const struct dp_unwind *)ctl->unwind;
	const struct dp_unwind_module *m;
	const struct dp_unwind_row *rows;
	u32 n = u ? BELOW(u->modules, u->n, lo, ip) : 0;

	if (!n || ip >= u->modules[n - 1].hi)
		return (void *)0;
	m = &u->modules[n - 1];
	rows = (const struct dp_unwind_row *)m->rows;
	n = BELOW(rows, m->n, pc, (u32)(ip - m->lo));
	return n ? &rows[n - 1] : (void *)0;
}

/* Out of a signal handler, to what it interrupted. */
static bool leave_signal(struct walk *w)
{
	u64 sp = w->sp;

	return word_at(w, sp + UC_BP, &w->frame) && word_at(w, sp + UC_SP, &w->sp) && word_at(w, sp + UC_IP, &w->ip);
}

/* To the caller; false: there is none, or it is not known. at: an address inside the instruction that is under way. */
static bool step(struct walk *w, u64 at, bool *signal)
{
	const struct dp_unwind_row *row = row_at(w->h->ctl, at);
	s64 offset = row ? row->cfa * 8ll : 0;
	u64 cfa, frame;

	*signal = false;
	switch (row ? row->kind : DP_UNWIND_END) {
	case DP_UNWIND_SP:
		cfa = w->sp + (u64)offset;
		break;
	case DP_UNWIND_FRAME:
		cfa = w->frame + (u64)offset;
		break;
	case DP_UNWIND_ALIGN:
		if (w->ip != w->h->regs->ip)
			return false;
		cfa = dp_regs_align(w->h->regs) + (u64)offset;
		break;
	case DP_UNWIND_FRAME_WORD:
		if (!word_at(w, w->frame + (u64)offset, &cfa))
			return false;
		break;
	case DP_UNWIND_PLT:
		cfa = w->sp + 8 + ((at & 15) >= (u64)row->cfa ? 8 : 0);
		break;
	case DP_UNWIND_SIGNAL:
		*signal = true;
		return leave_signal(w);
	default:
		return false;
	}
	frame = w->frame;
	if (cfa <= w->sp || !word_at(w, cfa - 8, &w->ip))
		return false;
	if (row->frame &&
	    !word_at(w, row->frame == DP_UNWIND_AT_FRAME ? w->frame : cfa + (u64)(row->frame * 8ll), &frame))
		return false;
	w->sp = cfa;
	w->frame = frame;
	return true;
}

u32 dp_hit_frames(struct dp_hit *h, u64 *ips, u32 n)
{
	struct walk w = {
	    .h = h, .ip = h->regs->ip, .sp = h->regs->sp, .frame = dp_regs_frame(h->regs), .block_at = ~0ull};
	bool exact = true; /* ip is that of an instruction, not behind a call */
	u32 found = 0;

	while (found < n && w.ip) {
		ips[found++] = w.ip;
		if (!step(&w, w.ip - !exact, &exact))
			break;
	}
	return found;
}
