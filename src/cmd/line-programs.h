/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What trace-lines.c adds lines to, and how it finds the modules of those that may be about several. */
#ifndef DP_LINE_PROGRAMS_H
#define DP_LINE_PROGRAMS_H

#include "cmd/line-modules.h"

/* The program of that module, a new one if there is none. NULL: no memory. */
struct line_program *dp_cmd_program_of(struct line_programs *out, const struct line_program *wanted);
bool dp_cmd_program_has(const struct line_program *p, u32 line);
/* The i-th line. False: why. */
bool dp_cmd_add_to_program(struct line_program *p, const struct event_lines *e, u32 i, struct dp_error *err);

/*
 * To the programs of all modules that have a static probe, a system call or a function that matches. *met: what was
 * found or not, the module that the line names is there.
 */
bool dp_cmd_add_static_line(struct line_finder *f, const struct event_lines *e, u32 i, const struct dp_location *loc,
			    struct line_programs *out, bool *met, struct dp_error *err);
/* To the program of a module that is loaded later, by what its file has. */
bool dp_cmd_add_static_later(const struct event_lines *e, u32 i, const struct dp_location *loc,
			     const struct line_program *later, struct line_programs *out, struct dp_error *err);

#endif
