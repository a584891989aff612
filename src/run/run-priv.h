/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The inside of a run: what is inserted (modules), where (targets), and what comes of it (records).
 */
#ifndef DP_RUN_PRIV_H
#define DP_RUN_PRIV_H

#include <stdio.h>

#include "run/run-drain.h"
#include "run/run-govern.h"
#include "run/run.h"
#include "host/any/any-host.h"
#include "host/process/process.h"
#include "lang/rpn/rpn.h"
#include "log/aggregate.h"
#include "log/reader.h"
#include "log/log-rpn.h"
#include "program/opcode.h"
#include "symbols/symbolize.h"
#include "run/run-trace.h"

struct dp_counts;

#define RUN_GLOBALS DP_GLOBALS_MAX /* words that begin the words of each target */

struct run_name { /* of an address in a process that has ended */
	u64 addr;
	char text[248];
};

struct run_ended { /* what a module's words came to in a process that has ended */
	struct run_ended *next;
	pid_t pid;
	struct run_name *names;     /* by address, */
	u32 nnames;                 /* that occur in keys */
	struct dp_code_file *files; /* that they are in */
	u32 nfiles;
	u64 words[];
};

struct run_how {
	const char *via; /* NULL: it was never armed */
	struct dp_trace_way way;
	char place[80]; /* of a probe that is no event's: "f+0x12"; empty: not known */
};

struct run_module {
	struct run_module *next;
	struct dp_rpn_unit unit;
	u32 flags, fields;
	u32 budget;     /* see dp_run_request */
	u32 generation; /* changes with its probes */
	pid_t pid;
	u64 pid_started;                    /* see dp_process_started() */
	u32 number;                         /* in the order of insertion; of its file in the state's directory */
	u32 file_dev_major, file_dev_minor; /* of the file that the name is a path of */
	u64 file_inode;                     /* 0: the name is no path */
	const struct dp_select *of_users;   /* it is for processes that map the file of this; NULL: for all */
	struct dp_counts *done;             /* for each probe: counts in processes that are gone, */
	struct run_how *how;                /* and how its hits came about where it was armed last; */
	struct dp_governed *governed;       /* what its budget has done there */
	u32 taken_out;                      /* of its probes, when its words were shown last */
	u64 losses;                         /* dp_agg_losses() of processes that are not remembered any more */
	u64 thread_losses;                  /* the same of dp_agg_thread_losses() */
	struct dp_error last;               /* why a process was left out, */
	pid_t last_pid;                     /* this one */
	u32 left_out;
	u64 let_go;              /* processes that began, or loaded the file, without waiting for the probes */
	struct run_ended *ended; /* oldest first */
	bool watched;            /* its file, so that programs are caught at their start */
	int watched_fd;
	u64 watched_for;
	struct run_module *before; /* while it takes the place of another one */
	bool *is_new;              /* of its probes: those that the other one has not; NULL: it has none of them */
	u32 first_event;           /* its probes have numbers from here on, where records wait for requests */
	u64 *due;                  /* of its bodies that are timers: when each runs next; 0: it has not begun */
	pid_t begun;               /* the process for which bodies of its begin have run last, */
	u64 begun_started;         /* so that a second attempt does not show what they log again */
	bool was_in;               /* a process */
	bool leaving;              /* nobody wants it while another one takes its place */
	u32 nsaved_ended;          /* processes that have ended, as a recorder has written them down */
};

struct run_range { /* a module's words in a target */
	struct run_module *m;
	u32 generation; /* of the module when its probes were put in */
	u32 locals, gates, nlocals, ngates;
	u32 room_locals, room_gates; /* words that are kept for it, gates behind variables */
	u32 *at;                     /* of each of its probes: which of the session's it is */
	bool left_out;               /* its probes are not in: the process refused them */
	bool fresh;                  /* its words are new */
	bool ended;                  /* the bodies of its end have run */
	bool stale;                  /* its file has been mapped anew since: the probes are not there */
};

struct run_kept { /* the words of a module that a target has unmapped, and may map again */
	struct run_kept *next;
	struct run_module *m;
	u32 generation;
	struct run_ended *locals;
	u64 gates[];
};

struct run_probe {
	struct run_module *m;
	u32 index; /* in the module */
};

struct run_governed;

