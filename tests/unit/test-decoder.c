/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Golden test of the decoder: byte strings with the reading that the manuals give them. It needs no
 * other decoder; test-decoder-zydis.c compares with one.
 */
#include "arch/x86_64/insn.h"

#include <stdio.h>

struct expected {
	const char *name;
	const char *bytes; /* hexadecimal, with spaces */
	int result;        /* length, or a negative errno */
	enum dp_insn_class cls;
	const char *fields; /* "name=value ..." of fields that must have that value */
};

#define PLAIN DP_INSN_PLAIN

static const struct expected golden[] = {
    {"nop", "90", 1, PLAIN, "opcode=90 nop=1 falls=1"},
    {"xchg r8, rax is no nop", "41 90", 2, PLAIN, "rex=1 nop=0"},
    {"pause is no nop", "f3 90", 2, PLAIN, "nop=0 prefixes=4"},
    {"endbr64", "f3 0f 1e fa", 4, PLAIN, "nop=0 pad=1 falls=1"},
    {"endbr32, which is none here", "f3 0f 1e fb", 4, PLAIN, "nop=0 pad=0"},
    {"what a sealed endbr64 becomes", "0f 1f 40 d6", 4, PLAIN, "nop=1 pad=0"},
    {"nop of 2 bytes", "66 90", 2, PLAIN, "nop=1"},
    {"nop of 4 bytes", "0f 1f 40 00", 4, PLAIN, "nop=1 map=1 disp_size=1 disp_off=3"},
    {"nop of 9 bytes", "66 0f 1f 84 00 00 00 00 00", 9, PLAIN, "nop=1 sib=0 disp_size=4"},
    {"nop of 11 bytes", "66 66 2e 0f 1f 84 00 00 02 00 00", 11, PLAIN, "nop=1 disp=200"},
    {"endbr64 is no nop", "f3 0f 1e fa", 4, PLAIN, "nop=0 modrm=fa falls=1"},
    {"push rbp", "55", 1, PLAIN, "has_modrm=0"},
    {"mov rbp, rsp", "48 89 e5", 3, PLAIN, "rex=8 prefixes=100 modrm=e5 modrm_off=2"},
    {"sub rsp, imm8", "48 83 ec 08", 4, PLAIN, "imm=8 imm_size=1 imm_off=3"},
    {"sub rsp, imm32", "48 81 ec 88 00 00 00", 7, PLAIN, "imm=88 imm_size=4 imm_off=3"},
    {"66 shortens an immediate", "66 81 c0 34 12", 5, PLAIN, "imm=1234 imm_size=2"},
    {"REX.W wins over 66", "66 48 81 c0 78 56 34 12", 8, PLAIN, "imm=12345678 imm_size=4"},
    {"a REX that is not last is void", "48 66 81 c0 34 12", 6, PLAIN, "rex=0 imm_size=2"},
    {"the last of two REX counts", "48 41 50", 3, PLAIN, "rex=1 opcode_off=2"},
    {"mov rax, imm64", "48 b8 88 77 66 55 44 33 22 11", 10, PLAIN, "imm_size=8 imm_off=2"},
    {"mov al, moffs64", "a0 88 77 66 55 44 33 22 11", 9, PLAIN, "disp_size=8 disp_off=1"},
    {"mov eax, moffs32 with 67", "67 a1 44 33 22 11", 6, PLAIN, "disp_size=4 disp=11223344"},
    {"lea rax, [rip + 16]", "48 8d 05 10 00 00 00", 7, PLAIN, "rip_relative=1 disp=10 disp_off=3"},
    {"eip-relative", "67 8b 05 f0 ff ff ff", 7, PLAIN, "rip_relative=1 disp=-10"},
    {"absolute address by SIB", "8b 04 25 00 10 00 00", 7, PLAIN, "rip_relative=0 has_sib=1 sib=25 disp=1000"},
    {"SIB with base", "8b 44 98 fc", 4, PLAIN, "sib=98 disp=-4 disp_size=1"},
    {"rip-relative and immediate", "c7 05 04 00 00 00 01 00 00 00", 10, PLAIN, "rip_relative=1 disp_off=2 imm_off=6"},
    {"test has an immediate", "f7 c0 01 00 00 00", 6, PLAIN, "imm_size=4"},
    {"test r/m8", "f6 05 00 00 00 00 7f", 7, PLAIN, "rip_relative=1 imm_size=1 imm_off=6"},
    {"not has none", "f7 d0", 2, PLAIN, "imm_size=0"},
    {"enter", "c8 10 00 01", 4, PLAIN, "imm_size=2 imm2_size=1 imm=10"},
    {"extrq", "66 0f 78 c1 08 04", 6, PLAIN, "imm_size=1 imm2_size=1 imm_off=4"},
    {"insertq", "f2 0f 78 ca 08 04", 6, PLAIN, "imm_size=1 imm2_size=1"},
    {"vmread", "0f 78 c1", 3, DP_INSN_HLT, "imm_size=0"},
    {"jmp rel8", "eb fe", 2, DP_INSN_JMP_REL, "rel=-2 rel_size=1 falls=0 target=1000"},
    {"jmp rel32", "e9 fb 0f 00 00", 5, DP_INSN_JMP_REL, "rel_size=4 imm_size=0 target=2000"},
    {"66 does not shorten a branch", "66 e9 00 00 00 00", 6, DP_INSN_JMP_REL, "rel_size=4"},
    {"jz rel8", "74 10", 2, DP_INSN_JCC_REL, "falls=1 target=1012"},
    {"jz rel32", "0f 84 00 01 00 00", 6, DP_INSN_JCC_REL, "rel_off=2 target=1106"},
    {"jrcxz", "e3 05", 2, DP_INSN_LOOP, "rel=5 falls=1"},
    {"jecxz", "67 e3 05", 3, DP_INSN_LOOP, "rel_off=2 prefixes=80"},
    {"call rel32", "e8 00 00 00 00", 5, DP_INSN_CALL_REL, "falls=1 target=1005"},
    {"addr32 call", "67 e8 00 00 00 00", 6, DP_INSN_CALL_REL, "rel_off=2"},
    {"call [rip + 4]", "ff 15 04 00 00 00", 6, DP_INSN_CALL_IND, "rip_relative=1 falls=1"},
    {"notrack jmp rax", "3e ff e0", 3, DP_INSN_JMP_IND, "falls=0 rel_size=0"},
    {"push [rip]", "ff 35 00 00 00 00", 6, PLAIN, "rip_relative=1"},
    {"call far", "ff 18", 2, DP_INSN_FAR, "falls=1"},
    {"jmp far", "ff 28", 2, DP_INSN_FAR, "falls=0"},
    {"bnd ret", "f2 c3", 2, DP_INSN_RET, "falls=0"},
    {"ret imm16", "c2 08 00", 3, DP_INSN_RET, "imm=8 imm_size=2"},
    {"iretq", "48 cf", 2, DP_INSN_FAR, "falls=0"},
    {"int3", "cc", 1, DP_INSN_INT3, "falls=1"},
    {"int 0x80", "cd 80", 2, DP_INSN_INT, "imm_size=1"},
    {"int1", "f1", 1, DP_INSN_INT, ""},
    {"syscall", "0f 05", 2, DP_INSN_SYSCALL, "falls=1"},
    {"sysretq", "48 0f 07", 3, DP_INSN_SYSCALL, "falls=0"},
    {"vmcall", "0f 01 c1", 3, DP_INSN_SYSCALL, ""},
    {"hlt", "f4", 1, DP_INSN_HLT, ""},
    {"mov cr3, rax", "0f 22 d8", 3, DP_INSN_HLT, ""},
    {"lgdt", "0f 01 10", 3, DP_INSN_HLT, ""},
    {"sgdt", "0f 01 00", 3, PLAIN, ""},
    {"ud2", "0f 0b", 2, DP_INSN_UD, "falls=0"},
    {"ud1", "67 0f b9 40 02", 5, DP_INSN_UD, "disp=2"},
    {"xbegin", "c7 f8 10 00 00 00", 6, DP_INSN_XBEGIN, "rel=10 rel_size=4 imm_size=0 falls=1 target=1016"},
    {"xbegin rel16", "66 c7 f8 10 00", 5, DP_INSN_XBEGIN, "rel_size=2"},
    {"xabort", "c6 f8 01", 3, PLAIN, "imm_size=1"},
    {"lock cmpxchg", "f0 48 0f b1 0a", 5, PLAIN, "prefixes=108"},
    {"pshufb", "66 0f 38 00 c1", 5, PLAIN, "map=2 opcode=0 opcode_off=3"},
    {"pextrq", "66 48 0f 3a 16 c0 01", 7, PLAIN, "map=3 imm=1"},
    {"3DNow! pfadd", "0f 0f 4f 08 9e", 5, PLAIN, "enc=1 opcode=9e opcode_off=4 disp=8"},
    {"vzeroupper", "c5 f8 77", 3, PLAIN, "enc=2 map=1 has_modrm=0"},
    {"vpaddd ymm", "c5 fd fe 05 08 00 00 00", 8, PLAIN, "enc=2 rip_relative=1 disp=8 prefixes=1"},
    {"vex is not inverted", "c4 41 35 fe c7", 5, PLAIN, "rex=5 vvvv=9"},
    {"vpblendvb", "c4 e3 79 4c c2 30", 6, PLAIN, "map=3 imm_size=1 vvvv=0"},
    {"vpgatherdd", "c4 e2 6d 90 0c 87", 6, PLAIN, "has_sib=1 vvvv=2"},
    {"vpgatherdd with index = destination", "c4 e2 6d 90 04 87", -EINVAL, 0, ""},
    {"evex vmovups, disp8", "62 f1 7c 48 10 47 01", 7, PLAIN, "enc=3 disp_size=1 disp=1 map=1"},
    {"evex, rip-relative", "62 f1 7c 48 10 05 00 01 00 00", 10, PLAIN, "rip_relative=1 disp=100"},
    {"evex scatter", "62 f2 7d 49 a0 04 8f", 7, PLAIN, "has_sib=1 map=2"},
    {"evex scatter without mask", "62 f2 7d 48 a0 04 8f", -EINVAL, 0, ""},
    {"evex vaddph (map 5)", "62 f5 74 48 58 c2", 6, PLAIN, "map=5 vvvv=1"},
    {"evex vfmaddcph (map 6)", "62 f6 76 48 56 d3", 6, PLAIN, "map=6"},
    {"xop vpcmov", "8f e8 78 a2 c1 20", 6, PLAIN, "enc=4 map=8 imm_size=1"},
    {"xop bextr imm32", "8f ea 78 10 c1 04 03 00 00", 9, PLAIN, "map=a imm_size=4"},
    {"pop [rax] is no xop", "8f 00", 2, PLAIN, "enc=0 map=0"},
    {"fld", "d9 45 f8", 3, PLAIN, "disp=-8"},
    {"15 bytes", "66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", 15, PLAIN, "nop=1"},
    {"16 bytes", "66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", -EINVAL, 0, ""},
    {"16 bytes, immediate too far", "2e 2e 2e 2e 2e 2e 2e 2e 2e 2e 48 81 c0 01 00 00 00", -EINVAL, 0, ""},
    {"nothing", "", -ENODATA, 0, ""},
    {"only prefixes", "66 48", -ENODATA, 0, ""},
    {"truncated immediate", "48 81 ec 88 00 00", -ENODATA, 0, ""},
    {"truncated SIB", "8b 04", -ENODATA, 0, ""},
    {"truncated evex", "62 f1 7c", -ENODATA, 0, ""},
    {"push es", "06", -EINVAL, 0, ""},
    {"aam", "d4 0a", -EINVAL, 0, ""},
    {"salc", "d6", -EINVAL, 0, ""},
    {"jmp far direct", "ea 00 00 00 00 00 00", -EINVAL, 0, ""},
    {"lock without memory", "f0 01 c0", -EINVAL, 0, ""},
    {"lock on mov", "f0 89 00", -EINVAL, 0, ""},
    {"vex after 66", "66 c5 f8 77", -EINVAL, 0, ""},
    {"vex after REX", "40 c5 f8 77", -EINVAL, 0, ""},
    {"evex with reserved bit", "62 f1 78 48 10 07", -EINVAL, 0, ""},
    {"vex with unused vvvv set", "c5 f0 10 c1", -EINVAL, 0, ""},
    {"lea of a register", "8d c0", -EINVAL, 0, ""},
    {"ff /7", "ff f8", -EINVAL, 0, ""},
    {"mov cr1", "0f 20 c8", -EINVAL, 0, ""},
};

