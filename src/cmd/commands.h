/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The subcommands of `dprobes` and their options: one table. Command lines are parsed by it; the help, the manual page
 * and the completion of shells are made from it (gen-pages.c). It depends on no library, so that the build can use it.
 */
#ifndef DP_COMMANDS_H
#define DP_COMMANDS_H

#include "base/base.h"

/* Subcommands in the order of the help. Some have a second form behind them, with the same name and other options. */
enum cmd_verb {
	VERB_NONE, /* the command line of Dynamic Probes, before it has told what to do */
	VERB_TRACE,
	VERB_TRACE_PROGRAM, /* -f with a probe program */
	VERB_WATCH,
	VERB_GRAPH,
	VERB_TOP,
	VERB_RECORD,
	VERB_RECORD_PROGRAM, /* as VERB_TRACE_PROGRAM */
	VERB_REPORT,
	VERB_RUN,
	VERB_FUNCS,
	VERB_LINES,
	VERB_COVERAGE,
	VERB_VERIFY,
	VERB_LIST,
	VERB_CLEAN,
	VERB_HOOKS,
	VERB_LOAD,
	VERB_UNLOAD,
	VERB_INSERT,
	VERB_REMOVE,
	VERB_QUERY,
	VERB_VARS,
	VERB_VARS_PLACE, /* with a file or a process */
	VERB_LOG,
	VERB_DRIVER,
	VERB_SERVE,
	VERB_BUILD,
	VERB_APPLY,
	VERB_KERNEL,
	VERB_DOCTOR,
	VERB_EXPLAIN,
	VERB_COUNT
};
_Static_assert(VERB_COUNT <= 32, "each has a bit in cmd_option.verbs");

enum cmd_option_id {
	OPT_HELP = 1,
	OPT_ALL,
	OPT_ALL_ROWS,
	OPT_ALLOW_CRASH,
	OPT_ALLOW_DEBUGGER,
	OPT_ALLOW_TRAP,
	OPT_ALLOW_WRITES,
	OPT_API,
	OPT_ARM,
	OPT_BUDGET,
	OPT_BUFFER,
	OPT_CALLERS,
	OPT_CGROUP,
	OPT_CHILDREN,
	OPT_CLEAR,
	OPT_COMM,
	OPT_CONTAINER,
	OPT_COUNT,
	OPT_DEFINE,
	OPT_DEPTH,
	OPT_DISARM,
	OPT_DUMP_ON,
	OPT_DURATION,
	OPT_EVENT,
	OPT_EXTENDED,
	OPT_FILE,
	OPT_FOLLOW,
	OPT_FORMAT,
	OPT_ENDPOINT,
	OPT_GLOBAL,
	OPT_GROUP,
	OPT_HAND_OVER,
	OPT_INDEX,
	OPT_INFO,
	OPT_INTERPRET,
	OPT_INTERVAL,
	OPT_JIT,
	OPT_JSON,
	OPT_KEEP,
	OPT_KEEP_IF,
	OPT_KEEP_OUTSIDE,
	OPT_KEEP_UNFINISHED,
	OPT_LAST,
	OPT_LIST,
	OPT_LISTEN,
	OPT_LOCAL,
	OPT_LOG,
	OPT_LOG_TARGET,
	OPT_MAX_EVENTS,
	OPT_MAX_RATE,
	OPT_MERGE,
	OPT_MIN,
	OPT_NAME,
	OPT_NOT_JUMP,
	OPT_NO_OPCODES,
	OPT_ONLY,
	OPT_OUTFILE,
	OPT_OUTPUT,
	OPT_PAGES,
	OPT_PID,
	OPT_PLAIN,
	OPT_PUBLIC,
	OPT_QUIET,
	OPT_RAW,
	OPT_RAW_UNITS,
	OPT_READ_ONLY,
	OPT_REPLACE,
	OPT_RESET,
	OPT_RESULTS,
	OPT_ROTATE,
	OPT_SAMPLE,
	OPT_SHOW,
	OPT_SKIP_REFUSED,
	OPT_STOP_CPUS,
	OPT_STRICT_READS,
	OPT_SUMMARY,
	OPT_SYM,
	OPT_TREE,
	OPT_TYPE,
	OPT_UNFORMATTED,
	OPT_UNIT,
	OPT_UNTIL,
	OPT_UPROBES,
	OPT_USER,
	OPT_WAIT_MODULES,
	OPT_COUNT_OF_ALL
};

/* What a value or an operand is, as far as shells can complete it. */
enum cmd_kind {
	KIND_TEXT,
	KIND_PID,
	KIND_FILE,
	KIND_FORMAT,         /* of events: any */
	KIND_PROGRAM_FORMAT, /* of traces of probe programs */
	KIND_RECORD_FORMAT,  /* of single records of them, as in a log */
	KIND_WORD
};

static inline bool cmd_kind_is_format(enum cmd_kind kind)
{
	return kind >= KIND_FORMAT && kind <= KIND_RECORD_FORMAT;
}

struct cmd_option {
	u32 verbs; /* a bit for each that takes it */
	enum cmd_option_id id;
	char letter;       /* 0: has none */
	const char *name;  /* without dashes */
	const char *value; /* as the help calls it, of KIND_WORD: "this|that"; NULL: takes none */
	enum cmd_kind kind;
	const char *help;
	bool rare; /* left to the whole help */
};

struct cmd_spec {
	const char *name;
	const char *purpose;   /* in a line; NULL: a second form */
	const char *synopsis;  /* one or more lines behind the name */
	const char *about;     /* sentences, one paragraph or more */
	const char *notes;     /* more of them, for the whole help; may be NULL */
	const char *examples;  /* one or more lines; may be NULL */
	const char *old;       /* the long option that Dynamic Probes has for it; NULL: none */
	char old_letter;       /* and the short one */
	enum cmd_kind operand; /* what stands without an option */
	const char *words;     /* operands that are always the same: "this|that"; may be NULL */
	bool shows;            /* and nothing else: nothing is to be put back when it ends */
	bool frequent;         /* shown by the help that fits a screen */
};

extern const struct cmd_spec dp_cmd_specs[VERB_COUNT];

/* The option of a verb behind this one, in the order of the help; NULL: the first, and the end. */
const struct cmd_option *dp_cmd_option_after(enum cmd_verb verb, const struct cmd_option *o);

/* By its name of so many bytes, or by its letter; NULL: the verb takes none such. */
const struct cmd_option *dp_cmd_option_named(enum cmd_verb verb, const char *name, size_t len);
const struct cmd_option *dp_cmd_option_lettered(enum cmd_verb verb, char letter);

/* The first form of a name; VERB_NONE: no subcommand has it. */
enum cmd_verb dp_cmd_verb_named(const char *name);

/* The formats that an option of this kind takes. */
typedef void cmd_take_named(void *arg, const char *name, const char *help);
void dp_cmd_each_format(enum cmd_kind kind, cmd_take_named *take, void *arg);

#endif
