/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the subcommands of `dprobes` share: their entry points, the option parser and the user
 * interface. Subcommands parse arguments and print; the work is done in the libraries.
 */
#ifndef DP_CMD_H
#define DP_CMD_H

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "cmd/commands.h"
#include "log/format.h"
#include "log/json.h"
#include "symbols/symbols.h"

/* Exit statuses. */
#define CMD_OK 0
#define CMD_FAILED 1
#define CMD_USAGE 2

/* Each takes its own name as argv[0] and returns the exit status. */
int dp_cmd_trace(int argc, char **argv);
/* Whether its -f names a probe program, not a list of events; then: that. */
bool dp_cmd_traces_program(int argc, char **argv);
int dp_cmd_trace_program(int argc, char **argv);
int dp_cmd_record_program(int argc, char **argv);
int dp_cmd_watch(int argc, char **argv);
int dp_cmd_graph(int argc, char **argv);
int dp_cmd_top(int argc, char **argv);
int dp_cmd_record(int argc, char **argv);
int dp_cmd_report(int argc, char **argv);
int dp_cmd_run(int argc, char **argv);
int dp_cmd_funcs(int argc, char **argv);
int dp_cmd_lines(int argc, char **argv);
int dp_cmd_coverage(int argc, char **argv);
int dp_cmd_verify(int argc, char **argv);
int dp_cmd_doctor(int argc, char **argv);
int dp_cmd_explain(int argc, char **argv);
int dp_cmd_list(int argc, char **argv);
int dp_cmd_list_processes(bool json); /* list-all.c */
bool dp_cmd_lives(pid_t owner);       /* clean.c: the dprobes of that id runs, whosever it is */
const char *dp_cmd_owner(pid_t owner, char *buf, size_t size); /* its name in a message */
int dp_cmd_clean(int argc, char **argv);
int dp_cmd_load(int argc, char **argv);
int dp_cmd_unload(int argc, char **argv);
int dp_cmd_insert(int argc, char **argv);
int dp_cmd_remove(int argc, char **argv);
int dp_cmd_query(int argc, char **argv);
int dp_cmd_vars(int argc, char **argv);
int dp_cmd_build(int argc, char **argv);
int dp_cmd_apply(int argc, char **argv);
int dp_cmd_kernel(int argc, char **argv);
int dp_cmd_hooks(int argc, char **argv);
int dp_cmd_log(int argc, char **argv);
int dp_cmd_driver(int argc, char **argv);
int dp_cmd_serve(int argc, char **argv);
int dp_cmd_driver_serve(int argc, char **argv); /* log.c */
int dp_cmd_guard(int argc, char **argv);
int dp_cmd_version(int argc, char **argv);
int dp_cmd_cleaner(int argc, char **argv);
int dp_cmd_help(int argc, char **argv);
int dp_cmd_complete(int argc, char **argv);

/* On standard output, in 24 lines of 80 columns: what there is, and the help of one subcommand. */
void dp_cmd_print_overview(void);
void dp_cmd_print_help(enum cmd_verb verb);
void dp_cmd_each_topic(cmd_take_named *take, void *arg); /* that is no subcommand */

/*
 * A process beside a trace: it lets our processes go on should we be stopped while we trace them, and, where asked,
 * takes out our probes should we be killed. Without it (-errno) all else goes on.
 */
struct dp_cmd_cleaner {
	int fd; /* -1: there is none */
	pid_t pid;
};
int dp_cmd_start_cleaner(struct dp_cmd_cleaner *c, bool cleans);
void dp_cmd_end_cleaner(struct dp_cmd_cleaner *c);

/* The command line of Dynamic Probes: argv[1] is an option. */
int dp_cmd_probes(int argc, char **argv);

/* `dprobes vars` with a file or a process: variables of the probed program. */
int dp_cmd_source_vars(int argc, char **argv);

/* The outcome that a probe at this link-time address would get; err tells why it is not a jump. */
enum dp_outcome dp_cmd_judge(struct dp_module *mod, u64 addr, struct dp_error *err);
const char *dp_cmd_outcome_style(enum dp_outcome o);

