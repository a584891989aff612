/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * For tests of programs: a machine to run them on, with a little memory of its own, and an assembler
 * that turns the disassembler's notation back into code. The interpreter comes from src/hit/vm.c.
 */
#ifndef TEST_MACHINE_H
#define TEST_MACHINE_H

#include "abi/abi-control.h"
#include "abi/abi-machine.h"
#include "abi/abi-program.h"
#include "abi/abi-regs.h"
#include "hit/vm.h"
#include "lang/event/event.h"
#include "program/code.h"

#define MEMORY_BASE 0x10000ull /* readable and writable; everything else faults */
#define MEMORY_SIZE 4096u
#define STACK_BASE 0x7f0000ull
#define STACK_SIZE 512u

struct machine {
	struct dp_hit hit;
	struct dp_regs regs;
	struct dp_control ctl;
	struct dp_code_rt rt;
	struct dp_vm *vm;
	u64 locals[512], globals[8];
	u8 memory[MEMORY_SIZE], stack[STACK_SIZE];
	u64 gate;
	u32 reads; /* calls of the memory services */
	u32 dumps;
	u64 apart;        /* added to what processors keep apart, */
	bool keeps_apart; /* if they do */
	u32 work;         /* what a run may cost */
	bool read_only;   /* memory */
	bool other_way;   /* of the questions for user and parent, the second is answered, and not the first */
	const char *comm;
};

/* Known values of the processor's state, see dp_hit_fxsave() and dp_hit_segment() in machine.c. */

/* A machine with known registers and memory. */
void machine_init(struct machine *m);
void machine_free(struct machine *m);

/* Run a program that was verified. */
enum dp_run_result machine_run(struct machine *m, const struct dp_program *p);

const u8 *machine_payload(const struct machine *m);
u64 machine_u64(const struct machine *m, u32 at); /* of the payload */

/*
 * Assemble "push d, 3; push r, ax; add; L1: jnz L1" into p (code only). Labels are words ending in a colon.
 * False, with a complaint on stdout, when the text is wrong.
 */
bool assemble(struct dp_program *p, const char *text);

/*
 * The fields of a record as "name=value name=value"; faulted ones as (fault). Values as the types want
 * them, strings in quotes, arrays in braces.
 */
void show_record(const struct machine *m, const struct dp_layout *layout, char *buf, size_t size);

/* TAP */
bool ok(bool good, const char *fmt, ...) DP_PRINTF(2, 3);
int done(void); /* prints the plan, returns the exit status */

/* xorshift */
u64 next_random(u64 *state);

#endif
