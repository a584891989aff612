/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where an indirect jump gets its target from, as far as the instructions in front of it tell.
 * Kernel-clean. It looks at one straight line of code and never guesses: what it cannot see is
 * UNKNOWN.
 */
#ifndef DP_INDIRECT_H
#define DP_INDIRECT_H

#include "arch/analysis.h"

#define DP_TRAIL 32 /* power of two */

/* The instructions that lead to the current one by falling through: offsets in the text, newest
 * last. */
struct dp_trail {
	u64 off[DP_TRAIL];
	u32 n;
};

static inline void dp_trail_reset(struct dp_trail *t)
{
	t->n = 0;
}

static inline void dp_trail_add(struct dp_trail *t, u64 off)
{
	t->off[t->n++ & (DP_TRAIL - 1)] = off;
}

enum dp_indirect_kind {
	DP_INDIRECT_MEMORY, /* an 8-byte pointer that was loaded as it is */
	DP_INDIRECT_TABLE,  /* base + int32 of a table */
	DP_INDIRECT_SUM,    /* computed, but base or table are not in sight */
	DP_INDIRECT_UNKNOWN,
};

struct dp_indirect {
	enum dp_indirect_kind kind;
	u64 table;    /* TABLE: of int32; MEMORY: of pointers, indexed; 0: not known */
	u64 base;     /* TABLE, SUM: what entries are relative to; 0: not known */
	s64 disp;     /* SUM: offset of the table from the register that holds its address */
	int reg;      /* SUM: that register; UNKNOWN: the register that could not be followed; -1: none
		    */
	bool same;    /* SUM: that register is also what entries are relative to */
	bool indexed; /* MEMORY: a scaled index was used */
	bool stack;   /* MEMORY: a slot of the stack frame */
};

/* in is the indirect jump at offset off; the trail holds what came before it. */
void dp_indirect_trace(const struct dp_text *t, const struct dp_trail *trail, const struct dp_insn *in, u64 off,
		       struct dp_indirect *out);

/*
 * Registers that may hold a computed code address somewhere in a function: sums in which an int32
 * from memory, or a label of the function itself, takes part. Bits are only ever added, so the
 * order of instructions hardly matters.
 */
struct dp_sums {
	u64 lo, hi;       /* the function */
	u32 sexts;        /* int32 loads */
	u32 smalls;       /* other loads of less than 8 bytes */
	u32 data, labels; /* lea of data, of a label of the function */
	u32 sums;
	bool spilled; /* a sum was stored to memory */
};

void dp_sums_see(struct dp_sums *s, const struct dp_insn *in, u64 next);

/* Whether the jump could go to a computed address. */
bool dp_sums_reach(const struct dp_sums *s, const struct dp_indirect *ind);

/* text.c: from here on the end and the flags of the function are final, though perhaps not who branches into it. */
int dp_code_settle(struct dp_analysis *c, const struct dp_func *f);

#endif
