/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The bytes that the writer and the relocator emit, form by form, against bytes worked out by hand.
 * Nothing is executed here; test-relocate-cpu asks the processor what the copies do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/x86_64/relocate.h"

/* The usual place of the original and of the copy: the copy lies 0x100000 bytes further up. */
#define FROM 0x555500001000ull
#define AT 0x555500101000ull
#define FAR_AT 0x666600002000ull /* out of reach */

/* call over one byte; mov dword [rsp], low half; mov dword [rsp+4], 0x5555 */
#define RETURN_TO(low) "e801000000 cc c70424" low "c744240455550000"
#define RETURN_TO_SHORT(low) "e801000000 cc 48c70424" low /* mov qword [rsp], sign-extended */
#define UNPUSH "488d642408"                               /* lea rsp, [rsp+8] */

struct golden {
	const char *name;
	const char *code; /* hexadecimal; blanks are ignored */
	const char *want; /* likewise; empty: an error */
	enum dp_code error;
	u64 from, at; /* 0: FROM and AT */
};

#define SAME(name, code)         \
	{                        \
		name, code, code \
	}
#define REFUSED(name, code)                  \
	{                                    \
		name, code, "", E_RELOC_INSN \
	}

static const struct golden cases[] = {
    /* Copies */
    SAME("mov rax, rdi", "4889f8"),
    SAME("push rbp", "55"),
    SAME("leave", "c9"),
    SAME("enter 16, 1", "c8100001"),
    SAME("pop [rsp]", "8f0424"),
    SAME("push [rsp+8]", "ff742408"),
    SAME("ret", "c3"),
    SAME("rep ret", "f3c3"),
    SAME("bnd ret", "f2c3"),
    SAME("ret 16", "c21000"),
    SAME("endbr64", "f30f1efa"),
    SAME("mov rax, fs:[0x28]", "64488b042528000000"),
    SAME("mov rax, [moffs64]", "48a18877665544332211"),
    SAME("rep movsb", "f3a4"),
    SAME("int 0x80", "cd80"),
    SAME("jmp rax", "ffe0"),
    SAME("jmp rsp", "ffe4"),
    SAME("notrack jmp rax", "3effe0"),
    SAME("jmp [rsp+8]", "ff642408"),
    SAME("jmp [rax+rcx*8]", "ff24c8"),
    SAME("lock inc dword [rax]", "f0ff00"),

    /* Operands relative to the instruction */
    {"mov rax, [rip+0x10]", "488b05 10000000", "488b05 1000f0ff"},
    {"cmp dword [rip+0x20], 5", "833d 20000000 05", "833d 2000f0ff 05"},
    {"mov dword [rip+8], 0x11223344", "c705 08000000 44332211", "c705 0800f0ff 44332211"},
    {"test word [rip-4], 0x1234", "66f705 fcffffff 3412", "66f705 fcffefff 3412"},
    {"lea rdi, [rip+0x100]", "488d3d 00010000", "488d3d 0001f0ff"},
    {"push [rip+0x100]", "ff35 00010000", "ff35 0001f0ff"},
    {"pop [rip+0x100]", "8f05 00010000", "8f05 0001f0ff"},
    {"jmp [rip+0x100]", "ff25 00010000", "ff25 0001f0ff"},
    {"bnd jmp [rip+0x100]", "f2ff25 00010000", "f2ff25 0001f0ff"},
    {"vmovaps ymm1, [rip+0x40]", "c5fc280d 40000000", "c5fc280d 4000f0ff"},
    {"vpshufd xmm0, [rip+0x40], 27", "c5f97005 40000000 1b", "c5f97005 4000f0ff 1b"},
    {"vmovdqu64 zmm0, [rip+0x40]", "62f1fe486f05 40000000", "62f1fe486f05 4000f0ff"},
    {"mov rax, fs:[rip+0x10]", "64488b05 10000000", "64488b05 1000f0ff"},
    {"[rip] out of reach", "488b05 10000000", "", E_RELOC_RANGE, FROM, FAR_AT},
    {"mov eax, [eip+0x10]", "678b05 10000000", "678b05 1000f0ff"},
    {"[eip]: every distance reaches", "678b05 10000000", "678b05 10f0ffff", 0, FROM, FAR_AT},
    {"[rip] furthest down", "488d05 00000000", "488d05 00000080", 0, 0x100000000, 0x180000000},
    {"[rip] too far down", "488d05 00000000", "", E_RELOC_RANGE, 0x100000000, 0x180000001},
    {"[rip] furthest up", "488d05 00000000", "488d05 ffffff7f", 0, 0x100000000, 0x80000001},
    {"[rip] too far up", "488d05 00000000", "", E_RELOC_RANGE, 0x100000000, 0x80000000},

    /* Jumps: always the near form */
    {"jmp short", "eb10", "e9 0d00f0ff"},
    {"jmp short to itself", "ebfe", "e9 fbffefff"},
    {"jmp near", "e9 00100000", "e9 0010f0ff"},
    {"bnd jmp near", "f2e9 00100000", "f2e9 0010f0ff"},
    {"je short", "7410", "0f84 0c00f0ff"},
    {"jg near", "0f8f 00020000", "0f8f 0002f0ff"},
    {"jne short, hinted", "3e7510", "0f85 0d00f0ff"},
    {"bnd jne short", "f27510", "f20f85 0c00f0ff"},
    {"jmp near, padded to 15 bytes", "2e2e2e2e2e2e2e2e2e2e e9 00100000", "e9 0a10f0ff"},
    {"jmp out of reach", "eb10", "", E_RELOC_RANGE, FROM, FAR_AT},
    {"jcc out of reach", "7410", "", E_RELOC_RANGE, FROM, FAR_AT},
    {"loop", "e2f0", "e202 eb05 e9 e9ffefff"},
    {"loope", "e1f0", "e102 eb05 e9 e9ffefff"},
    {"loopne", "e0f0", "e002 eb05 e9 e9ffefff"},
    {"jrcxz", "e310", "e302 eb05 e9 0900f0ff"},
    {"jecxz", "67e310", "67e302 eb05 e9 0900f0ff"},
    {"loop out of reach", "e210", "", E_RELOC_RANGE, FROM, FAR_AT},
    {"xbegin", "c7f8 00100000", "c7f8 0010f0ff"},

    /* Direct calls: put the original return address in place, jump */
    {"call", "e8 00100000", RETURN_TO("05100000") "e9 eb0ff0ff"},
    {"call to the next instruction", "e8 00000000", RETURN_TO("05100000") "e9 ebffefff"},
    {"call, low address", "e8 00100000", RETURN_TO_SHORT("05104000") "e9 f20ff0ff", 0, 0x401000, 0x501000},
    {"call, kernel address", "e8 00100000", RETURN_TO_SHORT("05100081") "e9 f20f00c1", 0, 0xffffffff81001000,
     0xffffffffc0001000},
    {"call, bit 31 of the address set", "e8 00100000", "e801000000 cc c7042405100080 c744240400000000 e9 eb0ff0ff", 0,
     0x80001000, 0x80101000},
    {"data16 rex.W call", "666648e8 00100000", RETURN_TO("08100000") "e9 ee0ff0ff"},
    {"addr32 call", "67e8 00100000", RETURN_TO("06100000") "e9 ec0ff0ff"},
    {"bnd call", "f2e8 00100000", RETURN_TO("06100000") "f2e9 eb0ff0ff"},
    {"call out of reach", "e8 00100000", "", E_RELOC_RANGE, FROM, FAR_AT},

    /* Indirect calls through a register */
    {"call rax", "ffd0", RETURN_TO("02100000") "ffe0"},
    {"call r12", "41ffd4", RETURN_TO("03100000") "41ffe4"},
    {"notrack call rax", "3effd0", RETURN_TO("03100000") "3effe0"},
    REFUSED("call rsp", "ffd4"),
    REFUSED("rex.W call rsp", "48ffd4"),

    /* Indirect calls through memory: read the operand once, so that it may fault; then as above */
    {"call [rax]", "ff10", "ff30" UNPUSH RETURN_TO("02100000") "ff20"},
    {"call [rax], low address", "ff10", "ff30" UNPUSH RETURN_TO_SHORT("02104000") "ff20", 0, 0x401000, 0x501000},
    {"call [rax+0x18]", "ff5018", "ff7018" UNPUSH RETURN_TO("03100000") "ff6018"},
    {"call gs:[rax+0x10]", "65ff5010", "65ff7010" UNPUSH RETURN_TO("04100000") "65ff6010"},
    {"call fs:[0x10]", "64ff142510000000", "64ff342510000000" UNPUSH RETURN_TO("08100000") "64ff242510000000"},
    {"call [eax+8]", "67ff5008", "67ff7008" UNPUSH RETURN_TO("04100000") "67ff6008"},
    {"call [rip+0x100]", "ff15 00010000", "ff35 0001f0ff" UNPUSH RETURN_TO("06100000") "ff25 e000f0ff"},
    {"data16 rex.W call [rip+0x100]", "6648ff15 00010000",
     "6648ff35 0001f0ff" UNPUSH RETURN_TO("08100000") "6648ff25 de00f0ff"},
    {"call [rip] out of reach", "ff15 00010000", "", E_RELOC_RANGE, FROM, FAR_AT},
    {"call [rsp]", "ff1424", "ff3424" UNPUSH RETURN_TO("03100000") "ff642408"},
    {"call [rsp+8]", "ff542408", "ff742408" UNPUSH RETURN_TO("04100000") "ff642410"},
    {"call [rsp+0x77]", "ff542477", "ff742477" UNPUSH RETURN_TO("04100000") "ff64247f"},
    {"call [rsp+0x78]", "ff542478", "ff742478" UNPUSH RETURN_TO("04100000") "ffa42480000000"},
    {"call [rsp+0x1000]", "ff942400100000", "ffb42400100000" UNPUSH RETURN_TO("07100000") "ffa42408100000"},
    {"call [rsp+rcx*8]", "ff14cc", "ff34cc" UNPUSH RETURN_TO("03100000") "ff64cc08"},
    {"call [esp+8]", "67ff542408", "67ff742408" UNPUSH RETURN_TO("05100000") "67ff642410"},
    {"call [rsp-16]", "ff5424f0", "ff7424f0" UNPUSH RETURN_TO("04100000") "ff6424f8"},
    {"call [r12]", "41ff1424", "41ff3424" UNPUSH RETURN_TO("04100000") "41ff2424"},
    {"call [rax] of 11 bytes", "2e2e2e2e2e2e2e2e2eff10",
     "2e2e2e2e2e2e2e2e2eff30" UNPUSH RETURN_TO("0b100000") "2e2e2e2e2e2e2e2e2eff20"},
    REFUSED("call [rax] of 12 bytes", "2e2e2e2e2e2e2e2e2e2eff10"),
    REFUSED("call [rsp] of 11 bytes", "2e2e2e2e2e2e2e2eff1424"),
    REFUSED("call [rsp-8]", "ff5424f8"),
    REFUSED("call [rsp-8], long form", "ff9424f8ffffff"),
    REFUSED("call [rsp-15]", "ff5424f1"),
    REFUSED("call [rsp-1]", "ff5424ff"),
    REFUSED("call [rsp+0x7fffffff]", "ff9424ffffff7f"),

    /* The kernel leaves the next address in rcx */
    {"syscall", "0f05", "0f05 48b9 0210000055550000"},

    REFUSED("int3", "cc"),
    REFUSED("int 3", "cd03"),
    REFUSED("int1", "f1"),
    REFUSED("ud2", "0f0b"),
    REFUSED("ud1", "0fb9c0"),
    REFUSED("hlt", "f4"),
    REFUSED("jmp far [rax]", "ff28"),
    REFUSED("call far [rax]", "ff18"),
    REFUSED("retf", "cb"),
    REFUSED("iretq", "48cf"),
    REFUSED("sysret", "480f07"),
    REFUSED("sysenter", "0f34"),
    REFUSED("vmcall", "0f01c1"),
    REFUSED("enclu", "0f01d7"),
    REFUSED("uiret", "f30f01ec"),
    REFUSED("data16 call rax", "66ffd0"),
};

