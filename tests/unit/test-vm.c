/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The interpreter, opcode by opcode: small programs with what they must leave behind. The last test
 * checks that every line of the opcode table was executed. Also measures the cost of an opcode.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "machine.h"

static u8 seen[65536]; /* opcodes that were part of a program */

static void note(const struct dp_program *p)
{
	struct dp_op_view insn;

	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &insn); at += insn.len)
		seen[insn.opcode] = 1;
}

/* Assemble, verify, run. Returns the result, -1 when the program is no good. */
static int run(struct machine *m, struct dp_program *p, const char *text, bool in_return)
{
	struct dp_error err = {0};
	int result;

	if (!assemble(p, text))
		return -1;
	if (dp_program_verify(p, in_return, &err)) {
		printf("# %s: %s\n", dp_error_info(err.code)->name, err.detail);
		return -1;
	}
	note(p);
	result = machine_run(m, p);
	return result;
}

/* ---- values: a body and the words that it leaves on the stack ---- */

static const struct {
	const char *body;
	u32 n;
	u64 want[3];
} values[] = {
    {"nop; push d, 5", 1, {5}},
    {"push d, -1", 1, {-1ull}},
    {"push d, 7; push d, 3; add", 1, {10}},
    {"push d, -1; push d, 2; add", 1, {1}},
    {"push d, 7; push d, 3; sub", 1, {4}},
    {"push d, 3; push d, 7; sub", 1, {-4ull}},
    {"push d, 7; push d, 3; mul", 1, {21}},
    {"push d, 7; neg", 1, {-7ull}},
    {"push d, 12; push d, 10; and", 1, {8}},
    {"push d, 12; push d, 10; or", 1, {14}},
    {"push d, 12; push d, 10; xor", 1, {6}},
    {"push d, 0x8000000000000001; rol 1", 1, {3}},
    {"push d, 5; rol 0", 1, {5}},
    {"push d, 4; push d, 0x8000000000000001; rol", 1, {0x18}},
    {"push d, 65; push d, 1; rol", 1, {2}},
    {"push d, 3; ror 1", 1, {0x8000000000000001ull}},
    {"push d, 3; ror 0", 1, {3}},
    {"push d, 4; push d, 0x18; ror", 1, {0x8000000000000001ull}},
    {"push d, 64; push d, 9; ror", 1, {9}},
    {"push d, 3; shl 4", 1, {0x30}},
    {"push d, 3; shl 63", 1, {1ull << 63}},
    {"push d, 4; push d, 3; shl", 1, {0x30}},
    {"push d, 64; push d, 3; shl", 1, {0}},
    {"push d, 0x30; shr 4", 1, {3}},
    {"push d, 4; push d, 0x30; shr", 1, {3}},
    {"push d, 63; push d, -1; shr", 1, {1}},
    {"push d, 64; push d, -1; shr", 1, {0}},
    {"push d, 4; push d, -32; sar", 1, {-2ull}},
    {"push d, 99; push d, -32; sar", 1, {-1ull}},
    {"push d, 99; push d, 32; sar", 1, {0}},
    {"push d, 17; push d, 5; div", 2, {2, 3}},
    {"push d, -1; push d, 16; div", 2, {15, 0x0fffffffffffffffull}},
    {"push d, -17; push d, 5; idiv", 2, {-2ull, -3ull}},
    {"push d, 17; push d, -5; idiv", 2, {2, -3ull}},
    {"push d, 0x8000000000000000; push d, -1; idiv", 2, {0, 0x8000000000000000ull}},
    {"push d, 5; push d, 3; pbl", 1, {-3ull}},
    {"push d, 0x1ff; push d, 10; pbl", 1, {0x1ff}},
    {"push d, 0xff; push d, 64; pbl", 1, {0xff}},
    {"push d, 0x80; pbl 8", 1, {-128ull}},
    {"push d, 0x180; pbl 7", 1, {0}},
    {"push d, 8; push d, 4; pbr", 1, {15}},
    {"push d, 7; push d, 4; pbr", 1, {0}},
    {"push d, 0x17; pbr 4", 1, {0x10}},
    {"push d, 0x8000000000000000; pbr 64", 1, {-1ull}},
    {"push d, 1; pbr 1", 1, {1}},
    {"push d, 0xff; push d, 4; pzl", 1, {15}},
    {"push d, -1; push d, 64; pzl", 1, {-1ull}},
    {"push d, -1; pzl 1", 1, {1}},
    {"push d, 0xff; push d, 5; pzr", 1, {0xf0}},
    {"push d, 0xff; pzr 1", 1, {0xff}},
    {"push d, -1; pzr 64", 1, {1ull << 63}},
    {"push d, 1; push d, 2; xchg", 2, {2, 1}},
    {"push d, 9; dup 3", 3, {9, 9, 9}},
    {"push d, 4; push d, 9; dup 0", 1, {4}},
    {"push d, 2; push d, 9; dup", 3, {9, 9, 9}},
    {"push d, 0; push d, 9; dup", 1, {9}},
    {"push d, 1; push d, 2; push d, 3; ros 2", 1, {1}},
    {"push d, 1; ros 0", 1, {1}},
    {"push r, cs; push r, eflags; push r, r15",
     3,
     {0x3333333333333333ull, 0x4444444444444444ull, 0x1111111111111111ull}},
    {"push r, ax; push r, esp; push r, orig_ax", 3, {0xbbbbbbbbbbbbbbbbull, STACK_BASE, 0x1111111111111111ull}},
    {"push d, 0x1234; pop r, ip; push r, ip", 1, {0x1234}},
    {"push d, 0; pop r, flags; push r, flags", 1, {0x4444444444444444ull & ~0xcd5ull}},
    {"push d, -1; pop r, flags; push r, flags", 1, {0x4444444444444444ull | 0xcd5ull}},
    {"push pid", 1, {4711}},
    {"push procid", 1, {3}},
    {"push tid; push uid", 2, {4712, 4294967294}},
    {"push frames,3", 3, {0, 0x2222222222222322, 0x2222222222222222}},
    {"push d, 7; pop u, r8; push u, r8", 1, {7}},
    {"push d, 0x10000; vfy rw; push d, 0x11000; vfy rw", 2, {0, 1}},
    {"push wid", 1, {-64ull}},
    {"push d, 0x10001; push mem,u8", 1, {8}},
    {"push d, 0x10001; push mem,u16", 1, {0x0f08}},
    {"push d, 0x10001; push mem,u32", 1, {0x1d160f08}},
    {"push d, 0x10ff8; push mem,u64", 1, {0xfaf3ece5ded7d0c9ull}},
    {"push d, 0x10000; push d, 0x1ff; pop mem,u8; push d, 0x10000; push mem,u16", 1, {0x08ff}},
    {"push d, 0x10000; push d, 0x12345; pop mem,u16; push d, 0x10000; push mem,u32", 1, {0x160f2345}},
    {"push d, 0x10000; push d, -1; pop mem,u32; push d, 0x10000; push mem,u64", 1, {0x322b241dffffffffull}},
    {"push d, 0x10000; push d, -2; pop mem,u64; push d, 0x10000; push mem,u64", 1, {-2ull}},
    {"push d, 0x10000; vfy r; push d, 0x11000; vfy r; push d, 0; vfy r", 3, {0, 1, 1}},
    {"push lv, 3; push gv, 4", 2, {103, 204}},
    {"push d, 3; push lv; push d, 4; push gv", 2, {103, 204}},
    {"push d, 9; pop lv, 3; push lv, 3; push d, 8; pop gv, 4; push gv, 4", 2, {9, 8}},
    {"push d, 3; push d, 9; pop lv; push lv, 3; push d, 4; push d, 8; pop gv; push gv, 4", 2, {9, 8}},
    {"push d, 9; move lv, 3; push lv, 3", 2, {9, 9}},
    {"push d, 9; move gv, 3; push gv, 3", 2, {9, 9}},
    {"push d, 9; push d, 3; move lv; push lv, 3", 2, {9, 9}},
    {"push d, 9; push d, 3; move gv; push gv, 3", 2, {9, 9}},
    {"inc lv, 0; inc lv, 0; push lv, 0; dec gv, 7; push gv, 7", 2, {102, 206}},
    {"dec lv, 0; push lv, 0; inc gv, 7; push gv, 7", 2, {99, 208}},
    {"push d, 1; inc lv; push lv, 1; push d, 1; dec gv; push gv, 1", 2, {102, 200}},
    {"push d, 1; dec lv; push lv, 1; push d, 1; inc gv; push gv, 1", 2, {100, 202}},
    {"push d, 1; jmp L; push d, 2; L: push d, 3", 2, {1, 3}},
    {"push d, -1; jlt L; push d, 2; L: nop", 1, {-1ull}},
    {"push d, 0; jlt L; ros 1; push d, 2; L: nop", 1, {2}},
    {"push d, 0; jle L; ros 1; push d, 2; L: nop", 1, {0}},
    {"push d, 1; jle L; ros 1; push d, 2; L: nop", 1, {2}},
    {"push d, 1; jgt L; ros 1; push d, 2; L: nop", 1, {1}},
    {"push d, 0; jgt L; ros 1; push d, 2; L: nop", 1, {2}},
    {"push d, 0; jge L; ros 1; push d, 2; L: nop", 1, {0}},
    {"push d, -1; jge L; ros 1; push d, 2; L: nop", 1, {2}},
    {"push d, 0; jz L; ros 1; push d, 2; L: nop", 1, {0}},
    {"push d, 1; jz L; ros 1; push d, 2; L: nop", 1, {2}},
    {"push d, 3; jnz L; ros 1; push d, 2; L: nop", 1, {3}},
    {"push d, 0; jnz L; ros 1; push d, 2; L: nop", 1, {2}},
    {"push d, 5; L: inc lv, 0; loop L; push lv, 0", 2, {0, 105}},
    {"pushr ax; pushr,u8 ax; pushr,u16 ax", 3, {0xbbbbbbbbbbbbbbbbull, 0xbb, 0xbbbb}},
    {"pushr,u32 ax; pushr,s8 ax; pushr,s8 r15", 3, {0xbbbbbbbb, -0x45ull, 0x11}},
    {"pushr,s16 ax; pushr,s32 ax; pushr,s32 r15", 3, {0xffffffffffffbbbbull, 0xffffffffbbbbbbbbull, 0x11111111}},
    {"push d, 0x10000; ld8 1; push d, 0x10008; ld16 -7; push d, 0x10000; ld32 1", 3, {8, 0x0f08, 0x1d160f08}},
    {"push d, 0x10000; ld64 0", 1, {0x322b241d160f0801ull}},
    {"push d, 3; push d, 3; eq; push d, 3; push d, 4; eq", 2, {1, 0}},
    {"push d, 3; push d, 3; ne; push d, 3; push d, 4; ne", 2, {0, 1}},
    {"push d, -1; push d, 0; lt; push d, 0; push d, 0; lt; push d, 1; push d, 0; lt", 3, {1, 0, 0}},
    {"push d, -1; push d, 0; le; push d, 0; push d, 0; le; push d, 1; push d, 0; le", 3, {1, 1, 0}},
    {"push d, -1; push d, 0; gt; push d, 0; push d, 0; gt; push d, 1; push d, 0; gt", 3, {0, 0, 1}},
    {"push d, -1; push d, 0; ge; push d, 0; push d, 0; ge; push d, 1; push d, 0; ge", 3, {0, 1, 1}},
    {"push d, -1; push d, 0; ltu; push d, 0; push d, 0; ltu; push d, 0; push d, 1; ltu", 3, {0, 0, 1}},
    {"push d, -1; push d, 0; leu; push d, 0; push d, 0; leu; push d, 0; push d, 1; leu", 3, {0, 1, 1}},
    {"push d, -1; push d, 0; gtu; push d, 0; push d, 0; gtu; push d, 0; push d, 1; gtu", 3, {1, 0, 0}},
    {"push d, -1; push d, 0; geu; push d, 0; push d, 0; geu; push d, 0; push d, 1; geu", 3, {1, 1, 0}},
    {"push d, 7; bool; push d, 0; bool", 2, {1, 0}},
    {"push d, 7; lnot; push d, 0; lnot", 2, {0, 1}},
    {"push d, 5; not", 1, {~5ull}},
    {"push d, -1; zx8; push d, -1; zx16; push d, -1; zx32", 3, {0xff, 0xffff, 0xffffffff}},
    {"push d, 0x80; sx8; push d, 0x8000; sx16; push d, 0x80000000; sx32", 3, {-0x80ull, -0x8000ull, -0x80000000ull}},
    {"push d, 0x7f; sx8; push d, 0xabcd; bits 4, 8; push d, -1; bits 0, 64", 3, {0x7f, 0xbc, -1ull}},
    {"push d, -1; bits 63, 1; push d, 4; bits 2, 1; push d, 3; bits 2, 1", 3, {1, 1, 0}},
    {"push d, 0x10100; str 8; streq \"abc\"; streq \"ab\"; streq \"abcd\"", 3, {1, 0, 0}},
    {"push d, 0x10100; str 3; streq \"ab\"; streq \"abc\"", 2, {1, 0}},
    {"push d, 0x10103; str 8; streq \"\"; push d, 0x10103; str 1; streq \"\"", 2, {1, 1}},
    {"strcomm; streq \"redis-server\"; strglob \"redis*\"; strglob \"x*\"", 3, {1, 1, 0}},
};

