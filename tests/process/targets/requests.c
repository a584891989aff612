/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Serves requests in three threads. What becomes of a request follows from its number: see handle(). In between each
 * thread takes a step that belongs to none. At last a request ends the program. Usage: requests [STEPS [wait]]: so many
 * more steps in each thread's first request; wait for a line of input first.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 3
#define REQUESTS 40

enum outcome { GOOD = 0, SLOW = 1, BAD = 3, LEFT = 5, BAD_WITHIN = 6, GOOD_WITHIN = 7, OUTCOMES = 8 };

static _Thread_local jmp_buf away;
static long first_steps;

__attribute__((noipa)) void step(long request)
{
	__asm__ volatile("" : : "r"(request) : "memory");
}

__attribute__((noipa)) long handle(long request, int depth)
{
	long what = request % OUTCOMES, inner = 0;

	step(request);
	for (long i = 0; request % REQUESTS == 0 && i < first_steps; i++)
		step(request);
	if (what == SLOW)
		usleep(30000);
	if (what == LEFT)
		longjmp(away, 1);
	if ((what == BAD_WITHIN || what == GOOD_WITHIN) && depth < 2)
		inner = handle(request, depth + 1);
	step(request + inner * 0);
	if (what == BAD_WITHIN)
		return depth ? -1 : 0;
	if (what == GOOD_WITHIN)
		return depth ? 0 : -1;
	return what == BAD ? -1 : 0;
}

static void *serve(void *arg)
{
	long first = (long)arg * REQUESTS;

	for (volatile long i = 0; i < REQUESTS; i++) {
		step(-1);
		if (!setjmp(away))
			handle(first + i, 0);
	}
	return NULL;
}

__attribute__((noipa)) long last(long request)
{
	step(request);
	if (request > 0)
		exit(0);
	return request;
}

int main(int argc, char **argv)
{
	pthread_t t[THREADS];

	first_steps = argc > 1 ? atol(argv[1]) : 0;
	if (argc > 2) { /* until somebody is ready to look */
		puts("ready");
		fflush(stdout);
		getchar();
	}
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, serve, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	last(1000);
	return 0;
}
