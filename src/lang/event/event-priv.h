/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the files of the event front end share: the line as it is taken apart, its arguments and its
 * condition. Passes, in order: location.c, fetch.c, condition.c read text and resolve nothing;
 * event-gen.c, gen-condition.c, event-compile.c make the program.
 */
#ifndef DP_EVENT_PRIV_H
#define DP_EVENT_PRIV_H

#include "abi/abi-record.h"
#include "lang/event/event.h"
#include "program/code.h"

#define EV_LINE_MAX 8192
#define EV_DEREF_MAX 16
#define EV_NODES_MAX 256
#define EV_OPERANDS_MAX 64 /* arguments written in the condition itself */
#define EV_DEPTH_MAX 32
#define EV_MAXACTIVE_MAX 4096
#define EV_ARGN_MAX 128
#define EV_WATCH_MAX (1u << 20) /* bytes that one event can watch */
#define EV_STACKN_MAX 4095
#define EV_REG_ARGS 6 /* function arguments that travel in registers */

/* What is behind the head of such lines, the compiler reads. */
static inline bool dp_ev_is_of_compiler(const struct dp_event *ev)
{
	return ev->is_static || ev->is_call || ev->is_tracepoint;
}

struct ev_type {
	u8 field;     /* enum dp_field_type */
	u8 size;      /* bytes of one element in memory */
	u8 count;     /* elements; 0: not an array */
	u8 bit_width; /* 0: not a bit field */
	u8 bit_shift;
	bool is_signed;
	bool is_given; /* written by the user */
	bool is_user;  /* ustring: of user memory only */
};

enum ev_base {
	EV_REG,    /* a register or a part of one */
	EV_CONST,  /* value */
	EV_SYMBOL, /* address of the symbol in text, plus value */
	EV_FILE,   /* address of file offset value in the probed module */
	EV_TEXT,   /* constant text */
	EV_COMM,   /* name of the thread */
	EV_ASK,    /* what the opcode says, which takes nothing and pushes one word */
	EV_FRAMES, /* who called; always an array */
};

/* A fetch argument: start with the base, then follow pointers, innermost first. */
struct ev_fetch {
	enum ev_base base;
	u8 reg_word, width, shift; /* of the register; bits */
	u8 nderef;
	bool is_watched;    /* $old or $new */
	bool in_memory;     /* the user named a place in memory: texts and arrays may stand there */
	u64 value;          /* of EV_ASK: the opcode */
	u64 address;        /* of EV_SYMBOL and EV_FILE: as resolved for this event */
	u16 text, text_len; /* in the line's pool */
	u16 user;           /* bit i: deref[i] reads user memory only */
	s32 deref[EV_DEREF_MAX];
	struct ev_type type;
	u32 column, end; /* where it is written */
	u32 start;       /* and its innermost part */
};

struct ev_arg {
	char name[DP_NAME_MAX]; /* "" for the short forms without a name */
	struct ev_fetch fetch;
};

enum ev_op {
	EV_OP_LOR,
	EV_OP_LAND,
	EV_OP_OR,
	EV_OP_XOR,
	EV_OP_AND,
	EV_OP_EQ,
	EV_OP_NE,
	EV_OP_MATCH,
	EV_OP_LT,
	EV_OP_LE,
	EV_OP_GT,
	EV_OP_GE,
	EV_OP_SHL,
	EV_OP_SHR,
	EV_OP_ADD,
	EV_OP_SUB,
	EV_OP_MUL,
	EV_OP_DIV,
	EV_OP_MOD,
	EV_OP_NEG,
	EV_OP_NOT,
	EV_OP_LNOT, /* unary */
};

enum ev_node_kind {
	EV_NODE_CONST,        /* value */
	EV_NODE_TEXT,         /* constant text */
	EV_NODE_FETCH,        /* fetch */
	EV_NODE_UNARY,        /* op a */
	EV_NODE_BINARY,       /* a op b */
	EV_NODE_CHOICE,       /* a ? b : c */
	EV_NODE_COMPARE_TEXT, /* a op text; op is EQ, NE or MATCH */
};

struct ev_node {
	enum ev_node_kind kind;
	enum ev_op op;
	bool is_unsigned; /* as a 64-bit number */
	s16 a, b, c;      /* indexes of nodes */
	u64 value;
	const struct ev_fetch *fetch;
	u16 text, text_len;
	u32 column;
};

