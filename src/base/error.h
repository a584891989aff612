/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Coded errors: what went wrong, where, and one suggestion. Codes come from errors.def, the only
 * place where a code, its errno, its sentence and its explanation are written.
 */
#ifndef DP_ERROR_H
#define DP_ERROR_H

#include "base/base.h"

enum dp_code {
	DP_OK = 0,
#define DP_ERROR(id, name, number, sentence, hint, explanation) id,
#include "base/errors.def"
#undef DP_ERROR
	DP_NCODES
};

struct dp_error {
	enum dp_code code;
	int column;       /* 0-based offset in the text that was parsed, or -1 */
	char detail[256]; /* place and reason of this occurrence */
	char hint[160];   /* suggestion of this occurrence; empty: the table's */
};

struct dp_error_info {
	const char *name; /* "E-SITE-MIDINSN" */
	int number;       /* errno, positive */
	const char *sentence;
	const char *hint;
	const char *explanation;
};

/* The table entry of a code; never NULL for codes below DP_NCODES. */
const struct dp_error_info *dp_error_info(enum dp_code code);

/* The code with that name, without regard to case; DP_OK when there is none. */
enum dp_code dp_error_by_name(const char *name);

/*
 * Fill in *err (which may be NULL) and return the code's negative errno, so that a failing function
 * can end with "return dp_fail(err, E_..., ...)". fmt gives place and reason.
 */
int dp_fail(struct dp_error *err, enum dp_code code, const char *fmt, ...) DP_PRINTF(3, 4);

/* Add a suggestion or a column to an error that was just filled in. */
void dp_error_hint(struct dp_error *err, const char *fmt, ...) DP_PRINTF(2, 3);
void dp_error_column(struct dp_error *err, int column);

#endif
