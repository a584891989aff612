/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The relocator: emits a copy of an instruction that has, at another address, the effect that the original has at its
 * own. Freestanding.
 */
#ifndef DP_RELOCATE_H
#define DP_RELOCATE_H

#include "arch/x86_64/forms.h"
#include "arch/x86_64/insn.h"
#include "base/emit.h"
#include "base/error.h"

/* jmp rel32 to target; -ERANGE (E_RELOC_RANGE) when it does not reach. */
int dp_emit_jmp(struct dp_emit *e, u64 target, struct dp_error *err);

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
