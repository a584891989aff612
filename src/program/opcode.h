/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is made from opcodes.def and registers.def for everybody: the opcode enum, one packed struct
 * of operands per opcode, exception codes. Also included by the hit path: no functions with state.
 */
#ifndef DP_OPCODE_H
#define DP_OPCODE_H

#include "abi/abi-record.h"
#include "abi/abi-regs.h"

#define DP_PREFIX 0xF1    /* first byte of a two-byte opcode */
#define DP_CODE_MAX 65535 /* bytes of one program */
#define DP_JMPMAX 65535   /* largest jump budget */
#define DP_LOCALS_MAX 32768
#define DP_GLOBALS_MAX 256
#define DP_KEY_WORDS_MAX 96     /* of a table */
#define DP_TEXT_OPERAND_MAX 256 /* bytes of a constant string in the code */
#define DP_SCRATCH_SIZE 512     /* bytes of dp_vm.scratch */
#define DP_LOGMAX (DP_RECORD_MAX - sizeof(struct dp_record))

enum dp_opcode {
#define DP_OPCODE(number, id, ...) DP_OP_##id = number,
#define DP_OPCODE2(number, id, ...) DP_OP_##id = DP_PREFIX << 8 | number,
#include "program/opcodes.def"
};

/* What the verifier does with an opcode besides checking its operands. */
enum dp_rule {
	DP_RULE_NEXT,     /* control goes to the next instruction */
	DP_RULE_JUMP,     /* ... to the target only */
	DP_RULE_BRANCH,   /* ... to either */
	DP_RULE_END,      /* ... nowhere */
	DP_RULE_COPY,     /* also pushes as many words as its COUNT says */
	DP_RULE_DROP,     /* pops as many words as its COUNT says */
	DP_RULE_PUSHN,    /* also pushes as many words as its NUM says, at most DP_FRAMES_MAX */
	DP_RULE_ANY,      /* pushes a number of words that only the hit knows */
	DP_RULE_OPEN,     /* opens the record; LEN is its fixed size */
	DP_RULE_OPENMASK, /* the same with a fault mask */
	DP_RULE_STORE1,   /* stores that many bytes at OFF in the open record */
	DP_RULE_STORE2,
	DP_RULE_STORE4,
	DP_RULE_STORE8,
	DP_RULE_RETURN8, /* stores 8, at a function's exit only */
	DP_RULE_SPAN,    /* stores LEN bytes */
	DP_RULE_SCRATCH, /* puts a text into the scratch memory, where LEN bytes must fit */
	DP_RULE_COMM,    /* puts a short text there */
	DP_RULE_PATTERN, /* needs a text there; TEXT is at most DP_TEXT_OPERAND_MAX long */
	/* The rest only in RPN programs (struct dp_program.ex_mask set). */
	DP_RULE_BEGIN,     /* the first instruction, and only that */
	DP_RULE_RPN,       /* control goes to the next instruction */
	DP_RULE_RPN_END,   /* ... nowhere that is known here */
	DP_RULE_RPN_ANY,   /* leaves a number of words on the stack that only the hit knows */
	DP_RULE_RPN_PUSHN, /* also pushes as many words as its NUM says */
	DP_RULE_RPN_POPN,  /* also pops as many words as its NUM says */
	DP_RULE_RPN_TEXT,  /* the same; NUM words fit into the scratch memory */
	DP_RULE_RPN_CHAIN, /* NUM words of a call chain; the table that its operands describe lies there, too */
	DP_RULE_RPN_FIND,  /* pops NUM words; the table that its operands describe lies in the local variables */
	DP_RULE_RPN_FOLD,  /* NUM is an enum dp_aggregate_kind */
	DP_RULE_EXIT,      /* calls an exit facility: pops and pushes as many words as its operands say */
	DP_RULE_CALL,      /* control goes to the target, and comes back behind with any stack */
	DP_RULE_HANDLER,   /* control may come to the target at any time from now on, with any stack */
	DP_RULE_KERNEL,    /* for probes in the kernel only */
	DP_RULE_KERNEL_TV, /* the same; the table of processes that its operands describe is like that of FIND */
};

