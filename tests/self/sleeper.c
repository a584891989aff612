/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Sleeps in poll or nanosleep (argument 1) in several threads (argument 2), and tells when a sleep was cut short, or
 * errno, the mask or a vector register was not what it had been. "busy" never sleeps. Ends at a line on standard input.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int over;
static volatile long total, bad;
static const char *how;

__attribute__((noinline, noipa)) long count(long n)
{
	return n;
}

/* The bare call, with a pattern in vector registers that it must keep. */
static long bare(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	static const unsigned long pattern[4] = {0x0123456789abcdef, 0xfedcba9876543210, 7, 9};
	unsigned long after[4];
	long r = nr;

	__asm__ volatile("movups (%[p]), %%xmm1\n\tmovups 16(%[p]), %%xmm15\n\t"
			 "syscall\n\t"
			 "movups %%xmm1, (%[q])\n\tmovups %%xmm15, 16(%[q])"
			 : "+a"(r)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), [p] "r"(pattern), [q] "r"(after)
			 : "rcx", "r11", "xmm1", "xmm15", "memory");
	if (memcmp(pattern, after, sizeof(pattern)))
		bad |= 1;
	return r;
}

static void nap(void)
{
	struct timespec begin, end, ts = {0, 30000000};
	sigset_t before, after;
	long r;

	sigprocmask(SIG_BLOCK, NULL, &before);
	errno = 77;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (!strcmp(how, "poll"))
		r = bare(SYS_poll, 0, 0, 30, 0);
	else
		r = bare(SYS_nanosleep, (long)&ts, 0, 0, 0);
	clock_gettime(CLOCK_MONOTONIC, &end);
	sigprocmask(SIG_BLOCK, NULL, &after);
	if (r)
		bad |= 2;
	if ((end.tv_sec - begin.tv_sec) * 1000000000l + end.tv_nsec - begin.tv_nsec < 30000000)
		bad |= 4;
	if (errno != 77)
		bad |= 8;
	if (sigismember(&before, SIGUSR1) != sigismember(&after, SIGUSR1))
		bad |= 16;
}

static void *run(void *arg)
{
	while (!over) {
		if (strcmp(how, "busy"))
			nap();
		__atomic_add_fetch(&total, count(1), __ATOMIC_RELAXED);
	}
	return arg;
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t t[16];
	char line[64];

	how = argc > 1 ? argv[1] : "poll";
	for (int i = 0; i < n && i < 16; i++)
		pthread_create(&t[i], NULL, run, NULL);
	printf("ready\n");
	fflush(stdout);
	if (!strcmp(how, "busy")) {
		for (int i = 0; i < n && i < 16; i++)
			pthread_join(t[i], NULL); /* waits for a thread: nothing to load from */
		return 0;
	}
	while (fgets(line, sizeof(line), stdin) && line[0] != 'q') {
		printf("%ld %ld\n", total, bad);
		fflush(stdout);
	}
	over = 1;
	for (int i = 0; i < n && i < 16; i++)
		pthread_join(t[i], NULL);
	return (int)bad;
}
