/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The judge's side of decoder-judge.h: what Zydis says, put into the decoder's own terms. It shares
 * no table with the decoder.
 */
#include "decoder-judge.h"

#include <Zydis/Zydis.h>
#include <stdio.h>

#define M(name) case ZYDIS_MNEMONIC_##name

static const ZydisDecoder *decoder(void)
{
	static ZydisDecoder d;
	static bool ready;

	if (!ready) {
		ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		ready = true;
	}
	return &d;
}

static enum dp_insn_class branch_class(const ZydisDecodedInstruction *z)
{
	bool direct = z->raw.imm[0].is_relative;

	if (z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return DP_INSN_FAR;
	switch (z->mnemonic) {
		M(CALL) : return direct ? DP_INSN_CALL_REL : DP_INSN_CALL_IND;
		M(JMP) : return direct ? DP_INSN_JMP_REL : DP_INSN_JMP_IND;
		M(LOOP) : M(LOOPE) : M(LOOPNE) : M(JCXZ) : M(JECXZ) : M(JRCXZ) : return DP_INSN_LOOP;
	default:
		return DP_INSN_JCC_REL;
	}
}

/* The class by mnemonic: lists written from the manuals' descriptions, not from the decoder. */
static enum dp_insn_class judge_class(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
		M(RET) : return z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ? DP_INSN_FAR : DP_INSN_RET;
		M(IRET) : M(IRETD) : M(IRETQ) : M(UIRET) : return DP_INSN_FAR;
		M(SYSCALL)
		    : M(SYSENTER)
		    : M(SYSRET)
		    : M(SYSEXIT)
		    : M(RSM)
		    : M(GETSEC)
		    : M(VMCALL)
		    : M(VMLAUNCH)
		    : M(VMRESUME)
		    : M(VMFUNC)
		    : M(VMMCALL)
		    : M(VMRUN)
		    : M(SKINIT)
		    : M(ENCLS)
		    : M(ENCLU) : M(ENCLV) : M(TDCALL) : M(SEAMCALL) : M(SEAMRET) : M(SEAMOPS) : return DP_INSN_SYSCALL;
		M(XBEGIN) : return DP_INSN_XBEGIN;
		M(XABORT) : return DP_INSN_PLAIN;
		M(INT) : M(INT1) : return DP_INSN_INT;
		M(INT3) : return DP_INSN_INT3;
		M(UD0) : M(UD1) : M(UD2) : return DP_INSN_UD;
		M(HLT)
		    : M(IN)
		    : M(OUT)
		    : M(INSB)
		    : M(INSW)
		    : M(INSD)
		    : M(OUTSB)
		    : M(OUTSW)
		    : M(OUTSD)
		    : M(CLI)
		    : M(STI)
		    : M(CLTS)
		    : M(INVD)
		    : M(WBINVD)
		    : M(INVLPG)
		    : M(INVLPGA)
		    : M(INVLPGB)
		    : M(TLBSYNC)
		    : M(LGDT)
		    : M(LIDT)
		    : M(LLDT)
		    : M(LTR)
		    : M(LMSW)
		    : M(WRMSR)
		    : M(RDMSR)
		    : M(SWAPGS)
		    : M(XSETBV)
		    : M(MONITOR)
		    : M(MWAIT)
		    : M(CLAC)
		    : M(STAC)
		    : M(VMXON)
		    : M(VMXOFF)
		    : M(VMPTRLD)
		    : M(VMPTRST)
		    : M(VMCLEAR)
		    : M(VMREAD)
		    : M(VMWRITE)
		    : M(VMLOAD)
		    : M(VMSAVE)
		    : M(STGI)
		    : M(CLGI)
		    : M(INVEPT)
		    : M(INVVPID)
		    : M(INVPCID)
		    : M(XSAVES)
		    : M(XSAVES64)
		    : M(XRSTORS)
		    : M(XRSTORS64)
		    : M(SETSSBSY)
		    : M(CLRSSBSY)
		    : M(WRUSSD)
		    : M(WRUSSQ)
		    : M(PCONFIG)
		    : M(HRESET)
		    : M(LOADIWKEY)
		    : M(ENQCMDS) : M(RMPADJUST) : M(RMPUPDATE) : M(PSMASH) : M(PVALIDATE) : return DP_INSN_HLT;
		M(MOV) : return z->opcode_map == ZYDIS_OPCODE_MAP_0F ? DP_INSN_HLT : DP_INSN_PLAIN;
	default:
		if (z->meta.branch_type != ZYDIS_BRANCH_TYPE_NONE)
			return branch_class(z);
		return DP_INSN_PLAIN;
	}
}

