/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Opcodes to machine code: words, flow and variables (those that call functions of the hit path are
 * in rpn-calls.c). Each does what the block of that name in hit/vm.c does. Registers are taken
 * first, then flags are set and looked at: taking one may spoil flags.
 */
#include "arch/x86_64/rpn-ops.h"

/* ---- small things ---- */

void o_push(struct compiler *c, u8 reg)
{
	c->cur--;
	v_set(c, 0, reg);
}

static bool fits(u64 v)
{
	return (u64)(s64)(s32)v == v;
}

static void compare_const(struct compiler *c, u8 reg, u64 k)
{
	if (fits(k)) {
		op_imm(c->e, true, ALU_CMP, reg, (u32)k);
	} else {
		move_const(c->e, R11, k);
		op_regs(c->e, true, ALU_CMP, reg, R11);
	}
}

static void shift(struct compiler *c, enum shift n, u8 reg, u32 by)
{
	if (!by)
		return;
	op_reg(c->e, true, 0xc1, (u8)n, reg);
	dp_emit_u8(c->e, (u8)by);
}

static struct mem slot_at(u32 slot)
{
	return AT(REGS, 8 * slot);
}

static u32 slot_of(s64 number)
{
	return dp_register_by_number((u32)number)->slot;
}

/* ---- arithmetic ---- */

static u64 fold(u32 n, u64 a, u64 b)
{
	switch (n) {
	case ALU_ADD:
		return a + b;
	case ALU_SUB:
		return a - b;
	case ALU_AND:
		return a & b;
	case ALU_OR:
		return a | b;
	case ALU_XOR:
		return a ^ b;
	default:
		return a * b;
	}
}

#define MUL 8

static void o_binary(struct compiler *c, const struct dp_op_view *op, u32 n)
{
	u64 a, b;
	bool is_const = v_is_const(c, 0, &b);
	u8 x, y;

	if (is_const && v_is_const(c, 1, &a)) {
		c->cur++;
		v_set_const(c, 0, fold(n, a, b));
		return;
	}
	if (is_const && fits(b)) {
		x = v_take(c, 1);
		if (n == MUL) {
			op_reg(c->e, true, 0x69, x, x);
			dp_emit_u32(c->e, (u32)b);
		} else {
			op_imm(c->e, true, (enum alu)n, x, (u32)b);
		}
	} else {
		y = v_load(c, 0);
		x = v_take(c, 1);
		if (n == MUL)
			op_reg(c->e, true, 0xaf0f, x, y);
		else
			op_regs(c->e, true, (enum alu)n, x, y);
	}
	c->cur++;
	v_set(c, 0, x);
}

/* n: of neg (3) and not (2) */
static void o_unary(struct compiler *c, const struct dp_op_view *op, u32 n)
{
	u64 a;
	u8 x;

	if (v_is_const(c, 0, &a)) {
		v_set_const(c, 0, n == 3 ? -a : ~a);
		return;
	}
	x = v_take(c, 0);
	op_reg(c->e, true, 0xf7, (u8)n, x);
	v_set(c, 0, x);
}

static void o_compare(struct compiler *c, const struct dp_op_view *op, u32 cc)
{
	u64 k;
	bool is_const = v_is_const(c, 0, &k) && fits(k);
	u8 y = is_const ? 0 : v_load(c, 0), x = v_load(c, 1), r = v_alloc(c);

	if (is_const)
		compare_const(c, x, k);
	else
		op_regs(c->e, true, ALU_CMP, x, y);
	set_if(c->e, (u8)cc, r);
	c->cur++;
	v_set(c, 0, r);
}

static void o_bool(struct compiler *c, const struct dp_op_view *op, u32 cc)
{
	u8 x = v_load(c, 0), r = v_alloc(c);

	test(c->e, true, x);
	set_if(c->e, (u8)cc, r);
	v_set(c, 0, r);
}

#define SIGNED 0x10

/* arg: bytes that count, SIGNED */
static void o_extend(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 x = v_load(c, 0), r = v_alloc(c);

	move_part(c->e, r, x, arg & 15, arg & SIGNED);
	v_set(c, 0, r);
}

static void o_bits(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 n = (u32)op->v[0], w = (u32)op->v[1];
	u8 x = v_take(c, 0);

	shift(c, SHIFT_SHR, x, n);
	if (w < 64 - n) {
		shift(c, SHIFT_SHL, x, 64 - w);
		shift(c, SHIFT_SHR, x, 64 - w);
	}
	v_set(c, 0, x);
}

