/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Tracing the target of an indirect jump backwards through straight code. Compilers write
 *     lea table(%rip), B;  movslq (B,I,4), R;  add B, R;  jmp *R
 * for a switch, plain 8-byte loads for everything else. Kernel-clean, allocates nothing.
 */
#include "arch/x86_64/indirect.h"

enum def_kind {
	DEF_NONE,  /* not in sight */
	DEF_OTHER, /* written by something that is not followed */
	DEF_LOAD,  /* a whole 8-byte word from memory, the stack or a callee */
	DEF_CONST, /* lea sym(%rip) or an immediate */
	DEF_SUM,   /* a + b, or a + value; -1 for an operand that is memory */
	DEF_SEXT,  /* 32 bits from memory */
};

struct def {
	enum def_kind kind;
	u32 at;    /* index in the trail: operands are to be looked for before it */
	int reg;   /* the register that was followed last */
	u64 value; /* CONST; SUM without b: the constant, 0 when there is none */
	int a, b;
	struct dp_insn in;
	u64 next; /* address behind the defining instruction */
};

static int base_reg(const struct dp_insn *in)
{
	if (in->has_sib) {
		if ((in->sib & 7) == 5 && dp_modrm_mod(in) == 0)
			return -1;
		return (in->sib & 7) | (in->rex & DP_REX_B ? 8 : 0);
	}
	return in->rip_relative ? -1 : dp_modrm_rm(in);
}

static int index_reg(const struct dp_insn *in)
{
	int r;

	if (!in->has_sib)
		return -1;
	r = (in->sib >> 3 & 7) | (in->rex & DP_REX_X ? 8 : 0);
	return r == 4 ? -1 : r;
}

static unsigned int scale_of(const struct dp_insn *in)
{
	return index_reg(in) < 0 ? 0 : 1u << (in->sib >> 6);
}

static bool caller_saved(int r) /* rax, rcx, rdx, rsi, rdi, r8-r11 */
{
	return r <= 2 || (r >= 6 && r <= 11);
}

static bool explicit_write(const struct dp_insn *in, int r)
{
	return in->has_modrm && (dp_modrm_reg(in) == r || (dp_modrm_mod(in) == 3 && dp_modrm_rm(in) == r));
}

static bool opcode_reg(const struct dp_insn *in, int r)
{
	return ((in->opcode & 7) | (in->rex & DP_REX_B ? 8 : 0)) == r;
}

static bool may_write_one(const struct dp_insn *in, int r)
{
	bool to_rm = dp_modrm_mod(in) == 3 && dp_modrm_rm(in) == r;

	switch (in->opcode) {
	case 0x00 ... 0x37: /* add, or, adc, sbb, and, sub, xor */
		if ((in->opcode & 7) >= 4)
			return r == 0;
		return in->opcode & 2 ? dp_modrm_reg(in) == r : to_rm;
	case 0x38 ... 0x3d: /* cmp */
	case 0x50 ... 0x57: /* push */
	case 0x68:
	case 0x6a:
	case 0x84 ... 0x85: /* test */
	case 0xa8 ... 0xa9:
		return false;
	case 0x80 ... 0x83:
		return to_rm && (in->modrm >> 3 & 7) != 7;
	case 0x88 ... 0x89: /* mov to r/m */
	case 0x8f:          /* pop r/m */
	case 0xc0 ... 0xc1: /* shifts */
	case 0xd0 ... 0xd3:
	case 0xc6 ... 0xc7:
	case 0xfe ... 0xff: /* inc, dec */
		return to_rm;
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0x8a ... 0x8b:
	case 0x8d:
		return dp_modrm_reg(in) == r;
	case 0x90 ... 0x97: /* nop; xchg with rax */
		return (in->opcode != 0x90 || in->rex & DP_REX_B) && (r == 0 || opcode_reg(in, r));
	case 0x58 ... 0x5f: /* pop */
	case 0xb0 ... 0xbf:
		return opcode_reg(in, r);
	case 0xf6 ... 0xf7: /* test, not, neg, mul, div */
		return (in->modrm >> 3 & 7) >= 4 ? r == 0 || r == 2 : to_rm;
	case 0xd8 ... 0xdf: /* x87; fnstsw ax is the one that writes */
		return r == 0 && in->opcode == 0xdf;
	default:
		return true;
	}
}

