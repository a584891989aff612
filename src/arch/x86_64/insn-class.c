/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a decoded instruction does to the flow of control, where the opcode alone does not tell.
 * It looks at struct dp_insn only and reads no code.
 */
#include "arch/x86_64/insn-table.h"

/* FF: inc, dec, call, call far, jmp, jmp far, push. */
static enum dp_insn_class class_ff(unsigned int reg)
{
	switch (reg) {
	case 2:
		return DP_INSN_CALL_IND;
	case 4:
		return DP_INSN_JMP_IND;
	case 3:
	case 5:
		return DP_INSN_FAR;
	default:
		return DP_INSN_PLAIN;
	}
}

/* 0F01 with a register: each modrm byte is an instruction of its own. */
static enum dp_insn_class class_0f01_reg(u8 modrm, unsigned int pp)
{
	switch (modrm) {
	case 0xc0 ... 0xc3: /* enclv, vmcall, vmlaunch, vmresume */
	case 0xcf:          /* encls, seamcall */
	case 0xd4:          /* vmfunc */
	case 0xd7:          /* enclu */
	case 0xd8 ... 0xd9: /* vmrun, vmmcall */
	case 0xde:          /* skinit */
		return DP_INSN_SYSCALL;
	case 0xcc ... 0xce: /* tdcall, seamret, seamops */
		return DP_INSN_SYSCALL;
	case 0xc4 ... 0xc5: /* vmxoff, pconfig */
	case 0xc8 ... 0xcb: /* monitor, mwait, clac, stac */
	case 0xd1:          /* xsetbv */
	case 0xda ... 0xdd: /* vmload, vmsave, stgi, clgi */
	case 0xdf:          /* invlpga */
	case 0xf0 ... 0xf8: /* lmsw, swapgs */
	case 0xfe ... 0xff: /* invlpgb, tlbsync, rmpadjust, psmash, rmpupdate, pvalidate */
		return DP_INSN_HLT;
	case 0xe8:
		return pp == DP_PP_F3 ? DP_INSN_HLT : DP_INSN_PLAIN; /* setssbsy */
	case 0xec:
		return pp == DP_PP_F3 ? DP_INSN_FAR : DP_INSN_PLAIN; /* uiret */
	default:
		return DP_INSN_PLAIN;
	}
}

static enum dp_insn_class privileged_if(bool yes)
{
	return yes ? DP_INSN_HLT : DP_INSN_PLAIN;
}

static enum dp_insn_class class_0f(const struct dp_insn *in, unsigned int pp)
{
	unsigned int reg = in->modrm >> 3 & 7;
	bool mem = in->modrm < 0xc0;

	switch (in->opcode) {
	case 0x00: /* lldt, ltr */
		return privileged_if(reg == 2 || reg == 3);
	case 0x01:
		if (!mem)
			return class_0f01_reg(in->modrm, pp);
		/* lgdt, lidt, lmsw, invlpg */
		return privileged_if(reg == 2 || reg == 3 || reg >= 6);
	case 0x78: /* vmread, vmwrite; extrq and insertq with prefixes */
	case 0x79:
		return privileged_if(pp == DP_PP_NONE);
	case 0xae: /* clrssbsy */
		return privileged_if(mem && pp == DP_PP_F3 && reg == 6);
	case 0xc7: /* xrstors, xsaves, vmptrld, vmclear, vmxon, vmptrst */
		return privileged_if(mem && (reg == 3 || reg >= 5));
	default:
		return DP_INSN_PLAIN;
	}
}

enum dp_insn_class dp_insn_class_of(const struct dp_insn *in, unsigned int pp)
{
	if (in->map == DP_MAP_0F)
		return class_0f(in, pp);
	if (in->map == DP_MAP_0F38 && in->opcode == 0xdc) /* loadiwkey */
		return privileged_if(pp == DP_PP_F3 && in->modrm >= 0xc0);
	if (in->map == DP_MAP_0F38 && in->opcode == 0xf8) /* enqcmds */
		return privileged_if(pp == DP_PP_F3);
	if (in->map == DP_MAP_ONE && in->opcode == 0xff)
		return class_ff(in->modrm >> 3 & 7);
	if (in->map == DP_MAP_ONE && in->opcode == 0xc7 && in->modrm == 0xf8)
		return DP_INSN_XBEGIN;
	return DP_INSN_PLAIN;
}

bool dp_insn_falls_through(const struct dp_insn *in)
{
	switch (in->cls) {
	case DP_INSN_JMP_REL:
	case DP_INSN_JMP_IND:
	case DP_INSN_RET:
	case DP_INSN_UD:
		return false;
	case DP_INSN_FAR: /* of these only a far call comes back */
		return in->map == DP_MAP_ONE && in->opcode == 0xff && (in->modrm >> 3 & 7) == 3;
	case DP_INSN_SYSCALL: /* sysret, sysexit, rsm, skinit */
		return !(in->opcode == 0x07 || in->opcode == 0x35 || in->opcode == 0xaa ||
			 (in->opcode == 0x01 && in->modrm == 0xde));
	default:
		return true;
	}
}

bool dp_insn_is_nop(const struct dp_insn *in)
{
	if (in->enc != DP_ENC_LEGACY)
		return false;
	if (in->map == DP_MAP_ONE) /* xchg rax, rax; not xchg r8, rax; not pause */
		return in->opcode == 0x90 && !(in->rex & DP_REX_B) && !(in->prefixes & DP_PFX_F3);
	return in->map == DP_MAP_0F && in->opcode == 0x1f && !(in->modrm & 0x38);
}

bool dp_insn_is_landing_pad(const struct dp_insn *in)
{
	return in->enc == DP_ENC_LEGACY && in->map == DP_MAP_0F && in->opcode == 0x1e && in->modrm == 0xfa &&
	       in->prefixes & DP_PFX_F3;
}
