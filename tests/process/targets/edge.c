/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Threads that call probed functions a few bytes above a guard page. Usage: edge ROOM THREADS TRAP. Prints "ready",
 * waits for SIGUSR1, and prints how many bytes below the stack pointer were written to, at most: by a hit at a
 * function's entry, inside a function, and at a breakpoint (TRAP 1). ROOM is what there is; inside a function that is
 * below the red zone. Threads stay until SIGTERM: none gives back what a hit has taken for it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define PAINT 0xa5
#define CALLS 600 /* more than the hits after which a thread looks at its alternate stack again */

void edge_call(void (*fn)(void), unsigned char *sp);
void edge_entry(void);
void edge_inside(void);
void edge_trap(void);

static long room, with_trap, worst_entry, worst_inside, worst_trap;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Bytes of [page, page + n) that fn and its hits use, most of several calls. */
static long use_of(void (*fn)(void), unsigned char *page, long n)
{
	long worst = 0, i;

	for (int k = 0; k < CALLS; k++) {
		memset(page, PAINT, (size_t)n);
		edge_call(fn, page + n + 8); /* the call's return address */
		for (i = 0; i < n && page[i] == PAINT;)
			i++;
		worst = n - i > worst ? n - i : worst;
	}
	return worst;
}

static void *run(void *arg)
{
	unsigned char *two = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *page = two + PAGE;
	stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536};
	long v;

	(void)arg;
	if (two == MAP_FAILED || mprotect(page, PAGE, PROT_READ | PROT_WRITE) || sigaltstack(&alternate, NULL))
		exit(2);
	v = use_of(edge_entry, page, room);
	worst_entry = v > worst_entry ? v : worst_entry;
	v = use_of(edge_inside, page, room + 128);
	worst_inside = v > worst_inside ? v : worst_inside;
	v = with_trap ? use_of(edge_trap, page, room + 128) : 0;
	worst_trap = v > worst_trap ? v : worst_trap;
	pthread_mutex_unlock(&lock); /* the next thread's turn; this one stays */
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	sigset_t set;
	int sig;

	if (argc < 4)
		return 2;
	room = atol(argv[1]);
	with_trap = atol(argv[3]);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	printf("ready\n");
	fflush(stdout);
	sigwait(&set, &sig);
	for (int i = atoi(argv[2]); i; i--) {
		pthread_t t;

		pthread_mutex_lock(&lock);
		if (pthread_create(&t, NULL, run, NULL))
			return 2;
	}
	pthread_mutex_lock(&lock);
	printf("entry %ld inside %ld trap %ld\n", worst_entry, worst_inside, worst_trap);
	fflush(stdout);
	for (;;)
		pause();
}
