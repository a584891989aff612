/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A variable and the way from it to a part of it, through the types that debug information tells. Looks at memory
 * only where a pointer must be followed.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"
#include "symbols/variable.h"
#include "symbols/vars.h"

#define NESTED_MAX 16

struct walk {
	struct dp_image *im;
	const char *text, *at; /* the whole, and what is still to be read */
	bool (*read)(void *arg, u64 addr, void *buf, u32 len);
	void *arg;
	u64 addr;
	Dwarf_Die type;
	bool typed;
	struct dp_error *err;
};

static bool is_word(char c)
{
	return c == '_' || c == '$' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c & 0x80;
}

static bool take_word(struct walk *w, char *buf, size_t size)
{
	size_t n = 0;

	while (is_word(w->at[n]) || (w->at[n] == ':' && w->at[n + 1] == ':') ||
	       (n && w->at[n] == ':' && w->at[n - 1] == ':'))
		n++;
	if (!n || n >= size)
		return false;
	memcpy(buf, w->at, n);
	buf[n] = '\0';
	w->at += n;
	return true;
}

/* The type below typedefs and qualifiers, whole where some unit has it whole. */
static bool peel(struct walk *w)
{
	Dwarf_Die t, whole;
	Dwarf_Attribute attr;
	bool flag = false;

	if (!w->typed || dwarf_peel_type(&w->type, &t))
		return false;
	dp_die_whole(&t);
	w->type = t;
	if (dwarf_attr(&t, DW_AT_declaration, &attr) && !dwarf_formflag(&attr, &flag) && flag && dwarf_diename(&t) &&
	    dp_var_type(w->im->mod, 0, dwarf_tag(&t), dwarf_diename(&t), &whole))
		w->type = whole;
	return true;
}

