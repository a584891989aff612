/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Words that direct code loads from the memory of the process, as dp_load() in hit-entry.S does: from what stays until
 * it is taken back (abi/abi-stretch.h), in a restartable sequence, of which the thread's word of loads tells those who
 * take memory back. All that is needed at one time is loaded in one sequence, into the frame, and words behind one
 * pointer are looked up together.
 *
 * Where a word is in no stretch that this thread has met lately, the general entry does the whole hit, and notes the
 * stretch.
 */
#include "arch/x86_64/direct-calls.h"
#include "arch/x86_64/direct-priv.h"
#include "abi/abi-stretch.h"

#define SPAN 4096 /* bytes around a pointer that are looked up at once */
#define HINTS_SIZE (DP_STRETCH_HINTS * 4)

/* More words behind pointers that words of the set are behind. */
static u32 with_neighbours(const struct jit *j, u32 set)
{
	const struct dp_lowered_word *v = j->p.words;
	u32 all = set;

	for (u32 i = 0; i < j->p.nwords; i++)
		for (u32 k = i + 1; set >> i & 1 && k < j->p.nwords; k++)
			if (dp_value_is_same(&v[i].at, &v[k].at) && !(j->loaded >> k & 1))
				all |= 1u << k;
	return all;
}

/* ---- sequences ---- */

/*
 * rdx: slot, rsi: the thread's area, rdi: its word of loads, r8: the table in force. Inside of the sequence nothing
 * changes the word, but before it a signal handler's hit may have.
 */
static void begin(struct jit *j, struct sequence *q)
{
	const struct dp_control *ctl = j->in->ctl;
	size_t from = j->e->len, again;

	dp_direct_slot(j->e, ctl);
	dp_direct_fill_up(j, from, DP_DIRECT_SLOT_MAX);
	dp_direct_jump(j, CC_NE, GIVE_UP);
	LOAD(j, SI, DX, S_RSEQ);
	test(j->e, true, SI);
	dp_direct_jump(j, CC_E, GIVE_UP);
	MOVE(j, AX, DX);
	op_regs(j->e, true, ALU_SUB, AX, DI);
	op_reg(j->e, true, 0xc1, SHIFT_SHR, AX);
	dp_emit_u8(j->e, DP_HIT_SLOT_SHIFT - DP_LOAD_SHIFT);
	dp_direct_lea_rip(j, DI, ctl->loads);
	op_regs(j->e, true, ALU_ADD, DI, AX);
	q->again = dp_emit_here(j->e);
	again = j->e->len;
	dp_direct_lea_rip(j, AX, dp_emit_here(j->e)); /* dp_direct_words_end() knows it */
	q->at = j->e->len - 4;
	STORE(j, DI, 0, AX);
	STORE(j, SI, 8, AX);
	q->start = dp_emit_here(j->e);
	op_mem(j->e, true, 0x3b, AX, AT(DI, 0));
	fill_hole(j->e, jump_hole(j->e, CC_NE), again);
	op_mem(j->e, false, 0x81, ALU_CMP, AT(SI, 4)); /* negative when unregistered */
	dp_emit_u32(j->e, 0);
	dp_direct_jump(j, CC_L, UNLOADED);
	dp_direct_lea_rip(j, R9, ctl->stretches);
	LOAD32(j, R8, R9, STRETCH_STATE); /* pairs with the barrier of await_loads() */
	op_imm(j->e, false, ALU_AND, R8, 1);
	op_reg(j->e, false, 0xc1, SHIFT_SHL, R8);
	dp_emit_u8(j->e, STRETCH_TABLE_SHIFT);
	op_regs(j->e, true, ALU_ADD, R8, R9);
}

static void leave(struct jit *j)
{
	STORE_IMM(j, true, SI, 8, 0);
	STORE_IMM(j, true, DI, 0, 0);
}

