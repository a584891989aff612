/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads by the ids that a target knows them by. In another pid namespace those are not the ids
 * that this process sees, so that names and liveness have to be looked up through a translation.
 */
#ifndef DP_RUN_THREADS_H
#define DP_RUN_THREADS_H

#include <sys/types.h>

#include "base/base.h"

struct dp_threads;

/* NULL when pid lives in our own pid namespace, where no translation is needed. */
struct dp_threads *dp_threads_new(pid_t pid);
void dp_threads_free(struct dp_threads *t);

/* Callbacks for struct dp_format_env and dp_reader_set_alive(); arg is the struct dp_threads. */
bool dp_threads_comm(void *arg, u32 *tid, char buf[16]);
bool dp_threads_alive(u32 tid, void *arg);

/* All threads of the namespace as they are now; whether one was among them (if none could be seen, all were). */
void dp_threads_scan(struct dp_threads *t);
bool dp_threads_has(const struct dp_threads *t, u32 tid);

#endif
