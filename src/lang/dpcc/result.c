/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * $retval: the type of what a function returns, and where the calling convention puts it. Small structures of C and
 * C++ are returned in up to two registers, word by word: general ones, or vector registers for words that have floating
 * point only.
 */
#include <dwarf.h>

#include "arch/arch.h"
#include "lang/dpcc/dpcc-priv.h"
#include "symbols/variable.h"

enum word_class { CLASS_NONE, CLASS_REAL, CLASS_WORD };

enum result_way { IN_MEMORY, IN_REGISTERS, UNKNOWN_WAY };

static bool is_compound(const struct type *t)
{
	return t->kind == TY_STRUCT || t->kind == TY_ARRAY;
}

/* What the words of a value consist of that begins at this offset. */
static enum result_way classify(struct dpcc *c, struct type *t, u64 at, enum word_class *classes)
{
	enum result_way way = IN_REGISTERS;

	if (t->lazy)
		dp_cc_debug_complete(c, t);
	if (t->kind == TY_ARRAY) {
		for (u64 i = 0; i < t->n && way == IN_REGISTERS; i++)
			way = classify(c, t->of, at + i * t->of->size, classes);
		return way;
	}
	if (t->kind == TY_STRUCT) {
		for (const struct member *m = t->members; m && way == IN_REGISTERS; m = m->next)
			way = classify(c, m->type, at + m->offset, classes);
		return way;
	}
	if (!t->size || t->is_complex || (t->kind == TY_FLOAT && t->size > 8))
		return UNKNOWN_WAY;
	if (t->size <= 8 && at % t->size) /* not aligned: the whole is returned in memory */
		return IN_MEMORY;
	for (u64 word = at / 8; word <= (at + t->size - 1) / 8; word++)
		if (t->kind != TY_FLOAT)
			classes[word] = CLASS_WORD;
		else if (classes[word] == CLASS_NONE)
			classes[word] = CLASS_REAL;
	return IN_REGISTERS;
}

/* Whether a class has functions or bases: then it may be one that is not copied byte by byte. */
static bool is_plain(Dwarf_Die *type)
{
	Dwarf_Die child, of;

	while (dwarf_tag(type) == DW_TAG_typedef || dwarf_tag(type) == DW_TAG_array_type)
		if (!dp_die_type(type, type))
			return false;
	if (dwarf_tag(type) == DW_TAG_base_type || dwarf_tag(type) == DW_TAG_pointer_type ||
	    dwarf_tag(type) == DW_TAG_enumeration_type)
		return true;
	if (dwarf_child(type, &child))
		return false;
	do {
		of = child;
		if (dwarf_tag(&child) != DW_TAG_member || !dp_die_type(&of, &of) || !is_plain(&of))
			return false;
	} while (!dwarf_siblingof(&child, &child));
	return true;
}

/* Of C++, classes that are not copied byte by byte are returned in memory, whatever their size. */
static enum result_way way_of_language(struct dpcc *c, Dwarf_Die *type)
{
	Dwarf_Attribute a;
	Dwarf_Word how;
	Dwarf_Die unit;

	if (!c->mod)
		return IN_REGISTERS; /* the kernel's C */
	switch (dwarf_diecu(type, &unit, NULL, NULL) ? dwarf_srclang(&unit) : -1) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
		return IN_REGISTERS;
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
		if (is_plain(type))
			return IN_REGISTERS;
		if (dwarf_formudata(dwarf_attr(type, DW_AT_calling_convention, &a), &how))
			return UNKNOWN_WAY;
		return how == DW_CC_pass_by_value       ? IN_REGISTERS
		       : how == DW_CC_pass_by_reference ? IN_MEMORY
							: UNKNOWN_WAY;
	default:
		return UNKNOWN_WAY;
	}
}

/* ---- Go ---- */

struct go_registers {
	u32 words, reals;
	bool full; /* there are none left: the whole is on the stack */
};

static void put_piece(struct dp_var *v, enum dp_piece_kind kind, u64 at, u64 size, const char *code)
{
	struct dp_piece *p = &v->pieces[v->npieces++];

	*p = (struct dp_piece){.kind = kind, .offset = (u32)at, .size = (u32)size};
	dp_format(p->code, DP_PIECE_CODE, "%s", code);
}

static void put_go_part(struct dpcc *c, struct dp_var *v, struct go_registers *g, bool is_real, u64 at, u64 size)
{
	const char *name = is_real ? dp_name_of_go_real(g->reals) : dp_name_of_go_result(g->words);

	g->full |= !name || v->npieces == DP_VAR_PIECES;
	if (g->full)
		return;
	put_piece(v, is_real ? DP_PIECE_VALUE : DP_PIECE_REGISTER, at, size,
		  is_real ? dp_cc_format(c, "push r,%s;xchg;ros 1;", name) : name);
	*(is_real ? &g->reals : &g->words) += 1;
}

