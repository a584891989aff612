/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The Dynamic Probes language: from the text of a probe program (.rpn) to verified programs, and
 * the object format (.ppdf) that keeps them. doc/dprobes.lang.md describes the language. Control
 * side; uses libc.
 */
#ifndef DP_RPN_H
#define DP_RPN_H

#include <stdio.h>

#include "program/program.h"

#define DP_RPN_NAME_MAX 512
#define DP_RPN_PROBES_MAX 131072
#define DP_RPN_LOGMAX 1024 /* as Dynamic Probes has it; what is above becomes this */
#define DP_RPN_BUILD_ID_MAX 64
#define DP_RPN_WATCH_MAX (1 << 20) /* bytes of memory that one probe can watch */

enum dp_rpn_modtype { DP_RPN_USER, DP_RPN_KERNEL, DP_RPN_KMOD };

enum dp_rpn_place {
	DP_RPN_SYMBOL,     /* offset = SYMBOL[+N] */
	DP_RPN_OFFSET,     /* offset = N: of the file; in the kernel from its start */
	DP_RPN_ADDRESS,    /* address = N: run-time address */
	DP_RPN_LINE,       /* offset = FILE:LINE; the file in symbol, the line in offset */
	DP_RPN_WATCH,      /* watchpoint = PLACE: memory; symbol is what an event line has behind its w */
	DP_RPN_TRACEPOINT, /* tracepoint = NAME: of the kernel */
	DP_RPN_CALL,       /* call = NAME NUMBER: of the kernel, of all processes; offset -1: of every number */
	DP_RPN_BEGIN,      /* run = begin: by the control side, in front of the first hit of a process; */
	DP_RPN_END,        /* run = end: behind the last one; */
	DP_RPN_TIMER,      /* run = N: again and again, every so many nanoseconds (offset) */
};

/* A word of the code that is the address of a symbol of the probed program: known when it is
 * inserted. */
struct dp_rpn_reloc {
	u32 at; /* of the 8 bytes in the code */
	char symbol[DP_RPN_NAME_MAX];
	s64 addend;
};

struct dp_rpn_probe {
	enum dp_rpn_place place;
	char symbol[DP_RPN_NAME_MAX];
	s64 offset;      /* from the symbol, in the file, or the address */
	bool at_return;  /* at = return: the exits of the function */
	bool has_opcode; /* opcode = N was given */
	u8 opcode;
	bool logonfault;
	u32 copy; /* index of the first copy that was made of it; 0: none */
	u16 group, type;
	u32 line; /* where the definition begins */
	struct dp_program prog;
	struct dp_rpn_reloc *relocs;
	u32 nrelocs;
	char *described;  /* lines "layout = ..." and "field = ..."; NULL: none */
	struct dp_rf *rf; /* what they say (program/described.h) */
};

struct dp_rpn_init { /* first value of a local variable */
	u32 index;
	s64 value;
};

/* Texts that the control side knows of each process, and puts into local variables before its first hit. */
enum dp_rpn_known_what {
	DP_KNOWN_EXE,    /* the path of its executable */
	DP_KNOWN_CGROUP, /* of its control group; looked at again while the probes are in place */
	DP_KNOWN_WHATS
};

enum dp_rpn_known_how {
	DP_KNOWN_TEXT, /* the text, */
	DP_KNOWN_KEY,  /* shortened to a key; */
	DP_KNOWN_SAME, /* whether it is this text, */
	DP_KNOWN_MATCH /* whether it matches this pattern of the shell */
};
#define DP_KNOWN_TEXT_WORDS 32
#define DP_KNOWN_MAX 256 /* characters to compare with; of these things in a program */

struct dp_rpn_known {
	u32 index;
	u16 how, what;
	char text[DP_KNOWN_MAX + 8]; /* of the last two */
};

