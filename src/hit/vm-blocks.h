/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the blocks of the interpreter are made of, and the blocks of all opcodes whose line in opcodes.def says what
 * they compute. For vm.c alone: all this stands inside of its one function, and uses its variables.
 */
#ifndef DP_VM_BLOCKS_H
#define DP_VM_BLOCKS_H

#include "program/formulas.h"
#include "program/work.h"

/* Record fields, items of the heap and code operands may lie at any address. */
typedef u8 any_u8;
typedef u16 __attribute__((aligned(1), may_alias)) any_u16;
typedef u32 __attribute__((aligned(1), may_alias)) any_u32;
typedef u64 __attribute__((aligned(1), may_alias)) any_u64;

enum {
#define DP_OPCODE(number, id, text, operands, pops, pushes, rule, work, ...) DP_WORK_OF_##id = (work),
#define DP_OPCODE2 DP_OPCODE
#include "program/opcodes.def"
};

/* The blocks of opcodes are no statements to clang-format. */
/* clang-format off */

#define TOP(i) stack[(sp + (i)) & (DP_VM_STACK - 1)]
#define DROP(n) (sp += (n))
#define PUSH(v)                                                                                    \
	do {                                                                                       \
		u64 value_ = (v);                                                                  \
		sp--;                                                                              \
		TOP(0) = value_;                                                                   \
	} while (0)