static void o_shift(struct compiler *c, const struct dp_op_view *op, u32 n)
{
	u8 x = v_take(c, 0);

	shift(c, (enum shift)n, x, (u32)op->v[0]);
	v_set(c, 0, x);
}

/* (n a -- a by n): the processor looks at six bits of n; what more bits mean is the machine's. */
static void o_shift_by(struct compiler *c, const struct dp_op_view *op, u32 n)
{
	u8 by, x, r;

	v_evict(c, CX);
	by = v_load(c, 1);
	x = v_load(c, 0);
	r = v_alloc(c);
	move(c->e, CX, by);
	move(c->e, r, x);
	if (n == SHIFT_SAR) {
		move_imm32(c->e, R10, 63);
		op_regs(c->e, true, ALU_CMP, CX, R10);
		op_reg(c->e, true, 0x470f, CX, R10); /* cmova */
	}
	op_reg(c->e, true, 0xd3, (u8)n, r);
	if (n == SHIFT_SHL || n == SHIFT_SHR) {
		move_imm32(c->e, R10, 0);
		op_imm(c->e, true, ALU_CMP, CX, 63);
		op_reg(c->e, true, 0x470f, r, R10);
	}
	c->cur++;
	v_set(c, 0, r);
}

enum { SPREAD_UP, SPREAD_DOWN, CLEAR_UP, CLEAR_DOWN };

static void propagate(struct compiler *c, u32 n, u32 how)
{
	u8 x = v_take(c, 0);

	if (how == SPREAD_UP || how == CLEAR_UP) {
		shift(c, SHIFT_SHL, x, 64 - n);
		shift(c, how == SPREAD_UP ? SHIFT_SAR : SHIFT_SHR, x, 64 - n);
	} else if (n > 1) {
		if (how == SPREAD_DOWN) {
			move(c->e, R10, x);
			shift(c, SHIFT_SHL, R10, 64 - n);
			shift(c, SHIFT_SAR, R10, 63);
			shift(c, SHIFT_SHR, R10, 65 - n);
		}
		shift(c, SHIFT_SHR, x, n - 1);
		shift(c, SHIFT_SHL, x, n - 1);
		if (how == SPREAD_DOWN)
			op_regs(c->e, true, ALU_OR, x, R10);
	}
	v_set(c, 0, x);
}

static void o_propagate(struct compiler *c, const struct dp_op_view *op, u32 how)
{
	propagate(c, (u32)op->v[0], how);
}

static void o_propagate_by(struct compiler *c, const struct dp_op_view *op, u32 how)
{
	u64 n;

	if (!v_is_const(c, 0, &n) || n - 1 > 63) {
		j_leave(c);
		return;
	}
	c->cur++;
	propagate(c, (u32)n, how);
}

static void o_divide(struct compiler *c, const struct dp_op_view *op, u32 is_signed)
{
	size_t minus_one = 0, done = 0;
	u8 x, y;

	v_evict(c, AX);
	v_evict(c, DX);
	y = v_load(c, 0);
	x = v_load(c, 1);
	test(c->e, true, y);
	j_leave_if(c, CC_E, WAY_AGAIN, c->at);
	move(c->e, R10, y);
	move(c->e, AX, x);
	if (is_signed) { /* the quotient that does not fit would trap */
		op_imm(c->e, true, ALU_CMP, R10, ~0u);
		minus_one = jump_hole(c->e, CC_E);
		dp_emit_bytes(c->e, "\x48\x99", 2); /* cqo */
		op_reg(c->e, true, 0xf7, 7, R10);
		done = jump_hole(c->e, CC_ALWAYS);
		land_here(c->e, minus_one);
		op_reg(c->e, true, 0xf7, 3, AX);
		op_regs(c->e, false, ALU_XOR, DX, DX);
		land_here(c->e, done);
	} else {
		op_regs(c->e, false, ALU_XOR, DX, DX);
		op_reg(c->e, true, 0xf7, 6, R10);
	}
	v_set(c, 1, DX);
	v_set(c, 0, AX);
}

/* ---- the stack ---- */

static void o_const(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	c->cur--;
	v_set_const(c, 0, arg ? -64ull : (u64)op->v[0]);
}