static void test_values(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(values); i++) {
		struct dp_program p = {.jmpmax = 100, .logmax = 64, .nlocals = 8, .nglobals = 8};
		struct machine m;
		char text[2048];
		u32 n = values[i].n, len;
		bool good;

		machine_init(&m);
		for (u32 k = 0; k < 8; k++) {
			m.locals[k] = 100 + k;
			m.globals[k] = 200 + k;
		}
		m.locals[0] = 100;
		memcpy(m.memory + 0x100, "abc", 4);
		len = (u32)snprintf(text, sizeof(text), "rec %u; %s", 8 * n, values[i].body);
		for (u32 k = n; k-- > 0;)
			len += (u32)snprintf(text + len, sizeof(text) - len, "; log64 @%u, #255", 8 * k);
		snprintf(text + len, sizeof(text) - len, "; exit");
		p.layout.fixed_size = (u16)(8 * n);
		good = run(&m, &p, text, false) == DP_RUN_LOG && m.hit.log_len == 8 * n && !m.hit.exceptions;
		for (u32 k = 0; good && k < n; k++)
			if (machine_u64(&m, 8 * k) != values[i].want[k]) {
				printf("# word %u is 0x%llx\n", k, (unsigned long long)machine_u64(&m, 8 * k));
				good = false;
			}
		ok(good, "%s", values[i].body);
		dp_program_free(&p);
		machine_free(&m);
	}
}

