/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A second interpreter, slow and suspicious, as judge of the first one and of the verifier. */
#ifndef FUZZ_REFERENCE_H
#define FUZZ_REFERENCE_H

#include "abi/abi-machine.h"
#include "../unit/machine.h"

/*
 * Run p on m as the opcode table says. Every access is checked here, though the verifier has
 * promised it: a broken promise is told in *complaint (else NULL). *trace: the stack trace of an RPN program, as in its
 * record, and whether pieces of it had no room.
 */
enum dp_run_result reference_run(struct machine *m, const struct dp_program *p, const char **complaint,
				 const u8 **trace, u32 *trace_len, bool *trace_cut);

#endif
