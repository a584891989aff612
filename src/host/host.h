/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a host is to commands and to the driver: a world in which probes are set, reached through one table of
 * functions. Whoever uses a host knows this header only; which host it is was decided when it was opened (host/any).
 */
#ifndef DP_HOST_H
#define DP_HOST_H

#include <sys/types.h>

#include "abi/abi-apart.h"
#include "abi/abi-watch.h"
#include "engine/engine.h"
#include "lang/event/event.h"
#include "log/rings.h"

struct dp_process;

struct dp_session_options {
	bool allow_trap;    /* breakpoints may be used where no jump fits */
	bool skip_refused;  /* a place that cannot be probed takes its event with it, and no others; it is told */
	bool interpret;     /* do not compile programs */
	bool tells_reads;   /* a note at the end says why memory was read by system calls */
	bool strict_reads;  /* memory that may go away is read by system calls only */
	bool share_globals; /* global variables are the first page of: */
	int globals_fd;     /* a file that other sessions use as well; programs' `globals` is not looked at then */
	bool children;      /* watchpoints are inherited by the children of forks, too */
	bool pages;         /* writes are watched by page protection instead of registers: any number of bytes */
	bool ignore_int;    /* a program that is started ignores SIGINT: so our parent wanted it */
	bool adopt;         /* leave a dead predecessor's probes where they are, for dp_session_adopt() */
	u64 ring_size;      /* bytes of one log ring, power of two; 0: 1 MiB */
	const pid_t *only;  /* in the kernel: hits of other processes are passed over; as long as it is not armed */
	u32 nonly;          /* 0: of none */
	bool grows;         /* there is to be room for probes that come while it is armed */
	u32 nslots;         /* threads that can be in a hit at once; 0: from the number of threads */
	/* Beside `only`, hits of those count that they start: what some have started by now, free() it. May be NULL */
	u32 (*below)(const pid_t *roots, u32 n, pid_t **below);
	void (*progress)(void *arg, const char *what, u64 done, u64 total); /* may be NULL */
	void (*note)(void *arg, const char *text);                          /* things a user should know; may be NULL */
	void (*left)(void *arg, const char *text); /* what removal did not take out; may be NULL */
	void *arg;
};

struct dp_probe_info {
	const struct dp_event *event;
	const char *name;        /* of the event; where a pattern gives one name to many, the function's */
	const char *symbol;      /* "lookupCommand" */
	u64 offset;              /* from the symbol */
	u64 addr;                /* run-time address; of a return probe: the function's entry */
	const char *module;      /* base name */
	enum dp_outcome outcome; /* the worst over its sites */
	const char *reason;      /* why not a jump; "" for jumps */
	u32 nsites;              /* 1, or the number of exits */
	u32 ncompiled;           /* of them, sites whose program runs as machine code; known once armed */
	u32 nplain;              /* of these, sites where it needs no slot of the thread's */
	bool loads;              /* its program loads most of the memory that it reads; known once armed */
	const char *via;         /* how a return is seen, in the kernel; NULL: by outcome */
	const char *absent;      /* why an armed probe is not in place: "waits", "gone", "off"; NULL: it is */
};

/* Whether programs of the Dynamic Probes language become machine code. */
enum dp_jit_choice { DP_JIT_AUTO, /* where most of it can */ DP_JIT_ON, /* where any of it can */ DP_JIT_OFF };

enum dp_spec_kind {
	DP_SPEC_ENTRY /* before the instruction */,
	DP_SPEC_RETURN /* at the exits of the function */,
	DP_SPEC_WATCH /* at accesses to memory */
};

/*
 * What is to be probed and run there: a verified program for a place, with words of memory that it shares with the
 * others of the session.
 */
struct dp_probe_spec {
	struct dp_location place;
	enum dp_spec_kind kind;
	u32 watch_len; /* bytes; 0: as many as the variable has */
	enum dp_watch_type watch_type;
	int opcode; /* first byte that must stand there, -1: any */
	const struct dp_program *program;
	u32 locals, globals, gate; /* where its variables and its count of hits begin, in words */
	enum dp_jit_choice jit;
	bool log_on_fault; /* its records do not wait until the probed instruction has been carried out */
	u32 index; /* which of the session's probes it is to be, a place that is free; DP_NEXT_INDEX: the next */
};

