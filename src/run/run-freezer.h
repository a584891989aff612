/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Holding a process without tracing it: it is moved into a directory of cgroup version 2 that is frozen, below its own
 * one, and so stops on its way to user mode, out of execve before the new program's first instruction. Nothing here
 * waits for the process. Whoever holds must be watched by somebody who calls dp_run_thaw_all() should it die: nothing
 * thaws by itself. Of several who want the same process one holds it; the others have their directories ready, empty,
 * and get it one after the other.
 */
#ifndef DP_FREEZER_H
#define DP_FREEZER_H

#include <sys/types.h>

#include "base/base.h"

struct run_hold {
	pid_t pid;
	int parent; /* descriptor of the directory in which the process was */
	int events; /* of cgroup.events: poll() tells a change by POLLPRI; -1: this is not held */
	bool waits; /* somebody else holds it, and is to pass it on */
};

/* Why nobody can be held here; NULL: it can be tried. */
const char *dp_run_freezer_why(void);
/* 0, also where somebody else holds it now; -EXDEV its directory is not ours to see, or why else it is not held. */
int dp_run_freeze(struct run_hold *h, pid_t pid);
bool dp_run_is_held(pid_t pid); /* by whomever */
/* Somebody holds it, or it will be passed on to that guard. */
bool dp_run_is_held_or_awaited(pid_t pid, pid_t guard);
/* The path of a control group, without the directory in which somebody holds a process for a moment. */
void dp_run_path_unheld(char *path);
/* Still in the kernel; every thread stands where it would go on in user mode; nobody is there any more. */
enum run_hold_state { RUN_HOLD_MOVING, RUN_HOLD_FROZEN, RUN_HOLD_EMPTY };
enum run_hold_state dp_run_hold_state(const struct run_hold *h);
/* Back to where it was, where it goes on; or (pass) to whoever waits for it, who is returned (0: nobody). */
pid_t dp_run_thaw(struct run_hold *h, bool pass);
/* A stopped process, which nobody holds, to whoever waits for it, but for this guard. Who that is; 0: nobody. */
pid_t dp_run_pass_on(pid_t pid, pid_t guard);
/* Whoever holds it now was killed: we do from now on. Whether that is so. */
bool dp_run_take_over(struct run_hold *h);
bool dp_run_is_ours(pid_t pid); /* it runs this program: a driver, a guard or a command */
/* Those that were held by somebody who is dead. Returns how many directories that were. */
u32 dp_run_thaw_all(void);

#endif
