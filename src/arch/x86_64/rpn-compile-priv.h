/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the parts of the compiler share: the stack in registers (rpn-values.c), ways out of an instruction (rpn-ways.c),
 * opcodes (rpn-ops.c, and rpn-calls.c for those that call functions of the hit path), whole programs (rpn-compile.c).
 * Each uses only those before it; rpn-ops.c those of rpn-calls.c.
 */
#ifndef DP_RPN_JIT_PRIV_H
#define DP_RPN_JIT_PRIV_H

#include "abi/abi-machine.h"
#include "abi/abi-record.h"
#include "arch/x86_64/encode.h"
#include "arch/compile.h"
#include "program/flow.h"

/*
 * Registers of compiled programs. The others of the caller's (AX, CX, DX, SI, DI, R8, R9) hold
 * words of the stack; R10 and R11 are for single steps. [rsp] has two words of scratch memory.
 */
#define HIT BX   /* struct dp_hit */
#define VM BP    /* struct dp_vm, which begins with the stack */
#define TOP R12  /* index of the stack's top at the block's begin, where that is not known ahead */
#define REGS R13 /* struct dp_regs */
#define LEFT R14 /* jumps that are left of the budget */
#define VARS R15 /* local variables */

#define VM_AT(field, disp) AT(VM, offsetof(struct dp_vm, field) + (disp))
#define HIT_AT(field) AT(HIT, offsetof(struct dp_hit, field))
#define RPN_AT(field) VM_AT(rpn, offsetof(struct dp_rpn_state, field))
#define PAYLOAD (offsetof(struct dp_vm, record) + sizeof(struct dp_record))

/* ---- a word of the stack ---- */

enum kind { IN_MEMORY, CONSTANT, IN_REGISTER };

struct word {
	u8 kind, reg;
	bool dirty; /* its memory holds something older */
	u64 c;
};

#define REACH 64 /* words around the block's first top that are kept account of */

struct saved { /* a word to be written out by a way to the interpreter */
	s16 pos;
	struct word w;
};

enum way {
	WAY_AGAIN, /* do the instruction there */
	WAY_RAISE, /* eax: the exception */
	WAY_BUDGET,
};

struct leave {
	size_t hole;
	u32 at;  /* offset in the bytecode */
	u32 top; /* of the block */
	bool any_top;
	s16 cur;
	u8 way;
	u32 first, n; /* saved words */
	u32 refund;   /* work that was counted: the interpreter counts it when it does the instruction again */
};

struct fixup {
	size_t hole;
	u32 at; /* offset in the bytecode that it leads to */
};

struct compiler {
	struct dp_emit *e;
	struct dp_rpn_jit *in;
	struct dp_flow flow;
	bool uses_vars;
	/* the block at hand */
	u32 at, next; /* the instruction: its offset, and that behind it */
	u32 top;
	bool any_top;
	s16 cur; /* where the top is, from the block's first */
	struct word words[2 * REACH];
	u32 locked;  /* registers that this instruction needs */
	bool ended;  /* nothing falls out of this instruction */
	u32 charged; /* work counted for it so far */
	/* lists that grow */
	struct leave *leaves;
	u32 nleaves, cap_leaves;
	struct saved *saved;
	u32 nsaved, cap_saved;
	struct fixup *fixups;
	u32 nfixups, cap_fixups;
	size_t finish; /* offset of the common end, 0 not yet; rax: the result */
	bool failed;
};

/* rpn-values.c */
void dp_val_begin(struct compiler *c, u32 at);
struct word *dp_val_word(struct compiler *c, int i); /* i-th from the top */
u8 dp_val_alloc(struct compiler *c);                 /* a register for this instruction */
void dp_val_evict(struct compiler *c, u8 reg);       /* let nothing stand in that register, and take it */
u8 dp_val_load(struct compiler *c, int i);           /* the word in a register, which must not be changed */
u8 dp_val_take(struct compiler *c, int i); /* the word in a register that may be changed; the word is to be set then */
void dp_val_set(struct compiler *c, int i, u8 reg);
void dp_val_push(struct compiler *c, u8 reg);
void dp_val_set_const(struct compiler *c, int i, u64 v);
void dp_val_copy(struct compiler *c, int to, int from);
bool dp_val_is_const(struct compiler *c, int i, u64 *v);
void dp_val_sync(struct compiler *c);       /* write out what is dirty; keeps the flags only where tops are known */
void dp_val_forget(struct compiler *c);     /* after dp_val_sync: registers are lost */
void dp_val_forget_all(struct compiler *c); /* the memory may have changed too */
void dp_val_rebase(struct compiler *c);
struct mem dp_val_place(struct compiler *c, int i); /* where the word lies; may use r11, and flags */
void dp_val_top(struct compiler *c, u8 reg);        /* the index of the top */
void dp_val_save(struct compiler *c, struct leave *l);
void dp_val_restore(struct compiler *c, const struct leave *l);

/* rpn-ways.c */
#define END_BASE 0xfffffff0u /* fixups to the ends of a run: this plus the result */
#define END_LEAVE (END_BASE + 8)

void dp_way_leave_if(struct compiler *c, u8 cc, enum way way, u32 at);
void dp_way_leave(struct compiler *c);
void dp_way_call(struct compiler *c, enum dp_service s);
void dp_way_go(struct compiler *c, enum go_op op, enum dp_service s); /* the arguments are there */
void dp_way_finish(struct compiler *c, u8 cc, enum dp_run_result result);
/* Work of the instruction, before anything of it is done; what is too much is left to the interpreter. */
void dp_way_spend(struct compiler *c, u32 work);
void dp_way_goto(struct compiler *c, u8 cc, u32 at);
void dp_way_settle(struct compiler *c, u32 a, u32 b); /* before jumps: what the blocks at a and b expect */

/* rpn-ops.c; whether the instruction is one that is compiled, and compile it */
bool dp_op_known(const struct dp_op_view *op);
void dp_op_compile(struct compiler *c, const struct dp_op_view *op);

#define INSN_REACH 24 /* an instruction touches at most so many words on each side of the top */
#define LOG_WORDS_MAX DP_FLOW_WORDS_MAX

#endif
