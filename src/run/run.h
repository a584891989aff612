/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probe programs in processes and in the kernel: put in place where their modules are mapped, now and later; records
 * drained; variables and aggregates kept. A library: the driver serves it to commands through a socket, `dprobes trace`
 * runs it itself. One thread uses it, since ptrace is bound to a thread.
 */
#ifndef DP_RUN_H
#define DP_RUN_H

#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "log/format.h"

struct dp_run;

enum dp_run_op {
	DP_RUN_INSERT = 1,
	DP_RUN_REMOVE,
	DP_RUN_QUERY,
	DP_RUN_VARS,
	DP_RUN_METRICS,
	DP_RUN_HAND_OVER /* to the driver itself (driver/driver.h): name is the file that takes its place */
};

enum dp_run_flags {
	DP_RUN_ALL = 0x1,
	DP_RUN_MERGE = 0x2,    /* insert: add to what is inserted; a probe at the same place is replaced */
	DP_RUN_REPLACE = 0x4,  /* insert: in the place of what is inserted */
	DP_RUN_EXTENDED = 0x8, /* query */
	DP_RUN_LOCAL = 0x10,   /* variables */
	DP_RUN_GLOBAL = 0x20,
	DP_RUN_RESET = 0x40,
	DP_RUN_NO_OPCODES = 0x80, /* insert: do not verify them */
	DP_RUN_ALLOW_TRAP = 0x100,
	DP_RUN_RAW_UNITS = 0x200, /* variables: whole numbers in tables */
	DP_RUN_SYSLOG = 0x400,
	DP_RUN_AGGREGATES = 0x800, /* variables: only these */
	DP_RUN_LATER = 0x1000,     /* insert: the process will map the module */
	DP_RUN_JIT_ON = 0x2000,    /* insert: compile whatever can be; neither of these: where it pays */
	DP_RUN_JIT_OFF = 0x4000,
	DP_RUN_UPROBES = 0x8000,      /* insert: probes of a file, in all processes, by the kernel's uprobes */
	DP_RUN_CONSOLE = 0x10000,     /* insert: records go to the kernel's log and its console, too; */
	DP_RUN_SERIAL1 = 0x20000,     /* to the first serial port; */
	DP_RUN_SERIAL2 = 0x40000,     /* to the second one */
	DP_RUN_CHILDREN = 0x80000,    /* insert: watchpoints are inherited by forked processes, too */
	DP_RUN_JOURNALD = 0x1000000,  /* insert: records go to systemd's journal, too */
	DP_RUN_TELL_JSON = 0x2000000, /* insert, remove: what was done is told as JSON */
	DP_RUN_LOAD = 0x4000000,      /* memory is loaded by hits where it stays */
	DP_RUN_SKIP = 0x8000000,      /* insert: a place that is refused takes its probe with it, and no others; told */
	DP_RUN_FORMAT = 0xf00000,     /* insert: of records; variables: other than text shows aggregates only */
};

#define DP_RUN_FORMAT_SHIFT 20
_Static_assert(DP_NFORMATS <= DP_RUN_FORMAT >> DP_RUN_FORMAT_SHIFT, "every format has a number there");

/* Flags come from other processes and from files: what is no format is text. */
static inline enum dp_format dp_run_format(u32 flags)
{
	u32 format = (flags & DP_RUN_FORMAT) >> DP_RUN_FORMAT_SHIFT;

	return format < DP_NFORMATS ? (enum dp_format)format : DP_FORMAT_TEXT;
}

static inline u32 dp_run_with_format(u32 flags, enum dp_format format)
{
	return (flags & ~(u32)DP_RUN_FORMAT) | (u32)format << DP_RUN_FORMAT_SHIFT;
}

/* Change it with the structure below, behind its first three members, and with what it means. */
#define DP_RUN_PROTOCOL 1

struct dp_run_request {
	u32 size;     /* of all that is sent, this included: name, file and object follow */
	u32 protocol; /* DP_RUN_PROTOCOL */
	u32 abi;      /* DP_ABI of who asks */
	u32 op, flags;
	u32 fields; /* insert: enum dp_rpn_log_fields */
	s32 pid;    /* insert: only this process; 0: all that map the module */
	u32 lo, hi; /* variables */
	u32 budget; /* insert: hits may cost this much of the processor time, in 0.01 %; 0: any */
	u32 name_len, file_len, object_len;
};

#define DP_RUN_WAITS "dprobes-waits" /* DP_RUN_LATER: so the process calls itself until it is the program */

/* A run without a directory: records go to write, which returns how many bytes it took. NULL: no memory. */
struct dp_run *dp_run_new(ssize_t (*write)(void *arg, const void *text, size_t n), void *arg);

/*
 * Programs in processes, inserted from now on and for no process of their own, are for these n processes only, and for
 * those that the selection (it must stay) lets join later. Once a run. Of a command: a child that
 * begins its program later (DP_RUN_LATER), with what it starts. False: no memory.
 */
