/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The decoder: walks prefixes, opcode, modrm, SIB, displacement and immediate of one instruction.
 * It reads the tables and never writes anything but *in; it does not allocate and does not know
 * what an instruction computes.
 */
#include "arch/x86_64/insn-table.h"

/* The bytes that are left. Every byte is read through need(), so nothing is read past the limit. */
struct cursor {
	const u8 *code;
	unsigned int pos;
	unsigned int limit; /* at most DP_INSN_MAX */
	int over;           /* what going past the limit means: -ENODATA or -EINVAL */
};

static inline bool need(const struct cursor *c, unsigned int n)
{
	return c->limit - c->pos >= n;
}

static inline s64 load(const u8 *p, unsigned int size)
{
	s8 b;
	s16 h;
	s32 w;
	s64 q;

	switch (size) {
	case 1:
		memcpy(&b, p, 1);
		return b;
	case 2:
		memcpy(&h, p, 2);
		return h;
	case 4:
		memcpy(&w, p, 4);
		return w;
	default:
		memcpy(&q, p, 8);
		return q;
	}
}

static inline int take_value(struct cursor *c, unsigned int size, u8 *bytes, u8 *off, s64 *v)
{
	if (!need(c, size))
		return c->over;
	*bytes = (u8)size;
	*off = (u8)c->pos;
	*v = load(c->code + c->pos, size);
	c->pos += size;
	return 0;
}

static inline int take_imm(struct cursor *c, struct dp_insn *in, unsigned int size)
{
	return take_value(c, size, &in->imm_size, &in->imm_off, &in->imm);
}

static inline int take_imm2(struct cursor *c, struct dp_insn *in)
{
	if (!need(c, 1))
		return c->over;
	in->imm2_size = 1;
	c->pos++;
	return 0;
}

static inline int take_rel(struct cursor *c, struct dp_insn *in, unsigned int size)
{
	return take_value(c, size, &in->rel_size, &in->rel_off, &in->rel);
}

static inline int take_disp(struct cursor *c, struct dp_insn *in, unsigned int size)
{
	return take_value(c, size, &in->disp_size, &in->disp_off, &in->disp);
}

static inline int take_modrm(struct cursor *c, struct dp_insn *in)
{
	if (!need(c, 1))
		return c->over;
	in->has_modrm = 1;
	in->modrm_off = (u8)c->pos;
	in->modrm = c->code[c->pos++];
	return 0;
}

/* SIB and displacement of a memory operand; modrm is known and its mod is not 3. */
static inline int take_address(struct cursor *c, struct dp_insn *in)
{
	unsigned int mod = in->modrm >> 6, base = in->modrm & 7;

	if (base == 4) {
		if (!need(c, 1))
			return c->over;
		in->has_sib = 1;
		in->sib = c->code[c->pos++];
		base = in->sib & 7;
	}
	if (mod == 1)
		return take_disp(c, in, 1);
	if (mod == 0 && base != 5)
		return 0;
	in->rip_relative = mod == 0 && !in->has_sib;
	return take_disp(c, in, 4);
}

/*
 * Prefixes. A REX prefix counts only directly before the opcode; of F2 and F3 the last one is the
 * mandatory prefix, and both go before 66.
 */
static inline int take_prefixes(struct cursor *c, struct dp_insn *in, unsigned int *pp)
{
	unsigned int repeat = DP_PP_NONE;
	u8 rex = 0;

	for (;; c->pos++) {
		u16 bit;

		if (!need(c, 1))
			return c->over;
		bit = dp_prefix_bits[c->code[c->pos]];
		if (!bit)
			break;
		if (bit == DP_PFX_REX) {
			rex = c->code[c->pos];
			continue;
		}
		rex = 0;
		in->prefixes |= bit;
		if (bit == DP_PFX_F3)
			repeat = DP_PP_F3;
		else if (bit == DP_PFX_F2)
			repeat = DP_PP_F2;
	}
	if (rex) {
		in->prefixes |= DP_PFX_REX;
		in->rex = rex & 15;
	}
	*pp = repeat ? repeat : in->prefixes & DP_PFX_66 ? DP_PP_66 : DP_PP_NONE;
	return 0;
}

