/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between lower.c, which follows a program, and lower-record.c, which notes what it does. */
#ifndef DP_LOWER_PRIV_H
#define DP_LOWER_PRIV_H

#include "abi/abi-program.h"
#include "program/lower.h"

#define DEPTH 16
#define CALLS 4
#define STEPS 4096
#define HEAD ((u32)sizeof(struct dp_rpn_head))

struct word {
	struct dp_value v;
	bool is_truth; /* v cc c, as 0 or 1 */
	u32 place;     /* of the key that was looked for, in local variables: its number + 1; 0: none */
	enum dp_cc cc;
	u64 c;
};

struct walk {
	struct dp_lowered *p;
	const u8 *code;
	u32 len_code;
	const struct dp_lower_for *in;
	struct word stack[DEPTH];
	u32 depth, base; /* words on the stack, and below its base */
	struct {
		u32 ret, base;
	} calls[CALLS];
	u32 ncalls, jumps, steps, at;
	u16 major, minor;
	u32 len;      /* of the payload */
	bool decides; /* there is a condition, whether it depends on the hit or not */
	bool open, failed, ended;
	bool aside; /* one of two ways is looked at */
};

/* ---- the stack (lower.c) ---- */

/* The i-th word from the top; one that means nothing, when there is none. */
struct word *dp_lower_word(struct walk *w, u32 i);
/* The same as a number: truth values are not computed, and where a key is the hit knows. */
struct word *dp_lower_number(struct walk *w, u32 i);
void dp_lower_drop(struct walk *w, u32 n);
void dp_lower_push_const(struct walk *w, u64 c);

/* ---- opcodes (lower-record.c) ---- */

void dp_lower_effect(struct walk *w, const struct dp_op_view *op);
void dp_lower_find(struct walk *w, const struct dp_op_view *op);
void dp_lower_fold(struct walk *w, const struct dp_op_view *op);
void dp_lower_read(struct walk *w, const struct dp_op_view *op);
void dp_lower_load(struct walk *w, const struct dp_op_view *op);
void dp_lower_load_top(struct walk *w, const struct dp_op_view *op);
void dp_lower_store_top(struct walk *w, const struct dp_op_view *op);
/* One record, which later opcodes only fill. */
void dp_lower_open(struct walk *w, const struct dp_op_view *op);
void dp_lower_put(struct walk *w, u64 off, u8 size, struct dp_value v);
void dp_lower_put_reg(struct walk *w, u64 off, u8 size, u8 reg_word);
void dp_lower_log_words(struct walk *w, u32 n, bool prefix);
void dp_lower_log_counted(struct walk *w);
void dp_lower_finish(struct walk *w);

#endif
