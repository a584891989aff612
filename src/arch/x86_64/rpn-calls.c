/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Opcodes to machine code: those that work with the parts of the hit path, memory, log, frames,
 * texts, heap. Before a call all words are written out, behind it they are in memory. A function
 * that fails has changed nothing that matters, so the interpreter does the instruction again
 * (WAY_AGAIN); log items and frames are the exception, which it raises at once (WAY_RAISE).
 */
#include "arch/x86_64/rpn-ops.h"
#include "program/work.h"

#define SCRATCH AT(SP, 0)
#define SIGNED 0x10

static void call(struct compiler *c, enum dp_service s)
{
	dp_way_call(c, s);
	dp_val_forget(c);
}

/* eax is to be 0. */
static void need_zero(struct compiler *c, enum way way)
{
	test(c->e, false, AX);
	dp_way_leave_if(c, CC_NE, way, way == WAY_RAISE ? c->next : c->at);
}

/* The result, of 32 bits, becomes the new top. */
static void push_result(struct compiler *c)
{
	op_reg(c->e, false, 0x89, AX, AX);
	c->locked |= 1u << AX;
	dp_val_push(c, AX);
}

/* Words a and b as second and third argument. */
static void two_args(struct compiler *c, int a, int b)
{
	u8 x = dp_val_load(c, a), y = dp_val_load(c, b);

	dp_val_sync(c);
	move(c->e, R10, y);
	move(c->e, SI, x);
	move(c->e, DX, R10);
}

static void one_arg(struct compiler *c, int a)
{
	u8 x = dp_val_load(c, a);

	dp_val_sync(c);
	move(c->e, SI, x);
}

/* ---- begin, frames ---- */

static void o_begin(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	dp_val_sync(c);
	call(c, DP_SERVICE_dp_rpn_begin);
	op_reg(c->e, false, 0x84, AX, AX);
	dp_way_finish(c, CC_E, DP_RUN_PASSED);
}

static void o_call(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 to = (u32)op->v[0];

	if (to < c->next)
		dp_way_spend(c, c->next - to);
	dp_val_sync(c);
	move_imm32(c->e, SI, to);
	move_imm32(c->e, DX, c->next);
	call(c, DP_SERVICE_dp_rpn_call);
	need_zero(c, WAY_RAISE);
	if (to > c->next) {
		op_mem(c->e, true, 0x81, ALU_ADD, HIT_AT(work));
		dp_emit_u32(c->e, to - c->next);
	}
	dp_way_settle(c, to, ~0u);
	dp_way_goto(c, CC_ALWAYS, to);
	c->ended = true;
}

/* Where a call comes back; ~0 behind the last one. */
static u32 return_point(const struct compiler *c, u32 from)
{
	struct dp_op_view op;

	for (u32 at = from; at < c->in->rt->len; at += op.len) {
		dp_op_decode(c->in->code, c->in->rt->len, at, &op);
		if (op.opcode == DP_OP_CALL && c->flow.places[at].is_reached)
			return at + op.len;
	}
	return ~0u;
}

/* Frames are made by compiled calls alone, so it is one of their returns. */
static void o_ret(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 to = return_point(c, 0), more;
	size_t forward;

	dp_val_sync(c);
	call(c, DP_SERVICE_dp_rpn_ret);
	need_zero(c, WAY_RAISE);
	if (to == ~0u) {
		dp_way_finish(c, CC_ALWAYS, DP_RUN_FILTERED); /* not reached: there is no frame */
		return;
	}
	load32(c->e, AX, RPN_AT(next));
	move_imm32(c->e, R10, c->next);
	op_regs(c->e, true, ALU_SUB, R10, AX);
	forward = jump_hole(c->e, CC_BE);
	op_mem(c->e, true, 0x29, R10, HIT_AT(work)); /* sub: how far it leads back */
	land_here(c->e, forward);
	dp_way_settle(c, to, ~0u);
	while ((more = return_point(c, to)) != ~0u) {
		op_imm(c->e, false, ALU_CMP, AX, to);
		dp_way_goto(c, CC_E, to);
		to = more;
	}
	dp_way_goto(c, CC_ALWAYS, to);
	c->ended = true;
}

