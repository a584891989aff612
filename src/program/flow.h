/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The flow of a verified program, for compilers: blocks, and where the top of the stack is. Knows no processor. */
#ifndef DP_FLOW_H
#define DP_FLOW_H

#include "program/code.h"

#define DP_FLOW_WORDS_MAX 8 /* of a `log` with its count on the stack: more is not followed */

struct dp_flow_place { /* one byte of code */
	u32 top;       /* index of the stack's top before the instruction, if it is known */
	u32 start;     /* for the compiler: of the block in the machine code; 0: none yet */
	u8 is_insn : 1, is_leader : 1, is_reached : 1, is_queued : 1;
	u8 any_top : 1; /* paths come here with several tops */
};

struct dp_flow {
	/* input */
	const u8 *code;
	u32 len;
	bool (*known)(const struct dp_op_view *op); /* compiled; the others end what is followed */
	/* output */
	struct dp_flow_place *places; /* len + 1 */
	u32 ninsns;
	u32 nknown, nleft;   /* of those that are reached */
	bool any_top, jumps; /* somewhere; jumps count against the budget */
	/* private */
	u32 *queue;
	u32 nqueued;
};

/* 0, -EINVAL or -ENOMEM; dp_flow_free() in any case. */
int dp_flow_find(struct dp_flow *f);
void dp_flow_free(struct dp_flow *f);

/* The constant that the instruction before pushes, for `log` with its count on the stack; ~0: none. */
u64 dp_flow_count_before(const struct dp_flow *f, u32 at);

#endif
