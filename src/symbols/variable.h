/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory by the name that a programmer gives it: "dirty", "server.dirty", "list->head[2].refs". Pointers on the
 * way are followed as they are now. Control side only.
 */
#ifndef DP_VARIABLE_H
#define DP_VARIABLE_H

#include "symbols/symbols.h"

struct dp_variable {
	u64 addr;	  /* run-time address */
	u64 size;	  /* bytes; 0: not known */
	const char *type; /* as event lines name it: "s32", "x64", ...; NULL: not a number of 1 to 8 bytes, or not known */
};

/*
 * NAME followed by any of .FIELD, ->FIELD and [INDEX]. A name alone needs a symbol only; the rest needs debug
 * information. read: copies memory of the process, false when it is not there. Errors: E_SYM_NONE, E_LINE_NODEBUG,
 * E_VAR_NONE, E_VAR_GONE, E_PLACE_SYNTAX, E_PLACE_FIELD, E_PLACE_POINTER.
 */
int dp_variable_find(struct dp_image *im, const char *text, bool (*read)(void *arg, u64 addr, void *buf, u32 len),
		  void *arg, struct dp_variable *out, struct dp_error *err);

#endif
