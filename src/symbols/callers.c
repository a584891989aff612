/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the callers of a function knew: the value that a register had at the function's entry, long after the register
 * is used for something else. Compilers describe calls (DWARF 5, and GNU's form for DWARF 4): behind which instruction,
 * of which function, and how the arguments can be had from the caller's frame. The text compares the return address of
 * the probed frame with all known calls of the function and computes the value by the one that it is.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "symbols/locations-priv.h"

#define SITES_MAX 32
#define DEPTH_MAX 32
#define REG_SP 7

struct search {
	struct out *o;
	u64 number; /* of the register */
	Dwarf_Die callee;
	const char *name; /* of the callee, when other units may call it; NULL */
	u32 found;
	bool too_many;
};

/* The declaration or abstract instance that all DIEs of one function refer to. */
static Dwarf_Die root_of(Dwarf_Die die)
{
	static const unsigned refs[] = {DW_AT_abstract_origin, DW_AT_specification};
	Dwarf_Attribute attr;
	Dwarf_Die next;

	for (u32 i = 0; i < 2 * DEPTH_MAX; i++)
		if (dwarf_attr(&die, refs[i % 2], &attr) && dwarf_formref_die(&attr, &next))
			die = next;
	return die;
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr))
		return dwarf_formstring(&attr);
	return dwarf_diename(die);
}

static bool is_external(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	bool flag = false;

	return dwarf_attr_integrate(die, DW_AT_external, &attr) && !dwarf_formflag(&attr, &flag) && flag;
}

static bool calls_it(struct search *s, Dwarf_Die *site)
{
	Dwarf_Attribute attr;
	Dwarf_Die origin;
	const char *name;

	if ((!dwarf_attr(site, DW_AT_call_origin, &attr) && !dwarf_attr(site, DW_AT_abstract_origin, &attr)) ||
	    !dwarf_formref_die(&attr, &origin))
		return false;
	origin = root_of(origin);
	if (origin.addr == s->callee.addr)
		return true;
	name = s->name && is_external(&origin) ? linkage_name(&origin) : NULL;
	return name && !strcmp(name, s->name);
}

static bool return_address(Dwarf_Die *site, u64 *addr)
{
	Dwarf_Attribute attr;
	Dwarf_Addr a;

	if ((!dwarf_attr(site, DW_AT_call_return_pc, &attr) && !dwarf_attr(site, DW_AT_low_pc, &attr)) ||
	    dwarf_formaddr(&attr, &a))
		return false;
	*addr = a;
	return true;
}

