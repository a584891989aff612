/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The processor's instructions as the compilers write them: one function for each form, no
 * meanings. Memory operands always carry a displacement of 32 bits and operations a REX prefix, so
 * that lengths do not depend on values.
 */
#ifndef DP_ENCODE_H
#define DP_ENCODE_H

#include "arch/x86_64/relocate.h"
#include "program/code.h"

enum reg { AX, CX, DX, BX, SP, BP, SI, DI, R8, R9, R10, R11, R12, R13, R14, R15 };

enum {
	CC_B = 2,
	CC_AE = 3,
	CC_E = 4,
	CC_NE = 5,
	CC_BE = 6,
	CC_A = 7,
	CC_S = 8,
	CC_NS = 9,
	CC_L = 12,
	CC_GE = 13,
	CC_LE = 14,
	CC_G = 15,
	CC_ALWAYS = 16
};

/* The conditions of programs (enum dp_cc); the opposite is cc ^ 1 in both. */
static const u8 cc_of[DP_NCC] = {
    [DP_CC_EQ] = CC_E, [DP_CC_NE] = CC_NE, [DP_CC_LT] = CC_L,   [DP_CC_GE] = CC_GE,  [DP_CC_LE] = CC_LE,
    [DP_CC_GT] = CC_G, [DP_CC_LTU] = CC_B, [DP_CC_GEU] = CC_AE, [DP_CC_LEU] = CC_BE, [DP_CC_GTU] = CC_A,
};

/* n of the operations that have an immediate (op_imm), and of those that do not (8 * n + 1: to
 * memory or register). */
enum alu { ALU_ADD, ALU_OR, ALU_AND = 4, ALU_SUB, ALU_XOR, ALU_CMP };

/* n of the shifts. */
enum shift { SHIFT_ROL, SHIFT_ROR, SHIFT_SHL = 4, SHIFT_SHR, SHIFT_SAR = 7 };

#define NO_INDEX SP /* what the processor takes for no index */

/* [base + index * scale + disp]; scale is 1, 2, 4 or 8. */
struct mem {
	u8 base, index, scale;
	s32 disp;
};

#define AT(base, disp) ((struct mem){(base), NO_INDEX, 1, (s32)(disp)})

/* Bytes of opcode behind the prefixes, lowest first: 0x8b, or 0xb60f for 0f b6. */
static inline void put_opcode(struct dp_emit *e, u32 op)
{
	for (; op; op >>= 8)
		dp_emit_u8(e, (u8)op);
}

/* An operation on a register and memory; wide: 64 bits. */
static inline void op_mem(struct dp_emit *e, bool wide, u32 op, u8 reg, struct mem m)
{
	dp_emit_u8(e, (u8)(0x40 | wide << 3 | (reg >> 3) << 2 | (m.index >> 3) << 1 | m.base >> 3));
	put_opcode(e, op);
	if (m.index == NO_INDEX && (m.base & 7) != SP) {
		dp_emit_u8(e, (u8)(0x80 | (reg & 7) << 3 | (m.base & 7)));
	} else {
		u8 scale = m.scale == 8 ? 3 : m.scale == 4 ? 2 : m.scale == 2;

		dp_emit_u8(e, (u8)(0x84 | (reg & 7) << 3));
		dp_emit_u8(e, (u8)(scale << 6 | (m.index & 7) << 3 | (m.base & 7)));
	}
	dp_emit_u32(e, (u32)m.disp);
}

static inline void op_reg(struct dp_emit *e, bool wide, u32 op, u8 reg, u8 rm)
{
	dp_emit_u8(e, (u8)(0x40 | wide << 3 | (reg >> 3) << 2 | rm >> 3));
	put_opcode(e, op);
	dp_emit_u8(e, (u8)(0xc0 | (reg & 7) << 3 | (rm & 7)));
}

static inline void load(struct dp_emit *e, u8 to, struct mem m)
{
	op_mem(e, true, 0x8b, to, m);
}

static inline void load32(struct dp_emit *e, u8 to, struct mem m)
{
	op_mem(e, false, 0x8b, to, m);
}

/* A value of 1, 2, 4 or 8 bytes, extended to the whole register. */
static inline void load_part(struct dp_emit *e, u8 to, struct mem m, u32 bytes, bool is_signed)
{
	if (bytes == 8)
		load(e, to, m);
	else if (bytes == 4)
		op_mem(e, is_signed, is_signed ? 0x63 : 0x8b, to, m);
	else
		op_mem(e, is_signed, (bytes == 1 ? 0xb60fu : 0xb70fu) + (is_signed ? 0x800 : 0), to, m);
}

/* The low bytes of a register, extended to the whole of another. */
static inline void move_part(struct dp_emit *e, u8 to, u8 from, u32 bytes, bool is_signed)
{
	if (bytes == 4)
		op_reg(e, is_signed, is_signed ? 0x63 : 0x8b, to, from);
	else
		op_reg(e, is_signed, (bytes == 1 ? 0xb60fu : 0xb70fu) + (is_signed ? 0x800 : 0), to, from);
}

static inline void store(struct dp_emit *e, struct mem m, u8 from)
{
	op_mem(e, true, 0x89, from, m);
}

static inline void store32(struct dp_emit *e, struct mem m, u8 from)
{
	op_mem(e, false, 0x89, from, m);
}