static void o_handler(struct compiler *c, const struct dp_op_view *op, u32 set)
{
	load32(c->e, R10, RPN_AT(depth));
	op_reg(c->e, true, 0x69, R10, R10); /* imul $size */
	dp_emit_u32(c->e, sizeof(struct dp_frame));
	store_imm(c->e, false,
		  (struct mem){VM, R10, 1,
			       offsetof(struct dp_vm, rpn) + offsetof(struct dp_rpn_state, frames) +
				   offsetof(struct dp_frame, handler)},
		  set ? (u32)op->v[0] + 1 : 0);
}

static void o_push_x(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	const struct mem from[] = {RPN_AT(parm2), RPN_AT(parm1), RPN_AT(code)};

	for (u32 i = 0; i < DP_ARRAY_SIZE(from); i++) {
		u8 r = dp_val_alloc(c);

		load(c->e, r, from[i]);
		dp_val_push(c, r);
	}
}

/* ---- memory ---- */

static void read_word(struct compiler *c, s64 offset, u32 bytes)
{
	u8 addr = dp_val_load(c, 0);

	dp_val_sync(c);
	lea(c->e, true, DX, AT(addr, offset));
	lea(c->e, true, SI, SCRATCH);
	move_imm32(c->e, CX, bytes);
	call(c, DP_SERVICE_dp_hit_read);
}

void dp_op_read(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 bytes = op->info->op.size;
	u8 r;

	read_word(c, op->info->operands[0] ? op->v[0] : 0, bytes);
	need_zero(c, WAY_AGAIN);
	r = dp_val_alloc(c);
	load_part(c->e, r, SCRATCH, bytes, false);
	dp_val_set(c, 0, r);
}

void dp_op_write(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 value = dp_val_load(c, 0), addr = dp_val_load(c, 1);

	dp_val_sync(c);
	store(c->e, SCRATCH, value);
	move(c->e, SI, addr);
	lea(c->e, true, DX, SCRATCH);
	move_imm32(c->e, CX, op->info->op.size);
	call(c, DP_SERVICE_dp_hit_write);
	need_zero(c, WAY_AGAIN);
	c->cur = (s16)(c->cur + 2);
}

static void o_verify(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	read_word(c, 0, 1);
	test(c->e, false, AX);
	set_if(c->e, CC_NE, AX);
	c->locked |= 1u << AX;
	dp_val_set(c, 0, AX);
}

/* ---- texts ---- */

static void o_str(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	one_arg(c, 0);
	move_imm32(c->e, DX, (u32)op->v[0]);
	call(c, DP_SERVICE_dp_vm_text);
	op_reg(c->e, false, 0x84, AX, AX);
	dp_way_leave_if(c, CC_E, WAY_AGAIN, c->at);
	c->cur++;
}

static void o_comm(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	dp_val_sync(c);
	call(c, DP_SERVICE_dp_vm_comm);
}

static void o_text(struct compiler *c, const struct dp_op_view *op, u32 service)
{
	dp_val_sync(c);
	load(c->e, SI, HIT_AT(prog));
	load(c->e, SI, AT(SI, offsetof(struct dp_code_rt, code)));
	op_imm(c->e, true, ALU_ADD, SI, (u32)(op->text - c->in->code));
	move_imm32(c->e, DX, (u32)dp_op_operand(op, DP_KIND_TEXT));
	lea(c->e, true, DI, VM_AT(scratch, 0));
	dp_way_go(c, GO_CALL, (enum dp_service)service);
	dp_val_forget(c);
	move_part(c->e, AX, AX, 1, false);
	push_result(c);
}

