/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Does an instruction leave vector, mask, MMX and x87 registers and their control words alone? May it fault?
 * Lists of those that do leave them alone, and that cannot fault; for whatever is not on them the other is assumed.
 */
#include "arch/x86_64/insn.h"

static bool in_one_byte_map(u8 op)
{
	return op != 0x9b && (op < 0xd8 || op > 0xdf); /* fwait, x87 */
}

/* Registers forms of 0F 01 that are no virtualisation or memory keys: rdtscp. */
static bool is_rdtscp(const struct dp_insn *in)
{
	return in->opcode == 0x01 && in->modrm == 0xf9;
}

/* cmpxchg8b, cmpxchg16b; rdrand, rdseed, rdpid. */
static bool in_group9(const struct dp_insn *in)
{
	u8 reg = (in->modrm >> 3) & 7;

	return dp_modrm_mod(in) == 3 ? reg >= 6 : reg == 1;
}

/* lfence, mfence, sfence; clflush and its kin are left out: nobody misses them. */
static bool is_fence(const struct dp_insn *in)
{
	return dp_modrm_mod(in) == 3 && ((in->modrm >> 3) & 7) >= 5 &&
	       !(in->prefixes & (DP_PFX_66 | DP_PFX_F2 | DP_PFX_F3));
}

static bool in_0f_map(const struct dp_insn *in)
{
	static const struct {
		u8 lo, hi;
	} ok[] = {
	    {0x05, 0x05}, {0x0b, 0x0b}, {0x0d, 0x0d}, /* syscall, ud2, prefetchw */
	    {0x18, 0x19}, {0x1c, 0x1f},               /* hints, nop, endbr64 */
	    {0x31, 0x31}, {0x40, 0x4f},               /* rdtsc, cmovcc */
	    {0x80, 0xa5}, {0xa8, 0xad}, {0xaf, 0xb1}, /* jcc .. shld, bts, shrd, imul, cmpxchg */
	    {0xb3, 0xb3}, {0xb6, 0xb8}, {0xba, 0xc1}, /* btr, movzx, popcnt, bt .. xadd */
	    {0xc3, 0xc3}, {0xc8, 0xcf},               /* movnti, bswap */
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(ok); i++)
		if (in->opcode >= ok[i].lo && in->opcode <= ok[i].hi)
			return true;
	if (in->opcode == 0xae)
		return is_fence(in);
	if (in->opcode == 0xc7)
		return in_group9(in);
	return is_rdtscp(in);
}

bool dp_insn_is_general(const struct dp_insn *in)
{
	if (in->enc != DP_ENC_LEGACY)
		return false;
	switch (in->map) {
	case DP_MAP_ONE:
		return in_one_byte_map(in->opcode);
	case DP_MAP_0F:
		return in_0f_map(in);
	case DP_MAP_0F38:
		return in->opcode == 0xf0 || in->opcode == 0xf1; /* movbe, crc32 */
	default:
		return false;
	}
}

/* Memory at rsp plus a constant. */
static bool on_own_stack(const struct dp_insn *in)
{
	return in->has_sib && (in->sib & 7) == 4 && !(in->rex & DP_REX_B) && (in->sib >> 3 & 7) == 4 &&
	       !(in->rex & DP_REX_X) && !(in->prefixes & (DP_PFX_FS | DP_PFX_GS | DP_PFX_67));
}

/*
 * Those without a modrm byte: memory through rsi, rdi, rbx or an address of their own, and what user mode may not do.
 */
static bool bare_may_fault(const struct dp_insn *in)
{
	if (in->map == DP_MAP_0F) /* bswap; push and pop of fs and gs */
		return !(in->opcode >= 0xc8 && in->opcode <= 0xcf) && (in->opcode & 0xf6) != 0xa0;
	switch (in->opcode) {
	case 0x6c ... 0x6f: /* ins, outs */
	case 0xa0 ... 0xa7: /* mov at an address, movs, cmps */
	case 0xaa ... 0xaf: /* stos, lods, scas */
	case 0xc8 ... 0xc9: /* enter, leave: by rbp */
	case 0xd7:          /* xlat */
	case 0xe4 ... 0xe7: /* in, out */
	case 0xec ... 0xef:
	case 0xfa ... 0xfb: /* cli, sti */
		return true;
	default:
		return false;
	}
}

bool dp_insn_may_fault(const struct dp_insn *in)
{
	if (in->cls == DP_INSN_UD || in->cls == DP_INSN_HLT)
		return true;
	if (in->cls != DP_INSN_PLAIN)
		return false;
	if (!dp_insn_is_general(in) || in->enc != DP_ENC_LEGACY || in->map > DP_MAP_0F)
		return true; /* those that compute may raise exceptions of their own */
	if (!in->has_modrm)
		return bare_may_fault(in);
	if (in->map == DP_MAP_ONE && in->opcode == 0x8d) /* lea */
		return false;
	if (in->map == DP_MAP_ONE && (in->opcode == 0xf6 || in->opcode == 0xf7) && (in->modrm >> 3 & 7) >= 6)
		return true; /* div, idiv */
	if (in->map == DP_MAP_0F &&
	    (in->opcode == 0x1f || in->opcode == 0x1e || in->opcode == 0x18 || in->opcode == 0x0d))
		return false; /* nop, endbr64, prefetch */
	if (in->map == DP_MAP_0F && (in->opcode <= 0x0f || (in->opcode >= 0x20 && in->opcode <= 0x3f)))
		return true; /* of the system */
	return in->modrm < 0xc0 && !on_own_stack(in);
}

u32 dp_insn_traits(const struct dp_insn *in)
{
	return (dp_insn_falls_through(in) ? DP_INSN_FALLS : 0) | (dp_insn_is_nop(in) ? DP_INSN_NOP : 0) |
	       (dp_insn_is_landing_pad(in) ? DP_INSN_PAD : 0) | (dp_insn_may_fault(in) ? DP_INSN_MAY_FAULT : 0) |
	       (dp_insn_is_general(in) ? DP_INSN_GENERAL : 0);
}
