/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What an instruction stores, by arch/x86_64/store.c and by the processor: random stores with random operands are
 * carried out on two patterns, so that every byte stored is seen, and compared with the bytes foretold; then the copy
 * must do the same to memory and registers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../../src/hit/copy.c"

#define ROUNDS 400
#define MIDDLE 4096
#define BUFFER 16384

struct form { /* 67, 66 and the like, then REX if it may have one, the opcode; /r or a fixed reg; bytes behind */
	const char *name;
	u8 prefix[2], nprefix;
	u8 rex; /* 0: none, 1: random, 2: random with W */
	u8 op[3], nop;
	s8 reg; /* -1: random */
	u8 imm;
	bool all; /* every byte foretold is stored, whatever stood there */
	bool vex;
};

static const struct form forms[] = {
    {"mov r8", {0}, 0, 1, {0x88}, 1, -1, 0, true, false},
    {"mov r16", {0x66}, 1, 1, {0x89}, 1, -1, 0, true, false},
    {"mov r32", {0}, 0, 1, {0x89}, 1, -1, 0, true, false},
    {"mov r64", {0}, 0, 2, {0x89}, 1, -1, 0, true, false},
    {"mov imm8", {0}, 0, 1, {0xc6}, 1, 0, 1, true, false},
    {"mov imm16", {0x66}, 1, 1, {0xc7}, 1, 0, 2, true, false},
    {"mov imm32", {0}, 0, 1, {0xc7}, 1, 0, 4, true, false},
    {"mov imm64", {0}, 0, 2, {0xc7}, 1, 0, 4, true, false},
    {"add", {0}, 0, 2, {0x01}, 1, -1, 0, false, false},
    {"xor r8", {0}, 0, 1, {0x30}, 1, -1, 0, false, false},
    {"or imm", {0}, 0, 1, {0x81}, 1, 1, 4, false, false},
    {"and imm8", {0}, 0, 2, {0x83}, 1, 4, 1, false, false},
    {"lock add", {0xf0}, 1, 2, {0x01}, 1, -1, 0, false, false},
    {"xchg", {0}, 0, 2, {0x87}, 1, -1, 0, true, false},
    {"xchg r8", {0}, 0, 1, {0x86}, 1, -1, 0, true, false},
    {"not", {0}, 0, 1, {0xf7}, 1, 2, 0, true, false},
    {"neg r8", {0}, 0, 1, {0xf6}, 1, 3, 0, false, false},
    {"inc", {0}, 0, 2, {0xff}, 1, 0, 0, false, false},
    {"dec r8", {0}, 0, 1, {0xfe}, 1, 1, 0, false, false},
    {"rol imm", {0}, 0, 2, {0xc1}, 1, 0, 1, false, false},
    {"shl 1", {0}, 0, 1, {0xd1}, 1, 4, 0, false, false},
    {"sar cl", {0}, 0, 2, {0xd3}, 1, 7, 0, false, false},
    {"xadd", {0}, 0, 2, {0x0f, 0xc1}, 2, -1, 0, false, false},
    {"cmpxchg", {0xf0}, 1, 2, {0x0f, 0xb1}, 2, -1, 0, false, false},
    {"cmpxchg8b", {0}, 0, 1, {0x0f, 0xc7}, 2, 1, 0, false, false},
    {"bts imm", {0}, 0, 2, {0x0f, 0xba}, 2, 5, 1, false, false},
    {"bts", {0}, 0, 2, {0x0f, 0xab}, 2, -2, 0, false, false},
    {"btc r32", {0}, 0, 1, {0x0f, 0xbb}, 2, -2, 0, false, false},
    {"shld", {0}, 0, 2, {0x0f, 0xa4}, 2, -1, 1, false, false},
    {"setc", {0}, 0, 1, {0x0f, 0x92}, 2, 0, 0, true, false},
    {"movnti", {0}, 0, 2, {0x0f, 0xc3}, 2, -1, 0, true, false},
    {"movups", {0}, 0, 1, {0x0f, 0x11}, 2, -1, 0, true, false},
    {"movss", {0xf3}, 1, 1, {0x0f, 0x11}, 2, -1, 0, true, false},
    {"movsd", {0xf2}, 1, 1, {0x0f, 0x11}, 2, -1, 0, true, false},
    {"movlps", {0}, 0, 1, {0x0f, 0x13}, 2, -1, 0, true, false},
    {"movhps", {0}, 0, 1, {0x0f, 0x17}, 2, -1, 0, true, false},
    {"movdqu", {0xf3}, 1, 1, {0x0f, 0x7f}, 2, -1, 0, true, false},
    {"movd", {0x66}, 1, 1, {0x0f, 0x7e}, 2, -1, 0, true, false},
    {"movq", {0x66}, 1, 2, {0x0f, 0x7e}, 2, -1, 0, true, false},
    {"movq d6", {0x66}, 1, 1, {0x0f, 0xd6}, 2, -1, 0, true, false},
    {"pextrb", {0x66}, 1, 1, {0x0f, 0x3a, 0x14}, 3, -1, 1, true, false},
    {"pextrw", {0x66}, 1, 1, {0x0f, 0x3a, 0x15}, 3, -1, 1, true, false},
    {"pextrd", {0x66}, 1, 1, {0x0f, 0x3a, 0x16}, 3, -1, 1, true, false},
    {"pextrq", {0x66}, 1, 2, {0x0f, 0x3a, 0x16}, 3, -1, 1, true, false},
    {"extractps", {0x66}, 1, 1, {0x0f, 0x3a, 0x17}, 3, -1, 1, true, false},
    {"fnstcw", {0}, 0, 1, {0xd9}, 1, 7, 0, true, false},
    {"fnstsw", {0}, 0, 1, {0xdd}, 1, 7, 0, true, false},
    {"vmovups 128", {0xc5, 0xf8}, 2, 0, {0x11}, 1, -1, 0, true, true},
    {"vmovups 256", {0xc5, 0xfc}, 2, 0, {0x11}, 1, -1, 0, true, true},
    {"vmovdqu 256", {0xc5, 0xfe}, 2, 0, {0x7f}, 1, -1, 0, true, true},
};