static void o_xchg(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	struct word a, b;

	for (int i = 0; i < 2; i++)
		if (v_word(c, i)->kind != CONSTANT)
			v_load(c, i); /* and so that the other does not drive it out */
	a = *v_word(c, 0);
	b = *v_word(c, 1);
	a.dirty = b.dirty = true;
	*v_word(c, 0) = b;
	*v_word(c, 1) = a;
}

static void o_dup(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	int n = (int)op->v[0];

	if (n > 16) {
		j_leave(c);
		return;
	}
	for (int i = 1; i < n; i++)
		v_copy(c, -i, 0);
	c->cur = (s16)(c->cur + 1 - n);
}

static void o_ros(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	v_sync(c);
	c->cur = (s16)(c->cur + op->v[0]);
	if (op->v[0] > INSN_REACH)
		v_rebase(c);
}

enum { REL_PUSH, REL_POP, REL_COPY };

static void o_tsp(struct compiler *c, const struct dp_op_view *op, u32 how)
{
	int i = (int)op->v[0];

	if (i > 16 || i < -16) {
		j_leave(c);
		return;
	}
	v_copy(c, how == REL_PUSH ? -1 : how == REL_POP ? i + 1 : i, how == REL_PUSH ? i : 0);
	c->cur = (s16)(c->cur + (how == REL_PUSH ? -1 : how == REL_POP));
}

static void o_tsp_by(struct compiler *c, const struct dp_op_view *op, u32 how)
{
	u64 i;

	if (!v_is_const(c, 0, &i) || i > 16) {
		j_leave(c);
		return;
	}
	v_copy(c, 0, (int)i + 1);
}

/* The word of the stack at its base plus i. The base is the hit's, so it may be any word. */
static struct mem base_place(struct compiler *c, s64 i)
{
	load32(c->e, R11, RPN_AT(base));
	op_imm(c->e, false, ALU_ADD, R11, (u32)i);
	op_imm(c->e, false, ALU_AND, R11, DP_VM_STACK - 1);
	return (struct mem){VM, R11, 8, 0};
}

static void o_sbp(struct compiler *c, const struct dp_op_view *op, u32 how)
{
	u8 r = how == REL_PUSH ? v_alloc(c) : v_load(c, 0);

	v_sync(c);
	if (how == REL_PUSH) {
		load(c->e, r, base_place(c, op->v[0]));
		o_push(c, r);
		return;
	}
	store(c->e, base_place(c, op->v[0]), r);
	v_forget_all(c);
	c->cur = (s16)(c->cur + (how == REL_POP));
}

static void o_save_sbp(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = v_alloc(c);

	load32(c->e, r, RPN_AT(base));
	o_push(c, r);
}

static void o_restore_sbp(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	store32(c->e, RPN_AT(base), v_load(c, 0));
	c->cur++;
}

static void o_save_tsp(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = v_alloc(c);

	v_top(c, r);
	o_push(c, r);
}

/* ---- registers ---- */

static void o_push_r(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = v_alloc(c);

	load(c->e, r, slot_at(slot_of(op->v[0])));
	o_push(c, r);
}

/* What a program may set in the flags register; as in vm.c. */
#define FLAGS_WRITABLE 0xcd5u

static void o_pop_r(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 slot = slot_of(op->v[0]);
	u8 r = v_load(c, 0);

	if (slot == DP_SLOT(flags)) {
		load(c->e, R10, slot_at(slot));
		op_imm(c->e, true, ALU_AND, R10, ~FLAGS_WRITABLE);
		move(c->e, R11, r);
		op_imm(c->e, true, ALU_AND, R11, FLAGS_WRITABLE);
		op_regs(c->e, true, ALU_OR, R10, R11);
		r = R10;
	}
	store(c->e, slot_at(slot), r);
	c->cur++;
}

static void o_pushr(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = v_alloc(c);

	load_part(c->e, r, slot_at((u32)op->v[0]), arg & 15, arg & SIGNED);
	o_push(c, r);
}

/* ---- variables ---- */

#define GLOBAL 0x100
enum { VAR_PUSH, VAR_POP, VAR_MOVE, VAR_INC, VAR_DEC };

static u8 variables(struct compiler *c, u32 arg)
{
	if (!(arg & GLOBAL))
		return VARS;
	move_address(c->e, R10, c->in->rt->globals);
	return R10;
}

