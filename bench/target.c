/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The program that is probed: on order it calls one tiny function many times and says how long
 * that took. It knows nothing of probes. Usage: bench-target FD, the descriptor of struct bench_shm.
 */
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

typedef long call_fn(const char *text, const char *heap, long n, long c);

call_fn entry_nop5, entry_push, entry_sub, entry_endbr;

static char text[] = "a string of thirty-two letters..";
static void *volatile sink;

__attribute__((noinline)) void bench_leave(void)
{
	__asm__ volatile("");
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t time_calls(call_fn *fn, const char *heap, uint64_t calls)
{
	uint64_t begin = now_ns();

	for (uint64_t i = 0; i < calls; i++)
		fn(text, heap, (long)i, 42);
	return now_ns() - begin;
}

static uint64_t time_malloc(uint64_t calls)
{
	uint64_t begin = now_ns();

	for (uint64_t i = 0; i < calls; i++) {
		sink = malloc(40);
		free(sink);
	}
	return now_ns() - begin;
}

static void futex(uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

int main(int argc, char **argv)
{
	static call_fn *const funcs[NFUNCS] = {entry_nop5, entry_push, entry_sub, entry_endbr, NULL};
	struct bench_shm *shm;
	const char *heap = strdup(text);
	uint32_t seen = 0;

	if (argc < 2)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	shm = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
	if (shm == MAP_FAILED)
		return 1;
	for (int i = 0; i < NFUNCS; i++)
		shm->addr[i] = (uint64_t)funcs[i];
	shm->addr[FUNC_MALLOC] = (uint64_t)malloc;
	shm->leave = (uint64_t)bench_leave;
	__atomic_store_n(&shm->done, 1, __ATOMIC_RELEASE); /* pairs with the harness's acquire: addresses */
	futex(&shm->done, FUTEX_WAKE, 1);
	seen = 1;
	for (;;) {
		/* Pairs with the harness's release of asked: the order's fields are visible. */
		uint32_t asked = __atomic_load_n(&shm->asked, __ATOMIC_ACQUIRE);

		if (asked == seen || !asked) {
			futex(&shm->asked, FUTEX_WAIT, asked);
			continue;
		}
		seen = asked;
		if (shm->op == OP_LEAVE)
			bench_leave();
		else if (shm->func == FUNC_MALLOC)
			shm->ns = time_malloc(shm->calls);
		else
			shm->ns = time_calls(funcs[shm->func], heap, shm->calls);
		/* Pairs with the harness's acquire of done: the time is visible. */
		__atomic_store_n(&shm->done, asked, __ATOMIC_RELEASE);
		futex(&shm->done, FUTEX_WAKE, 1);
	}
}
