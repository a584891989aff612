/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The legacy opcode maps (one byte, 0F, 0F38, 0F3A) and their groups, as they are in 64-bit mode.
 * Data only; an opcode without a row is invalid.
 */
#include "arch/x86_64/insn-table.h"

/* Forms for one mandatory prefix (_ none, M memory, R register, B both), and for all four. */
#define _ 0
#define M 1
#define R 2
#define B 3
#define FORMS(np, p66, pf3, pf2) ((np) | (p66) << 2 | (pf3) << 4 | (pf2) << 6)
#define ALL FORMS(B, B, B, B)

/* Groups of instructions that share an opcode; names tell the opcode. */
enum {
	SET_NONE,
	SET_80, /* 80, 81, 83 */
	SET_8C,
	SET_8E,
	SET_8F,
	SET_C6, /* C6, C7 */
	SET_D9,
	SET_DA,
	SET_DB,
	SET_DD,
	SET_DE,
	SET_DF,
	SET_F6, /* F6, F7 */
	SET_FE,
	SET_FF,
	SET_0F00,
	SET_0F01, /* and the next three, by mandatory prefix; so below */
	SET_0F20 = SET_0F01 + 4,
	SET_0F71, /* 0F71, 0F72 */
	SET_0F73,
	SET_0F78 = SET_0F73 + 4,
	SET_0FA6 = SET_0F78 + 4,
	SET_0FA7 = SET_0FA6 + 4,
	SET_0FAE = SET_0FA7 + 4,
	SET_0FBA = SET_0FAE + 4,
	SET_0FC7,
	SET_0F38D8 = SET_0FC7 + 4,
	SET_0F3AF0,
};

#define RM_ALL 0xff
#define RM_SAME(m)                                     \
	{                                              \
		(m), (m), (m), (m), (m), (m), (m), (m) \
	}

