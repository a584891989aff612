/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Between dpcc-unit.c, which reads pragmas, and place.c, which finds the instructions that they name. */
#ifndef DPCC_UNIT_H
#define DPCC_UNIT_H

#include "lang/dpcc/dpcc-gen.h"

struct place_def { /* one PROBEPOINT_LOCATION */
	struct place_def *next;
	const char *location, *handler;
	const struct rpn_line *line;
	const char *options; /* lines of the probe definition */
};

struct made { /* what was made of one place, for others of its kind */
	struct target target;
	bool is_entry;       /* of a function */
	const char *program; /* its text; NULL: no probe is wanted there */
	const char *event;
	u32 probe;
};

struct made_text { /* the same of a program that is its place's own, but may turn out alike at others */
	struct made_text *next;
	u64 hash;
	struct made made;
};

#define MADE_HEADS 1024

struct unit {
	struct dpcc c;
	const char *modname, *options;
	enum dp_rpn_modtype modtype;
	u64 major, jmpmax, logmax;
	struct place_def *places;
	u32 nprobes;
	const struct place_def *made_for; /* the programs of that location which serve all its instructions of a kind */
	struct made made[8];
	u32 nmade, copies_room;
	struct made_text *texts[MADE_HEADS]; /* of that location, by hash */
	struct dp_module *debug;  /* of the kernel or its module, for what BTF says nothing of; NULL: not yet */
	struct dp_error no_debug; /* why there is none */
	bool has_told;            /* that there is much to read */
};

#define PLACES_MAX 256 /* of one location */

/* Where calls of a function end, with those that it jumps to. */
struct passes {
	struct {
		u64 addr;
		enum passing what;
	} v[PLACES_MAX];
	u32 n;
	u32 exits, tails,
	    left;     /* of the function itself: all, those that are jumps, those of them that are not followed */
	u32 followed; /* functions that calls go on in */
};

/* tails.c. Leaves by dp_cc_fail(). */
void dp_cc_unit_passes(struct unit *u, const struct tok *where, u64 func, struct passes *p);

/* place-vars.c. Show the variables at c.target, or hand them to whoever asks. */
void dp_cc_unit_show_vars(struct unit *u);

/* place-copies.c. Whether programs for both would do the same, but for what is known of their places alone. */
bool dp_cc_unit_is_alike(const struct target *a, const struct target *b);
/* Keep what was made of the last place; the same at another one. */
void dp_cc_unit_made(struct unit *u, struct made *made);
void dp_cc_unit_repeat(struct unit *u, const struct place_def *d, struct target target, u64 offset,
		       const struct made *made);
/*
 * The program that was made last, of a place of its own, from `text` on: if one was made alike, it becomes a copy of
 * that.
 */
void dp_cc_unit_merge(struct unit *u, struct target target, bool is_entry, u64 offset, size_t text);

/* Whether a jump fits there, or breakpoints are allowed. */
bool dp_cc_unit_can_stand(struct unit *u, u64 addr);

/* How many handlers of calls have no place, since their functions end by returns alone. */
u32 dp_cc_unit_idle_lines(struct unit *u);

/*
 * kernel-place.c. The debug file of the kernel, or its module, is c.mod from now on. Leaves by dp_cc_fail() where there
 * is none.
 */
void dp_cc_unit_use_debug(struct unit *u, const struct tok *where);
/* How a program says where that address is in the running kernel: by its symbol, unless several have the name. */
const char *dp_cc_unit_kernel_offset(struct unit *u, const char *where, const struct dp_symbol *sym, u64 addr);
/* Whether there is such a file. */
bool dp_cc_unit_has_debug(struct unit *u);
/* Whether BTF is not enough for FUNCTION or FUNCTION+N, and the debug file has it: it is c.mod then. */
bool dp_cc_unit_needs_debug(struct unit *u, const char *name, u64 offset);

/* A token for messages about a line of the source that is no C. */
struct tok dp_cc_pragma_token(const struct rpn_line *line, const char *at);

/* unit-notes.c. A remark, for whoever wants them. */
void dp_cc_unit_note(struct unit *u, const char *fmt, ...) DP_PRINTF(2, 3);
/* Reading a large file takes a while. */
void dp_cc_unit_tell_much(struct unit *u, struct dp_module *m);

/* It runs at a moment, and not where a probe is hit. */
bool dp_cc_unit_is_moment(const struct place_def *d);

/* w VARIABLE[:LEN][:w|rw|x], as in event lines. */
bool dp_cc_unit_is_watch(const struct place_def *d);

/* One probe (place-probe.c). where: is said of it in a comment; offset: how the program names the place. */
void dp_cc_unit_probe(struct unit *u, const struct place_def *d, struct target target, const char *where,
		      const char *offset);

/*
 * s [PATTERN]: the instructions that call the system, and may make such a call; s= and s?: only those of which it is
 * known, or not known, which call they make. %return: the instructions behind them (place-calls.c).
 */
bool dp_cc_unit_is_call(const struct place_def *d);
void dp_cc_unit_calls(struct unit *u, const struct place_def *d, const struct tok *where);

/* t [SYSTEM:]PATTERN */
bool dp_cc_unit_is_tracepoint(const struct place_def *d);

/* Make code for every instruction that the place names. Leaves by dp_cc_fail(). */
void dp_cc_unit_place(struct unit *u, const struct place_def *d);

#endif