/* ---- log ---- */

static u32 head_size(const struct compiler *c)
{
	u32 head = sizeof(struct dp_rpn_head);

	return c->in->rt->logmax < head ? 0 : head;
}

static void o_log_item(struct compiler *c, const struct dp_op_view *op, u32 service)
{
	two_args(c, 1, 0);
	c->cur = (s16)(c->cur + 2);
	call(c, (enum dp_service)service);
	need_zero(c, WAY_RAISE);
}

static void o_log_vars(struct compiler *c, const struct dp_op_view *op, u32 token)
{
	two_args(c, 1, 0);
	move_imm32(c->e, CX, token);
	c->cur = (s16)(c->cur + 2);
	call(c, DP_SERVICE_dp_rpn_log_vars);
	need_zero(c, WAY_RAISE);
}

/* n words from the i-th on, behind `prefix` bytes; what does not fit is the interpreter's. Returns
 * the register with their place. */
static u8 log_words(struct compiler *c, int i, u32 n, u32 prefix)
{
	u32 bytes = prefix + 8 * n;
	u8 at = dp_val_alloc(c);

	load32(c->e, at, HIT_AT(log_len));
	lea(c->e, false, R10, AT(at, bytes));
	op_imm(c->e, false, ALU_CMP, R10, c->in->rt->logmax);
	dp_way_leave_if(c, CC_A, WAY_AGAIN, c->at);
	store32(c->e, HIT_AT(log_len), R10);
	or_imm(c->e, HIT_AT(rec_flags), prefix ? DP_REC_ITEMS : DP_REC_BARE);
	for (u32 k = 0; k < n; k++) {
		struct mem to = {VM, at, 1, (s32)(PAYLOAD + prefix + 8 * k)};
		u64 v;

		if (dp_val_is_const(c, i + (int)k, &v) && (u64)(s64)(s32)v == v) {
			store_imm(c->e, true, to, (u32)v);
		} else {
			u8 r = dp_val_load(c, i + (int)k);

			store(c->e, to, r);
			c->locked &= ~(1u << r);
		}
	}
	lea(c->e, false, R10, AT(at, -(s32)head_size(c)));
	store32(c->e, RPN_AT(plp), R10);
	return at;
}

static void o_log(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 n = (u32)op->v[0];

	if (n > LOG_WORDS_MAX) {
		dp_way_leave(c);
		return;
	}
	log_words(c, 0, n, 0);
	c->cur = (s16)(c->cur + n);
}

static void o_log_words(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u64 n;
	u8 at;

	if (!dp_val_is_const(c, 0, &n) || n > LOG_WORDS_MAX || dp_flow_count_before(&c->flow, c->at) != n) {
		dp_way_leave(c);
		return;
	}
	at = log_words(c, 1, (u32)n, 3);
	store_imm8(c->e, (struct mem){VM, at, 1, PAYLOAD}, DP_TOKEN_WORDS);
	store_imm16(c->e, (struct mem){VM, at, 1, PAYLOAD + 1}, (u16)n);
	op_mem(c->e, true, 0x81, ALU_SUB, HIT_AT(work));
	dp_emit_u32(c->e, dp_work_of_words((u32)n));
	c->cur = (s16)(c->cur + 1 + (s32)n);
}

static void o_set_number(struct compiler *c, const struct dp_op_view *op, u32 at)
{
	store_imm16(c->e, AT(VM, PAYLOAD + at), (u16)op->v[0]);
}

static void o_set_number_by(struct compiler *c, const struct dp_op_view *op, u32 at)
{
	u8 r = dp_val_load(c, 0);

	dp_emit_u8(c->e, 0x66);
	op_mem(c->e, false, 0x89, r, AT(VM, PAYLOAD + at));
	c->cur++;
}

