/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Random programs of the kinds that direct code is made of (dp_jit_compile()), for tests. */
#ifndef TEST_JIT_PROGRAMS_H
#define TEST_JIT_PROGRAMS_H

#include "program/program.h"

/* Of local variables: words, a table of keys of one word, one of two words with sums, an aggregate of any kind. */
#define JIT_WORDS 8u
#define JIT_KEYS 16u
#define JIT_SUMS (JIT_WORDS + 1 + 3 * JIT_KEYS)
#define JIT_FOLDED (JIT_SUMS + 1 + 5 * JIT_KEYS)
#define JIT_LOCALS (JIT_FOLDED + DP_QUANTILE_WORDS)

extern u64 jit_random;        /* what comes next */
extern bool jit_behind_calls; /* programs look at the number of a system call */
extern bool jit_reads;        /* and at memory */

u32 jit_below(u32 n);
u64 jit_any_value(void);
u64 jit_any_pointer(void); /* into the memory of a machine (machine.h) */

/* An event, of a return or not; a program of the Dynamic Probes language. Their code is the caller's to free. */
void jit_make_event(struct dp_program *p, bool in_return);
void jit_make_plain(struct dp_program *p);

/* Some keys are in the tables. */
void jit_fill_tables(u64 *locals);

#endif
