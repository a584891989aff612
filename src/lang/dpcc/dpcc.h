/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * dpcc: probe handlers in C, with the probed program's own variables, to the text of a probe
 * program
 * (.rpn). doc/dpcc.md describes the language. Control side; uses libc and the symbols library.
 */
#ifndef DP_DPCC_H
#define DP_DPCC_H

#include <stdio.h>

#include "lang/rpn/rpn.h"

struct dpcc_options {
	const struct dp_rpn_define *defines;
	u32 ndefines;
	const char *const *dirs; /* of #include */
	u32 ndirs;
	const char *module; /* file with symbols and debug information, in the place of MODNAME's */
	bool comments;      /* in the generated text */
	bool ignore_errors; /* of the preprocessor */
	bool tree;          /* write the syntax tree instead */
	/* Show which variables are known at this place of the module, in the place of compiling;
	 * NULL */
	const char *vars_at;
	enum dp_rpn_modtype vars_of; /* which kind of module that is */
	FILE *notes;                 /* remarks, one a line; NULL: none */
};

struct dpcc_result {
	char *text;     /* free() it */
	char line[512]; /* on error: the source line that err->column is in; "" */
};

/*
 * Compile the file at path. Errors: E_DPCC_*, E_VAR_*, E_LINE_*, E_SYM_*, E_RPN_FILE, E_RPN_PRE;
 * the detail begins with "FILE:LINE:COLUMN: ".
 */
int dp_cc_compile(const char *path, const struct dpcc_options *opt, struct dpcc_result *res, struct dp_error *err);

/* Whether a file's name says that it is for dpcc (.dpc). */
bool dp_cc_is_source(const char *path);

#endif
