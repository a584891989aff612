/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between line.c, which takes an event line apart, and line-expr.c, which rewrites its expressions. */
#ifndef DPCC_LINE_PRIV_H
#define DPCC_LINE_PRIV_H

#include "arch/arch.h"
#include "lang/dpcc/dpcc-priv.h"
#include "lang/dpcc/syscalls.h"
#include "lang/event/event.h"
#include "program/code.h"
#include "program/opcode.h"

#define LINES_NAME "line"

struct out_text { /* text, and for each character where in the line it comes from */
	char *s;
	u32 *at;
	size_t n, room;
	bool failed;
};

struct field {
	char name[64];
	struct out_text value;
};

struct line_aggregate { /* NAME=WORD(ARGS), by positions in the line; args 0: without parentheses */
	u32 at, name_len, word, args, args_end, end;
};

struct line_names { /* names that were made for aggregates, so that no two lines share one */
	char (*v)[80];
	u32 n;
};

#define TOOK "unsigned long __took = timestamp() - $__began; "
#define DP_CC_ENDS "/ends" /* behind the name of an event whose first record ends the trace */

struct line {
	struct line_names *taken;
	const char *text;
	u32 number, behind; /* behind: its head */
	char moment[32];    /* of a line without a place: when it runs; "" */
	struct dp_event ev;
	struct dp_error *err;

	struct field fields[64];
	u32 nfields;
	struct line_aggregate aggregates[8];
	u32 naggregates;
	u32 keys[DP_RPN_KEYS_MAX], key_ends[DP_RPN_KEYS_MAX], nkeys;
	unsigned long top;
	bool uses_duration, uses_all, uses_retval;
	bool ends; /* its first record ends the trace */
	u32 duration_at;
	u32 calls[DP_SYSCALLS_MAX], ncalls; /* of the system, that the line means */
	bool uses_result;                   /* $ret, $error, $duration: what is known behind a call only */
	bool condition_waits;               /* the condition does */
	bool knows_call;                    /* of the handler that is written: it knows which call it is */
	u32 choices;                        /* that handlers have made by the number of a call */
	u32 names[64], nnames;              /* $NAME that may be a parameter: where the name begins */

	u32 declared[64], ndeclared; /* by begin { }: where each name stands */

	struct out_text body, tail, condition;
};

/* line-text.c */
int dp_cc_line_fail(struct line *l, u32 at, enum dp_code code, const char *fmt, ...) DP_PRINTF(4, 5);
bool dp_cc_is_word_char(char c);
u32 dp_cc_word_len(const char *p);
u32 dp_cc_step(const char *text, u32 at);

void dp_cc_out_add(struct out_text *o, const char *s, size_t n, u32 at, bool follows);
void dp_cc_out_put(struct out_text *o, u32 at, const char *fmt, ...) DP_PRINTF(3, 4);
void dp_cc_out_append(struct out_text *o, const struct out_text *from);
void dp_cc_out_free(struct out_text *o);

/* line-bodies.c: lines that are of no place. What begin { } declares goes to o; the handler comes last. */
int dp_cc_line_moment(struct line *l, struct out_text *o);
void dp_cc_line_put_moment(struct line *l, struct out_text *o);

/* line-expr.c. hex (may be NULL): whether the value is better shown in hexadecimal. */
int dp_cc_line_expr(struct line *l, u32 from, u32 to, struct out_text *o, bool *hex);
void dp_cc_line_put_condition(struct line *l, struct out_text *o);
int dp_cc_line_body(struct line *l, u32 from, u32 to);

/* line-calls.c: lines of system calls. */
int dp_cc_line_calls(struct line *l);                                  /* which are meant */
bool dp_cc_line_call_name(struct line *l, u32 at, struct out_text *o); /* $NAME of an argument, or what is known */
void dp_cc_line_put_calls(struct line *l, struct out_text *o);

/* line.c: a line as pragmas and handlers, two text lines for each. */
int dp_cc_line_translate(struct out_text *o, const char *text, u32 number, bool ends, struct line_names *taken,
			 struct dp_error *err);

#endif
