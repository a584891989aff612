/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The verifier: programs that must not pass, each for its own reason, and near misses that must. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

static struct dp_field fields[4] = {
    {.name = "a", .type = DP_FIELD_U64, .size = 8, .offset = 8},
    {.name = "b", .type = DP_FIELD_U32, .size = 4, .offset = 16},
    {.name = "c", .type = DP_FIELD_STRING, .size = 4, .offset = 20},
    {.name = "d", .type = DP_FIELD_X16, .size = 2, .offset = 24, .count = 4},
};

/* A record of 32 bytes with a fault mask and four fields, 2 locals, 1 global. */
static struct dp_program usual(void)
{
	struct dp_program p = {.jmpmax = 10, .logmax = 64, .nlocals = 2, .nglobals = 1};

	p.layout = (struct dp_layout){.nfields = 4, .fixed_size = 32, .has_faultmask = 1, .fields = fields};
	return p;
}

static void check(const struct dp_program *p, bool in_return, enum dp_code want, const char *name)
{
	struct dp_error err = {0};
	int ret = dp_program_verify(p, in_return, &err);

	if (!ok(want ? ret < 0 && err.code == want : !ret, "%s: %s", name, dp_error_info(want)->name))
		printf("# %d %s: %s\n", ret, dp_error_info(err.code)->name, err.detail);
}

