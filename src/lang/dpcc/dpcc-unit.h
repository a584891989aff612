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

struct unit {
	struct dpcc c;
	const char *modname, *options;
	enum dp_rpn_modtype modtype;
	u64 major, jmpmax, logmax;
	struct place_def *places;
	u32 nprobes;
};

/* A token for messages about a line of the source that is no C. */
struct tok dp_cc_pragma_token(const struct rpn_line *line, const char *at);

/* A remark, for whoever wants them. */
void dp_cc_unit_note(struct unit *u, const char *fmt, ...) DP_PRINTF(2, 3);

/* It runs at a moment, and not where a probe is hit. */
bool dp_cc_unit_is_moment(const struct place_def *d);

/* Make code for every instruction that the place names. Leaves by dp_cc_fail(). */
void dp_cc_unit_place(struct unit *u, const struct place_def *d);

#endif
