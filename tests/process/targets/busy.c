/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * For dprobes top. `busy calls`: outer() calls middle() twice, which calls leaf() twice, and idle() once, about a
 * thousand times a second. `busy spin`: nine tenths of the time in hot(), the rest in warm(). Until it is ended, or for
 * the number of rounds that follows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FN __attribute__((noinline, noclone))

volatile unsigned long sink;

FN int leaf(int n)
{
	for (int i = 0; i < n; i++)
		sink += (unsigned long)i;
	return n + 1;
}

FN int middle(int n)
{
	return leaf(n) + leaf(n / 2) + 1;
}

FN int outer(int n)
{
	return middle(n) + middle(2 * n) + 1;
}

FN int idle(void)
{
	struct timespec t = {0, 1000000};

	nanosleep(&t, NULL);
	return sink > 3;
}

FN int hot(int n)
{
	for (int i = 0; i < 9 * n; i++)
		sink += (unsigned long)i;
	return n + 2;
}

FN int warm(int n)
{
	for (int i = 0; i < n; i++)
		sink += (unsigned long)i;
	return n + 3;
}

FN int spin(int n)
{
	return hot(n) + warm(n) + 1;
}

int main(int argc, char **argv)
{
	int spins = argc > 1 && !strcmp(argv[1], "spin"), rounds = argc > 2 ? atoi(argv[2]) : 0;

	puts("ready");
	fflush(stdout);
	for (int i = 0; !rounds || i < rounds; i++)
		sink += (unsigned long)(spins ? spin(100000) : outer(100) + idle());
	return 0;
}
