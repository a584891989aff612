/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Random states for the judge of the relocator, such that most instructions do something: operands
 * lie in the arena, counts are small, indirect branches arrive. It runs nothing and compares
 * nothing.
 */
#include <string.h>

#include "relocate-judge.h"

#define NONE (-1)
#define PAGE 0x1000ull

struct operand {
	bool mem;
	bool fixed; /* no register takes part, except through fs and gs */
	bool a32;   /* the sum is truncated to 32 bits */
	int base, index, scale;
	u64 value; /* displacement, or the whole address when fixed */
};

static bool one_in(u64 *seed, unsigned int n)
{
	return rj_random(seed) % n == 0;
}

static bool legacy(const struct dp_insn *in, unsigned int map)
{
	return in->enc == DP_ENC_LEGACY && in->map == map;
}

static bool has_mem(const struct dp_insn *in)
{
	return in->has_modrm && dp_modrm_mod(in) != 3;
}

static u8 ext(const struct dp_insn *in)
{
	return in->modrm >> 3 & 7;
}

/* Gathers, scatters and their prefetches: the index is a vector. */
static bool is_vsib(const struct dp_insn *in)
{
	if (in->map != DP_MAP_0F38 || !has_mem(in))
		return false;
	if (in->enc == DP_ENC_VEX)
		return in->opcode >= 0x90 && in->opcode <= 0x93;
	return in->enc == DP_ENC_EVEX &&
	       ((in->opcode >= 0x90 && in->opcode <= 0x93) || (in->opcode >= 0xa0 && in->opcode <= 0xa3) ||
		in->opcode == 0xc6 || in->opcode == 0xc7);
}

static struct operand operand_of(const struct dp_insn *in, u64 at)
{
	struct operand o = {.base = NONE, .index = NONE, .scale = 1};

	o.a32 = in->prefixes & DP_PFX_67;
	o.value = (u64)in->disp;
	if (!in->has_modrm && legacy(in, DP_MAP_ONE) && (in->opcode & 0xfc) == 0xa0)
		o.mem = o.fixed = true;
	if (!has_mem(in))
		return o;
	o.mem = true;
	if (in->rip_relative) {
		o.fixed = true;
		o.value += at + in->len;
	} else if (in->has_sib) {
		if ((in->sib & 7) != 5 || dp_modrm_mod(in) != 0)
			o.base = (in->sib & 7) | (in->rex & DP_REX_B ? 8 : 0);
		o.index = (in->sib >> 3 & 7) | (in->rex & DP_REX_X ? 8 : 0);
		o.scale = 1 << (in->sib >> 6);
		if (is_vsib(in) || o.index == RJ_RSP)
			o.index = NONE;
		o.fixed = o.base == NONE && o.index == NONE && !is_vsib(in);
	} else {
		o.base = dp_modrm_rm(in);
	}
	if (o.a32 && o.fixed)
		o.value = (u32)o.value;
	return o;
}

u64 rj_fixed_operand(const struct dp_insn *in, const u8 *code, u64 at)
{
	struct operand o = operand_of(in, at);

	(void)code;
	if (!o.mem || !o.fixed || (in->prefixes & (DP_PFX_FS | DP_PFX_GS)))
		return 0;
	return o.value;
}

static enum rj_exclusion exclude_0f(const struct dp_insn *in)
{
	bool mem = has_mem(in);

	switch (in->opcode) {
	case 0x31: /* rdtsc */
	case 0x33: /* rdpmc */
	case 0xa2: /* cpuid */
		return RJ_UNREPEATABLE;
	case 0xc7:
		if (mem)
			return ext(in) >= 3 && ext(in) <= 5 ? RJ_XSAVE : RJ_RUN;
		return ext(in) >= 6 ? RJ_UNREPEATABLE : RJ_RUN; /* rdrand, rdseed, rdpid */
	case 0xae:
		return mem && ext(in) >= 4 && ext(in) <= 6 ? RJ_XSAVE : RJ_RUN;
	case 0xb2:
	case 0xb4:
	case 0xb5:
	case 0xa1:
	case 0xa9:
		return RJ_SEGMENT;
	case 0x00:
		return ext(in) <= 1 ? RJ_EMULATED : RJ_RUN; /* sldt, str */
	case 0x01:
		if (mem || (in->modrm >= 0xe0 && in->modrm <= 0xe7))
			return ext(in) <= 1 || ext(in) == 4 ? RJ_EMULATED : RJ_RUN; /* sgdt, sidt, smsw */
		if (in->modrm == 0xf9 || in->modrm == 0xfd)                         /* rdtscp, rdpru */
			return RJ_UNREPEATABLE;
		if (in->modrm == 0xd0) /* xgetbv can tell which state is in use */
			return RJ_XSAVE;
		return in->modrm == 0xef ? RJ_TILES : RJ_RUN; /* wrpkru */
	default:
		return RJ_RUN;
	}
}