static size_t parse_hex(const char *s, u8 *out)
{
	size_t n = 0;
	unsigned int byte;
	int used;

	while (sscanf(s, "%x%n", &byte, &used) == 1) {
		out[n++] = (u8)byte;
		s += used;
	}
	return n;
}

/* The value of a field by name; also nop, pad (a landing pad), falls and target (for an instruction at 0x1000). */
static bool field(const struct dp_insn *in, const u8 *code, const char *name, s64 *value)
{
	u64 target = 0;

	/* clang-format off */
#define FIELD(f) if (!strcmp(name, #f)) { *value = (s64)in->f; return true; }
	FIELD(enc) FIELD(map) FIELD(opcode) FIELD(opcode_off) FIELD(prefixes) FIELD(rex) FIELD(vvvv) FIELD(has_modrm)
	FIELD(modrm) FIELD(modrm_off) FIELD(has_sib) FIELD(sib) FIELD(disp_size) FIELD(disp_off) FIELD(disp)
	FIELD(imm_size) FIELD(imm_off) FIELD(imm) FIELD(imm2_size) FIELD(rel_size) FIELD(rel_off) FIELD(rel)
	FIELD(rip_relative)
#undef FIELD
	    /* clang-format on */
	    if (!strcmp(name, "nop")) *value = dp_insn_is_nop(in);
	else if (!strcmp(name, "pad")) *value = dp_insn_is_landing_pad(in);
	else if (!strcmp(name, "falls")) *value = dp_insn_falls_through(in);
	else if (!strcmp(name, "target")) *value = dp_insn_target(in, 0x1000, &target) ? (s64)target : -1;
	else return false;
	return true;
}