static unsigned int tests;
static bool failed;

static void result(bool ok, const char *name)
{
	printf("%sok %u - %s\n", ok ? "" : "not ", ++tests, name);
	failed |= !ok;
}

static size_t unhex(u8 *out, size_t cap, const char *hex)
{
	size_t n = 0;
	unsigned int v;

	while (*hex) {
		if (*hex == ' ') {
			hex++;
			continue;
		}
		if (n == cap || sscanf(hex, "%2x", &v) != 1)
			exit(2);
		out[n++] = (u8)v;
		hex += 2;
	}
	return n;
}

static void show(const char *what, const u8 *bytes, size_t n)
{
	printf("#   %s", what);
	for (size_t i = 0; i < n; i++)
		printf(" %02x", bytes[i]);
	printf("\n");
}

static bool decode(struct dp_insn *in, u8 code[DP_INSN_MAX], const char *hex)
{
	size_t n = unhex(code, DP_INSN_MAX, hex);

	return dp_insn_decode(in, code, n) == (int)n;
}

static void check(const struct golden *g)
{
	u8 code[DP_INSN_MAX], want[64], buf[64];
	size_t n = unhex(want, sizeof(want), g->want);
	u64 from = g->from ? g->from : FROM;
	struct dp_error err = {0};
	struct dp_emit e;
	struct dp_insn in;
	int rc;

	if (!decode(&in, code, g->code)) {
		printf("# the decoder does not accept %s\n", g->code);
		result(false, g->name);
		return;
	}
	dp_emit_init(&e, buf, sizeof(buf), g->at ? g->at : AT);
	rc = dp_relocate(&e, &in, code, from, &err);
	if (g->error) {
		result(rc == -dp_error_info(g->error)->number && err.code == g->error && e.len == 0 &&
			   dp_can_relocate(&in, code) == (g->error == E_RELOC_RANGE),
		       g->name);
		return;
	}
	if (rc || e.len != n || memcmp(buf, want, n)) {
		show("have", buf, e.len);
		show("want", want, n);
	}
	result(!rc && e.len == n && !memcmp(buf, want, n) && n <= DP_RELOC_MAX && !e.overflow &&
		   dp_can_relocate(&in, code),
	       g->name);
}

