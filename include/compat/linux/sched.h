/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The current thread. */
#ifndef DP_COMPAT_LINUX_SCHED_H
#define DP_COMPAT_LINUX_SCHED_H

#include <dprobes/kprobes.h>

#define current dp_current()
#define TASK_COMM_LEN 16

static inline int task_pid_nr(const struct task_struct *t)
{
	return t->pid;
}

#endif
