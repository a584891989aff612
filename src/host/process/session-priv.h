/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A session's inside: shared by resolve.c (events to spots), arm.c (into the target), session.c and others. */
#ifndef DP_SESSION_PRIV_H
#define DP_SESSION_PRIV_H

#include "abi/abi-control.h"
#include "abi/abi-page.h"
#include "abi/abi-watch.h"
#include "host/process/process-priv.h"
#include "host/process/record.h"
#include "program/code.h"

struct dp_probe_rt;
struct dp_stretch_table;
struct dp_unwind_module;
struct dp_unwind_row;

/*
 * One event, at one function entry, one address, or all exits of a function. A pattern may make a hundred thousand of
 * them: what most of them have in common, or lack, has no room of its own in each.
 */
struct dp_probe {
	struct dp_event *event; /* NULL: the place is free */
	char *symbol;           /* its own; NULL: a guard, or a free place */
	char *name;             /* its own; NULL: that of the event */
	u64 offset;
	u64 addr;
	const char *module;
	enum dp_outcome outcome;
	enum dp_code why; /* not a jump: the reason */
	u32 nsites, ncompiled, nplain;
	bool from_pattern; /* may be left out when it cannot be armed; its event is one of session.shared */
	bool dropped;
	u32 locals, globals, gate; /* words of the session, see dp_probe_spec */
	u32 call_flags;            /* DP_PROBE_WATCH_*, of a probe without a program */
	enum dp_jit_choice jit;
	u64 compiled;        /* address of the program as a function, 0: interpreted */
	bool knows_number;   /* of a system call: its program reads the number that the host may have kept */
	bool fresh, leaving; /* added, or to go, while the session is armed: up to the next dp_session_change() */
	bool paused;         /* not in place, its spots are idle; with leaving: from the next change on */
	bool resumed;        /* with fresh: it was paused */
	bool out;            /* to be out of the code for a while, from the next dp_session_take_out() on */
};

#define DP_WATCH_REGISTERS 4

struct dp_watched { /* one piece of memory that an event watches */
	u64 addr;
	u32 len; /* 1, 2, 4 or 8, aligned; any where it is watched by its pages */
	enum dp_watch_type type;
	u32 owner;  /* index of its probe */
	u32 group;  /* those with the same piece and type share a register: index into watches[] of the control block */
	bool paged; /* by its pages, not by a register */
	u64 shadow; /* of pages: offset of what was seen last from session.shadows_off */
};

struct dp_watch_event { /* of one thread, and of the threads that it starts from then on */
	int fd;
	u32 group;
};

struct dp_unwind_tables {                 /* by which call chains are walked; n 0: no program does */
	struct dp_unwind_module *modules; /* sorted; rows are not placed yet */
	struct dp_unwind_row **rows;
	u32 n;
};

/* ---- the parts of a session (session-parts.c); arming knows their sizes and goes through their steps ---- */

struct dp_watch_part {        /* process-watch.c: what is watched, and the registers */
	struct dp_watched *v; /* sorted: groups stand together */
	u32 n, ngroups;
	size_t cap;
	struct dp_watch_event *events; /* while armed */
	size_t nevents, cap_events;
	u64 hits[DP_WATCH_REGISTERS + DP_PAGES_RANGES]; /* by the kernel's count, of each group */
	u64 cells_off;                                  /* of the words that hold the watched values, from the region */
};

struct dp_pages_part {          /* pagepoint.c */
	int marks, map, filter; /* descriptors; 0: none */
	int *events;            /* while armed: descriptors of page faults, of all threads */
	size_t nevents, cap_events;
	bool no_calls;   /* what system calls store cannot be told */
	u64 shadows_off; /* of what was seen last, from the region */
	u64 copies_off;  /* of the copies of instructions, from the region */
};

struct dp_late_points { /* extend.c: control blocks and points that come while the session is armed */
	u64 off, size;  /* of the room for the blocks, from the region; of one of them, 0: none will come */
	u32 n, nspots;  /* that have come */
	u64 known, at;  /* copies that were ready at the last look, and when the next is due */
	u32 doorbell;   /* of the rings: asked up to then */
	u8 *tried;      /* of each of the DP_COPIES */
};