/* Processors disagree on what these mean: refused, or not even decoded, but never copied. */
static void check_operand_size(void)
{
	static const char *const codes[] = {"66e900100000", "66e800100000", "660f8400100000", "66eb10",
					    "667410",       "66e210",       "66c7f800100000"};
	bool ok = true;

	for (size_t i = 0; i < DP_ARRAY_SIZE(codes); i++) {
		u8 code[DP_INSN_MAX];
		struct dp_insn in;
		size_t n = unhex(code, sizeof(code), codes[i]);

		ok &= dp_insn_decode(&in, code, n) < 0 || !dp_can_relocate(&in, code);
	}
	result(ok, "branches with an operand-size prefix are not copied");
}

/* The second copy is aimed from where it lies, and an error leaves the first one as it was. */
static void check_sequence(void)
{
	static const char want[] = "4889f8 488b05 0d00f0ff";
	u8 code[DP_INSN_MAX], buf[64], bytes[64];
	size_t n = unhex(bytes, sizeof(bytes), want);
	struct dp_insn in;
	struct dp_emit e;
	bool ok;

	dp_emit_init(&e, buf, sizeof(buf), AT);
	ok = decode(&in, code, "4889f8") && !dp_relocate(&e, &in, code, FROM, NULL);
	ok &= decode(&in, code, "488b0510000000") && !dp_relocate(&e, &in, code, FROM, NULL);
	result(ok && e.len == n && !memcmp(buf, bytes, n), "one copy behind another");

	ok = decode(&in, code, "ff15 00010000") && dp_relocate(&e, &in, code, FROM + (1ull << 40), NULL) < 0;
	result(ok && e.len == n && !memcmp(buf, bytes, n) && !e.overflow, "an error adds nothing");
}

