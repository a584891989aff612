/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The instruction decoder: length, parts, branch target and the properties that the site judge and
 * the relocator need. Freestanding; allocates nothing; 64-bit mode only. It does not name operands.
 */
#ifndef DP_INSN_H
#define DP_INSN_H

#include "base/base.h"

#define DP_INSN_MAX 15 /* longest legal instruction, bytes */

enum dp_insn_encoding {
	DP_ENC_LEGACY,
	DP_ENC_3DNOW,
	DP_ENC_VEX,
	DP_ENC_EVEX,
	DP_ENC_XOP,
};

enum dp_insn_map { /* opcode map; VEX, EVEX and XOP select it in their payload */
		   DP_MAP_ONE = 0,
		   DP_MAP_0F = 1,
		   DP_MAP_0F38 = 2,
		   DP_MAP_0F3A = 3,
		   DP_MAP_5 = 5, /* EVEX FP16 */
		   DP_MAP_6 = 6,
		   DP_MAP_XOP8 = 8,
		   DP_MAP_XOP9 = 9,
		   DP_MAP_XOPA = 10,
};

/* What the instruction does to the flow of control. Exactly one. */
enum dp_insn_class {
	DP_INSN_PLAIN,    /* goes on with the next instruction (may fault) */
	DP_INSN_JMP_REL,  /* jmp rel8/rel32 */
	DP_INSN_JCC_REL,  /* jcc rel8/rel32 */
	DP_INSN_LOOP,     /* loop, loope, loopne, jcxz/jecxz/jrcxz: rel8 only */
	DP_INSN_CALL_REL, /* call rel32 */
	DP_INSN_JMP_IND,  /* jmp r/m64 */
	DP_INSN_CALL_IND, /* call r/m64 */
	DP_INSN_RET,      /* ret, ret imm16 */
	DP_INSN_FAR,      /* jmp/call far, retf, iret */
	DP_INSN_SYSCALL,  /* syscall, sysenter, sysret, sysexit, vmcall and their kind */
	DP_INSN_INT,      /* int n, int1 */
	DP_INSN_INT3,     /* breakpoint */
	DP_INSN_UD,       /* ud0, ud1, ud2: always raise an exception */
	DP_INSN_HLT,      /* hlt and other instructions that only privileged code may run */
	DP_INSN_XBEGIN,   /* xbegin rel: the abort target is a branch target too */
};

/* Legacy prefixes seen, or implied by VEX/EVEX pp. */
#define DP_PFX_66 0x0001
#define DP_PFX_F2 0x0002
#define DP_PFX_F3 0x0004
#define DP_PFX_LOCK 0x0008
#define DP_PFX_FS 0x0010
#define DP_PFX_GS 0x0020
#define DP_PFX_SEG 0x0040 /* cs, ds, es or ss: ignored by the processor in 64-bit mode */
#define DP_PFX_67 0x0080
#define DP_PFX_REX 0x0100

/* rex bits; VEX and EVEX bits are given un-inverted in the same places */
#define DP_REX_B 1
#define DP_REX_X 2
#define DP_REX_R 4
#define DP_REX_W 8

struct dp_insn {
	u8 len;        /* whole instruction, bytes */
	u8 enc;        /* enum dp_insn_encoding */
	u8 map;        /* enum dp_insn_map */
	u8 opcode;     /* the opcode byte (3DNow!: the suffix byte) */
	u8 opcode_off; /* offset of the opcode byte */
	u8 cls;        /* enum dp_insn_class */
	u16 prefixes;  /* DP_PFX_* */
	u8 rex;        /* DP_REX_* */
	u8 vvvv;       /* un-inverted VEX/EVEX second source register, 0 otherwise */
	u8 has_modrm;
	u8 modrm;
	u8 has_sib;
	u8 sib;
	u8 modrm_off;
	u8 disp_size; /* 0, 1, 4; moffs (no modrm): 8, or 4 with 67 */
	u8 disp_off;
	u8 imm_size; /* 0, 1, 2, 4, 8; the branch displacement of a relative branch is not an immediate */
	u8 imm_off;
	u8 imm2_size; /* second immediate: enter, extrq/insertq */
	u8 rel_size;  /* 1, 2 or 4 for relative branches, else 0 */
	u8 rel_off;
	u8 rip_relative; /* memory operand is [rip + disp], cut to 32 bits with 67; disp_size is 4 */
	s64 disp;        /* sign-extended, unscaled (EVEX disp8*N is not applied) */
	s64 imm;         /* sign-extended */
	s64 rel;         /* branch displacement, sign-extended; target = address + len + rel */
};

static inline u8 dp_modrm_mod(const struct dp_insn *in)
{
	return in->modrm >> 6;
}

static inline u8 dp_modrm_reg(const struct dp_insn *in) /* with REX.R */
{
	return (u8)(((in->modrm >> 3) & 7) | (in->rex & DP_REX_R ? 8 : 0));
}

static inline u8 dp_modrm_rm(const struct dp_insn *in) /* with REX.B; meaningful without SIB */
{
	return (u8)((in->modrm & 7) | (in->rex & DP_REX_B ? 8 : 0));
}

/*
 * Decode the instruction that starts at code, of which avail bytes may be read.
 * Returns its length (1..15), -EINVAL for bytes that are no valid instruction in 64-bit mode,
 * -ENODATA when it would reach past avail. *in is undefined on error.
 * Valid means: some processor that runs 64-bit Linux executes it. MPX counts as no-operation, the
 * opcodes of the Knights Corner coprocessor are invalid.
 */
int dp_insn_decode(struct dp_insn *in, const u8 *code, size_t avail);

enum dp_insn_trait {
	DP_INSN_FALLS = 1,
	DP_INSN_NOP = 2,
	DP_INSN_PAD = 4,
	DP_INSN_MAY_FAULT = 8,
	DP_INSN_GENERAL = 16,
};

/* Which of these it has: the answers of the five functions below. */
u32 dp_insn_traits(const struct dp_insn *in);

/* True when the instruction has a direct target; *target gets it for an instruction at addr. */
static inline bool dp_insn_target(const struct dp_insn *in, u64 addr, u64 *target)
{
	*target = addr + in->len + (u64)in->rel;
	return in->rel_size;
}

/* ---- inside of this folder, one by one ---- */

/* True when control can reach the next instruction by falling through (calls do). */
bool dp_insn_falls_through(const struct dp_insn *in);

static inline bool dp_insn_is_call(const struct dp_insn *in)
{
	return in->cls == DP_INSN_CALL_REL || in->cls == DP_INSN_CALL_IND;
}

/* True for nop in all its encodings and lengths, endbr64 excluded: bytes that compilers pad with. */
bool dp_insn_is_nop(const struct dp_insn *in);

/* True for endbr64, where an indirect branch arrives on processors that watch them: it must stay where it is there. */
bool dp_insn_is_landing_pad(const struct dp_insn *in);

/*
 * False when nothing can keep it from being carried out: it works on registers, constants and the thread's own
 * stack. Branches, calls and system calls count as such: what faults then is what comes next. Where in doubt true.
 */
bool dp_insn_may_fault(const struct dp_insn *in);

/*
 * True when it leaves vector, mask, MMX and x87 registers and their control words alone (what code
 * compiled with -mgeneral-regs-only consists of). Where in doubt false: VEX-encoded ones all are.
 */
bool dp_insn_is_general(const struct dp_insn *in);

#endif
