/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The compiler from verified bytecode to machine code that a detour calls instead of the entry. Freestanding. */
#ifndef DP_JIT_H
#define DP_JIT_H

#include "arch/x86_64/relocate.h"

struct dp_code_rt;
struct dp_control;

/* What the code is compiled for. Addresses are those of the probed world. */
struct dp_jit {
	const struct dp_control *ctl; /* rings, counts, offsets and capabilities; only these are looked at */
	u64 entry;                    /* the general entry of this kind: does the whole job where the code does not */
	u32 point;
	u32 event;
	u64 addr;                    /* of the probed instruction */
	bool flags;                  /* arithmetic flags are live */
	bool zone;                   /* the detour has stepped over the red zone */
	const struct dp_code_rt *rt; /* of a program of the Dynamic Probes language, with its addresses; else NULL */
};

#define DP_JIT_MAX 2048  /* most bytes that one program may become */
#define DP_JIT_ALIGN 32u /* of e->addr */
#define DP_JIT_ENTRY 96u /* where the code begins; descriptions of its sequences stand before it */

/*
 * Compile a program that was verified. The code at DP_JIT_ENTRY is entered like the general entry (see hit-entry.S),
 * counts one hit and its outcome, and returns with all registers as they were; or it changes nothing and goes to the
 * general entry, where the thread or the ring is not in the usual state.
 * Its length does not depend on addresses, nor on what ctl holds.
 * Returns 0; -EOPNOTSUPP: the program has something that is left to the interpreter; -ERANGE: too far from the entry or
 * the rings, or too long.
 */
int dp_jit_compile(struct dp_emit *e, const u8 *code, u32 len, const struct dp_jit *jit);

/* Whether compiled code can work in a world with these capabilities. */
bool dp_jit_usable(const struct dp_control *ctl);

#endif
