/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is told of runs before the hit: a few programs as they are written for system calls, and random ones, which are
 * then run, with all else unlike: whoever was said to do nothing must do nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "program/foretell.h"

#define KNOWN DP_REG_WORD(orig_ax)
#define ROUNDS 60000u
#define PIECES 14u

static const struct dp_program empty = {.rpn = {.ex_mask = DP_RPN, .max = DP_MAXHITS_NONE, .ex_logmax = DP_EX_LOG_MAX},
					.jmpmax = DP_JMPMAX,
					.logmax = 400,
					.nlocals = 4};

static bool told(const struct dp_program *p, u64 v)
{
	const struct dp_known_word known = {KNOWN, v};
	struct dp_code_rt rt;

	dp_program_to_rt(p, &rt);
	return dp_program_is_idle(p->code, p->len, &rt, &known, 1);
}

static void test_cases(void)
{
	static const struct {
		const char *text, *what;
		u64 v;
		bool idle;
	} cases[] = {
	    {"begin; push r, orig_ax; push d, 0; ge; jnz L; inc lv, 0; L: abort", "a number that is kept", 5, true},
	    {"begin; push r, orig_ax; push d, 0; ge; jnz L; inc lv, 0; L: abort", "no number", ~0ull, false},
	    {"begin; call F; abort; F: save tsp; restore sbp; push d, 0; dup, 1; push r, orig_ax; pop sbp, -1; "
	     "push sbp, -1; push d, 3; eq; jz L; exit; L: ros, 1; abort",
	     "a variable of a function", 4, true},
	    {"begin; call F; abort; F: save tsp; restore sbp; push d, 0; dup, 1; push r, orig_ax; pop sbp, -1; "
	     "push sbp, -1; push d, 3; eq; jz L; exit; L: ros, 1; abort",
	     "the other value", 3, false},
	    {"begin; push d, 2; push d, 12; shr; push r, orig_ax; eq; jnz L; exit; L: abort", "a shift", 3, true},
	    {"begin; push r, di; jz L; abort; L: abort", "a register that is not known", 3, false},
	    {"begin; push r, orig_ax; push d, 8; push mem,u64; ros, 1; abort", "memory is read", 3, false},
	    {"begin; L: jmp L", "no end", 3, false},
	    {"begin; call F; exit; F: ret", "behind a return", 3, false},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(cases); i++) {
		struct dp_program p = empty;
		struct dp_error err = {0};

		ok(assemble(&p, cases[i].text) && !dp_program_verify(&p, false, &err) &&
		       told(&p, cases[i].v) == cases[i].idle,
		   "%s: %s", cases[i].what, cases[i].idle ? "it does nothing" : "that cannot be told");
		ok(dp_program_reads(p.code, p.len, KNOWN) == !!strstr(cases[i].text, "orig_ax"),
		   "whether it reads the word");
		dp_program_free(&p);
	}
}

static void test_counted(void)
{
	struct dp_program p = empty;

	p.rpn.pass = 3;
	ok(assemble(&p, "begin; abort") && !told(&p, 0), "a program whose hits are counted does something");
	dp_program_free(&p);
}

/* ---- random ones ---- */

static const char *const pieces[] = {
    "push d, 0",
    "push d, 1",
    "push d, 3",
    "push d, -1",
    "push r, orig_ax",
    "push r, orig_ax",
    "push r, orig_ax",
    "push r, di",
    "push r, rax",
    "add",
    "sub",
    "and",
    "xor",
    "neg",
    "eq",
    "lt",
    "ltu",
    "lnot",
    "bool",
    "sx32",
    "zx8",
    "shl, 2",
    "shr, 1",
    "shr",
    "shl",
    "xchg",
    "dup, 2",
    "ros, 1",
    "push tsp, 1",
    "save tsp; restore sbp",
    "push sbp, -1",
    "pop sbp, 0",
    "push sbp, 1",
    "push d, 2; pop sbp, -1",
    "inc lv, 0",
    "pop lv, 1",
    "jnz L%u",
    "jz L%u",
    "jlt L%u",
    "jge L%u",
    "jmp L%u",
    "call L%u",
    "jz L%u",
    "jnz L%u",
    "push d, 9; log, 1",
    "abort",
    "exit",
    "save sbp",
};

static void write_program(char *text, u64 *random)
{
	char *p = text + sprintf(text, "begin; push r, orig_ax; push d, 3; push d, 5; push r, orig_ax; ");

	for (u32 i = 0; i < PIECES; i++) {
		u32 to = i + 1 + (u32)(next_random(random) % (PIECES - i));

		p += sprintf(p, "L%u: ", i);
		p += sprintf(p, pieces[next_random(random) % DP_ARRAY_SIZE(pieces)], to);
		p += sprintf(p, "; ");
	}
	sprintf(p, "L%u: abort", PIECES);
}

/* At some hits where the word is v. */
static bool does_nothing(const struct dp_program *p, u64 v, u64 *random)
{
	struct machine m;
	bool good = true;

	for (u32 i = 0; i < 4 && good; i++) {
		u64 di, ax;

		machine_init(&m);
		m.work = 1000000;
		m.regs.di = di = next_random(random) >> next_random(random) % 64;
		m.regs.ax = ax = next_random(random) >> next_random(random) % 64;
		m.regs.orig_ax = v;
		good = machine_run(&m, p) == DP_RUN_FILTERED && !m.locals[0] && !m.locals[1] && m.regs.di == di &&
		       m.regs.ax == ax && !m.hit.exceptions;
		machine_free(&m);
	}
	return good;
}

static void test_random(void)
{
	u32 nidle = 0, nother = 0, nwrong = 0;
	char text[2048], wrong[2048] = "";
	u64 random = 88172645463325252ull;

	for (u32 i = 0; i < ROUNDS; i++) {
		struct dp_program p = empty;
		struct dp_error err = {0};
		u64 v = next_random(&random) % 8;

		write_program(text, &random);
		if (assemble(&p, text) && !dp_program_verify(&p, false, &err)) {
			bool idle = told(&p, v);

			nidle += idle;
			nother += !idle;
			if (idle && !does_nothing(&p, v, &random)) {
				nwrong++;
				memcpy(wrong, text, sizeof(wrong));
			}
		}
		dp_program_free(&p);
	}
	ok(!nwrong, "of %u programs %u are said to do nothing, and do nothing", nidle + nother, nidle);
	if (nwrong)
		printf("# %u of them do, such as %s\n", nwrong, wrong);
	ok(nidle > 1000 && nother > 1000, "there are some of both");
}

int main(void)
{
	test_cases();
	test_counted();
	test_random();
	return done();
}