static bool is_tile(const struct dp_insn *in)
{
	return in->enc == DP_ENC_VEX && in->map == DP_MAP_0F38 &&
	       (in->opcode == 0x49 || in->opcode == 0x4b || in->opcode == 0x5c || in->opcode == 0x5e ||
		in->opcode == 0x6c);
}

enum rj_exclusion rj_exclude(const struct dp_insn *in)
{
	if (!dp_can_relocate(in, NULL))
		return RJ_REFUSED;
	if (in->rel_size && in->rel < 0 && in->rel >= -(s64)in->len)
		return RJ_SELF;
	if (is_tile(in))
		return RJ_TILES;
	if (legacy(in, DP_MAP_ONE) && in->opcode == 0x8e)
		return RJ_SEGMENT;
	return legacy(in, DP_MAP_0F) ? exclude_0f(in) : RJ_RUN;
}

static u64 arena(bool low, u64 *seed)
{
	return low || one_in(seed, 2) ? RJ_LOW : RJ_HIGH;
}

/* Somewhere in the middle of the operands' part; aligned three times of four. */
static u64 data_address(bool low, bool aligned, u64 *seed)
{
	u64 a = arena(low, seed) + RJ_DATA + 0x3000 + (rj_random(seed) & 0x3c0);

	return aligned || !one_in(seed, 4) ? a : a + (rj_random(seed) & 0x3f);
}

static u64 random_value(u64 *seed)
{
	u64 v = rj_random(seed);

	switch (rj_random(seed) & 7) {
	case 0:
		return v & 0xff;
	case 1:
		return (u64)(s64)(s8)v;
	case 2:
		return data_address(false, true, seed);
	case 3:
		return (u32)v;
	case 4:
		return (1ull << (v & 63)) - (v >> 6 & 1);
	default:
		return v;
	}
}

static u64 stack_address(bool low, u64 *seed)
{
	u64 a = arena(low, seed) + RJ_STACK + 0x1000 + (rj_random(seed) & 0x1ff8);

	if (one_in(seed, 16))
		a += rj_random(seed) & 7;
	if (!one_in(seed, 48))
		return a;
	switch (rj_random(seed) & 3) {
	case 0: /* a push faults */
		return arena(low, seed) + (rj_random(seed) & 7);
	case 1: /* a pop faults */
		return arena(low, seed) + RJ_ARENA_SIZE - (rj_random(seed) & 7);
	default:
		return rj_random(seed);
	}
}

/* rsp such that both it and rsp + value lie in the arena, where the distance allows. */
static u64 steer_rsp(u64 rsp, u64 value)
{
	u64 lo = rsp >= RJ_HIGH ? RJ_HIGH : RJ_LOW;
	s64 v = (s64)value;

	if (v >= 0 && v < RJ_ARENA_SIZE - 256 && rsp + value > lo + RJ_ARENA_SIZE - 128)
		return DP_ALIGN_DOWN(lo + RJ_ARENA_SIZE - 128 - value, 8);
	if (v < 0 && -v < RJ_ARENA_SIZE - 256 && rsp + value < lo + 128)
		return DP_ALIGN_UP(lo + 128 - value, 8);
	return rsp;
}