static const struct {
	const char *text;
	bool in_return;
	enum dp_code want;
} programs[] = {
    {"exit", 0, DP_OK},
    {"abort", 0, DP_OK},
    {"nop", 0, E_PROG_END},
    {"push d, 1; jz L; exit; L: nop", 0, E_PROG_END},
    {"L: jmp L", 0, DP_OK},
    {"push d, 1; L: jnz L", 0, E_PROG_END},

    {"push lv, 1; exit", 0, DP_OK},
    {"push lv, 2; exit", 0, E_PROG_VAR},
    {"inc gv, 0; exit", 0, DP_OK},
    {"inc gv, 1; exit", 0, E_PROG_VAR},

    {"push d, 1; pop r, ax; exit", 0, DP_OK},
    {"push d, 1; pop r, cs; exit", 0, E_PROG_REG},
    {"push d, 1; pop r, orig_ax; exit", 0, E_PROG_REG},

    {"push d, 1; pbl 1; pbl 64; exit", 0, DP_OK},
    {"push d, 1; pbl 0; exit", 0, E_PROG_OPERAND},
    {"push d, 1; pzr 65; exit", 0, E_PROG_OPERAND},
    {"push d, 1; shl 63; exit", 0, DP_OK},
    {"push d, 1; shl 64; exit", 0, E_PROG_OPERAND},
    {"push d, 1; bits 63, 64; exit", 0, DP_OK},
    {"push d, 1; bits 0, 0; exit", 0, E_PROG_OPERAND},
    {"push d, 1; bits 0, 65; exit", 0, E_PROG_OPERAND},
    {"push d, 1; bits 64, 1; exit", 0, E_PROG_OPERAND},
    {"push d, 1; str 512; exit", 0, DP_OK},
    {"push d, 1; str 513; exit", 0, E_PROG_OPERAND},
    {"push d, 1; str 0; exit", 0, E_PROG_OPERAND},

    {"add; exit", 0, E_PROG_STACK},
    {"push d, 1; add; exit", 0, E_PROG_STACK},
    {"push d, 1; dup 2; add; exit", 0, DP_OK},
    {"push d, 1; dup 0; ros 1; exit", 0, E_PROG_STACK},
    {"push d, 1; ros 2; exit", 0, E_PROG_STACK},
    {"push d, 1; push d, 2; ros 2; exit", 0, DP_OK},
    {"push d, 1; push d, 2; dup; ros 200; exit", 0, DP_OK},
    {"push d, 1; jz L; push d, 2; L: add; exit", 0, DP_OK},
    {"push d, 1; jz L; ros 1; L: add; exit", 0, E_PROG_STACK},
    {"exit; add; exit", 0, DP_OK},
    {"push d, 5; L: push d, 1; xchg; loop L; ros 6; exit", 0, DP_OK},
    {"push d, 5; L: ros 1; push d, 1; loop L; add; exit", 0, E_PROG_STACK},
    {"jz L; L: exit", 0, E_PROG_STACK},
    {"need; exit", 0, E_PROG_STACK},

    {"recm 32; logr64 ax, @8; exit", 0, DP_OK},
    {"rec 32; logr64 ax, @8; exit", 0, E_PROG_RECORD},
    {"recm 31; exit", 0, E_PROG_RECORD},
    {"recm 40; exit", 0, E_PROG_RECORD},
    {"logr64 ax, @8; exit", 0, E_PROG_RECORD},
    {"push d, 1; jz L; recm 32; L: logr8 ax, @8; exit", 0, E_PROG_RECORD},
    {"push d, 1; jz L; L: recm 32; logr8 ax, @8; exit", 0, DP_OK},
    {"push d, 1; jz A; recm 32; L: logr8 ax, @8; exit; A: jmp L", 0, E_PROG_RECORD},
    {"push d, 1; jz A; recm 32; L: logr8 ax, @8; exit; A: recm 32; jmp L", 0, DP_OK},
    {"recm 32; logr64 ax, @24; exit", 0, DP_OK},
    {"recm 32; logr64 ax, @25; exit", 0, E_PROG_RECORD},
    {"recm 32; logr32 ax, @28; exit", 0, DP_OK},
    {"recm 32; logr32 ax, @29; exit", 0, E_PROG_RECORD},
    {"recm 32; logr16 ax, @30; exit", 0, DP_OK},
    {"recm 32; logr16 ax, @31; exit", 0, E_PROG_RECORD},
    {"recm 32; logr8 ax, @31; exit", 0, DP_OK},
    {"recm 32; logr8 ax, @32; exit", 0, E_PROG_RECORD},
    {"recm 32; logr8 ax, @7; exit", 0, E_PROG_RECORD},
    {"recm 32; logr8 ax, @65535; exit", 0, E_PROG_RECORD},
    {"recm 32; logm ax, +0, 24, @8, #0; exit", 0, DP_OK},
    {"recm 32; logm ax, +0, 25, @8, #0; exit", 0, E_PROG_RECORD},
    {"recm 32; logm ax, +0, 0, @8, #0; exit", 0, E_PROG_OPERAND},
    {"recm 32; logm ax, +0, 60000, @8, #0; exit", 0, E_PROG_OPERAND},
    {"recm 32; logm ax, +0, 8, @8, #3; exit", 0, DP_OK},
    {"recm 32; logm ax, +0, 8, @8, #4; exit", 0, E_PROG_RECORD},
    {"recm 32; logm ax, +0, 8, @8, #255; exit", 0, DP_OK},
    {"recm 32; push d, 1; log8 @8, #100; exit", 0, E_PROG_RECORD},
    {"recm 32; logstr ax, +0, @28, 65535; exit", 0, DP_OK},
    {"recm 32; logstr ax, +0, @29, 0; exit", 0, E_PROG_RECORD},
    {"recm 32; logcomm @30, 0; exit", 0, E_PROG_RECORD},
    {"recm 32; logtext @4, 0, \"x\"; exit", 0, E_PROG_RECORD},
    {"strcomm; streq \"x\"; exit", 0, DP_OK},
    {"push d, 1; str 8; strglob \"x\"; exit", 0, DP_OK},
    {"streq \"x\"; exit", 0, E_PROG_TEXT},
    {"push d, 1; jz A; strcomm; L: streq \"x\"; exit; A: jmp L", 0, E_PROG_TEXT},
    {"push d, 1; jz L; strcomm; L: strglob \"x\"; exit", 0, E_PROG_TEXT},
    {"recm 32; logret @8; exit", 0, E_PROG_RETURN},
    {"recm 32; logret @8; exit", 1, DP_OK},
    {"recm 32; logret @25; exit", 1, E_PROG_RECORD},
};