struct run_target {
	struct run_target *next, *next_same; /* all; those whose pids have the same place in by_pid */
	pid_t pid;                           /* 0: the kernel */
	u64 started;                         /* so that an id that is used again is noticed */
	struct dp_tracee *session;           /* NULL: could not be probed, or not any more */
	struct dp_reader *reader;
	struct run_range *ranges;
	u32 nranges;
	struct run_kept *kept;
	struct run_probe *probes; /* by the session's index */
	u32 nprobes;              /* a place that nobody has: m is NULL */
	u32 nwords;               /* of the session, that have been given to ranges */
	bool shares, allows_trap; /* the session has the global variables, may use breakpoints */
	bool is_withdrawn;        /* its probes are out, what they have recorded and counted is there */
	u64 rings_inode;
	u32 number;   /* of its records that wait, from 1; 0: none have waited */
	pid_t *heirs; /* processes that have inherited the probes, as the last scan found them */
	u32 nheirs;
	size_t room_heirs;
	bool in_use, seen;
	bool adopted;  /* and those that have inherited its probes do not know */
	char comm[16]; /* of threads whose name nobody has seen; "": not known */
	struct dp_drain drain;
	struct run_governed *governed; /* NULL: governors have not been begun */
	u32 ngoverned;
};

#define RUN_BY_PID 1024
#define RUN_WANTED_MAX 4096 /* so many modules can be inserted */

struct run_wanted { /* the modules whose probes a target is to have */
	u32 n;
	struct run_module *v[RUN_WANTED_MAX]; /* not initialised behind n: it is long */
};

struct run_orphan { /* a target that a driver had which was killed */
	struct run_orphan *next;
	pid_t pid;
	u64 started, inode; /* of the rings; 0: it did not come to note it */
	struct run_range *ranges;
	u32 nranges, nwords;
	u64 *words; /* when it was armed, or disarmed */
};

/*
 * How far the log goes, in the state's directory: size[epoch & 1] bytes. Rings say for an epoch how far they are read
 * (log/reader.h), so that one store moves both on. What is behind that in the log a successor takes off and reads
 * again.
 */
struct run_journal {
	u64 epoch, size[2];
};

struct run_unwritten { /* a record that goes into the log next */
	struct run_module *m;
	u32 index;  /* of the probe */
	size_t end; /* of its text */
};

#define RUN_SINKS 3 /* DP_RUN_CONSOLE and those that follow */

#define RUN_TASKS 256 /* of threads; a power of two */

