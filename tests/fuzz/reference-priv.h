/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The reference's state, shared by its two halves. */
#ifndef FUZZ_REFERENCE_PRIV_H
#define FUZZ_REFERENCE_PRIV_H

#include "abi/abi-program.h"
#include "program/work.h"
#include "reference.h"

#define REF_BLOCKS 4096

struct ref_frame {
	u32 base;
	s64 handler; /* -1: none */
	u32 called, ret;
	u32 n[3], at[3]; /* traced: stack, locals, globals */
};

struct ref_block {
	u32 at, asked;
};

struct ref {
	struct machine *m;
	const struct dp_program *p;
	u64 stack[DP_VM_STACK];
	u32 top; /* index of the top word + 1, any number */
	u32 jumps;
	s64 work;
	bool mark, stop, filtered;
	char scratch[DP_SCRATCH_SIZE];
	const char *complaint;
	/* RPN programs */
	u32 before; /* top when the instruction began */
	bool passed, raised, trace_full, spent;
	s64 goes_to; /* -1: to the next instruction */
	u32 base, depth, calls, handled, plp, trace_len, ntraces, nblocks;
	u64 code, parm1, parm2;
	struct ref_frame frames[DP_VM_CALLS + 1];
	struct ref_block blocks[REF_BLOCKS];
	u8 trace[2048], heap[32768];
};

u64 ref_pop(struct ref *r);
void ref_push(struct ref *r, u64 v);
u8 *ref_payload(struct ref *r);
void ref_complain(struct ref *r, const char *what);

/* False: that is more than the run may cost, and it goes on elsewhere. */
bool ref_spend(struct ref *r, u32 work);
void ref_raise(struct ref *r, u32 code, u64 parm1, u64 parm2);
void ref_trace(struct ref *r);
bool ref_log(struct ref *r, u32 opcode, const struct dp_op_view *op);
void ref_find(struct ref *r, u32 k, u32 first, u32 keys, u32 words);
void ref_chain(struct ref *r, u32 n, u32 first, u32 keys);
void ref_fold(struct ref *r, u32 kind);
bool ref_machine(struct ref *r, u32 opcode, const struct dp_op_view *op, u32 *next);

#endif