static void test_programs(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(programs); i++) {
		struct dp_program p = usual();

		if (!assemble(&p, programs[i].text))
			ok(false, "%s cannot be assembled", programs[i].text);
		else
			check(&p, programs[i].in_return, programs[i].want, programs[i].text);
		dp_free(p.code);
	}
}

/* Code that no assembler makes. */
static void test_bytes(void)
{
	static const struct {
		const char *name;
		u8 code[16];
		u32 len;
		enum dp_code want;
	} raw[] = {
	    {"unknown opcode", {0xff}, 1, E_PROG_OPCODE},
	    {"reserved opcode", {0xf2, 0x0d}, 2, E_PROG_OPCODE},
	    {"prefix at the end", {0xf1}, 1, E_PROG_OPCODE},
	    {"unknown opcode behind the prefix", {0xf1, 0xff, 0x0d}, 3, E_PROG_OPCODE},
	    {"cut constant", {0x4c, 1, 2, 3}, 4, E_PROG_CUT},
	    {"cut text", {0xf1, 0x17, 9, 0, 'x'}, 5, E_PROG_CUT},
	    {"text without its length", {0xf1, 0x17, 9}, 3, E_PROG_CUT},
	    {"register slot 21", {0xcb, 21, 0x0d}, 3, E_PROG_REG},
	    {"register slot 20", {0xcb, 20, 0x0d}, 3, DP_OK},
	    {"register number 1", {0x46, 1, 0, 0x0d}, 4, E_PROG_REG},
	    {"register number 0x600", {0x46, 0, 6, 0x0d}, 4, E_PROG_REG},
	    {"jump to itself", {0x01, 0xfb, 0xff, 0xff, 0xff}, 5, DP_OK},
	    {"jump before the code", {0x01, 0xfa, 0xff, 0xff, 0xff}, 5, E_PROG_JUMP},
	    {"jump behind the code", {0x01, 2, 0, 0, 0, 0x0d}, 6, E_PROG_JUMP},
	    {"jump to the end", {0x01, 1, 0, 0, 0, 0x0d}, 6, E_PROG_END},
	    {"jump into an instruction", {0x01, 1, 0, 0, 0, 0xcb, 3, 0x0d}, 8, E_PROG_JUMP},
	    {"jump far away", {0x01, 0xff, 0xff, 0xff, 0x7f, 0x0d}, 6, E_PROG_JUMP},
	    {"jump far back", {0x01, 0, 0, 0, 0x80, 0x0d}, 6, E_PROG_JUMP},
	    {"garbage that is never reached", {0x0d, 0xff}, 2, E_PROG_OPCODE},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(raw); i++) {
		struct dp_program p = usual();

		p.code = malloc(raw[i].len); /* exactly, so that a read behind it is noticed */
		memcpy(p.code, raw[i].code, raw[i].len);
		p.len = raw[i].len;
		check(&p, false, raw[i].want, raw[i].name);
		free(p.code);
	}
}

static void test_limits(void)
{
	static u8 code[70000];
	struct dp_program p = usual();

	memset(code, 0x00, sizeof(code));
	check(&p, false, E_PROG_EMPTY, "no code");
	p.code = code;
	check(&p, false, E_PROG_EMPTY, "no bytes");
	p.len = DP_CODE_MAX;
	code[DP_CODE_MAX - 1] = DP_OP_EXIT;
	check(&p, false, DP_OK, "the longest program");
	p.len++;
	check(&p, false, E_PROG_LIMIT, "one more");
	code[0] = DP_OP_EXIT;
	p.len = 1;
	p.jmpmax = DP_JMPMAX + 1;
	check(&p, false, E_PROG_LIMIT, "jmpmax");
	p = usual();
	p.code = code;
	p.len = 1;
	p.logmax = DP_LOGMAX;
	check(&p, false, DP_OK, "the largest logmax");
	p.logmax++;
	check(&p, false, E_PROG_LIMIT, "one more");
	p.logmax = 64;
	p.nlocals = DP_LOCALS_MAX + 1;
	check(&p, false, E_PROG_LIMIT, "too many locals");
	p.nlocals = 0;
	p.nglobals = 257;
	check(&p, false, E_PROG_LIMIT, "257 globals");
}

