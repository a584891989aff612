/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The context that the kernel gives a signal handler, as words of struct ucontext: the general registers begin behind
 * flags, link and stack. Outside of this folder only the words without a register's name are used. Freestanding;
 * arch/context.h is for hosts with a C library.
 */
#ifndef DP_SIGNAL_CONTEXT_H
#define DP_SIGNAL_CONTEXT_H

#include "program/opcode.h"

enum dp_context_word {
	DP_CTX_R8 = 5,
	DP_CTX_R9,
	DP_CTX_R10,
	DP_CTX_R11,
	DP_CTX_R12,
	DP_CTX_R13,
	DP_CTX_R14,
	DP_CTX_R15,
	DP_CTX_DI,
	DP_CTX_SI,
	DP_CTX_BP,
	DP_CTX_BX,
	DP_CTX_DX,
	DP_CTX_AX,
	DP_CTX_CX,
	DP_CTX_SP,
	DP_CTX_IP,
	DP_CTX_FLAGS,
	DP_CTX_ALT = 2,
	DP_CTX_ALT_FLAGS,
	DP_CTX_ALT_SIZE, /* the alternate stack, at the signal */
	DP_CTX_SEGMENTS = 23,
	DP_CTX_STATE = 28, /* address of the floating point state */
	DP_CTX_MASK = 37,
	DP_CTX_WORDS,

	DP_CTX_ARG0 = DP_CTX_DI, /* of a function */
	DP_CTX_ARG1 = DP_CTX_SI,
	DP_CTX_ARG2 = DP_CTX_DX,
	DP_CTX_RESULT = DP_CTX_AX,
};

#define DP_CTX_USER_CODE 0x33ull
#define DP_CTX_USER_STACK 0x2bull

/* Bits of DP_CTX_FLAGS that programs may change, the arithmetic ones; others (resume, trap) belong to who set them. */
#define DP_CTX_FLAGS_OWN 0x8d5ull
/* Bits that the kernel clears where a handler begins: resume, direction, trap. */
#define DP_CTX_FLAGS_CLEARED 0x10500ull

/* Words of struct dp_regs in the context; 0: it is not there. */
static const u8 dp_context_words[] = {
    [DP_REG_WORD(r15)] = DP_CTX_R15, [DP_REG_WORD(r14)] = DP_CTX_R14,     [DP_REG_WORD(r13)] = DP_CTX_R13,
    [DP_REG_WORD(r12)] = DP_CTX_R12, [DP_REG_WORD(bp)] = DP_CTX_BP,       [DP_REG_WORD(bx)] = DP_CTX_BX,
    [DP_REG_WORD(r11)] = DP_CTX_R11, [DP_REG_WORD(r10)] = DP_CTX_R10,     [DP_REG_WORD(r9)] = DP_CTX_R9,
    [DP_REG_WORD(r8)] = DP_CTX_R8,   [DP_REG_WORD(ax)] = DP_CTX_AX,       [DP_REG_WORD(cx)] = DP_CTX_CX,
    [DP_REG_WORD(dx)] = DP_CTX_DX,   [DP_REG_WORD(si)] = DP_CTX_SI,       [DP_REG_WORD(di)] = DP_CTX_DI,
    [DP_REG_WORD(ip)] = DP_CTX_IP,   [DP_REG_WORD(flags)] = DP_CTX_FLAGS, [DP_REG_WORD(sp)] = DP_CTX_SP,
};

/* A register by the number that instructions have for it. */
static inline u64 dp_context_reg(const u64 *uc, u32 number)
{
	static const u8 words[16] = {DP_CTX_AX,  DP_CTX_CX,  DP_CTX_DX,  DP_CTX_BX, DP_CTX_SP,  DP_CTX_BP,
				     DP_CTX_SI,  DP_CTX_DI,  DP_CTX_R8,  DP_CTX_R9, DP_CTX_R10, DP_CTX_R11,
				     DP_CTX_R12, DP_CTX_R13, DP_CTX_R14, DP_CTX_R15};

	return uc[words[number & 15]];
}

#endif
