/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What jit.c compiles, and jit-rpn.c makes of programs of the Dynamic Probes language that are
 * plain enough. */
#ifndef DP_JIT_PRIV_H
#define DP_JIT_PRIV_H

#include "arch/x86_64/encode.h"
#include "arch/x86_64/jit.h"

#define SLOT_RETURN 0xff /* the word at the stack pointer */
#define SLOT_PID 0xfe
#define VALUE_OPS 4

enum value_op_kind { OP_ALU, OP_SHIFT, OP_ONE, OP_EXTEND };

struct value_op {
	u8 kind, n; /* n: enum alu, enum shift, 2 not and 3 neg, bytes to extend */
	bool is_signed;
	u32 by;
};

/* A constant, or a register of the program and what is done to it. */
struct value {
	bool constant;
	u64 c;
	u8 slot;
	u8 size; /* bytes of the register that count */
	bool is_signed;
	u8 nops;
	struct value_op ops[VALUE_OPS];
};

struct store { /* one field of the record */
	u16 off;
	u8 size;
	struct value v;
};

struct need { /* a condition without which nothing is logged */
	struct value v;
	u8 cc;
	u64 c;
};

#define PLAIN_STORES 32
#define PLAIN_NEEDS 8
#define PLAIN_EFFECTS 8

/*
 * A program that looks at registers, decides, and logs or does not: conditions, then a record.
 * Effects on variables can wait until the outcome is committed, since nothing in the program looks
 * at them.
 */
struct plain {
	struct need needs[PLAIN_NEEDS];
	struct store stores[PLAIN_STORES];
	struct {
		u64 addr;
		bool down;
	} effects[PLAIN_EFFECTS]; /* add or subtract one */
	u32 nneeds, nstores, neffects;
	u32 early; /* effects that happen when a condition does not hold, too */
	bool record;
	u32 size; /* of the payload */
};

/* False: not such a program. */
bool dp_jit_plain(struct plain *p, const u8 *code, const struct dp_code_rt *rt);

/* Whether v op k is known ahead or can be put behind v's other operations; then it is. */
bool dp_jit_append(struct value *v, struct value_op op);

/* Whether jit.c can read the slot of struct dp_regs. */
bool dp_jit_slot(s64 slot);

#endif