static void touch_variable(struct compiler *c, struct mem m, u32 how, u8 r)
{
	if (how == VAR_PUSH) {
		load(c->e, r, m);
	} else if (how == VAR_POP || how == VAR_MOVE) {
		store(c->e, m, r);
	} else {
		dp_emit_u8(c->e, 0xf0); /* lock */
		op_mem(c->e, true, 0xff, how == VAR_DEC, m);
	}
}

static void o_var(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 how = arg & 0xff;
	u8 r = how == VAR_PUSH ? v_alloc(c) : how == VAR_POP || how == VAR_MOVE ? v_load(c, 0) : 0;

	touch_variable(c, AT(variables(c, arg), 8 * op->v[0]), how, r);
	if (how == VAR_PUSH)
		o_push(c, r);
	c->cur = (s16)(c->cur + (how == VAR_POP));
}

/* With the index on the stack: on the top, but for pop, whose value is there. */
static void o_var_by(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	static const u8 value_at[] = {[VAR_POP] = 0, [VAR_MOVE] = 1};
	u32 how = arg & 0xff, n = arg & GLOBAL ? c->in->rt->nglobals : c->in->rt->nlocals;
	u8 i = v_load(c, how == VAR_POP), r = 0;

	if (how == VAR_PUSH)
		r = v_alloc(c);
	else if (how == VAR_POP || how == VAR_MOVE)
		r = v_load(c, value_at[how]);
	op_imm(c->e, true, ALU_CMP, i, n);
	j_leave_if(c, CC_AE, WAY_AGAIN, c->at);
	touch_variable(c, (struct mem){variables(c, arg), i, 8, 0}, how, r);
	if (how == VAR_PUSH)
		v_set(c, 0, r);
	else
		c->cur = (s16)(c->cur + (how == VAR_POP ? 2 : 1));
}

/* ---- flow ---- */

static void o_nop(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
}

static void spend_jump(struct compiler *c)
{
	op_imm(c->e, false, ALU_SUB, LEFT, 1);
	j_leave_if(c, CC_B, WAY_BUDGET, c->at);
}

static void o_jump(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 to = (u32)op->v[0];

	v_sync(c);
	j_settle(c, to, ~0u);
	spend_jump(c);
	j_goto(c, CC_ALWAYS, to);
	c->ended = true;
}

static void o_branch(struct compiler *c, const struct dp_op_view *op, u32 cc)
{
	u32 to = (u32)op->v[0];
	u8 r = v_load(c, 0);
	size_t stay;

	v_sync(c);
	j_settle(c, to, c->next);
	test(c->e, true, r);
	stay = jump_hole(c->e, (u8)(cc ^ 1));
	spend_jump(c);
	j_goto(c, CC_ALWAYS, to);
	land_here(c->e, stay);
	c->ended = true; /* into the next block, which stands behind */
}

static void o_loop(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 to = (u32)op->v[0];
	u8 r;

	r = v_take(c, 0);
	spend_jump(c);
	op_imm(c->e, true, ALU_SUB, r, 1);
	v_set(c, 0, r);
	v_sync(c);
	j_settle(c, to, c->next);
	test(c->e, true, r);
	j_goto(c, CC_NE, to);
	c->ended = true;
}

static void o_exit(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	if (c->in->whole)
		v_sync(c);
	load32(c->e, AX, HIT_AT(log_len));
	test(c->e, false, AX);
	j_finish(c, CC_E, DP_RUN_FILTERED);
	op_reg(c->e, false, 0xf7, 3, AX); /* neg */
	op_imm(c->e, false, ALU_AND, AX, 7);
	store32(c->e, AT(VM, PAYLOAD + offsetof(struct dp_rpn_head, pad)), AX);
	j_finish(c, CC_ALWAYS, DP_RUN_LOG);
}

static void o_abort(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	if (c->in->whole)
		v_sync(c);
	store_imm(c->e, false, RPN_AT(trace_len), 0);
	j_finish(c, CC_ALWAYS, DP_RUN_FILTERED);
}

static void o_need(struct compiler *c, const struct dp_op_view *op, u32 cc)
{
	u8 r = v_load(c, 0);

	if (c->in->whole)
		v_sync(c);
	compare_const(c, r, op->info->operands[0] ? (u64)op->v[0] : 0);
	j_finish(c, (u8)(cc ^ 1), DP_RUN_FILTERED);
	c->cur++;
}

