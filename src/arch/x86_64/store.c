/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What instructions store, and copies of them. The processor makes the store, so every instruction is told alike.
 * Freestanding.
 */
#include "arch/store.h"

#include "arch/x86_64/signal-context.h"

enum operand { BY_MODRM, BY_DI, BY_STACK, BY_OFFSET };

/* ---- what an instruction stores: where this is not 0, it always does ---- */

static u32 by_width(const struct dp_insn *in)
{
	return in->rex & DP_REX_W ? 8 : in->prefixes & DP_PFX_66 ? 2 : 4;
}

static u32 vector_bytes(const struct dp_insn *in, const u8 *code)
{
	switch (in->enc) {
	case DP_ENC_VEX: /* the last byte of the prefix stands before the opcode */
		return code[in->opcode_off - 1] & 4 ? 32 : 16;
	case DP_ENC_EVEX:
		return 16u << (code[in->opcode_off - 1] >> 5 & 3);
	default:
		return 16;
	}
}

static u32 size_x87(const struct dp_insn *in)
{
	static const u8 sizes[4][8] = {/* d9, db, dd, df; of environments and loads 0 */
				       {0, 0, 4, 4, 0, 0, 0, 2},
				       {0, 4, 4, 4, 0, 0, 0, 10},
				       {0, 8, 8, 8, 0, 0, 0, 2},
				       {0, 2, 2, 2, 0, 0, 10, 8}};

	return in->opcode & 1 ? sizes[in->opcode >> 1 & 3][in->modrm >> 3 & 7] : 0;
}

static u32 size_one(const struct dp_insn *in)
{
	u8 op = in->opcode, reg = in->modrm >> 3 & 7;
	bool stores;

	if (op >= 0xd8 && op <= 0xdf)
		return size_x87(in);
	switch (op) {
	case 0x00 ... 0x37: /* add to xor */
		stores = (op & 7) < 2;
		break;
	case 0x80 ... 0x83: /* the same with a constant; /7 compares */
		stores = reg != 7;
		break;
	case 0xf6 ... 0xf7: /* not, neg; the others look at it */
		stores = reg == 2 || reg == 3;
		break;
	case 0xfe ... 0xff: /* inc, dec */
		stores = reg < 2;
		break;
	default:
		stores = (op >= 0x86 && op <= 0x89) || op == 0xc6 || op == 0xc7 || op == 0xc0 || op == 0xc1 ||
			 (op >= 0xd0 && op <= 0xd3) || op == 0xa2 || op == 0xa3;
	}
	if (stores)
		return op & 1 ? by_width(in) : 1;
	if (op == 0x8c)
		return 2;
	if (op == 0x8f)
		return in->prefixes & DP_PFX_66 ? 2 : 8;
	if (op == 0xa4 || op == 0xaa || op == 0x6c)
		return 1;
	if (op == 0xa5 || op == 0xab || op == 0x6d)
		return op == 0x6d && !(in->prefixes & DP_PFX_66) ? 4 : by_width(in);
	if ((op >= 0x50 && op <= 0x57) || op == 0x68 || op == 0x6a || op == 0x9c)
		return in->prefixes & DP_PFX_66 ? 2 : 8;
	return 0;
}

/* Vector stores, which legacy, VEX and EVEX encodings share. */
static u32 size_0f(const struct dp_insn *in, const u8 *code)
{
	bool p66 = in->prefixes & DP_PFX_66, f3 = in->prefixes & DP_PFX_F3, f2 = in->prefixes & DP_PFX_F2;
	bool legacy = in->enc == DP_ENC_LEGACY;
	u8 op = in->opcode;

	switch (op) {
	case 0x11:
		return f3 ? 4 : f2 ? 8 : vector_bytes(in, code);
	case 0x13:
	case 0x17:
	case 0xd6:
		return 8;
	case 0x29:
	case 0x2b:
		return vector_bytes(in, code);
	case 0x7f:
		return legacy && !p66 && !f3 ? 8 : vector_bytes(in, code);
	case 0xe7:
		return legacy && !p66 ? 8 : vector_bytes(in, code);
	case 0x7e: /* with f3 it is a load */
		return f3 ? 0 : in->rex & DP_REX_W ? 8 : 4;
	}
	if (!legacy)
		return 0;
	if (op >= 0x90 && op <= 0x9f)
		return 1;
	if (op == 0xb0 || op == 0xc0)
		return 1;
	if (op == 0xc7 && (in->modrm >> 3 & 7) == 1)
		return in->rex & DP_REX_W ? 16 : 8;
	if (op == 0xc3)
		return in->rex & DP_REX_W ? 8 : 4;
	if (op == 0xba && (in->modrm >> 3 & 7) < 5)
		return 0; /* bt */
	if (op == 0xb1 || op == 0xc1 || op == 0xab || op == 0xb3 || op == 0xbb || op == 0xba || op == 0xa4 ||
	    op == 0xa5 || op == 0xac || op == 0xad)
		return by_width(in);
	return 0;
}

