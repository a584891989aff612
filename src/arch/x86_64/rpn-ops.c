/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Opcodes to machine code: words, flow and variables (those that call functions of the hit path are
 * in rpn-calls.c). Each does what the block of that name in hit/vm.c does. Registers are taken
 * first, then flags are set and looked at: taking one may spoil flags.
 */
#include "arch/x86_64/rpn-ops.h"

/* ---- operations in the processor's terms ---- */

#define MUL 8

static const u8 alu_of[] = {
    [DP_ALU_ADD] = ALU_ADD, [DP_ALU_SUB] = ALU_SUB, [DP_ALU_AND] = ALU_AND, [DP_ALU_OR] = ALU_OR,
    [DP_ALU_XOR] = ALU_XOR, [DP_ALU_MUL] = MUL,     [DP_ALU_NEG] = 3,       [DP_ALU_NOT] = 2,
};

static const u8 shift_of[] = {[DP_SHIFT_ROL] = SHIFT_ROL,
			      [DP_SHIFT_ROR] = SHIFT_ROR,
			      [DP_SHIFT_SHL] = SHIFT_SHL,
			      [DP_SHIFT_SHR] = SHIFT_SHR,
			      [DP_SHIFT_SAR] = SHIFT_SAR};

/* ---- small things ---- */

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

static struct mem reg_word_at(u32 reg_word)
{
	return AT(REGS, 8 * reg_word);
}

static u32 reg_word_of(s64 number)
{
	return dp_register_by_number((u32)number)->reg_word;
}

/* ---- arithmetic ---- */

static void o_binary(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 n = alu_of[op->info->op.how];
	u64 a, b;
	bool is_const = dp_val_is_const(c, 0, &b);
	u8 x, y;

	if (is_const && dp_val_is_const(c, 1, &a)) {
		c->cur++;
		dp_val_set_const(c, 0, dp_alu(op->info->op.how, a, b));
		return;
	}
	if (is_const && fits(b)) {
		x = dp_val_take(c, 1);
		if (n == MUL) {
			op_reg(c->e, true, 0x69, x, x);
			dp_emit_u32(c->e, (u32)b);
		} else {
			op_imm(c->e, true, (enum alu)n, x, (u32)b);
		}
	} else {
		y = dp_val_load(c, 0);
		x = dp_val_take(c, 1);
		if (n == MUL)
			op_reg(c->e, true, 0xaf0f, x, y);
		else
			op_regs(c->e, true, (enum alu)n, x, y);
	}
	c->cur++;
	dp_val_set(c, 0, x);
}

static void o_unary(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u64 a;
	u8 x;

	if (dp_val_is_const(c, 0, &a)) {
		dp_val_set_const(c, 0, dp_alu(op->info->op.how, a, 0));
		return;
	}
	x = dp_val_take(c, 0);
	op_reg(c->e, true, 0xf7, alu_of[op->info->op.how], x);
	dp_val_set(c, 0, x);
}

static void o_compare(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 cc = cc_of[op->info->op.how];
	u64 k;
	bool is_const = dp_val_is_const(c, 0, &k) && fits(k);
	u8 y = is_const ? 0 : dp_val_load(c, 0), x = dp_val_load(c, 1), r = dp_val_alloc(c);

	if (is_const)
		compare_const(c, x, k);
	else
		op_regs(c->e, true, ALU_CMP, x, y);
	set_if(c->e, cc, r);
	c->cur++;
	dp_val_set(c, 0, r);
}

static void o_bool(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 cc = cc_of[op->info->op.how];
	u8 x = dp_val_load(c, 0), r = dp_val_alloc(c);

	test(c->e, true, x);
	set_if(c->e, cc, r);
	dp_val_set(c, 0, r);
}

static void o_extend(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 x = dp_val_load(c, 0), r = dp_val_alloc(c);

	move_part(c->e, r, x, op->info->op.size, op->info->op.is_signed);
	dp_val_set(c, 0, r);
}

static void o_bits(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 n = (u32)op->v[0], w = (u32)op->v[1];
	u8 x = dp_val_take(c, 0);

	shift(c, SHIFT_SHR, x, n);
	if (w < 64 - n) {
		shift(c, SHIFT_SHL, x, 64 - w);
		shift(c, SHIFT_SHR, x, 64 - w);
	}
	dp_val_set(c, 0, x);
}

