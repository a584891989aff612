/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A program with very many functions, all called round and round by a few threads while probes are
 * put on them and taken off. Checks its own sums: a wrong one is told by the exit code. Usage: bench-many THREADS
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef long many_fn(long n);

extern many_fn *const many_table[];
extern const uint64_t many_count;

static long expected;

static long round_trip(void)
{
	long sum = 0;

	for (uint64_t i = 0; i < many_count; i++)
		sum += many_table[i](3);
	return sum;
}

static void *work(void *arg)
{
	(void)arg;
	for (;;)
		if (round_trip() != expected)
			_exit(3);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 4;
	pthread_t t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	expected = round_trip();
	for (int i = 1; i < threads; i++)
		pthread_create(&t, NULL, work, NULL);
	puts("ready");
	fflush(stdout);
	work(NULL);
	return 0;
}