static bool may_write_0f(const struct dp_insn *in, int r)
{
	switch (in->opcode) {
	case 0x01: /* many kinds */
	case 0x05: /* syscall */
	case 0x31: /* rdtsc and its kind, cpuid, cmpxchg */
	case 0x32:
	case 0x33:
	case 0x34:
	case 0xa2:
	case 0xb0:
	case 0xb1:
	case 0xc7:
		return r <= 3 || r == 11 || explicit_write(in, r);
	case 0xc8 ... 0xcf: /* bswap */
		return opcode_reg(in, r);
	case 0x10 ... 0x17: /* vector moves, nop, prefetch */
	case 0x18 ... 0x1f:
	case 0x28 ... 0x2b:
	case 0x2e ... 0x2f:
	case 0x51 ... 0x6f:
	case 0x7f:
		return false;
	default:
		return explicit_write(in, r);
	}
}

/* Whether an instruction might write r; yes where it is not known. */
static bool may_write(const struct dp_insn *in, int r)
{
	if (in->rel_size)
		return false;
	if (in->enc != DP_ENC_LEGACY)
		return explicit_write(in, r) || in->vvvv == r || r == 1;
	if (in->map == DP_MAP_ONE)
		return may_write_one(in, r);
	if (in->map == DP_MAP_0F)
		return may_write_0f(in, r);
	return explicit_write(in, r) || r == 1; /* pcmpestri writes ecx */
}

/* The forms that matter, for an instruction that writes r; everything else is DEF_OTHER. */
static void classify(struct def *d, int r)
{
	const struct dp_insn *in = &d->in;
	bool mem = in->has_modrm && dp_modrm_mod(in) != 3;
	bool wide = in->rex & DP_REX_W;

	d->kind = DEF_OTHER;
	if (dp_insn_is_call(in)) {
		d->kind = r == 0 ? DEF_LOAD : DEF_OTHER;
		return;
	}
	if (in->enc != DP_ENC_LEGACY || in->map != DP_MAP_ONE)
		return;
	switch (in->opcode) {
	case 0x8b:
		if (mem)
			d->kind = wide ? DEF_LOAD : DEF_SEXT;
		break;
	case 0x58 ... 0x5f:
		d->kind = DEF_LOAD;
		break;
	case 0xb8 ... 0xbf:
		d->kind = DEF_CONST;
		d->value = wide ? (u64)in->imm : (u32)in->imm;
		break;
	case 0xc7:
		d->kind = DEF_CONST;
		d->value = wide ? (u64)in->imm : (u32)in->imm;
		break;
	case 0x8d:
		if (in->rip_relative) {
			d->kind = DEF_CONST;
			d->value = d->next + (u64)in->disp;
		} else if (wide) {
			d->kind = DEF_SUM;
			d->a = base_reg(in);
			d->b = in->disp || scale_of(in) > 1 ? -1 : index_reg(in);
			d->value = index_reg(in) < 0 ? (u64)in->disp : 0;
		}
		break;
	case 0x63:
		if (mem && wide)
			d->kind = DEF_SEXT;
		break;
	case 0x03:
		d->kind = DEF_SUM;
		d->a = r;
		d->b = mem ? -1 : dp_modrm_rm(in);
		break;
	case 0x01:
		d->kind = DEF_SUM;
		d->a = r;
		d->b = dp_modrm_reg(in);
		break;
	case 0x81:
	case 0x05:
		d->kind = DEF_SUM;
		d->a = r;
		d->b = -1;
		if (in->opcode == 0x05 || !(in->modrm & 0x38)) /* add */
			d->value = (u64)in->imm;
		break;
	case 0x83:
	case 0x29:
	case 0x2b:
		d->kind = DEF_SUM;
		d->a = r;
		d->b = -1;
		break;
	}
}

/* A copy from one register to another, sign-extended or not: the search goes on with the source. */
static int copied_from(const struct dp_insn *in, int r)
{
	if (in->enc != DP_ENC_LEGACY || in->map != DP_MAP_ONE || !(in->rex & DP_REX_W))
		return -1;
	if (in->opcode == 0x98 && r == 0) /* cdqe */
		return r;
	if (!in->has_modrm || dp_modrm_mod(in) != 3)
		return -1;
	if ((in->opcode == 0x8b || in->opcode == 0x63) && dp_modrm_reg(in) == r)
		return dp_modrm_rm(in);
	if (in->opcode == 0x89 && dp_modrm_rm(in) == r)
		return dp_modrm_reg(in);
	return -1;
}

