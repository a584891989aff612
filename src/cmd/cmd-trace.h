/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A trace from its events to its summary; `dprobes trace` and `dprobes watch` differ in what they ask for and show. */
#ifndef DP_CMD_TRACE_H
#define DP_CMD_TRACE_H

#include "cmd/cmd.h"
#include "cmd/deliver.h"
#include "cmd/events.h"
#include "host/host.h"
#include "lang/rpn/rpn.h"
#include "run/run-follow.h"
#include "run/run-trace.h"

struct dp_run;

/* Who shows a trace in another way than by its records. */
struct trace_watch {
	/* Before anything is probed. run: of lines that are compiled, else NULL; out: where to write */
	void (*begin)(void *arg, struct dp_run *run, FILE *out);
	bool (*turn)(void *arg);  /* many times a second; false: the trace is to end */
	void (*leave)(void *arg); /* no more turns: messages may follow */
	void (*last)(void *arg);  /* all counts are there, and nothing is probed any more */
	void *arg;
};

struct trace {
	struct dp_select select;
	bool narrowed;       /* all lines are in the kernel: only hits of the processes that are selected now */
	struct dp_pids only; /* these */
	const char *out_path;
	char **command;
	enum dp_format format;
	struct delivery delivery;
	bool quiet;
	bool read_only;      /* programs that write are refused */
	const char *until;   /* an event that ends the trace; NULL: none */
	const char *dump_on; /* record --last: one that asks for what is kept; NULL: none */
	const char *keep_if; /* the return that decides which requests are shown; NULL: all are */
	struct dp_keep_rule rule;
	const char *ends;        /* either; the last of the lines */
	struct dp_chunks chunks; /* of a recording, where run.chunks is set */
	u64 keep;                /* files of them; 0: all */
	bool no_summary;
	bool wait_modules; /* lines wait for modules that are loaded later, whatever they are called */
	bool of_programs;  /* the format is one of their records; lines stand beside a program */
	struct event_lines lines;
	double interval;               /* between tables; 0: at the end alone */
	struct dp_rpn_define *defines; /* -D, for lines that are compiled */
	u32 ndefines;
	bool compiled; /* the lines are compiled to programs */
	struct dp_session_options opt;
	void (*adapt)(struct trace *t);  /* may change run.infos; may be NULL */
	const struct trace_watch *watch; /* NULL: the records are shown */
	/* Of compiled lines: called when probes are in place, and when wake_fd is readable. False: end it */
	void (*on_ready)(void *arg); /* with on_wake */
	bool (*on_wake)(void *arg, struct dp_run *run);
	void *wake_arg;
	int wake_fd;

	struct dp_trace run;
	struct dp_follow_run follow;
	u32 left_out;        /* processes, */
	struct dp_error why; /* the last one for this reason */
	int status;
};

/* The process, where there can be only one; 0: none was asked for. False: told already. */
bool dp_cmd_select_one(struct trace *t, pid_t *pid);

/* Whether the format can show tables again and again. Told where it cannot. */
bool dp_cmd_check_interval(enum dp_format format, double interval);
/* Seconds between tables: as given, or as is usual where the format has such a time; 0: at the end alone. */
double dp_cmd_table_interval(enum dp_format format, double given);

/* Returns CMD_OK, or the exit status (told already). */
int dp_cmd_trace_check_budget(const struct trace *t);
int dp_cmd_trace_check_compiled(const struct trace *t);
/* A line that names a place in the kernel and is wrong: it is told, and no process is missing. */
int dp_cmd_trace_check_kernel_lines(const struct trace *t);
/* Whether the second would say so, for lines that need not be compiled. */
bool dp_cmd_trace_can_compile(const struct trace *t);

/* Options that both have. Returns 0, or CMD_USAGE (told already). */
int dp_cmd_trace_option(struct trace *t, int id, const char *value);
/* The same, and lines with what goes along with them. Returns 0, or the exit status (told already). */
int dp_cmd_trace_line_option(struct trace *t, int id, const char *value);

/* What --keep-if says: its events, in front of and behind the lines that are there. Returns CMD_OK to go on. */
int dp_cmd_keep_if(struct trace *t);
/* The line of --until or --dump-on, behind all others. Returns CMD_OK, or the exit status (told already). */
int dp_cmd_trace_ends(struct trace *t);
/* What it has come to. */
void dp_cmd_keep_if_tell(const struct trace *t, const struct dp_keep_counts *c);

/* Those of a recording in chunks. Returns 0, or CMD_USAGE (told already). */
int dp_cmd_record_option(struct trace *t, int id, const char *value);
/* A command line of record that was parsed: CMD_OK to go on, when it is to be seen what can be recorded. */
int dp_cmd_record_begin(struct trace *t);

/* What a budget does, while it runs. */
void dp_cmd_budget_note(void *arg, const char *text);

/* Run lines that are compiled to probe programs, as trace -f runs one. Frees nothing of t. */
int dp_cmd_trace_lines(struct trace *t);

/* The command line of trace or record. Returns CMD_OK to go on, else the exit status; *done is set by --help. */
int dp_cmd_trace_parse(struct trace *t, enum cmd_verb verb, int argc, char **argv, bool *done);
/* The lines of a command line that was parsed, compiled or not. Frees what t has; returns the exit status. */
int dp_cmd_trace_parsed(struct trace *t);
/* A whole command line, with the lines that t has already. Frees what t has; returns the exit status. */
int dp_cmd_trace_events(struct trace *t, enum cmd_verb verb, int argc, char **argv);
/* Free what it has made. Returns the status. */
int dp_cmd_trace_drop(struct trace *t);
/* That is said, about the line if there is one, and the status is that of a failure. Returns -1. */
int dp_cmd_trace_tell(struct trace *t, const struct dp_error *err, const struct event_line *line);

/* trace-end.c: how the target has ended, who was followed, and what was kept; unless the trace is quiet */
void dp_cmd_trace_tell_end(struct trace *t);
void dp_cmd_trace_tell_losses(struct trace *t); /* in quiet mode too */
/* The status of a command that was traced, where nothing else has failed. */
void dp_cmd_trace_take_status(struct trace *t);

#define DP_CMD_ALL_FUNCTIONS "exe:*"

/* Two lines for the entries and the returns of what matches, with the stack pointer. CMD_OK, or told already. */
int dp_cmd_add_calls(struct event_lines *lines, const char *pattern, bool results);

/* Run what the command line has asked for, and free all. Returns the exit status. */
int dp_cmd_trace_run(struct trace *t);

#endif
