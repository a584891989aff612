/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The writer and the relocator: emit machine code into a buffer, and emit a copy of an instruction
 * that has, at another address, the effect that the original has at its own. Freestanding.
 */
#ifndef DP_RELOCATE_H
#define DP_RELOCATE_H

#include "arch/x86_64/insn.h"
#include "base/error.h"

/*
 * A bounded code buffer. Bytes go to buf[len]; addr is the address at which buf[0] will run. When
 * the buffer is full, overflow becomes true and further bytes are dropped: check once, at the end.
 */
struct dp_emit {
	u8 *buf;
	size_t cap;
	size_t len;
	u64 addr;
	bool overflow;
};

void dp_emit_init(struct dp_emit *e, u8 *buf, size_t cap, u64 addr);
void dp_emit_bytes(struct dp_emit *e, const void *bytes, size_t n);
void dp_emit_u8(struct dp_emit *e, u8 v);
void dp_emit_u32(struct dp_emit *e, u32 v);
void dp_emit_u64(struct dp_emit *e, u64 v);
u64 dp_emit_here(const struct dp_emit *e); /* run address of the next byte */

/* jmp rel32 to target; -ERANGE (E_RELOC_RANGE) when it does not reach. */
int dp_emit_jmp(struct dp_emit *e, u64 target, struct dp_error *err);
void dp_emit_jmp_far(struct dp_emit *e, u64 target); /* to anywhere, through a constant behind it */

/* Push a 64-bit constant without touching a register or the flags. */
void dp_emit_push_const(struct dp_emit *e, u64 value);

#define DP_RELOC_MAX 48 /* most bytes that dp_relocate emits for one instruction */

/*
 * Emit the copy of the instruction `in`, whose bytes are `code` and whose address is `from`.
 * Every effect is kept: registers, flags, memory, the stack (a relocated call pushes the ORIGINAL
 * return address, so unwinders and callees notice nothing). Nothing below the stack pointer is
 * written that the original would not write, and no register is used as scratch.
 * A copy of an instruction that can fall through ends where its successor's copy may follow.
 * Errors: E_RELOC_RANGE (a displacement does not reach), E_RELOC_INSN (cannot run elsewhere).
 */
int dp_relocate(struct dp_emit *e, const struct dp_insn *in, const u8 *code, u64 from, struct dp_error *err);

/* Whether dp_relocate can handle this instruction at all, distance apart. */
bool dp_can_relocate(const struct dp_insn *in, const u8 *code);

#endif