static void o_shift(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 x = dp_val_take(c, 0);

	shift(c, (enum shift)shift_of[op->info->op.how], x, (u32)op->v[0]);
	dp_val_set(c, 0, x);
}

/* (n a -- a by n): the processor looks at six bits of n; what more bits mean is the machine's. */
static void o_shift_by(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 n = shift_of[op->info->op.how];
	u8 by, x, r;

	dp_val_evict(c, CX);
	by = dp_val_load(c, 1);
	x = dp_val_load(c, 0);
	r = dp_val_alloc(c);
	move(c->e, CX, by);
	move(c->e, r, x);
	if (n == SHIFT_SAR) {
		move_imm32(c->e, R10, 63);
		op_regs(c->e, true, ALU_CMP, CX, R10);
		op_reg(c->e, true, 0x470f, CX, R10); /* cmova */
	}
	op_reg(c->e, true, 0xd3, n, r);
	if (n == SHIFT_SHL || n == SHIFT_SHR) {
		move_imm32(c->e, R10, 0);
		op_imm(c->e, true, ALU_CMP, CX, 63);
		op_reg(c->e, true, 0x470f, r, R10);
	}
	c->cur++;
	dp_val_set(c, 0, r);
}

static void propagate(struct compiler *c, u32 n, u32 how)
{
	u8 x = dp_val_take(c, 0);

	if (how == DP_BITS_SPREAD_UP || how == DP_BITS_CLEAR_UP) {
		shift(c, SHIFT_SHL, x, 64 - n);
		shift(c, how == DP_BITS_SPREAD_UP ? SHIFT_SAR : SHIFT_SHR, x, 64 - n);
	} else if (n > 1) {
		if (how == DP_BITS_SPREAD_DOWN) {
			move(c->e, R10, x);
			shift(c, SHIFT_SHL, R10, 64 - n);
			shift(c, SHIFT_SAR, R10, 63);
			shift(c, SHIFT_SHR, R10, 65 - n);
		}
		shift(c, SHIFT_SHR, x, n - 1);
		shift(c, SHIFT_SHL, x, n - 1);
		if (how == DP_BITS_SPREAD_DOWN)
			op_regs(c->e, true, ALU_OR, x, R10);
	}
	dp_val_set(c, 0, x);
}

static void o_propagate(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	propagate(c, (u32)op->v[0], op->info->op.how);
}

static void o_propagate_by(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u64 n;

	if (!dp_val_is_const(c, 0, &n) || n - 1 > 63) {
		dp_way_leave(c);
		return;
	}
	c->cur++;
	propagate(c, (u32)n, op->info->op.how);
}

static void o_divide(struct compiler *c, const struct dp_op_view *op, u32 is_signed)
{
	size_t minus_one = 0, done = 0;
	u8 x, y;

	dp_val_evict(c, AX);
	dp_val_evict(c, DX);
	y = dp_val_load(c, 0);
	x = dp_val_load(c, 1);
	test(c->e, true, y);
	dp_way_leave_if(c, CC_E, WAY_AGAIN, c->at);
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
	dp_val_set(c, 1, DX);
	dp_val_set(c, 0, AX);
}

/* ---- the stack ---- */

static void o_const(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	c->cur--;
	dp_val_set_const(c, 0, dp_op_constant(op));
}

static void o_xchg(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	struct word a, b;

	for (int i = 0; i < 2; i++)
		if (dp_val_word(c, i)->kind != CONSTANT)
			dp_val_load(c, i); /* and so that the other does not drive it out */
	a = *dp_val_word(c, 0);
	b = *dp_val_word(c, 1);
	a.dirty = b.dirty = true;
	*dp_val_word(c, 0) = b;
	*dp_val_word(c, 1) = a;
}

static void o_dup(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	int n = (int)op->v[0];

	if (n > 16) {
		dp_way_leave(c);
		return;
	}
	for (int i = 1; i < n; i++)
		dp_val_copy(c, -i, 0);
	c->cur = (s16)(c->cur + 1 - n);
}

static void o_ros(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	dp_val_sync(c);
	c->cur = (s16)(c->cur + op->v[0]);
	if (op->v[0] > INSN_REACH)
		dp_val_rebase(c);
}