#define DP_NEXT_INDEX 0xffffffffu

/* What a host keeps of it: an event with a copy of the program's code; NULL: no memory. */
struct dp_event *dp_event_of_spec(const struct dp_probe_spec *spec);

/* Where the module of a probe program is. */
enum dp_module_kind { DP_MODULE_USER, DP_MODULE_KERNEL, DP_MODULE_KMOD };

/*
 * The functions of a host. All work on the session that open() of the host made, by one thread at a time. What is
 * marked "or NULL" is left out by hosts that have no such thing.
 */
struct dp_host_ops {
	const char *name;
	/*
	 * Programs for files of users are set for all processes at once: places are files and offsets, not addresses.
	 */
	bool is_by_file;

	/* Before arming. add: what an event line means; see dp_session_add() and its like in host/process/process.h. */
	int (*add)(void *session, struct dp_event_line *line, struct dp_error *err);
	int (*add_spec)(void *session, const struct dp_probe_spec *spec, struct dp_error *err);
	int (*set_words)(void *session, const u64 *values, u32 n, struct dp_error *err);
	int (*arm)(void *session, struct dp_error *err);
	bool (*adopt)(void *session); /* or NULL: instead of arm(), go on with what a killed predecessor has left */
	/* With adopt, afterwards: these processes have inherited the probes. */
	void (*adopted)(void *session, const pid_t *heirs, u32 n);

	/*
	 * Or NULL. Armed, of a session that grows: probes that are added then, and those that are to go, wait for
	 * change(), which makes all of it true at once; dp_session_change() and its like.
	 */
	bool (*can_change)(void *session, u32 *words); /* how many there is room for */
	/* Or NULL: what is added uses nothing that was not there at arming. dp_session_permit(), before add_spec(). */
	void (*permit)(void *session, bool traps, int globals_fd);
	bool (*fits)(void *session); /* or NULL, yes: dp_session_fits() */
	void (*cancel)(void *session);
	void (*drop)(void *session, u32 probe);
	int (*pause)(void *session, u32 probe, bool pause); /* dp_session_pause() */
	int (*change)(void *session, struct dp_error *err);

	/* Or NULL. Armed: probes are out of the code for a while; dp_session_groups() and its like. */
	bool (*groups)(void *session, u32 *group);
	void (*mark_out)(void *session, u32 probe, bool out);
	int (*take_out)(void *session, struct dp_error *err);
	u32 (*processes)(void *session, pid_t **pids);

	/* Armed. */
	volatile u64 *(*words)(void *session);
	struct dp_apart (*apart)(void *session); /* or NULL: hits add to the words themselves */
	u64 (*words_at)(void *session);          /* or NULL: where the process has them */
	const struct dp_ring_map *(*rings)(void *session);
	/* or NULL: of the file of memory that they are, by which they are found when their owner was killed. */
	u64 (*rings_inode)(void *session);
	bool (*alive)(void *session);        /* or NULL: always */
	void (*tend)(void *session);         /* now and then */
	void (*tend_soon)(void *session);    /* or NULL; several times a second: what does not wait for tend() */
	void (*rest)(void *session, u64 ns); /* sleep; dp_session_rest() */
	int (*remove)(void *session, struct dp_error *err);

	/* Any time. */
	u32 (*nprobes)(void *session);
	void (*probe)(void *session, u32 i, struct dp_probe_info *out);
	void (*free)(void *session); /* removes first when still armed */
	int (*symbol)(void *session, const char *symbol, u64 *addr, struct dp_error *err);
	/* What is added to addresses of the module's file to get those in memory. */
	int (*base)(void *session, const char *module, u64 *addr, struct dp_error *err);
	/* or NULL. A location that is an offset in a file becomes what the host looks up. */
	int (*offset)(void *session, enum dp_module_kind kind, const char *module, struct dp_location *loc,
		      struct dp_error *err);
	/* The build-id of a module as it is there; 1: it cannot be told. */
	int (*build_id)(void *session, enum dp_module_kind kind, const char *module, char *id, size_t size,
			struct dp_error *err);
	bool (*symbolize)(void *session, void **names, u64 addr, char *buf, size_t size);
	void (*free_names)(void *names); /* or NULL */