/* Choose the registers of the operand; returns its address, 0 when nobody knows. */
static u64 steer_operand(struct rj_state *s, const struct dp_insn *in, const struct operand *o, u64 *seed)
{
	bool locked = (in->prefixes & DP_PFX_LOCK) || (legacy(in, DP_MAP_ONE) && (in->opcode & 0xfe) == 0x86);
	bool seg = in->prefixes & (DP_PFX_FS | DP_PFX_GS);
	u64 *r = s->regs.r, want = data_address(o->a32, locked, seed), have = o->value;

	if (seg) { /* the segment base makes up for whatever the registers hold */
		if (o->base != NONE && o->base != RJ_RSP)
			r[o->base] = rj_random(seed) & 0xffff;
		if (o->index != NONE)
			r[o->index] = rj_random(seed) & 0xffff;
		have += (o->base != NONE ? r[o->base] : 0) + (o->index != NONE ? r[o->index] * (u64)o->scale : 0);
		if (o->a32)
			have = (u32)have;
		have = want - have;
		if ((u64)((s64)(have << 16) >> 16) != have) /* no segment can begin there */
			return 0;
		*(in->prefixes & DP_PFX_FS ? &s->regs.fsbase : &s->regs.gsbase) = have;
		return want;
	}
	if (o->fixed)
		return o->value;
	if (o->base == RJ_RSP) {
		if (o->index != NONE)
			r[o->index] = (rj_random(seed) & 0xff) / (u64)o->scale;
		have += o->index != NONE ? r[o->index] * (u64)o->scale : 0;
		r[RJ_RSP] = steer_rsp(r[RJ_RSP], have);
		return r[RJ_RSP] + have;
	}
	if (o->base != NONE && o->index == o->base) {
		r[o->base] = (u64)((s64)(want - have) / (1 + o->scale));
		want = have + r[o->base] * (u64)(1 + o->scale);
	} else if (o->base != NONE) {
		have += o->index != NONE ? r[o->index] * (u64)o->scale : 0;
		r[o->base] = want - have;
	} else if (o->index != NONE) {
		r[o->index] = (u64)((s64)(want - have) / o->scale);
		want = have + r[o->index] * (u64)o->scale;
	}
	if (o->a32) { /* the upper halves must not matter */
		if (o->base != NONE)
			r[o->base] = (u32)r[o->base] | rj_random(seed) << 32;
		if (o->index != NONE && o->index != o->base)
			r[o->index] = (u32)r[o->index] | rj_random(seed) << 32;
		want = (u32)want;
	}
	return want;
}

/* Offset in the arena of an address, or -1. Fixed operands lie in a window of two pages. */
static long arena_offset(u64 addr, bool fixed)
{
	if (fixed)
		return (long)(RJ_RIP + (addr & (PAGE - 1)));
	if (addr - RJ_LOW < RJ_ARENA_SIZE)
		return (long)(addr - RJ_LOW);
	return addr - RJ_HIGH < RJ_ARENA_SIZE ? (long)(addr - RJ_HIGH) : -1;
}

static void poke(struct rj_state *s, long off, const void *bytes, size_t n)
{
	if (off >= 0 && off + n <= RJ_ARENA_SIZE)
		memcpy(s->mem + off, bytes, n);
}

static void poke_random(struct rj_state *s, long off, u64 *seed)
{
	u64 v[8];

	for (int i = 0; i < 8; i++)
		v[i] = random_value(seed);
	poke(s, off, v, sizeof(v));
}

static bool is_string(const struct dp_insn *in)
{
	return legacy(in, DP_MAP_ONE) &&
	       ((in->opcode >= 0xa4 && in->opcode <= 0xa7) || (in->opcode >= 0xaa && in->opcode <= 0xaf) ||
		(in->opcode >= 0x6c && in->opcode <= 0x6f));
}

static void steer_string(struct rj_state *s, const struct dp_insn *in, u64 *seed)
{
	bool low = in->prefixes & DP_PFX_67;
	u64 *r = s->regs.r;

	r[RJ_RSI] = data_address(low, false, seed);
	r[RJ_RDI] = data_address(low, false, seed);
	r[RJ_RCX] = rj_random(seed) % 40;
	if (in->prefixes & (DP_PFX_FS | DP_PFX_GS)) {
		s->regs.fsbase = s->regs.gsbase = r[RJ_RSI] & ~0xfffull;
		r[RJ_RSI] &= 0xfff;
	}
	if (low && one_in(seed, 2)) {
		r[RJ_RCX] |= rj_random(seed) << 32;
		r[RJ_RSI] |= rj_random(seed) << 32;
		r[RJ_RDI] |= rj_random(seed) << 32;
	}
}