/* Each number, however small, has a register of its own. Arrays have none, but for those of one element. */
static void go_parts(struct dpcc *c, struct dp_var *v, struct go_registers *g, struct type *t, u64 at)
{
	if (t->lazy)
		dp_cc_debug_complete(c, t);
	if (t->kind == TY_ARRAY) {
		g->full |= t->n > 1;
		if (t->n == 1)
			go_parts(c, v, g, t->of, at);
		return;
	}
	if (t->kind == TY_STRUCT) {
		for (const struct member *m = t->members; m; m = m->next)
			go_parts(c, v, g, m->type, at + m->offset);
		return;
	}
	if (t->is_complex) {
		put_go_part(c, v, g, true, at, t->size / 2);
		put_go_part(c, v, g, true, at + t->size / 2, t->size / 2);
		return;
	}
	g->full |= t->size > 8;
	put_go_part(c, v, g, t->kind == TY_FLOAT, at, t->size);
}

static struct node *go_result(struct dpcc *c, struct node *n, const struct tok *where)
{
	struct go_registers g = {.full = false};
	enum dp_go_result is = DP_GO_RESULT_UNKNOWN;
	struct dp_error err = {0};
	Dwarf_Die die;

	if (dp_module_debug_bytes(c->mod))
		is = dp_var_go_result(c->mod, dp_cc_called(c), &die);
	if (is == DP_GO_RESULT_UNKNOWN) {
		dp_fail(&err, E_EVENT_VAR, "$retval: what this function of Go returns is not known");
		dp_error_hint(&err, "since Go 1.17, %%ax has the first result if it is an integer or a pointer");
		dp_cc_refail(c, where, &err);
	}
	if (is == DP_GO_NO_RESULT)
		dp_cc_fail(c, where, E_DPCC_TYPE, "the function returns nothing: there is no $retval");
	n->type = dp_cc_debug_type(c, &die);
	if (n->type->lazy)
		dp_cc_debug_complete(c, n->type);
	go_parts(c, n->probe, &g, n->type, 0);
	if (g.full || !n->probe->npieces)
		dp_cc_fail(c, where, E_DPCC_TYPE, "the function returns %.80s on the stack, where it is not looked for",
			   dp_cc_type_name(c, n->type));
	if (!is_compound(n->type) && !n->type->is_complex)
		n->probe->pieces[0].size = 0;
	else
		n->in_target = true;
	return n;
}

/* ---- C and C++ ---- */

static struct type *type_of_result(struct dpcc *c, const struct tok *where, Dwarf_Die *die)
{
	u64 func = dp_cc_called(c);
	struct type *t = NULL;

	if (!c->mod)
		t = dp_cc_btf_return_type(c);
	else if (dp_var_return_type(c->mod, func, die))
		t = dp_cc_debug_type(c, die);
	if (t == &dp_cc_type_void || (!t && c->mod && dp_var_returns_nothing(c->mod, func)))
		dp_cc_fail(c, where, E_DPCC_TYPE, "the function returns nothing: there is no $retval");
	if (t && t->lazy)
		dp_cc_debug_complete(c, t);
	return t ? t : &dp_cc_type_long;
}

/* A value of up to two words. */
static void put_words(struct dp_var *v, u64 size, const enum word_class *classes)
{
	static const char *const words[] = {DP_NAME_RESULT, DP_NAME_RESULT_2};
	static const char *const reals[] = {"push r," DP_NAME_REAL_RESULT ";xchg;ros 1;",
					    "push r," DP_NAME_REAL_RESULT_2 ";xchg;ros 1;"};
	u32 nwords = 0, nreals = 0;

	for (u64 at = 0; at < size; at += 8)
		if (classes[at / 8] == CLASS_REAL)
			put_piece(v, DP_PIECE_VALUE, at, 8, reals[nreals++]);
		else
			put_piece(v, DP_PIECE_REGISTER, at, 8, words[nwords++]);
}

struct node *dp_cc_result(struct dpcc *c, struct node *n, const struct tok *where)
{
	enum word_class classes[2] = {CLASS_NONE};
	enum result_way way = IN_REGISTERS;
	Dwarf_Die die;
	struct type *t;

	if (c->mod && dp_module_is_go(c->mod))
		return go_result(c, n, where);
	t = type_of_result(c, where, &die);
	n->type = t;
	if (dp_cc_is_real(t)) {
		put_piece(n->probe, DP_PIECE_VALUE, 0, 0, "push r," DP_NAME_REAL_RESULT ";xchg;ros 1;");
		return n;
	}
	if (t->kind == TY_FLOAT)
		dp_cc_fail(c, where, E_DPCC_TYPE, "the function returns %.80s in a register that cannot be read",
			   dp_cc_type_name(c, t));
	if (!is_compound(t) && t->size <= 8) {
		put_piece(n->probe, DP_PIECE_REGISTER, 0, 0, DP_NAME_RESULT);
		return n;
	}
	if (t->size > 16)
		way = IN_MEMORY; /* a register says where */
	else if (t->size)
		way = way_of_language(c, &die);
	if (way == IN_REGISTERS)
		way = classify(c, t, 0, classes);
	if (way == UNKNOWN_WAY)
		dp_cc_fail(c, where, E_DPCC_TYPE, "the function returns %.80s in registers that are not known",
			   dp_cc_type_name(c, t));
	if (way == IN_MEMORY)
		put_piece(n->probe, DP_PIECE_MEMORY, 0, 0, "push r," DP_NAME_RESULT ";");
	else
		put_words(n->probe, t->size, classes);
	n->in_target = true;
	return n;
}
