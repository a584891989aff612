/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What direct code changes once a hit is committed: variables, aggregates, and the tables in which these are by a key
 * (hit-tables.c has the rules). Keys are looked for before anything has an effect; to add one is the general entry's
 * work.
 */
#include "arch/x86_64/direct-priv.h"

#define TRIES 4u /* places of a table where a key is looked for */

/* A value into a register that is to be changed. */
static void eval_into(struct jit *j, const struct dp_value *v, u8 reg)
{
	u8 r;

	if (v->constant) {
		move_address(j->e, reg, v->c);
		return;
	}
	r = dp_direct_eval(j, v, reg);
	if (r != reg)
		MOVE(j, reg, r);
}

static bool is_constant(const struct dp_lowered_find *f)
{
	for (u32 i = 0; i < f->nparts; i++)
		if (!f->parts[i].constant)
			return false;
	return true;
}

/* ---- keys ---- */

/* Where the search begins into rdi, by dp_table_hash() and dp_table_place(). Clobbers rax, rcx. */
static void first_place(struct jit *j, const struct dp_lowered_find *f)
{
	u64 hash = 0;

	if (is_constant(f)) {
		for (u32 i = 0; i < f->nparts; i++)
			hash = dp_table_hash(hash, i, f->parts[i].c);
		move_address(j->e, DI, f->table + 8ull * f->step * dp_table_place(hash, f->keys));
		return;
	}
	for (u32 i = 0; i < f->nparts; i++) {
		eval_into(j, &f->parts[i], AX);
		move_address(j->e, CX, dp_table_factor(i));
		op_reg(j->e, true, 0xaf0f, AX, CX); /* imul %rcx,%rax */
		if (i)
			op_regs(j->e, true, ALU_ADD, AX, DI);
		if (i + 1 < f->nparts)
			MOVE(j, DI, AX);
	}
	op_reg(j->e, true, 0xc1, SHIFT_SHR, AX);
	dp_emit_u8(j->e, 32);
	dp_emit_bytes(j->e, "\x48\x69\xc0", 3); /* imul $keys,%rax,%rax */
	dp_emit_u32(j->e, f->keys);
	op_reg(j->e, true, 0xc1, SHIFT_SHR, AX);
	dp_emit_u8(j->e, 32);
	dp_emit_bytes(j->e, "\x48\x69\xc0", 3); /* imul $step,%rax,%rax */
	dp_emit_u32(j->e, f->step * 8);
	move_address(j->e, DI, f->table);
	op_regs(j->e, true, ALU_ADD, DI, AX);
}

static void find(struct jit *j, u32 number)
{
	const struct dp_lowered_find *f = &j->p.finds[number];
	size_t found[TRIES], not_this[DP_LOWER_PARTS];
	u32 n = DP_MIN(f->keys, TRIES);

	first_place(j, f);
	move_address(j->e, CX, f->table + 8ull * f->step * f->keys);
	for (u32 i = 0; i < n; i++) {
		op_mem(j->e, true, 0x81, ALU_CMP, AT(DI, 0)); /* pairs with the release of who has written the key */
		dp_emit_u32(j->e, DP_TABLE_VALID);
		dp_direct_jump(j, CC_NE, GIVE_UP);
		for (u32 k = 0; k < f->nparts; k++) {
			eval_into(j, &f->parts[k], AX);
			op_mem(j->e, true, 0x39, AX, AT(DI, 8 + 8 * (s32)k));
			not_this[k] = jump_hole(j->e, CC_NE);
		}
		found[i] = jump_hole(j->e, CC_ALWAYS);
		for (u32 k = 0; k < f->nparts; k++)
			land_here(j->e, not_this[k]);
		op_imm(j->e, true, ALU_ADD, DI, f->step * 8);
		op_regs(j->e, true, ALU_CMP, DI, CX);
		dp_direct_jump(j, i + 1 < n ? CC_AE : CC_ALWAYS, GIVE_UP);
	}
	for (u32 i = 0; i < n; i++)
		land_here(j->e, found[i]);
	STORE(j, SP, dp_direct_place_at(j, number), DI);
}

void dp_direct_find(struct jit *j)
{
	for (u32 i = 0; i < j->p.nfinds; i++)
		find(j, i);
}

/* ---- changes ---- */

/* Add one to the word at disp behind rdi, or take it away. */
static void by_one(struct jit *j, bool down, s32 disp)
{
	dp_emit_u8(j->e, 0xf0); /* lock */
	op_mem(j->e, true, 0xff, down, AT(DI, disp));
}

/* And to word rax. */
static void count_bar(struct jit *j)
{
	dp_emit_u8(j->e, 0xf0);
	op_mem(j->e, true, 0xff, 0, (struct mem){DI, AX, 8, 0});
}

/* Which bar a value belongs to: rax. */
static void histogram_bar(struct jit *j)
{
	size_t none, end;

	test(j->e, true, AX);
	none = jump_hole(j->e, CC_LE);
	op_reg(j->e, true, 0xbd0f, AX, AX); /* bsr %rax,%rax */
	op_imm(j->e, true, ALU_ADD, AX, 1);
	end = jump_hole(j->e, CC_ALWAYS);
	land_here(j->e, none);
	op_regs(j->e, false, ALU_XOR, AX, AX);
	land_here(j->e, end);
}