/* Instructions that read memory, whatever they look like: nothing is foretold. */
static const u8 loads[][6] = {{0x03, 0x07},          {0x3b, 0x07},
			      {0x39, 0x07},          {0x8b, 0x07},
			      {0x85, 0x07},          {0x81, 0x3f, 1, 2, 3, 4},
			      {0x83, 0x3f, 1},       {0xf7, 0x27},
			      {0xf6, 0x07, 1},       {0xff, 0x37},
			      {0xd9, 0x07},          {0xdd, 0x07},
			      {0xdb, 0x2f},          {0xdf, 0x2f},
			      {0x0f, 0x10, 0x07},    {0xf3, 0x0f, 0x7e, 0x07},
			      {0x0f, 0xba, 0x27, 1}, {0x0f, 0xa3, 0x07},
			      {0x0f, 0xae, 0x17}};

/* What vector registers hold, which the C library may use between two runs; whether all 32 bytes can be loaded. */
u8 run_vectors[16][32], run_wide;
__asm__(".text\n"
	"load_vectors: lea run_vectors(%rip), %rax; cmpb $0, run_wide(%rip); je 1f\n"
	".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"vmovdqu 32 * \\i(%rax), %ymm\\i\n"
	".endr; ret\n"
	"1: .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"movdqu 32 * \\i(%rax), %xmm\\i\n"
	".endr; ret\n");

void run_at(u64 regs[16], const void *code);
/* regs in the order of their numbers; the stack pointer stays. */
__asm__(".text\n"
	"run_at: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %rdi; push %rsi\n"
	"call load_vectors; mov %rdi, %rax\n"
	"mov 8(%rax), %rcx; mov 16(%rax), %rdx; mov 24(%rax), %rbx\n"
	"mov 40(%rax), %rbp; mov 48(%rax), %rsi; mov 56(%rax), %rdi\n"
	"mov 64(%rax), %r8; mov 72(%rax), %r9; mov 80(%rax), %r10\n"
	"mov 88(%rax), %r11; mov 96(%rax), %r12; mov 104(%rax), %r13\n"
	"mov 112(%rax), %r14; mov 120(%rax), %r15; mov (%rax), %rax; clc\n"
	"call *(%rsp)\n"
	"push %rax; mov 16(%rsp), %rax\n"
	"mov %rcx, 8(%rax); mov %rdx, 16(%rax); mov %rbx, 24(%rax)\n"
	"mov %rbp, 40(%rax); mov %rsi, 48(%rax); mov %rdi, 56(%rax)\n"
	"mov %r8, 64(%rax); mov %r9, 72(%rax); mov %r10, 80(%rax)\n"
	"mov %r11, 88(%rax); mov %r12, 96(%rax); mov %r13, 104(%rax)\n"
	"mov %r14, 112(%rax); mov %r15, 120(%rax); pop %rcx; mov %rcx, (%rax)\n"
	"pop %rsi; pop %rdi; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");