struct dp_changes { /* change.c: room for probes that come while the session is armed, and for words */
	u32 probes, words;
	u64 off, size;          /* of control blocks, from the region; 0: none will come */
	struct dp_range blocks; /* those in use of them */
	u64 jit_used;           /* of the room for compiled programs */
	bool unsure;            /* bytes may be in any step */
	bool busy;              /* somebody may still be in detours that have gone */
	u64 unwind;             /* first-use.c: where tables of call chains that have come stand; 0: none have */
	bool has_globals;       /* the page behind the rings is that of global variables */
};

struct dp_calls_part {           /* process-calls.c */
	bool any;                /* watch.v[0] is memory of a call */
	u64 asks_off;            /* of the questions, in the mapping of the rings */
	struct dp_calls *server; /* while armed */
};

/* The owners of spots that are guards, no probes: before a call, and behind it (stretches.c). */
#define DP_GUARD_OWNER 0xfffffffeu

struct dp_stretches_part {       /* stretches.c: memory that hits load from */
	struct dp_probe *guards; /* two of them, while there are spots of theirs */
	bool guarded;            /* so are the calls, or those of the block that is to be adopted */
	u64 off, loads_off;      /* of struct dp_stretches, and the words of loads, from the region */
	bool on;                 /* armed, and tables are offered */
	const char *why;         /* not, or not any more; NULL: no program reads memory */
	char detail[192];        /* of the reason, where it names a place */
	struct dp_range *odd;    /* mappings of another kind, by the kernel's flags of them */
	size_t nodd, cap_odd;
	struct dp_range *theirs; /* what other dprobes have mapped */
	size_t ntheirs, cap_theirs;
	u64 due, pause;                /* when the process is looked at next, and the time between */
	struct dp_stretch_table *last; /* that was offered, */
	u64 offered;                   /* to this state */
};

struct dp_foretold_calls { /* by number: a program does nothing there */
	const struct dp_program *prog;
	u32 side;
	u8 numbers[DP_KEPT_CALLS / 8];
};

struct dp_foretold_part { /* compile-calls.c: what was found out since the last lay-out */
	struct dp_foretold_calls *v;
	u32 n;
	size_t cap;
};

struct dp_slot_seen {
	u32 left;
	bool given_up, ended;
};

struct dp_session {
	pid_t pid;
	struct dp_session_options opt;
	struct dp_process proc;
	struct dp_probe *probes;
	u32 nprobes;
	size_t cap_probes;
	struct dp_event **shared; /* of patterns: each is that of all of its probes */
	u32 nshared;
	size_t cap_shared;
	struct dp_spot *spots;
	u32 nspots, cap_spots;
	struct dp_spot *idle; /* of probes that are paused */
	u32 nidle;
	size_t cap_idle;
	struct dp_plan plan;
	u64 region; /* address of the main mapping */
	u64 control;
	struct dp_ring_map rings; /* shared with the process: only what stands in the layout is known */
	struct dp_file_id rings_file;
	struct dp_block block; /* what stands, or is going to stand, in the process */
	u64 record_started;    /* of the process: that is written down under this time, */
	bool recorded;         /* if it is, */
	bool record_stays;     /* and the file is not closed when it has been written, */
	int record_fd;         /* but is this one; -1: it is closed */
	u64 words_off;         /* of the words in the mapping of the rings */
	struct dp_apart apart; /* of the words */
	u64 *words;            /* their first values */
	u32 nwords;
	/* from the region: of the words that processes share; 0: globals are the session's own words */
	u64 globals_off;
	u64 rings_off, slots_off, tids_off; /* from the region */
	u32 nslots;
	struct dp_slot_seen *seen; /* of each slot, at the last look */
	u64 ran_ns;                /* the processor's time of the process at that look, */
	u32 rests;                 /* the same at so many looks before */
	bool armed, reaped;
	int exit_status;
	int pidfd;
	bool spawned;              /* the program was started by us */
	struct dp_parking parking; /* where it waits until the probes are armed; pid 0: it does not */
	bool stops;                /* a program can stop the process for a debugger */
	pid_t stepping;            /* present.c: the thread that has not got to the end of its hit yet; 0: none */
	struct dp_session_stats stats;
	struct dp_unwind_tables unwind;
	u64 exits; /* function by which programs call exit facilities; 0: none does */
	struct dp_watch_part watch;
	struct dp_pages_part pages;
	struct dp_late_points late;
	struct dp_changes changes;
	struct dp_calls_part calls;
	struct dp_stretches_part stretches;
	struct dp_foretold_part foretold;
};

