/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Types of the probed program, from its debug information. Members of structures are read when
 * somebody asks for them, since a structure of a kernel reaches half of the others by its pointers.
 */
#include <dwarf.h>
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"

#define DEPTH_MAX 64
#define MEMBERS_MAX 4096

static struct type *convert(struct dpcc *c, Dwarf_Die *die, u32 depth);

static struct type *type_at(struct dpcc *c, Dwarf_Die *die, u32 depth)
{
	Dwarf_Die type;

	return dp_die_type(die, &type) ? convert(c, &type, depth + 1) : &dp_cc_type_void;
}

static struct type *base(struct dpcc *c, Dwarf_Die *die)
{
	u64 size = dp_die_number(die, DW_AT_byte_size, 0), encoding = dp_die_number(die, DW_AT_encoding, 0);
	struct type *t = dp_cc_alloc(c, sizeof(*t));

	*t = (struct type){.kind = TY_INT, .size = size, .align = (u32)DP_MAX(size, (u64)1), .complete = true};
	t->name = dwarf_diename(die);
	t->is_bool = encoding == DW_ATE_boolean;
	t->is_char = size == 1 &&
		     (encoding == DW_ATE_signed_char || encoding == DW_ATE_unsigned_char || encoding == DW_ATE_UTF);
	t->is_unsigned = encoding == DW_ATE_unsigned || encoding == DW_ATE_unsigned_char ||
			 encoding == DW_ATE_boolean || encoding == DW_ATE_UTF || encoding == DW_ATE_address;
	if (encoding == DW_ATE_float || encoding == DW_ATE_complex_float)
		t->kind = TY_FLOAT;
	t->is_complex = encoding == DW_ATE_complex_float;
	if (encoding == DW_ATE_lo_user && t->name && strstr(t->name, "complex")) { /* two integers */
		t->size /= 2;
		t->align = (u32)DP_MAX(t->size, (u64)1);
		t->is_unsigned = strstr(t->name, "unsigned") != NULL;
		t->is_char = false;
		return dp_cc_type_array(c, t, 2);
	}
	/* `unsigned char` is how programs write bytes. */
	if (t->is_char && t->name && strstr(t->name, "unsigned"))
		t->is_char = false;
	return t;
}

static struct type *enumeration(struct dpcc *c, Dwarf_Die *die)
{
	struct type *t = dp_cc_alloc(c, sizeof(*t));
	struct enumerator **last = &t->enums;
	Dwarf_Attribute attr;
	Dwarf_Sword v;
	Dwarf_Die e;
	u32 n = 0;

	*t = (struct type){
	    .kind = TY_INT, .size = dp_die_number(die, DW_AT_byte_size, 4), .complete = true, .is_unsigned = true};
	t->align = (u32)t->size;
	t->name = dwarf_diename(die);
	if (dwarf_child(die, &e))
		return t;
	do {
		if (dwarf_tag(&e) != DW_TAG_enumerator || !dwarf_attr(&e, DW_AT_const_value, &attr) ||
		    dwarf_formsdata(&attr, &v) || !dwarf_diename(&e) || n++ > MEMBERS_MAX)
			continue;
		*last = dp_cc_alloc(c, sizeof(**last));
		**last = (struct enumerator){NULL, dwarf_diename(&e), v};
		last = &(*last)->next;
		if (v < 0)
			t->is_unsigned = false;
	} while (!dwarf_siblingof(&e, &e));
	return t;
}

static struct type *array(struct dpcc *c, Dwarf_Die *die, u32 depth)
{
	struct type *of = type_at(c, die, depth);
	u64 n[8];
	u32 dims = 0;
	Dwarf_Die d;

	if (!dwarf_child(die, &d))
		do {
			if (dwarf_tag(&d) != DW_TAG_subrange_type || dims == 8)
				continue;
			n[dims] = dp_die_number(&d, DW_AT_count, ~0ull);
			if (n[dims] == ~0ull)
				n[dims] = dp_die_number(&d, DW_AT_upper_bound, ~0ull) + 1;
			dims++;
		} while (!dwarf_siblingof(&d, &d));
	if (!dims)
		n[dims++] = 0;
	while (dims--)
		of = dp_cc_type_array(c, of, n[dims] < 1u << 30 ? n[dims] : 0);
	return of;
}

