/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lists of exits under ThreadSanitizer: threads pass a hook while one registers exits, arms and
 * disarms them, takes them away and frees their memory when everybody who was inside has left. The
 * membarrier of the library is a fence on both sides here: what is tested is the order of stores to
 * lists and flags. test_tsan.py runs this.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/hooks.h"

#define THREADS 3
#define CHANGES 20000
#define EXITS 4

typedef int exit_t_(struct hook *h, long *x);

static struct hook hook = {.flags = 0, .name = "hook"};
static u8 place[8] = {0xa9, 1, 0, 0, 0};
static unsigned reports, wrong, stop;
static unsigned long calls;
static struct {
	u64 inside __attribute__((aligned(64)));
} threads[THREADS]; /* odd: inside. Atomic */

/* Called by the sanitizer for each report. */
void __tsan_on_report(void *report);
void __tsan_on_report(void *report)
{
	reports++;
}

static int adds(struct hook *h, long *x)
{
	*x += 1;
	return HOOK_CONTINUE;
}

/* As HOOK_CALL_ALL_ of the header. */
static long pass(u64 *inside)
{
	long x = 0;

	__atomic_fetch_add(inside, 1, __ATOMIC_SEQ_CST);
	for (struct hook_rec *r = __atomic_load_n(&hook.exits, __ATOMIC_ACQUIRE); r;
	     r = __atomic_load_n(&r->next, __ATOMIC_ACQUIRE))
		if (__atomic_load_n(&r->flags, __ATOMIC_RELAXED) & HOOK_ARMED)
			((exit_t_ *)r->exit)(&hook, &x);
	__atomic_fetch_add(inside, 1, __ATOMIC_SEQ_CST);
	return x;
}

static void *run(void *arg)
{
	u64 *inside = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		long x = pass(inside);

		if (x < 0 || x > EXITS)
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&calls, (unsigned long)x, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void grace(void)
{
	for (int i = 0; i < THREADS; i++) {
		u64 now = __atomic_load_n(&threads[i].inside, __ATOMIC_SEQ_CST);

		while (now & 1 && __atomic_load_n(&threads[i].inside, __ATOMIC_SEQ_CST) == now)
			sched_yield();
	}
}

/* ---- code that nobody executes ---- */

static int write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	memcpy((void *)addr, bytes, n);
	return 0;
}

static int serialise(void *arg, struct dp_error *err)
{
	return 0;
}

static int peek(void *arg, u64 addr, void *bytes, u32 n)
{
	memcpy(bytes, (const void *)addr, n);
	return 0;
}

static const struct dp_hook_host host = {.code = {.write_code = write_code, .serialise = serialise}, .peek = peek};
static struct dp_hooks hooks = {.host = &host};
static struct hook_rec *recs[EXITS];

static int change(unsigned seed)
{
	struct hook_rec **r = &recs[seed / 8 % EXITS];
	int failed = 0;

	if (!*r) {
		*r = calloc(1, sizeof(**r));
		(*r)->exit = (hook_any_exit_t)adds;
		(*r)->flags = seed & 1 ? HOOK_QUEUE_LIFO : 0;
		return dp_hooks_insert(&hooks, &hook, *r, NULL);
	}
	if (seed % 8 < 6) {
		failed = dp_hooks_arm(&hooks, r, 1, seed & 1, NULL);
		return failed || (place[0] == 0xe9) != dp_hook_wanted(&hook);
	}
	failed = dp_hooks_take_out(&hooks, *r, NULL);
	grace();
	memset(*r, 0x5a, sizeof(**r));
	free(*r);
	*r = NULL;
	return failed;
}

int main(void)
{
	struct dp_hook_place p = {.code = (u64)place, .armed = (u64)place + 6, .hook = &hook};
	pthread_t t[THREADS];
	unsigned seed = 1;
	int failed = dp_hooks_add_place(&hooks, &p), n;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, run, &threads[i].inside);
	for (n = 0; n < CHANGES || !__atomic_load_n(&calls, __ATOMIC_RELAXED); n++) {
		seed = seed * 1103515245 + 12345;
		failed += !!change(seed >> 16);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	printf("%sok 1 - %d changes of a hook while %d threads pass it: %lu calls of exits, %u "
	       "wrong, %d failed\n",
	       failed || wrong ? "not " : "", n, THREADS, calls, wrong, failed);
	printf("%sok 2 - ThreadSanitizer reports nothing (%u)\n1..2\n", reports ? "not " : "", reports);
	return failed || wrong || reports;
}
