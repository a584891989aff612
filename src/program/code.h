/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Bytecode as the control side handles it: look up an opcode or a register, take instructions
 * apart, put them together. Everything here works from the tables; nothing knows an encoding.
 */
#ifndef DP_CODE_H
#define DP_CODE_H

#include "base/error.h"
#include "program/opcode.h"

#define DP_OPERANDS_MAX 6

struct dp_opcode_info {
	const char *text;	/* "push r" */
	const char *operands;	/* one letter each, enum dp_operand_kind; "" for none */
	u8 pops, pushes;
	u8 rule;		/* enum dp_rule */
	const char *meaning;
};

enum dp_operand_kind {
	DP_KIND_SLOT = 's', DP_KIND_REG = 'r', DP_KIND_REGW = 'R', DP_KIND_WORD = 'w',
	DP_KIND_DISP = 'd', DP_KIND_JUMP = 'j', DP_KIND_LOCAL = 'v', DP_KIND_GLOBAL = 'g',
	DP_KIND_COUNT = 'c', DP_KIND_BIT = 'b', DP_KIND_AMOUNT = 'a', DP_KIND_WIDTH = 'x',
	DP_KIND_OFF = 'o', DP_KIND_LEN = 'l', DP_KIND_FIELD = 'f', DP_KIND_KEEP = 'k',
	DP_KIND_TEXT = 't', DP_KIND_NUM = 'n', DP_KIND_INDEX = 'i', DP_KIND_EXITTO = 'e', DP_KIND_STATE = 'q',
};

/* The table entry of an opcode; NULL when there is none with that number. */
const struct dp_opcode_info *dp_opcode_info(u32 opcode);

/* The opcodes in order: *i starts at 0; returns false at the end. */
bool dp_opcode_next(u32 *i, u32 *opcode);

struct dp_op_view {
	u32 opcode;
	const struct dp_opcode_info *info;
	u32 at, len;		    /* of the whole instruction in the code */
	s64 v[DP_OPERANDS_MAX];	    /* operands in order; JUMP: absolute offset; TEXT: its length */
	const u8 *text;		    /* of the TEXT operand */
};

/*
 * Take the instruction at `at` apart. 0, or -EINVAL when there is no such opcode (info NULL) or it
 * does not end within len (info set).
 */
int dp_op_decode(const u8 *code, u32 len, u32 at, struct dp_op_view *out);

/* The operand of that kind; 0 when the opcode has none. */
s64 dp_op_operand(const struct dp_op_view *insn, char kind);

/* A piece of code that grows. Start with zeroes; a failed allocation sets `failed` and sticks. */
struct dp_asm {
	u8 *bytes;
	u32 len, size;
	u32 jumps; /* JUMP operands so far: what a straight program needs as jump budget */
	bool failed;
};

/*
 * Append one instruction. v has one value per operand (TEXT: the length; the bytes are in text).
 * A JUMP is given as the absolute offset of its target. Returns the offset of the instruction.
 */
u32 dp_asm_put(struct dp_asm *c, enum dp_opcode op, const s64 *v, const char *text);

/* Let the jump instruction at `at` go to the end of the code so far. */
void dp_asm_land(struct dp_asm *c, u32 at);
void dp_asm_free(struct dp_asm *c);

#define DP_PUT(c, op, ...) dp_asm_put(c, DP_OP_##op, (const s64[]){__VA_ARGS__ __VA_OPT__(,) 0}, NULL)

struct dp_register {
	u16 number;
	u8 slot;	 /* word of struct dp_regs */
	bool writable;
	const char *names[6]; /* kernel's, 64 bits, 32, 16, low 8, high 8; "" where there is none */
};

/* Which part of a register a name means. */
struct dp_register_part {
	const struct dp_register *reg;
	u8 width; /* bits */
	u8 shift; /* 8 for ah and its like */
};

const struct dp_register *dp_register_by_number(u32 number);
const struct dp_register *dp_register_by_slot(u32 slot);
bool dp_register_find(const char *name, size_t len, struct dp_register_part *out);

/* What programs of watchpoints have besides: the word of struct dp_watch_regs with that name, 0 when there is none; and back. */
u32 dp_watch_word_find(const char *name, size_t len);
const char *dp_watch_word_name(u32 slot);

struct dp_cpustate {
	u16 number;
	u8 words, source; /* source: enum dp_cpustate_source */
	const char *name;
};

/* The state with that number, or that name; NULL when there is none. */
const struct dp_cpustate *dp_cpustate_by_number(u32 number);
const struct dp_cpustate *dp_cpustate_find(const char *name, size_t len);

/* The i-th register of the table, NULL at the end. */
const struct dp_register *dp_register_at(u32 i);

#endif
