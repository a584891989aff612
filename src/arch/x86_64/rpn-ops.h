/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The table of opcodes that are compiled, in two halves: rpn-ops.c and rpn-calls.c. */
#ifndef DP_RPN_OPS_H
#define DP_RPN_OPS_H

#include "arch/x86_64/rpn-jit-priv.h"

struct o_row {
	u32 opcode;
	void (*compile)(struct compiler *c, const struct dp_op_view *op, u32 arg);
	u32 arg;
};

extern const struct o_row o_calls[];
extern const u32 o_ncalls;

void o_push(struct compiler *c, u8 reg);

#endif