/* ---- whole programs: result, payload, counts ---- */

struct want {
	const char *name;
	const char *text;
	u16 fixed;
	bool mask, in_return;
	int result;
	u32 log_len, rec_flags, faults, exceptions;
	u64 words[6]; /* of the payload, as far as log_len goes */
};

#define LOGS DP_RUN_LOG
#define NONE DP_RUN_FILTERED
#define FAULTED DP_REC_FAULTED
#define CUT DP_REC_TRUNCATED
#define D(at, len) ((u64)(at) | (u64)(len) << 16)

static const struct want programs[] = {
    {"exit without a record logs an empty one", "exit", 0, 0, 0, LOGS, 0, 0, 0, 0, {0}},
    {"abort logs nothing", "rec 8; abort", 8, 0, 0, NONE, 8, 0, 0, 0, {0}},
    {"four registers",
     "rec 16; logr8 ax, @0; logr16 bx, @2; logr32 cx, @4; logr64 dx, @8; exit",
     16,
     0,
     0,
     LOGS,
     16,
     0,
     0,
     0,
     {0xcccccccc6666a5bbull, 0xddddddddddddddddull}},
    {"words from the stack by width",
     "rec 16; push d, -1; log8 @0, #255; push d, 0x12345; log16 @2, #255; push d, 0x123456789; log32 @4, #255; "
     "push d, 7; log64 @8, #255; exit",
     16,
     0,
     0,
     LOGS,
     16,
     0,
     0,
     0,
     {0x234567892345a5ffull, 7}},
    {"memory at a register",
     "rec 16; push d, 0x10010; pop r, di; logm di, -16, 16, @0, #255; exit",
     16,
     0,
     0,
     LOGS,
     16,
     0,
     0,
     0,
     {0x322b241d160f0801ull, 0x6a635c554e474039ull}},
    {"memory at an address",
     "rec 8; push d, 0x10000; logm +8, 8, @0, #255; exit",
     8,
     0,
     0,
     LOGS,
     8,
     0,
     0,
     0,
     {0x6a635c554e474039ull}},
    {"unreadable memory marks its field, the event goes on",
     "recm 24; logm ax, +0, 8, @8, #0; logr64 bx, @16; exit",
     24,
     1,
     0,
     LOGS,
     24,
     FAULTED,
     1,
     0,
     {1, 0, 0x6666666666666666ull}},
    {"a partly readable range is cleared",
     "recm 24; push d, 0x10ff8; logm +0, 16, @8, #1; exit",
     24,
     1,
     0,
     LOGS,
     24,
     FAULTED,
     1,
     0,
     {2, 0, 0}},
    {"a chain that breaks reads no further and marks once",
     "recm 16; push d, 0; ld64 +0; ld64 +8; ld64 +16; log64 @8, #2; exit",
     16,
     1,
     0,
     LOGS,
     16,
     FAULTED,
     1,
     0,
     {4, 0}},
    {"the mark goes to one field only",
     "recm 24; push d, 0; ld8 +0; log64 @8, #0; push d, 5; log64 @16, #1; exit",
     24,
     1,
     0,
     LOGS,
     24,
     FAULTED,
     1,
     0,
     {1, 0, 5}},
    {"a broken chain before a block",
     "recm 16; push d, 0; ld64 +0; logm +0, 8, @8, #1; exit",
     16,
     1,
     0,
     LOGS,
     16,
     FAULTED,
     1,
     0,
     {2, 0}},
    {"fields from 63 on share a bit",
     "recm 16; logm ax, +0, 8, @8, #70; exit",
     16,
     1,
     0,
     LOGS,
     16,
     FAULTED,
     1,
     0,
     {1ull << 63, 0}},
    {"opening a record forgets the mark",
     "push d, 0; ld64 +0; ros 1; recm 16; push d, 1; log64 @8, #0; exit",
     16,
     1,
     0,
     LOGS,
     16,
     0,
     1,
     0,
     {0, 1}},
    {"string at a register",
     "rec 8; push d, 0x10100; pop r, si; push d, 0; log64 @0, #255; logstr si, +0, @0, 0; exit",
     8,
     0,
     0,
     LOGS,
     12,
     0,
     0,
     0,
     {D(8, 4)}},
    {"string at an address",
     "rec 8; push d, 0; log64 @0, #255; push d, 0x10000; logstr +0x100, @4, 0; exit",
     8,
     0,
     0,
     LOGS,
     12,
     0,
     0,
     0,
     {D(8, 4) << 32}},
    {"unreadable string",
     "rec 8; push d, 0; log64 @0, #255; logstr ax, +0, @0, 0; exit",
     8,
     0,
     0,
     LOGS,
     8,
     FAULTED,
     1,
     0,
     {D(8, 0)}},
    {"string behind a broken chain",
     "recm 16; push d, 0; log64 @8, #255; push d, 0; ld64 +0; logstr +0, @8, 0; push d, 1; log32 @12, #0; exit",
     16,
     1,
     0,
     LOGS,
     16,
     FAULTED,
     1,
     0,
     {0, D(16, 0) | 1ull << 32}},
    {"empty string",
     "rec 8; push d, 0; log64 @0, #255; push d, 0x10103; logstr +0, @0, 0; exit",
     8,
     0,
     0,
     LOGS,
     9,
     0,
     0,
     0,
     {D(8, 1)}},
    {"a string is cut to the budget",
     "rec 8; push d, 0; log64 @0, #255; push d, 0x10200; logstr +0, @0, 0; exit",
     8,
     0,
     0,
     LOGS,
     64,
     CUT,
     0,
     0,
     {D(8, 56), 0x7878787878787878ull}},
    {"a string leaves room for others",
     "rec 8; push d, 0; log64 @0, #255; push d, 0x10200; logstr +0, @0, 46; push d, 0x10200; logstr +0, @4, 0; exit",
     8,
     0,
     0,
     LOGS,
     64,
     CUT,
     0,
     0,
     {D(8, 10) | D(18, 46) << 32}},
    {"no room at all",
     "rec 8; push d, 0; log64 @0, #255; push d, 0x10200; logstr +0, @0, 100; exit",
     8,
     0,
     0,
     LOGS,
     8,
     CUT,
     0,
     0,
     {D(8, 0)}},
    {"thread name",
     "rec 8; push d, 0; log64 @0, #255; logcomm @0, 0; exit",
     8,
     0,
     0,
     LOGS,
     21,
     0,
     0,
     0,
     {D(8, 13), 0x65732d7369646572ull}},
    {"thread name, cut",
     "rec 8; push d, 0; log64 @0, #255; logcomm @0, 50; exit",
     8,
     0,
     0,
     LOGS,
     14,
     CUT,
     0,
     0,
     {D(8, 6)}},
    {"thread name, no room",
     "rec 8; push d, 0; log64 @0, #255; logcomm @0, 56; exit",
     8,
     0,
     0,
     LOGS,
     8,
     CUT,
     0,
     0,
     {D(8, 0)}},
    {"constant text",
     "rec 8; push d, 0; log64 @0, #255; logtext @0, 0, \"hello\"; push d, 1; log32 @4, #255; exit",
     8,
     0,
     0,
     LOGS,
     14,
     0,
     0,
     0,
     {D(8, 6) | 1ull << 32}},
    {"return address", "rec 8; logret @0; exit", 8, 0, 1, LOGS, 8, 0, 0, 0, {0x5000}},
    {"unreadable return address", "rec 8; push d, 0; pop r, sp; logret @0; exit", 8, 0, 1, LOGS, 8, FAULTED, 1, 0, {0}},

    {"need holds", "push d, 2; need; rec 8; logr64 ax, @0; exit", 8, 0, 0, LOGS, 8, 0, 0, 0, {0xbbbbbbbbbbbbbbbbull}},
    {"need fails", "push d, 0; need; rec 8; logr64 ax, @0; exit", 8, 0, 0, NONE, 0, 0, 0, 0, {0}},
    {"need fails on a fault", "push d, 0; ld8 +0; lnot; need; exit", 0, 0, 0, NONE, 0, 0, 1, 0, {0}},
    {"need,eq fails on a fault", "push d, 0; ld8 +0; need,eq 0; exit", 0, 0, 0, NONE, 0, 0, 1, 0, {0}},
    {"a string that cannot be read equals nothing",
     "push d, 0; str 8; streq \"\"; need; exit",
     0,
     0,
     0,
     NONE,
     0,
     0,
     1,
     0,
     {0}},
    {"nor does it differ", "push d, 0; str 8; streq \"x\"; lnot; need; exit", 0, 0, 0, NONE, 0, 0, 1, 0, {0}},
    {"a string behind a broken chain",
     "push d, 0; ld64 +0; str 8; streq \"\"; need; exit",
     0,
     0,
     0,
     NONE,
     0,
     0,
     1,
     0,
     {0}},

    {"invalid address stops", "push d, 1; push mem,u8; exit", 0, 0, 0, NONE, 0, 0, 1, 1, {0}},
    {"an exception keeps what was logged",
     "rec 8; logr64 ax, @0; push d, 1; push mem,u64; abort",
     8,
     0,
     0,
     LOGS,
     8,
     0,
     1,
     1,
     {0xbbbbbbbbbbbbbbbbull}},
    {"store to an invalid address", "push d, 1; push d, 1; pop mem,u16; exit", 0, 0, 0, NONE, 0, 0, 1, 1, {0}},
    {"division by zero", "push d, 1; push d, 0; div; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"signed division by zero", "push d, 1; push d, 0; idiv; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"bit number 0", "push d, 1; push d, 0; pbl; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"bit number 65", "push d, 1; push d, 65; pbr; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"bit number -1", "push d, 1; push d, -1; pzl; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"bit number 66", "push d, 1; push d, 66; pzr; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"local 8 of 8", "push d, 8; push lv; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"global 8 of 8", "push d, 8; inc gv; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"pop to local -1", "push d, -1; push d, 1; pop lv; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"move to global 99", "push d, 1; push d, 99; move gv; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"an endless jump ends with the budget", "L: jmp L; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"an endless branch too", "push d, 1; L: jnz L; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"an endless loop too", "push d, 0; L: loop L; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"100 turns fit a budget of 100", "push d, 100; L: loop L; exit", 0, 0, 0, LOGS, 0, 0, 0, 0, {0}},
    {"101 do not", "push d, 101; L: loop L; exit", 0, 0, 0, NONE, 0, 0, 0, 1, {0}},
    {"the stack wraps and stays inside",
     "push d, 50; L: push d, 1; dup 255; ros 1; xchg; dup 1; ros 255; push d, 2; loop L; exit",
     0,
     0,
     0,
     NONE,
     0,
     0,
     0,
     1,
     {0}},
    {"many copies", "push d, -1; push d, 9; dup; rec 8; log64 @0, #255; exit", 8, 0, 0, LOGS, 8, 0, 0, 0, {9}},
};

static void test_programs(void)
{
	static struct dp_field fields[80];

	for (u32 i = 0; i < DP_ARRAY_SIZE(fields); i++)
		fields[i] = (struct dp_field){.type = DP_FIELD_U8, .size = 1, .offset = 15};
	for (u32 i = 0; i < DP_ARRAY_SIZE(programs); i++) {
		const struct want *w = &programs[i];
		struct dp_program p = {.jmpmax = 100, .logmax = 64, .nlocals = 8, .nglobals = 8};
		struct machine m;
		int result;
		bool good;

		machine_init(&m);
		memcpy(m.memory + 0x100, "abc", 4);
		memset(m.memory + 0x200, 'x', 0x200);
		m.memory[0x400] = 0;
		p.layout.fixed_size = w->fixed;
		p.layout.has_faultmask = w->mask;
		if (w->mask) {
			p.layout.fields = fields;
			p.layout.nfields = DP_ARRAY_SIZE(fields);
		}
		result = run(&m, &p, w->text, w->in_return);
		p.layout.fields = NULL;
		good = result == w->result && m.hit.log_len == w->log_len && m.hit.rec_flags == w->rec_flags &&
		       m.hit.faults == w->faults && m.hit.exceptions == w->exceptions;
		if (!good)
			printf("# result %d, %u bytes, flags %u, %u faults, %u exceptions\n", result, m.hit.log_len,
			       m.hit.rec_flags, m.hit.faults, m.hit.exceptions);
		for (u32 k = 0; good && result == DP_RUN_LOG && k < 6 && 8 * k + 8 <= w->log_len; k++)
			if (machine_u64(&m, 8 * k) != w->words[k] && (k == 0 || w->words[k])) {
				printf("# word %u is 0x%llx\n", k, (unsigned long long)machine_u64(&m, 8 * k));
				good = false;
			}
		ok(good, "%s", w->name);
		dp_program_free(&p);
		machine_free(&m);
	}
}

/* ---- comparisons that end the run ---- */

static void test_needs(void)
{
	static const struct {
		const char *op;
		u64 c;
		bool below, same, above; /* holds for c-1, c, c+1 */
	} needs[] = {
	    {"eq", 5, false, true, false}, {"ne", 5, true, false, true},    {"lt", 5, true, false, false},
	    {"ge", 5, false, true, true},  {"ltu", 5, true, false, false},  {"geu", 5, false, true, true},
	    {"lt", 0, true, false, false}, {"ltu", 0, false, false, false}, {"ge", 0, false, true, true},
	    {"geu", 0, true, true, true},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(needs); i++)
		for (int from_stack = 0; from_stack < 2; from_stack++)
			for (int d = -1; d <= 1; d++) {
				struct dp_program p = {.logmax = 64};
				struct machine m;
				char text[256];
				bool holds = d < 0 ? needs[i].below : d ? needs[i].above : needs[i].same;

				machine_init(&m);
				m.regs.r9 = needs[i].c + (u64)(s64)d;
				snprintf(text, sizeof(text),
					 from_stack ? "pushr r9; need,%s %llu; exit" : "needr,%s r9, %llu; exit",
					 needs[i].op, (unsigned long long)needs[i].c);
				ok(run(&m, &p, text, false) == (holds ? LOGS : NONE), "%s with c%+d", text, d);
				dp_program_free(&p);
				machine_free(&m);
			}
}

/* ---- shell patterns ---- */

static void test_patterns(void)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} patterns[] = {
	    {"", "", true},
	    {"", "a", false},
	    {"*", "", true},
	    {"*", "anything", true},
	    {"a*", "abc", true},
	    {"*c", "abc", true},
	    {"*b*", "abc", true},
	    {"a*c", "ab", false},
	    {"a?c", "abc", true},
	    {"a?c", "ac", false},
	    {"?", "", false},
	    {"**", "x", true},
	    {"*a*b*c*", "xaxbxcx", true},
	    {"*a*b*c*", "xaxcxbx", false},
	    {"[abc]x", "bx", true},
	    {"[!abc]x", "bx", false},
	    {"[^abc]x", "dx", true},
	    {"[a-c]*", "c1", true},
	    {"[a-c]*", "d1", false},
	    {"[]]", "]", true},
	    {"[a", "[a", true},
	    {"[a-]", "-", true},
	    {"\\\\*", "*", true},
	    {"\\\\*", "a", false},
	    {"aab", "aaab", false},
	    {"*aab", "aaab", true},
	    {"*.so", "libc.so.6", false},
	    {"x[", "x[", true},
	    {"[!]", "[!", false},
	    {"*[0-9]", "a7b7", true},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(patterns); i++) {
		struct dp_program p = {.logmax = 64};
		struct machine m;
		char text[256];

		machine_init(&m);
		strcpy((char *)m.memory, patterns[i].text);
		snprintf(text, sizeof(text), "push d, 0x10000; str 512; strglob \"%s\"; need; exit",
			 patterns[i].pattern);
		ok(run(&m, &p, text, false) == (patterns[i].matches ? LOGS : NONE), "\"%s\" %s %s", patterns[i].text,
		   patterns[i].matches ? "matches" : "does not match", patterns[i].pattern);
		dp_program_free(&p);
		machine_free(&m);
	}
}