/* Begin the block of an opcode: `a` are its operands, pc stands behind them. */
#define OP(id)                                                                                     \
	op_##id:                                                                                   \
	{                                                                                          \
		const struct dp_args_##id *const a = (const void *)pc;                             \
		pc += sizeof(*a);                                                                  \
		(void)a;                                                                           \
		if (DP_WORK_OF_##id)                                                               \
			SPEND(DP_WORK_OF_##id);
#define NEXT goto *(&&op_ILLEGAL + labels[*pc++])
#define END                                                                                        \
	NEXT;                                                                                      \
	}

/* What follows is for the program to say (RPN), or the end. */
#define RAISE(what, p1, p2)                                                                        \
	do {                                                                                       \
		h->vm->rpn.parm1 = (p1);                                                           \
		h->vm->rpn.parm2 = (p2);                                                           \
		h->vm->rpn.code = (what);                                                          \
		goto exception;                                                                    \
	} while (0)

/* Before anything is done: work that is too much is not begun. What costs nothing is done all the same. */
#define SPEND(n)                                                                                   \
	do {                                                                                       \
		s64 n_ = (n);                                                                      \
		h->work -= n_;                                                                     \
		if (DP_UNLIKELY((h->work < 0) & (n_ != 0)))                                        \
			goto spent;                                                                \
	} while (0)

/* Where a transfer of control leads back; it is never more than what was executed since it was there. */
#define SPEND_BACK                                                                                 \
	do {                                                                                       \
		if (a->to < 0)                                                                     \
			SPEND(-(s64)a->to);                                                        \
	} while (0)

#define COUNT_JUMP                                                                                 \
	do {                                                                                       \
		SPEND_BACK;                                                                        \
		if (DP_UNLIKELY(jumps == h->prog->jmpmax))                                         \
			RAISE(DP_EX_MAX_JMPS, h->prog->jmpmax, 0);                                 \
		jumps++;                                                                           \
	} while (0)

/*
 * An operation of opcodes.def is the block's name and what it needs to know; a block gets the opcode's id, the number
 * of words that the opcode takes, and that.
 */
#define BLOCK(id, pops, ...) BLOCK_(id, pops, __VA_ARGS__)
#define BLOCK_(id, pops, make, ...) make(id, pops, __VA_ARGS__)

/* Those of vm.c. */
#define OWN ELSEWHERE,
#define CONSTANT ELSEWHERE,
#define ELSEWHERE(...)

/* The words that it takes become one. */
#define FORMULA(formula) PURE, (formula)
#define BINARY(alu) PURE, dp_alu_##alu(x, y)
#define UNARY(alu) PURE, dp_alu_##alu(x, 0)
#define COMPARE(cc) PURE, dp_cc_##cc(x, y)
#define TRUTH(cc) PURE, dp_cc_##cc(x, 0)
#define EXTEND(sign, bits) PURE, (u64)(s64)(TYPE_##sign(bits))x
#define SHIFT(way) PURE, dp_shift_##way(x, a->n & 63)
#define SHIFT_BY(way) PURE, dp_shift_##way(y, x)
#define BITS(way) PURE, dp_bits_##way(x, a->n)
#define PURE(id, pops, formula)                                                                    \
	OP(id)                                                                                     \
	u64 x = TOP((pops) - 1), y = TOP(0);                                                       \
	(void)y;                                                                                   \
	DROP((pops) - 1);                                                                          \
	TOP(0) = (formula);                                                                        \
	END

#define TYPE_U(bits) u##bits
#define TYPE_S(bits) s##bits

#define BITS_BY(way) BITS_FROM_STACK, dp_bits_##way
#define BITS_FROM_STACK(id, pops, formula)                                                         \
	OP(id)                                                                                     \
	u64 x = TOP(1), n = TOP(0);                                                                \
	if (DP_UNLIKELY(n - 1 > 63))                                                               \
		RAISE(DP_EX_INVALID_OPERAND, DP_BAD_BIT, n);                                       \
	DROP(1);                                                                                   \
	TOP(0) = formula(x, n);                                                                    \
	END

#define BRANCH(cc) JUMP_IF, dp_cc_##cc
#define JUMP_IF(id, pops, holds)                                                                   \
	OP(id)                                                                                     \
	if (holds(TOP(0), 0)) {                                                                    \
		COUNT_JUMP;                                                                        \
		pc += a->to;                                                                       \
	}                                                                                          \
	END

/*
 * Places: variables and words of the stack. Which one, an operand or a word says. The word is looked at before anything
 * is taken from the stack.
 */
#define AT_LOCAL(i) ((u64 *)h->prog->locals)[i]
#define AT_GLOBAL(i) ((u64 *)h->prog->globals)[i]
#define AT_BASE(i) stack[(h->vm->rpn.base + (u32)(i)) & (DP_VM_STACK - 1)]
#define AT_TOP(i) TOP((u32)(i))

#define CHECK_INDEX(i, n, which)                                                                   \
	do {                                                                                       \
		if (DP_UNLIKELY((i) >= (n)))                                                       \
			RAISE(DP_EX_INVALID_OPERAND, which, i);                                    \
	} while (0)
#define CHECK_LOCAL(i) CHECK_INDEX(i, h->prog->nlocals, DP_BAD_LOCAL)
#define CHECK_GLOBAL(i) CHECK_INDEX(i, h->prog->nglobals, DP_BAD_GLOBAL)
#define CHECK_BASE(i)
#define CHECK_TOP(i)

#define DO_PUSH(at, i) PUSH(at(i));
#define DO_POP(at, i) u64 v = TOP(0); DROP(1); at(i) = v;
#define DO_COPY(at, i) at(i) = TOP(0);
#define DO_MOVE DO_COPY
#define DO_INC(at, i) __atomic_fetch_add(&at(i), 1, __ATOMIC_RELAXED);
#define DO_DEC(at, i) __atomic_fetch_sub(&at(i), 1, __ATOMIC_RELAXED);

#define VAR(which, access) ACCESS, DO_##access, AT_##which
#define STACK VAR
#define ACCESS(id, pops, access, at) OP(id) access(at, a->i) END

#define VAR_AT(which, access) ACCESS_##access, DO_##access, AT_##which, CHECK_##which
#define STACK_AT VAR_AT
#define ACCESS_PUSH(id, pops, access, at, check)                                                   \
	OP(id)                                                                                     \
	u64 i = TOP(0);                                                                            \
	check(i);                                                                                  \
	DROP(1);                                                                                   \
	access(at, i)                                                                              \
	END
#define ACCESS_COPY ACCESS_PUSH
#define ACCESS_MOVE ACCESS_PUSH
#define ACCESS_INC ACCESS_PUSH
#define ACCESS_DEC ACCESS_PUSH
#define ACCESS_POP(id, pops, access, at, check)                                                    \
	OP(id)                                                                                     \
	u64 i = TOP(1), v = TOP(0);                                                                \
	check(i);                                                                                  \
	DROP(2);                                                                                   \
	at(i) = v;                                                                                 \
	END

#define HEAP(access, bits) HEAP_##access, any_u##bits
#define HEAP_PUSH(id, pops, type)                                                                  \
	OP(id)                                                                                     \
	SPEND(dp_work_of_words(a->n));                                                             \
	const type *p = (const type *)dp_rpn_heap(h, TOP(1), TOP(0), a->n * sizeof(type));         \
	if (DP_UNLIKELY(!p))                                                                       \
		goto exception;                                                                    \
	DROP(2);                                                                                   \
	for (u32 i = 0; i < a->n; i++)                                                             \
		PUSH(p[i]);                                                                        \
	END
#define HEAP_POP(id, pops, type)                                                                   \
	OP(id)                                                                                     \
	SPEND(dp_work_of_words(a->n));                                                             \
	type *p = (type *)dp_rpn_heap(h, TOP(1), TOP(0), a->n * sizeof(type));                     \
	if (DP_UNLIKELY(!p))                                                                       \
		goto exception;                                                                    \
	DROP(2);                                                                                   \
	for (u32 i = a->n; i-- > 0; DROP(1))                                                       \
		p[i] = (type)TOP(0);                                                               \
	END

/* Registers: by the language's numbers, of the code or of user mode; by words. */
#define REGISTER(access) REGISTER_##access, r
#define USER(access) REGISTER_##access, (u64 *)dp_hit_user(h)
#define REGISTER_PUSH(id, pops, regs) OP(id) PUSH((regs)[word_of[a->reg]]); END
#define REGISTER_POP(id, pops, regs)                                                               \
	OP(id)                                                                                     \
	u64 *to = regs;                                                                            \
	u32 i = word_of[a->reg];                                                                   \
	to[i] = i == DP_REG_WORD(flags) ? (to[i] & ~FLAGS_WRITABLE) | (TOP(0) & FLAGS_WRITABLE) : TOP(0); \
	DROP(1);                                                                                   \
	END
/* What a program may set in the flags register: the arithmetic flags and the direction. */
#define FLAGS_WRITABLE 0xcd5ull
#define PART(sign, bits) PART_OF_WORD, TYPE_##sign(bits)
#define PART_OF_WORD(id, pops, type) OP(id) PUSH((u64)(s64)(type)r[a->reg]); END

/* Memory through exceptions (the historical opcodes). */
#define READ_MEM(bits) READ_OR_RAISE, (bits) / 8
#define READ_OR_RAISE(id, pops, len)                                                               \
	OP(id)                                                                                     \
	u64 value = 0;                                                                             \
	if (!fetch(h, &value, TOP(0), len))                                                        \
		RAISE(DP_EX_INVALID_ADDR, TOP(0), 0);                                              \
	TOP(0) = value;                                                                            \
	END
#define WRITE_MEM(bits) WRITE_OR_RAISE, (bits) / 8
#define WRITE_OR_RAISE(id, pops, len)                                                              \
	OP(id)                                                                                     \
	u64 value = TOP(0);                                                                        \
	if (dp_hit_write(h, TOP(1), &value, len)) {                                                \
		h->faults++;                                                                       \
		RAISE(DP_EX_INVALID_ADDR, TOP(1), 0);                                              \
	}                                                                                          \
	DROP(2);                                                                                   \
	END

/* Memory through the mark (events). */
#define LOAD(bits) LOAD_OR_MARK, (bits) / 8
#define LOAD_OR_MARK(id, pops, len)                                                                \
	OP(id)                                                                                     \
	u64 value = 0;                                                                             \
	if (!mark && !fetch(h, &value, TOP(0) + (s64)a->d, len))                                   \
		mark = true;                                                                       \
	TOP(0) = value;                                                                            \
	END

#define STORE(bits) STORE_TOP, u##bits, any_u##bits
#define STORE_TOP(id, pops, type, any)                                                             \
	OP(id)                                                                                     \
	*(any *)(payload + a->at) = (type)TOP(0);                                                  \
	DROP(1);                                                                                   \
	if (DP_UNLIKELY(mark)) {                                                                   \
		mark_field(h, a->f);                                                               \
		mark = false;                                                                      \
	}                                                                                          \
	END
#define STORE_REG(bits) STORE_WORD, u##bits, any_u##bits
#define STORE_WORD(id, pops, type, any) OP(id) *(any *)(payload + a->at) = (type)r[a->reg]; END

#define NEED(cc) NEED_TOP, dp_cc_##cc, a->c
#define NEED_TRUTH(cc) NEED_TOP, dp_cc_##cc, 0
#define NEED_TOP(id, pops, holds, c)                                                               \
	OP(id)                                                                                     \
	if (!holds(TOP(0), c) || mark)                                                             \
		goto filtered;                                                                     \
	DROP(1);                                                                                   \
	END
#define NEED_REG(cc) NEED_WORD, dp_cc_##cc
#define NEED_WORD(id, pops, holds) OP(id) if (!holds(r[a->reg], a->c)) goto filtered; END

/* clang-format on */

#endif
