/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Static probes: places that the source of a program names (DTRACE_PROBE and its like of <sys/sdt.h>). Notes of the
 * file tell where they are and where their arguments stand. Anybody may have made a file: what is handed out was
 * checked.
 */
#ifndef DP_STATICS_H
#define DP_STATICS_H

#include "symbols/symbols.h"

struct dp_static {            /* one place; several may have one name */
	const char *provider; /* printable, as is all text here */
	const char *name;
	const char *args; /* operands of the assembler, with a size in front of each: "8@%rdi -4@-20(%rbp)" */
	u64 addr;         /* link-time address, in executable memory */
	u64 semaphore;    /* of a 16-bit count of those who look, in writable memory; 0: there is none */
};

/* All of the module, sorted by address; they live as long as it does. Their number. */
u32 dp_module_statics(struct dp_module *m, const struct dp_static **v);

/* Whether a shell pattern means it: NAME, PROVIDER:NAME or PROVIDER__NAME. */
bool dp_static_matches(const struct dp_static *s, const char *pattern);

/* Why a program that has it may never, or seldom, pass it, and what to ask for instead; NULL: nothing is known. */
const char *dp_static_caveat(struct dp_module *m, const struct dp_static *s);

/* Of the static probe at this address; 0: none is there, or it has none. */
u64 dp_module_semaphore(struct dp_module *m, u64 addr);

#endif