static void test_coverage(void)
{
	u32 i = 0, opcode, missing = 0;

	while (dp_opcode_next(&i, &opcode))
		if (!seen[opcode] && dp_opcode_info(opcode)->rule < DP_RULE_BEGIN) { /* the others: tests/golden */
			printf("# never run: %s (0x%x)\n", dp_opcode_info(opcode)->text, opcode);
			missing++;
		}
	ok(!missing, "every opcode was run (%u of them)", i);
}

/*
 * A host may leave less room than the program was verified with (the kernel's records end with a name): texts see none,
 * not 4 GiB.
 */
static void test_lowered(void)
{
	struct dp_program p = {.jmpmax = 1, .logmax = 64, .layout.fixed_size = 60};
	struct machine m;
	u8 *end;

	machine_init(&m);
	ok(run(&m, &p, "rec 60; logcomm @0, 0; logtext @4, 0, \"some text\"; push d, 0x10100; logstr +0, @8, 0; exit",
	       false) == DP_RUN_LOG,
	   "texts in what is left of a record");
	m.rt.code = (u64)p.code;
	m.rt.logmax = 48;
	end = (u8 *)m.vm->record + sizeof(struct dp_record) + 60;
	memset(end, 0xa5, 200);
	ok(dp_vm_run(&m.hit) == DP_RUN_LOG && m.hit.log_len == 60 && m.hit.rec_flags & DP_REC_TRUNCATED &&
	       end[0] == 0xa5 && !memcmp(end, end + 1, 199),
	   "with a budget below the fixed part there is room for none of them");
	dp_program_free(&p);
	machine_free(&m);
}

