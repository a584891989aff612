/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls here() in many ways, which prints who called it as the C library's own unwinder sees it: one line of
 * addresses each, the caller of here() first. Every thread's outermost function ends the chain.
 */
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEEP 64

__attribute__((noinline)) int here(int which)
{
	void *v[DEEP + 1];
	int n = backtrace(v, DEEP + 1);

	printf("%d", which);
	for (int i = 1; i < n; i++)
		printf(" %lx", (unsigned long)v[i]);
	printf("\n");
	return n;
}

static int recursion(int n)
{
	return n ? recursion(n - 1) + 1 : here(1);
}

static int large(void)
{
	char block[9000];

	memset(block, 1, sizeof(block));
	__asm__ volatile("" : : "r"(block) : "memory");
	return here(2) + block[77];
}

static int of_any_size(int n)
{
	char *p = alloca((size_t)n);

	memset(p, 2, (size_t)n);
	__asm__ volatile("" : : "r"(p) : "memory");
	return here(3) + p[n / 2];
}

static int aligned(int n)
{
	char block[256] __attribute__((aligned(64)));
	char *p = alloca((size_t)n);

	memset(block, 3, sizeof(block));
	__asm__ volatile("" : : "r"(block), "r"(p) : "memory");
	return here(4) + block[n];
}

__attribute__((optimize("no-omit-frame-pointer"))) static int framed(void)
{
	return here(5) + 1;
}

static int compare(const void *a, const void *b)
{
	here(6);
	return *(const int *)a - *(const int *)b;
}

static void handler(int sig)
{
	here(sig == SIGUSR1 ? 7 : 8);
}

static void *thread(void *arg)
{
	here(9);
	return arg;
}

static int six_arguments(int a, int b, int c, int d, int e, int f, int g, int h)
{
	return here(10) + a + b + c + d + e + f + g + h;
}

int main(void)
{
	static char other_stack[65536];
	stack_t alt = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
	struct sigaction own = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	int numbers[] = {3, 1, 2};
	pthread_t t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int round = 0; round < 3; round++) {
		recursion(5);
		large();
		of_any_size(100 + 1000 * round);
		aligned(16 + round);
		framed();
		qsort(numbers, 3, sizeof(*numbers), compare);
		signal(SIGUSR1, handler);
		raise(SIGUSR1);
		sigaltstack(&alt, NULL);
		sigaction(SIGUSR2, &own, NULL);
		raise(SIGUSR2);
		pthread_create(&t, NULL, thread, NULL);
		pthread_join(t, NULL);
		six_arguments(1, 2, 3, 4, 5, 6, 7, round);
	}
	return 0;
}