static inline bool wants_imm16(const struct dp_insn *in)
{
	return (in->prefixes & DP_PFX_66) && !(in->rex & DP_REX_W);
}

/* What follows modrm and displacement in the legacy maps. */
static int take_legacy_imm(struct cursor *c, struct dp_insn *in, const struct dp_op *op, unsigned int pp)
{
	unsigned int z = wants_imm16(in) ? 2 : 4;
	int err;

	switch (op->imm) {
	case IMM_NONE:
		return 0;
	case IMM_8:
		return take_imm(c, in, 1);
	case IMM_16:
		return take_imm(c, in, 2);
	case IMM_Z:
		return take_imm(c, in, z);
	case IMM_V:
		return take_imm(c, in, in->rex & DP_REX_W ? 8 : z);
	case IMM_REL8:
		return take_rel(c, in, 1);
	case IMM_REL32:
		return take_rel(c, in, 4);
	case IMM_MOFFS:
		return take_disp(c, in, in->prefixes & DP_PFX_67 ? 4 : 8);
	case IMM_TEST8:
		return in->modrm & 0x30 ? 0 : take_imm(c, in, 1);
	case IMM_TESTZ:
		return in->modrm & 0x30 ? 0 : take_imm(c, in, z);
	case IMM_C7:
		return in->modrm == 0xf8 ? take_rel(c, in, z) : take_imm(c, in, z);
	case IMM_EXTRQ:
		if (pp == DP_PP_NONE)
			return 0;
		err = take_imm(c, in, 1);
		return err ? err : take_imm2(c, in);
	case IMM_16_8:
		err = take_imm(c, in, 2);
		return err ? err : take_imm2(c, in);
	default:
		return -EINVAL;
	}
}

/* Whether modrm is one that this opcode has, for this mandatory prefix. */
static inline bool modrm_exists(const struct dp_insn *in, const struct dp_op *op, unsigned int pp, bool mem)
{
	unsigned int reg = (in->modrm >> 3) & 7;
	const struct dp_op_set *set;

	if (!(op->forms >> (2 * pp) & (mem ? 1 : 2)))
		return false;
	if (!op->set)
		return true;
	set = &dp_op_sets[op->set + (op->flags & OP_SETS ? pp : 0)];
	return mem ? set->mem >> reg & 1 : set->reg[reg] >> (in->modrm & 7) & 1;
}

static inline bool lock_valid(const struct dp_insn *in, const struct dp_op *op, unsigned int pp)
{
	unsigned int reg = (in->modrm >> 3) & 7;

	if (!in->has_modrm || in->modrm >= 0xc0)
		return false;
	if (op->flags & OP_LOCK)
		return true;
	return op->set && (dp_op_sets[op->set + (op->flags & OP_SETS ? pp : 0)].lock >> reg & 1);
}

static inline int decode_legacy(struct cursor *c, struct dp_insn *in, const struct dp_op *op, unsigned int pp)
{
	int err;

	if (!(op->forms >> (2 * pp) & 3))
		return -EINVAL;
	in->cls = op->cls;
	if (op->flags & OP_MODRM) {
		bool mem;

		err = take_modrm(c, in);
		if (err)
			return err;
		mem = in->modrm < 0xc0 && !(op->flags & OP_MODREG);
		if (!modrm_exists(in, op, pp, mem))
			return -EINVAL;
		if ((op->flags & (OP_REG8 | OP_CR)) && (in->rex & DP_REX_R) &&
		    !((op->flags & OP_CR) && !(in->modrm & 0x38)))
			return -EINVAL;
		err = mem ? take_address(c, in) : 0;
		if (err)
			return err;
		if (op->flags & OP_CLASS)
			in->cls = (u8)dp_insn_class_of(in, pp);
	}
	if ((in->prefixes & DP_PFX_LOCK) && !lock_valid(in, op, pp))
		return -EINVAL;
	return take_legacy_imm(c, in, op, pp);
}