static void find_def(const struct dp_text *t, const struct dp_trail *trail, u32 before, int r, struct def *d)
{
	u32 oldest = trail->n > DP_TRAIL ? trail->n - DP_TRAIL : 0;

	*d = (struct def){DEF_NONE, .reg = r};
	while (before-- > oldest) {
		u64 off = trail->off[before & (DP_TRAIL - 1)];
		int from;

		if (dp_insn_decode(&d->in, t->bytes + off, t->hi - t->lo - off) < 0)
			return;
		if (dp_insn_is_call(&d->in)) {
			if (!caller_saved(r))
				continue;
		} else if (!may_write(&d->in, r)) {
			continue;
		}
		from = copied_from(&d->in, r);
		if (from >= 0) {
			r = d->reg = from;
			continue;
		}
		d->at = before;
		d->next = t->lo + off + d->in.len;
		classify(d, r);
		return;
	}
}

/* An indexed operand of 8-byte elements: where does the table begin? */
static void trace_words(const struct dp_text *t, const struct dp_trail *trail, u32 before, const struct dp_insn *in,
			u64 next, struct dp_indirect *out)
{
	int base = base_reg(in);
	struct def b;

	out->kind = DP_INDIRECT_MEMORY;
	out->indexed = scale_of(in) == 8;
	if (in->rip_relative) {
		out->table = next + (u64)in->disp;
	} else if (base < 0 && in->has_sib) {
		out->table = (u64)in->disp;
	} else if (out->indexed) {
		find_def(t, trail, before, base, &b);
		if (b.kind == DEF_CONST)
			out->table = b.value + (u64)in->disp;
	} else {
		out->stack = base == 4 || base == 5;
	}
}

/* Where the table is that the offset was read from. */
static void trace_table(const struct dp_text *t, const struct dp_trail *trail, const struct def *entry,
			const struct def *base, struct dp_indirect *out)
{
	struct def table;

	if (!entry->in.has_modrm || entry->in.rip_relative)
		return;
	out->reg = base_reg(&entry->in);
	out->disp = entry->in.disp;
	if (out->reg < 0) { /* table(,I,4): fixed addresses only */
		table = (struct def){DEF_CONST, .reg = -1};
	} else {
		find_def(t, trail, entry->at, out->reg, &table);
		out->reg = table.reg;
		out->same = base->reg == table.reg;
	}
	if (table.kind != DEF_CONST || !out->base)
		return;
	out->kind = DP_INDIRECT_TABLE;
	out->table = table.value + (u64)entry->in.disp;
}

/* R = a + b, one being an int32 of a table, the other what it is relative to. */
static void trace_sum(const struct dp_text *t, const struct dp_trail *trail, const struct def *sum,
		      struct dp_indirect *out)
{
	struct def a, b = {DEF_CONST, .reg = -1, .value = sum->value};
	const struct def *entry, *base;

	out->kind = DP_INDIRECT_SUM;
	out->reg = -1;
	if (sum->a < 0 || (sum->b < 0 && !sum->value))
		return;
	find_def(t, trail, sum->at, sum->a, &a);
	if (sum->b >= 0)
		find_def(t, trail, sum->at, sum->b, &b);
	entry = a.kind == DEF_SEXT ? &a : &b;
	base = a.kind == DEF_SEXT ? &b : &a;
	if (base->kind == DEF_CONST)
		out->base = base->value;
	if (entry->kind == DEF_SEXT)
		trace_table(t, trail, entry, base, out);
}

void dp_indirect_trace(const struct dp_text *t, const struct dp_trail *trail, const struct dp_insn *in, u64 off,
		       struct dp_indirect *out)
{
	struct def d;

