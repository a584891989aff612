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

/* A variable that is known at a place (dpcc_options.vars_at). */
struct dpcc_var {
	const char *name, *type; /* type NULL: not known */
	const char *where;       /* where it is; NULL: it cannot be read, and */
	const char *why, *hint;  /* why not */
};

struct dpcc_thread { /* a thread variable that lines in a process set, for lines in the kernel to read */
	const char *name;
	u32 keys;    /* threads that its table has room for */
	u32 setters; /* modules that set one of that name, each its own */
};

struct dpcc_line { /* an event line that is compiled with the file, of its module */
	const char *text;
	const char *name; /* in messages: "--until" */
	bool ends;        /* its first record ends the trace */
	bool first;       /* in front of what the file has, not behind it */
};

struct dpcc_options {
	const struct dp_rpn_define *defines;
	u32 ndefines;
	const char *const *dirs; /* of #include */
	u32 ndirs;
	const char *module; /* file with symbols and debug information, in the place of MODNAME's */
	const char *text;   /* what is compiled, in the place of the file; its name stands in messages */
	const struct dpcc_line *lines;
	u32 nlines;
	bool comments;      /* in the generated text */
	bool ignore_errors; /* of the preprocessor */
	bool all_places;    /* also those of a pattern where only a breakpoint fits */
	bool tree;          /* write the syntax tree instead */
	/* Show which variables are known at this place of the module, in the place of compiling;
	 * NULL */
	const char *vars_at;
	enum dp_rpn_modtype vars_of; /* which kind of module that is */
	/* Take the place, and then each variable, in the place of a text; file NULL: not known. May be NULL. */
	void (*take_place)(void *arg, const char *place, const char *file, u32 line);
	void (*take_var)(void *arg, const struct dpcc_var *v);
	void *take_arg;
	const struct dpcc_thread *threads;
	u32 nthreads;
	FILE *notes;       /* remarks, one a line; NULL: none */
	bool takes_copies; /* the caller looks at dpcc_result.copies */
};

struct dpcc_copy { /* the program of a probe in text is wanted at another place of the file as well */
	u32 probe;
	u64 offset;
	char *event; /* what "field = event" is to have there; NULL: nothing else */
};

struct dpcc_result {
	char *text;               /* free() it */
	struct dpcc_copy *copies; /* dp_cc_result_free() */
	u32 ncopies;
	char line[512]; /* on error: the source line that err->column is in; "" */
};

/*
 * Compile the file at path. Errors: E_DPCC_*, E_VAR_*, E_LINE_*, E_SYM_*, E_RPN_FILE, E_RPN_PRE;
 * the detail begins with "FILE:LINE:COLUMN: ".
 */
int dp_cc_compile(const char *path, const struct dpcc_options *opt, struct dpcc_result *res, struct dp_error *err);

void dp_cc_result_free(struct dpcc_result *res);

/*
 * Event lines. Whether one says what only this compiler understands (names of the program, aggregates, assignments, a
 * body in C), and is no line of the event language.
 */
bool dp_cc_line_says_more(const char *text);

/* begin { ... }, end { ... }, i:1s ...: of no place, and for the bodies of all modules. */
bool dp_cc_line_is_body(const char *text);

/* Lines of one module: modname is its path, or what MODNAME has for the kernel; modtype user, kernel or kmod. */
struct dp_cc_lines;
struct dp_cc_lines *dp_cc_lines_new(const char *modname, const char *modtype);
/* ends: its first record ends the trace, and it makes one for each hit, whatever it says. */
int dp_cc_lines_add(struct dp_cc_lines *ls, const char *text, bool ends, struct dp_error *err);
/* As dp_cc_compile(). On error *line says which of the lines is wrong, and res->line is it; ~0: none can be told. */
int dp_cc_lines_compile(const struct dp_cc_lines *ls, const struct dpcc_options *opt, struct dpcc_result *res,
			u32 *line, struct dp_error *err);
void dp_cc_lines_free(struct dp_cc_lines *ls);

/* Whether a file's name says that it is for dpcc (.dpc). */
bool dp_cc_is_source(const char *path);

#endif