struct dp_run {
	struct run_module *modules;
	char state[4096];                     /* directory; "": this run leaves nothing behind */
	u32 nspares;                          /* files in it that are to be used again */
	u32 numbers;                          /* of modules given so far */
	struct run_journal *journal;          /* NULL: none */
	bool moved;                           /* rings have been read farther than the journal says */
	struct dp_journal *recorder;          /* of a recording: what a successor needs (run-recorder.c); NULL: none */
	void (*recorded)(struct dp_run *run); /* at each commit; NULL: nobody */
	/* of a recorder, NULL else: e was kept behind those that were; kept: so many of them are, at most */
	void (*save_ended)(struct dp_run *run, struct run_module *m, const struct run_ended *e, u32 kept);
	struct dp_output *recording;    /* then it goes there, */
	const struct dp_chunks *chunks; /* in these; may be NULL */
	bool ends_recording;            /* it is the successor of a recorder, whose state it has */
	int globals_fd;                 /* of the global variables that all processes share, */
	volatile u64 *globals;          /* and here; NULL: there are none yet. The kernel has its own */
	struct run_orphan *orphans;
	u64 old_epoch; /* in which their driver was killed */
	struct run_target *targets, *by_pid[RUN_BY_PID];
	u32 nsessions;                /* of targets, at the last turn */
	struct dp_merge *merge;       /* records that wait for older ones of other targets, NULL: none have, */
	u64 waiting;                  /* so many, */
	struct run_target **numbered; /* and whose they are */
	u32 nnumbered;
	size_t room_numbered;
	u64 shown, most;              /* records; 0: no limit */
	bool is_full;                 /* a record was the last one that is shown */
	volatile sig_atomic_t *asked; /* instead, somebody asks for what is kept; NULL: nobody does */
	struct dp_keep *keep;         /* requests that have not ended yet; NULL: all records are shown */
	volatile sig_atomic_t *asked_by_request;
	u32 nevents;                    /* probes of all programs so far */
	struct dp_formatter *formatter; /* NULL: each record is written as text */
	u64 ring_size;                  /* of sessions, bytes for each processor; 0: the usual ones */
	FILE *log;                      /* its descriptor; NULL: records go to write. What is written goes through: */
	char *out;                      /* records that are not in the file yet, */
	size_t out_n, out_room;
	struct run_unwritten *unwritten; /* and whose they are */
	size_t nunwritten, unwritten_room;
	ssize_t (*write)(void *arg, const void *text, size_t n);
	void *write_arg;
	char log_path[4096];
	u64 log_bytes;
	struct dp_line line;
	u64 scan_due_ns, threads_due_ns, known_due_ns;
	bool rearmed;          /* a session was made or changed, since the last scan began */
	struct run_seen *seen; /* by the last scan */
	s64 realtime_offset;
	struct run_task { /* a thread's name, as it was in this turn or was last seen; by the low bits of its id */
		u32 tid;
		u64 turn;
		bool known;
		char comm[16];
	} tasks[RUN_TASKS];
	u64 turn;                       /* of reading, from 1 on */
	struct dp_journald *journald;   /* where a module has that log target; else NULL */
	int sinks[RUN_SINKS];           /* descriptors of the log targets in use, plus 1; 0: not open */
	pid_t command;                  /* a child that becomes the root of a tree; 0: none */
	struct run_chosen *chosen;      /* processes that programs without a process are for; NULL: all */
	const pid_t *only;              /* processes whose hits in the kernel count, */
	u32 nonly;                      /* so many; 0: all */
	bool follows;                   /* and of those that they start */
	bool told_no_room;              /* of a table of processes, in the kernel */
	bool no_watch;                  /* this system or user cannot hold anybody at an open */
	bool has_ended;                 /* a body has asked for the end */
	u64 let_go;                     /* number of the start, of those without probes, that was counted last */
	u64 body_exceptions;            /* that bodies have met */
	char not_held[96];              /* why programs are not held at their start; "": they are */
	int watch_wake;                 /* readable when some wait; -1: nothing is watched */
	struct dp_govern_cost governed; /* of sessions that have ended */
	u32 left_in;                    /* how often probes could not be taken out */
	void (*note)(void *arg, const char *text);
	void *note_arg;
};

/* Its probes are set through the kernel's module. */
static inline bool run_is_in_kernel(const struct run_module *m)
{
	return m->unit.modtype != DP_RPN_USER || m->flags & DP_RUN_UPROBES;
}

/* run-lists.c */
struct run_module *dp_run_module_find(struct dp_run *run, const char *name);
/* Takes the unit; the module is the last one from now on. NULL: no memory. */
struct run_module *dp_run_module_new(struct dp_run *run, struct dp_rpn_unit *u);
/* Whether it is inserted for that process, or for those that were chosen (dp_run_has_chosen(), once a process). */
bool dp_run_is_for(const struct run_module *m, pid_t pid, bool chosen);
/* The same of one that may be gone. */
bool dp_run_was_for(const struct run_module *m, pid_t pid, bool chosen);
bool dp_run_takes_more(const struct dp_run *run, const struct run_module *m); /* who maps it later gets it, too */
/* A module is what another one was, with more probes: variables go on, and the gates of those that both have. */
bool dp_run_goes_on(const struct run_module *to, const struct run_module *from);
u32 dp_run_count_targets(const struct dp_run *run, const struct run_module *m);
/* Which probe of the target's session it is; as many as there are: it is none. There may be a hundred thousand. */
u32 dp_run_probe_of(const struct run_target *t, const struct run_module *m, u32 index);
/* The counts of a probe over all targets, also those that are gone. */
void dp_run_counts(const struct dp_run *run, const struct run_module *m, u32 index, struct dp_counts *sum);
/* A range for the module, its words beginning there. grows: with room for more. False: no memory. */
bool dp_run_place_range(struct run_range *r, struct run_module *m, u32 from, bool grows);
void dp_run_free_ranges(struct run_range *v, u32 n);
void dp_run_leave_out(struct run_range *range, pid_t pid, const struct dp_error *err); /* why its module is not in */
bool dp_run_symbol_of(void *target, u64 addr, char *buf, size_t size);                 /* a dp_symbolize_fn */
bool dp_run_file_of(void *target, u64 addr, struct dp_code_file *file);                /* a dp_code_file_fn */

