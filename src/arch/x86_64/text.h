/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The analysis of a module's code: at which addresses control may arrive other than by falling
 * through, and in which functions that cannot be proven. Of the whole module (dp_code_analyse: one linear
 * pass over all functions, then one over all jump tables), or of what is asked for (dp_code_know), with
 * the same result there. Kernel-clean; it reads bytes and writes bitmaps and flags, nothing else.
 */
#ifndef DP_ARCH_TEXT_H
#define DP_ARCH_TEXT_H

#include "arch/x86_64/site.h"

struct dp_code_text { /* one executable range; t.funcs, t.targets and t.starts point to the arrays
			 below */
	struct dp_text t;
	struct dp_func *funcs;
	u8 *targets;
	u8 *starts;
	bool gap; /* private: the bytes behind the last function have been seen */
};

struct dp_code_data { /* readable bytes that are not code: jump tables lie there */
	u64 lo, hi;
	const u8 *bytes;
};

struct dp_table; /* private to text.c */
struct dp_jump;

struct dp_analysis {
	struct dp_code_text *texts; /* sorted by lo */
	u32 ntexts;
	const struct dp_code_data *data; /* sorted by lo */
	u32 ndata;
	bool absolute; /* linked to a fixed address: constants in instructions may be code addresses
			*/
	u64 rewound;   /* calls of this function may be executed again (Go's deferreturn), 0: none */

	bool prepared;           /* private: jump tables are done: no function that is walked later has one */
	bool complete;           /* private: everything has been walked */
	u32 nknown;              /* private: so many functions were asked for one by one */
	struct dp_table *tables; /* private: candidates for jump tables, by function */
	u32 ntables, tables_cap;
	struct dp_jump *jumps; /* private: indirect jumps with computed targets */
	u32 njumps, jumps_cap;
	bool short_of_memory;
};

/* The range that contains addr, or NULL. */
struct dp_code_text *dp_code_at(const struct dp_analysis *c, u64 addr);

/* Say that control may arrive at addr; no effect outside the code. Order and repetition do not
 * matter. */
void dp_code_mark(struct dp_analysis *c, u64 addr);

/* The same for an address that is used as a pointer: a function that begins there is an entry. */
void dp_code_take(struct dp_analysis *c, u64 addr);

/* Bytes of the module at addr, code or data; NULL unless n of them are there. */
const u8 *dp_code_bytes(const struct dp_analysis *c, u64 addr, u64 n);

/*
 * Find everything that the code itself tells; addresses found in data, landing pads and symbols are
 * to be marked by the caller, before or afterwards. The bitmaps must be zeroed and as long as the
 * range. Sets starts, targets, the flags DP_FUNC_UNPROVEN, _FALLEN and (where there is no name)
 * _PART, and shortens functions that are DP_FUNC_OPEN. Returns 0 or -ENOMEM.
 */
int dp_code_analyse(struct dp_analysis *c);

/*
 * The same for the function that contains addr, and what a judge or a search for exits looks at around it. It costs a
 * twentieth of the whole, most of that once a module; when many functions have been asked for, the whole is done.
 * Whatever the caller marks it has marked before.
 */
int dp_code_know(struct dp_analysis *c, u64 addr);

/* The end and the flags of a function are final, though perhaps not who branches into it. */
int dp_code_settle(struct dp_analysis *c, const struct dp_func *f);

/* Release what the analysis has allocated. */
void dp_code_release(struct dp_analysis *c);

/*
 * Exits of the function that begins at addr: returns, tail calls, and those of its parts. At most
 * max are stored. `internal` decides about an indirect jump that goes through memory or an unknown
 * value: 1 it stays inside [lo, hi), 0 it leaves, negative errno: unknown. `table` is the address
 * of the 8-byte table that it reads, or 0. Returns their number, or E_SITE_NOFUNC, E_FUNC_EXITS.
 */
struct dp_exit_env {
	int (*internal)(void *arg, const struct dp_func *f, u64 table);
	void *arg;
};

int dp_code_exits(struct dp_analysis *c, u64 addr, const struct dp_exit_env *env, u64 *exits, int max,
		  struct dp_error *err);

#endif
