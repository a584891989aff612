/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Code that keeps the numbers of system calls of which only the hit knows which they are (struct dp_jit_calls). */
#ifndef DP_COMPILE_CALLS_H
#define DP_COMPILE_CALLS_H

#include "base/emit.h"
#include "host/process/session-priv.h"

/* dp_spot.calls: it has such code, or another spot at its address has, which serves all of them. */
enum { DP_CALLS_NONE, DP_CALLS_OWN, DP_CALLS_SHARED };

/*
 * The steps of process-compile.c; n spots are all that will be there. Returns the bytes of code, of which `size` are
 * there before.
 */
u64 dp_calls_lay_out(struct dp_session *s, struct dp_spot *spots, u32 n, u64 size);
/* The places of the spots that have code are addresses now. */
void dp_calls_share(const struct dp_session *s, struct dp_spot *spots, u32 n);
/* The code of that spot, to run at an address. False: it cannot be used there. */
bool dp_calls_write(const struct arming *a, const struct dp_spot *spots, u32 n, const struct dp_spot *sp, u64 at,
		    u8 *to);

/* Where a program's code is to run, and for what. */
struct dp_compile_for {
	const struct dp_control *ctl;
	u64 entry, addr;
	bool shared; /* for all spots that are alike */
	bool is_way; /* for one call (struct dp_jit) */
	u32 number;
};

/* process-compile.c: the program of a spot, into DP_JIT_MAX bytes. */
int dp_compile_spot(const struct dp_session *s, const struct dp_spot *sp, const struct dp_compile_for *to, u8 *buf,
		    struct dp_emit *e);
/* Whether its program is not there yet, and whether it may be compiled; and programs. */
bool dp_compile_is_due(const struct dp_session *s, const struct dp_probe *p);
bool dp_compile_is_wanted(const struct dp_session *s, const struct dp_spot *sp);
/* The bytes alone; or also what else a program has. */
bool dp_compile_has_same_code(const struct dp_program *a, const struct dp_program *b);
bool dp_compile_is_same(const struct dp_program *a, const struct dp_program *b);

#endif