static int judge_encoding(const ZydisDecodedInstruction *z)
{
	switch (z->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_LEGACY:
		return DP_ENC_LEGACY;
	case ZYDIS_INSTRUCTION_ENCODING_3DNOW:
		return DP_ENC_3DNOW;
	case ZYDIS_INSTRUCTION_ENCODING_XOP:
		return DP_ENC_XOP;
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
		return DP_ENC_VEX;
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		return DP_ENC_EVEX;
	default:
		return -1;
	}
}

static int judge_map(const ZydisDecodedInstruction *z)
{
	switch (z->opcode_map) {
	case ZYDIS_OPCODE_MAP_0F0F:
		return DP_MAP_0F;
	case ZYDIS_OPCODE_MAP_XOP8:
		return DP_MAP_XOP8;
	case ZYDIS_OPCODE_MAP_XOP9:
		return DP_MAP_XOP9;
	case ZYDIS_OPCODE_MAP_XOPA:
		return DP_MAP_XOPA;
	default:
		return (int)z->opcode_map;
	}
}

static u64 low_bytes(s64 v, unsigned int size)
{
	return size >= 8 ? (u64)v : (u64)v & ((1ull << (8 * size)) - 1);
}

static const char *compare_imm(const struct dp_insn *in, const ZydisDecodedInstruction *z)
{
	unsigned int size = z->raw.imm[0].size / 8;
	unsigned int size2 = z->raw.imm[1].size / 8;

	if (z->raw.imm[0].is_relative) {
		if (in->rel_size != size || in->imm_size)
			return "branch displacement size";
		if (in->rel_off != z->raw.imm[0].offset)
			return "branch displacement offset";
		return in->rel != z->raw.imm[0].value.s ? "branch displacement" : NULL;
	}
	if (in->rel_size)
		return "not a relative branch";
	if (in->imm_size != size || in->imm2_size != size2)
		return "immediate size";
	if (size && in->imm_off != z->raw.imm[0].offset)
		return "immediate offset";
	if (size2 && in->imm_off + in->imm_size != z->raw.imm[1].offset)
		return "second immediate's offset";
	if (low_bytes(in->imm, size) != low_bytes((s64)z->raw.imm[0].value.u, size))
		return "immediate";
	return NULL;
}

static const char *compare_modrm(const struct dp_insn *in, const ZydisDecodedInstruction *z)
{
	bool has = z->attributes & ZYDIS_ATTRIB_HAS_MODRM;
	bool sib = z->attributes & ZYDIS_ATTRIB_HAS_SIB;
	bool rip = (z->attributes & ZYDIS_ATTRIB_IS_RELATIVE) && !z->raw.imm[0].is_relative;

	if (in->has_modrm != has || in->has_sib != sib)
		return "presence of modrm or SIB";
	if (has && (in->modrm_off != z->raw.modrm.offset ||
		    in->modrm != (z->raw.modrm.mod << 6 | z->raw.modrm.reg << 3 | z->raw.modrm.rm)))
		return "modrm";
	if (sib && (z->raw.sib.offset != in->modrm_off + 1 ||
		    in->sib != (z->raw.sib.scale << 6 | z->raw.sib.index << 3 | z->raw.sib.base)))
		return "SIB";
	if (in->disp_size != z->raw.disp.size / 8)
		return "displacement size";
	if (in->disp_size && (in->disp_off != z->raw.disp.offset || in->disp != z->raw.disp.value))
		return "displacement";
	return in->rip_relative != rip ? "rip-relative" : NULL;
}

static unsigned int judge_rex(const ZydisDecodedInstruction *z)
{
	switch (z->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
		return (unsigned int)(z->raw.vex.W << 3 | !z->raw.vex.R << 2 | !z->raw.vex.X << 1 | !z->raw.vex.B);
	case ZYDIS_INSTRUCTION_ENCODING_XOP:
		return (unsigned int)(z->raw.xop.W << 3 | !z->raw.xop.R << 2 | !z->raw.xop.X << 1 | !z->raw.xop.B);
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		return (unsigned int)(z->raw.evex.W << 3 | !z->raw.evex.R << 2 | !z->raw.evex.X << 1 | !z->raw.evex.B);
	default:
		return (unsigned int)(z->raw.rex.W << 3 | z->raw.rex.R << 2 | z->raw.rex.X << 1 | z->raw.rex.B);
	}
}

static unsigned int judge_vvvv(const ZydisDecodedInstruction *z)
{
	switch (z->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
		return ~z->raw.vex.vvvv & 15u;
	case ZYDIS_INSTRUCTION_ENCODING_XOP:
		return ~z->raw.xop.vvvv & 15u;
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		return ~z->raw.evex.vvvv & 15u;
	default:
		return 0;
	}
}