/* run-chosen.c */
bool dp_run_has_chosen(const struct dp_run *run, pid_t pid); /* true where nobody has chosen */
/* Those that map the file of the selection, where it is another one than the module's; NULL: it is not about a file. */
const struct dp_select *dp_run_users_of(const struct dp_run *run, const struct run_module *m);
bool dp_run_is_closed(const struct dp_run *run); /* no other processes join those that were chosen */
void dp_run_free_chosen(struct dp_run *run);

/* run-seen.c: a scan asks about each process that it meets, and notes it if nothing has to be done for it. */
void dp_seen_begin(struct dp_run *run, bool anew); /* a scan; anew: what others have seen does not count */
/* Whether it needs no look: it is as when it was noted last, with those rings. */
bool dp_seen_same(struct dp_run *run, pid_t pid, u64 *rings);
/* The one that was asked about last. rings: whose it has inherited; 0: none. */
void dp_seen_note(struct dp_run *run, pid_t pid, bool is_target, u64 rings);
void dp_seen_free(struct dp_run *run);

/* run-modules.c */
int dp_run_insert(struct dp_run *run, const struct dp_run_request *rq, const void *object, FILE *out,
		  struct dp_error *err);
void dp_run_drop(struct dp_run *run, struct run_module *m); /* its probes and itself */
int dp_run_remove(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out,
		  struct dp_error *err);

/* run-query.c */
int dp_run_query(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out,
		 struct dp_error *err);
int dp_run_vars(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out, struct dp_error *err);

/* run-shared.c: the same, with tables of one name in processes and in the kernel as one, where people look. */
int dp_run_vars_of_all(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out,
		       struct dp_error *err);

/* run-metrics.c */
int dp_run_metrics(struct dp_run *run, FILE *out, struct dp_error *err);

/* run-rows.c: remember how the hits of its probes come about. */
void dp_run_note_how(struct run_target *t);
void dp_run_probe_name(const struct dp_rpn_probe *p, char *buf, size_t size); /* of its event: "<-f" */
/* Where a program wants a probe: "f+0x0", "watch v". Returns buf. */
const char *dp_run_place_text(const struct dp_rpn_probe *p, char *buf, size_t size);

/* run-budgets.c */
void dp_run_govern(struct dp_run *run); /* as often as there is time */
void dp_run_govern_target(struct run_target *t);
void dp_run_end_governors(struct dp_run *run, struct run_target *t);
bool dp_run_is_out(const struct run_target *t, u32 probe); /* of the code, for a while */
void dp_run_governed(const struct dp_run *run, const struct run_module *m, u32 index, struct dp_governed *sum);
u32 dp_run_count_taken_out(const struct dp_run *run, const struct run_module *m); /* probes that ever were */

/* run-aggregates.c */
/* Words from local variable i to the end of the aggregate that it belongs to; 0: to none. */
u32 dp_run_aggregate_at(const struct dp_rpn_unit *u, u32 i);
/* Of the words of its session, if it has one: where hits add to them. */
static inline struct dp_apart dp_run_apart(struct run_target *t)
{
	return t->session ? dp_tracee_apart(t->session) : (struct dp_apart){0, 0};
}

/* The first n words, with all that hits have added. Free it; NULL: no memory. */
u64 *dp_run_read_words(struct run_target *t, u32 n);
/* Its values among a module's words, not its keys: hits may be on their way to them. */
void dp_run_clear_aggregate(const struct dp_rpn_aggregate *a, volatile u64 *words, struct dp_apart apart);
/* A copy of a module's words, with the names of addresses in keys as the view has them now. NULL: no memory. */
struct run_ended *dp_run_ended_new(const struct run_module *m, volatile const u64 *words,
				   const struct dp_agg_view *view);
/* Takes it; NULL does nothing. */
void dp_run_keep_ended(struct dp_run *run, struct run_module *m, struct run_ended *e);
bool dp_run_name_of_ended(void *ended, u64 addr, char *buf, size_t size); /* a dp_symbolize_fn */
bool dp_run_file_of_ended(void *ended, u64 addr, struct dp_code_file *file);
void dp_run_free_ended(struct run_ended *e);
void dp_run_forget_ended(struct run_module *m);