static void check_overflow(void)
{
	u8 code[DP_INSN_MAX], buf[16];
	struct dp_insn in;
	struct dp_emit e;
	bool ok = true;

	decode(&in, code, "e8 00100000");
	for (size_t cap = 0; cap < 26; cap++) {
		u8 *small = malloc(cap ? cap : 1); /* its own block: a sanitizer sees a byte too many */

		dp_emit_init(&e, small, cap, AT);
		ok &= !dp_relocate(&e, &in, code, FROM, NULL) && e.overflow && e.len <= cap;
		free(small);
	}
	result(ok, "a buffer too small by any number of bytes is reported");

	dp_emit_init(&e, buf, 6, AT);
	dp_emit_u32(&e, 0x44332211);
	dp_emit_u64(&e, 1);
	dp_emit_u8(&e, 0x55);
	result(e.overflow && e.len == 4 && dp_emit_here(&e) == AT + 4, "nothing is added behind what was dropped");
}

static void check_emit(void)
{
	static const char want[] = "11 22334455 66778899aabbccdd 0102 e9 ecffffff";
	u8 buf[64], bytes[64];
	size_t n = unhex(bytes, sizeof(bytes), want);
	struct dp_error err = {0};
	struct dp_emit e;
	bool ok;

	dp_emit_init(&e, buf, sizeof(buf), FROM);
	dp_emit_u8(&e, 0x11);
	dp_emit_u32(&e, 0x55443322);
	dp_emit_u64(&e, 0xddccbbaa99887766);
	dp_emit_bytes(&e, "\1\2", 2);
	ok = dp_emit_here(&e) == FROM + 15 && !dp_emit_jmp(&e, FROM, &err);
	result(ok && e.len == n && !memcmp(buf, bytes, n), "the writer's primitives");

	ok = dp_emit_jmp(&e, FROM + (1ull << 31) + n + 5, &err) == -ERANGE && err.code == E_RELOC_RANGE && e.len == n;
	ok &= !dp_emit_jmp(&e, FROM + (1ull << 31) + n + 4, &err);
	ok &= dp_emit_jmp(&e, FROM - (1ull << 31) + n + 9, &err) == -ERANGE;
	ok &= !dp_emit_jmp(&e, FROM - (1ull << 31) + n + 10, &err);
	result(ok && e.len == n + 10, "the reach of a jump, to the byte");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < DP_ARRAY_SIZE(cases); i++)
		check(&cases[i]);
	check_operand_size();
	check_sequence();
	check_overflow();
	check_emit();
	printf("1..%u\n", tests);
	return failed;
}
