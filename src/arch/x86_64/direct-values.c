/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The program of direct code: the frame on the probed program's stack, conditions, values, the fields of the record.
 * Knows nothing of rings.
 */
#include "arch/x86_64/direct-priv.h"

/* Slots of struct dp_regs, as processor registers; NONE: not one. */
static const u8 reg_word_reg[] = {R15, R14, R13, R12, BP, BX,   R11,  R10,  R9,   R8,
				  AX,  CX,  DX,  SI,  DI, NONE, NONE, NONE, NONE, SP};

#define REG_WORD_IP (R_IP / 8)
#define REG_WORD_SP (R_SP / 8)

/* ---- instructions ---- */

void dp_direct_lea_rip(struct jit *j, u8 reg, u64 target)
{
	s64 rel = (s64)(target - (dp_emit_here(j->e) + 7));

	j->far |= rel != (s32)rel;
	dp_emit_u8(j->e, (u8)(0x48 | (reg >> 3) << 2));
	dp_emit_u8(j->e, 0x8d);
	dp_emit_u8(j->e, (u8)(0x05 | (reg & 7) << 3));
	dp_emit_u32(j->e, (u32)rel);
}

void dp_direct_jump(struct jit *j, u8 cc, enum target to)
{
	if (cc < 16) {
		dp_emit_u8(j->e, 0x0f);
		dp_emit_u8(j->e, (u8)(0x80 | cc));
	} else {
		dp_emit_u8(j->e, 0xe9);
	}
	if (j->landed[to]) {
		dp_emit_u32(j->e, (u32)(j->landed[to] - (j->e->len + 4)));
		return;
	}
	if (j->nfixups == FIXUPS_MAX) {
		j->failed = true;
		return;
	}
	j->fixups[j->nfixups].hole = j->e->len;
	j->fixups[j->nfixups++].to = to;
	dp_emit_u32(j->e, 0);
}

void dp_direct_land(struct jit *j, enum target to)
{
	j->landed[to] = j->e->len;
	for (u32 i = 0; i < j->nfixups; i++) {
		u32 rel = (u32)(j->e->len - j->fixups[i].hole - 4);

		if (j->fixups[i].to == to && !j->e->overflow)
			memcpy(j->e->buf + j->fixups[i].hole, &rel, 4);
	}
}

/* ---- the frame ---- */

static void save(struct jit *j, u8 reg)
{
	push(j->e, reg);
	j->saved[j->nsaved++] = reg;
}

/* What was loaded, then places of keys. */
static u32 words_size(const struct jit *j)
{
	return (j->p.nwords + j->p.nfinds) * 8;
}

s32 dp_direct_place_at(const struct jit *j, u32 find)
{
	return (s32)(j->p.nwords + find) * 8;
}

void dp_direct_enter(struct jit *j)
{
	static const u8 more[] = {CX, DX, SI, R8, R9, R10}; /* the first is enough to count, the last for words */
	u32 nmore = j->p.nwords ? 6 : j->p.never ? 1 : 5;

	if (j->in->shared) {
		j->saved[j->nsaved++] = EVENT; /* by the stub */
		push(j->e, DI);
		j->saved[j->nsaved++] = POINT;
	}
	if (j->in->is_way)
		j->saved[j->nsaved++] = KEPT; /* by direct-calls.c */
	save(j, AX);
	if (j->in->flags) {
		BYTES(j, "\x9f\x0f\x90\xc0"); /* lahf; seto %al */
		push(j->e, AX);
		j->saved[j->nsaved++] = NONE; /* a word, and no register's */
	}
	for (u32 i = 0; i < nmore; i++)
		save(j, more[i]);
	if (words_size(j))
		LEA(j, SP, SP, -(s32)words_size(j));
}

void dp_direct_leave(struct jit *j)
{
	if (words_size(j))
		LEA(j, SP, SP, (s32)words_size(j));
	for (u32 i = j->nsaved; i-- > 0;) {
		if (j->saved[i] == NONE)
			BYTES(j, "\x58\x04\x7f\x9e"); /* pop %rax; add $127,%al; sahf */
		else if (j->saved[i] == EVENT || j->saved[i] == KEPT)
			LEA(j, SP, SP, 8); /* keeps the flags */
		else if (j->saved[i] == POINT)
			pop(j->e, DI);
		else
			pop(j->e, j->saved[i]);
	}
}

s32 dp_direct_saved_at(const struct jit *j, u8 reg)
{
	s32 from = (s32)words_size(j);

	if (reg == DI)
		return from + (s32)(j->nsaved + 1) * 8;
	for (u32 i = 0; i < j->nsaved; i++)
		if (j->saved[i] == reg)
			return from + (s32)(j->nsaved - 1 - i) * 8;
	return -1;
}

void dp_direct_leave_done(struct jit *j)
{
	if (j->in->is_way) {
		LOAD(j, DI, SP, dp_direct_saved_at(j, KEPT));
		STORE_IMM(j, true, DI, 0, 0);
	}
	dp_direct_leave(j);
	BYTES(j, "\xc3"); /* ret */
}