/* Members of an object: an address, as a text since it may be beyond what readers of JSON keep of a number; an outcome,
 * and why it is no jump. */
void dp_cmd_json_address(struct dp_json *j, const char *key, u64 addr);
/* "owner", null where it is no dprobes, and whether that one is "running" (list-all.c). */
void dp_cmd_json_owner(struct dp_json *j, pid_t owner);
void dp_cmd_json_outcome(struct dp_json *j, enum dp_outcome o, enum dp_code why, const char *reason);

/* How many of what there were of each outcome; the heading of a list of functions. */
struct cmd_outcomes {
	u64 n, by_outcome[DP_OUTCOME_JUMP + 1];
};
void dp_cmd_count_outcome(struct cmd_outcomes *c, enum dp_outcome o);
void dp_cmd_print_outcomes(const struct cmd_outcomes *c, const char *what);
void dp_cmd_print_funcs_head(void);

/* "libc:mem*" names a module, which is cut off and returned in *module; the colons of "std::sort"
 * and "file.c:12" do not. Returns the rest. */
char *dp_cmd_split_module(char *text, char **module);

/* ---- options ---- */

/* "---- 12:34:56": begins what is shown again and again. */
void dp_ui_time_line(void);

#define CMD_OPT_OPERAND (-1)

/*
 * All options, by their ids, and operands (CMD_OPT_OPERAND), mixed as they are: take returns CMD_OK or the exit status.
 * *command: what stands behind "--", left alone without it; command NULL: operands. Returns CMD_OK to go on, else the
 * exit status; *done is set by --help.
 */
int dp_cmd_options(enum cmd_verb verb, int argc, char **argv, int (*take)(void *arg, int id, const char *value),
		   void *arg, char ***command, bool *done);
/* An option that it does not have; shown: as it was typed, name: without dashes. Returns CMD_USAGE. */
int dp_cmd_unknown_option(enum cmd_verb verb, const char *shown, const char *name);

/* The command line of a subcommand with nothing but -p PID, options without values, and a few operands. */
#define CMD_WORDS 2
struct cmd_words {
	int most;         /* operands that it takes, and */
	const char *hint; /* what to say where there are more: both set by the caller */
	int n;
	char *v[CMD_WORDS];
	pid_t pid;                  /* 0: none */
	bool has[OPT_COUNT_OF_ALL]; /* by the options' ids */
};

/* False: the subcommand ends with *status. */
bool dp_cmd_words(enum cmd_verb verb, int argc, char **argv, struct cmd_words *w, int *status);

static inline bool dp_cmd_has(const struct cmd_words *w, enum cmd_option_id id)
{
	return w->has[id];
}

/*
 * From now on signals that end a program set it instead, but for those other than SIGINT that the parent had ignored.
 */
extern volatile sig_atomic_t dp_cmd_stop;
extern bool dp_cmd_int_ignored; /* a program that is started shall inherit that */
void dp_cmd_catch_signals(void);

/* Values of options. False: told already. */
bool dp_cmd_parse_process(const char *text, pid_t *pid); /* an id, or a name or pattern that only one has */
struct dp_select;
bool dp_cmd_parse_processes(const char *text, struct dp_select *s); /* ids, names and patterns, with commas */
bool dp_cmd_parse_user(const char *text, uid_t *user);
/* What a user keeps: `inside` the folder that the variable names, else `usual` below $HOME. False: there is no home. */
bool dp_cmd_home_folder(const char *variable, const char *usual, const char *inside, char *path, size_t size);
u64 dp_cmd_bytes(const char *text);                /* 4096, 256k, 64M, 1G; 0: it is none */
bool dp_cmd_parse_time(const char *text, u64 *ns); /* 500ns, 10us, 1.5ms, 1s; says nothing */
bool dp_cmd_parse_seconds(const char *text, double *seconds);

