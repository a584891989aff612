/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Code for fetch arguments: as a value on the stack, and as a field of the record. The usual ones
 * are one fused instruction: a register, or memory at a register plus an offset.
 */
#include "lang/event/event-priv.h"

#define NO_FIELD 0xff

static void put(struct dp_event_line *l, enum dp_opcode op, s64 a, s64 b)
{
	dp_asm_put(&l->code, op, (const s64[]){a, b}, NULL);
}

/* Where the chain of pointers starts, 64 bits. */
static void gen_base(struct dp_event_line *l, const struct ev_fetch *f)
{
	if (f->base == EV_ASK) {
		put(l, (enum dp_opcode)f->value, 0, 0);
	} else if (f->base != EV_REG) {
		put(l, DP_OP_PUSH_D, (s64)(f->base == EV_CONST ? f->value : f->address), 0);
	} else if (f->shift) {
		put(l, DP_OP_PUSHR, f->reg_word, 0);
		put(l, DP_OP_BITS, f->shift, f->width);
	} else {
		put(l,
		    f->width == 64   ? DP_OP_PUSHR
		    : f->width == 32 ? DP_OP_PUSHR_U32
		    : f->width == 16 ? DP_OP_PUSHR_U16
				     : DP_OP_PUSHR_U8,
		    f->reg_word, 0);
	}
}

/* In the kernel: an address that is not one of user memory becomes one that nobody can read. */
static void gen_user(struct dp_event_line *l)
{
	put(l, DP_OP_DUP, 2, 0);
	put(l, DP_OP_SHR, 63, 0);
	put(l, DP_OP_NEG, 0, 0);
	put(l, DP_OP_OR, 0, 0);
}

/* In a process all memory is user memory. */
static bool is_user(const struct dp_event_line *l, const struct ev_fetch *f, u32 i)
{
	bool text = ev_is_string(f) && !f->type.count && i + 1 == f->nderef;

	return l->is_kernel && (f->user >> i & 1 || (text && f->type.is_user));
}

static s64 gen_offset(struct dp_event_line *l, const struct ev_fetch *f, u32 i)
{
	if (!is_user(l, f, i))
		return f->deref[i];
	if (f->deref[i]) {
		put(l, DP_OP_PUSH_D, f->deref[i], 0);
		put(l, DP_OP_ADD, 0, 0);
	}
	gen_user(l);
	return 0;
}

void dp_ev_gen_address(struct dp_event_line *l, const struct ev_fetch *f)
{
	gen_base(l, f);
	for (u32 i = 0; i + 1 < f->nderef; i++) {
		s64 offset = gen_offset(l, f, i);

		put(l, DP_OP_LD64, offset, 0);
	}
}

s64 dp_ev_gen_last(struct dp_event_line *l, const struct ev_fetch *f)
{
	return f->nderef ? gen_offset(l, f, f->nderef - 1) : 0;
}

static enum dp_opcode load_op(u32 size)
{
	return size == 1 ? DP_OP_LD8 : size == 2 ? DP_OP_LD16 : size == 4 ? DP_OP_LD32 : DP_OP_LD64;
}

static enum dp_opcode store_op(u32 size)
{
	return size == 1 ? DP_OP_LOG8 : size == 2 ? DP_OP_LOG16 : size == 4 ? DP_OP_LOG32 : DP_OP_LOG64;
}

static enum dp_opcode log_register_op(u32 size)
{
	return size == 1 ? DP_OP_LOGR8 : size == 2 ? DP_OP_LOGR16 : size == 4 ? DP_OP_LOGR32 : DP_OP_LOGR64;
}

/* A whole register as a value of a smaller type, in one instruction. */
static enum dp_opcode push_register_op(const struct ev_type *t)
{
	switch (t->size) {
	case 1:
		return t->is_signed ? DP_OP_PUSHR_S8 : DP_OP_PUSHR_U8;
	case 2:
		return t->is_signed ? DP_OP_PUSHR_S16 : DP_OP_PUSHR_U16;
	case 4:
		return t->is_signed ? DP_OP_PUSHR_S32 : DP_OP_PUSHR_U32;
	default:
		return DP_OP_PUSHR;
	}
}

static bool is_whole_register(const struct ev_fetch *f)
{
	return f->base == EV_REG && f->width == 64;
}

/* The top of the stack becomes a value of the type; from: bytes that are significant already. */
static void gen_narrow(struct dp_event_line *l, const struct ev_type *t, u32 from)
{
	static const u16 sign[] = {[1] = DP_OP_SX8, [2] = DP_OP_SX16, [4] = DP_OP_SX32};
	static const u16 zero[] = {[1] = DP_OP_ZX8, [2] = DP_OP_ZX16, [4] = DP_OP_ZX32};

	if (t->size == 8)
		return;
	if (t->is_signed)
		put(l, (enum dp_opcode)sign[t->size], 0, 0);
	else if (from > t->size)
		put(l, (enum dp_opcode)zero[t->size], 0, 0);
}