/* run-places.c: to a session that is not armed yet, or can change. The range's words and probes have their places. */
int dp_run_add_probe(struct dp_tracee *s, const struct run_range *range, u32 index, struct dp_error *err);
/*
 * The module in the process, or the kernel, is that for which an object was built; one that is not loaded cannot be
 * told.
 */
int dp_run_check_build(struct dp_tracee *s, const struct dp_rpn_unit *u, struct dp_error *err);
/* The same, and whether its places are there, by the file alone, where no process maps it. */
int dp_run_check_file(const struct dp_rpn_unit *u, int fd, struct dp_error *err);

/* run-words.c: variables and gates. old: those of the session before, with its ranges; NULL: there are none */
bool dp_run_is_among(const struct run_wanted *w, const struct run_module *m);
/* Modules that the target has no more leave their words behind; without memory for them they begin anew. */
void dp_run_keep_words(struct run_target *t, volatile const u64 *old, struct dp_apart apart,
		       const struct run_range *ranges, u32 n, const struct run_wanted *w);
/* For the target's ranges as they are now: first values, or those from before. */
void dp_run_fill_words(const struct run_target *t, const u64 *old, const struct run_range *ranges, u32 nranges,
		       u64 *words);
/* What programs ask of the process itself. */
void dp_run_fill_known(const struct run_target *t, const struct run_range *r, volatile u64 *words);
void dp_run_renew_known(struct dp_run *run); /* what can have changed since, of all targets */
bool dp_run_keeps_gate(const struct run_range *to, const struct run_range *from, u32 k);
/* False: there was nothing to bring back. */
bool dp_run_bring_back(const struct run_target *t, const struct run_range *to, volatile u64 *words);
void dp_run_forget_kept(struct run_target *t, const struct run_module *m);
void dp_run_end_kept(struct dp_run *run, struct run_target *t); /* the process has ended, or become another program */

/* run-wanted.c */
void dp_run_find_wanted(struct dp_run *run, const struct dp_maps *maps, pid_t pid, struct run_wanted *w);
void dp_run_find_wanted_in_kernel(struct dp_run *run, struct run_wanted *w);
bool dp_run_as_wanted(struct run_target *t, const struct run_wanted *w); /* the target's probes are those */

/* run-targets.c */
/* Look at all processes; those that map a module get its probes. force: those that could not be
 * probed are tried again. */
void dp_run_scan(struct dp_run *run, bool force);
/* A module is about to go: take its probes out everywhere. */
void dp_run_forget(struct dp_run *run, struct run_module *m);
void dp_run_target_end(struct dp_run *run, struct run_target *t);
/* Take its probes out; the session stays until it ends, for what its hits have left. */
void dp_run_withdraw(struct dp_run *run, struct run_target *t);
/* Go on with what a killed driver had: its targets, or the processes that have inherited their probes. */
void dp_run_adopt(struct dp_run *run);

/* Look at one process, which has just been started or has loaded a library. */
void dp_run_look_at(struct dp_run *run, pid_t pid);
/* What the process had mapped of the module's file is not what it has now. */
void dp_run_mapped_anew(struct dp_run *run, const struct run_module *m, pid_t pid);

/* run-change.c */
/* Give the process exactly these modules' probes, without a gap for those that it has. False: it cannot be done so. */
bool dp_run_change(struct dp_run *run, struct run_target *t, const struct run_wanted *w);

/* run-starts.c */
/*
 * From now on programs are caught at their start when they are, or load, this file; once for each module. Takes the
 * descriptor.
 */
void dp_run_watch_file(struct dp_run *run, struct run_module *m, int fd);
void dp_run_unwatch(struct dp_run *run, struct run_module *m);
/* The loop works on this process (0: on none), which is not to be held meanwhile. Returns which it was before. */
pid_t dp_run_busy_with(pid_t pid);
bool dp_run_is_caught(pid_t pid); /* it is held, or somebody else has it first: its turn in dp_run_catch() comes */

