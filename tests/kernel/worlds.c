/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Goes from user code into the kernel and back, and tells at each border what time it is: getppid() ignores its
 * arguments, and hands them to whoever probes the kernel's end of it. Its sleep makes the kernel read the clock, too.
 * Two threads more go the same way with other numbers, by getpgrp() in requests(), which returns whether the number is
 * odd: one passes through names(), the other never does.
 * Runs until a signal ends it. With an argument: how many nanoseconds a getppid() takes, at best.
 */
#include <pthread.h>
#include <stdio.h>
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

__attribute__((noipa)) void names(long number)
{
	__asm__ volatile("" : : "r"(number) : "memory");
}

__attribute__((noipa)) long requests(long number)
{
	syscall(SYS_getpgrp, number);
	return number % 2;
}

static void *go_on(void *named)
{
	const struct timespec rest = {0, 3000000};

	for (long number = named ? 1000000 : 0; !nanosleep(&rest, NULL); number += named != NULL) {
		if (named)
			names(number);
		requests(number);
	}
	return NULL;
}

static void measure(void)
{
	long best = 1000000000;

	for (int round = 0; round < 20; round++) {
		long from = now(), took;

		for (long i = 0; i < 200; i++)
			syscall(SYS_getppid, i, 0l);
		took = now() - from;
		best = took < best ? took : best;
	}
	printf("%ld\n", best / 200);
}

int main(int argc, char **argv)
{
	const struct timespec rest = {0, 1000000};
	pthread_t thread;

	(void)argv;
	if (argc > 1) {
		measure();
		return 0;
	}
	pthread_create(&thread, NULL, go_on, (void *)names);
	pthread_create(&thread, NULL, go_on, NULL);
	for (long round = 1; !nanosleep(&rest, NULL); round++) {
		long ns = now();

		enters(round, ns);
		syscall(SYS_getppid, round, ns);
		comes_back(round, now());
	}
	return 0;
}