/* Registers with a meaning of their own in some instructions. */
static void steer_implicit(struct rj_state *s, const struct dp_insn *in, long off, u64 *seed)
{
	u8 op = in->opcode, reg = dp_modrm_reg(in);
	bool one = legacy(in, DP_MAP_ONE), of = legacy(in, DP_MAP_0F), low = in->prefixes & DP_PFX_67;
	u64 *r = s->regs.r;

	if (is_string(in)) {
		steer_string(s, in, seed);
	} else if (one && op == 0xd7) { /* xlat */
		r[RJ_RBX] = data_address(low, true, seed);
	} else if (one && (op == 0xc8 || op == 0xc9)) { /* enter, leave */
		r[RJ_RBP] = stack_address(false, seed);
	} else if (one && (op & 0xfe) == 0xf6 && ext(in) >= 6 && one_in(seed, 2)) { /* div, idiv */
		r[RJ_RDX] = one_in(seed, 2) ? 0 : (u64)((s64)r[RJ_RAX] >> 63);
		r[RJ_RAX] &= one_in(seed, 2) ? 0xff : ~0ull;
	} else if ((of && op == 0xf7) || (in->enc == DP_ENC_VEX && in->map == DP_MAP_0F && op == 0xf7)) {
		r[RJ_RDI] = data_address(low, false, seed);             /* maskmovq, maskmovdqu */
	} else if (legacy(in, DP_MAP_0F38) && op == 0xf8 && off >= 0) { /* movdir64b */
		r[reg] = data_address(low, true, seed);
	} else if (of && (op == 0xa3 || op == 0xab || op == 0xb3 || op == 0xbb) && off >= 0 &&
		   !one_in(seed, 8)) { /* bt and its kind reach far from the operand */
		r[reg] = rj_random(seed) % 2000 - 1000;
	} else if (of && (op & 0xfe) == 0xb0 && off >= 0 && one_in(seed, 2)) { /* cmpxchg */
		poke(s, off, &r[RJ_RAX], 8);
	} else if (of && op == 0xc7 && ext(in) == 1 && off >= 0 && one_in(seed, 2)) {
		u32 lo[2] = {(u32)r[RJ_RAX], (u32)r[RJ_RDX]};
		u64 wide[2] = {r[RJ_RAX], r[RJ_RDX]};

		poke(s, off, in->rex & DP_REX_W ? (void *)wide : (void *)lo, in->rex & DP_REX_W ? 16 : 8);
	}
	if (in->cls == DP_INSN_SYSCALL || in->cls == DP_INSN_INT) /* getpid, or none */
		r[RJ_RAX] = one_in(seed, 2) ? 0x7fffffff : in->cls == DP_INSN_INT ? 20 : 39;
	if (in->cls == DP_INSN_LOOP && one_in(seed, 2)) /* both ways */
		r[RJ_RCX] = rj_random(seed) % 3 | (one_in(seed, 2) ? rj_random(seed) << 32 : 0);
}

/* Indirect branches and returns arrive at the landing page, nearly always. */
static void steer_branch(struct rj_state *s, const struct dp_insn *in, const struct rj_place *p, long off, u64 *seed)
{
	u64 *r = s->regs.r, target = p->landing + (rj_random(seed) & 0xff);

	if (one_in(seed, 24))
		target = random_value(seed);
	if (in->cls == DP_INSN_RET)
		poke(s, arena_offset(r[RJ_RSP], false), &target, 8);
	if (in->cls != DP_INSN_JMP_IND && in->cls != DP_INSN_CALL_IND)
		return;
	if (!has_mem(in)) {
		if (dp_modrm_rm(in) != RJ_RSP)
			r[dp_modrm_rm(in)] = target;
		return;
	}
	poke(s, off, &target, 8);
}

/*
 * A call must not read its target from the slot of its own return address: such a call has no copy,
 * and nobody can tell beforehand (see relocate.c).
 */