/* Whose a spot is. */
static inline struct dp_probe *dp_spot_probe(const struct dp_session *s, const struct dp_spot *sp)
{
	return sp->owner >= DP_GUARD_OWNER ? &s->stretches.guards[sp->owner - DP_GUARD_OWNER] : &s->probes[sp->owner];
}

/* resolve.c */
/* A spot at a link-time address of the image, judged. */
int dp_spot_at(struct dp_spot *spot, const struct dp_image *im, u64 link, u32 owner, struct dp_error *err);

/* An event line's place in code, or all of a pattern, as probes. */
int dp_resolve_code(struct dp_session *s, struct dp_event_line *line, struct dp_error *err);

/* resolve.c, for process-watch.c and process-calls.c */
struct dp_probe *dp_add_probe(struct dp_session *s);
/* Its symbol is this text, of which it keeps what is shorter than DP_SYMBOL_MAX. E_ARM_NOMEM */
int dp_probe_name(struct dp_probe *p, const char *symbol, struct dp_error *err);
/* The probe is none any more, and its place is free. */
void dp_probe_free(struct dp_probe *p);
/* The last one, with what it has. */
void dp_drop_last_probe(struct dp_session *s);
int dp_event_new(struct dp_session *s, struct dp_event_line *line, const char *watch_type, struct dp_event **ev,
		 struct dp_error *err);
void dp_event_drop(struct dp_event *ev); /* of dp_event_new(); NULL: nothing */
int dp_add_at_code(struct dp_session *s, struct dp_event *ev, int opcode, struct dp_error *err);
struct dp_image *dp_image_of_symbol(struct dp_session *s, const char *name, struct dp_error *err);

/* process-watch.c */
int dp_watch_resolve(struct dp_session *s, struct dp_event_line *line, struct dp_error *err);
/* An event whose program is there already: it is the session's from now on, or freed. */
int dp_watch_add(struct dp_session *s, struct dp_event *ev, struct dp_error *err);
/* After the end: hits of which no program knows are counted as missed. */
void dp_watch_count(struct dp_session *s);
/* Who is watched beside the thread. DP_INHERIT_TRIAL: not even the thread, the register is only taken. */
enum dp_watch_inherit { DP_INHERIT_TRIAL, DP_INHERIT_NONE, DP_INHERIT_THREADS, DP_INHERIT_ALL };
/* An event of the kernel; -1: errno. Its index is that of the group. */
int dp_watch_open(const struct dp_session *s, const struct dp_watched *w, pid_t tid, enum dp_watch_inherit inherit);
/* The watchpoint of an event line whose memory is found at each call. type: NULL: a hexadecimal number */
int dp_watch_of_call(struct dp_session *s, struct dp_event_line *line, const char *type, u32 len, struct dp_error *err);

/* watched.c */
bool dp_watched_add(struct dp_session *s, struct dp_watched piece); /* false: no memory */
void dp_watched_drop(struct dp_session *s, u32 owner);
u32 dp_watched_registers(const struct dp_session *s); /* how many are needed */
bool dp_pages_any(const struct dp_session *s);
/* Places what was seen last for each piece; returns the bytes that they take. */
u64 dp_pages_shadows(struct dp_session *s);
/* The pages that are watched, sorted, not overlapping; returns their number. */
u32 dp_pages_ranges(const struct dp_session *s, struct dp_range v[DP_PAGES_RANGES]);
/* Whether this much can be watched at all: E_WATCH_PAGES. */
int dp_pages_check(const struct dp_session *s, struct dp_error *err);

