/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the guard has reported, for run-catch.c, which deals with it. */
#ifndef DP_RUN_STARTS_H
#define DP_RUN_STARTS_H

#include "run/run-guard.h"

struct dp_run;
struct run_module;

/* Receive what the guard has reported meanwhile. False: nothing is watched. */
bool dp_run_hear_starts(struct dp_run *run);
/* The next report; what comes in while it is dealt with follows. */
bool dp_run_next_start(struct guard_message *m);

/* The report that follows, which stays; NULL: there is none yet. */
const struct guard_message *dp_run_coming_start(void);

/* We deal with it from now on: it may open more watched files, which are not to hold it. */
void dp_run_start_begin(const struct guard_message *c);
void dp_run_start_done(const struct guard_message *c); /* the guard lets it go on */
void dp_run_start_end(void);
void dp_run_start_pass(const struct guard_message *c); /* a stopped one goes to others who wait for it */

/* A guard that has ended meanwhile gets a successor. */
void dp_run_keep_guard(struct dp_run *run);

/* Whether that file is the module's, and watched. */
bool dp_run_watches(const struct run_module *m, u64 dev, u64 ino);

#endif
