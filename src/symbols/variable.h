/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory by the name that a programmer gives it: "dirty", "server.dirty", "list->head[2].refs". Pointers on the
 * way are followed as they are now. Control side only.
 */
#ifndef DP_VARIABLE_H
#define DP_VARIABLE_H

#include "symbols/vars.h"

struct dp_variable {
	u64 addr; /* run-time address */
	u64 size; /* bytes; 0: not known */
	const char
	    *type; /* as event lines name it: "s32", "x64", ...; NULL: not a number of 1 to 8 bytes, or not known */
};

/*
 * NAME followed by any of .FIELD, ->FIELD and [INDEX]. A name alone needs a symbol only; the rest needs debug
 * information. read: copies memory of the process, false when it is not there. Errors: E_SYM_NONE, E_LINE_NODEBUG,
 * E_VAR_NONE, E_VAR_GONE, E_PLACE_SYNTAX, E_PLACE_FIELD, E_PLACE_POINTER.
 */
int dp_variable_find(struct dp_image *im, const char *text, bool (*read)(void *arg, u64 addr, void *buf, u32 len),
		     void *arg, struct dp_variable *out, struct dp_error *err);

/* From an argument in a register to memory: each offset but the last leads to the word that is the next pointer. */
#define DP_WAY_MAX 8

struct dp_way {
	char reg[8];
	u32 n; /* offsets, at least 1 */
	u64 offsets[DP_WAY_MAX];
	u64 size; /* as in struct dp_variable */
	const char *type;
};

/*
 * ARGUMENT->FIELD, ARGUMENT[INDEX] and so on at the instruction at pc (a link-time address). E_VAR_* besides the errors
 * of the others.
 */
int dp_variable_way(struct dp_module *m, u64 pc, const char *text, struct dp_way *way, struct dp_error *err);

/*
 * The type of such a place (without typedefs; *typed: there is one) and its size (0: not known), without a process. The
 * same errors.
 */
int dp_variable_type(struct dp_module *m, const char *text, bool *typed, Dwarf_Die *type, u64 *size,
		     struct dp_error *err);

#endif
