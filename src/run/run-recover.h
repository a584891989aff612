/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What recorders that were killed have left: records in the rings of processes, and chunks of a flight recorder. All of
 * it goes into their recordings (run-journal.h), by whoever takes their probes out.
 */
#ifndef DP_RUN_RECOVER_H
#define DP_RUN_RECOVER_H

#include "host/any/any-host.h"
#include "run/run-journal.h"

/*
 * As dp_tracee_open(). Where that takes out what a recorder has left in the process, its records are saved, and
 * opt->note is told.
 */
int dp_recover_open(struct dp_tracee *t, pid_t pid, char *const command[], const struct dp_session_options *opt,
		    struct dp_error *err);

/*
 * Recordings of programs are ended by a run (run-recover-programs.h), and runs use this: so who does it is said once,
 * when the command begins. Without that they are left as they are. False: there is no file.
 */
typedef bool dp_recover_programs_fn(struct dp_journal_left *l, void (*note)(void *arg, const char *text), void *arg);
void dp_recover_programs_by(dp_recover_programs_fn *fn);

/* Recorders whose processes have ended, too: what they have kept in chunks is saved. note may be NULL. Their number. */
u32 dp_recover_chunks(void (*note)(void *arg, const char *text), void *arg);

#endif
