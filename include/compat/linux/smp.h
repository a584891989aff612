/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Processors. Nothing keeps a thread on the one that it is told. */
#ifndef DP_COMPAT_LINUX_SMP_H
#define DP_COMPAT_LINUX_SMP_H

int sched_getcpu(void);

#define raw_smp_processor_id() sched_getcpu()
#define smp_processor_id() sched_getcpu()
#define get_cpu() sched_getcpu()
#define put_cpu() ((void)0)

#endif