/* The expression of the argument that travels in the register. */
static bool argument(struct search *s, Dwarf_Die *site, Dwarf_Attribute *value)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	Dwarf_Die d;
	size_t n;

	if (dwarf_child(site, &d))
		return false;
	do {
		if (dwarf_attr(&d, DW_AT_location, &attr) && !dwarf_getlocation(&attr, &ops, &n) && n == 1 &&
		    ops[0].atom == DW_OP_reg0 + s->number &&
		    (dwarf_attr(&d, DW_AT_call_value, value) || dwarf_attr(&d, DW_AT_GNU_call_site_value, value)))
			return true;
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

/*
 * An argument. Values with a type are taken as they are, as the whole of it or read from memory at its end; nothing is
 * computed with them.
 */
static bool put_value(struct out *o, Dwarf_Attribute *attr, const Dwarf_Op *ops, size_t n)
{
	const Dwarf_Op *last = &ops[n - 1];
	Dwarf_Attribute constant;
	Dwarf_Block bytes;
	u64 v = 0;

	switch (last->atom) {
	case DW_OP_const_type:
	case DW_OP_GNU_const_type:
		if (n != 1 || dwarf_getlocation_attr(attr, last, &constant) || dwarf_formblock(&constant, &bytes) ||
		    bytes.length > 8)
			return dp_loc_fail(o, "it is computed from a constant of the caller that has no plain type");
		memcpy(&v, bytes.data, bytes.length);
		return dp_loc_put(o, "push d,%lld", (long long)v);
	case DW_OP_deref_type:
	case DW_OP_GNU_deref_type:
		return n > 1 && dp_loc_expression(o, attr, ops, n - 1) && dp_loc_put_deref(o, last->number);
	default:
		return dp_loc_expression(o, attr, ops, n);
	}
}

/* (return value-so-far found -- the same), with this call looked at. */
static bool put_site(struct out *o, u64 addr, Dwarf_Attribute *value, Dwarf_Die *caller)
{
	Dwarf_Op *ops;
	size_t n;
	bool good;

	if (dwarf_getlocation(value, &ops, &n) || !n ||
	    !dp_loc_put(o, "push tsp,2;push d,.base+%lld;eq;push tsp,0", (long long)addr))
		return false;
	o->caller_pc = addr;
	o->caller = *caller;
	good = put_value(o, value, ops, n);
	o->caller_pc = 0;
	return good && dp_loc_put(o, "mul;push tsp,3;add;pop tsp,2;add");
}

static void consider(struct search *s, Dwarf_Die *site, Dwarf_Die *caller)
{
	Dwarf_Attribute value;
	size_t before = s->o->n;
	const char *why = s->o->p->why;
	u64 addr;

	if (!calls_it(s, site) || !return_address(site, &addr) || !argument(s, site, &value))
		return;
	if (s->found == SITES_MAX) {
		s->too_many = true;
	} else if (put_site(s->o, addr, &value, caller)) {
		s->found++;
	} else { /* at a hit from there the value is not known */
		s->o->n = before;
		s->o->text[before] = '\0';
		s->o->p->why = why;
	}
}

static void walk(struct search *s, Dwarf_Die *die, Dwarf_Die *caller, u32 depth)
{
	Dwarf_Die d;

	if (depth > DEPTH_MAX || s->too_many || dwarf_child(die, &d))
		return;
	do {
		switch (dwarf_tag(&d)) {
		case DW_TAG_subprogram:
			walk(s, &d, &d, depth + 1);
			break;
		case DW_TAG_call_site:
		case DW_TAG_GNU_call_site:
			if (caller)
				consider(s, &d, caller);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_inlined_subroutine:
		case DW_TAG_namespace:
			walk(s, &d, caller, depth + 1);
			break;
		}
	} while (!dwarf_siblingof(&d, &d));
}

static void walk_others(struct search *s)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	while (!s->too_many && dp_mod_next_unit(s->o->p->m, &cu, &unit))
		if (unit.cu != s->o->p->cu.cu)
			walk(s, &unit, NULL, 0);
}

bool dp_loc_entry_value(struct out *o, u64 number)
{
	struct search s = {.o = o, .number = number, .callee = root_of(o->p->func)};

	if (o->caller_pc)
		return dp_loc_fail(o, "it is computed from what the caller's caller knew");
	if (is_external(&s.callee))
		s.name = linkage_name(&s.callee);
	if (!dp_loc_frame(o) || !dp_loc_put(o, "push d,-8;add;push mem,u64;push d,0;push d,0"))
		return false;
	walk(&s, &o->p->cu, NULL, 0);
	if (s.name)
		walk_others(&s);
	if (s.too_many)
		return dp_loc_fail(o, "it is what the callers gave, and there are too many of them");
	if (!s.found)
		return dp_loc_fail(o, "it is computed from a value at the function's entry that nothing keeps");
	/* Called from elsewhere: address 0 is read. */
	return dp_loc_put(o, "push r," DP_NAME_SP ";mul;push mem,u8;ros 1;xchg;ros 1");
}

bool dp_loc_caller_register(struct out *o, u64 number, s64 offset)
{
	u64 caller_pc = o->caller_pc;
	Dwarf_Frame *frame = NULL;
	Dwarf_Op memory[3], *ops;
	bool good = false, is_vector;
	const char *name = dp_name_of_dwarf(number, &is_vector);
	size_t n;

	o->caller_pc = 0;
	if (number == REG_SP) {
		good = dp_loc_frame(o);
	} else if (name && !is_vector && dp_mod_frame_at(o->p->m, o->p->pc, &frame) &&
		   !dwarf_frame_register(frame, (int)number, memory, &ops, &n)) {
		/*
		 * Not mentioned: the function has not touched it. Compilers name only registers here that it does not.
		 */
		if (!n)
			good = dp_loc_put(o, "push r,%s", name);
		else if (n && n <= 2 && ops[0].atom == DW_OP_call_frame_cfa &&
			 (n == 1 || ops[1].atom == DW_OP_plus_uconst))
			good = dp_loc_frame(o) &&
			       dp_loc_put(o, "push d,%lld;add;push mem,u64", n == 1 ? 0ll : (long long)ops[1].number);
	}
	free(frame);
	o->caller_pc = caller_pc;
	if (!good)
		return dp_loc_fail(o, "it is computed from a register of the caller that nothing keeps");
	return !offset || dp_loc_put(o, "push d,%lld;add", (long long)offset);
}