void dp_ev_gen_value(struct dp_event_line *l, const struct ev_fetch *f)
{
	const struct ev_type *t = &f->type;
	s64 last;

	if (f->nderef) {
		dp_ev_gen_address(l, f);
		last = dp_ev_gen_last(l, f);
		put(l, load_op(t->size), last, 0);
		gen_narrow(l, t, t->size);
	} else if (is_whole_register(f)) {
		put(l, push_register_op(t), f->reg_word, 0);
	} else {
		gen_base(l, f);
		gen_narrow(l, t, f->base == EV_REG ? f->width / 8u : 8u);
	}
	if (t->bit_width)
		put(l, DP_OP_BITS, t->bit_shift, t->bit_width);
}

/* ---- fields ---- */

static void gen_text(struct dp_event_line *l, const struct ev_fetch *f, u32 at, u32 keep)
{
	const s64 text[] = {at, keep, f->text_len};

	if (f->base == EV_COMM) {
		put(l, DP_OP_LOGCOMM, at, keep);
	} else if (f->base == EV_TEXT) {
		dp_asm_put(&l->code, DP_OP_LOGTEXT, text, l->pool + f->text);
	} else if (f->nderef == 1 && is_whole_register(f) && !is_user(l, f, 0)) {
		DP_PUT(&l->code, LOGSTR, f->reg_word, f->deref[0], at, keep);
	} else {
		s64 last;

		dp_ev_gen_address(l, f);
		last = dp_ev_gen_last(l, f);
		DP_PUT(&l->code, LOGSTR_S, last, at, keep);
	}
}

/* An array of pointers to texts. */
static void gen_texts(struct dp_event_line *l, const struct ev_fetch *f, u32 at, u32 keep, u32 share)
{
	u32 n = f->type.count;
	s64 last;

	dp_ev_gen_address(l, f);
	last = dp_ev_gen_last(l, f);
	for (u32 i = 0; i < n; i++) {
		put(l, DP_OP_DUP, 2, 0);
		put(l, DP_OP_LD64, last + 8 * i, 0);
		if (f->type.is_user && l->is_kernel)
			gen_user(l);
		DP_PUT(&l->code, LOGSTR_S, 0, at + 4 * i, keep + share * (n - 1 - i));
	}
	put(l, DP_OP_ROS, 1, 0);
}

/* An array of bit fields; each element is cut out by itself. */
static void gen_bitfields(struct dp_event_line *l, const struct ev_fetch *f, u32 at, u32 mark)
{
	const struct ev_type *t = &f->type;
	s64 last;

	dp_ev_gen_address(l, f);
	last = dp_ev_gen_last(l, f);
	for (u32 i = 0; i < t->count; i++) {
		put(l, DP_OP_DUP, 2, 0);
		put(l, load_op(t->size), last + t->size * i, 0);
		put(l, DP_OP_BITS, t->bit_shift, t->bit_width);
		put(l, store_op(t->size), at + t->size * i, mark);
	}
	put(l, DP_OP_ROS, 1, 0);
}

void dp_ev_gen_field(struct dp_event_line *l, const struct ev_arg *arg, const struct dp_field *field, u32 index,
		     u32 keep, u32 share)
{
	const struct ev_fetch *f = &arg->fetch;
	u32 at = field->offset, count = DP_MAX(f->type.count, 1);
	u32 bytes = f->type.size * count, mark = field->can_fault ? index : NO_FIELD;

	if (f->base == EV_FRAMES) {
		put(l, DP_OP_PUSH_FRAMES, (s64)count, 0);
		for (u32 i = 0; i < count; i++)
			put(l, DP_OP_LOG64, at + 8 * i, NO_FIELD);
	} else if (ev_is_string(f)) {
		if (f->type.count)
			gen_texts(l, f, at, keep, share);
		else
			gen_text(l, f, at, keep);
	} else if (f->type.bit_width) {
		if (f->type.count) {
			gen_bitfields(l, f, at, mark);
		} else {
			dp_ev_gen_value(l, f);
			put(l, store_op(f->type.size), at, mark);
		}
	} else if (f->nderef == 1 && is_whole_register(f) && !is_user(l, f, 0)) {
		DP_PUT(&l->code, LOGM, f->reg_word, f->deref[0], bytes, at, mark);
	} else if (f->nderef) {
		s64 last;

		dp_ev_gen_address(l, f);
		last = dp_ev_gen_last(l, f);
		DP_PUT(&l->code, LOGM_S, last, bytes, at, mark);
	} else if (f->base == EV_REG && !f->shift && f->width >= 8u * f->type.size) {
		put(l, log_register_op(f->type.size), f->reg_word, at);
	} else {
		gen_base(l, f);
		put(l, store_op(f->type.size), at, mark);
	}
}
