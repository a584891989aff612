/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Two compilers of verified programs: of small ones to code that a detour calls instead of the entry, and of those of
 * the Dynamic Probes language to functions. Freestanding.
 */
#ifndef DP_COMPILE_H
#define DP_COMPILE_H

#include "abi/abi-slot.h"
#include "base/emit.h"

struct dp_code_rt;
struct dp_control;

/*
 * Code for an instruction that calls the system, of which only the hit knows which call it makes, and for the hit
 * behind it: it keeps the number of a call whose beginning no program asks for, in the thread's slot, and takes it from
 * there where the end is of no interest either. At other ends it goes on to the program's code for that number, if it
 * has some. Other calls, and all that is not in the usual state, are left to the general entry.
 */
struct dp_jit_calls {
	bool is_end;
	u8 numbers[DP_KEPT_CALLS / 8]; /* bit NR: no program has anything to do here at that call */
	u64 ways;                      /* address of a struct dp_jit_ways; 0: none */
};

/*
 * By number: how far from here the code is entered that was compiled for an end of that call, in DP_JIT_ALIGN. 0: there
 * is none; 1: no program has anything to do.
 */
struct dp_jit_ways {
	u16 v[DP_KEPT_CALLS];
};

/* What the code is compiled for. Addresses are those of the probed world. */
struct dp_jit {
	const struct dp_control *ctl; /* rings, counts, offsets and capabilities; only these are looked at */
	u64 entry;                    /* the general entry of this kind: does the whole job where the code does not */
	u32 point;
	u32 event;
	u64 addr;    /* of the probed instruction */
	bool flags;  /* arithmetic flags are live */
	bool zone;   /* the detour has stepped over the red zone */
	bool shared; /* by points that have stubs: point and event are theirs, and not known here */
	const struct dp_jit_calls *calls; /* nothing but that code, and no program; else NULL */
	bool loads;                       /* memory: the process's calls that take it back have guards */
	bool is_way;                      /* entered from such code, at the end of this call: */
	u32 number;
	u64 stub_to;                 /* only that stub is made, to shared code with its DP_JIT_ENTRY there; 0: code */
	const struct dp_code_rt *rt; /* of a program of the Dynamic Probes language, with its addresses; else NULL */
};

#define DP_JIT_MAX 2048   /* most bytes that one program may become */
#define DP_JIT_ALIGN 32u  /* of e->addr */
#define DP_JIT_ENTRY 128u /* where the code begins; descriptions of its sequences stand before it */
#define DP_JIT_STUB 16u   /* most bytes of a stub */

/*
 * Compile a program that was verified. The code at DP_JIT_ENTRY is entered like the general entry (see hit-entry.S),
 * counts one hit and its outcome, and returns with all registers as they were; or it changes nothing and goes to the
 * general entry, where the thread or the ring is not in the usual state.
 * Its length does not depend on addresses, nor on what ctl holds.
 * Many points of one program that share its code take fewer lines of the processor's caches than each with code of its
 * own. Their stubs are entered instead of it.
 * Returns 0; -EOPNOTSUPP: the program has something that is left to the interpreter; -ERANGE: too far from the entry or
 * the rings, or too long.
 */
int dp_jit_compile(struct dp_emit *e, const u8 *code, u32 len, const struct dp_jit *jit);

/* Whether compiled code can work in a world with these capabilities. */
bool dp_jit_usable(const struct dp_control *ctl);

/* ---- programs of the Dynamic Probes language ---- */

/* The functions of the hit path that compiled programs call. */
enum dp_service {
#define DP_SERVICE(name) DP_SERVICE_##name,
#include "abi/services.def"
	DP_NSERVICES
};

/*
 * A compiled program is a function that does at a hit what dp_vm_run() does. Where it comes to something that it does
 * not know, or that fails, it writes the whole state of the machine out and goes on in the interpreter (dp_vm_go) at
 * that very instruction, for the rest of the run.
 */
struct dp_rpn_jit {
	const u8 *code;              /* the bytecode, here */
	const struct dp_code_rt *rt; /* as in the probed world, its addresses too; rt->code is
					looked up when the program runs */
	const u64 *services;         /* run addresses, DP_NSERVICES of them */
	bool always;                 /* even if most of the program is left to the interpreter */
	bool near;                   /* the services are in reach of the code, which calls them directly */
	bool sealed;                 /* functions begin with an instruction for indirect calls */
	u64 leave;                   /* near: of a function that only returns, to be gone to for that; 0: none */
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
