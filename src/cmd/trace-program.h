/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A probe program that is in place as long as the command runs: what it has (trace-program.c), where its records go
 * when they are more than text (program-output.c), and what is told of it (program-tell.c).
 */
#ifndef DP_TRACE_PROGRAM_H
#define DP_TRACE_PROGRAM_H

#include "cmd/cmd-trace.h"
#include "cmd/probes.h"
#include "cmd/trace-lines.h"

struct program {
	struct probes_args args;
	pid_t only;          /* whose hits in the kernel count, of lines; where there are not several */
	struct dp_pids pids; /* several processes, or one that others may join: args.pid is 0 */
	struct trace t;      /* what it has in common with a trace of events: options and the output */
	double interval;
	struct dp_run *run;
	pid_t child;
	int ended;                       /* of the child, as waitpid() tells; -1: it runs, or is none */
	int go, result;                  /* pipes to and from it */
	struct dp_cmd_cleaner cleaner;   /* cleans up after us */
	const struct event_lines *lines; /* in the place of a file; NULL */
	struct line_target target;       /* of the lines */
	struct line_programs programs;
	u64 begin;                      /* when the probes were in place */
	struct dp_formatter *formatter; /* of a format that is whole, or of a recording; NULL */
	struct dp_event_info *events;   /* what it knows of the lines */
	u32 nevents;
	struct dp_recording_env facts; /* for it */
};

/* Where the format is whole, or a recording. Each returns CMD_OK, or the exit status (told already). */
int dp_cmd_program_begin_formatter(struct program *p);
int dp_cmd_program_write_some(struct program *p);  /* what need not wait for the end */
int dp_cmd_program_write_whole(struct program *p); /* behind the last record */
void dp_cmd_program_give_tables(void *p);          /* as they are now */

bool dp_cmd_program_has_tables(const struct program *p); /* of lines */
void dp_cmd_program_tell_let_go(struct program *p);
/* Whoever refused the probes of a module. False: a command's own program did. */
bool dp_cmd_program_tell_refused(const struct program *p);
void dp_cmd_program_tell_waiting(struct program *p, bool ended);
void dp_cmd_program_tell_end(struct program *p);
/* Lines for whoever maps a file: CMD_OK, or that nobody did, told already. */
int dp_cmd_program_check_found(const struct program *p);

#endif
