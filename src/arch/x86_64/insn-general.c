/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Does an instruction leave vector, mask, MMX and x87 registers and their control words alone?
 * A list of those that do; whatever is not on it counts as touching them.
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
