/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a killed recorder of programs has left: a run takes its place, and ends its recording. */
#ifndef DP_RUN_RECOVER_PROGRAMS_H
#define DP_RUN_RECOVER_PROGRAMS_H

#include "run/run-recover.h"

/* The journal is of programs. Its probes are out of all processes then, and it is forgotten. */
dp_recover_programs_fn dp_recover_programs;

#endif
