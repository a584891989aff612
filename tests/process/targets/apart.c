/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads that call one function a known number of times. Usage: apart THREADS. For each line it answers with one:
 * `run N`: each thread calls touch(i % 10, i) for i below N, all at once; `fork N`: a child does so alone, and ends. The
 * answer is the number of calls since the beginning.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64

static pthread_barrier_t begun, ended;
static unsigned long todo;

__attribute__((noinline, noclone)) unsigned long touch(unsigned long digit, unsigned long i)
{
	__asm__ volatile("" ::: "memory");
	return digit ^ i;
}

__attribute__((noinline, noclone)) unsigned long call_all(unsigned long n)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++)
		sum += touch(i % 10, i);
	return sum;
}

static void *work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begun);
		call_all(todo);
		pthread_barrier_wait(&ended);
	}
	return arg;
}

static int fork_one(void)
{
	pid_t pid = fork();
	int status = 1;

	if (!pid) {
		call_all(todo);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	unsigned nthreads = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
	unsigned long calls = 0;
	char line[64];
	pthread_t t;

	pthread_barrier_init(&begun, NULL, nthreads + 1);
	pthread_barrier_init(&ended, NULL, nthreads + 1);
	for (unsigned i = 0; i < nthreads; i++)
		pthread_create(&t, NULL, work, NULL);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		int forks = !strncmp(line, "fork ", 5);

		todo = strtoul(line + (forks ? 5 : 4), NULL, 10);
		if (forks) {
			if (fork_one())
				return 1;
		} else {
			pthread_barrier_wait(&begun);
			pthread_barrier_wait(&ended);
		}
		calls += todo * (forks ? 1 : nthreads);
		printf("%lu\n", calls);
		fflush(stdout);
	}
	return 0;
}
