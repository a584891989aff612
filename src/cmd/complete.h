/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The parts of `dprobes complete`: what the end of a line can be, and names of a program in it. */
#ifndef DP_COMPLETE_H
#define DP_COMPLETE_H

#include <sys/types.h>

#include "cmd/cmd.h"

#define COMPLETE_WORDS 128

struct complete_line {
	char *words[COMPLETE_WORDS]; /* behind "dprobes", as the shell would pass them; the last one is being written */
	u32 n;
	char quote; /* that the last one is in; 0: none */
};

struct candidates {
	const char *word; /* what they begin with */
	size_t word_len;
	size_t kept;        /* bytes of the word that stand before what is completed, and */
	size_t hidden;      /* of the word that are not printed: bash has made a word of its own of them */
	const char *before; /* of the word: printed in front of each */
	u32 n;
	char quote; /* that the word is in; 0: none */
	bool is_bash;
};

/* Print a candidate, if it begins as the word does; about may be NULL. */
void dp_complete_put(struct candidates *c, const char *value, const char *about);
/* From here on the next n bytes of the word stand as they are. */
void dp_complete_keep(struct candidates *c, size_t n);

/* Where the names of a command line come from. */
struct complete_subject {
	pid_t pid;        /* 0: none */
	const char *file; /* NULL: none */
};

/* The first process of -p, or the file: what it names is looked at, not believed. */
struct complete_subject dp_complete_subject(const struct complete_line *l, enum cmd_verb verb);
/* [MODULE:]FUNCTION; source lines too where kind is p; a static probe or a system call where it is u or s. */
void dp_complete_place(struct candidates *c, const struct complete_subject *s, char kind);
/* An event line. */
void dp_complete_event(struct candidates *c, const struct complete_subject *s);

#endif