/* clang-format off */
const struct dp_op_set dp_op_sets[] = {
	/*                 memory  lock   register form: valid rm for reg 0, 1, 2 ... 7 */
	[SET_80]        = {0xff,   0x7f, RM_SAME(RM_ALL)},
	[SET_8C]        = {0x3f,   0x00, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00}},
	[SET_8E]        = {0x3d,   0x00, {0xff, 0x00, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00}},
	[SET_8F]        = {0x01,   0x00, {0xff}},
	[SET_C6]        = {0x01,   0x00, {0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01}}, /* 7: xabort, xbegin */
	[SET_D9]        = {0xfd,   0x00, {0xff, 0xff, 0x01, 0xff, 0x33, 0x7f, 0xff, 0xff}},
	[SET_DA]        = {0xff,   0x00, {0xff, 0xff, 0xff, 0xff, 0x00, 0x02, 0x00, 0x00}},
	[SET_DB]        = {0xaf,   0x00, {0xff, 0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0x00}},
	[SET_DD]        = {0xdf,   0x00, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00}},
	[SET_DE]        = {0xff,   0x00, {0xff, 0xff, 0xff, 0x02, 0xff, 0xff, 0xff, 0xff}},
	[SET_DF]        = {0xff,   0x00, {0xff, 0xff, 0xff, 0xff, 0x01, 0xff, 0xff, 0x00}},
	[SET_F6]        = {0xff,   0x0c, RM_SAME(RM_ALL)},
	[SET_FE]        = {0x03,   0x03, {0xff, 0xff}},
	[SET_FF]        = {0x7f,   0x03, {0xff, 0xff, 0xff, 0x00, 0xff, 0x00, 0xff, 0x00}},
	[SET_0F00]      = {0x3f,   0x00, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00}},
	[SET_0F01]      = {0xdf,   0x00, {0x3f, 0x8f, 0xf3, 0xff, 0xff, 0xc1, 0xff, 0xff}},
	[SET_0F01 + 1]  = {0xdf,   0x00, {0x00, 0xf0, 0x00, 0xff, 0xff, 0x00, 0xff, 0x33}},
	[SET_0F01 + 2]  = {0xff,   0x00, {0x00, 0x00, 0x00, 0xff, 0xff, 0xf5, 0xff, 0xf7}},
	[SET_0F01 + 3]  = {0xdf,   0x00, {0x00, 0x00, 0x00, 0xff, 0xff, 0x03, 0xff, 0xf3}},
	[SET_0F20]      = {0x00,   0x00, {0xff, 0x00, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00}},
	[SET_0F71]      = {0x00,   0x00, {0x00, 0x00, 0xff, 0x00, 0xff, 0x00, 0xff, 0x00}},
	[SET_0F73]      = {0x00,   0x00, {0x00, 0x00, 0xff, 0x00, 0x00, 0x00, 0xff, 0x00}},
	[SET_0F73 + 1]  = {0x00,   0x00, {0x00, 0x00, 0xff, 0xff, 0x00, 0x00, 0xff, 0xff}},
	[SET_0F78]      = {0xff,   0x00, RM_SAME(RM_ALL)}, /* vmread */
	[SET_0F78 + 1]  = {0x00,   0x00, {0xff}},          /* extrq */
	[SET_0F78 + 3]  = {0x00,   0x00, RM_SAME(RM_ALL)}, /* insertq */
	[SET_0FA6 + 2]  = {0x00,   0x00, {0x01, 0x01, 0x01}},
	[SET_0FA7]      = {0x00,   0x00, {0x01}},
	[SET_0FA7 + 1]  = {0x00,   0x00, {0x01}},
	[SET_0FA7 + 2]  = {0x00,   0x00, {0x01, 0x01, 0x01, 0x01, 0x01, 0x01}},
	[SET_0FAE]      = {0xff,   0x00, {0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff}},
	[SET_0FAE + 1]  = {0xc0,   0x00, {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x00}},
	[SET_0FAE + 2]  = {0x50,   0x00, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00}},
	[SET_0FAE + 3]  = {0x00,   0x00, {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0x00}},
	[SET_0FBA]      = {0xf0,   0xe0, {0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff}},
	[SET_0FC7]      = {0xfa,   0x02, {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff}},
	[SET_0FC7 + 1]  = {0x42,   0x02, {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff}},
	[SET_0FC7 + 2]  = {0x42,   0x02, {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff}},
	[SET_0FC7 + 3]  = {0x02,   0x02, {0x00}},
	[SET_0F38D8]    = {0x0f,   0x00, {0x00}},
	[SET_0F3AF0]    = {0x00,   0x00, {0x01}},
};

/* Rows of the maps. */
#define PLAIN(imm)       {ALL, IMM_##imm, DP_INSN_PLAIN, SET_NONE, 0}
#define OTHER(c, imm)    {ALL, IMM_##imm, DP_INSN_##c, SET_NONE, 0}
#define MODRM(imm)       {ALL, IMM_##imm, DP_INSN_PLAIN, SET_NONE, OP_MODRM}
#define LOCKED(imm)      {ALL, IMM_##imm, DP_INSN_PLAIN, SET_NONE, OP_MODRM | OP_LOCK}
#define GROUP(g, imm)    {ALL, IMM_##imm, DP_INSN_PLAIN, SET_##g, OP_MODRM}
#define GROUP_C(g, imm)  {ALL, IMM_##imm, DP_INSN_PLAIN, SET_##g, OP_MODRM | OP_CLASS}
#define GROUP4(g, imm)   {ALL, IMM_##imm, DP_INSN_PLAIN, SET_##g, OP_MODRM | OP_SETS}
#define GROUP4_C(g, imm) {ALL, IMM_##imm, DP_INSN_PLAIN, SET_##g, OP_MODRM | OP_SETS | OP_CLASS}
#define MEM              {FORMS(M, M, M, M), IMM_NONE, DP_INSN_PLAIN, SET_NONE, OP_MODRM}
/* by mandatory prefix: none, 66, F3, F2 */
#define BY_PP(np, p66, pf3, pf2)   {FORMS(np, p66, pf3, pf2), IMM_NONE, DP_INSN_PLAIN, SET_NONE, OP_MODRM}
#define BY_PP_C(np, p66, pf3, pf2) {FORMS(np, p66, pf3, pf2), IMM_NONE, DP_INSN_PLAIN, SET_NONE, OP_MODRM | OP_CLASS}
#define BY_PP_I(np, p66, pf3, pf2) {FORMS(np, p66, pf3, pf2), IMM_8, DP_INSN_PLAIN, SET_NONE, OP_MODRM}
#define NEED_66          BY_PP(_, B, _, _)
#define NEED_66_I        BY_PP_I(_, B, _, _)

