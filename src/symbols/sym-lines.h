/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Source lines of a module, by its debug information (DWARF 2 to 5, in the file or in a separate
 * one). Control side only.
 */
#ifndef DP_LINES_H
#define DP_LINES_H

#include "symbols/symbols.h"

#define DP_LINE_COPIES_MAX 256

/*
 * Where the code of FILE:LINE begins, as link-time addresses: one for each function that holds the
 * line and for each place into which it was inlined, the lowest of several. file is a name, or the
 * tail of a path ("net/core.c"); or a function, whose lines are counted from the one that it begins
 * in. When the line has no code, the next one of the same function that
 * has; *used is the line taken. In functions compiled without optimisation the first line is taken
 * behind the prologue, where the parameters are in their places. Returns the number of addresses,
 * at most max, or a negative errno: E_LINE_NODEBUG, E_LINE_FILE, E_LINE_CODE (the hint names the
 * nearest lines), of a function E_SYM_NONE.
 */
int dp_module_line(struct dp_module *m, const char *file, u32 line, u64 *addrs, u32 max, u32 *used,
		   struct dp_error *err);

/* The line of a link-time address; false without debug information. *file lives as long as the
 * module. */
bool dp_module_line_at(struct dp_module *m, u64 addr, const char **file, u32 *line);

struct dp_module_row {    /* where a source line has code */
	const char *file; /* lives as long as the module */
	u32 line;
	u64 addr;            /* link-time address of its first instruction */
	const char *inlined; /* the function that it was inlined from; "" */
};

/*
 * Call fn for each source line with code in [lo, hi), a function, in the order of addresses: once
 * for each function or inlined copy, at its lowest address. fn returns non-zero to stop; that is
 * returned, or a negative errno: E_LINE_NODEBUG, E_FILE_MEMORY.
 */
int dp_module_each_line(struct dp_module *m, u64 lo, u64 hi, int (*fn)(const struct dp_module_row *row, void *arg),
			void *arg, struct dp_error *err);

/*
 * Call fn for each source line with code of the function `name` itself, counted from the one in which it begins. fn
 * returns non-zero to stop; that is returned, or a negative errno: E_SYM_NONE, E_LINE_NODEBUG, E_FILE_MEMORY.
 */
int dp_module_each_line_of(struct dp_module *m, const char *name, int (*fn)(u32 line, void *arg), void *arg,
			   struct dp_error *err);

/*
 * Call fn for each row of the module's tables of lines that has code, all units after each other: a line comes as often
 * as it has rows. fn returns non-zero to stop; that is returned.
 */
int dp_module_each_line_row(struct dp_module *m, int (*fn)(const char *file, u32 line, void *arg), void *arg);

/* "file.c:123" or "function:12": the length of the name and the line; false when text is not of this form. */
bool dp_line_parse(const char *text, u32 *file_len, u32 *line);

#endif
