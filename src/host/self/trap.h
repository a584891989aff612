/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Signal actions as the kernel knows them, and the system calls of the hit path. */
#ifndef DP_SELF_TRAP_H
#define DP_SELF_TRAP_H

#include "host/self/self-priv.h"

struct self_action {
	u64 handler, flags, restorer, mask;
};

/* The program's own action for a signal that the library handles, else NULL. */
struct self_action *dp_self_action(int sig);

extern int dp_self_pid; /* this process; a child made by vfork() sees its parent's */

long dp_self_syscall(long nr, long a, long b, long c, long d);

#endif
