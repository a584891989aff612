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
		struct dp_cc_lines *lines;
		u32 *numbers; /* of the command line's lines */
		u32 n;
		struct dp_rpn_unit unit;
		bool compiled;
	} * v;
	u32 n;
};

struct line_target {
	pid_t pid;
	char *const *command;
	const char *all; /* a file: all processes that map it, now and later. NULL: see above */
	const struct dp_rpn_define *defines;
	u32 ndefines;
	bool quiet, allow_trap;
};

/* Whether any of the lines needs the compiler. */
bool dp_cmd_lines_need_compiler(const struct event_lines *e);

/* That one of the processes which has the modules of most lines: there the others are looked up, too. */
pid_t dp_cmd_lines_process(const struct event_lines *e, const pid_t *pids, u32 n);

/* False: told already. Free them in either case. */
bool dp_cmd_lines_compile(const struct event_lines *e, const struct line_target *t, struct line_programs *out);
void dp_cmd_lines_free(struct line_programs *p);

#endif