static void o_push_position(struct compiler *c, const struct dp_op_view *op, u32 before)
{
	u8 r = dp_val_alloc(c);

	load32(c->e, r, before ? RPN_AT(plp) : HIT_AT(log_len));
	if (!before)
		op_imm(c->e, false, ALU_SUB, r, head_size(c));
	dp_val_push(c, r);
}

/* ---- what the host tells ---- */

static void o_ask(struct compiler *c, const struct dp_op_view *op, u32 service)
{
	dp_val_sync(c);
	call(c, (enum dp_service)service);
	push_result(c);
}

static void o_tid(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r = dp_val_alloc(c);

	load32(c->e, r, HIT_AT(tid));
	dp_val_push(c, r);
}

static void o_time(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	dp_val_sync(c);
	call(c, DP_SERVICE_dp_hit_ns);
	c->locked |= 1u << AX;
	dp_val_push(c, AX);
}

/* ---- tables and aggregates ---- */

static void o_push_words(struct compiler *c, const struct dp_op_view *op, u32 service)
{
	u32 n = (u32)op->v[0];

	if (n > INSN_REACH) {
		dp_way_leave(c);
		return;
	}
	dp_val_sync(c);
	dp_val_top(c, SI);
	move_imm32(c->e, DX, n);
	call(c, (enum dp_service)service);
	dp_val_forget_all(c); /* it writes to the stack's memory */
	c->cur = (s16)(c->cur - (s32)n);
}

static void o_chain(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	dp_val_sync(c);
	move_imm32(c->e, SI, (u32)op->v[0]);
	move_imm32(c->e, DX, (u32)op->v[1]);
	move_imm32(c->e, CX, (u32)op->v[2]);
	call(c, DP_SERVICE_dp_rpn_chain);
	c->locked |= 1u << AX;
	dp_val_push(c, AX);
}

static void o_find(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	dp_val_sync(c);
	dp_val_top(c, SI);
	move_imm32(c->e, DX, (u32)op->v[0]);
	move_imm32(c->e, CX, (u32)op->v[1]);
	move_imm32(c->e, R8, (u32)op->v[2]);
	move_imm32(c->e, R9, (u32)op->v[3]);
	call(c, DP_SERVICE_dp_rpn_find);
	c->cur = (s16)(c->cur + op->v[0]);
	c->locked |= 1u << AX;
	dp_val_push(c, AX);
}

static void o_fold(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 value = dp_val_load(c, 1), index = dp_val_load(c, 0);

	dp_val_sync(c);
	move(c->e, R10, value);
	move(c->e, DX, index);
	move(c->e, CX, R10);
	move_imm32(c->e, SI, (u32)op->v[0]);
	call(c, DP_SERVICE_dp_rpn_fold);
	need_zero(c, WAY_AGAIN);
	c->cur = (s16)(c->cur + 2);
}

/* ---- heap ---- */

static void o_malloc(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u8 r;

	one_arg(c, 0);
	call(c, DP_SERVICE_dp_rpn_heap_alloc);
	need_zero(c, WAY_AGAIN);
	r = dp_val_alloc(c);
	load(c->e, r, RPN_AT(handle));
	dp_val_set(c, 0, r);
}

static void o_free(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	one_arg(c, 0);
	call(c, DP_SERVICE_dp_rpn_heap_free);
	need_zero(c, WAY_AGAIN);
	c->cur++;
}

/* rax: the place in the heap. False: left to the interpreter. */
static bool heap_place(struct compiler *c, u32 n, u32 bytes)
{
	if (n > LOG_WORDS_MAX) {
		dp_way_leave(c);
		return false;
	}
	two_args(c, 1, 0);
	move_imm32(c->e, CX, n * bytes);
	call(c, DP_SERVICE_dp_rpn_heap);
	test(c->e, true, AX);
	dp_way_leave_if(c, CC_E, WAY_AGAIN, c->at);
	c->locked |= 1u << AX;
	c->cur = (s16)(c->cur + 2);
	return true;
}

