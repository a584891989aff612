/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What rpn-ops.c and rpn-calls.c share: the operations that call functions of the hit path are in the latter. */
#ifndef DP_RPN_OPS_H
#define DP_RPN_OPS_H

#include "arch/x86_64/rpn-compile-priv.h"

typedef void (*o_compiler)(struct compiler *c, const struct dp_op_view *op, u32 arg);

/* One that is like no other: by its opcode. */
struct o_row {
	u32 opcode;
	o_compiler compile;
	u32 arg;
};

extern const struct o_row dp_op_calls[];
extern const u32 dp_op_ncalls;

void dp_op_read(struct compiler *c, const struct dp_op_view *op, u32 arg);
void dp_op_write(struct compiler *c, const struct dp_op_view *op, u32 arg);
void dp_op_heap(struct compiler *c, const struct dp_op_view *op, u32 arg);

#endif
