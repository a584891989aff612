/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Goes from user code into the kernel and back, and tells at each border what time it is: getppid() ignores its
 * arguments, and hands them to whoever probes the kernel's end of it. Its sleep makes the kernel read the clock, too.
 * Runs until a signal ends it.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

__attribute__((noipa)) void enters(long round, long ns)
{
	__asm__ volatile("" : : "r"(round), "r"(ns) : "memory");
}

__attribute__((noipa)) void comes_back(long round, long ns)
{
	__asm__ volatile("" : : "r"(round), "r"(ns) : "memory");
}

int main(void)
{
	const struct timespec rest = {0, 1000000};

	for (long round = 1; !nanosleep(&rest, NULL); round++) {
		long ns = now();

		enters(round, ns);
		syscall(SYS_getppid, round, ns);
		comes_back(round, now());
	}
	return 0;
}