struct dp_select;
bool dp_run_choose(struct dp_run *run, const struct dp_select *select, const pid_t *pids, u32 n);
bool dp_run_choose_command(struct dp_run *run, const struct dp_select *select, pid_t command);
/* Hits in the kernel count for these processes alone. Before anything is inserted; the list must stay. */
void dp_run_narrow(struct dp_run *run, const pid_t *pids, u32 n, bool follows);
bool dp_run_chosen_live(const struct dp_run *run); /* any of them, or of those that have joined */

/*
 * From now on records, and aggregates that are asked for, are given to this formatter, of a format that is whole, and
 * no text is made of them. It must stay.
 */
struct dp_formatter;
void dp_run_give_to(struct dp_run *run, struct dp_formatter *f);

/*
 * What the formatter writes is a recording in that file, and a successor can go on with it. Before anything is
 * inserted; chunks: of a flight recorder, or of several files; may be NULL. NULL: none can; else the journal, which has
 * chunks. recorded: all up to here is written out and noted, as after each turn; recorded_all: the recording has ended.
 */
struct dp_chunks;
struct dp_journal;
struct dp_output;
const struct dp_journal *dp_run_record(struct dp_run *run, struct dp_output *out, const struct dp_chunks *chunks);
void dp_run_recorded(struct dp_run *run);
void dp_run_recorded_all(struct dp_run *run); /* may be NULL */

/* struct dp_recording_source of a process, with what is mapped there; 0: the kernel. */
struct dp_line;
void dp_run_put_process(const struct dp_run *run, u32 pid, struct dp_line *to);

/* Where things are told that happen while it runs. May be left out. */
void dp_run_set_note(struct dp_run *run, void (*note)(void *arg, const char *text), void *arg);

/* What a request asks for; text for the user goes to out. */
int dp_run_request(struct dp_run *run, const struct dp_run_request *rq, const char *name, const void *object, FILE *out,
		   struct dp_error *err);

/*
 * Wait a little, for fd (-1: none) too, and do what is to be done: processes that start, records. Returns whether fd is
 * readable.
 */
bool dp_run_turn(struct dp_run *run, int fd);

/* Deal with processes that have started meanwhile, and with what is told of them; a turn does that, too. */
void dp_run_catch(struct dp_run *run);
void dp_run_end_guard(void);

/*
 * How many processes have refused the probes of a module, and which was the last one, and why, of the first module
 * behind *module (NULL: the first) that was refused; 0: there is none.
 */
u32 dp_run_refused(const struct dp_run *run, const char **module, pid_t *last, struct dp_error *why);

/* Why processes are not held while they start, or load a file, until their probes are in place; NULL: they are. */
const char *dp_run_why_not_held(const struct dp_run *run);

/* Whether the module of that name has its probes in a process, or had. */
bool dp_run_was_in(struct dp_run *run, const char *module);

u64 dp_run_hits(const struct dp_run *run); /* of all probes so far */

/* Processes so far that began, or loaded a file of a program, without waiting for their probes. */
u64 dp_run_let_go(const struct dp_run *run);

/* Show n records at most; those behind are counted only. Whether so many were shown. */
void dp_run_limit(struct dp_run *run, u64 n);
/* An event that would end the trace sets this instead. */
void dp_run_ask_at_end(struct dp_run *run, volatile sig_atomic_t *asked);

/*
 * Only records of requests that the rule wants are shown, where programs have its marks (run-keep.h); asked is set when
 * a rule that asks is met. Before anything is inserted; the rule stays the caller's. False: no memory.
 */
struct dp_keep_rule;
struct dp_keep_counts;
bool dp_run_keep(struct dp_run *run, const struct dp_keep_rule *rule, volatile sig_atomic_t *asked);
void dp_run_keep_counts(const struct dp_run *run, struct dp_keep_counts *out);

bool dp_run_is_full(const struct dp_run *run); /* or a record was shown of an event that ends the trace */
u64 dp_run_shown(const struct dp_run *run);
/* By how much times of records may differ from CLOCK_MONOTONIC, where several targets have one clock; else 0. */
u64 dp_run_error_ns(const struct dp_run *run);
/* Of sessions that begin from now on, what a processor's log can hold, in bytes: a power of two. */
void dp_run_set_buffer(struct dp_run *run, u64 size);

/*
 * Take all probes out, so that tables have every hit that is counted, run the bodies that are of the end, and show all
 * records. What was counted is there until dp_run_stop().
 */
void dp_run_finish(struct dp_run *run);
u32 dp_run_left_in(const struct dp_run *run);    /* how often probes could not be taken out of a process; it was told */
bool dp_run_has_ended(const struct dp_run *run); /* a body has asked for it */
u64 dp_run_body_exceptions(const struct dp_run *run); /* that bodies of begin, end and timers have met */

/* Take all probes out and log what they have left; what was counted stays known. */
void dp_run_stop(struct dp_run *run);

/* Take all probes out and log what they have left. */
void dp_run_end(struct dp_run *run);
void dp_run_free(struct dp_run *run);

#endif
