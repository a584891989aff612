/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A thread of a process may always be preempted. */
#ifndef DP_COMPAT_LINUX_PREEMPT_H
#define DP_COMPAT_LINUX_PREEMPT_H

#define preempt_disable() ((void)0)
#define preempt_enable() ((void)0)
#define in_interrupt() 0
#define in_atomic() 0

#endif
