/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The event front end: one line such as "p:grp/name redis-server:lookupCommand+4 n=%di:u32 if $arg1 > 3"
 * becomes a location to be resolved and a program. Kernel-clean. Grammar: that of the kprobe-based event
 * tracer (p/r, rN sN mADDR aN rv rp) and of today's kprobe_events and uprobe_events, plus "if EXPR".
 */
#ifndef DP_EVENT_H
#define DP_EVENT_H

#include "abi/abi-record.h"
#include "abi/abi-watch.h"
#include "program/program.h"

enum dp_location_kind {
	DP_LOC_SYMBOL,      /* [MODULE:]SYMBOL[+-offs] */
	DP_LOC_ADDRESS,     /* absolute run-time address */
	DP_LOC_FILE_OFFSET, /* PATH:0xOFFSET */
	DP_LOC_PATTERN,     /* [MODULE:]GLOB: every function that matches */
	DP_LOC_LINE,        /* MODULE:FILE.c:LINE; the file in symbol, the line in offset */
	DP_LOC_STATIC,      /* [MODULE:]PATTERN of static probes; see dp_static_matches() */
	DP_LOC_CALL,        /* [MODULE:]PATTERN of system calls */
	DP_LOC_TRACEPOINT,  /* [SYSTEM:]PATTERN of the kernel's tracepoints, the system in module */
};

#define DP_MODULE_MAX 256
#define DP_SYMBOL_MAX 512

struct dp_location {
	enum dp_location_kind kind;
	char module[DP_MODULE_MAX]; /* "" when not given; base name or path */
	char symbol[DP_SYMBOL_MAX];
	s64 offset;      /* from the symbol, or the file offset */
	bool has_offset; /* +N, also +0, stands behind the symbol */
	u64 address;
	int column; /* where the location stands in the text, for messages */
};

struct dp_event {
	char group[DP_NAME_MAX]; /* default "dprobes" */
	char name[DP_NAME_MAX];  /* default made from the symbol */
	bool is_named;           /* the line gives the name */
	bool is_return;          /* r, or %return */
	bool is_watch;           /* w: loc names memory */
	bool is_static, is_call; /* u, s: loc names static probes, system calls; the compiler reads what is behind it */
	bool is_tracepoint;      /* t: loc names tracepoints, likewise */
	u32 watch_len;           /* bytes; 0: not given. Of a probe in a process: how many there are */
	enum dp_watch_type watch_type;
	int maxactive;             /* 0: not given */
	bool has_args, has_retval; /* $argN, $retval: words where C has them */
	bool has_registers;        /* it names some, these words among them */
	struct dp_location loc;
	struct dp_program prog;
};

/*
 * Resolver for @SYM in arguments: gives the run-time address of [MODULE:]SYMBOL, or
 * (symbol NULL) of file offset `offset` in the probed module for @+OFFSET.
 * Returns 0 or a negative errno with *err filled in.
 */
struct dp_event_env {
	int (*symbol)(void *arg, const struct dp_location *probe, const char *symbol, u64 offset, u64 *addr,
		      struct dp_error *err);
	void *arg;
	const char *watch_type; /* w: type of the watched variable ("s32"); NULL: not known */
};

/* An event line that was taken apart: parsed once, and made an event for each place that it means. */
struct dp_event_line;

/*
 * Parse: nothing is resolved, no program is made. is_kernel: string means kernel memory. The arguments of a w line wait
 * for dp_event_make(), since their types depend on the memory. Free *line with dp_event_line_free(). Errors: E_EVENT_*
 * with the column.
 */
int dp_event_read(struct dp_event_line **line, const char *text, bool is_kernel, struct dp_error *err);
void dp_event_line_free(struct dp_event_line *line);
/* Kind, names and location, as long as the line is there; the program is empty. */
const struct dp_event *dp_event_of_line(const struct dp_event_line *line);

/*
 * An event of the line, with its symbols as env has them; env may be NULL. ev->prog is verified; ev is independent of
 * the line. The caller frees it with dp_event_free. After an error nothing is left to free (freeing does no harm). err
 * may be NULL.
 */
int dp_event_make(struct dp_event *ev, struct dp_event_line *line, const struct dp_event_env *env,
		  struct dp_error *err);
void dp_event_free(struct dp_event *ev);

/* Both, of a line that means one place. */
int dp_event_compile(struct dp_event *ev, const char *text, bool is_kernel, const struct dp_event_env *env,
		     struct dp_error *err);
/* The head alone, up to the place, of any line: *behind says where the rest begins. */
int dp_event_head(struct dp_event *ev, const char *text, u32 *behind, struct dp_error *err);
/* The place alone, of a whole line that is correct. */
int dp_event_parse(struct dp_event *ev, const char *text, struct dp_error *err);

#endif
