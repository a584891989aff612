/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What bench-cost.py probes: for each number on its standard input it calls count_call() so often, some frames deep,
 * and answers with the processor time in nanoseconds.
 */
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

int main(void)
{
	char line[64], *text = strdup("a string of thirty-two letters..");

	setvbuf(stdout, NULL, _IONBF, 0);
	while (text && fgets(line, sizeof(line), stdin)) {
		long n = atol(line), begin = now();

		for (long i = 0; i < n; i++)
			outer(text, i);
		printf("%ld\n", now() - begin);
	}
	free(text);
	return 0;
}
