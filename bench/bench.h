/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the parts of the benchmark share: the memory between harness and target, the places that are
 * probed, and the contenders that take turns at them. Measures only; never asserts a time.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint64_t bench_u64;

/* ---- the target: a process that calls one function many times and says how long it took ---- */

enum bench_func {
	FUNC_NOP5,   /* a 5-byte no-operation first: what the kernel patches best */
	FUNC_PUSH,   /* push %rbp; mov %rsp,%rbp: the ordinary entry, which the kernel emulates */
	FUNC_SUB,    /* sub $16,%rsp first: the kernel single-steps it */
	FUNC_ENDBR,  /* endbr64 first: single-stepped too */
	FUNC_MALLOC, /* libc's malloc; a round calls malloc and free */
	NFUNCS
};

enum bench_op {
	OP_CALLS, /* call `func` `calls` times, store the time in ns */
	OP_LEAVE, /* call bench_leave(), where a debugger waits to be told that it is over */
};

struct bench_shm {      /* one page, shared by harness and target */
	uint32_t asked; /* number of the last order; a futex */
	uint32_t done;  /* number of the last order that was carried out; a futex */
	uint32_t op, func;
	uint64_t calls;
	uint64_t ns;
	uint64_t addr[NFUNCS]; /* run-time addresses of the functions */
	uint64_t leave;        /* of bench_leave() */
};

struct bench_target {
	pid_t pid;
	struct bench_shm *shm;
	int cpu; /* that it is bound to, -1 none */
};

struct bench_place {
	enum bench_func func;
	const char *name;
	char module[64]; /* for event lines: "bench-target", "libc.so.6" */
	char symbol[64];
	char path[512];   /* of the file that holds the function */
	bench_u64 addr;   /* run-time */
	bench_u64 offset; /* in the file */
};

/*
 * Start the target program, with its own copy of libc in work_dir so that system-wide probes on libc
 * meet nobody else. Returns 0 or -1 (said on stderr). It dies with the harness.
 */
int bench_target_start(struct bench_target *t, const char *program, const char *work_dir);
void bench_target_stop(struct bench_target *t);

/* Where a function of the target lies. Returns 0, or -1 when its file is not found. */
int bench_place_find(struct bench_place *p, const struct bench_target *t, enum bench_func func);

/* Give an order; bench_target_wait() returns true when it is done, false after timeout_ms. */
void bench_target_order(struct bench_target *t, enum bench_op op, enum bench_func func, bench_u64 calls);
bool bench_target_wait(struct bench_target *t, int timeout_ms);

/* ---- contenders ---- */

enum bench_job {             /* contenders with the same job are compared with each other */
		 JOB_NONE,   /* unprobed */
		 JOB_HIT,    /* come by and count, log nothing */
		 JOB_FILTER, /* look at an argument, do not log */
		 JOB_RECORD, /* four arguments, thread, time stamp into a ring */
		 JOB_WORDS,  /* words behind a pointer, thread, time stamp into a ring */
		 JOB_STRING, /* one string argument, thread, time stamp into a ring */
		 JOB_PAIR,   /* a record at entry, another at return */
		 NJOBS
};

#define WHY_SIZE 240

struct bench_contender {
	const char *name;
	enum bench_job job;
	bool ours;
	bool is_step; /* on the way to another contender of its job: nobody is compared with it */
	/* Put the probe in place. Returns 0, or -1 with the reason in why. */
	int (*attach)(struct bench_contender *c, const struct bench_target *t, const struct bench_place *p, char *why);
	void (*detach)(struct bench_contender *c);
	void (*drain)(struct bench_contender *c);     /* empty the ring; NULL: has none */
	bench_u64 (*hits)(struct bench_contender *c); /* seen since attach; NULL: cannot tell */
	bench_u64 (*lost)(struct bench_contender *c); /* of them, not in the ring for want of room */
	const char *text;                             /* the contender's own: program, definition */
	unsigned hits_per_call;
	unsigned max_attach; /* attach in so many repetitions only; 0: all */
	bench_u64 places;    /* bit mask of enum bench_func; 0: all */
	void *state;
};

/* Those between which the costs of words and strings lie. */
#define BENCH_POINTER "dprobes, a pointer into the heap"
#define BENCH_WORD "dprobes, a word behind it"
#define BENCH_WORDS "dprobes, 4 words behind it"
#define BENCH_STRING "dprobes, string on the heap"

extern struct bench_contender bench_dprobes[], bench_perf[], bench_bpf[], bench_tracefs[], bench_gdb[];
extern const size_t bench_dprobes_n, bench_perf_n, bench_bpf_n, bench_tracefs_n, bench_gdb_n;

/* Take away what attach cannot: instances, mounts. Called once at the end, and on signals. */
void bench_tracefs_end(void);

/* ---- results ---- */

#define MAX_SAMPLES 4096

struct bench_result {
	const struct bench_contender *c;
	double *ns; /* per call, one for each round */
	size_t n;
	bench_u64 calls, hits, lost;
	bool can_count;
	char skipped[WHY_SIZE]; /* not measured, and why; "" when it was */
};

double bench_median(double *v, size_t n); /* sorts v; 0 when empty */
double bench_min(const double *v, size_t n);

void bench_expected(void); /* the head of a table for: */
/* why: said where it is not met; NULL: nothing is known. Judges by no exit code. */
void bench_expect(const char *what, double value, const char *unit, double limit, bool at_most, const char *why);

/* results[place][contender] */
void bench_report(const struct bench_place *places, size_t nplaces, struct bench_result *results, size_t ncontenders);
/* The same as a JSON array of objects, for page.py. Returns 0, or -1 with errno. */
int bench_report_json(const char *path, const struct bench_place *places, size_t nplaces, struct bench_result *results,
		      size_t ncontenders);

#endif
