/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Instructions that tell the time, the processor and the thread. Not every machine has each of them, and some give a wrong answer in a
 * virtual machine: who uses one has measured it first (host/measure/). Freestanding.
 */
#ifndef DP_MACHINE_H
#define DP_MACHINE_H

#include "base/base.h"

/* The kernel's descriptor whose limit is the number of the processor, and of its node above the lowest 12 bits. */
#define DP_CPU_SEGMENT 0x7b
#define DP_CPU_MASK 0xfffu

static inline u64 dp_rdtsc(void)
{
	u32 lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (u64)hi << 32 | lo;
}

static inline u32 dp_rdpid(void)
{
	u64 id;

	__asm__ volatile("rdpid %0" : "=r"(id));
	return (u32)id & DP_CPU_MASK;
}

static inline u64 dp_rdtscp(u32 *cpu)
{
	u32 lo, hi, aux;

	__asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi), "=c"(aux));
	*cpu = aux & DP_CPU_MASK;
	return (u64)hi << 32 | lo;
}

/* ~0: the descriptor is not there. */
static inline u32 dp_cpu_by_limit(void)
{
	u32 limit = 0;
	bool good;

	__asm__ volatile("lsl %2, %0" : "+r"(limit), "=@ccz"(good) : "r"(DP_CPU_SEGMENT));
	return good ? limit & DP_CPU_MASK : ~0u;
}

static inline u64 dp_rdfsbase(void)
{
	u64 v;

	__asm__ volatile("rdfsbase %0" : "=r"(v));
	return v;
}

static inline u64 dp_rdgsbase(void)
{
	u64 v;

	__asm__ volatile("rdgsbase %0" : "=r"(v));
	return v;
}

/* The word that the thread pointer points at. */
static inline u64 dp_fs_word(void)
{
	u64 v;

	__asm__ volatile("mov %%fs:0, %0" : "=r"(v));
	return v;
}

#endif
