/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Places of the running kernel and its modules. BTF knows functions alone; what it does not know (source lines,
 * instructions inside of functions, functions that are inlined everywhere) is looked up in the debug file of the kernel
 * or the module, if there is one.
 */
#include <string.h>

#include "lang/dpcc/dpcc-unit.h"
#include "symbols/kallsyms.h"

/* Whether there is one: c.mod from now on. */
static bool use_debug(struct unit *u)
{
	const char *module = u->modtype == DP_RPN_KMOD ? u->modname : NULL;

	if (!u->debug && !u->no_debug.code && dp_kernel_debug_open(module, &u->debug, &u->no_debug))
		u->debug = NULL;
	else if (!u->c.mod && u->debug && !u->has_told)
		dp_cc_unit_tell_much(u, u->debug);
	u->has_told = true;
	u->c.mod = u->debug;
	return u->debug;
}

void dp_cc_unit_use_debug(struct unit *u, const struct tok *where)
{
	if (!use_debug(u))
		dp_cc_refail(&u->c, where, &u->no_debug);
}

static int count(const struct dp_symbol *sym, void *arg)
{
	++*(u32 *)arg;
	return 0;
}

const char *dp_cc_unit_kernel_offset(struct unit *u, const char *where, const struct dp_symbol *sym, u64 addr)
{
	struct dp_symbol start;
	u32 n = 0;

	if (!u->debug || u->c.mod != u->debug) /* it may be of another build */
		return where;
	dp_module_each_func(u->debug, sym->name, count, &n);
	if (n < 2 || dp_module_symbol(u->debug, "_text", &start, NULL))
		return where;
	return dp_cc_format(&u->c, "0x%llx", (unsigned long long)(addr - start.addr));
}

static bool is_known(struct unit *u, const char *name)
{
	const char *found;

	return dp_cc_btf_functions(&u->c, name, &found, 1);
}

bool dp_cc_unit_has_debug(struct unit *u)
{
	bool has = use_debug(u);

	u->c.mod = NULL;
	return has;
}

bool dp_cc_unit_needs_debug(struct unit *u, const char *name, u64 offset)
{
	struct dp_symbol sym;

	if (u->modtype == DP_RPN_USER || (!offset && is_known(u, name)) || !use_debug(u))
		return false;
	if (!offset || !dp_module_symbol(u->debug, name, &sym, NULL)) /* and no other has the name */
		return true;
	u->c.mod = NULL;
	return false;
}
