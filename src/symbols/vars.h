/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Variables of a program at one of its instructions, by its debug information: which are in scope,
 * of what type, and where each one is, as text of the Dynamic Probes language. Control side only.
 */
#ifndef DP_VARS_H
#define DP_VARS_H

#include <elfutils/libdw.h>

#include "symbols/symbols.h"

#define DP_VAR_PIECES 16
#define DP_PIECE_CODE 4096

enum dp_piece_kind {
	DP_PIECE_MEMORY,   /* code pushes the address */
	DP_PIECE_REGISTER, /* code is the register's name, for push r and pop r */
	DP_PIECE_VALUE,    /* code pushes the value; there is no place to write to */
	DP_PIECE_GONE,     /* this part is not available */
};

struct dp_piece { /* bytes [offset, offset + size) of the variable */
	enum dp_piece_kind kind;
	u32 offset, size; /* size 0: all of it */
	char code[DP_PIECE_CODE];
};

struct dp_var {
	Dwarf_Die die;
	Dwarf_Die type; /* of the variable; tag 0: none is known */
	bool has_type;
	u32 npieces;
	struct dp_piece pieces[DP_VAR_PIECES];
};

/*
 * The variable, parameter or function `name` as it is known at the instruction at pc (a link-time
 * address): the innermost scope first, inlined functions included, then the unit's, then those of
 * other units. Code refers to the module's own addresses as `.base + N`. Errors: E_LINE_NODEBUG,
 * E_VAR_NONE (hint: names that are near), E_VAR_GONE (why it is not available here; hint: the
 * nearest lines where it is).
 * copy_of: an inlined copy of this function begins at pc, and its own variables are meant; NULL: there is none.
 */
int dp_var_find(struct dp_module *m, u64 pc, const char *copy_of, const char *name, struct dp_var *v,
		struct dp_error *err);

/* A global or static variable of any unit. Errors: E_LINE_NODEBUG, E_VAR_NONE, E_VAR_GONE. */
int dp_var_global(struct dp_module *m, const char *name, struct dp_var *v, struct dp_error *err);

/* Call fn for each variable and parameter in scope at pc, innermost first, globals left out. r:
 * what dp_var_find() says of it, copy_of as there. Errors: E_LINE_NODEBUG. */
int dp_var_each(struct dp_module *m, u64 pc, const char *copy_of,
		int (*fn)(const char *name, int r, const struct dp_var *v, const struct dp_error *err, void *arg),
		void *arg, struct dp_error *err);

/* What stands for a type that is a unit of its own becomes that type (-fdebug-types-section). */
void dp_die_whole(Dwarf_Die *type);
/* The type that a variable, member, pointer or array has; false: none. */
bool dp_die_type(Dwarf_Die *die, Dwarf_Die *type);
/* An attribute that is a number, or what to take without it. */
u64 dp_die_number(Dwarf_Die *die, unsigned name, u64 other);

/*
 * The name of parameter i (from 0) of the function at pc, or of copy_of, as its source has them; NULL: none, or not
 * known.
 */
const char *dp_var_parameter(struct dp_module *m, u64 pc, const char *copy_of, u32 i);

/* The type of the value that the function at pc returns; false: none, or not known. */
bool dp_var_return_type(struct dp_module *m, u64 pc, Dwarf_Die *type);
bool dp_var_returns_nothing(struct dp_module *m, u64 pc); /* false also where that is not known */

/* What a function of Go returns first, by a compiler that returns it in registers. UNKNOWN: no debug information. */
enum dp_go_result { DP_GO_RESULT, DP_GO_NO_RESULT, DP_GO_RESULT_UNKNOWN };
enum dp_go_result dp_var_go_result(struct dp_module *m, u64 pc, Dwarf_Die *type);

/*
 * A type by its name: tag DW_TAG_structure_type, _union_type, _enumeration_type, _typedef or
 * _base_type. pc: the unit that is asked first.
 */
bool dp_var_type(struct dp_module *m, u64 pc, int tag, const char *name, Dwarf_Die *type);

/* The value of an enumerator of the unit at pc or another one. */
bool dp_var_enumerator(struct dp_module *m, u64 pc, const char *name, s64 *value);

/*
 * Types of a Go program at run time: their addresses, and where each has the offset (u32, from the first one) of its
 * name and its flags (u8). A name is a byte, its length, 7 bits in each byte, and the text, whose first character does
 * not belong to it where DP_GO_EXTRA_STAR is set. False: it is not known, or not sure.
 */
#define DP_GO_EXTRA_STAR 2
struct dp_go_types {
	u64 first, last; /* last: behind them */
	u32 name_at, flags_at;
};
bool dp_module_go_types(struct dp_module *m, u64 pc, struct dp_go_types *t);

/* Bytes of debug information, in the file or apart from it; 0: there is none. Opens it. */
u64 dp_module_debug_bytes(struct dp_module *m);

#endif
