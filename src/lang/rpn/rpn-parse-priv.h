/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the parts of the parser share: rpn-parse.c takes definitions apart, rpn-keys.c has the keywords and reads their
 * values, rpn-place.c reads where a probe is.
 */
#ifndef DP_RPN_PARSE_PRIV_H
#define DP_RPN_PARSE_PRIV_H

#include "lang/rpn/rpn-priv.h"

struct rpn_parser {
	struct dp_rpn_unit *u;
	struct dp_rpn_probe *probe; /* NULL in the header */
	struct rpn_asm *as;         /* its program */
	const struct rpn_line *line;
	const char *key; /* the keyword whose value is read */
	struct dp_error *err;
	u32 jmpmax, logmax, ex_logmax, heapmax;
	u32 watch_len;      /* of the probe: length =, 0: not given */
	const char *access; /* and access =, as event lines name it; NULL */
	bool autotrace, has_jmpmax, has_vars, may_suspend;
	int suspended; /* the variable of `suspend` and `resume`, behind the program's own; -1: none */
	char *layouts; /* of the header: each probe has them */
};

struct rpn_keyword {
	const char *name;
	int (*take)(struct rpn_parser *p, const char *value);
	bool header, probe; /* where it stands */
};

extern const struct rpn_keyword dp_rpn_keywords[];
extern const u32 dp_rpn_nkeywords;

/* The value of p->key: an error, a number, the text as it stands or without its quotes. */
int dp_rpn_bad_value(struct rpn_parser *p, const char *value);
int dp_rpn_number_value(struct rpn_parser *p, const char *value, s64 lo, s64 hi, s64 *v);
int dp_rpn_text_value(struct rpn_parser *p, const char *value, char *out, u32 size);

/* offset and address, watchpoint, tracepoint and call, run: of the probe that begins with it. */
int dp_rpn_set_place(struct rpn_parser *p, const char *value, bool absolute);
int dp_rpn_set_memory(struct rpn_parser *p, const char *value);
int dp_rpn_set_traced(struct rpn_parser *p, const char *value, bool is_call);
int dp_rpn_set_moment(struct rpn_parser *p, const char *value);

#endif