	/* Of one process; NULL where the host is none. */
	struct dp_process *(*process)(void *session);
	pid_t (*pid)(void *session);
	bool (*status)(void *session, int *status); /* started by us, and ended: as waitpid() gave it */
};

/* A session of some host; all zero: none yet. */
struct dp_tracee {
	const struct dp_host_ops *ops;
	void *session;
	void *names; /* what symbolize() keeps */
};

static inline bool dp_tracee_any(const struct dp_tracee *t)
{
	return t->session;
}

static inline int dp_tracee_add(struct dp_tracee *t, struct dp_event_line *line, struct dp_error *err)
{
	return t->ops->add(t->session, line, err);
}

static inline int dp_tracee_add_spec(struct dp_tracee *t, const struct dp_probe_spec *spec, struct dp_error *err)
{
	return t->ops->add_spec(t->session, spec, err);
}

static inline int dp_tracee_symbol(struct dp_tracee *t, const char *symbol, u64 *addr, struct dp_error *err)
{
	return t->ops->symbol(t->session, symbol, addr, err);
}

static inline int dp_tracee_set_words(struct dp_tracee *t, const u64 *values, u32 n, struct dp_error *err)
{
	return t->ops->set_words(t->session, values, n, err);
}

static inline volatile u64 *dp_tracee_words(struct dp_tracee *t)
{
	return t->ops->words(t->session);
}

static inline struct dp_apart dp_tracee_apart(struct dp_tracee *t)
{
	return t->ops->apart ? t->ops->apart(t->session) : (struct dp_apart){0, 0};
}

static inline u64 dp_tracee_words_at(struct dp_tracee *t)
{
	return t->ops->words_at ? t->ops->words_at(t->session) : 0;
}

static inline int dp_tracee_arm(struct dp_tracee *t, struct dp_error *err)
{
	return t->ops->arm(t->session, err);
}

static inline bool dp_tracee_adopt(struct dp_tracee *t)
{
	return t->ops->adopt && t->ops->adopt(t->session);
}

static inline bool dp_tracee_can_change(struct dp_tracee *t, u32 *words)
{
	return t->ops->can_change && t->ops->can_change(t->session, words);
}

/* False: it cannot. */
static inline bool dp_tracee_permit(struct dp_tracee *t, bool traps, int globals_fd)
{
	if (t->ops->permit)
		t->ops->permit(t->session, traps, globals_fd);
	return t->ops->permit;
}

static inline bool dp_tracee_fits(struct dp_tracee *t)
{
	return !t->ops->fits || t->ops->fits(t->session);
}

static inline void dp_tracee_cancel(struct dp_tracee *t)
{
	t->ops->cancel(t->session);
}

static inline void dp_tracee_drop(struct dp_tracee *t, u32 probe)
{
	t->ops->drop(t->session, probe);
}

/* It is kept and not in place, or in place again, from dp_tracee_change() on. */
static inline int dp_tracee_pause(struct dp_tracee *t, u32 probe, bool pause)
{
	return t->ops->pause ? t->ops->pause(t->session, probe, pause) : -EINVAL;
}

static inline int dp_tracee_change(struct dp_tracee *t, struct dp_error *err)
{
	int r = t->ops->change(t->session, err);

	if (t->names) /* other modules may be mapped now */
		t->ops->free_names(t->names);
	t->names = NULL;
	return r;
}

static inline bool dp_tracee_groups(struct dp_tracee *t, u32 *group)
{
	return t->ops->groups && t->ops->groups(t->session, group);
}

static inline void dp_tracee_mark_out(struct dp_tracee *t, u32 probe, bool out) /* where it has groups */
{
	t->ops->mark_out(t->session, probe, out);
}

