/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Branches carried out in C, for probes that want control after them. General registers only.
 * Nothing changes when memory that the branch needs cannot be read: the caller then lets a copy of
 * the instruction fault. The code of both hosts that call C handlers; each includes it once, after
 * it has defined
 *	HIT			where code that runs on behalf of a hit belongs
 *	struct pt_regs		in the kernel's layout
 *	EMULATE_READ(a, buf, n)	true when n bytes at address a could be read
 */
#ifndef DP_EMULATE_H
#define DP_EMULATE_H

#include "arch/x86_64/insn.h"

/* By the processor's number. */
static HIT unsigned long *reg(struct pt_regs *r, u8 n)
{
	switch (n) {
	case 0:
		return &r->ax;
	case 1:
		return &r->cx;
	case 2:
		return &r->dx;
	case 3:
		return &r->bx;
	case 4:
		return &r->sp;
	case 5:
		return &r->bp;
	case 6:
		return &r->si;
	case 7:
		return &r->di;
	case 8:
		return &r->r8;
	case 9:
		return &r->r9;
	case 10:
		return &r->r10;
	case 11:
		return &r->r11;
	case 12:
		return &r->r12;
	case 13:
		return &r->r13;
	case 14:
		return &r->r14;
	}
	return &r->r15;
}

static HIT u64 segment_base(const struct dp_insn *in)
{
	u64 base = 0;

	/* In a process. arch_prctl would do without FSGSBASE; glibc keeps the address at the start
	 * of its own block. */
	if (in->prefixes & DP_PFX_FS && !DP_RING0)
		__asm__("mov %%fs:0, %0" : "=r"(base));
	return base;
}

static HIT bool address_of(const struct dp_insn *in, u64 next, struct pt_regs *r, u64 *addr)
{
	u64 a = (u64)in->disp;
	u8 rm = in->modrm & 7;

	if (in->prefixes & DP_PFX_GS)
		return false;
	if (in->rip_relative) {
		a += next;
	} else if (in->has_sib) {
		u8 index = (u8)((in->sib >> 3 & 7) | (in->rex & DP_REX_X ? 8 : 0));
		u8 base = in->sib & 7;

		if (index != 4)
			a += *reg(r, index) << (in->sib >> 6);
		if (base != 5 || dp_modrm_mod(in))
			a += *reg(r, (u8)(base | (in->rex & DP_REX_B ? 8 : 0)));
	} else {
		a += *reg(r, (u8)(rm | (in->rex & DP_REX_B ? 8 : 0)));
	}
	if (in->prefixes & DP_PFX_67)
		a = (u32)a;
	*addr = a + segment_base(in);
	return true;
}

static HIT bool condition(u8 cc, u64 f)
{
	bool cf = f & 1, pf = f & 4, zf = f & 0x40, sf = f & 0x80, of = f & 0x800, r = false;

	switch (cc >> 1) {
	case 0:
		r = of;
		break;
	case 1:
		r = cf;
		break;
	case 2:
		r = zf;
		break;
	case 3:
		r = cf || zf;
		break;
	case 4:
		r = sf;
		break;
	case 5:
		r = pf;
		break;
	case 6:
		r = sf != of;
		break;
	case 7:
		r = zf || sf != of;
		break;
	}
	return r != (cc & 1);
}

static HIT bool loop_taken(const struct dp_insn *in, struct pt_regs *r)
{
	bool narrow = in->prefixes & DP_PFX_67;
	bool zf = r->flags & 0x40;

	if (in->opcode == 0xe3) /* jrcxz */
		return narrow ? !(u32)r->cx : !r->cx;
	r->cx = narrow ? (u32)(r->cx - 1) : r->cx - 1;
	if (!(narrow ? (u32)r->cx : r->cx))
		return false;
	return in->opcode == 0xe2 || (in->opcode == 0xe1 ? zf : !zf);
}

static HIT bool indirect(const struct dp_insn *in, u64 next, struct pt_regs *r, u64 *target)
{
	u64 addr;

	if (dp_modrm_mod(in) == 3) {
		*target = *reg(r, dp_modrm_rm(in));
		return true;
	}
	return address_of(in, next, r, &addr) && EMULATE_READ(addr, target, 8);
}

static HIT void push(struct pt_regs *r, u64 value)
{
	r->sp -= 8;
	*(u64 *)r->sp = value;
}

/* Carry out the branch at addr; false when that cannot be done. */
static HIT bool dp_emulate(const struct dp_insn *in, u64 addr, struct pt_regs *regs)
{
	u64 next = addr + in->len, target = next + (u64)in->rel;
	bool taken = true;

	switch (in->cls) {
	case DP_INSN_JMP_REL:
		break;
	case DP_INSN_JCC_REL:
		taken = condition(in->opcode & 15, regs->flags);
		break;
	case DP_INSN_LOOP:
		/* Processors differ in what F2 and F3 do to loope and loopne: see copy_loop() in relocate.c. */
		if (in->prefixes & (DP_PFX_F2 | DP_PFX_F3) && in->opcode < 0xe2)
			return false;
		taken = loop_taken(in, regs);
		break;
	case DP_INSN_CALL_REL:
		push(regs, next);
		break;
	case DP_INSN_JMP_IND:
		if (!indirect(in, next, regs, &target))
			return false;
		break;
	case DP_INSN_CALL_IND:
		if (!indirect(in, next, regs, &target))
			return false;
		push(regs, next);
		break;
	case DP_INSN_RET:
		if (!EMULATE_READ(regs->sp, &target, 8))
			return false;
		regs->sp += 8 + (in->imm_size ? (u16)in->imm : 0);
		break;
	default:
		return false;
	}
	regs->ip = taken ? target : next;
	return true;
}

#endif
