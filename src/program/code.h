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

enum dp_operand_kind {
	DP_KIND_NONE, /* ends a list */
#define DP_OPERAND(kind, ...) DP_KIND_##kind,
#include "program/operands.def"
};

/* What opcodes compute. How: of which sort, an enum that is named here. */
enum dp_does {
	DP_DOES_OWN,
	DP_DOES_CONSTANT,
	DP_DOES_BINARY,    /* dp_alu: two words give one */
	DP_DOES_UNARY,     /* dp_alu */
	DP_DOES_COMPARE,   /* dp_cc: two words give 0 or 1 */
	DP_DOES_TRUTH,     /* dp_cc: with 0 */
	DP_DOES_EXTEND,    /* the lowest `size` bytes count */
	DP_DOES_SHIFT,     /* dp_shift, by an operand */
	DP_DOES_SHIFT_BY,  /* by a word */
	DP_DOES_BITS,      /* dp_bits, at an operand */
	DP_DOES_BITS_BY,   /* at a word */
	DP_DOES_STACK,     /* dp_access: a word of the stack, from dp_base, by an operand */
	DP_DOES_STACK_AT,  /* by a word */
	DP_DOES_VAR,       /* dp_access: a variable, of dp_variables, by an operand */
	DP_DOES_VAR_AT,    /* by a word */
	DP_DOES_REGISTER,  /* dp_access */
	DP_DOES_PART,      /* `size` bytes of a word of struct dp_regs */
	DP_DOES_READ,      /* memory */
	DP_DOES_WRITE,     /* memory */
	DP_DOES_HEAP,      /* dp_access */
	DP_DOES_STORE,     /* a word into the record */
	DP_DOES_STORE_REG, /* a word of struct dp_regs into the record */
	DP_DOES_BRANCH,    /* dp_cc: with 0 */
	DP_DOES_NEED,      /* dp_cc: with an operand, or with 0 */
	DP_DOES_NEED_REG,  /* dp_cc: a word of struct dp_regs with an operand */
	DP_NDOES
};

enum dp_alu {
#define DP_ALU(name, ...) DP_ALU_##name,
#include "program/formulas.def"
};

/* Conditions; cc ^ 1 is the opposite of cc. U: unsigned. */
enum dp_cc {
#define DP_CC(name, ...) DP_CC_##name,
#include "program/formulas.def"
	DP_NCC
};

enum dp_shift {
#define DP_SHIFT(name, ...) DP_SHIFT_##name,
#include "program/formulas.def"
};

enum dp_bits {
#define DP_BITS(name, ...) DP_BITS_##name,
#include "program/formulas.def"
};

enum dp_access { DP_ACCESS_PUSH, DP_ACCESS_POP, DP_ACCESS_COPY, DP_ACCESS_MOVE, DP_ACCESS_INC, DP_ACCESS_DEC };
enum dp_base { DP_BASE_TOP, DP_BASE_BASE };
enum dp_variables { DP_VARIABLES_LOCAL, DP_VARIABLES_GLOBAL };

struct dp_operation {
	u8 does;  /* enum dp_does */
	u8 how;   /* see there */
	u8 where; /* enum dp_base, enum dp_variables */
	u8 size;  /* bytes */
	bool is_signed;
};

struct dp_opcode_info {
	const char *text;                 /* "push r" */
	u8 operands[DP_OPERANDS_MAX + 1]; /* enum dp_operand_kind; DP_KIND_NONE behind the last */
	u8 pops, pushes;
	u8 rule;  /* enum dp_rule */
	u16 work; /* beyond its bytes, whatever its operands */
	struct dp_operation op;
	const char *meaning;
};

u32 dp_opcode_noperands(const struct dp_opcode_info *info);

/* The table entry of an opcode; NULL when there is none with that number. */
const struct dp_opcode_info *dp_opcode_info(u32 opcode);

/* The opcodes in order: *i starts at 0; returns false at the end. */
bool dp_opcode_next(u32 *i, u32 *opcode);

struct dp_op_view {
	u32 opcode;
	const struct dp_opcode_info *info;
	u32 at, len;            /* of the whole instruction in the code */
	s64 v[DP_OPERANDS_MAX]; /* operands in order; JUMP: absolute offset; TEXT: its length */
	const u8 *text;         /* of the TEXT operand */
};

/*
 * Take the instruction at `at` apart. 0, or -EINVAL when there is no such opcode (info NULL) or it
 * does not end within len (info set).
 */
int dp_op_decode(const u8 *code, u32 len, u32 at, struct dp_op_view *out);

/* The operand of that kind; 0 when the opcode has none. */
s64 dp_op_operand(const struct dp_op_view *insn, enum dp_operand_kind kind);

/* Whether an operand of that kind can hold v. */
bool dp_operand_fits(enum dp_operand_kind kind, s64 v);

/*
 * How many words the instruction takes from the stack and puts there. What only a hit knows is left out: rules ANY and
 * RPN_ANY.
 */
void dp_op_effect(const struct dp_op_view *insn, u32 *pops, u32 *pushes);

/* Of a call of an exit facility: the words that it passes and gets; its name is the instruction's text. */
void dp_op_exit(const struct dp_op_view *insn, u32 *args, u32 *results);

/* What it costs beyond its bytes, as far as its operands tell (program/work.h). */
u32 dp_op_work(const struct dp_op_view *insn);

/* The value of DP_DOES_CONSTANT. */
u64 dp_op_constant(const struct dp_op_view *insn);

/* What formulas.def says of x and y. */
u64 dp_alu(enum dp_alu op, u64 x, u64 y);
bool dp_cc_holds(enum dp_cc cc, u64 x, u64 y);

struct dp_known_word { /* of struct dp_regs, at every hit that is spoken of */
	u32 reg_word;
	u64 v;
};

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

#define DP_PUT(c, op, ...) dp_asm_put(c, DP_OP_##op, (const s64[]){__VA_ARGS__ __VA_OPT__(, ) 0}, NULL)

struct dp_register {
	u16 number;
	u8 reg_word; /* word of struct dp_regs */
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
const struct dp_register *dp_register_by_word(u32 reg_word);
bool dp_register_find(const char *name, size_t len, struct dp_register_part *out);

/*
 * What programs of watchpoints have besides: the word of struct dp_watch_regs with that name, 0 when there is none; and
 * back.
 */
u32 dp_watch_word_find(const char *name, size_t len);
const char *dp_watch_word_name(u32 reg_word);

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
