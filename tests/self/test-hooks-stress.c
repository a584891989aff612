/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Threads pass hooks while exits are registered, armed, disarmed and taken away, and their memory
 * with them. */
#include <pthread.h>
#include <string.h>

#include "dprobes/hooks.h"
#include "tap.h"

#define THREADS 4
#define ROUNDS 300

DECLARE_HOOK(busy, long *);
DECLARE_EXCLUSIVE_HOOK(lone, long *);
DECLARE_GENERIC_HOOK(plain, long *);
DECLARE_DYNAMIC_HOOK(entered, long);

static int stop, wrong, running;
static long passes, calls, dead_calls;

struct exit_memory { /* freed as soon as its exit is deregistered */
	struct hook_rec rec;
	unsigned alive;
};
#define ALIVE 0x600dcafe

static struct exit_memory *slots[3];

static int work_of(int slot, long *x)
{
	struct exit_memory *m = __atomic_load_n(&slots[slot], __ATOMIC_ACQUIRE);

	__atomic_fetch_add(&running, 1, __ATOMIC_SEQ_CST);
	if (!m || __atomic_load_n(&m->alive, __ATOMIC_RELAXED) != ALIVE)
		__atomic_fetch_add(&dead_calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	*x += 1;
	__atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
	return HOOK_CONTINUE;
}

static int e0(struct hook *h, long *x)
{
	return work_of(0, x);
}
static int e1(struct hook *h, long *x)
{
	return work_of(1, x);
}
static int e2(struct hook *h, long *x)
{
	return work_of(2, x);
}

static int on_entry(struct hook *h, struct pt_regs *regs, long x)
{
	__atomic_fetch_add(&calls, x == 5, __ATOMIC_RELAXED);
	return HOOK_CONTINUE;
}

PROBED static long unprepared(long x)
{
	return x * 3;
}

PROBED static long pass(void)
{
	long x = 0;

	HOOK(busy, &x);
	EXCLUSIVE_HOOK(lone, &x);
	GENERIC_HOOK(plain, &x);
	return x;
}

static void *run(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		long x = pass();

		if (x < 0 || x > 3 || unprepared(5) != 15)
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&passes, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *short_lived(void *arg)
{
	for (int i = 0; i < 20; i++)
		pass();
	return NULL;
}

static struct exit_memory *make(int slot)
{
	static const struct hook_rec recs[] = {HOOK_EXIT(busy, e0), HOOK_EXIT(lone, e1), HOOK_EXIT(plain, e2)};
	struct exit_memory *m = calloc(1, sizeof(*m));

	m->rec = recs[slot];
	m->alive = ALIVE;
	__atomic_store_n(&slots[slot], m, __ATOMIC_RELEASE);
	return m;
}

static void one_round(int round)
{
	static struct hook *const hooks[] = {&busy, &lone, &plain};
	struct hook_rec *v[3];
	struct exit_memory *m[3];
	pthread_t t;

	for (int i = 0; i < 3; i++) {
		m[i] = make(i);
		v[i] = &m[i]->rec;
		wrong += hook_exit_register(hooks[i], v[i]) != 0;
	}
	wrong += hook_exits_arm(v, 3) != 0;
	if (round % 10 == 0 && !pthread_create(&t, NULL, short_lived, NULL))
		pthread_join(t, NULL);
	wrong += pass() != 3;
	if (round & 1)
		wrong += hook_exits_disarm(v, 3) != 0;
	for (int i = 0; i < 3; i++) {
		wrong += hook_exit_deregister(v[i]) != 0;
		m[i]->alive = 0xdead;
		__atomic_store_n(&slots[i], NULL, __ATOMIC_RELEASE);
		memset(m[i], 0x5a, sizeof(*m[i]));
		free(m[i]);
	}
	wrong += pass() != 0;
}

int main(void)
{
	struct hook_rec dynamic = HOOK_EXIT(entered, on_entry);
	pthread_t t[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, run, NULL);
	wrong += hook_bind(&entered, "exe:unprepared", 0) != 0;
	for (int i = 0; i < ROUNDS; i++) {
		one_round(i);
		if (i % 20)
			continue;
		wrong += hook_exit_register(&entered, &dynamic) || hook_exit_arm(&dynamic);
		wrong += hook_exit_deregister(&dynamic) != 0;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	ok(!wrong, "every call and every result was right (%d were not)", wrong);
	ok(!dead_calls && !running, "no exit ran after it was deregistered (%ld)", dead_calls);
	ok(passes > 100 && calls > 100, "%ld passes, %ld calls of exits", passes, calls);
	return tap_done();
}