static s32 stack_pointer(const struct jit *j)
{
	return (s32)words_size(j) + (s32)(j->nsaved + 2) * 8 + (j->in->zone ? 128 : 0);
}

u8 dp_direct_fetch(struct jit *j, u8 reg_word, u8 scratch)
{
	u32 word = reg_word - DP_LOWER_WORD;
	s32 at;

	if (word < DP_LOWER_WORDS) {
		LOAD(j, scratch, SP, (s32)word * 8);
	} else if (reg_word == DP_LOWER_RETURN) {
		LOAD(j, scratch, SP, stack_pointer(j));
	} else if (reg_word == REG_WORD_SP) {
		LEA(j, scratch, SP, stack_pointer(j));
	} else if (reg_word == REG_WORD_IP) {
		move_address(j->e, scratch, j->in->addr);
	} else {
		at = dp_direct_saved_at(j, reg_word_reg[reg_word]);
		if (at < 0)
			return reg_word_reg[reg_word];
		LOAD(j, scratch, SP, at);
	}
	return scratch;
}

u64 dp_direct_readable(bool shared)
{
	u64 slots = (u64)!shared << REG_WORD_IP;

	for (u32 i = 0; i < DP_ARRAY_SIZE(reg_word_reg); i++)
		slots |= (u64)(reg_word_reg[i] != NONE) << i;
	return slots;
}

/* ---- conditions ---- */

static void do_op(struct jit *j, u8 reg, const struct dp_value_op *x)
{
	static const u8 alu_of[] = {[DP_ALU_ADD] = ALU_ADD,
				    [DP_ALU_SUB] = ALU_SUB,
				    [DP_ALU_AND] = ALU_AND,
				    [DP_ALU_OR] = ALU_OR,
				    [DP_ALU_XOR] = ALU_XOR};

	switch (x->op.does) {
	case DP_DOES_BINARY:
		op_imm(j->e, true, (enum alu)alu_of[x->op.how], reg, x->by);
		break;
	case DP_DOES_UNARY:
		op_reg(j->e, true, 0xf7, x->op.how == DP_ALU_NEG ? 3 : 2, reg);
		break;
	case DP_DOES_SHIFT:
		op_reg(j->e, true, 0xc1, x->op.how == DP_SHIFT_SHL ? SHIFT_SHL : SHIFT_SHR, reg);
		dp_emit_u8(j->e, (u8)x->by);
		break;
	default:
		move_part(j->e, reg, reg, x->op.size, x->op.is_signed);
	}
}

u8 dp_direct_eval(struct jit *j, const struct dp_value *v, u8 scratch)
{
	u8 reg;

	if (v->reg_word == DP_LOWER_PID) {
		dp_direct_lea_rip(j, scratch, j->in->ctl->tids + 4ull * j->in->ctl->nslots);
		LOAD32(j, scratch, scratch, 0);
		return scratch;
	}
	reg = dp_direct_fetch(j, v->reg_word, scratch);
	if (v->size < 8)
		move_part(j->e, scratch, reg, v->size, v->is_signed);
	else if (v->nops && reg != scratch)
		MOVE(j, scratch, reg);
	for (u32 i = 0; i < v->nops; i++)
		do_op(j, scratch, &v->ops[i]);
	return v->size < 8 || v->nops ? scratch : reg;
}

void dp_direct_need(struct jit *j, const struct dp_lowered_need *n)
{
	u8 reg = dp_direct_eval(j, &n->v, DI);

	if ((s64)n->c == (s32)n->c) {
		op_imm(j->e, true, ALU_CMP, reg, (u32)n->c);
	} else {
		move_address(j->e, CX, n->c);
		op_reg(j->e, true, 0x39, CX, reg);
	}
	dp_direct_jump(j, cc_of[n->cc] ^ 1, n->is_usual ? GIVE_UP : FILTERED); /* the opposite condition */
}

static void store_const(struct jit *j, struct mem to, u8 size, u64 c)
{
	if (size == 1) {
		store_imm8(j->e, to, (u8)c);
	} else if (size == 2) {
		store_imm16(j->e, to, (u16)c);
	} else {
		store_imm(j->e, false, to, (u32)c);
		to.disp += 4;
		if (size == 8)
			store_imm(j->e, false, to, (u32)(c >> 32));
	}
}

void dp_direct_store(struct jit *j, const struct dp_lowered_store *s)
{
	struct mem to = AT(R8, sizeof(struct dp_record) + s->off);
	u8 reg;

	if (s->v.constant) {
		store_const(j, to, s->size, s->v.c);
		return;
	}
	reg = dp_direct_eval(j, &s->v, R9);
	if (s->size == 2)
		dp_emit_u8(j->e, 0x66);
	op_mem(j->e, s->size == 8, s->size == 1 ? 0x88 : 0x89, reg, to);
}