static inline int dp_tracee_take_out(struct dp_tracee *t, struct dp_error *err)
{
	return t->ops->take_out(t->session, err);
}

static inline u32 dp_tracee_processes(struct dp_tracee *t, pid_t **pids)
{
	return t->ops->processes(t->session, pids);
}

static inline int dp_tracee_remove(struct dp_tracee *t, struct dp_error *err) /* may be called for none */
{
	return t->session ? t->ops->remove(t->session, err) : 0;
}

static inline void dp_tracee_free(struct dp_tracee *t) /* may be called for none */
{
	if (t->names)
		t->ops->free_names(t->names);
	if (t->session)
		t->ops->free(t->session);
	*t = (struct dp_tracee){.ops = t->ops};
}

static inline u32 dp_tracee_nprobes(const struct dp_tracee *t)
{
	return t->ops->nprobes(t->session);
}

static inline void dp_tracee_probe(const struct dp_tracee *t, u32 i, struct dp_probe_info *out)
{
	t->ops->probe(t->session, i, out);
}

static inline const struct dp_ring_map *dp_tracee_rings(const struct dp_tracee *t) /* after arm */
{
	return t->ops->rings(t->session);
}

static inline bool dp_tracee_alive(struct dp_tracee *t)
{
	return !t->ops->alive || t->ops->alive(t->session);
}

static inline void dp_tracee_tend(struct dp_tracee *t)
{
	t->ops->tend(t->session);
}

static inline void dp_tracee_tend_soon(struct dp_tracee *t)
{
	if (t->ops->tend_soon)
		t->ops->tend_soon(t->session);
}

static inline void dp_tracee_rest(struct dp_tracee *t, u64 ns)
{
	t->ops->rest(t->session, ns);
}

static inline int dp_tracee_base(struct dp_tracee *t, const char *module, u64 *addr, struct dp_error *err)
{
	return t->ops->base(t->session, module, addr, err);
}

static inline int dp_tracee_offset(struct dp_tracee *t, enum dp_module_kind kind, const char *module,
				   struct dp_location *loc, struct dp_error *err)
{
	return t->ops->offset ? t->ops->offset(t->session, kind, module, loc, err) : 0;
}

static inline int dp_tracee_build_id(struct dp_tracee *t, enum dp_module_kind kind, const char *module, char *id,
				     size_t size, struct dp_error *err)
{
	return t->ops->build_id(t->session, kind, module, id, size, err);
}

/* Write "symbol+0x12" for an address; false when unknown. arg: the struct dp_tracee. */
static inline bool dp_tracee_symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	struct dp_tracee *t = arg;

	return t->session && t->ops->symbolize(t->session, &t->names, addr, buf, size);
}

/* Of one process: what is mapped there; NULL and 0 for hosts that are none, or when there is no session. */
static inline struct dp_process *dp_tracee_process(const struct dp_tracee *t)
{
	return t->session && t->ops->process ? t->ops->process(t->session) : NULL;
}

static inline pid_t dp_tracee_pid(const struct dp_tracee *t)
{
	return t->session && t->ops->pid ? t->ops->pid(t->session) : 0;
}

static inline bool dp_tracee_status(const struct dp_tracee *t, int *status)
{
	return t->session && t->ops->status && t->ops->status(t->session, status);
}

/* Groups of probes, as groups() has them: two become one; the first probe of the group that one is in. */
void dp_groups_join(u32 *group, u32 a, u32 b);
u32 dp_groups_first(u32 *group, u32 probe);

/* What came of the functions that match a pattern: those that cannot be probed are left out. */
struct dp_matches {
	u32 taken, left_out;
	struct dp_error why; /* of the last one that was left out */
};

/* r and *why: what came of one. -ENOMEM ends the walk through the others. */
int dp_matches_count(struct dp_matches *m, int r, const struct dp_error *why);
/* Whether any was taken; none: the error where nothing matches. Those that were left out are noted. */
int dp_matches_end(const struct dp_matches *m, const char *pattern, enum dp_code none,
		   const struct dp_session_options *opt, struct dp_error *err);

#endif