/* pagepoint.c */
/* Whether this kernel has what it takes, tried on ourselves: E_WATCH_PAGES. */
int dp_pages_can(struct dp_error *err);
/* Watch again what was left open. False: no pages are watched. */
bool dp_pages_close(struct dp_session *s);

/* semaphore.c */
/* Whether there is room for those that probes at these places want. E_STATIC_MANY */
int dp_semaphores_check(struct dp_session *s, const struct dp_spot *spots, u32 n, struct dp_error *err);
/* Armed: raise those that the session's probes want, and lower those that they want no more. */
int dp_semaphores_settle(struct dp_session *s, const struct dp_mem *mem, struct dp_error *err);

/* process-calls.c */
int dp_call_resolve(struct dp_session *s, struct dp_event_line *line, struct dp_error *err);

/* stretches.c */
/* Before the plan: the guards' spots, where programs read memory and all calls of the process are known. E_ARM_NOMEM */
int dp_stretches_guard(struct dp_session *s, struct dp_error *err);
/* Go on with those that a killed owner has left, by its control block. */
void dp_stretches_adopt(struct dp_session *s, const struct dp_control *ctl);
/* They are no spots of the session any more, for this reason. */
void dp_stretches_give_up(struct dp_session *s, const char *why);
/* Bytes of the region for the words of loads, and for the tables. */
u64 dp_stretches_loads(const struct dp_session *s, u32 nslots);
u64 dp_stretches_room(const struct dp_session *s);

/* session-parts.c: nothing comes from any part from then on; may be called for a session that is not armed. */
void dp_parts_end(struct dp_session *s);

/* session-state.c */
/* The rings are in this memory file. E_TARGET_CALL */
int dp_session_map_rings(struct dp_session *s, int fd, u64 there, u64 size, struct dp_error *err);
void dp_session_unmap_rings(struct dp_session *s);
struct dp_withdrawn;
void dp_session_add_withdrawn(struct dp_session *s, const struct dp_withdrawn *wd); /* to its figures */
void dp_session_say(struct dp_session *s, const char *fmt, ...) DP_PRINTF(2, 3);
void dp_session_say_left(struct dp_session *s, const char *fmt, ...) DP_PRINTF(2, 3); /* what was not taken out */

/* idle.c */
void dp_session_forget_idle(struct dp_session *s); /* those of probes that are in place again, or still */

/* inheritors.c */
/* Processes that inherited the probes by fork lose them. before: the block as it was when most of them did. */
void dp_withdraw_inheritors(struct dp_session *s, const struct dp_block *before);
/* The same at the end of a session. False: one keeps something of them. */
bool dp_withdraw_all_inheritors(struct dp_session *s);
/* Processes that have inherited the probes by fork, and still have them; free() them. */
u32 dp_session_heirs(const struct dp_session *s, pid_t **pids);
/*
 * Look at the process (dp_process_read()), while nobody else changes it. What dprobes that have ended left there, and
 * in others that inherited it, is taken out. E_TARGET_BUSY
 */
int dp_settle_predecessors(struct dp_session *s, struct dp_error *err);

/* first-use.c, for change.c: before the plan; with the process attached; and the change comes to nothing. */
struct arming;
int dp_first_prepare(struct dp_session *s, const struct dp_mem *mem, struct dp_error *err);
int dp_first_map(struct arming *a, struct dp_error *err);
void dp_first_cancel(struct dp_session *s);

/* shared.c */
/*
 * Map size bytes of our file fd at addr in the process, shared. was_there: a dprobes that was killed may have left a
 * descriptor of it in the process. replace: in the place of what we have mapped there. later: its last two calls are
 * left to the next ones (dp_remote_later()), and looked at by dp_share_made() then; NULL: they are made at once.
 * E_TARGET_SHARE besides the errors of calls.
 */
