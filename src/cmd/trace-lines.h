/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Event lines with names, aggregates or bodies: compiled to probe programs, one for each module. */
#ifndef DP_TRACE_LINES_H
#define DP_TRACE_LINES_H

#include "cmd/cmd.h"
#include "cmd/events.h"
#include "lang/rpn/rpn.h"

struct line_programs {
	struct line_program {
		char module[4096]; /* what MODNAME has */
		char file[4096];   /* what is read */
		const char *modtype;
		bool uprobes;
		bool waits;    /* the module is not mapped yet */
		bool inserted; /* by whoever runs the programs; */
		bool was_in;   /* in a process, as far as he knows */
		struct dp_cc_lines *lines;
		u32 *numbers; /* of the command line's lines */
		u32 n;
		struct dp_rpn_unit unit;
		bool compiled;
	} * v;
	u32 n;
};

struct line_target {
	const pid_t *pids; /* mistakes are told of the first one */
	u32 npids;
	char *const *command;
	const char *all; /* a file: all processes that map it, now and later. NULL: see above */
	bool wait;       /* for modules that are loaded later, whatever they are called */
	const struct dp_rpn_define *defines;
	u32 ndefines;
	bool quiet, allow_trap;
	bool tree; /* also what these processes start */
	bool skip; /* lines that are wrong, or refused, are told and left out */
};

/* Whether any of the lines needs the compiler. */
bool dp_cmd_lines_need_compiler(const struct event_lines *e);

/*
 * Whether any of them waits for a module that is loaded later; such lines are compiled, too. Lines must have been
 * parsed.
 */
bool dp_cmd_lines_wait(const struct event_lines *e, const struct line_target *t);

/*
 * Whether each line names a library that is there, or (--all) is that file, and would be shown the same if it were
 * compiled: then processes that start later can be held until they have the probes. Lines must have been parsed.
 */
bool dp_cmd_lines_can_hold(const struct event_lines *e, const struct line_target *t);

/* Whether any asks for a result that a plain line cannot have: see trace-better.c. Lines must have been parsed. */
bool dp_cmd_lines_ask_hidden(const struct event_lines *e, const struct line_target *t);

/* That one of the processes comes first which has the modules of most lines. */
void dp_cmd_lines_sort(const struct event_lines *e, pid_t *pids, u32 n);

/* For a line that is left out, and of which nothing else is told. */
void dp_cmd_tell_skipped(const struct event_line *line, const struct dp_error *err);

/* False: told already. Free them in either case. */
bool dp_cmd_lines_compile(const struct event_lines *e, const struct line_target *t, struct line_programs *out);
/*
 * The program loads what lines wait for from another file than was expected: one program more for each such file, not
 * inserted yet. Lines that are wrong there are told. Whether there are any programs more.
 */
bool dp_cmd_lines_come(const struct event_lines *e, const struct line_target *t, const pid_t *pids, u32 n,
		       struct line_programs *out);
/* Once for each module that lines wait for, or, at the end, have waited for in vain. */
void dp_cmd_lines_tell_waiting(const struct event_lines *e, const struct line_programs *p, bool ended);

void dp_cmd_lines_free(struct line_programs *p);

#endif
