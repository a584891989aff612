/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Shared by the two files of the preprocessor: pre.c (lines, files, conditions) and macro.c. */
#ifndef DP_PRE_PRIV_H
#define DP_PRE_PRIV_H

#include "lang/rpn/rpn-priv.h"

#define DEPTH_MAX 32 /* files, conditions */
#define PARAMS_MAX 16
#define LINE_MAX_BYTES (256 * 1024) /* of one line after expansion */
#define FILE_MAX_BYTES (4 << 20)
#define LINES_MAX 200000
#define EXPANSIONS_MAX 100000

struct macro {
	char *name, *body;
	char *params[PARAMS_MAX];
	int nparams;   /* -1: takes none */
	bool variadic; /* the last parameter takes all further arguments */
	bool busy;     /* being expanded */
};

struct condition {
	bool active, taken, outer, in_else;
};

struct pre {
	struct rpn_source *out;
	struct macro *macros;
	u32 nmacros;
	size_t capmacros;
	struct condition conds[DEPTH_MAX];
	u32 nconds, depth;
	u32 expansions;
	struct rpn_line here;
	const struct rpn_pre_options *opt;
	struct dp_error *err;
};

struct text { /* grows up to LINE_MAX_BYTES; n bytes and a zero, or NULL */
	char *s;
	size_t n, cap;
	bool failed;
};

void dp_pre_add(struct text *t, const char *s, size_t n);
size_t dp_pre_name(const char *p);      /* length of the name at p, 0: there is none */
const char *dp_pre_skip(const char *p); /* blanks */
int dp_pre_out_of_memory(struct pre *c);

/* macro.c */
struct macro *dp_pre_find(struct pre *c, const char *name, size_t n);
bool dp_pre_defined(struct pre *c, const char *name, size_t n); /* the built-in ones too */
int dp_pre_define(struct pre *c, const char *p);                /* what stands behind #define */
void dp_pre_undefine(struct pre *c, const char *name, size_t n);
void dp_pre_free_macros(struct pre *c);

/* Append the text at p with its macros replaced; false: an error, told in c->err unless out->failed. */
bool dp_pre_expand(struct pre *c, struct text *out, const char *p);

#endif