struct dp_event_line {
	u32 pos; /* next character */
	struct dp_event shape;
	bool is_kernel;
	bool waits;    /* the arguments are not parsed yet */
	bool any_kind; /* kinds that only the compiler knows as well */

	/* Of the call that is going on. */
	struct dp_event *ev;
	const struct dp_event_env *env;
	struct dp_error *err;

	struct ev_arg args[DP_FIELDS_MAX];
	u32 nargs;
	struct ev_node nodes[EV_NODES_MAX];
	u32 nnodes;
	struct ev_fetch operands[EV_OPERANDS_MAX];
	u32 noperands;
	s32 condition; /* its top node, -1 without one */

	char pool[EV_LINE_MAX]; /* texts, without their quotes and backslashes */
	u32 pool_len;
	struct dp_asm code;
	char text[];
};

/* ---- lexer.c ---- */

bool dp_ev_is_digit(char c);
bool dp_ev_is_word(char c);  /* letters, digits, _ */
bool dp_ev_is_blank(char c); /* also the end of the line */
void dp_ev_skip_blanks(struct dp_event_line *l);

/* Length of the identifier at p, 0 when there is none. */
u32 dp_ev_word(const char *p);

/* A number, decimal or after 0x hexadecimal; octal after 0 when asked for. Fails with E_EVENT_NUMBER. */
int dp_ev_number(struct dp_event_line *l, bool octal, u64 *value);
int dp_ev_quantity(struct dp_event_line *l, u64 *value); /* octal after 0; or a time with its unit, in nanoseconds */

/* A text in double quotes, at most max characters; its content goes to the pool. */
int dp_ev_quoted(struct dp_event_line *l, u32 max, u16 *text, u16 *len);

/* Copy bytes to the pool; the pool is as long as the line, and nothing is copied twice. */
int dp_ev_keep(struct dp_event_line *l, const char *p, u32 len, u16 *text);

/* Fail with a code at a column of the line. */
int dp_ev_fail(struct dp_event_line *l, u32 column, enum dp_code code, const char *fmt, ...) DP_PRINTF(4, 5);

/* The candidate nearest to a word, for "did you mean". */
struct ev_nearest {
	const char *word;
	u32 len;
	u32 distance;
	char best[DP_NAME_MAX];
};

void dp_ev_nearest_try(struct ev_nearest *n, const char *candidate);
/* Turn it into the error's hint, when one was near enough. */
void dp_ev_nearest_hint(struct dp_event_line *l, const struct ev_nearest *n, const char *prefix);

/* ---- location.c, fetch.c, condition.c ---- */

int dp_ev_parse_location(struct dp_event_line *l);
int dp_ev_parse_fetch(struct dp_event_line *l, struct ev_fetch *f); /* with its type */
int dp_ev_parse_argument(struct dp_event_line *l);
/* common_pid and the like, in the kernel. */
bool dp_ev_is_filter_word(const struct dp_event_line *l, const char *p, u32 len);
bool dp_ev_is_short_form(const char *word, u32 len);
int dp_ev_parse_condition(struct dp_event_line *l);

/* ---- event-parse.c ---- */

int dp_ev_parse_head(struct dp_event_line *l); /* up to the location */
int dp_ev_parse_arguments(struct dp_event_line *l);

/* ---- event-gen.c, gen-condition.c ---- */

void dp_ev_gen_address(struct dp_event_line *l, const struct ev_fetch *f); /* all but the last offset */
s64 dp_ev_gen_last(struct dp_event_line *l, const struct ev_fetch *f);     /* what of that one is left for the access */
void dp_ev_gen_value(struct dp_event_line *l, const struct ev_fetch *f);
/* keep: bytes that stay free for the texts of later fields; share: for each later one of this field. */
void dp_ev_gen_field(struct dp_event_line *l, const struct ev_arg *arg, const struct dp_field *field, u32 index,
		     u32 keep, u32 share);
void dp_ev_gen_condition(struct dp_event_line *l);

static inline bool ev_is_string(const struct ev_fetch *f)
{
	return f->type.field == DP_FIELD_STRING;
}

#endif