static u32 size_of_store(const struct dp_insn *in, const u8 *code)
{
	if (in->enc != DP_ENC_LEGACY && in->enc != DP_ENC_VEX && in->enc != DP_ENC_EVEX)
		return 0;
	/* Masked stores leave out what they like: what has changed tells. */
	if (in->enc == DP_ENC_EVEX && code[in->opcode_off - 1] & 7)
		return 0;
	switch (in->map) {
	case DP_MAP_ONE:
		return size_one(in);
	case DP_MAP_0F:
		return size_0f(in, code);
	case DP_MAP_0F38: /* movbe, movdiri */
		return in->enc == DP_ENC_LEGACY && (in->opcode == 0xf1 || in->opcode == 0xf9) ? by_width(in) : 0;
	case DP_MAP_0F3A: /* pextrb, pextrw, pextrd and q, extractps, vextractf128 and i128 */
		if (in->enc == DP_ENC_EVEX)
			return 0;
		switch (in->opcode) {
		case 0x14:
			return 1;
		case 0x15:
			return 2;
		case 0x16:
			return in->rex & DP_REX_W ? 8 : 4;
		case 0x17:
			return 4;
		case 0x19:
		case 0x39:
			return 16;
		}
		return 0;
	default:
		return 0;
	}
}

/* How the memory operand that is written is named. False: there is none that is known. */
static bool find_operand(const struct dp_insn *in, u8 *kind)
{
	*kind = BY_MODRM;
	if (in->has_modrm && dp_modrm_mod(in) != 3)
		return true;
	if (in->has_modrm) { /* maskmovq, maskmovdqu */
		*kind = BY_DI;
		return in->map == DP_MAP_0F && in->opcode == 0xf7;
	}
	if (in->map == DP_MAP_0F) {
		*kind = BY_STACK;
		return in->opcode == 0xa0 || in->opcode == 0xa8;
	}
	if (in->map != DP_MAP_ONE)
		return false;
	switch (in->opcode) {
	case 0xa2 ... 0xa3:
		*kind = BY_OFFSET;
		return true;
	case 0xa4 ... 0xa5:
	case 0xaa ... 0xab:
	case 0x6c ... 0x6d:
		*kind = BY_DI;
		return true;
	case 0x50 ... 0x57:
	case 0x68:
	case 0x6a:
	case 0x9c:
		*kind = BY_STACK;
		return true;
	default:
		return false;
	}
}

/* bts, btr, btc with a register reach beyond their operand: the word that has the bit. */
static u64 bit_word(const struct dp_insn *in, const u64 *uc)
{
	s64 bit = (s64)dp_context_reg(uc, dp_modrm_reg(in));
	u32 size = by_width(in);

	if (in->enc != DP_ENC_LEGACY || in->map != DP_MAP_0F ||
	    (in->opcode != 0xab && in->opcode != 0xb3 && in->opcode != 0xbb))
		return 0;
	bit = size == 8 ? bit >> 6 : size == 4 ? (s32)bit >> 5 : (s16)bit >> 4;
	return (u64)bit * size;
}

static u64 by_modrm(const struct dp_insn *in, const u8 *code, const u64 *uc, u64 next)
{
	u64 at = (u64)in->disp;
	u32 base = in->modrm & 7;

	/* A displacement of one byte counts in units of the store. */
	if (in->enc == DP_ENC_EVEX && in->disp_size == 1)
		at *= size_of_store(in, code);
	if (in->rip_relative) {
		at += next;
	} else if (in->has_sib) {
		u32 index = (in->sib >> 3 & 7) | (in->rex & DP_REX_X ? 8 : 0);

		base = in->sib & 7;
		if (index != 4)
			at += dp_context_reg(uc, index) << (in->sib >> 6);
		if (base != 5 || dp_modrm_mod(in))
			at += dp_context_reg(uc, base | (in->rex & DP_REX_B ? 8 : 0));
	} else {
		at += dp_context_reg(uc, base | (in->rex & DP_REX_B ? 8 : 0));
	}
	at += bit_word(in, uc);
	if (in->prefixes & DP_PFX_67)
		at = (u32)at;
	return at;
}

static enum dp_store_segment segment_of(const struct dp_store_insn *s)
{
	if ((s->kind != BY_MODRM && s->kind != BY_OFFSET) || !(s->in.prefixes & (DP_PFX_FS | DP_PFX_GS)))
		return DP_STORE_FLAT;
	return s->in.prefixes & DP_PFX_FS ? DP_STORE_FS : DP_STORE_GS;
}

u64 dp_store_address(const struct dp_store_insn *s, const u64 *uc, u64 next, u64 base, u64 *repeated)
{
	*repeated = s->string && s->in.prefixes & (DP_PFX_F3 | DP_PFX_F2) ? uc[DP_CTX_CX] * s->size : 0;
	switch (s->kind) {
	case BY_MODRM:
		return base + by_modrm(&s->in, s->bytes, uc, next);
	case BY_DI:
		return s->in.prefixes & DP_PFX_67 ? (u32)uc[DP_CTX_DI] : uc[DP_CTX_DI];
	case BY_STACK:
		return uc[DP_CTX_SP] - s->size;
	default:
		return base + (u64)s->in.disp;
	}
}

