/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Bytecode as what a compiler for hits needs: conditions, then a record, then changes of variables, each of a value
 * that is a constant or a register with some operations on it. Knows no processor; allocates nothing.
 */
#ifndef DP_LOWER_H
#define DP_LOWER_H

#include "program/code.h"

#define DP_LOWER_RETURN 0xff /* in place of a reg_word: the word at the stack pointer */
#define DP_LOWER_PID 0xfe    /* the process's id */
#define DP_LOWER_TID 0xfd    /* the thread's; this and the next for hosts that know them at every hit */
#define DP_LOWER_CPU 0xfc    /* the processor's number */
#define DP_LOWER_WORD 0x80   /* and the next DP_LOWER_WORDS: words[], which were loaded from memory */
#define DP_LOWER_WORDS 16
#define DP_LOWER_OPS 4
#define DP_LOWER_PARTS 4 /* words of a key */

struct dp_value_op {
	struct dp_operation op; /* BINARY, UNARY, SHIFT or EXTEND */
	u32 by;                 /* of BINARY, sign-extended, and of SHIFT */
};

/* A constant, or a word of struct dp_regs and what is done to it. */
struct dp_value {
	bool constant;
	u64 c;
	u8 reg_word;
	u8 size; /* bytes of the register that count */
	bool is_signed;
	u8 nops;
	struct dp_value_op ops[DP_LOWER_OPS];
};

struct dp_lowered_store { /* one field of the record */
	u16 off;
	u8 size;
	struct dp_value v;
};

/* A word of the program that is loaded from memory; where that is not possible, the run is the interpreter's. */
struct dp_lowered_word {
	struct dp_value at; /* a constant, a register, or a word that comes before this one; without operations */
	s32 disp;
	u8 size; /* the word is extended with zeros */
};

struct dp_lowered_load { /* one field, of the memory behind a register; zeros and a bit of the mask where it faults */
	u16 off, size;
	u8 reg_word, field;
	s32 disp;
};

struct dp_lowered_need { /* a condition without which nothing is logged */
	struct dp_value v;
	enum dp_cc cc;
	u64 c;
	bool is_usual; /* without it another way is taken, which is the interpreter's */
	u32 nwords;    /* loaded before */
};

enum dp_effect { DP_EFFECT_UP, DP_EFFECT_DOWN, /* by one */ DP_EFFECT_FOLD };

struct dp_lowered_effect {
	enum dp_effect how;
	u8 kind;    /* of FOLD: enum dp_aggregate_kind */
	bool apart; /* of FOLD: DP_FOLD_APART */
	u8 find;    /* the words behind that key, index + 1; 0: there is an address */
	u64 addr;
	struct dp_value v; /* of FOLD */
};

struct dp_lowered_find {
	u64 table;      /* address of the first place */
	u32 keys, step; /* words from one key's place to the next */
	u32 nparts;     /* words of the key */
	struct dp_value parts[DP_LOWER_PARTS];
};

#define DP_LOWER_STORES 64
#define DP_LOWER_LOADS 16
#define DP_LOWER_NEEDS 16
#define DP_LOWER_EFFECTS 8
#define DP_LOWER_FINDS 4

struct dp_lowered {
	struct dp_lowered_need needs[DP_LOWER_NEEDS];
	struct dp_lowered_store stores[DP_LOWER_STORES];
	struct dp_lowered_load loads[DP_LOWER_LOADS]; /* of events */
	struct dp_lowered_word words[DP_LOWER_WORDS];
	struct dp_lowered_effect effects[DP_LOWER_EFFECTS]; /* can wait until the outcome is committed */
	/* Keys in tables (opcode.h), behind all conditions: the usual is that they are there already. */
	struct dp_lowered_find finds[DP_LOWER_FINDS];
	u32 nneeds, nstores, nloads, nwords, neffects, nfinds;
	u32 early;  /* effects that happen when a condition does not hold, too */
	bool never; /* there will be no record: what happens behind the conditions are so many effects */
	u32 none;
	bool is_rpn, has_mask;
	u32 size;      /* of the payload */
	u32 rec_flags; /* of the record, DP_REC_* */
};

/* What a program is lowered for. */
struct dp_lower_for {
	const struct dp_code_rt
	    *rt;       /* limits and addresses of a program of the Dynamic Probes language; NULL: an event */
	u64 reg_words; /* bit i: a compiled program can read word i of struct dp_regs */
	bool knows;    /* $pid, $tid and $cpu, too */
	bool words;    /* memory as words that are loaded one by one; else loads[], of events */
	const struct dp_known_word *known; /* NULL: none */
};

/*
 * Follow the usual run of a verified program. False where the program may raise an exception but by memory that cannot
 * be loaded, loop, look at what it has changed, or is too long: it is the interpreter's then.
 *
 * A decision is a condition where one way out of it ends with nothing done. Where both do something, and do not come
 * together with nothing done, the one that jumps is the usual: compilers jump over what is done under a condition.
 */
bool dp_lower(struct dp_lowered *out, const u8 *code, u32 len, const struct dp_lower_for *in);

/* Whether both are one value; neither has operations. */
static inline bool dp_value_is_same(const struct dp_value *a, const struct dp_value *b)
{
	return a->constant == b->constant && (a->constant ? a->c == b->c : a->reg_word == b->reg_word);
}

/* What v is, where its register holds word. */
u64 dp_value_of(const struct dp_value *v, u64 word);

#endif