/* 3DNow!: the opcode comes last, where others have an immediate. */
static int decode_3dnow(struct cursor *c, struct dp_insn *in)
{
	int err = take_modrm(c, in);

	in->enc = DP_ENC_3DNOW;
	if (!err && in->modrm < 0xc0)
		err = take_address(c, in);
	if (err)
		return err;
	if (!need(c, 1))
		return c->over;
	in->opcode_off = (u8)c->pos;
	in->opcode = c->code[c->pos++];
	if (!(dp_3dnow_bits[in->opcode >> 3] >> (in->opcode & 7) & 1))
		return -EINVAL;
	return in->prefixes & DP_PFX_LOCK ? -EINVAL : 0;
}

/* The payload of a VEX, EVEX or XOP prefix that dp_insn has no room for. */
struct payload {
	u8 pp;
	u8 length; /* 0 = 128, 1 = 256, 2 = 512; 3 is reserved */
	u8 mask;   /* EVEX.aaa */
	bool zero; /* EVEX.z */
	bool b;    /* EVEX.b */
	bool r2;   /* EVEX.R', un-inverted */
	bool v2;   /* EVEX.V', un-inverted */
};

static const u16 pp_prefix[4] = {0, DP_PFX_66, DP_PFX_F3, DP_PFX_F2};

/* C5: R vvvv L pp. C4 and 8F: R X B map, W vvvv L pp. R, X, B and vvvv are inverted. */
static int take_vex(struct cursor *c, struct dp_insn *in, struct payload *x, bool three)
{
	const u8 *p = c->code + c->pos;
	u8 last;

	if (!need(c, three ? 2 : 1))
		return c->over;
	in->rex = p[0] & 0x80 ? 0 : DP_REX_R;
	in->map = DP_MAP_0F;
	last = p[0];
	if (three) {
		in->rex = (u8)(~p[0] >> 5 & 7) | (p[1] & 0x80 ? DP_REX_W : 0);
		in->map = p[0] & 0x1f;
		last = p[1];
	}
	in->vvvv = ~last >> 3 & 15;
	x->length = last >> 2 & 1;
	x->pp = last & 3;
	c->pos += three ? 2 : 1;
	return 0;
}

/* 62: R X B R' 0 map, W vvvv 1 pp, z L'L b V' aaa. R, X, B, R', V' and vvvv are inverted. */
static int take_evex(struct cursor *c, struct dp_insn *in, struct payload *x)
{
	const u8 *p = c->code + c->pos;

	if (!need(c, 3))
		return c->over;
	if ((p[0] & 0x08) || !(p[1] & 0x04))
		return -EINVAL;
	in->rex = (u8)(~p[0] >> 5 & 7) | (p[1] & 0x80 ? DP_REX_W : 0);
	in->map = p[0] & 7;
	in->vvvv = ~p[1] >> 3 & 15;
	x->pp = p[1] & 3;
	x->r2 = !(p[0] & 0x10);
	x->v2 = !(p[2] & 0x08);
	x->mask = p[2] & 7;
	x->b = p[2] & 0x10;
	x->length = p[2] >> 5 & 3;
	x->zero = p[2] & 0x80;
	c->pos += 3;
	return 0;
}

/* Chosen by code, not from tables of addresses: the hit path must not need relocations. */
static const u8 (*vex_map(u8 map))[8]
{
	return map == DP_MAP_0F     ? dp_vex_0f
	       : map == DP_MAP_0F38 ? dp_vex_0f38
	       : map == DP_MAP_0F3A ? dp_vex_0f3a
				    : NULL;
}

static const u8 (*evex_map(u8 map))[8]
{
	switch (map) {
	case DP_MAP_0F:
		return dp_evex_0f;
	case DP_MAP_0F38:
		return dp_evex_0f38;
	case DP_MAP_0F3A:
		return dp_evex_0f3a;
	case DP_MAP_5:
		return dp_evex_5;
	case DP_MAP_6:
		return dp_evex_6;
	default:
		return NULL;
	}
}