/* One table of eight rows for each of add, or, adc, sbb, and, sub, xor. */
#define ARITH(base) \
	[(base) ... (base) + 1] = LOCKED(NONE), \
	[(base) + 2 ... (base) + 3] = MODRM(NONE), \
	[(base) + 4] = PLAIN(8), \
	[(base) + 5] = PLAIN(Z)

const struct dp_op dp_ops_one[256] = {
	ARITH(0x00),
	ARITH(0x08),
	ARITH(0x10),
	ARITH(0x18),
	ARITH(0x20),
	ARITH(0x28),
	ARITH(0x30),
	[0x38 ... 0x3b] = MODRM(NONE),        /* cmp */
	[0x3c]          = PLAIN(8),
	[0x3d]          = PLAIN(Z),
	[0x50 ... 0x5f] = PLAIN(NONE),        /* push, pop */
	[0x63]          = MODRM(NONE),        /* movsxd */
	[0x68]          = PLAIN(Z),           /* push */
	[0x69]          = MODRM(Z),           /* imul */
	[0x6a]          = PLAIN(8),           /* push */
	[0x6b]          = MODRM(8),           /* imul */
	[0x6c ... 0x6f] = OTHER(HLT, NONE),   /* ins, outs */
	[0x70 ... 0x7f] = OTHER(JCC_REL, REL8),
	[0x80]          = GROUP(80, 8),       /* add ... cmp */
	[0x81]          = GROUP(80, Z),
	[0x83]          = GROUP(80, 8),
	[0x84 ... 0x85] = MODRM(NONE),        /* test */
	[0x86 ... 0x87] = LOCKED(NONE),       /* xchg */
	[0x88 ... 0x8b] = MODRM(NONE),        /* mov */
	[0x8c]          = GROUP(8C, NONE),    /* mov from a segment register */
	[0x8d]          = MEM,                /* lea */
	[0x8e]          = GROUP(8E, NONE),    /* mov to a segment register */
	[0x8f]          = GROUP(8F, NONE),    /* pop */
	[0x90 ... 0x99] = PLAIN(NONE),        /* nop, xchg, cbw, cwd */
	[0x9b ... 0x9f] = PLAIN(NONE),        /* fwait, pushf, popf, sahf, lahf */
	[0xa0 ... 0xa3] = PLAIN(MOFFS),       /* mov */
	[0xa4 ... 0xa7] = PLAIN(NONE),        /* movs, cmps */
	[0xa8]          = PLAIN(8),           /* test */
	[0xa9]          = PLAIN(Z),
	[0xaa ... 0xaf] = PLAIN(NONE),        /* stos, lods, scas */
	[0xb0 ... 0xb7] = PLAIN(8),           /* mov */
	[0xb8 ... 0xbf] = PLAIN(V),
	[0xc0 ... 0xc1] = MODRM(8),           /* rol ... sar */
	[0xc2]          = OTHER(RET, 16),
	[0xc3]          = OTHER(RET, NONE),
	[0xc6]          = GROUP(C6, 8),       /* mov, xabort */
	[0xc7]          = GROUP_C(C6, C7),    /* mov, xbegin */
	[0xc8]          = PLAIN(16_8),        /* enter */
	[0xc9]          = PLAIN(NONE),        /* leave */
	[0xca]          = OTHER(FAR, 16),     /* retf */
	[0xcb]          = OTHER(FAR, NONE),
	[0xcc]          = OTHER(INT3, NONE),
	[0xcd]          = OTHER(INT, 8),
	[0xcf]          = OTHER(FAR, NONE),   /* iret */
	[0xd0 ... 0xd3] = MODRM(NONE),        /* rol ... sar */
	[0xd7]          = PLAIN(NONE),        /* xlat */
	[0xd8]          = MODRM(NONE),        /* x87 */
	[0xd9]          = GROUP(D9, NONE),
	[0xda]          = GROUP(DA, NONE),
	[0xdb]          = GROUP(DB, NONE),
	[0xdc]          = MODRM(NONE),
	[0xdd]          = GROUP(DD, NONE),
	[0xde]          = GROUP(DE, NONE),
	[0xdf]          = GROUP(DF, NONE),
	[0xe0 ... 0xe3] = OTHER(LOOP, REL8),  /* loopne, loope, loop, jrcxz */
	[0xe4 ... 0xe7] = OTHER(HLT, 8),      /* in, out */
	[0xe8]          = OTHER(CALL_REL, REL32),
	[0xe9]          = OTHER(JMP_REL, REL32),
	[0xeb]          = OTHER(JMP_REL, REL8),
	[0xec ... 0xef] = OTHER(HLT, NONE),   /* in, out */
	[0xf1]          = OTHER(INT, NONE),   /* int1 */
	[0xf4]          = OTHER(HLT, NONE),
	[0xf5]          = PLAIN(NONE),        /* cmc */
	[0xf6]          = GROUP(F6, TEST8),   /* test, not, neg, mul, div */
	[0xf7]          = GROUP(F6, TESTZ),
	[0xf8 ... 0xf9] = PLAIN(NONE),        /* clc, stc */
	[0xfa ... 0xfb] = OTHER(HLT, NONE),   /* cli, sti */
	[0xfc ... 0xfd] = PLAIN(NONE),        /* cld, std */
	[0xfe]          = GROUP(FE, NONE),    /* inc, dec */
	[0xff]          = GROUP_C(FF, NONE),  /* inc, dec, call, jmp, push */
};