int dp_share_file(struct dp_remote *r, int pidfd, int fd, bool was_there, u64 addr, u64 size, bool replace,
		  struct dp_call later[2], struct dp_error *err);
int dp_share_made(const struct dp_call *mapping, struct dp_error *err);
/*
 * The same with a memory file that the process makes, where no descriptor can be sent to it (one that has only one
 * left, or whose first thread has ended, before Linux 6.9). The result is our descriptor of it, sealed.
 */
int dp_share_theirs(struct dp_remote *r, u64 addr, u64 size, struct dp_call later[2], struct dp_error *err);
bool dp_is_shared_at(pid_t pid, int fd, u64 addr);

/* memfile.c */
/* A memory file of that size; its size cannot change any more. -1: E_TARGET_SHARE */
int dp_memory_file(u64 size, struct dp_error *err);
/* The one that a link in /proc leads to, if it is one and of that size, and sealed like ours; else -1. */
int dp_memory_open(const char *link, u64 size);
/* One that the process has just made, of that user: made ours. -1: E_TARGET_SHARE */
int dp_memory_adopt(const char *link, uid_t owner, u64 size, struct dp_error *err);

/* arm.c */
int dp_arm(struct dp_session *s, struct dp_error *err);

/* process-compile.c */
/*
 * Of all programs, or, once the session is armed, of those that are new. Bytes of compiled programs; spots and probes
 * know their place in them, and then the address.
 */
u64 dp_compile_lay_out(struct dp_session *s, struct dp_spot *spots, u32 n);
void dp_compile_place(struct dp_session *s, struct dp_spot *spots, u32 n, u64 base);
/* Armed, or changed: what is not alone at its point was not compiled, and must not be called once it is alone. */
void dp_compile_forget(struct dp_session *s);
/* compile-calls.c: behind a system call, and its program looks at the number that was kept of it. Laid out. */
bool dp_calls_wants_number(const struct dp_session *s, const struct dp_spot *sp);
/* Compile them into this piece of the process's memory; the plan is made, and a->ctl is complete but for its tables. */
struct arming;
int dp_compile_write(struct arming *a, const struct dp_spot *spots, u32 n, const struct dp_plan *plan,
		     struct dp_range to, struct dp_error *err);

/*
 * process-exits.c: whether all exit facilities that programs call are registered, and the function by which the hit
 * calls them, 0: no program does. E_EXIT_NONE, E_EXIT_SIGNATURE, those of dp_process_registry().
 */
bool dp_session_calls_exits(const struct dp_session *s);
int dp_session_exits(struct dp_session *s, u64 *function, struct dp_error *err);

/* process-unwind.c */
bool dp_session_uses(const struct dp_session *s, enum dp_opcode opcode); /* in any of its programs */
bool dp_session_walks(const struct dp_session *s);                       /* call chains */
/* The tables of all modules, when a program walks call chains. E_ARM_NOMEM. */
int dp_unwind_build(struct dp_session *s, struct dp_error *err);
void dp_unwind_free(struct dp_unwind_tables *t);
u64 dp_unwind_size(const struct dp_unwind_tables *t); /* bytes of the control block, at most */
/* Write them into the image of the control block at *at, which is at `origin` in the process; returns the offset. */
u64 dp_unwind_place(const struct dp_unwind_tables *t, u8 *image, u64 *at, u64 origin);

/* Called for each of many: how far it is. total 0: not known. */
static inline void dp_session_tell(const struct dp_session *s, const char *what, u64 done, u64 total)
{
	if (s->opt.progress && done && !(done & 255))
		s->opt.progress(s->opt.arg, what, done, total);
}

/* Address of a probe's global variables in the target. */
static inline u64 dp_session_globals(const struct dp_session *s, const struct dp_probe *p)
{
	return s->globals_off ? s->region + s->globals_off
			      : s->region + s->rings_off + s->words_off + 8ull * p->globals;
}

#endif
