/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads and forked children that block all signals, and do nothing but call what may be probed: a breakpoint there
 * ends the process if nobody traces it. Usage: deaf THREADS. Ends at SIGTERM, with 0 if all results were right.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop;
static long calls, forks;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

/* Aligned, so that their first bytes lie in one page. */
__attribute__((noinline, aligned(64))) long twice(long x)
{
	__asm__ volatile("");
	return 2 * x;
}

__attribute__((noinline, aligned(64))) long more(long x)
{
	__asm__ volatile("");
	return twice(x) + 1;
}

static int right(long x)
{
	return more(x) == 2 * x + 1 && twice(x) == 2 * x;
}

static void fail(const char *what)
{
	fprintf(stderr, "deaf: %s\n", what);
	_exit(1);
}

static void rest(void) /* a machine whose processors are all busy stops a thread slowly */
{
	nanosleep(&(struct timespec){0, 300000}, NULL);
}

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void *call(void *arg)
{
	long x = (long)arg;

	block_all();
	for (; !stop; x++) {
		if (!right(x))
			fail("wrong result");
		if (x % 1000 == 0)
			rest();
	}
	__atomic_fetch_add(&calls, x, __ATOMIC_RELAXED);
	return NULL;
}

static void *fork_again(void *arg)
{
	(void)arg;
	block_all();
	while (!stop) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			for (long i = 0; i < 50; i++)
				if (!right(i))
					_exit(1);
			_exit(7);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			fail("fork");
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
			fprintf(stderr, "deaf: child status %x\n", status);
			_exit(1);
		}
		forks++;
		rest();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t t[64], forker;

	signal(SIGTERM, on_term);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (int i = 0; i < n && i < 64; i++)
		pthread_create(&t[i], NULL, call, (void *)(long)i);
	pthread_create(&forker, NULL, fork_again, NULL);
	while (!stop)
		pause();
	for (int i = 0; i < n && i < 64; i++)
		pthread_join(t[i], NULL);
	pthread_join(forker, NULL);
	printf("calls %ld forks %ld\n", calls, forks);
	return 0;
}