static unsigned int judge_prefixes(const ZydisDecodedInstruction *z)
{
	static const u16 implied[4] = {0, DP_PFX_66, DP_PFX_F3, DP_PFX_F2};
	unsigned int bits = 0, i;

	for (i = 0; i < z->raw.prefix_count; i++) {
		switch (z->raw.prefixes[i].value) {
		case 0x66:
			bits |= DP_PFX_66;
			break;
		case 0x67:
			bits |= DP_PFX_67;
			break;
		case 0xf0:
			bits |= DP_PFX_LOCK;
			break;
		case 0xf2:
			bits |= DP_PFX_F2;
			break;
		case 0xf3:
			bits |= DP_PFX_F3;
			break;
		case 0x64:
			bits |= DP_PFX_FS;
			break;
		case 0x65:
			bits |= DP_PFX_GS;
			break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
			bits |= DP_PFX_SEG;
			break;
		}
	}
	if (z->attributes & ZYDIS_ATTRIB_HAS_REX)
		bits |= DP_PFX_REX;
	if (z->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX)
		bits |= implied[z->raw.vex.pp];
	else if (z->encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX)
		bits |= implied[z->raw.evex.pp];
	return bits;
}

static const char *compare(const struct dp_insn *in, const ZydisDecodedInstruction *z)
{
	const char *what;

	if (in->len != z->length)
		return "length";
	if (in->cls != judge_class(z))
		return "class";
	if (in->enc != judge_encoding(z) || in->map != judge_map(z) || in->opcode != z->opcode)
		return "encoding, map or opcode";
	if (in->prefixes != judge_prefixes(z))
		return "prefixes";
	if (in->rex != judge_rex(z) || in->vvvv != judge_vvvv(z))
		return "rex or vvvv";
	what = compare_modrm(in, z);
	return what ? what : compare_imm(in, z);
}

const char *const judge_category_names[JUDGE_NCATEGORIES] = {
    [JUDGE_KNC] = "rejected: Knights Corner only (MVEX and its VEX instructions)",
    [JUDGE_MPX] = "accepted: MPX, where the judge wants MPX's own restrictions (0F1A, 0F1B)",
};
u64 judge_category_counts[JUDGE_NCATEGORIES];

static bool is_knights_corner(const ZydisDecodedInstruction *z)
{
	return z->encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX || z->meta.isa_ext == ZYDIS_ISA_EXT_KNC ||
	       z->meta.isa_ext == ZYDIS_ISA_EXT_KNCE || z->meta.isa_ext == ZYDIS_ISA_EXT_KNCV;
}

static bool is_general_register(ZydisRegister r)
{
	switch (ZydisRegisterGetClass(r)) {
	case ZYDIS_REGCLASS_X87:
	case ZYDIS_REGCLASS_MMX:
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
	case ZYDIS_REGCLASS_TMM:
	case ZYDIS_REGCLASS_MASK:
		return false;
	default:
		return r != ZYDIS_REGISTER_MXCSR && r != ZYDIS_REGISTER_X87CONTROL && r != ZYDIS_REGISTER_X87STATUS &&
		       r != ZYDIS_REGISTER_X87TAG;
	}
}

/* What the decoder says to leave vector registers alone has no such operand, not even a hidden one. */
static const char *compare_general(const struct dp_insn *in, const ZydisDecodedInstruction *z,
				   const ZydisDecoderContext *c)
{
	ZydisDecodedOperand v[ZYDIS_MAX_OPERAND_COUNT];

	if (!dp_insn_is_general(in))
		return NULL;
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeOperands(decoder(), c, z, v, z->operand_count)))
		return "general: the judge knows no operands";
	for (unsigned int i = 0; i < z->operand_count; i++) {
		if (v[i].type == ZYDIS_OPERAND_TYPE_REGISTER && !is_general_register(v[i].reg.value))
			return "not general: a register";
		if (v[i].type == ZYDIS_OPERAND_TYPE_MEMORY && !is_general_register(v[i].mem.index))
			return "not general: an index";
	}
	return z->fpu_flags && (z->fpu_flags->modified | z->fpu_flags->set_0 | z->fpu_flags->set_1)
		   ? "not general: x87 flags"
		   : NULL;
}

/* What the decoder says cannot fault touches no memory but the stack's, divides nothing and needs no privilege. */
static const char *compare_fault(const struct dp_insn *in, const ZydisDecodedInstruction *z,
				 const ZydisDecoderContext *c)
{
	ZydisDecodedOperand v[ZYDIS_MAX_OPERAND_COUNT];

	if (in->cls != DP_INSN_PLAIN || dp_insn_may_fault(in))
		return NULL;
	if (z->mnemonic == ZYDIS_MNEMONIC_DIV || z->mnemonic == ZYDIS_MNEMONIC_IDIV ||
	    z->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED)
		return "may fault: what it does";
	if (z->meta.category == ZYDIS_CATEGORY_NOP || z->meta.category == ZYDIS_CATEGORY_WIDENOP ||
	    z->meta.category == ZYDIS_CATEGORY_PREFETCH || z->mnemonic == ZYDIS_MNEMONIC_PREFETCHWT1)
		return NULL;
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeOperands(decoder(), c, z, v, z->operand_count)))
		return "may fault: the judge knows no operands";
	for (unsigned int i = 0; i < z->operand_count; i++)
		if (v[i].type == ZYDIS_OPERAND_TYPE_MEMORY && v[i].mem.type == ZYDIS_MEMOP_TYPE_MEM &&
		    (v[i].mem.index != ZYDIS_REGISTER_NONE || v[i].mem.base != ZYDIS_REGISTER_RSP))
			return "may fault: memory";
	return NULL;
}

