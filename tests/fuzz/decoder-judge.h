/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * An independent judge of the decoder: Zydis decodes the same bytes and every field is compared.
 * For tests only.
 */
#ifndef DECODER_JUDGE_H
#define DECODER_JUDGE_H

#include "arch/x86_64/insn.h"

/* Where the decoder differs from the judge on purpose. */
enum judge_category {
	JUDGE_KNC, /* rejected: Knights Corner, a coprocessor with an encoding of its own (MVEX) */
	JUDGE_MPX, /* accepted: all of 0F1A and 0F1B, which no system enables: they are nops then */
	JUDGE_NCATEGORIES
};

extern const char *const judge_category_names[JUDGE_NCATEGORIES];
extern u64 judge_category_counts[JUDGE_NCATEGORIES];

/*
 * Decode code[0..avail) with both. Returns NULL when they agree, else what differs. *len gets the
 * length that both found, 0 when both found it invalid.
 */
const char *judge_decode(const u8 *code, size_t avail, unsigned int *len);

/* Print the bytes and both readings of them as TAP comments. */
void judge_print(const char *what, const u8 *code, size_t avail);

/* 16 random bytes, shaped like an instruction so that deep parts of the decoder are reached. */
void judge_random(u64 *state, u8 code[16]);

#endif
