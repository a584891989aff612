/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Random programs, and random machines to run them on. */
#ifndef FUZZ_PROGRAMS_H
#define FUZZ_PROGRAMS_H

#include "../unit/machine.h"

extern u64 state; /* of the random numbers; not 0 */

u32 below(u32 n);

enum programs {
	PROGRAMS_ALL,  /* of both kinds */
	PROGRAMS_RPN,  /* of the Dynamic Probes language */
	PROGRAMS_CALM, /* the same, with few instructions that fail or end the run */
};

/* Free it with layout.fields set to NULL. Most of them pass the verifier. */
void make_program(struct dp_program *p, enum programs which);

/* The same machine for the same seed. */
void furnish(struct machine *m, u64 seed);

#endif