static const u8 (*xop_map(u8 map))[2]
{
	return map == DP_MAP_XOP8 ? dp_xop8 : map == DP_MAP_XOP9 ? dp_xop9 : dp_xopa;
}

/* The operand form of an opcode; index 0 of dp_forms where there is none. */
static const struct dp_form *find_form(const struct dp_insn *in, const struct payload *x)
{
	unsigned int w = in->rex & DP_REX_W ? 1 : 0, column = x->pp * 2u + w;
	const u8(*map)[8] = NULL;

	if (in->enc == DP_ENC_XOP) {
		if (in->map > DP_MAP_XOPA || x->pp)
			return &dp_forms[DP_FORM_INVALID];
		return &dp_forms[xop_map(in->map)[in->opcode][w]];
	}
	if (in->enc == DP_ENC_EVEX)
		map = evex_map(in->map & 7);
	else
		map = vex_map(in->map);
	return &dp_forms[map ? map[in->opcode][column] : DP_FORM_INVALID];
}

/* Registers that the processor requires to be different: gathers, tiles, complex products. */
static bool registers_differ(const struct dp_insn *in, const struct dp_form *f, const struct payload *x)
{
	unsigned int reg = (in->modrm >> 3 & 7) | (in->rex & DP_REX_R ? 8 : 0) | (x->r2 ? 16 : 0);
	unsigned int rm = (in->modrm & 7) | (u32)(in->rex & (DP_REX_B | DP_REX_X)) << 3;
	unsigned int index = (in->sib >> 3 & 7) | (in->rex & DP_REX_X ? 8 : 0);
	unsigned int v = in->vvvv | (x->v2 ? 16u : 0);

	if (f->flags & F_TMM)
		return reg != (rm & 7) && reg != v && v != (rm & 7);
	if (f->flags & F_COMPLEX)
		return reg != v && (in->modrm < 0xc0 || reg != rm);
	if (f->flags & F_VSIB)
		return reg != (index | (v & 16));
	return reg != index && reg != v && index != v;
}

/* Checks on the payload that need modrm: which combinations of the form's flags are valid. */
static bool payload_valid(const struct dp_insn *in, const struct dp_form *f, const struct payload *x, bool mem)
{
	unsigned int reg = in->modrm >> 3 & 7;
	bool v = (f->flags & F_VVVV) || (!mem && (f->flags & F_VVVV_REG));

	if (!((mem ? f->mem_regs : f->reg_regs) >> reg & 1))
		return false;
	if (x->b && !(f->flags & (mem ? F_BCAST : F_ROUND)))
		return false;
	if (!(mem ? f->mem_len : f->reg_len))
		return false;
	if (!(x->b && !mem) && !((mem ? f->mem_len : f->reg_len) >> x->length & 1))
		return false;
	if ((!v && in->vvvv) || ((f->flags & F_KVVVV) && in->vvvv > 7))
		return false;
	if (x->v2 && !v && !(f->flags & F_VSIB))
		return false;
	if ((f->flags & F_KDST) && ((in->rex & DP_REX_R) || x->r2))
		return false;
	if ((f->flags & F_GDST) && x->r2)
		return false;
	if (x->mask ? !(f->flags & F_MASK) : (f->flags & F_MASK_REQ) || x->zero)
		return false;
	if (x->zero && !(f->flags & (mem ? F_ZERO_MEM : F_ZERO_REG)))
		return false;
	if (mem && (f->flags & F_SIB) && (in->modrm & 7) != 4)
		return false;
	if (!mem && (f->flags & F_RM0) && (in->modrm & 7))
		return false;
	if ((f->flags & F_TMM) && ((in->rex & (DP_REX_R | DP_REX_B)) || in->vvvv > 7))
		return false;
	return true;
}

