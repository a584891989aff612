/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The command line of probe programs, in both of its forms: `dprobes -i FILE ...` and `dprobes
 * insert FILE ...`. */
#ifndef DP_CMD_PROBES_H
#define DP_CMD_PROBES_H

#include "cmd/cmd.h"
#include "driver/driver.h"
#include "lang/rpn/rpn.h"

struct probes_args {
	enum cmd_verb verb;
	const char *file; /* operand */
	char *text;       /* in the place of the file: C, of -e; file is what messages call it */
	const char *name, *sym, *groups, *types, *outfile;
	struct dp_rpn_define *defines;
	u32 ndefines;
	u32 flags; /* enum dp_run_flags */
	u32 fields;
	const struct dpcc_line *lines; /* beside the file */
	u32 nlines;
	u32 budget; /* in 0.01 %; 0: none */
	bool strict_reads;
	bool has_budget; /* or "off" was given */
	u32 lo, hi;
	pid_t pid;
	double interval; /* seconds; 0: once */
	bool list;
	bool help;
};

/* Parse what follows the program's name, or the subcommand's. Returns CMD_OK, or the exit status
 * (told already). */
int dp_probes_parse(struct probes_args *a, int argc, char **argv);
/* -D KEY=VALUE, or KEY alone: 1. CMD_OK or the exit status (told already). */
int dp_probes_define(struct probes_args *a, const char *text);
void dp_probes_args_free(struct probes_args *a);

/* Read the operand: a program or an object, with groups and types chosen. False: told already. */
bool dp_probes_read(const struct probes_args *a, struct dp_rpn_unit *u);

/* Symbols to offsets, by the symbol file or the module itself; the build-id is noted. False: told
 * already. */
bool dp_probes_resolve(const struct probes_args *a, struct dp_rpn_unit *u);

#endif
