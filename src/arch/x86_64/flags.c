/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A short forward look for the first instruction that has to do with flags. Must say false in doubt. */
#include "arch/x86_64/flags.h"

#define LOOK 16 /* instructions */

enum effect {
	EFFECT_NONE,   /* neither reads nor writes */
	EFFECT_WRITES, /* all of them, without reading any */
	EFFECT_UNKNOWN,
};

static u8 reg_field(const struct dp_insn *in)
{
	return in->modrm >> 3 & 7;
}

static enum effect one_byte(const struct dp_insn *in)
{
	u8 op = in->opcode;

	if (op < 0x40 && (op & 7) < 6) /* add or adc sbb and sub xor cmp */
		return (op >> 3) == 2 || (op >> 3) == 3 ? EFFECT_UNKNOWN : EFFECT_WRITES;
	switch (op) {
	case 0x50 ... 0x5f: /* push, pop */
	case 0x63:          /* movsxd */
	case 0x68:
	case 0x6a:          /* push */
	case 0x88 ... 0x8b: /* mov */
	case 0x8d:          /* lea */
	case 0x90:
	case 0xb0 ... 0xbf:
	case 0xc6:
	case 0xc7: /* mov; xbegin is told apart by its class */
	case 0xc9: /* leave */
		return EFFECT_NONE;
	case 0x80:
	case 0x81:
	case 0x83: /* immediate group: /2 adc, /3 sbb */
		return reg_field(in) == 2 || reg_field(in) == 3 ? EFFECT_UNKNOWN : EFFECT_WRITES;
	case 0x84:
	case 0x85:
	case 0xa8:
	case 0xa9: /* test */
	case 0x69:
	case 0x6b: /* imul */
		return EFFECT_WRITES;
	case 0xf6:
	case 0xf7: /* test, not, neg, mul .. */
		return reg_field(in) == 2 ? EFFECT_NONE : reg_field(in) > 3 ? EFFECT_UNKNOWN : EFFECT_WRITES;
	default:
		return EFFECT_UNKNOWN;
	}
}

static enum effect two_byte(const struct dp_insn *in)
{
	switch (in->opcode) {
	case 0x10 ... 0x17: /* vector moves */
	case 0x1e:          /* endbr64 and hints */
	case 0x1f:          /* nop */
	case 0x28:
	case 0x29:
	case 0x57: /* xorps */
	case 0x6e:
	case 0x6f:
	case 0x7e:
	case 0x7f:
	case 0xb6:
	case 0xb7:
	case 0xbe:
	case 0xbf: /* movzx, movsx */
	case 0xd6:
	case 0xef: /* pxor */
		return EFFECT_NONE;
	default:
		return EFFECT_UNKNOWN;
	}
}

static enum effect effect_of(const struct dp_insn *in)
{
	if (in->enc != DP_ENC_LEGACY || in->cls != DP_INSN_PLAIN)
		return EFFECT_UNKNOWN;
	return in->map == DP_MAP_ONE ? one_byte(in) : in->map == DP_MAP_0F ? two_byte(in) : EFFECT_UNKNOWN;
}

bool dp_flags_dead(const struct dp_text *t, u64 addr)
{
	for (int i = 0; i < LOOK && addr >= t->lo && addr < t->hi; i++) {
		struct dp_insn in;
		int len = dp_insn_decode(&in, t->bytes + (addr - t->lo), t->hi - addr);

		if (len < 0)
			return false;
		/* By every calling convention flags do not survive a call. */
		if (dp_insn_is_call(&in))
			return true;
		switch (effect_of(&in)) {
		case EFFECT_WRITES:
			return true;
		case EFFECT_UNKNOWN:
			return false;
		default:
			addr += (u64)len;
		}
	}
	return false;
}