const struct dp_op dp_ops_0f[256] = {
	[0x00]          = GROUP_C(0F00, NONE),  /* sldt, str, lldt, ltr, verr, verw */
	[0x01]          = GROUP4_C(0F01, NONE), /* lgdt ... vmcall ... */
	[0x02 ... 0x03] = MODRM(NONE),          /* lar, lsl */
	[0x05]          = OTHER(SYSCALL, NONE),
	[0x06]          = OTHER(HLT, NONE),     /* clts */
	[0x07]          = OTHER(SYSCALL, NONE), /* sysret */
	[0x08 ... 0x09] = OTHER(HLT, NONE),     /* invd, wbinvd */
	[0x0b]          = OTHER(UD, NONE),      /* ud2 */
	[0x0d]          = MODRM(NONE),          /* prefetchw */
	[0x0e]          = PLAIN(NONE),          /* femms */
	[0x10 ... 0x11] = BY_PP(B, B, B, B),    /* movups */
	[0x12]          = BY_PP(B, M, B, B),    /* movlps */
	[0x13]          = BY_PP(M, M, _, _),
	[0x14 ... 0x15] = BY_PP(B, B, _, _),    /* unpcklps */
	[0x16]          = BY_PP(B, M, B, _),    /* movhps */
	[0x17]          = BY_PP(M, M, _, _),
	[0x18 ... 0x1f] = MODRM(NONE),          /* prefetch, nop, endbr64, bnd* (no-operations today) */
	[0x20]          = {ALL, IMM_NONE, DP_INSN_HLT, SET_0F20, OP_MODRM | OP_MODREG | OP_CR},
	[0x21]          = {ALL, IMM_NONE, DP_INSN_HLT, SET_NONE, OP_MODRM | OP_MODREG | OP_REG8},
	[0x22]          = {ALL, IMM_NONE, DP_INSN_HLT, SET_0F20, OP_MODRM | OP_MODREG | OP_CR},
	[0x23]          = {ALL, IMM_NONE, DP_INSN_HLT, SET_NONE, OP_MODRM | OP_MODREG | OP_REG8},
	[0x28 ... 0x29] = BY_PP(B, B, _, _),    /* movaps */
	[0x2a]          = BY_PP(B, B, B, B),    /* cvtpi2ps */
	[0x2b]          = BY_PP(M, M, M, M),    /* movntps */
	[0x2c ... 0x2d] = BY_PP(B, B, B, B),    /* cvttps2pi */
	[0x2e ... 0x2f] = BY_PP(B, B, _, _),    /* ucomiss, comiss */
	[0x30]          = OTHER(HLT, NONE),     /* wrmsr */
	[0x31]          = PLAIN(NONE),          /* rdtsc */
	[0x32]          = OTHER(HLT, NONE),     /* rdmsr */
	[0x33]          = PLAIN(NONE),          /* rdpmc: the kernel may permit it */
	[0x34 ... 0x35] = OTHER(SYSCALL, NONE), /* sysenter, sysexit */
	[0x37]          = {FORMS(B, _, _, _), IMM_NONE, DP_INSN_SYSCALL, SET_NONE, 0}, /* getsec */
	[0x40 ... 0x4f] = MODRM(NONE),          /* cmov */
	[0x50]          = BY_PP(R, R, _, _),    /* movmskps */
	[0x51]          = BY_PP(B, B, B, B),    /* sqrtps */
	[0x52 ... 0x53] = BY_PP(B, _, B, _),    /* rsqrtps, rcpps */
	[0x54 ... 0x57] = BY_PP(B, B, _, _),    /* andps ... xorps */
	[0x58 ... 0x5a] = BY_PP(B, B, B, B),    /* addps, mulps, cvtps2pd */
	[0x5b]          = BY_PP(B, B, B, _),    /* cvtdq2ps */
	[0x5c ... 0x5f] = BY_PP(B, B, B, B),    /* subps, minps, divps, maxps */
	[0x60 ... 0x6b] = BY_PP(B, B, _, _),    /* punpcklbw ... packssdw */
	[0x6c ... 0x6d] = NEED_66,              /* punpcklqdq */
	[0x6e]          = BY_PP(B, B, _, _),    /* movd */
	[0x6f]          = BY_PP(B, B, B, _),    /* movq, movdqa */
	[0x70]          = BY_PP_I(B, B, B, B),  /* pshufw */
	[0x71 ... 0x72] = {FORMS(R, R, _, _), IMM_8, DP_INSN_PLAIN, SET_0F71, OP_MODRM},
	[0x73]          = {FORMS(R, R, _, _), IMM_8, DP_INSN_PLAIN, SET_0F73, OP_MODRM | OP_SETS},
	[0x74 ... 0x76] = BY_PP(B, B, _, _),    /* pcmpeqb */
	[0x77]          = {FORMS(B, _, _, _), IMM_NONE, DP_INSN_PLAIN, SET_NONE, 0}, /* emms */
	[0x78]          = GROUP4_C(0F78, EXTRQ),
	[0x79]          = BY_PP_C(B, R, _, R),  /* vmwrite, extrq, insertq */
	[0x7c ... 0x7d] = BY_PP(_, B, _, B),    /* haddpd */
	[0x7e ... 0x7f] = BY_PP(B, B, B, _),    /* movd, movq */
	[0x80 ... 0x8f] = OTHER(JCC_REL, REL32),
	[0x90 ... 0x9f] = MODRM(NONE),          /* setcc */
	[0xa0 ... 0xa2] = PLAIN(NONE),          /* push fs, pop fs, cpuid */
	[0xa3]          = MODRM(NONE),          /* bt */
	[0xa4]          = MODRM(8),             /* shld */
	[0xa5]          = MODRM(NONE),
	[0xa6]          = GROUP4(0FA6, NONE),   /* montmul */
	[0xa7]          = GROUP4(0FA7, NONE),   /* xstore */
	[0xa8 ... 0xa9] = PLAIN(NONE),          /* push gs, pop gs */
	[0xaa]          = OTHER(SYSCALL, NONE), /* rsm */
	[0xab]          = LOCKED(NONE),         /* bts */
	[0xac]          = MODRM(8),             /* shrd */
	[0xad]          = MODRM(NONE),
	[0xae]          = GROUP4_C(0FAE, NONE), /* fxsave ... mfence ... wrfsbase */
	[0xaf]          = MODRM(NONE),          /* imul */
	[0xb0 ... 0xb1] = LOCKED(NONE),         /* cmpxchg */
	[0xb2]          = MEM,                  /* lss */
	[0xb3]          = LOCKED(NONE),         /* btr */
	[0xb4 ... 0xb5] = MEM,                  /* lfs, lgs */
	[0xb6 ... 0xb7] = MODRM(NONE),          /* movzx */
	[0xb8]          = BY_PP(_, _, B, _),    /* popcnt */
	[0xb9]          = {ALL, IMM_NONE, DP_INSN_UD, SET_NONE, OP_MODRM}, /* ud1 */
	[0xba]          = GROUP(0FBA, 8),       /* bt, bts, btr, btc */
	[0xbb]          = LOCKED(NONE),         /* btc */
	[0xbc ... 0xbf] = MODRM(NONE),          /* bsf, bsr, movsx */
	[0xc0 ... 0xc1] = LOCKED(NONE),         /* xadd */
	[0xc2]          = BY_PP_I(B, B, B, B),  /* cmpps */
	[0xc3]          = BY_PP(M, _, _, _),    /* movnti */
	[0xc4]          = BY_PP_I(B, B, _, _),  /* pinsrw */
	[0xc5]          = BY_PP_I(R, R, _, _),  /* pextrw */
	[0xc6]          = BY_PP_I(B, B, _, _),  /* shufps */
	[0xc7]          = GROUP4_C(0FC7, NONE), /* cmpxchg8b ... rdrand */
	[0xc8 ... 0xcf] = PLAIN(NONE),          /* bswap */
	[0xd0]          = BY_PP(_, B, _, B),    /* addsubpd */
	[0xd1 ... 0xd5] = BY_PP(B, B, _, _),    /* psrlw ... pmullw */
	[0xd6]          = BY_PP(_, B, R, R),    /* movq */
	[0xd7]          = BY_PP(R, R, _, _),    /* pmovmskb */
	[0xd8 ... 0xe5] = BY_PP(B, B, _, _),    /* psubusb ... pmulhw */
	[0xe6]          = BY_PP(_, B, B, B),    /* cvttpd2dq */
	[0xe7]          = BY_PP(M, M, _, _),    /* movntq */
	[0xe8 ... 0xef] = BY_PP(B, B, _, _),    /* psubsb ... pxor */
	[0xf0]          = BY_PP(_, _, _, M),    /* lddqu */
	[0xf1 ... 0xf6] = BY_PP(B, B, _, _),    /* psllw ... psadbw */
	[0xf7]          = BY_PP(R, R, _, _),    /* maskmovq */
	[0xf8 ... 0xfe] = BY_PP(B, B, _, _),    /* psubb ... paddd */
	[0xff]          = {ALL, IMM_NONE, DP_INSN_UD, SET_NONE, OP_MODRM}, /* ud0 */
};