/* ---- the copy ---- */

struct code {
	u8 *v;
	u32 n;
};

static void bytes(struct code *c, const void *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		c->v[c->n++] = ((const u8 *)v)[i];
}

static void quad(struct code *c, u64 v)
{
	bytes(c, &v, 8);
}

/* An instruction with modrm that has the stack pointer as its other operand, or moves it: both would be wrong there. */
static bool uses_stack_pointer(const struct dp_insn *in)
{
	u8 op = in->opcode;

	if (in->map == DP_MAP_ONE && (op == 0x8f || (op == 0xff && (in->modrm >> 3 & 7) == 6)))
		return true; /* pop, push */
	if (dp_modrm_reg(in) != 4 || in->enc != DP_ENC_LEGACY)
		return false;
	switch (in->map) {
	case DP_MAP_ONE:
		return op < 0x40 || (op >= 0x84 && op <= 0x8b) || op == 0x69 || op == 0x6b;
	case DP_MAP_0F:
		return op >= 0xa0 && op <= 0xc3 && op != 0xae && op != 0xba && op != 0xc2;
	default:
		return true;
	}
}

/*
 * What is named by its distance from the instruction is named by a register instead, one that has no other part in it,
 * which is kept on the stack below the red zone meanwhile: the copy may be further away than a displacement reaches.
 */
static bool put_far(struct code *c, const struct dp_insn *in, const u8 *code, u64 next)
{
	static const u8 zone[] = {0x48, 0x8d, 0x64, 0x24, 0x80}, unzone[] = {0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0};
	static const u8 load[] = {0x48, 0xb8};
	u8 r = 6, copy[DP_INSN_MAX];

	if (in->rex & (DP_REX_B | DP_REX_X) || in->prefixes & DP_PFX_67 || uses_stack_pointer(in))
		return false;
	while (r == dp_modrm_reg(in) || r == in->vvvv)
		r = r == 6 ? 7 : 3;
	bytes(c, zone, sizeof(zone));
	c->v[c->n++] = 0x50 + r;
	bytes(c, load, 1);
	c->v[c->n++] = load[1] + r;
	quad(c, next);
	memcpy(copy, code, in->len);
	copy[in->modrm_off] = (u8)(0x80 | (in->modrm & 0x38) | r); /* a register, and the displacement as it was */
	bytes(c, copy, in->len);
	c->v[c->n++] = 0x58 + r;
	bytes(c, unzone, sizeof(unzone));
	return true;
}

/* A hit as detours have it (entry/hit-entry.S) behind the instruction, and the way back, with its two addresses. */
u32 dp_store_emit(const struct dp_store_insn *s, u64 next, u32 number, u64 entry, u8 code[DP_STORE_CODE])
{
	static const u8 begin[] = {0x48, 0x8d, 0x64, 0x24, 0x80, 0x57, 0xbf}, call[] = {0xff, 0x15};
	static const u8 end[] = {0x5f, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0};
	struct code c = {code, 0};

	if (!s->in.rip_relative)
		bytes(&c, s->bytes, s->in.len);
	else if (!put_far(&c, &s->in, s->bytes, next))
		return 0;
	bytes(&c, begin, sizeof(begin));
	bytes(&c, &number, 4);
	bytes(&c, call, sizeof(call));
	number = sizeof(end) + 8; /* from behind the call to the second address */
	bytes(&c, &number, 4);
	bytes(&c, end, sizeof(end));
	quad(&c, next);
	quad(&c, entry);
	return c.n;
}

/* The bytes at ip are executable, but the next page need not be there; it is where the instruction goes on there. */
static int decode(struct dp_insn *in, u8 *code, u64 ip)
{
	u32 here = 4096 - (ip & 4095), n = DP_MIN(here, (u32)DP_INSN_MAX);
	int r;

	memcpy(code, (const void *)ip, n);
	r = dp_insn_decode(in, code, n);
	if (r == -ENODATA && n < DP_INSN_MAX) {
		memcpy(code + n, (const void *)(ip + n), DP_INSN_MAX - n);
		r = dp_insn_decode(in, code, DP_INSN_MAX);
	}
	return r;
}

bool dp_store_read(struct dp_store_insn *s, u64 ip)
{
	s->size = 0;
	if (decode(&s->in, s->bytes, ip) < 0 || s->in.cls != DP_INSN_PLAIN || !find_operand(&s->in, &s->kind))
		return false;
	s->size = size_of_store(&s->in, s->bytes);
	s->string = s->kind == BY_DI && s->in.map == DP_MAP_ONE;
	s->segment = (u8)segment_of(s);
	return s->kind != BY_STACK || s->size;
}