static void push_heap(struct compiler *c, u32 n, u32 bytes)
{
	for (u32 i = 0; i < n; i++) {
		u8 r = dp_val_alloc(c);

		load_part(c->e, r, AT(AX, i * bytes), bytes, false);
		dp_val_push(c, r);
		c->locked &= ~(1u << r);
	}
}

static void pop_heap(struct compiler *c, u32 n, u32 bytes)
{
	while (n-- > 0) {
		u8 r = dp_val_load(c, 0);

		if (bytes == 2)
			dp_emit_u8(c->e, 0x66);
		op_mem(c->e, bytes == 8, bytes == 1 ? 0x88 : 0x89, r, AT(AX, n * bytes));
		c->locked &= ~(1u << r);
		c->cur++;
	}
}

void dp_op_heap(struct compiler *c, const struct dp_op_view *op, u32 arg)
{
	u32 n = (u32)op->v[0], bytes = op->info->op.size;

	if (!heap_place(c, n, bytes))
		return;
	if (op->info->op.how == DP_ACCESS_PUSH)
		push_heap(c, n, bytes);
	else
		pop_heap(c, n, bytes);
}

#define HEAD_OF(field) offsetof(struct dp_rpn_head, field)

/* clang-format off */
const struct o_row dp_op_calls[] = {
    {DP_OP_BEGIN, o_begin, 0}, {DP_OP_CALL, o_call, 0}, {DP_OP_RET, o_ret, 0}, {DP_OP_SX, o_handler, 1},
    {DP_OP_UX, o_handler, 0}, {DP_OP_PUSH_X, o_push_x, 0},
    {DP_OP_SETMIN, o_set_number, HEAD_OF(minor)}, {DP_OP_SETMIN_S, o_set_number_by, HEAD_OF(minor)},
    {DP_OP_SETMAJ, o_set_number, HEAD_OF(major)}, {DP_OP_SETMAJ_S, o_set_number_by, HEAD_OF(major)},
    {DP_OP_LOG_STR, o_log_item, DP_SERVICE_dp_rpn_log_str}, {DP_OP_LOG_MRF, o_log_item, DP_SERVICE_dp_rpn_log_mrf},
    {DP_OP_LOG, o_log, 0}, {DP_OP_LOG_S, o_log_words, 0}, {DP_OP_LOG_LV, o_log_vars, DP_TOKEN_LOCALS},
    {DP_OP_LOG_GV, o_log_vars, DP_TOKEN_GLOBALS}, {DP_OP_PUSH_LP, o_push_position, 0},
    {DP_OP_PUSH_PLP, o_push_position, 1},
    {DP_OP_PUSH_PID, o_ask, DP_SERVICE_dp_hit_pid}, {DP_OP_PUSH_PROCID, o_ask, DP_SERVICE_dp_hit_cpu},
    {DP_OP_VFY_R, o_verify, 0},
    {DP_OP_STR, o_str, 0}, {DP_OP_STRCOMM, o_comm, 0}, {DP_OP_STREQ, o_text, DP_SERVICE_dp_vm_same},
    {DP_OP_STRGLOB, o_text, DP_SERVICE_dp_vm_match},
    {DP_OP_PUSH_TID, o_tid, 0}, {DP_OP_PUSH_NS, o_time, 0},
    {DP_OP_PUSH_TEXT, o_push_words, DP_SERVICE_dp_rpn_push_text},
    {DP_OP_PUSH_FRAMES, o_push_words, DP_SERVICE_dp_rpn_push_frames},
    {DP_OP_PUSH_CHAIN, o_chain, 0}, {DP_OP_FIND_LV, o_find, 0}, {DP_OP_FOLD_LV, o_fold, 0},
    {DP_OP_MALLOC, o_malloc, 0}, {DP_OP_FREE, o_free, 0},
};
/* clang-format on */
const u32 dp_op_ncalls = DP_ARRAY_SIZE(dp_op_calls);