static void keep_off_slot(struct rj_state *s, const struct dp_insn *in, const struct operand *o)
{
	u64 *r = s->regs.r, ea = o->value;

	if (in->cls != DP_INSN_CALL_IND || !o->mem)
		return;
	ea += (o->base != NONE ? r[o->base] : 0) + (o->index != NONE ? r[o->index] * (u64)o->scale : 0);
	if (o->a32)
		ea = (u32)ea;
	if (in->prefixes & DP_PFX_FS)
		ea += s->regs.fsbase;
	if (in->prefixes & DP_PFX_GS)
		ea += s->regs.gsbase;
	if (ea + 16 <= r[RJ_RSP] || ea >= r[RJ_RSP])
		return;
	if (o->base == RJ_RSP && o->index != NONE)
		r[o->index] += 4096;
	else
		r[RJ_RSP] += 64;
}

static u64 random_lane(unsigned int mode, u64 *seed)
{
	u64 v = rj_random(seed);

	switch (mode) {
	case 0: /* small integers: indices, counts */
		return v & 0x0000007f0000007full;
	case 1:
		return v & 0x7f;
	case 2: /* single precision around 1 */
		return (v & 0x807fffff807fffffull) + 0x3e8000003e800000ull + (v >> 60 << 23);
	case 3: /* double precision around 1 */
		return (v & 0x800fffffffffffffull) + 0x3fe0000000000000ull + (v >> 60 << 52);
	default:
		return v;
	}
}

/* Offsets are those of the fxsave image, which the xrstor image begins with. */
static void random_xstate(u8 *x, u64 *seed)
{
	unsigned int mode = (unsigned int)(rj_random(seed) % 8);
	u16 fcw = one_in(seed, 8) ? 0x40 | (rj_random(seed) & 0xf3f) : 0x37f;
	u16 fsw = one_in(seed, 8) ? (u16)rj_random(seed) & 0x7f7f : (u16)(rj_random(seed) & 0x4700);
	u32 mxcsr = 0x1f80 | (rj_random(seed) & 0xe040);
	u64 lane;

	if (one_in(seed, 8))
		mxcsr = (u32)rj_random(seed) & 0xffff;
	mxcsr &= rj_xlayout.mxcsr_mask;
	memset(x, 0, 160);
	memcpy(x, &fcw, 2);
	memcpy(x + 2, &fsw, 2);
	x[4] = one_in(seed, 2) ? 0xff : (u8)rj_random(seed);
	memcpy(x + 24, &mxcsr, 4);
	for (int i = 0; i < 8; i++) {
		u16 exponent = (u16)(one_in(seed, 2) ? 0x3ff0 + (rj_random(seed) & 31) : rj_random(seed));

		lane = rj_random(seed) | 1ull << 63;
		memcpy(x + 32 + 16 * i, &lane, 8);
		memcpy(x + 32 + 16 * i + 8, &exponent, 2);
	}
	for (u32 off = 160; off < rj_xlayout.size; off += 8) {
		if (off == 416)
			off = 576;
		lane = random_lane(mode, seed);
		memcpy(x + off, &lane, 8);
	}
}

void rj_steer(struct rj_state *s, const struct dp_insn *in, const struct rj_place *p, u64 *seed)
{
	struct operand o = operand_of(in, p->at);
	u64 *r = s->regs.r, ea = 0;
	long off = -1;

	for (int i = 0; i < 16; i++)
		r[i] = random_value(seed);
	r[RJ_RSP] = stack_address(o.a32, seed);
	s->regs.flags = 0x202 | (rj_random(seed) & 0xcd5); /* the arithmetic flags and the direction */
	s->regs.fsbase = data_address(true, true, seed);
	s->regs.gsbase = data_address(true, true, seed);
	if (o.mem && !one_in(seed, 64)) {
		bool seg = in->prefixes & (DP_PFX_FS | DP_PFX_GS);

		ea = steer_operand(s, in, &o, seed);
		off = arena_offset(ea, o.fixed && !seg);
		poke_random(s, off, seed);
	}
	poke_random(s, arena_offset(r[RJ_RSP], false), seed);
	steer_implicit(s, in, off, seed);
	steer_branch(s, in, p, off, seed);
	keep_off_slot(s, in, &o);
	random_xstate(s->xstate, seed);
}