static bool check_fields(const struct dp_insn *in, const u8 *code, const char *fields)
{
	char name[16], text[20];
	bool ok = true;
	int used;

	for (; sscanf(fields, " %15[a-z0-9_]=%19s%n", name, text, &used) == 2; fields += used) {
		bool negative = text[0] == '-';
		unsigned long long digits = 0;
		s64 want, got = 0;

		sscanf(text + negative, "%llx", &digits);
		want = negative ? -(s64)digits : (s64)digits;
		if (!field(in, code, name, &got) || got != want) {
			printf("# %s is %#llx, expected %#llx\n", name, (unsigned long long)got,
			       (unsigned long long)want);
			ok = false;
		}
	}
	return ok;
}

int main(void)
{
	int failed = 0;
	size_t i;

	for (i = 0; i < DP_ARRAY_SIZE(golden); i++) {
		const struct expected *e = &golden[i];
		struct dp_insn in;
		u8 code[32];
		size_t n = parse_hex(e->bytes, code);
		int rc = dp_insn_decode(&in, code, n);
		bool ok = rc == e->result;

		if (!ok)
			printf("# result %d, expected %d\n", rc, e->result);
		if (ok && rc > 0 && in.cls != e->cls) {
			printf("# class %u, expected %u\n", in.cls, e->cls);
			ok = false;
		}
		if (ok && rc > 0)
			ok = in.len == rc && check_fields(&in, code, e->fields);
		printf("%sok %zu - %s: %s\n", ok ? "" : "not ", i + 1, e->name, e->bytes);
		failed |= !ok;
	}
	printf("1..%zu\n", DP_ARRAY_SIZE(golden));
	return failed;
}