static u64 seed = 88172645463325252ull;
static u32 failures;

static u32 below(u32 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (u32)(seed >> 20) % n;
}

static u8 *code, *buffer;
static struct dp_control ctl;

/* Pointers into the middle of the buffer; the odd ones are small, to be indexes. */
static void choose_registers(u64 regs[16])
{
	for (u32 i = 0; i < 16; i++)
		regs[i] = i & 1 ? below(24) : (u64)buffer + MIDDLE + below(2048);
	regs[1] = below(64);
}

static u32 make_insn(const struct form *f, u8 *out)
{
	u32 n = 0, reg = f->reg >= 0 ? (u32)f->reg : f->reg == -2 ? 1 + 2 * below(4) : below(8), mode = below(4);
	u8 rex = f->rex ? (u8)(0x40 | (f->rex == 2 ? 8 : 0) | below(2) << 2 | below(2)) : 0;

	if (f->reg >= 0 || f->reg == -2)
		rex &= ~4;
	if (reg == 4 && f->reg < 0)
		reg = 6; /* the stack pointer, or a byte that changes its name with REX */
	if (mode == 0 || f->vex)
		rex &= ~1;
	for (u32 i = 0; i < f->nprefix; i++)
		out[n++] = f->prefix[i];
	if (rex && (f->rex == 2 || below(2)))
		out[n++] = rex;
	else
		rex = 0;
	for (u32 i = 0; i < f->nop; i++)
		out[n++] = f->op[i];
	switch (mode) {
	case 0: { /* by its distance */
		s32 disp;

		out[n++] = (u8)(reg << 3 | 5);
		disp = (s32)((u64)buffer + MIDDLE + below(2048) - ((u64)code + n + 4 + f->imm));
		memcpy(out + n, &disp, 4);
		n += 4;
		break;
	}
	case 1: /* base, a byte */
		out[n++] = (u8)(0x40 | reg << 3 | 6);
		out[n++] = (u8)below(256);
		break;
	case 2: { /* base, index, four bytes; the base is even, the index odd */
		s32 disp = (s32)below(512) - 256;
		u32 base = 2 * (1 + below(2)) == 4 ? 2 : 6;

		out[n++] = (u8)(0x80 | reg << 3 | 4);
		out[n++] = (u8)(below(4) << 6 | (1 + 2 * below(4)) << 3 | base);
		memcpy(out + n, &disp, 4);
		n += 4;
		break;
	}
	default: /* base */
		out[n++] = (u8)(reg << 3 | 2);
	}
	for (u32 i = 0; i < f->imm; i++)
		out[n++] = (u8)below(256);
	out[n] = 0xc3;
	return n;
}

static void fail(const struct form *f, const char *why, u32 n)
{
	printf("# %s: %s:", f->name, why);
	for (u32 i = 0; i < n; i++)
		printf(" %02x", code[i]);
	printf("\n");
	failures++;
}

/* Carry it out on a pattern; what has changed of the buffer. */
static void run_on(u8 pattern, const u64 before[16], u64 after[16], const void *at, u8 *result)
{
	memset(buffer, pattern, BUFFER);
	memcpy(after, before, 16 * sizeof(u64));
	run_at(after, at);
	memcpy(result, buffer, BUFFER);
}

