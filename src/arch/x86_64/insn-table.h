/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The property tables of the decoder: what their columns mean. Private to insn*.c. The tables hold
 * facts only; everything that acts on them is in insn.c and insn-class.c.
 */
#ifndef DP_INSN_TABLE_H
#define DP_INSN_TABLE_H

#include "arch/x86_64/insn.h"

/* Mandatory prefix, in the numbering that VEX and EVEX use. */
enum {
	DP_PP_NONE,
	DP_PP_66,
	DP_PP_F3,
	DP_PP_F2,
};

/* What follows the opcode (and modrm, displacement) in the legacy maps. */
enum dp_imm_kind {
	IMM_NONE,
	IMM_8,
	IMM_16,
	IMM_Z,     /* 2 bytes with 66, else 4 */
	IMM_V,     /* 2 with 66, 8 with REX.W, else 4 */
	IMM_16_8,  /* enter */
	IMM_EXTRQ, /* two bytes with 66 or F2, else nothing */
	IMM_MOFFS, /* an address: 8 bytes, 4 with 67 */
	IMM_REL8,
	IMM_REL32,
	IMM_TEST8, /* IMM_8 for modrm.reg 0 and 1 (test), else nothing */
	IMM_TESTZ, /* IMM_Z for modrm.reg 0 and 1 (test), else nothing */
	IMM_C7,    /* a relative branch for xbegin (C7 F8), else IMM_Z */
};

#define OP_MODRM 0x01  /* a modrm byte follows */
#define OP_LOCK 0x02   /* may be locked when its operand is in memory */
#define OP_SETS 0x04   /* four sets, one for each mandatory prefix; else one set for all */
#define OP_MODREG 0x08 /* modrm.mod is ignored: always the register form (mov cr, mov dr) */
#define OP_CLASS 0x10  /* the class depends on modrm or prefix: dp_insn_class_of() */
#define OP_REG8 0x20   /* only eight registers: REX.R is invalid */
#define OP_CR 0x40     /* control registers: REX.R is valid for cr8 only */

/* One opcode of a legacy map. */
struct dp_op {
	u8 forms; /* two bits for each mandatory prefix: 1 = memory operand valid, 2 = register; 0 =
		     invalid */
	u8 imm;   /* enum dp_imm_kind */
	u8 cls;   /* enum dp_insn_class */
	u8 set;   /* index into dp_op_sets when modrm.reg selects among instructions, else 0 */
	u8 flags; /* OP_* */
};

/* What a value of modrm selects in a group of instructions that share an opcode. */
struct dp_op_set {
	u8 mem;    /* bit r: modrm.reg r is valid with a memory operand */
	u8 lock;   /* bit r: ... and may be locked */
	u8 reg[8]; /* for each modrm.reg in the register form, a bit for each valid modrm.rm */
};

extern const struct dp_op dp_ops_one[256];
extern const struct dp_op dp_ops_0f[256];
extern const struct dp_op dp_ops_0f38[256];
extern const struct dp_op dp_ops_0f3a[256];
extern const struct dp_op_set dp_op_sets[];
extern const u16 dp_prefix_bits[256];   /* DP_PFX_* of a prefix byte, 0 for others */
extern const u8 dp_3dnow_bits[256 / 8]; /* bit n: 3DNow! suffix n exists */

/* Flags of an operand form of VEX, EVEX and XOP instructions. */
#define F_VVVV 0x00001     /* vvvv names an operand; otherwise it must be unused */
#define F_VVVV_REG 0x00002 /* ... but only when the other operand is a register */
#define F_KVVVV 0x00004    /* vvvv names one of eight registers */
#define F_KDST 0x00008     /* modrm.reg names one of eight registers: no R, no R' */
#define F_GDST 0x00010     /* modrm.reg names a general register: no R' */
#define F_TMM 0x00020      /* three tile registers, all different */
#define F_SIB 0x00040      /* memory operand must have a SIB byte */
#define F_VSIB 0x00080     /* its index is a vector register: V' extends it */
#define F_DISTINCT 0x00100 /* gather: destination, index and mask must differ */
#define F_COMPLEX 0x00200  /* complex product: the destination must differ from both sources */
#define F_BCAST 0x00400    /* EVEX.b valid with memory */
#define F_ROUND 0x00800    /* EVEX.b valid with registers; the length bits are free then */
#define F_MASK 0x01000     /* EVEX.aaa may select a mask */
#define F_MASK_REQ 0x02000 /* ... and must */
#define F_ZERO_MEM 0x04000 /* EVEX.z valid with memory */
#define F_ZERO_REG 0x08000 /* EVEX.z valid with registers */
#define F_NOMODRM 0x10000  /* no modrm byte */
#define F_RM0 0x20000      /* register form: modrm.rm must be 0 */
#define F_SHIFT_DQ 0x40000 /* modrm.reg 3 and 7 (whole-register shifts) have the form Vi_88 */

struct dp_form {
	u8 mem_len, reg_len;   /* valid vector lengths: 1 = 128 (and scalar), 2 = 256, 4 = 512 */
	u8 mem_regs, reg_regs; /* valid values of modrm.reg */
	u8 imm;                /* immediate bytes */
	u32 flags;             /* F_* */
};

enum {
	DP_FORM_INVALID,
#define DP_FORM(name, ml, rl, mr, rr, imm, flags) DP_FORM_##name,
#include "arch/x86_64/insn-forms.def"
#undef DP_FORM
};

extern const struct dp_form dp_forms[];

/* Forms by opcode, mandatory prefix and W. */
extern const u8 dp_vex_0f[256][8], dp_vex_0f38[256][8], dp_vex_0f3a[256][8];
extern const u8 dp_evex_0f[256][8], dp_evex_0f38[256][8], dp_evex_0f3a[256][8];
extern const u8 dp_evex_5[256][8], dp_evex_6[256][8];
extern const u8 dp_xop8[256][2], dp_xop9[256][2], dp_xopa[256][2];

/* The class of an opcode that is marked OP_CLASS; modrm and prefixes are known. */
enum dp_insn_class dp_insn_class_of(const struct dp_insn *in, unsigned int pp);

#endif