/* The operands of each opcode as they stand in the code, right behind it. */
#define DP_OPERAND(kind, type, ...) typedef type dp_operand_##kind;
#include "program/operands.def"
#define ARG(kind, name) dp_operand_##kind name;
#define DP_OPCODE(number, id, text, operands, ...) \
	struct dp_args_##id {                      \
		operands                           \
	} __attribute__((packed));
#define DP_OPCODE2 DP_OPCODE
#include "program/opcodes.def"

/* What words of local variables add up to. The words of one of them, and what they mean: */
enum dp_aggregate_kind {
	DP_AGG_COUNT, /* one word */
	DP_AGG_SUM,   /* sum, number of values */
	DP_AGG_MIN,   /* value, whether there is one */
	DP_AGG_MAX,
	DP_AGG_HIST,      /* one word for 0 and less, then one for each power of two */
	DP_AGG_LAST,      /* the last value */
	DP_AGG_LINEAR,    /* one word for negative numbers, then one for each from 0 to 61, and one for all above */
	DP_AGG_QUANTILES, /* a word for each of dp_quantile_bar() */
	DP_NAGGS,
	DP_FOLD_BACK = DP_NAGGS, /* of `fold` alone: what was added to a sum is taken back */
	DP_NFOLDS
};

/*
 * With the kind, for those that are sums: no program reads the words, so a host may keep apart what each processor adds
 * (struct dp_apart), for whoever shows them.
 */
#define DP_FOLD_APART 0x100

static inline bool dp_fold_can_be_apart(u32 kind)
{
	return kind == DP_AGG_COUNT || kind == DP_AGG_SUM || kind == DP_AGG_HIST || kind == DP_AGG_LINEAR ||
	       kind == DP_AGG_QUANTILES;
}

#define DP_HIST_WORDS 64
#define DP_QUANTILE_WORDS 252
#define DP_AGG_WORDS_MAX DP_QUANTILE_WORDS

/* Four bars for each power of two: what is told of a bar is wrong by an eighth at most. 0 has all that is less. */
static inline u32 dp_quantile_bar(s64 value)
{
	u32 power;

	if (value < 4)
		return value < 0 ? 0 : (u32)value;
	power = 63 - (u32)__builtin_clzll((u64)value);
	return 4 * (power - 1) + (u32)((u64)value >> (power - 2) & 3);
}

static inline u32 dp_aggregate_words(u32 kind)
{
	if (kind == DP_AGG_HIST || kind == DP_AGG_LINEAR)
		return DP_HIST_WORDS;
	if (kind == DP_AGG_QUANTILES)
		return DP_QUANTILE_WORDS;
	return kind == DP_AGG_COUNT || kind == DP_AGG_LAST ? 1 : 2;
}

/*
 * A table of keys: a word that counts what found no room, then for each key a word of state (0 free, 1 being
 * written, 2 valid, 3 left: its owner has ended, and another key may have it), the key, and the words that belong to
 * it.
 */
#define DP_TABLE_FREE 0
#define DP_TABLE_BUSY 1
#define DP_TABLE_VALID 2
#define DP_TABLE_LEFT 3

#define DP_TABLE_TRIES 128 /* places looked at for a key: so many only where a table is nearly full */

/* Of word i of a key: no word waits for the one before it. */
static inline u64 dp_table_factor(u32 i)
{
	const u64 first = 0x9e3779b97f4a7c15ull;
	u32 by = 11 * i % 64;

	return first << by | first >> (-by & 63) | 1;
}

/* The hash of a key, from 0 on, with its word i. */
static inline u64 dp_table_hash(u64 hash, u32 i, u64 word)
{
	return hash + word * dp_table_factor(i);
}

