/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The compiler from verified programs of the Dynamic Probes language to machine code. A compiled
 * program is a function that does at a hit what dp_vm_run() does. Where it comes to something that
 * it does not know, or that fails, it writes the whole state of the machine out and goes on in the
 * interpreter (dp_vm_go) at that very instruction, for the rest of the run.
 */
#ifndef DP_RPN_JIT_H
#define DP_RPN_JIT_H

#include "arch/x86_64/relocate.h"

struct dp_code_rt;

/* The functions of the hit path that compiled programs call. */
enum dp_service {
#define DP_SERVICE(name) DP_SERVICE_##name,
#include "abi/services.def"
	DP_NSERVICES
};

struct dp_rpn_jit {
	const u8 *code;              /* the bytecode, here */
	const struct dp_code_rt *rt; /* as in the probed world, its addresses too; rt->code is
					looked up when the program runs */
	const u64 *services;         /* run addresses, DP_NSERVICES of them */
	bool always;                 /* even if most of the program is left to the interpreter */
	bool whole;                  /* write the stack out at the end of a run, too: for comparisons */
	/* output: instructions that may be reached, and those of them that lead to the interpreter
	 * for good */
	u32 ninsns, nleft;
};

/* Bytes that surely hold a program of that length. */
static inline size_t dp_rpn_jit_room(u32 len)
{
	return 4096 + 192 * (size_t)len;
}

/*
 * Compile into e, to run at e->addr. The length depends on the program alone, not on addresses.
 * Returns 0; -EOPNOTSUPP: nothing is gained; -ENOMEM; -ERANGE: it does not fit.
 */
int dp_rpn_jit_compile(struct dp_emit *e, struct dp_rpn_jit *in);

#endif