const struct dp_op dp_ops_0f38[256] = {
	[0x00 ... 0x0b] = BY_PP(B, B, _, _),    /* pshufb ... pmulhrsw */
	[0x10]          = NEED_66,              /* pblendvb */
	[0x14 ... 0x15] = NEED_66,              /* blendvps */
	[0x17]          = NEED_66,              /* ptest */
	[0x1c ... 0x1e] = BY_PP(B, B, _, _),    /* pabsb */
	[0x20 ... 0x25] = NEED_66,              /* pmovsxbw */
	[0x28 ... 0x29] = NEED_66,              /* pmuldq */
	[0x2a]          = BY_PP(_, M, _, _),    /* movntdqa */
	[0x2b]          = NEED_66,              /* packusdw */
	[0x30 ... 0x35] = NEED_66,              /* pmovzxbw */
	[0x37 ... 0x41] = NEED_66,              /* pcmpgtq ... phminposuw */
	[0x80 ... 0x82] = {FORMS(_, M, _, _), IMM_NONE, DP_INSN_HLT, SET_NONE, OP_MODRM}, /* invept */
	[0xc8 ... 0xcd] = BY_PP(B, _, _, _),    /* sha1nexte */
	[0xcf]          = NEED_66,              /* gf2p8mulb */
	[0xd8]          = {FORMS(_, _, M, _), IMM_NONE, DP_INSN_PLAIN, SET_0F38D8, OP_MODRM}, /* aesencwide128kl */
	[0xdb]          = NEED_66,              /* aesimc */
	[0xdc]          = BY_PP_C(_, B, B, _),  /* aesenc, aesenc128kl, loadiwkey */
	[0xdd ... 0xdf] = BY_PP(_, B, M, _),    /* aesenclast, aesdec128kl */
	[0xf0 ... 0xf1] = BY_PP(M, M, _, B),    /* movbe, crc32 */
	[0xf5]          = {FORMS(_, M, _, _), IMM_NONE, DP_INSN_HLT, SET_NONE, OP_MODRM}, /* wruss */
	[0xf6]          = BY_PP(M, B, B, _),    /* wrss, adcx, adox */
	[0xf8]          = BY_PP_C(_, M, M, M),  /* movdir64b, enqcmds, enqcmd */
	[0xf9]          = BY_PP(M, _, _, _),    /* movdiri */
	[0xfa ... 0xfb] = BY_PP(_, _, R, _),    /* encodekey */
};