static void top_word(struct compiler *c, const struct dp_op_view *op, u32 how)
{
	int i = (int)op->v[0];

	if (i > 16 || i < -16) {
		dp_way_leave(c);
		return;
	}
	dp_val_copy(c, how == DP_ACCESS_PUSH ? -1 : how == DP_ACCESS_POP ? i + 1 : i, how == DP_ACCESS_PUSH ? i : 0);
	c->cur = (s16)(c->cur + (how == DP_ACCESS_PUSH ? -1 : how == DP_ACCESS_POP));
}

static void o_stack_at(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u64 i;

	if (op->info->op.where != DP_BASE_TOP || op->info->op.how != DP_ACCESS_PUSH || !dp_val_is_const(c, 0, &i) ||
	    i > 16) {
		dp_way_leave(c);
		return;
	}
	dp_val_copy(c, 0, (int)i + 1);
}

/* The word of the stack at its base plus i. The base is the hit's, so it may be any word. */
static struct mem base_place(struct compiler *c, s64 i)
{
	load32(c->e, R11, RPN_AT(base));
	op_imm(c->e, false, ALU_ADD, R11, (u32)i);
	op_imm(c->e, false, ALU_AND, R11, DP_VM_STACK - 1);
	return (struct mem){VM, R11, 8, 0};
}

static void base_word(struct compiler *c, const struct dp_op_view *op, u32 how)
{
	u8 r = how == DP_ACCESS_PUSH ? dp_val_alloc(c) : dp_val_load(c, 0);

	dp_val_sync(c);
	if (how == DP_ACCESS_PUSH) {
		load(c->e, r, base_place(c, op->v[0]));
		dp_val_push(c, r);
		return;
	}
	store(c->e, base_place(c, op->v[0]), r);
	dp_val_forget_all(c);
	c->cur = (s16)(c->cur + (how == DP_ACCESS_POP));
}

static void o_stack(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	if (op->info->op.where == DP_BASE_TOP)
		top_word(c, op, op->info->op.how);
	else
		base_word(c, op, op->info->op.how);
}

static void o_save_sbp(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = dp_val_alloc(c);

	load32(c->e, r, RPN_AT(base));
	dp_val_push(c, r);
}

static void o_restore_sbp(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	store32(c->e, RPN_AT(base), dp_val_load(c, 0));
	c->cur++;
}

static void o_save_tsp(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = dp_val_alloc(c);

	dp_val_top(c, r);
	dp_val_push(c, r);
}

/* Where the top is now no block knows ahead. */
static void o_restore_tsp(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = dp_val_load(c, 0);

	dp_val_sync(c);
	op_reg(c->e, false, 0x89, r, TOP);
	dp_val_forget_all(c);
	c->any_top = true;
	c->top = 0;
	c->cur = 0;
}

/* ---- registers ---- */

static void push_register(struct compiler *c, const struct dp_op_view *op)
{
	u8 r = dp_val_alloc(c);

	load(c->e, r, reg_word_at(reg_word_of(op->v[0])));
	dp_val_push(c, r);
}

/* What a program may set in the flags register; as in vm.c. */
#define FLAGS_WRITABLE 0xcd5u

static void pop_register(struct compiler *c, const struct dp_op_view *op)
{
	u32 reg_word = reg_word_of(op->v[0]);
	u8 r = dp_val_load(c, 0);

	if (reg_word == DP_REG_WORD(flags)) {
		load(c->e, R10, reg_word_at(reg_word));
		op_imm(c->e, true, ALU_AND, R10, ~FLAGS_WRITABLE);
		move(c->e, R11, r);
		op_imm(c->e, true, ALU_AND, R11, FLAGS_WRITABLE);
		op_regs(c->e, true, ALU_OR, R10, R11);
		r = R10;
	}
	store(c->e, reg_word_at(reg_word), r);
	c->cur++;
}

static void o_register(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	if (op->info->op.how == DP_ACCESS_PUSH)
		push_register(c, op);
	else
		pop_register(c, op);
}

static void o_part(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = dp_val_alloc(c);

	load_part(c->e, r, reg_word_at((u32)op->v[0]), op->info->op.size, op->info->op.is_signed);
	dp_val_push(c, r);
}

/* ---- variables ---- */

static u8 variables(struct compiler *c, const struct dp_op_view *op)
{
	if (op->info->op.where == DP_VARIABLES_LOCAL)
		return VARS;
	move_address(c->e, R10, c->in->rt->globals);
	return R10;
}