enum dp_rpn_key {
	DP_KEY_SIGNED,
	DP_KEY_UNSIGNED,
	DP_KEY_HEX,
	DP_KEY_TEXT,
	DP_KEY_CODE,    /* an address of code, shown by name */
	DP_KEY_STACK,   /* a call chain as `push frames` leaves it: its words are those of the stack, the hit last */
	DP_KEY_NAMES,   /* a number whose names a layout has */
	DP_KEY_PROCESS, /* the id of the process: tables of several processes are shown as one */
	DP_KEY_OCTAL,
};
#define DP_RPN_KEYS_MAX 4   /* parts of one key */
#define DP_KEY_TEXT_WORDS 8 /* of a text in a key */

enum dp_rpn_unit_kind { DP_RPN_UNIT_NONE, DP_RPN_UNIT_NS, DP_RPN_UNIT_BYTES };

struct dp_rpn_aggregate { /* local variables that are shown as what they add up to */
	char name[64];
	u32 kind, index;              /* enum dp_aggregate_kind */
	u32 nparts;                   /* of a key; 0: without keys */
	u32 parts[DP_RPN_KEYS_MAX];   /* enum dp_rpn_key */
	u32 layouts[DP_RPN_KEYS_MAX]; /* of DP_KEY_NAMES: its number */
	u32 keys;                     /* at most */
	u32 frames;                   /* of a call chain in the key, of which it has one at most; 0: none */
	u32 step;                     /* of a linear histogram: width of a bar */
	s64 from;                     /* of a linear histogram: what was subtracted from the values */
	u32 top;                      /* so many keys are shown; 0: all */
	u32 average;                  /* of a sum: its average is shown alone */
	u32 unit;                     /* of its values: enum dp_rpn_unit_kind */
	u32 thread;     /* a variable that each thread has: by its id; places are cleaned when threads end */
	u16 is_set;     /* of these: some probe sets it */
	u16 of_process; /* in the kernel: one that lines in processes set; where it is, by the process's id */
	u16 loss;       /* a count of calls for which there was no room, told at the end */
	u16 shared;     /* not of the program: another one has it, too, and both are shown as one, elsewhere */
	u16 hidden;     /* others count with it: only what found no room in it is shown */
	/*
	 * Of a call chain: its part of a key is one word, the index of its place in a table of so many chains behind
	 * this one, as `push chain` uses it. 0: the key has all its words, as those of `push frames`.
	 */
	u16 chains;
};

struct dp_rpn_unit {                /* one probe program: a header and its probe definitions */
	char name[DP_RPN_NAME_MAX]; /* of the probed module */
	enum dp_rpn_modtype modtype;
	char build_id[DP_RPN_BUILD_ID_MAX]; /* of the module for which an object was built; "" */
	u16 major;
	u32 id;
	u32 nlocals, nglobals;
	struct dp_rpn_init *inits;
	u32 ninits;
	struct dp_rpn_known *knowns;
	u32 nknowns;
	struct dp_rpn_aggregate *aggregates;
	u32 naggregates;
	struct dp_rpn_probe *probes;
	u32 nprobes;
	struct dp_rpn_probe *bodies; /* run by the control side, on the same variables */
	u32 nbodies;
};

#define DP_RPN_TIMER_MIN 1000000ll /* nanoseconds */
#define DP_RPN_TIMER_MAX 86400000000000ll
#define DP_RPN_BODIES_MAX 64

/*
 * What a body asks of the control side: it reads a byte of an address that no memory has, these in its upper half, the
 * operation and an aggregate (its index) in the lower one.
 */
#define DP_CONTROL_TAG 0xd0b3u
enum dp_control_op { DP_CONTROL_PRINT = 1, DP_CONTROL_CLEAR, DP_CONTROL_STOP };

static inline u64 dp_control_ask(enum dp_control_op op, u32 index)
{
	return (u64)DP_CONTROL_TAG << 48 | (u64)op << 32 | index;
}

static inline bool dp_rpn_is_body(const struct dp_rpn_probe *p)
{
	return p->place >= DP_RPN_BEGIN;
}

struct dp_rpn_define { /* -D key = value */
	const char *key, *value;
};