static void compare(const struct form *f)
{
	static u8 one[BUFFER], two[BUFFER], copy[BUFFER];
	u64 regs[16], uc[32] = {0}, first[16], again[16];
	static const u8 words[16] = {DP_CTX_AX,  DP_CTX_CX,  DP_CTX_DX,  DP_CTX_BX, DP_CTX_SP,  DP_CTX_BP,
				     DP_CTX_SI,  DP_CTX_DI,  DP_CTX_R8,  DP_CTX_R9, DP_CTX_R10, DP_CTX_R11,
				     DP_CTX_R12, DP_CTX_R13, DP_CTX_R14, DP_CTX_R15};
	struct dp_store s;
	u32 n = make_insn(f, code), lo = BUFFER, hi = 0;

	choose_registers(regs);
	run_on(0xa5, regs, again, code, two);
	run_on(0x5a, regs, first, code, one);
	for (u32 i = 0; i < BUFFER; i++)
		if (one[i] != 0x5a || two[i] != 0xa5) {
			lo = DP_MIN(lo, i);
			hi = i + 1;
		}
	if (lo >= hi)
		return; /* or'ed with nothing, rotated by nothing */
	for (u32 i = 0; i < 16; i++)
		uc[words[i]] = regs[i];
	uc[DP_CTX_IP] = (u64)code;
	memset((void *)ctl.copies, 0, sizeof(struct dp_copies));
	if (!dp_copy_find(&ctl, uc, (u64)buffer + lo, NULL, &s)) {
		fail(f, "not found", n);
		return;
	}
	if (s.ip != (u64)code + n || s.addr > (u64)buffer + lo || s.addr + s.len < (u64)buffer + hi)
		fail(f, "less foretold than stored", n);
	else if (s.lo > (u64)buffer + lo || s.hi < (u64)buffer + hi)
		fail(f, "stored beside what may be stored", n);
	else if (f->all && (s.addr != (u64)buffer + lo || s.len != hi - lo))
		fail(f, "more foretold than stored", n);
	run_on(0x5a, regs, again, (u8 *)ctl.copies_lo + s.index * DP_COPY_CODE, copy);
	if (memcmp(copy, one, BUFFER))
		fail(f, "the copy stores something else", n);
	if (memcmp(first, again, sizeof(first)))
		fail(f, "the copy leaves other registers", n);
}

int main(void)
{
	u8 *memory = mmap(NULL, 64 * 4096 + BUFFER, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	/* Far away, as in a process: no displacement reaches from one to the other. */
	u8 *far = mmap((void *)0x10000000000ull, DP_COPIES * DP_COPY_CODE, PROT_READ | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	struct dp_blob_head *head = (struct dp_blob_head *)memory;
	u32 before, i;

	if (memory == MAP_FAILED || far == MAP_FAILED)
		return 1;
	head->entry_zone_flags = 2048;
	memory[2048] = 0xc3; /* the hit: nothing */
	code = memory + 4096;
	buffer = memory + 8 * 4096;
	ctl.caps = DP_CAP_GET_FS; /* right on every machine */
	ctl.region_lo = (u64)memory;
	ctl.copies = (u64)calloc(1, sizeof(struct dp_copies));
	ctl.copies_lo = (u64)far;
	run_wide = __builtin_cpu_supports("avx") != 0;
	for (i = 0; i < sizeof(run_vectors); i++)
		run_vectors[i / 32][i % 32] = (u8)(i ^ 0x80);
	__asm__ volatile("fninit");
	printf("1..%zu\n", DP_ARRAY_SIZE(forms) + 1);
	for (i = 0; i < DP_ARRAY_SIZE(forms); i++) {
		before = failures;
		if (forms[i].vex && !run_wide) {
			printf("ok %u - %s # SKIP the processor has none\n", i + 1, forms[i].name);
			continue;
		}
		for (u32 k = 0; k < ROUNDS && failures < before + 3; k++)
			compare(&forms[i]);
		printf("%sok %u - %s: what is stored is what was foretold, and the copy does the same\n",
		       failures > before ? "not " : "", i + 1, forms[i].name);
	}
	before = failures;
	for (u32 k = 0; k < DP_ARRAY_SIZE(loads); k++) {
		struct dp_store_insn s;
		u8 bytes[DP_INSN_MAX] = {0};

		memcpy(bytes, loads[k], sizeof(loads[k]));
		dp_store_read(&s, (u64)bytes); /* some it refuses */
		if (s.size) {
			printf("# load %u: %02x %02x %02x\n", k, bytes[0], bytes[1], bytes[2]);
			failures++;
		}
	}
	printf("%sok %u - of loads nothing is foretold\n", failures > before ? "not " : "", i + 1);
	return failures != 0;
}
