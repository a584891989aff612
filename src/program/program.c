/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The life of a program object. What it contains is made by the front ends and judged by the
 * verifier. */
#include "program/program.h"

void dp_program_free(struct dp_program *p)
{
	if (!p)
		return;
	dp_free(p->code);
	dp_free(p->layout.fields);
	memset(p, 0, sizeof(*p));
}
