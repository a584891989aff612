/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Instructions that no language has words for: those that tell the time, the processor and the thread, system calls,
 * the processor's state. Not every machine has each of them, and some give a wrong answer in a
 * virtual machine: who uses one has measured it first (host/measure/). Freestanding.
 */
#ifndef DP_MACHINE_H
#define DP_MACHINE_H

#include "base/base.h"

/* The kernel's descriptor whose limit is the number of the processor, and of its node above the lowest 12 bits. */
#define DP_CPU_SEGMENT 0x7b
#define DP_CPU_MASK 0xfffu

/* Callers care in which section they lie. */
#define DP_ALWAYS inline __attribute__((always_inline))

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

/* The time stamp counter, read neither before earlier instructions nor after later ones. */
static DP_ALWAYS u64 dp_rdtsc_fenced(void)
{
	u32 lo, hi;

	__asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(lo), "=d"(hi)::"memory");
	return (u64)hi << 32 | lo;
}

/* A system call of the running thread, without the C library: its result, or -errno. */
static DP_ALWAYS s64 dp_call_system(s64 nr, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	register u64 r10 __asm__("r10") = d;
	register u64 r8 __asm__("r8") = e;
	register u64 r9 __asm__("r9") = f;
	s64 ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/* Go on with the registers of a signal's context, as if its handler returned. */
static DP_ALWAYS __attribute__((noreturn)) void dp_enter_context(const u64 *uc)
{
	__asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tsyscall" : : "r"(uc) : "memory");
	__builtin_unreachable();
}

/* Floating point and vector registers; 512 bytes, aligned to 16. */
static DP_ALWAYS void dp_fxsave(void *area)
{
	__asm__ volatile("fxsave64 %0" : "=m"(*(u8(*)[512])area));
}

static DP_ALWAYS void dp_cpuid(u32 leaf, u32 abcd[4])
{
	__asm__ volatile("cpuid" : "=a"(abcd[0]), "=b"(abcd[1]), "=c"(abcd[2]), "=d"(abcd[3]) : "a"(leaf), "c"(0));
}

/* State components that the system has enabled; only with OSXSAVE. */
static DP_ALWAYS u32 dp_xcr0(void)
{
	u32 lo, hi;

	__asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return lo;
}

/* Selectors of ds, es, fs, gs, by number. */
static DP_ALWAYS u64 dp_selector(u32 which)
{
	u64 v = 0;

	switch (which) {
	case 0:
		__asm__("mov %%ds, %0" : "=r"(v));
		break;
	case 1:
		__asm__("mov %%es, %0" : "=r"(v));
		break;
	case 2:
		__asm__("mov %%fs, %0" : "=r"(v));
		break;
	case 3:
		__asm__("mov %%gs, %0" : "=r"(v));
		break;
	}
	return v & 0xffff;
}

/* Selectors of the task and of the local descriptors. */
static DP_ALWAYS u64 dp_task_selector(void)
{
	u64 v;

	__asm__("str %0" : "=r"(v));
	return v;
}

static DP_ALWAYS u64 dp_local_selector(void)
{
	u64 v;

	__asm__("sldt %0" : "=r"(v));
	return v;
}

#endif
