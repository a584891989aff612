/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Recipes: files NAME.recipe with event lines for a question that is asked often. Lines that begin with # are its head:
 *
 *   # title: Calls of the system that take long
 *   # needs: what a program must have, in words
 *   # param: min 10ms  the shortest that is shown      the default; -: must be given
 *   # example: dprobes run syscall-slow -p 1234
 *
 * The others are event lines, with {{min}} for a parameter; one that ends in \ goes on in the next, and one that begins
 * with ? is left out where the program has no such place. `let NAME TEXT` is a text that lines behind it share, as
 * {{NAME}}.
 */
#ifndef DP_RECIPES_H
#define DP_RECIPES_H

#include "base/base.h"

#define RECIPE_PARAMS 8
#define RECIPE_LINES 32
#define RECIPE_TEXTS 8

struct recipe_param {
	char *name, *value, *about; /* value NULL: none yet */
	bool is_time, is_number;    /* what its default is; a time is kept in nanoseconds */
};

struct recipe_line {
	char *text; /* as it is in the file, with the texts that lines share, without what is for us */
	bool optional;
};

struct recipe {
	char path[4096];
	char *source;
	char *title, *needs, *example; /* needs and example may be NULL */
	struct recipe_param params[RECIPE_PARAMS];
	struct recipe_line lines[RECIPE_LINES];
	struct recipe_text {
		char *name, *text;
	} texts[RECIPE_TEXTS];
	u32 nparams, nlines, ntexts;
};

/* By its name, or by a path with a slash. E_CMD_RECIPE: there is none; E_CMD_RECIPE_FILE. Free it in any case. */
int dp_recipe_open(struct recipe *r, const char *name, struct dp_error *err);
void dp_recipe_free(struct recipe *r);

/* What the user gives: NAME=VALUE. E_CMD_VALUE. */
int dp_recipe_set(struct recipe *r, const char *given, struct dp_error *err);
/* The text with the values of the parameters in it, to be freed. E_CMD_MISSING, E_CMD_RECIPE_FILE. */
char *dp_recipe_fill(const struct recipe *r, const char *text, struct dp_error *err);

/* All names, sorted, each once: of the user, of the machine, of dprobes. NULL: no memory. */
struct recipe_names {
	char **v;
	u32 n;
};
void dp_recipe_names(struct recipe_names *names);
void dp_recipe_names_free(struct recipe_names *names);

#endif
