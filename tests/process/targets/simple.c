/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target that counts its own calls, so that tests can compare. Usage: simple [THREADS [CALLS [wait]]]
 * Each thread calls work() CALLS times (0: until SIGTERM), then the counts are printed. wait: it begins at the end of
 * its standard input.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct item {
	unsigned id;
	unsigned short kind;
	char name[20];
	struct item *next;
};

static volatile sig_atomic_t stop;
static long calls;
static struct item second = {77, 3, "second", NULL};

__attribute__((noinline)) long leaf(long a, long b)
{
	__asm__ volatile("" ::: "memory");
	return a * 3 + b;
}

__attribute__((noinline)) long work(long n, const char *name, struct item *it, int small)
{
	long r = leaf(n, small);

	if (n & 1)
		r += (long)strlen(name);
	if (it && it->next)
		r += it->next->id;
	__asm__ volatile("" ::: "memory");
	return r;
}

__attribute__((noinline)) long outer(long n, const char *name, struct item *it)
{
	return work(n, name, it, (int)(n % 100)) + 1;
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static void *run(void *arg)
{
	long limit = *(long *)arg, n = 0, bad = 0;
	struct item first = {42, 2, "first", &second};
	static const char name[] = "hello \"world\"";

	while (limit ? n < limit : !stop) {
		long want = n * 3 + (int)(n % 100) + ((n & 1) ? 13 : 0) + 77 + 1;

		if (outer(n, name, &first) != want)
			bad++;
		n++;
		if (!limit && (n & 15) == 0)
			nanosleep(&(struct timespec){0, 200000}, NULL);
	}
	__atomic_fetch_add(&calls, n, __ATOMIC_RELAXED);
	return (void *)bad;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	long limit = argc > 2 ? atol(argv[2]) : 0, bad = 0;
	pthread_t t[256];

	signal(SIGTERM, on_term);
	signal(SIGINT, on_term);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (argc > 3 && getchar() != EOF)
		;
	for (int i = 0; i < threads && i < 256; i++)
		pthread_create(&t[i], NULL, run, &limit);
	for (int i = 0; i < threads && i < 256; i++) {
		void *b;

		pthread_join(t[i], &b);
		bad += (long)b;
	}
	printf("calls %ld bad %ld\n", calls, bad);
	return bad != 0;
}
