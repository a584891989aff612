/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between vars.c, which finds variables, and locations.c, which tells where they are. */
#ifndef DP_VARS_PRIV_H
#define DP_VARS_PRIV_H

#include "symbols/module-priv.h"
#include "symbols/vars.h"

struct var_place { /* the instruction from which a variable is looked at */
	struct dp_module *m;
	u64 pc;
	Dwarf_Die cu;
	Dwarf_Die func; /* the function whose frame this is, not an inlined one */
	bool has_func;
	const char *copy_of; /* see dp_var_find() */
	const char *why;     /* set by whoever fails */
};

/* Pieces of a location expression; false: why is set. attr: the attribute that it comes from. */
bool dp_var_locate(struct var_place *p, Dwarf_Attribute *attr, Dwarf_Op *ops, size_t n, struct dp_var *v);

/*
 * Code that turns a variable's place in the module's thread-local block, which is on the stack, into its address in the
 * running thread; NULL, or why there is none.
 */
const char *dp_mod_tls_code(struct dp_module *m, char *buf, size_t size);

#endif