static int decode_extended(struct cursor *c, struct dp_insn *in, enum dp_insn_encoding enc, bool three)
{
	const u16 forbidden = DP_PFX_66 | DP_PFX_F2 | DP_PFX_F3 | DP_PFX_LOCK | DP_PFX_REX;
	const struct dp_form *f;
	struct payload x = {0};
	bool mem;
	int err;

	if (in->prefixes & forbidden)
		return -EINVAL;
	in->enc = (u8)enc;
	err = enc == DP_ENC_EVEX ? take_evex(c, in, &x) : take_vex(c, in, &x, three);
	if (err)
		return err;
	in->prefixes |= pp_prefix[x.pp];
	if (!need(c, 1))
		return c->over;
	in->opcode_off = (u8)c->pos;
	in->opcode = c->code[c->pos++];
	f = find_form(in, &x);
	if (!f->mem_len && !f->reg_len)
		return -EINVAL;
	if (f->flags & F_NOMODRM)
		return in->vvvv ? -EINVAL : 0;
	err = take_modrm(c, in);
	if (err)
		return err;
	mem = in->modrm < 0xc0;
	if ((f->flags & F_SHIFT_DQ) && (in->modrm & 0x08))
		f = &dp_forms[DP_FORM_Vi_88];
	if (!payload_valid(in, f, &x, mem))
		return -EINVAL;
	err = mem ? take_address(c, in) : 0;
	if (!err && (f->flags & (F_DISTINCT | F_TMM | F_COMPLEX)) && !registers_differ(in, f, &x))
		err = -EINVAL;
	if (!err && f->imm)
		err = take_imm(c, in, f->imm);
	return err;
}

/* Behind 0F: one of three maps, or 3DNow!. */
static int decode_0f(struct cursor *c, struct dp_insn *in, unsigned int pp)
{
	const struct dp_op *map = dp_ops_0f;
	u8 byte;

	if (!need(c, 1))
		return c->over;
	byte = c->code[c->pos];
	in->map = DP_MAP_0F;
	if (byte == 0x0f) {
		c->pos++;
		return decode_3dnow(c, in);
	}
	if (byte == 0x38 || byte == 0x3a) {
		c->pos++;
		in->map = byte == 0x38 ? DP_MAP_0F38 : DP_MAP_0F3A;
		map = byte == 0x38 ? dp_ops_0f38 : dp_ops_0f3a;
		if (!need(c, 1))
			return c->over;
	}
	in->opcode_off = (u8)c->pos;
	in->opcode = c->code[c->pos++];
	return decode_legacy(c, in, &map[in->opcode], pp);
}

int dp_insn_decode(struct dp_insn *in, const u8 *code, size_t avail)
{
	struct cursor c = {
	    .code = code,
	    .limit = avail < DP_INSN_MAX ? (unsigned int)avail : DP_INSN_MAX,
	    .over = avail < DP_INSN_MAX ? -ENODATA : -EINVAL,
	};
	unsigned int pp;
	u8 byte;
	int err;

	*in = (struct dp_insn){0};
	err = take_prefixes(&c, in, &pp);
	if (err)
		return err;
	byte = code[c.pos++];
	switch (byte) {
	case 0x0f:
		err = decode_0f(&c, in, pp);
		break;
	case 0xc5:
		err = decode_extended(&c, in, DP_ENC_VEX, false);
		break;
	case 0xc4:
		err = decode_extended(&c, in, DP_ENC_VEX, true);
		break;
	case 0x62:
		err = decode_extended(&c, in, DP_ENC_EVEX, true);
		break;
	case 0x8f: /* XOP, unless it is pop: there the bits that are XOP's map say 0 */
		if (!need(&c, 1))
			return c.over;
		if ((code[c.pos] & 0x1f) >= DP_MAP_XOP8) {
			err = decode_extended(&c, in, DP_ENC_XOP, true);
			break;
		}
		__attribute__((__fallthrough__));
	default:
		in->opcode = byte;
		in->opcode_off = (u8)(c.pos - 1);
		err = decode_legacy(&c, in, &dp_ops_one[byte], pp);
	}
	if (err)
		return err;
	in->len = (u8)c.pos;
	return in->len;
}