/* run-records.c */
int dp_run_log_open(struct dp_run *run, const char *dir, struct dp_error *err);
struct dp_json;
void dp_run_json_refusal(struct dp_json *j, const struct dp_error *why);    /* the member "refused" (run-query.c) */
int dp_run_open_sinks(struct dp_run *run, u32 flags, struct dp_error *err); /* E_DRV_TARGET */
void dp_run_drain(struct dp_run *run, struct run_target *t, bool final);
bool dp_run_number(struct dp_run *run, struct run_target *t); /* for records that wait; false: no memory */
/* One that has waited for the end of its request; and one that is not shown is counted as that instead. */
void dp_run_show_request(struct dp_run *run, struct run_target *t, struct run_module *m, u32 index,
			 const struct dp_record *rec, u64 ns);
void dp_run_count_not_shown(struct run_module *m, u32 index, u32 as);
void dp_run_show_known(struct dp_run *run);                               /* what waits for older records no more */
void dp_run_order_forget(struct dp_run *run, const struct run_target *t); /* none of its records wait */
/* A record that a body has made, or a text, in the order of what is shown. */
void dp_run_show_body(struct dp_run *run, struct run_target *t, struct run_module *m, const struct dp_rpn_probe *body,
		      const struct dp_record *rec);
void dp_run_show_text(struct dp_run *run, struct run_module *m, const char *text, size_t n);
/* What was shown is in the log from now on, whatever happens to us. */
void dp_run_log_commit(struct dp_run *run);

/* run-requests.c: whether the record waits there, or is passed over. */
bool dp_run_take_request(struct dp_run *run, struct run_target *t, const struct run_probe *p,
			 const struct dp_record *rec, u64 ns);
void dp_run_end_requests(struct dp_run *run, const struct run_target *t); /* behind its last record */

/* run-bodies.c: what programs do besides their probes, by us, on the variables of each target. */
/* The module's words are new, and nobody uses them yet. */
void dp_run_begin_bodies(struct dp_run *run, struct run_target *t, struct run_module *m, volatile u64 *locals);
/* The same for all modules that the target did not have, and of which nothing was kept; words: of the session. */
void dp_run_begin_all(struct dp_run *run, struct run_target *t, const struct run_range *old, u32 nold, u64 *words);
/* Nobody will use the words any more. */
void dp_run_end_body_words(struct dp_run *run, struct run_target *t, struct run_module *m, u64 *locals);
/* Of the module, or of all (NULL): takes the target's probes out if there are any bodies that want to be last. */
void dp_run_end_bodies(struct dp_run *run, struct run_target *t, const struct run_module *m);
void dp_run_timers(struct dp_run *run);
u64 dp_run_next_timer(const struct dp_run *run); /* nanoseconds until then; ~0: never */

/* run-owners.c: variables of threads that have ended are given free */
void dp_run_clean_threads(struct dp_run *run);

/*
 * run-thread-values.c: programs in the kernel learn where the threads of a process have the variables that they read;
 * gone: nowhere any more. words: of a kernel target whose session is in the making.
 */
void dp_run_tell_kernel(struct dp_run *run, const struct run_target *of, bool gone);
void dp_run_tell_values(struct dp_run *run, const struct run_target *kernel, volatile u64 *words,
			const struct run_target *of, bool gone);

/* run-globals.c: the global variables of all processes; false: no memory. */
bool dp_run_open_globals(struct dp_run *run);
void dp_run_close_globals(struct dp_run *run); /* nobody uses them any more: their values go */

/*
 * run-state.c: what a successor needs when we are killed. All of it does nothing in a run that leaves nothing
 * behind.
 */
bool dp_run_state_exists(const char *dir);
void dp_run_state_open(struct dp_run *run, const char *dir); /* reads what a predecessor left: modules and orphans */
void dp_run_save_module(struct dp_run *run, const struct run_module *m);
void dp_run_unsave_module(struct dp_run *run, const struct run_module *m);
void dp_run_save_target(struct dp_run *run, const struct run_target *t, const struct run_range *ranges, u32 nranges,
			volatile const u64 *words, struct dp_apart apart, u32 nwords);
void dp_run_unsave_target(struct dp_run *run, const struct run_target *t);
void dp_run_free_orphan(struct run_orphan *h);
/* Of a recorder: it writes everything down there from now on; and a successor reads it, for rings of that epoch. */
void dp_run_state_begin(struct dp_run *run, const char *dir);
void dp_run_state_read(struct dp_run *run, const char *dir, u64 epoch);

#endif
