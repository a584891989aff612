/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The site judge: which bytes around an address a five-byte jump may overwrite, or why none.
 * It works on the original bytes of one executable range and on what the analysis (text.h) found
 * out about it. Freestanding; allocates nothing.
 */
#ifndef DP_SITE_H
#define DP_SITE_H

#include "arch/tables.h"
#include "base/error.h"

#define DP_WINDOW_INSNS 16 /* most instructions that one detour displaces */

enum dp_outcome {
	DP_OUTCOME_REFUSED,
	DP_OUTCOME_TRAP,
	DP_OUTCOME_PUN,    /* reserved: overlapping displacement bytes */
	DP_OUTCOME_HOP,    /* reserved: two-byte jump to a jump in reach */
	DP_OUTCOME_FTRACE, /* the kernel's function entries only: by its function tracer */
	DP_OUTCOME_JUMP,
};

const char *dp_outcome_name(enum dp_outcome o);

#define DP_FUNC_UNPROVEN 0x1  /* an indirect jump whose targets could not be bounded */
#define DP_FUNC_GO 0x2        /* compiled by Go's compiler */
#define DP_FUNC_PART 0x4      /* a piece of another function (its cold part): control comes by jumps only */
#define DP_FUNC_FALLEN 0x10   /* the code in front of it falls into it: no calling convention at its start */
#define DP_FUNC_NAMELESS 0x20 /* known from unwind tables only: a function, or a part of one */
#define DP_FUNC_ENTERED 0x40  /* called somewhere, or its address is taken */
#define DP_FUNC_WALKED 0x80   /* private to the analysis: its instructions have been seen, */
#define DP_FUNC_GAP 0x100     /* the bytes in front of it have, */
#define DP_FUNC_KNOWN 0x200   /* and all that leads into it */
#define DP_FUNC_LEVEL 0x400   /* a part without a name that begins with the stack of a function's entry */
#define DP_FUNC_OPEN 0x8      /* hi was not given but inferred: trailing padding is cut off by the analysis */

struct dp_func {
	u64 lo, hi; /* half-open, link-time addresses */
	u32 flags;  /* DP_FUNC_* */
	u32 from;   /* private to the analysis: the only function that jumps to lo */
};

struct dp_span { /* half-open, link-time addresses */
	u64 lo, hi;
};

/* One executable range, its original bytes, and what the analysis found out. Addresses: link time. */
struct dp_text {
	u64 lo, hi;
	const u8 *bytes;             /* hi - lo bytes */
	u8 *targets;                 /* bit (a - lo): control may arrive at a other than by falling through */
	const struct dp_func *funcs; /* sorted by lo, not overlapping */
	u32 nfuncs;
	u32 nguards;
	const struct dp_span *guards; /* restartable sequences and the like: nothing inside is displaced */
	u32 nhooks;                   /* the last so many of them are places of hooks */
	const u8 *starts; /* bit (a - lo): an instruction of a function starts at a; NULL: decode to find out */
};

/*
 * A window: whole instructions that a detour displaces; the jump overwrites the first five bytes.
 * When the last instructions of a function are shorter than five bytes, padding behind it is used:
 * len is then below DP_JUMP_LEN and the jump still covers five bytes.
 */
struct dp_window {
	u64 start;
	u8 len; /* bytes of the displaced instructions (padding not counted) */
	u8 ninsns;
	u8 off[DP_WINDOW_INSNS]; /* offset of each displaced instruction from start */
	u8 bounds;               /* bit i (1..4): an instruction starts at start + i, so this byte must trap */
	u8 falls;                /* control may fall through behind the last displaced instruction */
};

/* Bytes from its start that nobody else may patch: the jump's, and what it displaces. */
static inline u32 dp_window_reach(const struct dp_window *w)
{
	return w->len > DP_JUMP_LEN ? w->len : DP_JUMP_LEN;
}

struct dp_site {
	u64 addr;
	enum dp_outcome outcome;
	enum dp_code why;     /* for outcomes below JUMP: the reason's code */
	struct dp_window win; /* JUMP: the window that contains addr; TRAP: the one instruction */
	bool flags_dead;      /* nobody looks at the arithmetic flags that are in force at addr (flags.h) */
	bool red_zone;        /* bytes below the stack pointer may be live at addr */
};

/* The function that contains addr, or NULL. */
const struct dp_func *dp_text_func(const struct dp_text *t, u64 addr);

static inline bool dp_text_is_target(const struct dp_text *t, u64 addr)
{
	u64 i = addr - t->lo;

	return addr >= t->lo && addr < t->hi && (t->targets[i >> 3] >> (i & 7) & 1);
}

/*
 * Build the window that starts at `start` and displaces every instruction up to and including the
 * one at `upto` (>= start), and at least DP_JUMP_LEN bytes (padding counts).
 * Errors: E_SITE_* with the reason; *win is undefined then.
 */
int dp_window_build(const struct dp_text *t, u64 start, u64 upto, struct dp_window *win, struct dp_error *err);

/*
 * Judge one address. Always fills in *site; returns 0 when the outcome is JUMP or TRAP, else the
 * negative errno of the refusal, with *err telling place and reason. A window that starts at addr
 * is preferred; otherwise windows that start earlier in the same straight line are tried.
 */
int dp_site_judge(const struct dp_text *t, u64 addr, struct dp_site *site, struct dp_error *err);

#endif
