/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What instructions of probe programs cost, interpreted and compiled, without the hit around them:
 * the same programs on the tests' machine, in turn, so that whatever else the computer does meets
 * both alike. Medians.
 *
 * Usage: bench-rpn [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../tests/unit/machine.h"
#include "arch/compile.h"
#include "bench.h"
#include "hit/hit-rpn.h"

#define CODE_SIZE (1 << 20)
#define RUNS 2000
#define MAX_ROUNDS 2000

static const struct program {
	const char *name, *text;
	unsigned ops;  /* that the row is divided by: instructions that run beyond those of the empty
			 program; 0: the whole run */
	unsigned base; /* program to subtract */
} programs[] = {
    {"empty program", "begin; exit", 0, 0},
    {"arithmetic, straight (16 instructions)",
     "begin; push r, di; push d, 4; add; push d, 3; mul; push d, 7; xor; push r, si; sub; push r, "
     "cx; or; shl 3; push r, dx; "
     "and; neg; ros 1; exit",
     16, 0},
    {"arithmetic, loop of 12 instructions",
     "begin; push d, 1000; push r, di; xchg; L: xchg; push d, 4; add; push d, 3; xor; push r, si; "
     "sub; push d, 5; mul; xchg; nop; "
     "loop L; exit",
     12003, 0},
    {"variables, loop of 8 instructions",
     "begin; push d, 1000; L: push lv, 0; push lv, 1; add; pop lv, 0; push d, 5; pop lv, 2; nop; "
     "loop L; exit",
     8001, 0},
    {"false predicate: push, push, compare, jump, abort", "begin; push r, di; push d, 5; eq; jnz L; abort; L: exit", 0,
     0},
    {"calls: loop of call, ret, loop", "begin; push d, 1000; L: call F; loop L; exit; F: ret", 3001, 0},
    {"4 words logged (10 instructions)",
     "begin; inc lv, 0; push r, di; push r, si; push r, dx; push r, cx; push d, 4; add; log 4; "
     "exit",
     0, 0},
};
#define N (sizeof(programs) / sizeof(programs[0]))

static struct machine machines[N];
static u8 *code[N];
static unsigned char *at;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static bool prepare(unsigned i)
{
	static const u64 services[] = {
#define DP_SERVICE(name) (u64) name,
#include "abi/services.def"
	};
	struct machine *m = &machines[i];
	struct dp_program p = {.jmpmax = 65535,
			       .logmax = 500,
			       .nlocals = 8,
			       .rpn = {.ex_mask = DP_RPN | DP_EX_DEFAULT, .max = DP_MAXHITS_NONE}};
	struct dp_rpn_jit jit = {.services = services, .rt = &m->rt, .always = true};
	struct dp_error err = {0};
	struct dp_emit e;

	if (!assemble(&p, programs[i].text) || dp_program_verify(&p, false, &err)) {
		printf("%s: %s\n", programs[i].name, err.detail);
		return false;
	}
	machine_init(m);
	dp_program_to_rt(&p, &m->rt);
	m->rt.code = (u64)p.code;
	m->rt.locals = (u64)m->locals;
	m->rt.globals = (u64)m->globals;
	m->rt.gate = (u64)&m->gate;
	jit.code = p.code;
	dp_emit_init(&e, at, 65536, (u64)at);
	if (dp_rpn_jit_compile(&e, &jit))
		return false;
	code[i] = at;
	at += DP_ALIGN_UP(e.len, 64);
	return true;
}

static double once(unsigned i, bool compiled)
{
	struct machine *m = &machines[i];
	double start;

	m->rt.compiled = compiled ? (u64)code[i] : 0;
	start = now();
	for (unsigned k = 0; k < (programs[i].ops > 1000 ? RUNS / 200 : RUNS); k++)
		dp_vm_run(&m->hit);
	return (now() - start) / (programs[i].ops > 1000 ? RUNS / 200 : RUNS);
}

int main(int argc, char **argv)
{
	static double ns[N][2][MAX_ROUNDS];
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 400;
	double v[N][2];

	rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
	at = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return 1;
	for (unsigned i = 0; i < N; i++)
		if (!prepare(i))
			return 1;
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned i = 0; i < N; i++)
			for (unsigned c = 0; c < 2; c++)
				ns[i][c][r] = once(i, c);
	printf("## Cost of instructions\n\n%u rounds in turn; medians, ns.\n\n", rounds);
	printf("| %-50s | interpreted | compiled | ratio |\n|---|--:|--:|--:|\n", "program");
	for (unsigned i = 0; i < N; i++) {
		for (unsigned c = 0; c < 2; c++) {
			v[i][c] = bench_median(ns[i][c], rounds);
			if (programs[i].ops)
				v[i][c] = (v[i][c] - v[programs[i].base][c]) / programs[i].ops;
		}
		printf("| %-50s | %8.2f%s | %8.2f%s | %.1f |\n", programs[i].name, v[i][0],
		       programs[i].ops ? " an instr." : "", v[i][1], programs[i].ops ? " an instr." : "",
		       v[i][0] / v[i][1]);
	}
	return 0;
}
