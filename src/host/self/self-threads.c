/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A record for each thread that was in a hit. Part of the hit: general registers only. */
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "host/self/inside.h"
#include "host/self/trap.h"

struct self_thread dp_self_threads[SELF_THREADS];
u32 dp_self_threads_used;

__thread struct self_thread *dp_self_mine __attribute__((tls_model("initial-exec")));

static HIT long call2(long nr, long a, long b)
{
	return (long)dp_call_system(nr, (u64)a, (u64)b, 0, 0, 0, 0);
}

static HIT bool claim(struct self_thread *t, int old, int tid)
{
	/* Pairs with the exchange in dp_self_reap(), which gives it back, and with the acquire in grace(). */
	if (!__atomic_compare_exchange_n(&t->tid, &old, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	t->depth = 0;
	t->hook.depth = 0;
	t->kp = NULL;
	t->jprobe = NULL;
	t->task = (struct task_struct){tid, (int)call2(SYS_getpid, 0, 0), (void *)&dp_self_threads, ""};
	call2(SYS_prctl, PR_GET_NAME, (long)t->task.comm);
	return true;
}

/*
 * The first hit of a thread takes a record. Records of this thread's number are left over from a
 * thread that has ended; dp_self_grace() gives back those of other ended threads.
 */
static HIT struct self_thread *new_thread(void)
{
	int tid = (int)call2(SYS_gettid, 0, 0);
	/* All on this word pair with each other: who sees a number sees the records below it. */
	u32 used = __atomic_load_n(&dp_self_threads_used, __ATOMIC_ACQUIRE);

	for (u32 i = 0; i < used; i++) {
		int owner = __atomic_load_n(&dp_self_threads[i].tid, __ATOMIC_RELAXED);

		if ((!owner || owner == tid) && claim(&dp_self_threads[i], owner, tid))
			return &dp_self_threads[i];
	}
	while (used < SELF_THREADS) {
		used = __atomic_fetch_add(&dp_self_threads_used, 1, __ATOMIC_ACQ_REL);
		if (used < SELF_THREADS && claim(&dp_self_threads[used], 0, tid))
			return &dp_self_threads[used];
	}
	__atomic_store_n(&dp_self_threads_used, SELF_THREADS, __ATOMIC_RELEASE);
	return NULL;
}

HIT struct self_thread *dp_self_thread(void)
{
	if (__builtin_expect(!dp_self_mine, 0))
		dp_self_mine = new_thread();
	return dp_self_mine;
}

/* Without room for one more thread, all that are left over are one. */
HIT __attribute__((visibility("default"))) struct task_struct *dp_current(void)
{
	static struct task_struct nobody = {0, 0, &nobody, "?"};
	struct self_thread *t = dp_self_thread();

	return t ? &t->task : &nobody;
}

/*
 * Is the hit that this thread is said to be in still there? A handler that was left by a jump out
 * of a signal handler never returned; its frame lay below the present stack pointer. On an
 * alternate signal stack that proves nothing.
 */
HIT bool dp_self_is_stale(const struct self_thread *t, u64 sp)
{
	struct {
		void *sp;
		int flags;
		unsigned long size;
	} ss = {0};

	return sp >= t->sp && !call2(SYS_sigaltstack, 0, (long)&ss) && !(ss.flags & 1);
}