static struct type *structure(struct dpcc *c, Dwarf_Die *die)
{
	struct type *t;

	for (t = c->debug_types; t; t = t->next)
		if (t->die.addr == die->addr)
			return t;
	t = dp_cc_alloc(c, sizeof(*t));
	*t = (struct type){.kind = TY_STRUCT, .lazy = true, .size = dp_die_number(die, DW_AT_byte_size, 0), .align = 1};
	t->is_union = dwarf_tag(die) == DW_TAG_union_type;
	t->name = dwarf_diename(die);
	t->die = *die;
	t->next = c->debug_types;
	c->debug_types = t;
	return t;
}

static struct type *convert(struct dpcc *c, Dwarf_Die *die, u32 depth)
{
	if (depth > DEPTH_MAX)
		dp_cc_fail(c, NULL, E_DPCC_TYPE, "the debug information has a type that contains itself");
	switch (dwarf_tag(die)) {
	case DW_TAG_base_type:
		return base(c, die);
	case DW_TAG_enumeration_type:
		return enumeration(c, die);
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		/* Pointers break all cycles, so what they point to may be as deep again; a pointer
		 * to itself may not. */
		return dp_cc_type_ptr(c, type_at(c, die, depth));
	case DW_TAG_array_type:
		return array(c, die, depth);
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		return structure(c, die);
	case DW_TAG_subroutine_type:
	case DW_TAG_subprogram: {
		struct type *t = dp_cc_alloc(c, sizeof(*t));

		*t = (struct type){.kind = TY_FUNC, .size = 1, .align = 1, .complete = true};
		return t;
	}
	case DW_TAG_unspecified_type:
		return &dp_cc_type_void;
	case DW_TAG_typedef:
		return dp_cc_type_named(c, type_at(c, die, depth), dwarf_diename(die));
	default: /* qualifiers */
		return type_at(c, die, depth);
	}
}

struct type *dp_cc_debug_type(struct dpcc *c, Dwarf_Die *die)
{
	return convert(c, die, 0);
}

/* Where a bitfield lies: DWARF counts from the structure's beginning (4, 5) or inside of a
 * container from its upper end (2, 3). */
static void bitfield(Dwarf_Die *die, struct member *m)
{
	u64 bits = dp_die_number(die, DW_AT_bit_size, 0), at = dp_die_number(die, DW_AT_data_bit_offset, ~0ull),
	    size = m->type->size;

	if (!bits || !size)
		return;
	if (at == ~0ull)
		at = m->offset * 8 + size * 8 - dp_die_number(die, DW_AT_bit_offset, 0) - bits;
	m->bits = (u32)bits;
	m->offset = at / (size * 8) * size;
	m->shift = (u32)(at - m->offset * 8);
	if (m->shift + bits > size * 8) { /* packed, over the border of its type */
		m->offset = at / 8;
		m->shift = (u32)(at % 8);
	}
}

static bool same_whole(struct dpcc *c, Dwarf_Die *die, Dwarf_Die *whole)
{
	static const int tags[] = {DW_TAG_structure_type, DW_TAG_class_type, DW_TAG_union_type};

	for (u32 i = 0; i < DP_ARRAY_SIZE(tags); i++)
		if (dwarf_diename(die) && dp_var_type(c->mod, dp_cc_pc(c), tags[i], dwarf_diename(die), whole))
			return true;
	return false;
}

/* The only member of a variant. */
static bool variant_content(struct dpcc *c, Dwarf_Die *die, struct member *m)
{
	Dwarf_Die d;
	u32 n = 0;

	if (dwarf_child(die, &d))
		return false;
	do {
		if (dwarf_tag(&d) != DW_TAG_member)
			continue;
		n++;
		m->name = dwarf_diename(&d);
		m->type = type_at(c, &d, 0);
		m->offset = dp_die_number(&d, DW_AT_data_member_location, 0);
	} while (!dwarf_siblingof(&d, &d));
	return n == 1 && m->name;
}