/* The value is extended with its sign when wide. */
static inline void store_imm(struct dp_emit *e, bool wide, struct mem m, u32 imm)
{
	op_mem(e, wide, 0xc7, 0, m);
	dp_emit_u32(e, imm);
}

static inline void store_imm8(struct dp_emit *e, struct mem m, u8 imm)
{
	op_mem(e, false, 0xc6, 0, m);
	dp_emit_u8(e, imm);
}

static inline void or_imm(struct dp_emit *e, struct mem m, u32 imm)
{
	op_mem(e, false, 0x81, 1, m);
	dp_emit_u32(e, imm);
}

static inline void store_imm16(struct dp_emit *e, struct mem m, u16 imm)
{
	dp_emit_u8(e, 0x66);
	op_mem(e, false, 0xc7, 0, m);
	dp_emit_bytes(e, &imm, 2);
}

static inline void lea(struct dp_emit *e, bool wide, u8 to, struct mem m)
{
	op_mem(e, wide, 0x8d, to, m);
}

static inline void move(struct dp_emit *e, u8 to, u8 from)
{
	op_reg(e, true, 0x89, from, to);
}

static inline void op_imm(struct dp_emit *e, bool wide, enum alu n, u8 reg, u32 imm)
{
	op_reg(e, wide, 0x81, (u8)n, reg);
	dp_emit_u32(e, imm);
}

static inline void op_regs(struct dp_emit *e, bool wide, enum alu n, u8 to, u8 from)
{
	op_reg(e, wide, 8 * (u32)n + 1, from, to);
}

static inline void test(struct dp_emit *e, bool wide, u8 reg)
{
	op_reg(e, wide, 0x85, reg, reg);
}

/* One of the first eight. */
static inline void thread_pointer(struct dp_emit *e, u8 reg, bool has_rdfsbase)
{
	if (has_rdfsbase) {
		dp_emit_bytes(e, "\xf3\x48\x0f\xae", 4); /* rdfsbase %reg */
		dp_emit_u8(e, (u8)(0xc0 | reg));
	} else {
		dp_emit_bytes(e, "\x64\x48\x8b", 3); /* mov %fs:0,%reg */
		dp_emit_u8(e, (u8)(0x04 | reg << 3));
		dp_emit_bytes(e, "\x25\0\0\0\0", 5);
	}
}

static inline void move_imm32(struct dp_emit *e, u8 reg, u32 imm) /* the upper half becomes zero */
{
	op_reg(e, false, 0xc7, 0, reg);
	dp_emit_u32(e, imm);
}

/* All 64 bits, always ten bytes long: for addresses. */
static inline void move_address(struct dp_emit *e, u8 reg, u64 imm)
{
	dp_emit_u8(e, (u8)(0x48 | reg >> 3));
	dp_emit_u8(e, (u8)(0xb8 | (reg & 7)));
	dp_emit_u64(e, imm);
}

static inline void move_const(struct dp_emit *e, u8 reg, u64 imm)
{
	if (imm == (u32)imm)
		move_imm32(e, reg, (u32)imm);
	else
		move_address(e, reg, imm);
}

static inline void push(struct dp_emit *e, u8 reg)
{
	if (reg >= 8)
		dp_emit_u8(e, 0x41);
	dp_emit_u8(e, (u8)(0x50 | (reg & 7)));
}

static inline void pop(struct dp_emit *e, u8 reg)
{
	if (reg >= 8)
		dp_emit_u8(e, 0x41);
	dp_emit_u8(e, (u8)(0x58 | (reg & 7)));
}

/* setcc of the low byte, which is extended then; the register must not be one that is compared
 * behind it. */
static inline void set_if(struct dp_emit *e, u8 cc, u8 reg)
{
	op_reg(e, false, 0x900fu + ((u32)cc << 8), 0, reg);
	move_part(e, reg, reg, 1, false);
}

/* A jump whose target comes later; returns the place of its displacement. */
static inline size_t jump_hole(struct dp_emit *e, u8 cc)
{
	if (cc == CC_ALWAYS) {
		dp_emit_u8(e, 0xe9);
	} else {
		dp_emit_u8(e, 0x0f);
		dp_emit_u8(e, (u8)(0x80 | cc));
	}
	dp_emit_u32(e, 0);
	return e->len - 4;
}

/* Let it lead to offset `to`. */
static inline void fill_hole(struct dp_emit *e, size_t hole, size_t to)
{
	u32 rel = (u32)(to - hole - 4);

	if (!e->overflow)
		memcpy(e->buf + hole, &rel, 4);
}

static inline void land_here(struct dp_emit *e, size_t hole)
{
	fill_hole(e, hole, e->len);
}

enum go_op { GO_CALL = 0xe8, GO_JUMP }; /* as direct ones begin */

/* Within 2 GiB; what is farther off overflows. */
static inline void go_near(struct dp_emit *e, enum go_op op, u64 address)
{
	s64 distance = (s64)(address - (dp_emit_here(e) + 5));

	e->overflow |= distance != (s32)distance;
	dp_emit_u8(e, op);
	dp_emit_u32(e, (u32)distance);
}

/* Wherever that is; ax is lost. */
static inline void go_far(struct dp_emit *e, enum go_op op, u64 address)
{
	move_address(e, AX, address);
	dp_emit_bytes(e, op == GO_CALL ? "\xff\xd0" : "\xff\xe0", 2); /* call, jmp *%rax */
}

#endif