static void o_needr(struct compiler *c, const struct dp_op_view *op, u32 cc)
{
	if (c->in->whole)
		v_sync(c);
	load(c->e, R10, slot_at((u32)op->v[0]));
	compare_const(c, R10, (u64)op->v[1]);
	j_finish(c, (u8)(cc ^ 1), DP_RUN_FILTERED);
}

/* ---- the table ---- */

#define VARIABLES(kind, arg)                                                                       \
	{DP_OP_PUSH_##kind, o_var, VAR_PUSH | (arg)},                                              \
	    {DP_OP_PUSH_##kind##_S, o_var_by, VAR_PUSH | (arg)},                                   \
	    {DP_OP_POP_##kind, o_var, VAR_POP | (arg)},                                            \
	    {DP_OP_POP_##kind##_S, o_var_by, VAR_POP | (arg)},                                     \
	    {DP_OP_MOVE_##kind, o_var, VAR_MOVE | (arg)},                                          \
	    {DP_OP_MOVE_##kind##_S, o_var_by, VAR_MOVE | (arg)},                                   \
	    {DP_OP_INC_##kind, o_var, VAR_INC | (arg)},                                            \
	    {DP_OP_INC_##kind##_S, o_var_by, VAR_INC | (arg)},                                     \
	    {DP_OP_DEC_##kind, o_var, VAR_DEC | (arg)},                                            \
	{                                                                                          \
		DP_OP_DEC_##kind##_S, o_var_by, VAR_DEC | (arg)                                    \
	}

/* clang-format off */
static const struct o_row rows[] = {
    {DP_OP_NOP, o_nop, 0}, {DP_OP_JMP, o_jump, 0}, {DP_OP_JLT, o_branch, CC_L}, {DP_OP_JLE, o_branch, CC_LE},
    {DP_OP_JGT, o_branch, CC_G}, {DP_OP_JGE, o_branch, CC_GE}, {DP_OP_JZ, o_branch, CC_E}, {DP_OP_JNZ, o_branch, CC_NE},
    {DP_OP_LOOP, o_loop, 0}, {DP_OP_ABORT, o_abort, 0}, {DP_OP_EXIT, o_exit, 0},
    VARIABLES(LV, 0), VARIABLES(GV, GLOBAL),
    {DP_OP_ADD, o_binary, ALU_ADD}, {DP_OP_SUB, o_binary, ALU_SUB}, {DP_OP_MUL, o_binary, MUL}, {DP_OP_NEG, o_unary, 3},
    {DP_OP_AND, o_binary, ALU_AND}, {DP_OP_OR, o_binary, ALU_OR}, {DP_OP_XOR, o_binary, ALU_XOR},
    {DP_OP_ROL, o_shift, SHIFT_ROL}, {DP_OP_ROL_S, o_shift_by, SHIFT_ROL}, {DP_OP_ROR, o_shift, SHIFT_ROR},
    {DP_OP_ROR_S, o_shift_by, SHIFT_ROR}, {DP_OP_SHL, o_shift, SHIFT_SHL}, {DP_OP_SHL_S, o_shift_by, SHIFT_SHL},
    {DP_OP_SHR, o_shift, SHIFT_SHR}, {DP_OP_SHR_S, o_shift_by, SHIFT_SHR}, {DP_OP_SAR_S, o_shift_by, SHIFT_SAR},
    {DP_OP_DIV, o_divide, 0}, {DP_OP_IDIV, o_divide, 1},
    {DP_OP_PBL, o_propagate, SPREAD_UP}, {DP_OP_PBR, o_propagate, SPREAD_DOWN}, {DP_OP_PZL, o_propagate, CLEAR_UP},
    {DP_OP_PZR, o_propagate, CLEAR_DOWN}, {DP_OP_PBL_S, o_propagate_by, SPREAD_UP},
    {DP_OP_PBR_S, o_propagate_by, SPREAD_DOWN}, {DP_OP_PZL_S, o_propagate_by, CLEAR_UP},
    {DP_OP_PZR_S, o_propagate_by, CLEAR_DOWN},
    {DP_OP_XCHG, o_xchg, 0}, {DP_OP_DUP, o_dup, 0}, {DP_OP_ROS, o_ros, 0},
    {DP_OP_PUSH_TSP, o_tsp, REL_PUSH}, {DP_OP_POP_TSP, o_tsp, REL_POP}, {DP_OP_COPY_TSP, o_tsp, REL_COPY},
    {DP_OP_PUSH_TSP_S, o_tsp_by, 0},
    {DP_OP_PUSH_SBP, o_sbp, REL_PUSH}, {DP_OP_POP_SBP, o_sbp, REL_POP}, {DP_OP_COPY_SBP, o_sbp, REL_COPY},
    {DP_OP_SAVE_SBP, o_save_sbp, 0}, {DP_OP_RESTORE_SBP, o_restore_sbp, 0}, {DP_OP_SAVE_TSP, o_save_tsp, 0},
    {DP_OP_PUSH_R, o_push_r, 0}, {DP_OP_PUSH_U, o_push_r, 0}, {DP_OP_POP_R, o_pop_r, 0}, {DP_OP_POP_U, o_pop_r, 0},
    {DP_OP_PUSH_D, o_const, 0}, {DP_OP_PUSH_WID, o_const, 1},
    {DP_OP_PUSHR, o_pushr, 8}, {DP_OP_PUSHR_U8, o_pushr, 1}, {DP_OP_PUSHR_U16, o_pushr, 2}, {DP_OP_PUSHR_U32, o_pushr, 4},
    {DP_OP_PUSHR_S8, o_pushr, 1 | SIGNED}, {DP_OP_PUSHR_S16, o_pushr, 2 | SIGNED}, {DP_OP_PUSHR_S32, o_pushr, 4 | SIGNED},
    {DP_OP_NEED, o_need, CC_NE}, {DP_OP_NEED_EQ, o_need, CC_E}, {DP_OP_NEED_NE, o_need, CC_NE}, {DP_OP_NEED_LT, o_need, CC_L},
    {DP_OP_NEED_GE, o_need, CC_GE}, {DP_OP_NEED_LTU, o_need, CC_B}, {DP_OP_NEED_GEU, o_need, CC_AE},
    {DP_OP_NEEDR_EQ, o_needr, CC_E}, {DP_OP_NEEDR_NE, o_needr, CC_NE}, {DP_OP_NEEDR_LT, o_needr, CC_L},
    {DP_OP_NEEDR_GE, o_needr, CC_GE}, {DP_OP_NEEDR_LTU, o_needr, CC_B}, {DP_OP_NEEDR_GEU, o_needr, CC_AE},
    {DP_OP_EQ, o_compare, CC_E}, {DP_OP_NE, o_compare, CC_NE}, {DP_OP_LT, o_compare, CC_L}, {DP_OP_LE, o_compare, CC_LE},
    {DP_OP_GT, o_compare, CC_G}, {DP_OP_GE, o_compare, CC_GE}, {DP_OP_LTU, o_compare, CC_B}, {DP_OP_LEU, o_compare, CC_BE},
    {DP_OP_GTU, o_compare, CC_A}, {DP_OP_GEU, o_compare, CC_AE},
    {DP_OP_BOOL, o_bool, CC_NE}, {DP_OP_LNOT, o_bool, CC_E}, {DP_OP_NOT, o_unary, 2},
    {DP_OP_ZX8, o_extend, 1}, {DP_OP_ZX16, o_extend, 2}, {DP_OP_ZX32, o_extend, 4}, {DP_OP_SX8, o_extend, 1 | SIGNED},
    {DP_OP_SX16, o_extend, 2 | SIGNED}, {DP_OP_SX32, o_extend, 4 | SIGNED}, {DP_OP_BITS, o_bits, 0},
};
/* clang-format on */

static const struct o_row *find(const struct o_row *v, u32 n, u32 opcode)
{
	for (u32 i = 0; i < n; i++)
		if (v[i].opcode == opcode)
			return &v[i];
	return NULL;
}

static const struct o_row *row_of(u32 opcode)
{
	const struct o_row *r = find(rows, DP_ARRAY_SIZE(rows), opcode);

	return r ? r : find(o_calls, o_ncalls, opcode);
}

bool o_known(u32 opcode)
{
	return row_of(opcode) != NULL;
}

void o_compile(struct compiler *c, const struct dp_op_view *op)
{
	const struct o_row *r = row_of(op->opcode);

	if (r)
		r->compile(c, op, r->arg);
	else
		j_leave(c);
}