/* ---- speed ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns of one run, best of several rounds */
static double cost(const char *text, u16 fixed, u32 logmax)
{
	struct dp_program p = {.jmpmax = 10000, .logmax = logmax, .nlocals = 8};
	struct machine m;
	double best = 1e12;

	p.layout.fixed_size = fixed;
	machine_init(&m);
	if (run(&m, &p, text, false) < 0)
		return -1;
	m.rt.code = (u64)p.code;
	for (u32 round = 0; round < 20; round++) {
		double start = now();

		for (u32 i = 0; i < 20000; i++)
			dp_vm_run(&m.hit);
		best = DP_MIN(best, (now() - start) / 20000);
	}
	dp_program_free(&p);
	machine_free(&m);
	return best;
}

static void measure(void)
{
	double empty = cost("exit", 0, 64);
	double four = cost("rec 32; logr64 di, @0; logr64 si, @8; logr64 dx, @16; logr64 cx, @24; exit", 32, 64);
	double filter = cost("needr,ltu di, 4; rec 32; exit", 32, 64);
	double mixed = cost("pushr di; push d, 4; add; push d, 3; mul; push d, 7; xor; pushr si; sub; inc lv, 0; "
			    "pushr cx; or; ros 1; exit",
			    0, 64);
	double loop = cost("push d, 1000; L: loop L; exit", 0, 64);

	printf("# figure: interpreter: empty program %.1f ns, 4 registers into a record %.1f ns (%.2f ns an opcode), "
	       "false condition %.1f ns, arithmetic %.2f ns an opcode, loop %.2f ns a turn\n",
	       empty, four, (four - empty) / 5, filter, (mixed - empty) / 13, (loop - empty) / 1001);
}

int main(void)
{
	test_values();
	test_programs();
	test_needs();
	test_patterns();
	test_lowered();
	test_coverage();
	measure();
	return done();
}