/* Where the search for a key begins: without a division, of the bits that are mixed best. */
static inline u32 dp_table_place(u64 hash, u32 keys)
{
	return (u32)((hash >> 32) * keys >> 32);
}

/*
 * What a call chain is known by: the sum of its mixed addresses, each by a power of a number for its place, the hit's
 * first. So the digest of a whole is put together from those of its parts.
 */
#define DP_CHAIN_BASE 0xd6e8feb86659fd93ull

static inline u64 dp_chain_mixed(u64 ip)
{
	ip = (ip ^ ip >> 32) * 0x9e3779b97f4a7c15ull;
	return (ip ^ ip >> 29) * 0xbf58476d1ce4e5b9ull;
}

static inline u64 dp_chain_digest(const u64 *ips, u32 n)
{
	u64 digest = 0;

	while (n-- > 0)
		digest = digest * DP_CHAIN_BASE + dp_chain_mixed(ips[n]);
	return digest;
}

static inline u64 dp_table_words(u64 key_words, u64 keys, u64 words)
{
	return 1 + keys * (1 + key_words + words);
}

/* Exception codes, as Dynamic Probes numbers them. */
enum dp_exception {
	DP_EX_INVALID_ADDR = 0x0001,
	DP_EX_SEG_FAULT = 0x0002,
	DP_EX_MAX_JMPS = 0x0004,
	DP_EX_MAX_WORK = 0x0008, /* ours: the run has cost all that it may */
	DP_EX_CALL_STACK_OVERFLOW = 0x0010,
	DP_EX_DIV_BY_ZERO = 0x0020,
	DP_EX_INVALID_OPERAND = 0x0040,
	DP_EX_INVALID_OPCODE = 0x0080,
	DP_EX_HEAP_NOMEM = 0x0100,
	DP_EX_HEAP_INVALID_HANDLE = 0x0200,
	DP_EX_HEAP_INVALID_OFFSET = 0x0400,
	DP_EX_LOG_OVERFLOW = 0x1000,
	DP_EX_RPN_STACK_WRAP = 0x2000,
	DP_EX_USER = 0x8000,
};

/* First parameter of DP_EX_INVALID_OPERAND. */
enum dp_bad_operand {
	DP_BAD_LOCAL = 1,
	DP_BAD_GLOBAL,
	DP_BAD_BIT,
	DP_BAD_FACILITY,
	DP_BAD_POSITION, /* ours: a log position that was not reached yet */
	DP_BAD_ASK,      /* ours: a system call that a filter forbids */
};

#define DP_EX_DEFAULT 0x0fff     /* mask when the program gives none */
#define DP_EX_NONMASKABLE 0x0fff /* these end a program that does not enable them */

#define DP_EXIT_WORDS_MAX 8 /* that an exit facility takes, or gives */
#define DP_EXIT_NAME_MAX 32 /* bytes of its name, with the end */

#define DP_EXIT_KDB 1
#define DP_EXIT_CRASHDUMP 2
#define DP_EXIT_COREDUMP 3
#define DP_EXIT_COREDUMP_ANY 4 /* whatever RLIMIT_CORE is, as far as it can be raised */

/* Where a state of cpustates.def comes from. */
enum dp_cpustate_source { DP_CPUSTATE_FX, DP_CPUSTATE_SEGMENT, DP_CPUSTATE_KERNEL };

/* Registers: words of struct dp_regs. */
#define DP_NREG_WORDS (sizeof(struct dp_regs) / 8)
#define DP_REG_WORD(member) (offsetof(struct dp_regs, member) / 8)

/* Programs of watchpoints have more to read: words of struct dp_watch_regs. */
#define DP_NWATCH_WORDS (sizeof(struct dp_watch_regs) / 8)
#define DP_WATCH_WORD(member) (offsetof(struct dp_watch_regs, member) / 8)

#endif