static void test_layouts(void)
{
	u8 code[] = {DP_OP_EXIT};
	struct dp_field bad[4];
	struct dp_program p = usual();

	p.code = code;
	p.len = 1;
	p.layout.fixed_size = 65;
	check(&p, false, E_PROG_LAYOUT, "fixed part above the log budget");
	p.layout.fixed_size = 31;
	check(&p, false, E_PROG_LAYOUT, "last field sticks out");
	p = usual();
	p.code = code;
	p.len = 1;
	p.layout.fields = NULL;
	check(&p, false, E_PROG_LAYOUT, "fields that are not there");
	p.layout.nfields = 0;
	p.layout.has_ret_addr = 1;
	p.layout.fixed_size = 15;
	check(&p, false, E_PROG_LAYOUT, "no room for mask and return address");
	p.layout.fixed_size = 16;
	check(&p, false, DP_OK, "just room for them");
	p = usual();
	p.code = code;
	p.len = 1;
	p.layout.fields = bad;
#define BAD(name, change)                 \
	memcpy(bad, fields, sizeof(bad)); \
	change;                           \
	check(&p, false, E_PROG_LAYOUT, name)
	BAD("field in the fault mask", bad[0].offset = 0);
	BAD("size of another type", bad[1].size = 8);
	BAD("size 0", bad[1].size = 0);
	BAD("unknown type", bad[1].type = 99);
	BAD("too many elements", bad[3].count = 65);
	BAD("elements that stick out", bad[3].count = 5);
	BAD("more bits than there are", bad[1].bit_width = 33);
	BAD("name without an end", memset(bad[1].name, 'x', DP_NAME_MAX));
	memcpy(bad, fields, sizeof(bad));
	check(&p, false, DP_OK, "unchanged fields");
}

/* Long chains of jumps backward must not take the verifier long. */
static void test_effort(void)
{
	struct dp_asm code = {0};
	struct dp_program p = usual();
	u32 n = 6000;

	DP_PUT(&code, JMP, 5 + 5 * n);
	DP_PUT(&code, EXIT);
	for (u32 i = 0; i < n; i++)
		DP_PUT(&code, JMP, i ? 6 + 5 * (i - 1) : 5);
	p.code = code.bytes;
	p.len = code.len;
	p.code[1] = (u8)(1 + 5 * (n - 1));
	p.code[2] = (u8)((1 + 5 * (n - 1)) >> 8);
	check(&p, false, DP_OK, "6000 jumps, each to the one before it");
	dp_asm_free(&code);
}

/* A table of processes lies in the variables; of that of threads, which nobody believes, the keys are looked at. */
static void test_thread_values(void)
{
	static const struct {
		const char *name;
		u16 first, processes, keys;
		bool in_process;
		enum dp_code want;
	} rows[] = {
	    {"a table of processes that just fits", 1, 3, 5, false, DP_OK},
	    {"one word too far", 2, 3, 5, false, E_PROG_VAR},
	    {"one process too many", 1, 4, 5, false, E_PROG_VAR},
	    {"as many processes as can be written", 1, 65535, 5, false, E_PROG_VAR},
	    {"no process", 1, 0, 5, false, E_PROG_OPERAND},
	    {"no thread", 1, 3, 0, false, E_PROG_OPERAND},
	    {"in a process", 1, 3, 5, true, E_PROG_WORLD},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(rows); i++) {
		struct dp_program p = {.jmpmax = 10, .logmax = 64, .nlocals = 11, .in_kernel = !rows[i].in_process};
		struct dp_asm code = {0};

		DP_PUT(&code, BEGIN);
		DP_PUT(&code, PUSH_TV, rows[i].first, rows[i].processes, rows[i].keys);
		DP_PUT(&code, EXIT);
		p.rpn.ex_mask = DP_RPN;
		p.code = code.bytes;
		p.len = code.len;
		check(&p, false, rows[i].want, rows[i].name);
		dp_asm_free(&code);
	}
}

int main(void)
{
	test_programs();
	test_bytes();
	test_limits();
	test_layouts();
	test_effort();
	test_thread_values();
	return done();
}