/* To UNLOADED unless rcx to r10 lie in a stretch that the thread has met lately. Clobbers rax, r9. */
static void look_up(struct jit *j)
{
	size_t again, below, found;

	op_reg(j->e, true, 0xc7, 0, AX); /* mov $-HINTS_SIZE,%rax */
	dp_emit_u32(j->e, (u32)-HINTS_SIZE);
	again = j->e->len;
	load32(j->e, R9, (struct mem){DX, AX, 1, S_HINTS + HINTS_SIZE});
	op_mem(j->e, true, 0x39, CX, (struct mem){R8, R9, 1, STRETCH_LO});
	below = jump_hole(j->e, CC_A);
	op_mem(j->e, true, 0x39, R10, (struct mem){R8, R9, 1, STRETCH_HI});
	found = jump_hole(j->e, CC_AE);
	land_here(j->e, below);
	op_imm(j->e, true, ALU_ADD, AX, 4);
	fill_hole(j->e, jump_hole(j->e, CC_NE), again);
	dp_direct_jump(j, CC_ALWAYS, UNLOADED);
	land_here(j->e, found);
}

/* Word i and those of the set that are near it. Returns them. */
static u32 load_group(struct jit *j, u32 i, u32 set)
{
	const struct dp_lowered_word *v = j->p.words;
	s64 lo = v[i].disp, hi = lo + v[i].size;
	u32 group = 0;

	for (u32 k = i; k < j->p.nwords; k++) {
		s64 from = DP_MIN(lo, (s64)v[k].disp), to = DP_MAX(hi, (s64)v[k].disp + v[k].size);

		if (!(set >> k & 1) || !dp_value_is_same(&v[i].at, &v[k].at) || to - from > SPAN)
			continue;
		group |= 1u << k;
		lo = from;
		hi = to;
	}
	if (v[i].at.constant)
		move_address(j->e, CX, v[i].at.c + (u64)lo);
	else
		LEA(j, CX, dp_direct_fetch(j, v[i].at.reg_word, CX), (s32)lo);
	MOVE(j, R10, CX);
	op_imm(j->e, true, ALU_ADD, R10, (u32)(hi - lo));
	dp_direct_jump(j, CC_B, UNLOADED); /* there is no memory at the end of all addresses */
	look_up(j);
	for (u32 k = i; k < j->p.nwords; k++) {
		if (!(group >> k & 1))
			continue;
		load_part(j->e, AX, AT(CX, (s32)(v[k].disp - lo)), v[k].size, false);
		STORE(j, SP, (s32)k * 8, AX);
	}
	return group;
}

void dp_direct_words(struct jit *j, u32 n)
{
	u32 set = ((1u << n) - 1) & ~j->loaded;
	struct sequence *q;

	if (!set)
		return;
	if (!j->way->has_area) {
		dp_direct_jump(j, CC_ALWAYS, GIVE_UP);
		j->loaded = ~0u;
		return;
	}
	if (j->nstages == STAGES_MAX) {
		j->failed = true;
		return;
	}
	set = with_neighbours(j, set);
	q = &j->stages[j->nstages++];
	begin(j, q);
	for (u32 i = 0; i < j->p.nwords; i++)
		if (set >> i & 1 && !(j->loaded >> i & 1))
			j->loaded |= load_group(j, i, set);
	q->end = dp_emit_here(j->e);
	leave(j);
}

void dp_direct_words_fail(struct jit *j)
{
	if (!j->nstages)
		return;
	dp_direct_land(j, UNLOADED);
	leave(j);
	STORE_IMM(j, false, DX, S_WANTS, 1);
}

void dp_direct_words_end(struct jit *j)
{
	struct dp_rseq_cs cs;

	for (u32 i = 0; i < j->nstages; i++) {
		size_t at;

		while (j->e->len % sizeof(cs) && !j->e->overflow)
			dp_emit_u8(j->e, 0xcc);
		at = j->e->len;
		land_here(j->e, j->stages[i].at);
		for (u32 k = 0; k < sizeof(cs) / 8; k++)
			dp_emit_u64(j->e, 0);
		dp_direct_abort(j, &j->stages[i], &cs);
		if (!j->e->overflow)
			memcpy(j->e->buf + at, &cs, sizeof(cs));
	}
}