/* "0.5%" or "0.5", from 0.01 to 100, in 0.01 %; may_be_off: "off" is 0. */
bool dp_cmd_parse_budget(const char *text, bool may_be_off, u32 *budget);
/* --min, --depth, --only, --summary. Returns 0, or CMD_USAGE. */
int dp_cmd_graph_option(struct dp_graph_options *opt, int id, const char *value);
/* Whether they have an effect on that format; else the exit status. */
int dp_cmd_graph_check(const struct dp_graph_options *opt, enum dp_format format);
/* That --only names none of these events' functions. */
void dp_cmd_graph_tell_only(const struct dp_graph_options *opt, const struct dp_event_info *events, u32 n);
bool dp_cmd_parse_count(const char *text, u64 *count);
/* Root does what a file says only when nobody else may have written it. Why it may not be used; NULL: it may. */
const char *dp_cmd_distrusted(const struct stat *st);
bool dp_cmd_parse_format(const char *text, enum cmd_kind kind, enum dp_format *format);

/* ---- messages ---- */

/* Tell an error on standard error: code, sentence, place; the text with a caret (text may be NULL);
 * hint. */
void dp_ui_error(const struct dp_error *err, const char *text);

/* Make up an error and tell it; returns the exit status that fits the code. */
int dp_ui_fail(enum dp_code code, const char *hint, const char *fmt, ...) DP_PRINTF(3, 4);
int dp_ui_status(enum dp_code code);

/*
 * For every text on its way to a terminal that a file, a process or another user has chosen: what could drive the
 * terminal is shown as \x1b. The result lasts for seven more calls.
 */
const char *dp_ui_clean(const char *s);
/* The same for a whole text of lines. */
void dp_ui_put_text(FILE *f, const char *s);

/* Ends the line of JSON, writes it and frees it; the first one to standard output. */
void dp_ui_json_end(struct dp_json *j);
void dp_ui_json_write(struct dp_json *j, FILE *to);

void dp_ui_note(const char *fmt, ...) DP_PRINTF(1, 2);
/* Where others write remarks, a line each: standard error, or what makes messages of them. */
FILE *dp_ui_notes(void);
/* A program that was started for a trace has ended, with this status of waitpid(): told where it was not 0. */
void dp_ui_tell_ended(const char *name, int status);
/* A trace that went well ends as that program did, with 128 more than a signal's number. */
int dp_ui_status_of(int status);

/* ---- messages for programs (ui-json.c) ---- */

/* Takes DPROBES_MESSAGES from the environment, once. Returns the exit status. */
int dp_ui_messages_begin(void);
bool dp_ui_messages_json(void); /* all messages are to be JSON */

/* {"WHAT":...}: its value is written between the two. */
void dp_ui_message_open(struct dp_json *j, const char *what);
void dp_ui_message_close(struct dp_json *j);
void dp_ui_message_error(const struct dp_error *err, const char *hint, const char *text);
void dp_ui_message_note(const char *text, size_t n);
/* The probes are in place; people are not told. */
void dp_ui_ready(void);

/* A line that is overwritten while something takes more than a second, with a rate; shown on a terminal only. */
void dp_ui_progress(const char *what, unsigned long long done, unsigned long long total);
void dp_ui_progress_end(void);

/* Of the terminal that f is; 0: it is none. */
u32 dp_ui_columns(FILE *f);

/* Whether f is a terminal on which colours are wanted (NO_COLOR, TERM=dumb). */
bool dp_ui_color(FILE *f);

enum ui_style { UI_PLAIN, UI_BOLD, UI_DIM, UI_RED, UI_GREEN, UI_YELLOW, UI_CYAN };

/* The escape sequence that begins a style on f, or "" when f gets no colours. UI_PLAIN ends it. */
const char *dp_ui_style(FILE *f, enum ui_style style);

/*
 * The candidate that is nearest to word, when it is near enough to be worth a suggestion; else
 * NULL. next returns the candidates by index and ends with NULL.
 */
const char *dp_ui_nearest(const char *word, const char *(*next)(int i, void *arg), void *arg);

#endif
