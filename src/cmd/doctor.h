/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The table of `dprobes doctor`, and the part of it that is about the machine (doctor-machine.c). */
#ifndef DP_CMD_DOCTOR_H
#define DP_CMD_DOCTOR_H

#include "base/base.h"

enum doctor_grade {
	DOCTOR_GOOD,
	DOCTOR_SLOW, /* something else is used, which costs more */
	DOCTOR_LESS, /* something cannot be done */
	DOCTOR_BAD,  /* no probes at all */
};

struct doctor_row {
	const char *part, *name, *follows;
	char found[160];
	enum doctor_grade grade;
};

struct doctor {
	const char *part; /* of the rows to come */
	struct doctor_row v[64];
	u32 n;
};

void dp_doctor_row(struct doctor *d, enum doctor_grade grade, const char *name, const char *follows, const char *fmt,
		   ...) DP_PRINTF(5, 6);

void dp_doctor_machine(struct doctor *d);

#endif
