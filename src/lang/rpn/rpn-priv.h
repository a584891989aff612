/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the passes of the front end share: lines of the preprocessed text, tokens, number
 * expressions. */
#ifndef DP_RPN_PRIV_H
#define DP_RPN_PRIV_H

#include "base/nearest.h"
#include "lang/rpn/rpn.h"
#include "program/code.h"

/* ---- the preprocessor's output (pre.c) ---- */

struct rpn_line {
	char *text;
	const char *file;
	u32 line;
};

struct rpn_source {
	struct rpn_line *lines;
	u32 n, cap;
	char **files; /* names, kept for messages */
	u32 nfiles;
};

int dp_rpn_preprocess(struct rpn_source *s, const char *text, const char *name, const char *dir,
		      const struct dp_rpn_define *defines, u32 ndefines, struct dp_error *err);

struct rpn_pre_options {         /* for languages other than that of probe programs */
	bool keep_pragmas;       /* as lines "#pragma ..." */
	bool keep_blanks;        /* at the beginning of lines, for columns in messages */
	bool ignore_errors;      /* of directives: they are left out */
	const char *const *dirs; /* where #include looks besides */
	u32 ndirs;
};

int dp_rpn_preprocess_with(struct rpn_source *s, const char *text, const char *name, const char *dir,
			   const struct dp_rpn_define *defines, u32 ndefines, const struct rpn_pre_options *opt,
			   struct dp_error *err);
void dp_rpn_source_free(struct rpn_source *s);

/* ---- tokens (token.c) ---- */

enum rpn_token_kind { RPN_END, RPN_WORD, RPN_NUMBER, RPN_TEXT, RPN_PUNCT };

struct rpn_token {
	enum rpn_token_kind kind;
	const char *at; /* in the line */
	u32 len;
	s64 value; /* of a number or character */
	bool bad;  /* a number out of range, a quote that does not end */
};

/* The token at p (blanks skipped); the next one begins at .at + .len. */
struct rpn_token dp_rpn_token(const char *p);
bool dp_rpn_is(const struct rpn_token *t, const char *text);

/*
 * A number expression at *p: numbers, characters, ( ) and the operators of C on integers, lowest
 * first:
 * || && | ^ & == != < <= > >= << >> + - * / % and unary - + ~ !. False: *p stands where it went
 * wrong. word: the value of a word that stands for a number; NULL: there are none.
 */
bool dp_rpn_expression(const char **p, s64 *value, bool (*word)(void *arg, const char **p, s64 *value), void *arg);

/* Characters of a text token, without its quotes and escapes; returns their number, -1 when they
 * are too many. */
int dp_rpn_text(const struct rpn_token *t, char *buf, u32 size);

/* ---- the assembler (asm.c) ---- */

struct rpn_asm; /* one probe's program in the making */

/* suspended: the local variable of the unit's `suspend` and `resume`, -1 when it has none of them. */
struct rpn_asm *dp_rpn_asm_new(int suspended);
void dp_rpn_asm_free(struct rpn_asm *a);
/* One statement: [LABEL:] [INSTRUCTION]. */
int dp_rpn_asm_statement(struct rpn_asm *a, const char *text, const struct rpn_line *line, struct dp_error *err);
/* Resolve the labels, hand the code over. */
int dp_rpn_asm_finish(struct rpn_asm *a, struct dp_rpn_probe *probe, struct dp_error *err);
/*
 * The line an instruction came from, and the instruction as it is written there (NULL: none is); while the source
 * lives.
 */
const struct rpn_line *dp_rpn_asm_line(const struct rpn_asm *a, u32 at, const char **text);
bool dp_rpn_asm_empty(const struct rpn_asm *a);

/* "NAME" KIND INDEX [STEP] [by PART... KEYS]; false: it is not that (aggregate.c). */
bool dp_rpn_aggregate(const char *value, struct dp_rpn_aggregate *a);

/* ---- errors (rpn-error.c): "FILE:LINE: " and the rest ---- */

int dp_rpn_fail(struct dp_error *err, const struct rpn_line *line, enum dp_code code, const char *fmt, ...)
    DP_PRINTF(4, 5);

#endif
