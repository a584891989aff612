/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between locations.c and callers.c: a location expression as it becomes text. */
#ifndef DP_LOCATIONS_PRIV_H
#define DP_LOCATIONS_PRIV_H

#include "symbols/vars-priv.h"

#define NESTING_MAX 8 /* the most that is needed: an entry value, by a call, by its frame base, by its frame, by ours */

struct out {
	struct var_place *p;
	char *text;
	size_t n, size;
	u32 nesting;
	u64 caller_pc; /* 0, or behind the call: what is asked is asked in the caller's frame there */
	Dwarf_Die caller;
};

/* Sets the reason, unless there is one. Returns false. */
bool dp_loc_fail(struct out *o, const char *why);
bool dp_loc_put(struct out *o, const char *fmt, ...) DP_PRINTF(2, 3);
bool dp_loc_put_deref(struct out *o, u64 size); /* (address -- value) */
bool dp_loc_expression(struct out *o, Dwarf_Attribute *attr, const Dwarf_Op *ops, size_t n);

/* Pushes the canonical address of the probed function's frame, whoever asks. */
bool dp_loc_frame(struct out *o);

/*
 * The value that a register had when the probed function was entered: by what the call sites of the function say of it,
 * as far as they are known. When the function was called from elsewhere, the text raises a fault.
 */
bool dp_loc_entry_value(struct out *o, u64 number);
/* A register of the caller at the call, see struct out. */
bool dp_loc_caller_register(struct out *o, u64 number, s64 offset);

#endif
