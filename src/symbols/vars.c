/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which variables an instruction can see, by the rules of C: innermost block first, the source of
 * an inlined function around its copy, then the unit, then other units. locations.c tells where
 * they are.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "symbols/sym-lines.h"
#include "symbols/vars-priv.h"

static bool is_variable(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_variable || tag == DW_TAG_formal_parameter;
}

/* The file with the rest of a unit's debug information, when it was not found; NULL: nothing is missing. */
static const char *missing_split(Dwarf_Die *unit)
{
	Dwarf_Attribute attr;
	const char *name;
	u8 type;

	/* What was found stands in the skeleton's place. */
	if (dwarf_cu_info(unit->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) || type != DW_UT_skeleton)
		return NULL;
	if (!dwarf_attr(unit, DW_AT_dwo_name, &attr) && !dwarf_attr(unit, DW_AT_GNU_dwo_name, &attr))
		return "?";
	name = dwarf_formstring(&attr);
	return name ? name : "?";
}

static bool place_at(struct dp_module *m, u64 pc, const char *copy_of, struct var_place *p, struct dp_error *err)
{
	const char *split;
	Dwarf_Die inner;

	*p = (struct var_place){.m = m, .pc = pc, .copy_of = copy_of};
	if (!dp_mod_dwarf(m)) {
		dp_mod_no_debug(m, err);
		return false;
	}
	if (!dp_mod_unit_at(m, pc, &p->cu)) {
		dp_fail(err, E_LINE_NODEBUG, "the part of %.100s that contains 0x%llx", m->base,
			(unsigned long long)pc);
		return false;
	}
	split = missing_split(&p->cu);
	if (split && m->dw.dwp_why) {
		dp_fail(err, E_LINE_PACKAGE, "%.150s: %.100s", m->dw.dwp_path, m->dw.dwp_why);
		return false;
	}
	if (split) {
		dp_fail(err, E_LINE_NODEBUG, "the part of %.100s in %.80s", m->base, split);
		dp_error_hint(err,
			      "put that file where it was compiled, or beside the program, "
			      "or all of them, by dwp, into %.60s.dwp",
			      m->base);
		return false;
	}
	p->has_func = dp_mod_function_of(&p->cu, pc, &inner, &p->func);
	return true;
}

/* ---- unoptimised functions: parameters before they are stored ---- */

static bool peel(Dwarf_Die *type)
{
	Dwarf_Die t;

	if (dwarf_peel_type(type, &t))
		return false;
	*type = t;
	return true;
}

void dp_die_whole(Dwarf_Die *type)
{
	Dwarf_Attribute attr;
	Dwarf_Die whole;

	/* Units of their own have this attribute, too, but as a number. */
	if (dwarf_attr(type, DW_AT_signature, &attr) && dwarf_whatform(&attr) == DW_FORM_ref_sig8 &&
	    dwarf_formref_die(&attr, &whole))
		*type = whole;
}

bool dp_die_type(Dwarf_Die *die, Dwarf_Die *type)
{
	Dwarf_Attribute attr;

	if (!dwarf_attr_integrate(die, DW_AT_type, &attr) || !dwarf_formref_die(&attr, type))
		return false;
	dp_die_whole(type);
	return true;
}

u64 dp_die_number(Dwarf_Die *die, unsigned name, u64 other)
{
	Dwarf_Attribute attr;
	Dwarf_Word v;

	return dwarf_attr_integrate(die, name, &attr) && !dwarf_formudata(&attr, &v) ? v : other;
}

/* Words in general registers that an argument of this type takes; 0: a vector register; -1: none,
 * it is in memory; -2: not known. */
static int argument_class(Dwarf_Die *param)
{
	Dwarf_Die type;
	Dwarf_Word size, encoding;
	Dwarf_Attribute attr;

	if (!dp_die_type(param, &type) || !peel(&type))
		return -2;
	switch (dwarf_tag(&type)) {
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_enumeration_type:
		return 1;
	case DW_TAG_base_type:
		if (dwarf_aggregate_size(&type, &size) || !dwarf_attr(&type, DW_AT_encoding, &attr) ||
		    dwarf_formudata(&attr, &encoding))
			return -2;
		if (encoding == DW_ATE_float)
			return size <= 8 ? 0 : -1;
		return size <= 8 ? 1 : size == 16 ? 2 : -2;
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_array_type:
		return !dwarf_aggregate_size(&type, &size) && size > 16 ? -1 : -2;
	default:
		return -2;
	}
}