const struct dp_op dp_ops_0f3a[256] = {
	[0x08 ... 0x0e] = NEED_66_I,            /* roundps ... pblendw */
	[0x0f]          = BY_PP_I(B, B, _, _),  /* palignr */
	[0x14 ... 0x17] = NEED_66_I,            /* pextrb */
	[0x20 ... 0x22] = NEED_66_I,            /* pinsrb */
	[0x40 ... 0x42] = NEED_66_I,            /* dpps */
	[0x44]          = NEED_66_I,            /* pclmulqdq */
	[0x60 ... 0x63] = NEED_66_I,            /* pcmpestrm */
	[0xcc]          = BY_PP_I(B, _, _, _),  /* sha1rnds4 */
	[0xce ... 0xcf] = NEED_66_I,            /* gf2p8affineqb */
	[0xdf]          = NEED_66_I,            /* aeskeygenassist */
	[0xf0]          = {FORMS(_, _, R, _), IMM_8, DP_INSN_HLT, SET_0F3AF0, OP_MODRM}, /* hreset */
};

const u16 dp_prefix_bits[256] = {
	[0x26] = DP_PFX_SEG,
	[0x2e] = DP_PFX_SEG,
	[0x36] = DP_PFX_SEG,
	[0x3e] = DP_PFX_SEG,
	[0x40 ... 0x4f] = DP_PFX_REX,
	[0x64] = DP_PFX_FS,
	[0x65] = DP_PFX_GS,
	[0x66] = DP_PFX_66,
	[0x67] = DP_PFX_67,
	[0xf0] = DP_PFX_LOCK,
	[0xf2] = DP_PFX_F2,
	[0xf3] = DP_PFX_F3,
};