/* A field by its name; those of unnamed members and of base classes count as the structure's own. */
static bool find_field(Dwarf_Die *structure, const char *name, u32 depth, Dwarf_Die *field, u64 *offset)
{
	Dwarf_Die d, inner;

	if (depth > NESTED_MAX || dwarf_child(structure, &d))
		return false;
	do {
		const char *own = dwarf_diename(&d);
		int tag = dwarf_tag(&d);
		u64 at = dp_die_number(&d, DW_AT_data_member_location, 0);

		if (tag != DW_TAG_member && tag != DW_TAG_inheritance)
			continue;
		if (own && !strcmp(own, name)) {
			*field = d;
			*offset += at;
			return true;
		}
		if ((!own || tag == DW_TAG_inheritance) && dp_die_type(&d, &inner) &&
		    !dwarf_peel_type(&inner, &inner)) {
			u64 below = *offset + at;

			if (find_field(&inner, name, depth + 1, field, &below)) {
				*offset = below;
				return true;
			}
		}
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

static int take_field(struct walk *w)
{
	char name[128];
	Dwarf_Die field;
	u64 offset = 0;
	int tag;

	if (!take_word(w, name, sizeof(name)))
		return dp_fail(w->err, E_PLACE_SYNTAX, "%.150s: a field's name is missing", w->text);
	tag = peel(w) ? dwarf_tag(&w->type) : 0;
	if (tag != DW_TAG_structure_type && tag != DW_TAG_union_type && tag != DW_TAG_class_type)
		return dp_fail(w->err, E_PLACE_FIELD, "%.100s: what stands before %.60s is no structure", w->text,
			       name);
	if (!find_field(&w->type, name, 0, &field, &offset))
		return dp_fail(w->err, E_PLACE_FIELD, "%.100s: %.60s has no field %.60s", w->text,
			       dwarf_diename(&w->type) ? dwarf_diename(&w->type) : "the structure", name);
	if (dp_die_number(&field, DW_AT_bit_size, 0))
		return dp_fail(w->err, E_PLACE_FIELD, "%.100s: %.60s is a bit field", w->text, name);
	w->addr += offset;
	w->typed = dp_die_type(&field, &w->type);
	return 0;
}

static int follow(struct walk *w)
{
	u64 to;

	if (!peel(w) || dwarf_tag(&w->type) != DW_TAG_pointer_type)
		return dp_fail(w->err, E_PLACE_FIELD, "%.150s: what stands before %.20s is no pointer", w->text, w->at);
	if (!w->read(w->arg, w->addr, &to, 8) || !to)
		return dp_fail(w->err, E_PLACE_POINTER, "%.150s: the pointer before %.20s is null or cannot be read",
			       w->text, w->at);
	w->addr = to;
	w->typed = dp_die_type(&w->type, &w->type);
	return 0;
}

static int take_index(struct walk *w)
{
	char *end;
	u64 n = strtoull(w->at + 1, &end, 0);
	Dwarf_Word size;
	int r;

	if (end == w->at + 1 || *end != ']')
		return dp_fail(w->err, E_PLACE_SYNTAX, "%.150s: a number and ] are expected behind [", w->text);
	if (peel(w) && dwarf_tag(&w->type) == DW_TAG_array_type) {
		w->typed = dp_die_type(&w->type, &w->type);
	} else {
		r = follow(w);
		if (r)
			return r;
	}
	if (!w->typed || dwarf_aggregate_size(&w->type, &size))
		return dp_fail(w->err, E_PLACE_FIELD, "%.150s: the elements have no size", w->text);
	w->addr += n * size;
	w->at = end + 1;
	return 0;
}

static int take_parts(struct walk *w)
{
	int r = 0;

	while (!r && *w->at) {
		if (*w->at == '.') {
			w->at++;
			r = take_field(w);
		} else if (w->at[0] == '-' && w->at[1] == '>') {
			r = follow(w);
			w->at += 2;
			if (!r)
				r = take_field(w);
		} else if (*w->at == '[') {
			r = take_index(w);
		} else {
			r = dp_fail(w->err, E_PLACE_SYNTAX, "%.150s: unexpected `%.20s`", w->text, w->at);
		}
	}
	return r;
}

/* The address of a variable of the file: the location that debug information tells when it is a fixed one. */
static bool fixed_address(const struct dp_var *v, u64 *addr)
{
	static const char form[] = "push d,.base+";
	char *end;

	if (v->npieces != 1 || v->pieces[0].kind != DP_PIECE_MEMORY ||
	    strncmp(v->pieces[0].code, form, sizeof(form) - 1))
		return false;
	*addr = strtoull(v->pieces[0].code + sizeof(form) - 1, &end, 0);
	return !strcmp(end, ";");
}

static const char *type_name(struct walk *w, u64 size)
{
	static const char *const names[3][9] = {
	    {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "u64"},
	    {[1] = "s8", [2] = "s16", [4] = "s32", [8] = "s64"},
	    {[1] = "x8", [2] = "x16", [4] = "x32", [8] = "x64"},
	};
	u64 encoding;
	int kind = 2;

	if (size > 8 || !peel(w))
		return NULL;
	switch (dwarf_tag(&w->type)) {
	case DW_TAG_base_type:
		encoding = dp_die_number(&w->type, DW_AT_encoding, 0);
		if (encoding == DW_ATE_signed || encoding == DW_ATE_signed_char)
			kind = 1;
		else if (encoding != DW_ATE_float)
			kind = 0;
		break;
	case DW_TAG_enumeration_type:
		kind = 0;
		break;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
		break;
	default:
		return NULL;
	}
	return names[kind][size];
}

/* The variable, then its parts. The symbol is filled in when there is one. */
static int walk(struct walk *w, struct dp_symbol *sym)
{
	struct dp_module *m = w->im->mod;
	struct dp_error none = {0}, why = {0};
	struct dp_var v;
	char name[256];
	bool has_symbol, has_var;

	if (!take_word(w, name, sizeof(name)))
		return dp_fail(w->err, E_PLACE_SYNTAX, "%.150s", w->text);
	has_symbol = !dp_module_symbol(m, name, sym, &none) && !sym->is_ifunc;
	has_var = !dp_var_global(m, name, &v, &why) && fixed_address(&v, &w->addr);
	if (!has_symbol && !has_var) {
		*w->err = why.code == E_VAR_GONE ? why : none;
		return -dp_error_info(w->err->code)->number;
	}
	if (!has_var)
		w->addr = sym->addr;
	w->addr += w->im->bias;
	w->typed = has_var && v.has_type;
	if (w->typed)
		w->type = v.type;
	if (*w->at && !w->typed) {
		*w->err = why;
		return has_var ? dp_fail(w->err, E_PLACE_FIELD, "%.150s: the type is not known", w->text)
			       : -dp_error_info(w->err->code)->number;
	}
	return take_parts(w);
}

/* Instead of a process's memory: pointers lead somewhere. */
static bool anything(void *arg, u64 addr, void *buf, u32 len)
{
	(void)arg;
	(void)addr;
	memset(buf, 1, len);
	return true;
}

int dp_variable_type(struct dp_module *m, const char *text, bool *typed, Dwarf_Die *type, u64 *size,
		     struct dp_error *err)
{
	struct dp_image im = {.mod = m};
	struct walk w = {.im = &im, .text = text, .at = text, .read = anything, .err = err};
	struct dp_symbol sym = {0};
	Dwarf_Word bytes;
	int r = walk(&w, &sym);

	if (r)
		return r;
	*typed = peel(&w);
	*type = w.type;
	*size = *typed && !dwarf_aggregate_size(&w.type, &bytes) ? bytes : sym.is_func ? 0 : sym.size;
	return 0;
}

#define WAY_BASE (1ull << 46) /* where each pointer leads, so that offsets can be told */

/* Instead of a process's memory: the first pointer is in the register, the others are where the way has come. */
static bool note_way(void *arg, u64 addr, void *buf, u32 len)
{
	struct dp_way *way = arg;
	u64 base = WAY_BASE;

	if (way->n == DP_WAY_MAX || (!way->n && addr))
		return false;
	if (way->n)
		way->offsets[way->n - 1] = addr - WAY_BASE;
	way->n++;
	memcpy(buf, &base, len);
	return true;
}

int dp_variable_way(struct dp_module *m, u64 pc, const char *text, struct dp_way *way, struct dp_error *err)
{
	struct dp_image im = {.mod = m};
	struct walk w = {.im = &im, .text = text, .at = text, .read = note_way, .arg = way, .err = err};
	struct dp_var v;
	char name[256];
	Dwarf_Word size = 0;
	int r;

	*way = (struct dp_way){.n = 0};
	if (!take_word(&w, name, sizeof(name)))
		return dp_fail(err, E_PLACE_SYNTAX, "%.150s", text);
	r = dp_var_find(m, pc, NULL, name, &v, err);
	if (r)
		return r;
	if (v.npieces != 1 || v.pieces[0].kind != DP_PIECE_REGISTER || strlen(v.pieces[0].code) >= sizeof(way->reg))
		return dp_fail(err, E_VAR_GONE, "%.150s: only arguments in registers can be followed", name);
	strcpy(way->reg, v.pieces[0].code);
	w.typed = v.has_type;
	w.type = v.type;
	r = take_parts(&w);
	if (r)
		return r;
	if (!way->n)
		return dp_fail(err, E_PLACE_FIELD, "%.150s is in a register: name memory that it points to", name);
	way->offsets[way->n - 1] = w.addr - WAY_BASE;
	if (w.typed && !dwarf_aggregate_size(&w.type, &size))
		way->type = type_name(&w, size);
	way->size = size;
	return 0;
}

int dp_variable_find(struct dp_image *im, const char *text, bool (*read)(void *arg, u64 addr, void *buf, u32 len),
		     void *arg, struct dp_variable *out, struct dp_error *err)
{
	struct walk w = {.im = im, .text = text, .at = text, .read = read, .arg = arg, .err = err};
	struct dp_symbol sym = {0};
	Dwarf_Word size = 0;
	int r;

	*out = (struct dp_variable){0};
	r = walk(&w, &sym);
	if (r)
		return r;
	out->addr = w.addr;
	if (w.typed && !dwarf_aggregate_size(&w.type, &size))
		out->type = type_name(&w, size);
	out->size = w.typed ? size : sym.is_func ? 0 : sym.size;
	return 0;
}
