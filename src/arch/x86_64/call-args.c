/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * System calls in a module's code: the number and what else is loaded before, as far as registers can be followed in a
 * straight line. An instruction that is not listed here is taken to change all of them.
 */
#include <string.h>

#include "arch/analysis.h"

#define RAX 0
#define RCX 1
#define RSI 6
#define RDI 7
#define R11 11

/* What the general registers hold; -1: that is not known. */
struct state {
	s64 v[16];
	u64 lea; /* where rsi got an address, 0: elsewhere */
};

static void forget_all(struct state *s)
{
	memset(s->v, 0xff, sizeof(s->v));
	s->lea = 0;
}

static void set(struct state *s, u8 r, s64 value)
{
	s->v[r] = value;
	if (r == RSI)
		s->lea = 0;
}

/* is_byte: the register may be the second byte of another one. */
static void forget(struct state *s, u8 r, bool is_byte)
{
	set(s, r, -1);
	if (is_byte)
		set(s, r & 3, -1);
}

static void forget_operands(struct state *s, const struct dp_insn *in, bool is_byte)
{
	forget(s, dp_modrm_reg(in), is_byte);
	if (dp_modrm_mod(in) == 3)
		forget(s, dp_modrm_rm(in), is_byte);
}

/* Without operands in a ModRM byte. */
static void step_short(struct state *s, const struct dp_insn *in)
{
	u8 r = (u8)((in->opcode & 7) | (in->rex & DP_REX_B ? 8 : 0));

	if ((in->opcode & 0xf8) == 0xb8) /* mov $imm, register */
		set(s, r, in->prefixes & DP_PFX_66 || in->rex & DP_REX_W ? -1 : (s64)(u32)in->imm);
	else if ((in->opcode & 0xf8) == 0xb0)
		forget(s, r, true);
	else if ((in->opcode & 0xf8) != 0x50 && in->opcode != 0x68 && in->opcode != 0x6a && /* push */
		 (in->opcode != 0x90 || in->rex & DP_REX_B))
		forget_all(s);
}

static void step_one(struct state *s, const struct dp_insn *in, u64 addr)
{
	u8 reg = dp_modrm_reg(in), rm = dp_modrm_rm(in), op = in->opcode, ext = in->modrm >> 3 & 7;
	bool direct = dp_modrm_mod(in) == 3, narrow = in->prefixes & DP_PFX_66;

	switch (op) {
	case 0x89: /* mov register, operand */
		if (direct)
			set(s, rm, narrow ? -1 : s->v[reg]);
		return;
	case 0x8b:
		set(s, reg, direct && !narrow ? s->v[rm] : -1);
		return;
	case 0xc7:
		if (direct)
			set(s, rm, narrow || (in->rex & DP_REX_W && in->imm < 0) ? -1 : (s64)(u32)in->imm);
		return;
	case 0x31: /* xor */
	case 0x33:
		if (direct && reg == rm && !narrow) {
			set(s, rm, 0);
			return;
		}
		break;
	case 0x8d:
		set(s, reg, -1);
		if (reg == RSI && in->len >= DP_JUMP_LEN)
			s->lea = addr;
		return;
	case 0x38: /* cmp, test */
	case 0x39:
	case 0x3a:
	case 0x3b:
	case 0x84:
	case 0x85:
		return;
	case 0x80: /* arithmetic with a constant */
	case 0x81:
	case 0x83:
		if (ext != 7 && direct)
			forget(s, rm, op == 0x80);
		return;
	case 0xf6: /* test, not, neg; not those that multiply and divide */
	case 0xf7:
		if (ext > 3)
			forget_all(s);
		else if (ext > 1 && direct)
			forget(s, rm, op == 0xf6);
		return;
	case 0x63: /* movslq */
	case 0x69: /* imul */
	case 0x6b:
	case 0x86: /* xchg */
	case 0x87:
	case 0x88: /* mov of a byte */
	case 0x8a:
		break;
	case 0xc0: /* shifts */
	case 0xc1:
	case 0xc6: /* mov of a constant byte */
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3:
	case 0xfe: /* inc, dec */
	case 0xff:
		if (direct) /* the other field of ModRM is no register: it belongs to the opcode */
			forget(s, rm, true);
		return;
	default:
		if (op >= 0x38 || (op & 7) > 3) { /* else add, or, adc, sbb, and, sub, xor */
			forget_all(s);
			return;
		}
	}
	forget_operands(s, in, true);
}

static void step_0f(struct state *s, const struct dp_insn *in)
{
	u8 op = in->opcode;

	if ((op & 0xf0) == 0x40 || op == 0xaf || op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf)
		forget(s, dp_modrm_reg(in), false); /* cmov, imul, movzx, movsx */
	else if ((op & 0xf0) == 0x90)
		forget_operands(s, in, true); /* setcc */
	else if (!memchr("\x10\x11\x12\x13\x14\x16\x17\x18\x1f\x28\x29\x57\x60\x61\x62\x6c\x6d\x6e\x6f\x7f\xd6\xe7\xef",
			 op, 23)) /* no-operations, and what has vectors as its destination, or memory */
		forget_all(s);
}

static void step(struct state *s, const struct dp_insn *in, u64 addr)
{
	if (in->cls == DP_INSN_SYSCALL) {
		set(s, RAX, -1);
		set(s, RCX, -1);
		set(s, R11, -1);
	} else if (in->cls != DP_INSN_PLAIN && in->cls != DP_INSN_JCC_REL) {
		forget_all(s);
	} else if (in->cls == DP_INSN_PLAIN && in->enc == DP_ENC_LEGACY && in->map == DP_MAP_ONE) {
		in->has_modrm ? step_one(s, in, addr) : step_short(s, in);
	} else if (in->cls == DP_INSN_PLAIN && in->enc == DP_ENC_LEGACY && in->map == DP_MAP_0F && in->has_modrm) {
		step_0f(s, in);
	} else if (in->cls == DP_INSN_PLAIN) {
		forget_all(s);
	}
}

static void look_through(const struct dp_text *t, const struct dp_func *f, dp_call_fn found, void *arg)
{
	struct state s;
	struct dp_insn in;
	int n;

	forget_all(&s);
	for (u64 a = f->lo; a < f->hi; a += (u64)n) {
		n = dp_insn_decode(&in, t->bytes + (a - t->lo), f->hi - a);
		if (n <= 0)
			return;
		if (f->flags & DP_FUNC_UNPROVEN || dp_text_is_target(t, a))
			forget_all(&s);
		if (in.cls == DP_INSN_SYSCALL && dp_code_is_syscall(t->bytes + (a - t->lo))) {
			struct dp_text_call call = {.addr = a,
						    .load = s.lea,
						    .number = s.v[RAX],
						    .first = s.v[RDI],
						    .joined = dp_text_is_target(t, a + in.len)};

			found(&call, arg);
		}
		step(&s, &in, a);
	}
}

/* Only functions that contain the bytes of such an instruction are decoded. */
void dp_text_find_calls(const struct dp_text *t, dp_call_fn found, void *arg)
{
	u64 size = t->hi - t->lo, done = 0;

	for (u64 i = 0; i + DP_SYSCALL_LEN <= size; i++) {
		const struct dp_func *f = dp_code_is_syscall(t->bytes + i) ? dp_text_func(t, t->lo + i) : NULL;

		if (f && f->lo >= done) {
			look_through(t, f, found, arg);
			done = f->hi;
		}
	}
}