/* The number that tells which variant it is. Without one there is a single variant. */
static bool discriminant(struct dpcc *c, Dwarf_Die *die, struct variant_part *p)
{
	Dwarf_Attribute attr;
	Dwarf_Die d;

	p->discriminant = &dp_cc_type_uchar;
	if (!dwarf_attr(die, DW_AT_discr, &attr))
		return true;
	if (!dwarf_formref_die(&attr, &d))
		return false;
	p->discriminant = type_at(c, &d, 0);
	p->offset = dp_die_number(&d, DW_AT_data_member_location, 0);
	return dp_cc_type_is_scalar(p->discriminant) && p->discriminant->size <= 16;
}

/* Also one of 128 bits, if it fits into 64. */
static bool variant_number(Dwarf_Attribute *attr, s64 *number)
{
	Dwarf_Block block;
	Dwarf_Word v;
	u64 words[2];

	if (!dwarf_formudata(attr, &v)) {
		*number = (s64)v;
		return true;
	}
	if (dwarf_formblock(attr, &block) || block.length != sizeof(words))
		return false;
	memcpy(words, block.data, sizeof(words));
	*number = (s64)words[0];
	return !words[1];
}

/* False: not all of it is understood. */
static bool variants(struct dpcc *c, Dwarf_Die *die, struct variant_part *p)
{
	struct variant **last = &p->list;
	Dwarf_Attribute attr, list;
	Dwarf_Die d;
	u32 n = 0;

	if (!discriminant(c, die, p) || dwarf_child(die, &d))
		return false;
	do {
		struct variant *v;

		if (dwarf_tag(&d) != DW_TAG_variant)
			continue;
		v = dp_cc_alloc(c, sizeof(*v));
		v->is_default = !dwarf_attr(&d, DW_AT_discr_value, &attr);
		if (n++ > MEMBERS_MAX || dwarf_attr(&d, DW_AT_discr_list, &list) ||
		    (!v->is_default && !variant_number(&attr, &v->number)) || !variant_content(c, &d, &v->content))
			return false;
		*last = v;
		last = &v->next;
	} while (!dwarf_siblingof(&d, &d));
	return true;
}

static void variant_part(struct dpcc *c, Dwarf_Die *die, struct type *t)
{
	struct variant_part *p = dp_cc_alloc(c, sizeof(*p));

	t->is_opaque |= t->variants || !variants(c, die, p);
	t->variants = p;
}

void dp_cc_debug_complete(struct dpcc *c, struct type *t)
{
	struct member **last = &t->members;
	Dwarf_Die die = t->die, d;
	Dwarf_Attribute attr;
	u32 n = 0;

	if (t->btf) {
		dp_cc_btf_complete(c, t);
		return;
	}
	t->lazy = false;
	if (dwarf_attr(&die, DW_AT_declaration, &attr) && !same_whole(c, &t->die, &die))
		return;
	t->size = dp_die_number(&die, DW_AT_byte_size, t->size);
	t->complete = true;
	if (dwarf_child(&die, &d))
		return;
	do {
		int tag = dwarf_tag(&d);
		struct member *m;

		if (tag == DW_TAG_variant_part)
			variant_part(c, &d, t);
		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || dwarf_attr(&d, DW_AT_external, &attr) ||
		    dwarf_attr(&d, DW_AT_declaration, &attr) || n++ > MEMBERS_MAX)
			continue;
		m = dp_cc_alloc(c, sizeof(*m));
		m->name = tag == DW_TAG_member && dwarf_diename(&d) ? dwarf_diename(&d) : "";
		m->type = type_at(c, &d, 0);
		m->offset = dp_die_number(&d, DW_AT_data_member_location, 0);
		bitfield(&d, m);
		if (m->type == t)
			continue;
		*last = m;
		last = &m->next;
	} while (!dwarf_siblingof(&d, &d));
	t->is_opaque |= t->variants && t->members;
}

struct type *dp_cc_debug_named(struct dpcc *c, int tag, const char *name)
{
	Dwarf_Die die;

	if (!c->mod && c->btf)
		return dp_cc_btf_named(c, tag, name);
	if (!c->mod || !dp_var_type(c->mod, dp_cc_pc(c), tag, name, &die))
		return NULL;
	return convert(c, &die, 0);
}
