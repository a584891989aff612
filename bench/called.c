/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What bench-cost.py and others probe: for each number on its standard input it calls count_call() so often, some
 * frames deep, and answers with the processor time in nanoseconds. With a second number, so many threads do that at
 * once, each on a processor of its own, and the answer is the mean of their times.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OUT_OF_LINE __attribute__((noinline, noclone))

long count_call(const char *text, long i);

OUT_OF_LINE long count_call(const char *text, long i)
{
	__asm__ volatile("" ::: "memory");
	return i + *text;
}

OUT_OF_LINE static void inner(const char *text, long i)
{
	count_call(text, i);
	__asm__ volatile("" ::: "memory");
}

OUT_OF_LINE static void outer(const char *text, long i)
{
	inner(text, i);
	__asm__ volatile("" ::: "memory");
}

static long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

#define THREADS_MAX 64

struct work {
	const char *text;
	long calls, took;
	int cpu; /* -1: any */
};

static void *call(void *arg)
{
	struct work *w = arg;
	cpu_set_t one;
	long begin;

	CPU_ZERO(&one);
	if (w->cpu >= 0) {
		CPU_SET(w->cpu, &one);
		pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
	}
	begin = now();
	for (long i = 0; i < w->calls; i++)
		outer(w->text, i);
	w->took = now() - begin;
	return NULL;
}

static long call_at_once(const char *text, long calls, int threads)
{
	struct work w[THREADS_MAX];
	pthread_t t[THREADS_MAX];
	long all = 0;

	for (int i = 0; i < threads; i++) {
		w[i] = (struct work){text, calls, 0, i};
		if (pthread_create(&t[i], NULL, call, &w[i]))
			exit(1);
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(t[i], NULL);
		all += w[i].took;
	}
	return all / threads;
}

int main(void)
{
	char line[64], *text = strdup("a string of thirty-two letters..");

	setvbuf(stdout, NULL, _IONBF, 0);
	while (text && fgets(line, sizeof(line), stdin)) {
		struct work w = {text, 0, 0, -1};
		int threads = 0;

		if (sscanf(line, "%ld %d", &w.calls, &threads) == 2 && threads > 0 && threads <= THREADS_MAX)
			w.took = call_at_once(text, w.calls, threads);
		else
			call(&w);
		printf("%ld\n", w.took);
	}
	free(text);
	return 0;
}
