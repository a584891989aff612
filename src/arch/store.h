/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* An instruction that stores to memory: what it stores where, and a copy of it that a hit follows. Freestanding. */
#ifndef DP_STORE_H
#define DP_STORE_H

#include "arch/tables.h"

#define DP_STORE_CODE 128 /* bytes of a copy, at most */

/* The segment whose base is added to the address of its operand. */
enum dp_store_segment { DP_STORE_FLAT, DP_STORE_FS, DP_STORE_GS };

struct dp_store_insn {
	struct dp_insn in;
	u8 bytes[DP_INSN_MAX];
	u8 kind;     /* of operand, store.c's own */
	u8 segment;  /* enum dp_store_segment */
	bool string; /* it stores by elements */
	u32 size;    /* bytes that it always stores, a string instruction by each element; 0: not known */
};

/* Take the instruction at ip apart, in the own process. False: it stores nothing, or cannot run elsewhere. */
bool dp_store_read(struct dp_store_insn *s, u64 ip);

/*
 * Where its operand begins, with these registers (words of signal-context.h). next: address of the instruction behind
 * it; base: of the segment. *repeated: bytes that a repeated string instruction has before it, upward or downward.
 */
u64 dp_store_address(const struct dp_store_insn *s, const u64 *uc, u64 next, u64 base, u64 *repeated);

/*
 * Its copy, then a hit that hands number over to entry (one of hit-entry.S that leaves the red zone and the flags
 * alone), then the way to next. Returns bytes, 0: it cannot run elsewhere.
 */
u32 dp_store_emit(const struct dp_store_insn *s, u64 next, u32 number, u64 entry, u8 code[DP_STORE_CODE]);

#endif