static void touch_variable(struct compiler *c, struct mem m, u32 how, u8 r)
{
	if (how == DP_ACCESS_PUSH) {
		load(c->e, r, m);
	} else if (how == DP_ACCESS_POP || how == DP_ACCESS_MOVE) {
		store(c->e, m, r);
	} else {
		dp_emit_u8(c->e, 0xf0); /* lock */
		op_mem(c->e, true, 0xff, how == DP_ACCESS_DEC, m);
	}
}

static void o_var(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 how = op->info->op.how;
	u8 r = how == DP_ACCESS_PUSH                           ? dp_val_alloc(c)
	       : how == DP_ACCESS_POP || how == DP_ACCESS_MOVE ? dp_val_load(c, 0)
							       : 0;

	touch_variable(c, AT(variables(c, op), 8 * op->v[0]), how, r);
	if (how == DP_ACCESS_PUSH)
		dp_val_push(c, r);
	c->cur = (s16)(c->cur + (how == DP_ACCESS_POP));
}

/* With the index on the stack: on the top, but for pop, whose value is there. */
static void o_var_by(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	static const u8 value_at[] = {[DP_ACCESS_POP] = 0, [DP_ACCESS_MOVE] = 1};
	u32 how = op->info->op.how;
	u32 n = op->info->op.where == DP_VARIABLES_GLOBAL ? c->in->rt->nglobals : c->in->rt->nlocals;
	u8 i = dp_val_load(c, how == DP_ACCESS_POP), r = 0;

	if (how == DP_ACCESS_PUSH)
		r = dp_val_alloc(c);
	else if (how == DP_ACCESS_POP || how == DP_ACCESS_MOVE)
		r = dp_val_load(c, value_at[how]);
	op_imm(c->e, true, ALU_CMP, i, n);
	dp_way_leave_if(c, CC_AE, WAY_AGAIN, c->at);
	touch_variable(c, (struct mem){variables(c, op), i, 8, 0}, how, r);
	if (how == DP_ACCESS_PUSH)
		dp_val_set(c, 0, r);
	else
		c->cur = (s16)(c->cur + (how == DP_ACCESS_POP ? 2 : 1));
}

/* ---- flow ---- */

static void o_nop(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
}

static void spend_jump(struct compiler *c)
{
	op_imm(c->e, false, ALU_SUB, LEFT, 1);
	dp_way_leave_if(c, CC_B, WAY_BUDGET, c->at);
}

/* Control goes there; see program/work.h. */
static void spend_back(struct compiler *c, u32 to)
{
	if (to < c->next)
		dp_way_spend(c, c->next - to);
}

static void o_jump(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 to = (u32)op->v[0];

	dp_val_sync(c);
	dp_way_settle(c, to, ~0u);
	spend_back(c, to);
	spend_jump(c);
	dp_way_goto(c, CC_ALWAYS, to);
	c->ended = true;
}

static void o_branch(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 cc = cc_of[op->info->op.how];
	u32 to = (u32)op->v[0];
	u8 r = dp_val_load(c, 0);
	size_t stay;

	dp_val_sync(c);
	dp_way_settle(c, to, c->next);
	test(c->e, true, r);
	stay = jump_hole(c->e, cc ^ 1);
	spend_back(c, to);
	spend_jump(c);
	dp_way_goto(c, CC_ALWAYS, to);
	land_here(c->e, stay);
	c->ended = true; /* into the next block, which stands behind */
}

static void o_loop(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 to = (u32)op->v[0];
	u8 r;

	r = dp_val_take(c, 0);
	spend_back(c, to);
	spend_jump(c);
	op_imm(c->e, true, ALU_SUB, r, 1);
	dp_val_set(c, 0, r);
	dp_val_sync(c);
	dp_way_settle(c, to, c->next);
	test(c->e, true, r);
	dp_way_goto(c, CC_NE, to);
	c->ended = true;
}

static void o_exit(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	if (c->in->whole)
		dp_val_sync(c);
	load32(c->e, AX, HIT_AT(log_len));
	test(c->e, false, AX);
	dp_way_finish(c, CC_E, DP_RUN_FILTERED);
	op_reg(c->e, false, 0xf7, 3, AX); /* neg */
	op_imm(c->e, false, ALU_AND, AX, 7);
	store32(c->e, AT(VM, PAYLOAD + offsetof(struct dp_rpn_head, pad)), AX);
	dp_way_finish(c, CC_ALWAYS, DP_RUN_LOG);
}

