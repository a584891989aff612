/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * One step of a walk up a stack, by a row of a module's unwind table. The hit path walks the stack of its own thread,
 * the sampler of `dprobes top` a copy of another one's.
 */
#ifndef DP_ARCH_UNWIND_H
#define DP_ARCH_UNWIND_H

#include "abi/abi-unwind.h"
#include "arch/x86_64/machine.h"

/* Where a signal frame keeps what was interrupted, from the stack pointer behind its return address on. */
#define DP_UC_BP 120
#define DP_UC_SP 160
#define DP_UC_IP 168

struct dp_unwind_at {
	u64 ip, sp, frame; /* frame: the frame register */
};

/* How many of n entries begin with a number that is at most v: they are sorted by it. */
#define DP_UNWIND_BELOW(entries, n, member, v)             \
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

/* The row of that address; NULL: there is none. u may be NULL. */
static DP_ALWAYS const struct dp_unwind_row *dp_unwind_row_at(const struct dp_unwind *u, u64 ip)
{
	const struct dp_unwind_module *m;
	const struct dp_unwind_row *rows;
	u32 n = u ? DP_UNWIND_BELOW(u->modules, u->n, lo, ip) : 0;

	if (!n || ip >= u->modules[n - 1].hi)
		return (void *)0;
	m = &u->modules[n - 1];
	rows = (const struct dp_unwind_row *)m->rows;
	n = DP_UNWIND_BELOW(rows, m->n, pc, (u32)(ip - m->lo));
	return n ? &rows[n - 1] : (void *)0;
}

typedef bool dp_unwind_word_fn(void *stack, u64 addr, u64 *v); /* false: it cannot be read */

/* Out of a signal handler, to what it interrupted. */
static DP_ALWAYS bool dp_unwind_interrupted(struct dp_unwind_at *f, dp_unwind_word_fn *word, void *stack)
{
	u64 sp = f->sp;

	return word(stack, sp + DP_UC_BP, &f->frame) && word(stack, sp + DP_UC_SP, &f->sp) &&
	       word(stack, sp + DP_UC_IP, &f->ip);
}

/*
 * To the caller; false: there is none, or it is not known. at: an address inside the instruction that is under way.
 * row: the one of that address. aligned: the register of DP_UNWIND_ALIGN; NULL: not known. A step goes up the stack,
 * but for one out of a signal handler, which may have a stack of its own.
 */
static DP_ALWAYS bool dp_unwind_caller(struct dp_unwind_at *f, const struct dp_unwind_row *row, u64 at,
				       const u64 *aligned, dp_unwind_word_fn *word, void *stack)
{
	u64 offset = (u64)(row->cfa * 8ll), cfa, frame = f->frame;

	switch (row->kind) {
	case DP_UNWIND_SP:
		cfa = f->sp + offset;
		break;
	case DP_UNWIND_FRAME:
		cfa = f->frame + offset;
		break;
	case DP_UNWIND_ALIGN:
		if (!aligned)
			return false;
		cfa = *aligned + offset;
		break;
	case DP_UNWIND_FRAME_WORD:
		if (!word(stack, f->frame + offset, &cfa))
			return false;
		break;
	case DP_UNWIND_PLT:
		cfa = f->sp + 8 + ((at & 15) >= (u64)row->cfa ? 8 : 0);
		break;
	case DP_UNWIND_SIGNAL:
		return dp_unwind_interrupted(f, word, stack);
	default:
		return false;
	}
	if (cfa <= f->sp || !word(stack, cfa - 8, &f->ip))
		return false;
	if (row->frame &&
	    !word(stack, row->frame == DP_UNWIND_AT_FRAME ? f->frame : cfa + (u64)(row->frame * 8ll), &frame))
		return false;
	f->sp = cfa;
	f->frame = frame;
	return true;
}

#endif