	*out = (struct dp_indirect){DP_INDIRECT_UNKNOWN, .reg = -1};
	if (dp_modrm_mod(in) != 3) {
		trace_words(t, trail, trail->n, in, t->lo + off + in->len, out);
		return;
	}
	find_def(t, trail, trail->n, dp_modrm_rm(in), &d);
	out->reg = d.reg;
	switch (d.kind) {
	case DEF_LOAD:
		if (d.in.has_modrm && d.in.cls == DP_INSN_PLAIN)
			trace_words(t, trail, d.at, &d.in, d.next, out);
		else
			out->kind = DP_INDIRECT_MEMORY;
		break;
	case DEF_CONST:
		out->kind = DP_INDIRECT_MEMORY;
		break;
	case DEF_SUM:
		trace_sum(t, trail, &d, out);
		break;
	case DEF_SEXT: /* a table of 32-bit addresses: nothing that a compiler writes */
		out->kind = DP_INDIRECT_SUM;
		out->reg = -1;
		break;
	case DEF_NONE:
	case DEF_OTHER:
		break;
	}
}

static void sum_of(struct dp_sums *s, int dst, int a, int b)
{
	u32 ops = (a < 0 ? 0 : 1u << a) | (b < 0 ? 0 : 1u << b);

	if (ops & (s->sexts | s->labels | s->sums) || (ops & s->data && ops & s->smalls))
		s->sums |= 1u << dst;
}

static void copy_of(struct dp_sums *s, int dst, int src)
{
	u32 from = 1u << src, to = 1u << dst;

	if (s->sexts & from)
		s->sexts |= to;
	if (s->smalls & from)
		s->smalls |= to;
	if (s->data & from)
		s->data |= to;
	if (s->labels & from)
		s->labels |= to;
	if (s->sums & from)
		s->sums |= to;
}

static void sums_see_lea(struct dp_sums *s, const struct dp_insn *in, u64 next)
{
	u64 value = next + (u64)in->disp;

	if (!in->rip_relative)
		sum_of(s, dp_modrm_reg(in), base_reg(in), index_reg(in));
	else if (value >= s->lo && value < s->hi)
		s->labels |= 1u << dp_modrm_reg(in);
	else
		s->data |= 1u << dp_modrm_reg(in);
}

void dp_sums_see(struct dp_sums *s, const struct dp_insn *in, u64 next)
{
	bool mem = in->has_modrm && dp_modrm_mod(in) != 3;
	int reg, rm;

	if (in->enc != DP_ENC_LEGACY || in->map > DP_MAP_0F)
		return;
	reg = dp_modrm_reg(in);
	rm = dp_modrm_rm(in);
	if (in->map == DP_MAP_0F) {
		if ((in->opcode & 0xf6) == 0xb6 && index_reg(in) >= 0) /* movzx, movsx */
			s->smalls |= 1u << reg;
		if ((in->opcode & 0xf0) == 0x40 && !mem) /* cmov */
			copy_of(s, reg, rm);
		return;
	}
	switch (in->opcode) {
	case 0x63:
		if (mem)
			s->sexts |= 1u << reg;
		break;
	case 0x98: /* cdqe */
		if (in->rex & DP_REX_W)
			s->sexts |= s->smalls & 1;
		break;
	case 0x8d:
		sums_see_lea(s, in, next);
		break;
	case 0x8b:
		if (!mem)
			copy_of(s, reg, rm);
		else if (!(in->rex & DP_REX_W) && index_reg(in) >= 0)
			s->smalls |= 1u << reg;
		break;
	case 0x89:
		if (!mem)
			copy_of(s, rm, reg);
		else if (s->sums >> reg & 1)
			s->spilled = true;
		break;
	case 0x01:
	case 0x29:
		if (!mem)
			sum_of(s, rm, rm, reg);
		break;
	case 0x03:
	case 0x2b:
		sum_of(s, reg, reg, mem ? -1 : rm);
		break;
	case 0x05:
	case 0x2d:
		sum_of(s, 0, 0, -1);
		break;
	case 0x81:
	case 0x83:
		if (!mem)
			sum_of(s, rm, rm, -1);
		break;
	case 0xb8 ... 0xbf: /* in a file with a fixed address, labels are constants */
		if ((u64)in->imm >= s->lo && (u64)in->imm < s->hi)
			s->labels |= 1u << ((in->opcode & 7) | (in->rex & DP_REX_B ? 8 : 0));
		break;
	}
}

bool dp_sums_reach(const struct dp_sums *s, const struct dp_indirect *ind)
{
	if (ind->kind == DP_INDIRECT_MEMORY)
		return ind->stack && s->spilled;
	return ind->reg < 0 || s->sums >> ind->reg & 1;
}
