/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where Go programs have the names of their types at run time, which an interface value leads to. That is the runtime's
 * own affair, and differs between its versions: the debug information tells the layout, and the name of a type that is
 * in both must be the same.
 */
#include <dwarf.h>
#include <string.h>

#include "symbols/module-priv.h"
#include "symbols/vars.h"

#define AT_GO_RUNTIME_TYPE 0x2904 /* of a type: where the runtime has it */
#define SHORT_NAME 128            /* longer ones have another byte for their length */

static bool member_at(Dwarf_Die *type, const char *name, const char *newer, u32 *at)
{
	Dwarf_Die d;

	if (dwarf_child(type, &d))
		return false;
	do {
		const char *is = dwarf_diename(&d);

		if (dwarf_tag(&d) != DW_TAG_member || !is || (strcmp(is, name) != 0 && strcmp(is, newer) != 0))
			continue;
		*at = (u32)dp_die_number(&d, DW_AT_data_member_location, 0);
		return true;
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

/* Whether the type at addr has this name, as a hit would read it. */
static bool has_name(const struct dp_module *m, const struct dp_go_types *t, u64 addr, const char *name)
{
	const u8 *type, *p;
	u64 avail, end = DP_MAX(t->name_at, t->flags_at) + 4ull;
	u32 star;

	type = addr >= t->first && addr < t->last ? dp_mod_at(m, addr, end, &avail) : NULL;
	p = type ? dp_mod_at(m, t->first + mod_load32(type + t->name_at), SHORT_NAME, &avail) : NULL;
	star = type && type[t->flags_at] & DP_GO_EXTRA_STAR ? 1 : 0;
	return p && p[1] == strlen(name) + star && !memcmp(p + 2 + star, name, strlen(name));
}

/* Where the runtime has it: an address, or its distance from the first one; 0: not known. */
static u64 runtime_type(const struct dp_go_types *t, Dwarf_Die *type)
{
	u64 at = dp_die_number(type, AT_GO_RUNTIME_TYPE, 0);
	Dwarf_Attribute attr;
	Dwarf_Addr addr;

	if (dwarf_attr(type, AT_GO_RUNTIME_TYPE, &attr) && !dwarf_formaddr(&attr, &addr))
		at = addr;
	return at && at < t->last - t->first ? t->first + at : at;
}

static bool is_right(struct dp_module *m, u64 pc, const struct dp_go_types *t)
{
	static const char *const known[] = {"int", "bool", "uint8", "int32", "int64", "uint64", "uintptr", "float64"};
	Dwarf_Die die;

	for (u32 i = 0; i < DP_ARRAY_SIZE(known); i++) {
		u64 at = dp_var_type(m, pc, DW_TAG_base_type, known[i], &die) ? runtime_type(t, &die) : 0;

		if (at)
			return has_name(m, t, at, known[i]);
	}
	return false;
}

bool dp_module_go_types(struct dp_module *m, u64 pc, struct dp_go_types *t)
{
	struct dp_symbol first, last;
	Dwarf_Die type;

	if (!dp_module_is_go(m) || dp_module_symbol(m, "runtime.types", &first, NULL) ||
	    dp_module_symbol(m, "runtime.etypes", &last, NULL) || first.addr >= last.addr)
		return false;
	if (!dp_var_type(m, pc, DW_TAG_structure_type, "runtime._type", &type) &&
	    !dp_var_type(m, pc, DW_TAG_structure_type, "internal/abi.Type", &type))
		return false;
	*t = (struct dp_go_types){.first = first.addr, .last = last.addr};
	return member_at(&type, "str", "Str", &t->name_at) && member_at(&type, "tflag", "TFlag", &t->flags_at) &&
	       is_right(m, pc, t);
}