#define FORM_BIT(n) (1 << ((n) & 7))
const u8 dp_3dnow_bits[256 / 8] = {
	[0x0c / 8] = FORM_BIT(0x0c) | FORM_BIT(0x0d),
	[0x1c / 8] = FORM_BIT(0x1c) | FORM_BIT(0x1d),
	[0x8a / 8] = FORM_BIT(0x8a) | FORM_BIT(0x8e),
	[0x90 / 8] = FORM_BIT(0x90) | FORM_BIT(0x94) | FORM_BIT(0x96) | FORM_BIT(0x97),
	[0x9a / 8] = FORM_BIT(0x9a) | FORM_BIT(0x9e),
	[0xa0 / 8] = FORM_BIT(0xa0) | FORM_BIT(0xa4) | FORM_BIT(0xa6) | FORM_BIT(0xa7),
	[0xaa / 8] = FORM_BIT(0xaa) | FORM_BIT(0xae),
	[0xb0 / 8] = FORM_BIT(0xb0) | FORM_BIT(0xb4) | FORM_BIT(0xb6) | FORM_BIT(0xb7),
	[0xbb / 8] = FORM_BIT(0xbb) | FORM_BIT(0xbf),
};

const struct dp_form dp_forms[] = {
#define DP_FORM(name, ml, rl, mr, rr, imm, flags) \
	[DP_FORM_##name] = {ml, rl, mr, rr, imm, flags},
#include "arch/x86_64/insn-forms.def"
#undef DP_FORM
};
/* clang-format on */