const char *judge_decode(const u8 *code, size_t avail, unsigned int *len)
{
	ZydisDecodedInstruction z;
	ZydisDecoderContext c;
	struct dp_insn in;
	const char *wrong;
	int rc = dp_insn_decode(&in, code, avail);
	ZyanStatus status = ZydisDecoderDecodeInstruction(decoder(), &c, code, avail, &z);

	*len = rc > 0 ? (unsigned int)rc : 0;
	if (!ZYAN_SUCCESS(status)) {
		if (rc <= 0)
			return NULL;
		if (in.enc == DP_ENC_LEGACY && in.map == DP_MAP_0F && (in.opcode & 0xfe) == 0x1a) {
			judge_category_counts[JUDGE_MPX]++;
			return NULL;
		}
		return "accepted, the judge rejects";
	}
	if (rc > 0) {
		wrong = compare(&in, &z);
		if (!wrong)
			wrong = compare_general(&in, &z, &c);
		return wrong ? wrong : compare_fault(&in, &z, &c);
	}
	if (is_knights_corner(&z)) {
		judge_category_counts[JUDGE_KNC]++;
		return NULL;
	}
	return "rejected, the judge accepts";
}

void judge_print(const char *what, const u8 *code, size_t avail)
{
	ZydisDisassembledInstruction d;
	struct dp_insn in;
	int rc = dp_insn_decode(&in, code, avail);
	size_t i;

	printf("# %s:", what);
	for (i = 0; i < avail && i < 16; i++)
		printf(" %02x", code[i]);
	printf("\n#   decoder: %d class %u opcode %02x map %u imm %u rel %u disp %u\n", rc, in.cls, in.opcode, in.map,
	       in.imm_size, in.rel_size, in.disp_size);
	if (ZYAN_SUCCESS(ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, 0x1000, code, avail, &d)))
		printf("#   judge: %u %s\n", d.info.length, d.text);
	else
		printf("#   judge: invalid\n");
}

static u64 next_random(u64 *state)
{
	u64 x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

void judge_random(u64 *state, u8 code[16])
{
	static const u8 prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x36, 0x3e,
				      0x26, 0x64, 0x65, 0x40, 0x48, 0x4f, 0x41, 0x44};
	static const u8 evex_maps[] = {1, 2, 3, 5, 6, 2, 1, 3};
	u64 r = next_random(state);
	unsigned int n = 0, i;

	for (i = 0; i < 16; i += 8) {
		u64 bytes = next_random(state);

		memcpy(code + i, &bytes, 8);
	}
	while ((r & 3) == 0 && n < 5) {
		code[n++] = prefixes[r >> 2 & 15];
		r = next_random(state);
	}
	r >>= 2;
	switch (r & 15) {
	case 0 ... 3:
		code[n++] = 0x0f;
		break;
	case 4:
		code[n++] = 0x0f;
		code[n++] = r & 16 ? 0x38 : 0x3a;
		break;
	case 5:
		code[n++] = 0x0f;
		code[n++] = 0x0f;
		break;
	case 6:
		code[n++] = 0xc5;
		break;
	case 7 ... 8:
		code[n++] = 0xc4;
		code[n] = (u8)((code[n] & 0xe0) | (1 + (r >> 4) % 3));
		if (r & 0x100)
			code[n + 1] |= 0x78;
		break;
	case 9 ... 12:
		code[n++] = 0x62;
		code[n] = (u8)((code[n] & 0xf0) | evex_maps[r >> 4 & 7]);
		code[n + 1] |= r & 0x100 ? 0x7c : 0x04;
		if (r & 0x200)
			code[n + 2] &= 0x6f;
		if (r & 0x400)
			code[n + 2] |= 0x08;
		if (r & 0x800)
			code[n + 2] &= 0xf8;
		break;
	case 13:
		code[n++] = 0x8f;
		code[n] = (u8)((code[n] & 0xe0) | (8 + (r >> 4) % 3));
		code[n + 1] &= r & 0x100 ? 0xfb : 0xf8;
		break;
	default:
		break;
	}
}
