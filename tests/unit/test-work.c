/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a run may cost: programs that keep the machine busy in every way that their budgets of jumps, calls and handlers
 * would allow end by an exception, soon. The worst that is known of each kind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "machine.h"
#include "program/work.h"

#define WORK 20000u
#define TOO_LONG 1000000 /* ns: ten times what a kernel allows, since others use this machine, too */

static const struct kind {
	const char *name, *begin, *body, *end;
	u32 times; /* the body stands there */
} kinds[] = {
    {"jumps over much code", "push d, 65535; L: nop", "nop", "loop L; exit", 20000},
    {"copies of words", "push d, 65535; L: nop", "push d, 1; dup, 255; ros, 255", "loop L; exit", 4000},
    {"copies of words without a jump", "nop", "push d, 1023; push d, 0; dup", "exit", 3000},
    {"divisions", "push d, 65535; L: nop", "push d, 7; push d, 3; idiv; ros, 2", "loop L; exit", 2000},
    {"counters", "push d, 65535; L: nop", "inc lv, 0", "loop L; exit", 5000},
    {"words of memory", "push d, 65535; L: nop", "push d, 0x10000; push mem,u64; ros, 1", "loop L; exit", 2000},
    {"words logged", "L: nop", "push d, 0; pop lp; push d, 1; dup, 255; log, 255", "jmp L", 1000},
    {"texts logged", "L: nop", "push d, 0; pop lp; push d, 3000; push d, 0x10000; log str", "jmp L", 1000},
    {"memory logged", "push d, 65535; L: nop", "push d, 0; pop lp; push d, 3000; push d, 0x10000; log mrf",
     "loop L; exit", 1000},
    {"variables logged", "push d, 65535; L: nop", "push d, 0; pop lp; push d, 0; push d, 150; log lv", "loop L; exit",
     1000},
    {"patterns", "push d, 0x10100; str, 512; push d, 65535; L: nop",
     "strglob, \"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*ab\"; ros, 1", "loop L; exit", 100},
    {"stack traces", "push d, 0; push d, 160; trace lv; push d, 0; push d, 1024; trace pv; push d, 65535; L: nop",
     "log st; purge st", "loop L; exit", 1000},
    {"stack traces that are full", "push d, 0; push d, 160; trace lv; push d, 0; push d, 1024; trace pv", "log st",
     "exit", 60000},
    {"calls", "L: nop", "call F", "jmp L; F: ret", 1000},
    {"calls of calls",
     "call A; exit; A: call B; call B; call B; call B; call B; call B; call B; call B; ret; B: call C; call C; call C; "
     "call C; call C; call C; call C; call C; ret; C: call D; call D; call D; call D; call D; call D; call D; call D; "
     "ret; D: call E; call E; call E; call E; call E; call E; call E; call E; ret; E: nop",
     "nop", "ret", 3000},
    {"the heap", "push d, 16; malloc; push d, 65535; L: nop", "push d, 0; malloc; ros, 1; push d, 0; malloc; free",
     "loop L; exit", 1000},
    {"handlers", "L: sx L", "push d, 1; ros, 1", "push d, 65; push d, 65; pbl; exit", 4000},
    {"call chains", "nop", "push frames, 64; ros, 64", "exit", 5000},
    {"what the processor is", "nop", "push d, 0; push cpuid; ros, 4", "exit", 2000},
};

static char *source_of(const struct kind *k)
{
	size_t one = strlen(k->body), size = strlen(k->begin) + k->times * (one + 2) + strlen(k->end) + 64;
	char *text = malloc(size), *p = text;

	p += sprintf(p, "begin; %s; ", k->begin);
	for (u32 i = 0; i < k->times; i++)
		p += sprintf(p, "%s; ", k->body);
	sprintf(p, "%s", k->end);
	return text;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns of one run, the best of several; its exceptions in *n. */
static double run_of(const struct dp_program *p, u32 *n)
{
	struct machine m;
	double best = 1e12;

	machine_init(&m);
	memset(m.memory, 'a', MEMORY_SIZE - 1);
	m.memory[MEMORY_SIZE - 1] = 0;
	m.work = DP_WORK_KERNEL;
	for (u32 i = 0; i < 7; i++) {
		double begin = now();

		machine_run(&m, p);
		best = DP_MIN(best, now() - begin);
	}
	*n = m.vm->rpn.code == DP_EX_MAX_WORK ? m.hit.exceptions : 0;
	machine_free(&m);
	return best;
}

static void test_kinds(void)
{
	double worst = 0;
	const char *which = "";

	for (u32 i = 0; i < DP_ARRAY_SIZE(kinds); i++) {
		struct dp_program p = {.rpn = {.ex_mask = DP_RPN | DP_EX_DEFAULT,
					       .max = DP_MAXHITS_NONE,
					       .heap = DP_HEAP_MAX,
					       .ex_logmax = DP_EX_LOG_MAX},
				       .jmpmax = DP_JMPMAX,
				       .logmax = 4000,
				       .nlocals = 160};
		char *text = source_of(&kinds[i]);
		struct dp_error err = {0};
		double ns = 0;
		u32 n = 0;

		if (!assemble(&p, text) || dp_program_verify(&p, false, &err)) {
			ok(false, "%s: %u bytes, %s", kinds[i].name, p.len, err.detail);
		} else {
			ns = run_of(&p, &n);
			ok(n && ns < TOO_LONG, "%s: %u bytes end by the exception in %.0f us", kinds[i].name, p.len,
			   ns / 1000);
		}
		if (ns > worst) {
			worst = ns;
			which = kinds[i].name;
		}
		dp_program_free(&p);
		free(text);
	}
	printf("# figure: the longest run of a program in the kernel, %s: %.0f us\n", which, worst / 1000);
}

/* Its handler has some more, once. */
static void test_handler(void)
{
	static const struct {
		const char *text, *what;
		u64 first, second;
		u32 exceptions;
	} cases[] = {
	    {"begin; sx H; push d, 65535; L: nop; nop; loop L; exit; H: pop lv, 0; pop lv, 1; exit",
	     "a handler is told of it, and what it was", DP_EX_MAX_WORK, WORK, 1},
	    {"begin; sx H; push d, 65535; L: nop; nop; loop L; exit; H: pop lv, 0; push d, 65535; M: inc lv, 1; "
	     "loop M; exit",
	     "a handler that goes on for ever is ended, too", DP_EX_MAX_WORK, 0, 2},
	    {"begin; sx H; push d, 20; L: nop; loop L; push d, 1; pop lv, 1; exit; H: pop lv, 0; exit",
	     "work that is allowed is none of it", 0, 1, 0},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(cases); i++) {
		struct dp_program p = {.rpn = {.ex_mask = DP_RPN | DP_EX_DEFAULT, .max = DP_MAXHITS_NONE},
				       .jmpmax = DP_JMPMAX,
				       .logmax = 64,
				       .nlocals = 2};
		struct machine m;

		machine_init(&m);
		m.work = WORK;
		if (assemble(&p, cases[i].text) && !dp_program_verify(&p, false, NULL))
			machine_run(&m, &p);
		ok(m.locals[0] == cases[i].first && (m.hit.exceptions > 1 || m.locals[1] == cases[i].second) &&
		       m.hit.exceptions == cases[i].exceptions,
		   "%s (%llu, %llu, %u exceptions)", cases[i].what, (unsigned long long)m.locals[0],
		   (unsigned long long)m.locals[1], m.hit.exceptions);
		machine_free(&m);
		dp_program_free(&p);
	}
}

int main(void)
{
	test_kinds();
	test_handler();
	return done();
}