/* As dp_quantile_bar() has it. Clobbers rcx. */
static void quantile_bar(struct jit *j)
{
	size_t small, end, positive;

	j->cx_taken = true;
	op_imm(j->e, true, ALU_CMP, AX, 4);
	small = jump_hole(j->e, CC_L);
	op_reg(j->e, true, 0xbd0f, CX, AX); /* bsr %rax,%rcx */
	op_imm(j->e, true, ALU_SUB, CX, 2);
	op_reg(j->e, true, 0xd3, SHIFT_SHR, AX); /* shr %cl,%rax */
	op_imm(j->e, true, ALU_AND, AX, 3);
	lea(j->e, true, AX, (struct mem){AX, CX, 4, 4});
	end = jump_hole(j->e, CC_ALWAYS);
	land_here(j->e, small);
	test(j->e, true, AX);
	positive = jump_hole(j->e, CC_NS);
	op_regs(j->e, false, ALU_XOR, AX, AX);
	land_here(j->e, positive);
	land_here(j->e, end);
}

/* lock cmpxchg %rcx,(%rdi) */
static void exchange(struct jit *j)
{
	BYTES(j, "\xf0\x48\x0f\xb1\x0f");
}

/* The smaller of rcx and what is there, or the larger: as fold_extreme() does it. Clobbers rax. */
static void extreme(struct jit *j, bool is_min)
{
	size_t begun, first, again, done;

	j->cx_taken = true;
	op_mem(j->e, true, 0x81, ALU_CMP, AT(DI, 8)); /* there is a value; pairs with the stores below */
	dp_emit_u32(j->e, 0);
	begun = jump_hole(j->e, CC_NE);
	op_regs(j->e, false, ALU_XOR, AX, AX);
	exchange(j);
	STORE_IMM(j, true, DI, 8, 1);
	first = jump_hole(j->e, CC_E);
	land_here(j->e, begun);
	LOAD(j, AX, DI, 0);
	again = j->e->len;
	op_regs(j->e, true, ALU_CMP, CX, AX);
	done = jump_hole(j->e, is_min ? CC_GE : CC_LE);
	exchange(j);
	fill_hole(j->e, jump_hole(j->e, CC_NE), again);
	land_here(j->e, first);
	land_here(j->e, done);
}

/* Into rcx, where it is when the effects begin. */
static void need_thread_pointer(struct jit *j)
{
	if (j->cx_taken)
		dp_direct_thread_pointer(j, CX);
	j->cx_taken = false;
}

/* What stands apart, while there are sequences for it. */
static bool fold_apart(struct jit *j, const struct dp_lowered_effect *e)
{
	if (!e->apart || j->nadds < (e->kind == DP_AGG_SUM ? 2 : 1))
		return false;
	if (e->kind != DP_AGG_COUNT)
		eval_into(j, &e->v, AX);
	if (e->kind == DP_AGG_SUM) {
		need_thread_pointer(j); /* while the frame is as it is left from */
		push(j->e, DX);
		MOVE(j, DX, AX);
		j->way->add(j, false);
		op_imm(j->e, true, ALU_ADD, DI, 8); /* how many values there are */
		j->way->add(j, true);
		pop(j->e, DX);
		return true;
	}
	if (e->kind == DP_AGG_HIST)
		histogram_bar(j);
	else if (e->kind == DP_AGG_QUANTILES)
		quantile_bar(j);
	if (e->kind != DP_AGG_COUNT)
		lea(j->e, true, DI, (struct mem){DI, AX, 8, 0});
	need_thread_pointer(j);
	j->way->add(j, true);
	return true;
}

static void fold(struct jit *j, const struct dp_lowered_effect *e)
{
	if (fold_apart(j, e))
		return;
	if (e->kind == DP_AGG_COUNT) {
		by_one(j, false, 0);
		return;
	}
	eval_into(j, &e->v, e->kind == DP_AGG_MIN || e->kind == DP_AGG_MAX ? CX : AX);
	switch (e->kind) {
	case DP_AGG_SUM:
		dp_emit_u8(j->e, 0xf0); /* lock */
		op_mem(j->e, true, 0x01, AX, AT(DI, 0));
		by_one(j, false, 8);
		break;
	case DP_AGG_MIN:
	case DP_AGG_MAX:
		extreme(j, e->kind == DP_AGG_MIN);
		break;
	case DP_AGG_HIST:
		histogram_bar(j);
		count_bar(j);
		break;
	case DP_AGG_QUANTILES:
		quantile_bar(j);
		count_bar(j);
		break;
	default: /* the last one */
		STORE(j, DI, 0, AX);
	}
}

void dp_direct_effects(struct jit *j, u32 n)
{
	j->cx_taken = false;
	for (u32 i = 0; i < n; i++) {
		const struct dp_lowered_effect *e = &j->p.effects[i];

		if (e->find) {
			LOAD(j, DI, SP, dp_direct_place_at(j, e->find - 1));
			op_imm(j->e, true, ALU_ADD, DI, 8 + 8 * j->p.finds[e->find - 1].nparts);
		} else {
			move_address(j->e, DI, e->addr);
		}
		if (e->how == DP_EFFECT_FOLD)
			fold(j, e);
		else
			by_one(j, e->how == DP_EFFECT_DOWN, 0);
	}
}
