/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* One dprobes at a time changes a process. */
#ifndef DP_HOLD_H
#define DP_HOLD_H

#include <sys/types.h>

#include "base/base.h"
#include "base/error.h"

/* The directory of records; false: there is none that nobody else can write to. */
bool dp_record_dir(char *buf, size_t size);
/* Of this process: ids of processes mean something in their namespace only. */
u64 dp_pid_namespace(void);
/* Our id of a process that has the id in that namespace (0: ours). 0: there is none; or DP_OWNER_UNSEEN. */
pid_t dp_id_in_namespace(u32 pid, u64 namespace);

/*
 * No other dprobes, of whatever user, takes probes into that process or out of it until the release, or our end. Not
 * twice for one process; of two a child is taken after its parent. Of a process that we may not change nothing is held.
 * E_TARGET_BUSY.
 */
int dp_process_hold(pid_t pid, struct dp_error *err);
void dp_process_release(pid_t pid);

#endif