#define STACKED_MAX 64 /* words of arguments on the stack; then their places are not known any more */

/* By the calling convention, at the function's first instruction. */
static bool entry_register(struct var_place *p, Dwarf_Die *wanted, struct dp_var *v)
{
	u32 used = 0, vectors = 0, stacked = 0;
	Dwarf_Die d;
	int c;

	if (dwarf_child(&p->func, &d))
		return false;
	do {
		if (dwarf_tag(&d) != DW_TAG_formal_parameter)
			continue;
		c = argument_class(&d);
		if (c == -2)
			return false;
		if (dwarf_dieoffset(&d) == dwarf_dieoffset(wanted)) {
			bool fits = c == 1 ? used < DP_NAME_ARGS : c == 0 && vectors < 8;

			if (c >= 0 && c < 2 && !fits && stacked < STACKED_MAX) { /* above the return address */
				v->npieces = 1;
				v->pieces[0] = (struct dp_piece){.kind = DP_PIECE_MEMORY};
				dp_format(v->pieces[0].code, DP_PIECE_CODE, "push r," DP_NAME_SP ";push d,%u;add;",
					  8 + 8 * stacked);
				return true;
			}
			v->npieces = fits;
			v->pieces[0] = (struct dp_piece){.kind = c ? DP_PIECE_REGISTER : DP_PIECE_VALUE,
							 .size = c ? 0 : 8};
			if (c == 1 && fits)
				dp_format(v->pieces[0].code, DP_PIECE_CODE, "%s", dp_name_of_arg(used));
			else if (fits)
				dp_format(v->pieces[0].code, DP_PIECE_CODE, "push r,xmm%u;xchg;ros 1;", vectors);
			return fits;
		}
		if (c < 0 || c == 2) /* what lies behind it on the stack is not looked for */
			stacked = c == 2 && used + 2 <= 6 ? stacked : STACKED_MAX;
		else if (stacked < STACKED_MAX && (c == 1 ? used == 6 : vectors == 8))
			stacked++;
		used += c > 0 && used + (u32)c <= 6 ? (u32)c : 0;
		vectors += c == 0 && vectors < 8;
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

/* ---- where it is ---- */

/* Up to three lines, nearest first, at which a location list has an entry. */
static void nearest_lines(struct var_place *p, Dwarf_Attribute *attr, char *buf, size_t size)
{
	Dwarf_Addr base, start, end;
	const char *file;
	ptrdiff_t at = 0;
	Dwarf_Op *ops;
	size_t n;
	u32 here = 0, lines[3] = {0}, line, count = 0;

	*buf = '\0';
	dp_module_line_at(p->m, p->pc, &file, &here);
	while ((at = dwarf_getlocations(attr, at, &base, &start, &end, &ops, &n)) > 0) {
		if (!n || start >= end || !dp_module_line_at(p->m, start, &file, &line))
			continue;
		for (u32 i = 0; i < 3; i++) {
			u32 far = (u32)abs((int)line - (int)here), was = lines[i];

			if (was == line)
				break;
			if (was && (u32)abs((int)was - (int)here) <= far)
				continue;
			lines[i] = line;
			line = was;
			if (!line)
				break;
		}
	}
	for (u32 i = 0; i < 3 && lines[i]; i++)
		count += (u32)dp_format(buf + count, size - count, "%s%u", i ? ", " : "", lines[i]);
}

static int gone(struct var_place *p, const char *name, const char *why, const char *lines, struct dp_error *err)
{
	const char *file;
	u32 line;
	int r;

	if (dp_module_line_at(p->m, p->pc, &file, &line))
		r = dp_fail(err, E_VAR_GONE, "%.60s at line %u: %.120s", name, line, why);
	else
		r = dp_fail(err, E_VAR_GONE, "%.60s at 0x%llx: %.120s", name, (unsigned long long)p->pc, why);
	if (lines && *lines)
		dp_error_hint(err, "it is available near line %s", lines);
	return r;
}

static bool constant(Dwarf_Die *die, struct dp_var *v)
{
	Dwarf_Attribute attr;
	Dwarf_Block block;
	Dwarf_Sword value = 0;

	if (!dwarf_attr_integrate(die, DW_AT_const_value, &attr))
		return false;
	if (dwarf_formsdata(&attr, &value)) {
		if (dwarf_formblock(&attr, &block) || block.length > 8 * DP_VAR_PIECES)
			return false;
		for (u64 at = 0; at < block.length; at += 8) {
			struct dp_piece *piece = &v->pieces[v->npieces++];

			value = 0;
			memcpy(&value, block.data + at, DP_MIN(block.length - at, (u64)8));
			*piece = (struct dp_piece){.kind = DP_PIECE_VALUE, .offset = (u32)at};
			piece->size = block.length > 8 ? (u32)DP_MIN(block.length - at, (u64)8) : 0;
			dp_format(piece->code, DP_PIECE_CODE, "push d,%lld;", (long long)value);
		}
		return v->npieces > 0;
	}
	v->npieces = 1;
	v->pieces[0] = (struct dp_piece){.kind = DP_PIECE_VALUE};
	dp_format(v->pieces[0].code, DP_PIECE_CODE, "push d,%lld;", (long long)value);
	return true;
}

/* A register or a computed value has 64 bits: more is known by pieces, or not at all. */
static bool is_whole_value(const struct dp_var *v)
{
	Dwarf_Die type = v->type;
	Dwarf_Word size;

	return !v->npieces || v->pieces[0].kind == DP_PIECE_MEMORY || v->pieces[0].size || !v->has_type ||
	       dwarf_aggregate_size(&type, &size) || size <= 8;
}

static int locate(struct var_place *p, Dwarf_Die *die, const char *name, struct dp_var *v, struct dp_error *err)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	Dwarf_Addr low;
	char lines[64] = "";
	size_t n = 0;

	v->die = *die;
	v->npieces = 0;
	v->has_type = dp_die_type(die, &v->type);
	if (!dwarf_attr_integrate(die, DW_AT_location, &attr))
		return constant(die, v) ? 0 : gone(p, name, "the compiler has removed it", "", err);
	if (p->has_func && !dwarf_lowpc(&p->func, &low) && p->pc >= low && dp_mod_is_unoptimised(&p->func) &&
	    dwarf_whatform(&attr) == DW_FORM_exprloc && !dwarf_getlocation(&attr, &ops, &n) && n &&
	    ops[0].atom == DW_OP_fbreg) {
		u64 after = dp_mod_after_prologue(&p->cu, low);
		const char *file;
		u32 line;

		if (p->pc == low && !p->copy_of && entry_register(p, die, v))
			return 0;
		if (p->pc < after) {
			if (dp_module_line_at(p->m, after, &file, &line))
				dp_format(lines, sizeof(lines), "%u", line);
			return gone(p, name, "the function has not stored it yet", lines, err);
		}
	}
	if (dwarf_getlocation_addr(&attr, p->pc, &ops, &n, 1) != 1) {
		nearest_lines(p, &attr, lines, sizeof(lines));
		return gone(p, name, "it has no place at this instruction", lines, err);
	}
	if (dp_var_locate(p, &attr, ops, n, v) && is_whole_value(v))
		return 0;
	if (v->npieces)
		p->why = p->why ? p->why : "only a part of it is known here";
	nearest_lines(p, &attr, lines, sizeof(lines));
	return gone(p, name, p->why, lines, err);
}

/* ---- names ---- */

struct wanted {
	const char *name;
	struct dp_near near;
	Dwarf_Die die;
};

static bool has_place(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	return dwarf_attr_integrate(die, DW_AT_location, &attr) || dwarf_attr_integrate(die, DW_AT_const_value, &attr);
}

/* A variable among the children of a scope. A later declaration of a name hides nothing, but a
 * block may declare it twice: the one with a place counts. */
static bool among(struct wanted *w, Dwarf_Die *scope, bool need_place)
{
	Dwarf_Die d;
	bool found = false;

	if (dwarf_child(scope, &d))
		return false;
	do {
		const char *name = is_variable(&d) ? dwarf_diename(&d) : NULL;

		if (!name)
			continue;
		if (strcmp(name, w->name)) {
			dp_near_try(&w->near, w->name, name);
			continue;
		}
		if (need_place && !has_place(&d))
			continue;
		if (!found || has_place(&d))
			w->die = d;
		found = true;
	} while (!dwarf_siblingof(&d, &d));
	return found;
}

/* The inlined copy that begins at the place. Its ranges may begin later: its entry is what counts. */
static bool copy_below(const struct var_place *p, Dwarf_Die *die, u32 depth, Dwarf_Die *copy)
{
	Dwarf_Addr low;
	Dwarf_Die d;

	if (depth > 64 || dwarf_child(die, &d))
		return false;
	do {
		const char *name = dwarf_tag(&d) == DW_TAG_inlined_subroutine ? dwarf_diename(&d) : NULL;

		if (name && !strcmp(name, dp_mod_last_part(p->copy_of)) && !dwarf_entrypc(&d, &low) && low == p->pc) {
			*copy = d;
			return true;
		}
		if ((name || dwarf_tag(&d) == DW_TAG_lexical_block) && copy_below(p, &d, depth + 1, copy))
			return true;
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

static bool copy_scope(struct var_place *p, Dwarf_Die *copy)
{
	return p->has_func && copy_below(p, &p->func, 0, copy);
}

#define SCOPES_MAX 64

/*
 * The scopes that the instruction sees, innermost first, units left out. At a function's first
 * instruction its own variables come first, even if something inlined begins there, too; elsewhere
 * they come behind the source of the inlined copy that the instruction belongs to.
 */
static int scopes_of(struct var_place *p, Dwarf_Die *v)
{
	Dwarf_Die *scopes = NULL;
	bool has_own = false;
	int found, n = 0;
	Dwarf_Addr low;

	if (p->copy_of)
		return copy_scope(p, v);
	found = dp_mod_scopes(&p->cu, p->pc, &scopes);
	if (p->has_func && !dwarf_lowpc(&p->func, &low) && low == p->pc) {
		v[n++] = p->func;
		has_own = true;
	}
	for (int i = 0; i < found && n < SCOPES_MAX - 1; i++) {
		bool is_own = p->has_func && scopes[i].addr == p->func.addr;

		if (dwarf_tag(&scopes[i]) != DW_TAG_compile_unit && !(is_own && has_own))
			v[n++] = scopes[i];
		has_own |= is_own;
	}
	if (p->has_func && !has_own)
		v[n++] = p->func;
	free(scopes);
	return n;
}

static bool find_die(struct var_place *p, struct wanted *w)
{
	Dwarf_Die scopes[SCOPES_MAX], unit;
	Dwarf_CU *cu = NULL;
	int n = scopes_of(p, scopes);
	bool found = false;

	for (int i = 0; i < n && !found; i++)
		found = among(w, &scopes[i], false);
	found = found || among(w, &p->cu, true);
	while (!found && dp_mod_next_unit(p->m, &cu, &unit))
		found = among(w, &unit, true);
	return found;
}

/* A function's name stands for its address. */
static bool function_address(struct var_place *p, const char *name, struct dp_var *v)
{
	struct dp_symbol sym;

	if (dp_module_symbol(p->m, name, &sym, NULL))
		return false;
	v->npieces = 1;
	v->pieces[0] = (struct dp_piece){.kind = sym.is_func ? DP_PIECE_VALUE : DP_PIECE_MEMORY};
	dp_format(v->pieces[0].code, DP_PIECE_CODE, "push d,.base+%llu;", (unsigned long long)sym.addr);
	return true;
}

int dp_var_find(struct dp_module *m, u64 pc, const char *copy_of, const char *name, struct dp_var *v,
		struct dp_error *err)
{
	struct wanted w = {.name = name};
	struct var_place p;
	char near[128];
	int r;

	memset(v, 0, sizeof(*v));
	if (!place_at(m, pc, copy_of, &p, err))
		return -ENOENT;
	if (find_die(&p, &w))
		return locate(&p, &w.die, name, v, err);
	if (function_address(&p, name, v))
		return 0;
	r = dp_fail(err, E_VAR_NONE, "%.60s", name);
	dp_near_text(&w.near, near, sizeof(near));
	if (*near)
		dp_error_hint(err, "did you mean %s?", near);
	return r;
}

int dp_var_global(struct dp_module *m, const char *name, struct dp_var *v, struct dp_error *err)
{
	struct wanted w = {.name = name};
	struct var_place p = {.m = m};
	Dwarf *dw = dp_mod_dwarf(m);
	Dwarf_CU *cu = NULL;
	char near[128];
	int r;

	memset(v, 0, sizeof(*v));
	if (!dw)
		return dp_mod_no_debug(m, err);
	while (dp_mod_next_unit(m, &cu, &p.cu))
		if (among(&w, &p.cu, true))
			return locate(&p, &w.die, name, v, err);
	r = dp_fail(err, E_VAR_NONE, "%.60s", name);
	dp_near_text(&w.near, near, sizeof(near));
	if (*near)
		dp_error_hint(err, "did you mean %s?", near);
	return r;
}

int dp_var_each(struct dp_module *m, u64 pc, const char *copy_of,
		int (*fn)(const char *name, int r, const struct dp_var *v, const struct dp_error *err, void *arg),
		void *arg, struct dp_error *err)
{
	struct dp_error why = {0};
	struct var_place p;
	Dwarf_Die scopes[SCOPES_MAX], d;
	struct dp_var v;
	int n, r = 0;

	if (!place_at(m, pc, copy_of, &p, err))
		return -ENOENT;
	n = scopes_of(&p, scopes);
	for (int i = 0; i < n && !r; i++) {
		if (dwarf_child(&scopes[i], &d))
			continue;
		do {
			const char *name = is_variable(&d) ? dwarf_diename(&d) : NULL;

			if (name) {
				int rc = locate(&p, &d, name, &v, &why);

				r = fn(name, rc, &v, &why, arg);
			}
		} while (!r && !dwarf_siblingof(&d, &d));
	}
	return r;
}

const char *dp_var_parameter(struct dp_module *m, u64 pc, const char *copy_of, u32 i)
{
	Dwarf_Attribute origin;
	struct var_place p;
	Dwarf_Die d, func;

	if (!place_at(m, pc, copy_of, &p, NULL) || !p.has_func)
		return NULL;
	func = p.func;
	if (copy_of && (!copy_scope(&p, &func) || !dwarf_attr(&func, DW_AT_abstract_origin, &origin) ||
			!dwarf_formref_die(&origin, &func)))
		return NULL;
	if (dwarf_child(&func, &d))
		return NULL;
	do {
		if (dwarf_tag(&d) == DW_TAG_formal_parameter && !i--)
			return dwarf_diename(&d);
	} while (!dwarf_siblingof(&d, &d));
	return NULL;
}

bool dp_var_returns_real(struct dp_module *m, u64 pc)
{
	Dwarf_Die type, under;

	if (!dp_module_debug_bytes(m) || !dp_var_return_type(m, pc, &type))
		return false;
	return dwarf_peel_type(&type, &under) == 0 && dwarf_tag(&under) == DW_TAG_base_type &&
	       dp_die_number(&under, DW_AT_encoding, 0) == DW_ATE_float;
}

bool dp_var_return_type(struct dp_module *m, u64 pc, Dwarf_Die *type)
{
	struct var_place p;

	return place_at(m, pc, NULL, &p, NULL) && p.has_func && dp_die_type(&p.func, type);
}

/* Functions in assembly follow older rules, as all did before Go 1.17. */
static bool returns_in_registers(Dwarf_Die *unit)
{
	Dwarf_Attribute attr;
	const char *producer = dwarf_formstring(dwarf_attr(unit, DW_AT_producer, &attr));

	return dwarf_srclang(unit) == DW_LANG_Go && producer && strstr(producer, "regabi");
}

enum dp_go_result dp_var_go_result(struct dp_module *m, u64 pc, Dwarf_Die *type)
{
	struct var_place p;
	Dwarf_Attribute attr;
	Dwarf_Die d;
	bool is_result = false;

	if (!place_at(m, pc, NULL, &p, NULL) || !p.has_func || !returns_in_registers(&p.cu))
		return DP_GO_RESULT_UNKNOWN;
	for (int r = dwarf_child(&p.func, &d); !r; r = dwarf_siblingof(&d, &d)) {
		if (dwarf_tag(&d) != DW_TAG_formal_parameter ||
		    dwarf_formflag(dwarf_attr_integrate(&d, DW_AT_variable_parameter, &attr), &is_result) || !is_result)
			continue;
		return dp_die_type(&d, type) ? DP_GO_RESULT : DP_GO_RESULT_UNKNOWN;
	}
	return DP_GO_NO_RESULT;
}

bool dp_var_returns_go_word(struct dp_module *m, u64 pc)
{
	Dwarf_Die type, under;
	Dwarf_Word size;

	if (!dp_module_debug_bytes(m) || dp_var_go_result(m, pc, &type) != DP_GO_RESULT ||
	    dwarf_peel_type(&type, &under))
		return false;
	return dwarf_tag(&under) == DW_TAG_pointer_type ||
	       (dwarf_tag(&under) == DW_TAG_base_type && !dwarf_aggregate_size(&under, &size) && size == 8 &&
		dp_die_number(&under, DW_AT_encoding, 0) != DW_ATE_float);
}

bool dp_var_returns_nothing(struct dp_module *m, u64 pc)
{
	struct dp_error err;
	struct var_place p;
	Dwarf_Die type;

	return place_at(m, pc, NULL, &p, &err) && p.has_func && !dp_die_type(&p.func, &type);
}

/* ---- types ---- */

static bool is_whole(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	bool flag = false;

	return !dwarf_attr(die, DW_AT_declaration, &attr) || dwarf_formflag(&attr, &flag) || !flag;
}

static bool type_among(Dwarf_Die *unit, int tag, const char *wanted, Dwarf_Die *type)
{
	Dwarf_Die d;

	if (dwarf_child(unit, &d))
		return false;
	do {
		const char *name = dwarf_tag(&d) == tag ? dwarf_diename(&d) : NULL;

		if (name && !strcmp(name, wanted) && is_whole(&d)) {
			*type = d;
			return true;
		}
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

bool dp_var_type(struct dp_module *m, u64 pc, int tag, const char *name, Dwarf_Die *type)
{
	Dwarf *dw = dp_mod_dwarf(m);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	if (!dw)
		return false;
	if (dp_mod_unit_at(m, pc, &unit) && type_among(&unit, tag, name, type))
		return true;
	while (dp_mod_next_unit(m, &cu, &unit))
		if (type_among(&unit, tag, name, type))
			return true;
	return false;
}

static bool enumerator_among(Dwarf_Die *unit, const char *wanted, s64 *value)
{
	Dwarf_Attribute attr;
	Dwarf_Sword v;
	Dwarf_Die d, e;

	if (dwarf_child(unit, &d))
		return false;
	do {
		if (dwarf_tag(&d) != DW_TAG_enumeration_type || dwarf_child(&d, &e))
			continue;
		do {
			const char *name = dwarf_diename(&e);

			if (!name || strcmp(name, wanted) || !dwarf_attr(&e, DW_AT_const_value, &attr) ||
			    dwarf_formsdata(&attr, &v))
				continue;
			*value = v;
			return true;
		} while (!dwarf_siblingof(&e, &e));
	} while (!dwarf_siblingof(&d, &d));
	return false;
}

bool dp_var_enumerator(struct dp_module *m, u64 pc, const char *name, s64 *value)
{
	Dwarf *dw = dp_mod_dwarf(m);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;

	if (!dw)
		return false;
	if (dp_mod_unit_at(m, pc, &unit) && enumerator_among(&unit, name, value))
		return true;
	while (dp_mod_next_unit(m, &cu, &unit))
		if (enumerator_among(&unit, name, value))
			return true;
	return false;
}