static void o_abort(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	if (c->in->whole)
		dp_val_sync(c);
	store_imm(c->e, false, RPN_AT(trace_len), 0);
	dp_way_finish(c, CC_ALWAYS, DP_RUN_FILTERED);
}

static void o_need(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 cc = cc_of[op->info->op.how];
	u8 r = dp_val_load(c, 0);

	if (c->in->whole)
		dp_val_sync(c);
	compare_const(c, r, (u64)op->v[0]); /* 0 where there is none */
	dp_way_finish(c, cc ^ 1, DP_RUN_FILTERED);
	c->cur++;
}

static void o_needr(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 cc = cc_of[op->info->op.how];
	if (c->in->whole)
		dp_val_sync(c);
	load(c->e, R10, reg_word_at((u32)op->v[0]));
	compare_const(c, R10, (u64)op->v[1]);
	dp_way_finish(c, cc ^ 1, DP_RUN_FILTERED);
}

/* ---- the tables ---- */

static const o_compiler by_operation[DP_NDOES] = {
    [DP_DOES_CONSTANT] = o_const,    [DP_DOES_BINARY] = o_binary,
    [DP_DOES_UNARY] = o_unary,       [DP_DOES_COMPARE] = o_compare,
    [DP_DOES_TRUTH] = o_bool,        [DP_DOES_EXTEND] = o_extend,
    [DP_DOES_SHIFT] = o_shift,       [DP_DOES_SHIFT_BY] = o_shift_by,
    [DP_DOES_BITS] = o_propagate,    [DP_DOES_BITS_BY] = o_propagate_by,
    [DP_DOES_STACK] = o_stack,       [DP_DOES_STACK_AT] = o_stack_at,
    [DP_DOES_VAR] = o_var,           [DP_DOES_VAR_AT] = o_var_by,
    [DP_DOES_REGISTER] = o_register, [DP_DOES_PART] = o_part,
    [DP_DOES_READ] = dp_op_read,     [DP_DOES_WRITE] = dp_op_write,
    [DP_DOES_HEAP] = dp_op_heap,     [DP_DOES_BRANCH] = o_branch,
    [DP_DOES_NEED] = o_need,         [DP_DOES_NEED_REG] = o_needr,
};

static const struct o_row rows[] = {
    {DP_OP_NOP, o_nop, 0},           {DP_OP_JMP, o_jump, 0},
    {DP_OP_LOOP, o_loop, 0},         {DP_OP_ABORT, o_abort, 0},
    {DP_OP_EXIT, o_exit, 0},         {DP_OP_DIV, o_divide, 0},
    {DP_OP_IDIV, o_divide, 1},       {DP_OP_XCHG, o_xchg, 0},
    {DP_OP_DUP, o_dup, 0},           {DP_OP_ROS, o_ros, 0},
    {DP_OP_SAVE_SBP, o_save_sbp, 0}, {DP_OP_RESTORE_SBP, o_restore_sbp, 0},
    {DP_OP_SAVE_TSP, o_save_tsp, 0}, {DP_OP_RESTORE_TSP, o_restore_tsp, 0},
    {DP_OP_BITS, o_bits, 0},
};

static const struct o_row *find(const struct o_row *v, u32 n, u32 opcode)
{
	for (u32 i = 0; i < n; i++)
		if (v[i].opcode == opcode)
			return &v[i];
	return NULL;
}

static o_compiler compiler_of(const struct dp_op_view *op, u32 *arg)
{
	const struct o_row *r;

	*arg = 0;
	if (op->info->op.does != DP_DOES_OWN)
		return by_operation[op->info->op.does];
	r = find(rows, DP_ARRAY_SIZE(rows), op->opcode);
	r = r ? r : find(dp_op_calls, dp_op_ncalls, op->opcode);
	if (r)
		*arg = r->arg;
	return r ? r->compile : NULL;
}

bool dp_op_known(const struct dp_op_view *op)
{
	u32 arg;

	return compiler_of(op, &arg) != NULL;
}

void dp_op_compile(struct compiler *c, const struct dp_op_view *op)
{
	u32 arg;
	o_compiler compile = compiler_of(op, &arg);

	if (compile) {
		dp_way_spend(c, dp_op_work(op));
		compile(c, op, arg);
	} else {
		dp_way_leave(c);
	}
}