/*
 * Read, preprocess, assemble and verify the file at path ("-": standard input). Errors: E_RPN_*,
 * E_PROG_*, the detail begins with "FILE:LINE: ". On error nothing is left to free.
 */
int dp_rpn_read(struct dp_rpn_unit *u, const char *path, const struct dp_rpn_define *defines, u32 ndefines,
		struct dp_error *err);

/* The same for a text; name stands for the file in messages, #include looks in dir. */
int dp_rpn_parse(struct dp_rpn_unit *u, const char *text, const char *name, const char *dir,
		 const struct dp_rpn_define *defines, u32 ndefines, struct dp_error *err);
/*
 * Probe `index` once more, at another offset of the file; event: what its "field = event" is to have there, or NULL.
 * E_RPN_MEMORY, E_RPN_VALUE.
 */
int dp_rpn_copy_probe(struct dp_rpn_unit *u, u32 index, u64 offset, const char *event, struct dp_error *err);
void dp_rpn_free(struct dp_rpn_unit *u);
void dp_rpn_probe_free(struct dp_rpn_probe *p);

/* Verify every program once more: after loading an object, after relocating. */
int dp_rpn_verify(const struct dp_rpn_unit *u, struct dp_error *err);

/* Keep only probes whose group and type are in the lists ("1,3-5"; NULL: all). E_RPN_VALUE,
 * E_RPN_NONE. */
int dp_rpn_select(struct dp_rpn_unit *u, const char *groups, const char *types, struct dp_error *err);

/* The name of a kind of aggregate, of a part of a key, in the language; NULL: there is none. */
const char *dp_rpn_aggregate_kind(u32 kind);
const char *dp_rpn_unit_name(u32 unit); /* enum dp_rpn_unit_kind; NULL: there is none */
const char *dp_rpn_key_kind(u32 part);

/* What is known, by its name in the language; -1: nothing is called so. Its name. */
int dp_rpn_known_what(const char *name, size_t len);
const char *dp_rpn_known_name(u32 what);

/* Words that it takes. */
static inline u32 dp_rpn_known_words(u32 how)
{
	return how == DP_KNOWN_TEXT ? DP_KNOWN_TEXT_WORDS : how == DP_KNOWN_KEY ? DP_KEY_TEXT_WORDS : 1;
}

/* What is said of it goes together. */
bool dp_rpn_aggregate_fits(const struct dp_rpn_aggregate *a);
/* One of a file that nobody trusts can be used, in a program with so many local variables. */
bool dp_rpn_aggregate_is_sound(const struct dp_rpn_aggregate *a, u32 nlocals);

/* Words of part i of a key; of a whole key; local variables that the aggregate takes in all. */
bool dp_rpn_is_by_process(const struct dp_rpn_aggregate *a); /* its key has the id of the process */
u32 dp_rpn_key_part_words(const struct dp_rpn_aggregate *a, u32 i);
u32 dp_rpn_key_words(const struct dp_rpn_aggregate *a);
/* The same as the table has them. */
u32 dp_rpn_placed_words(const struct dp_rpn_aggregate *a);
/* Index of the table of call chains. */
u32 dp_rpn_chains_at(const struct dp_rpn_aggregate *a);
u64 dp_rpn_aggregate_words(const struct dp_rpn_aggregate *a);

/* What stands behind its name in "aggregate ="; 160 bytes are enough. */
void dp_rpn_aggregate_text(const struct dp_rpn_aggregate *a, char *buf, size_t size);

/* Header and probes as text that dp_rpn_parse() understands. */
void dp_rpn_list(const struct dp_rpn_unit *u, FILE *out);

/* Objects: the bytes are for this kind of machine. dp_rpn_save allocates *bytes (free() it). */
int dp_rpn_save(const struct dp_rpn_unit *u, void **bytes, size_t *size, struct dp_error *err);
int dp_rpn_load(struct dp_rpn_unit *u, const void *bytes, size_t size, struct dp_error *err);
bool dp_rpn_is_object(const void *bytes, size_t size);

#endif
