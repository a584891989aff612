/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Asking threads to stop, and waiting for them: one, all at once, or a pass over all, a few at a time. */
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/process/process-priv.h"

#define REST_MIN_US 5ull
#define STOP_MIN_US 50ull /* where a signal tells of it */
#define REST_MAX_US 1000ull
#define PAUSE_MIN_US 50u
#define PAUSE_MAX_US 63000u
#define ASKED_AT_ONCE 4u
#define STARVED 5                /* times as long may a thread take that waits for a processor */
#define STUCK_NS 5000000ull      /* by then a thread that does not stop is looked at */
#define STOP_ALL_NS 200000000ull /* for one thread to stop */
#define STOPS_NS 5000000000ull   /* for all of them */

static bool interrupt(struct dp_thread *th)
{
	if (ptrace(PTRACE_INTERRUPT, th->tid, 0, 0)) {
		th->gone |= errno == ESRCH;
		return false;
	}
	th->asked = true;
	return true;
}

/* It stops as soon as it gets one. */
static bool waits_for_processor(const struct dp_tracer *t, const struct dp_thread *th)
{
	return dp_thread_state(t->pid, th->tid) == 'R';
}

/* Waits a little for a thread that was asked at `begin`; false: it has had its time. */
static bool wait_on(const struct dp_tracer *t, const struct dp_thread *th, u64 begin, u64 timeout_ns)
{
	u64 waited = dp_now_ns() - begin;

	if (waited > timeout_ns && (waited > STARVED * timeout_ns || !waits_for_processor(t, th)))
		return false;
	dp_await_stop(DP_MIN(DP_MAX(waited / 2000, STOP_MIN_US), REST_MAX_US));
	return true;
}

bool dp_tracer_stop(struct dp_tracer *t, struct dp_thread *th, u64 timeout_ns)
{
	u64 begin = dp_now_ns();
	u32 index = (u32)(th - t->v); /* the table may move */

	for (;; th = &t->v[index]) {
		if (th->gone || th->released)
			return false;
		if (!th->running) {
			if (!dp_tracer_trap_pending(t, th->tid))
				return true;
			/*
			 * An interruption would come before the trap again, and again if the thread has to wait for a
			 * processor.
			 */
			dp_tracer_resume(t, th);
			th->trap_due = true;
		}
		if (!th->asked && !th->trap_due) {
			if (!interrupt(th))
				return false;
			dp_await_stop(STOP_MIN_US);
		}
		dp_tracer_pump(t);
		if (!t->v[index].running)
			continue;
		if (!wait_on(t, &t->v[index], begin, timeout_ns)) {
			t->v[index].asked = false; /* should it stop after all, it goes on at once */
			return false;
		}
	}
}

void dp_tracer_begin_pass(struct dp_tracer *t)
{
	for (u32 i = 0; i < t->n; i++)
		t->v[i].put_off = false;
	t->passed = 0;
}

void dp_tracer_begin(struct dp_tracer *t, bool foreign)
{
	for (u32 i = 0; i < t->n; i++)
		t->v[i].done = false;
	t->all = foreign;
	dp_tracer_begin_pass(t);
}

static bool is_due(const struct dp_tracer *t, const struct dp_thread *th)
{
	return !th->done && !th->gone && !th->released && (t->all || !th->foreign);
}

bool dp_tracer_any_due(const struct dp_tracer *t, pid_t *tid)
{
	for (u32 i = 0; i < t->n; i++)
		if (is_due(t, &t->v[i])) {
			*tid = t->v[i].tid;
			return true;
		}
	return false;
}

/* The first one that has stopped, or the first of all; a few that run are asked to stop. NULL: nobody is due. */
static struct dp_thread *ask_some(struct dp_tracer *t)
{
	struct dp_thread *first = NULL;
	u32 asked = 0;

	for (u32 i = t->passed; i < t->n && asked < ASKED_AT_ONCE; i++) {
		struct dp_thread *th = &t->v[i];

		if (th->put_off || !is_due(t, th)) {
			t->passed += t->passed == i;
			continue;
		}
		if (!th->running)
			return th;
		if (!th->asked && !th->trap_due && !interrupt(th))
			continue;
		asked++;
		first = first ? first : th;
	}
	return first;
}

/* Those that were asked and run still; should one stop after all, it goes on at once. */
static void put_off_asked(struct dp_tracer *t)
{
	for (u32 i = t->passed; i < t->n; i++) {
		struct dp_thread *th = &t->v[i];

		if (th->running && (th->asked || th->trap_due) && is_due(t, th)) {
			th->asked = false;
			th->put_off = true;
		}
	}
}

struct dp_thread *dp_tracer_next_stopped(struct dp_tracer *t, u64 timeout_ns)
{
	u64 begin = dp_now_ns();
	struct dp_thread *th;

	while ((th = ask_some(t))) {
		u32 index = (u32)(th - t->v);

		if (!th->running) {
			if (dp_tracer_stop(t, th, timeout_ns))
				return &t->v[index];
			t->v[index].put_off = true;
			continue;
		}
		dp_tracer_pump(t);
		th = ask_some(t);
		if (th && th->running && !wait_on(t, th, begin, timeout_ns))
			put_off_asked(t);
	}
	return NULL;
}

void dp_tracer_rest(u64 waited_ns, bool stops)
{
	u64 us = DP_MIN(DP_MAX(waited_ns / 4000, REST_MIN_US), REST_MAX_US);

	dp_look_at_way();
	/*
	 * Never by sched_yield: the thread that we wait for may need this processor. We come before it (be_first()),
	 * and so do others of our kind: whoever waits long looks less often, or they leave it none.
	 */
	if (stops)
		dp_await_stop(us);
	else
		usleep((useconds_t)us);
}

void dp_tracer_pause(struct dp_tracer *t, u32 *us)
{
	u64 begin = dp_now_ns();

	*us = DP_MIN(*us * 2 + PAUSE_MIN_US, PAUSE_MAX_US);
	/* Signals are passed on quickly: a program with a timer of a millisecond would do nothing but wait for us. */
	do {
		usleep(DP_MIN(*us, 100u));
		dp_tracer_pump(t);
	} while (dp_now_ns() - begin < *us * 1000ull);
}

/*
 * Whether a thread that could not be stopped may be changing what is mapped: it is in a call that does so, or it is not
 * known where it is. One that sleeps in another call meets the interruption that waits for it before it comes back.
 */
static bool may_map(pid_t tid)
{
	static const long calls[] = {SYS_mmap,  SYS_munmap, SYS_mremap, SYS_mprotect, SYS_pkey_mprotect,
				     SYS_shmat, SYS_shmdt,  SYS_execve, SYS_execveat, SYS_remap_file_pages};
	long nr = dp_thread_call(tid, tid).nr;

	for (u32 i = 0; i < DP_ARRAY_SIZE(calls); i++)
		if (nr == calls[i])
			return true;
	return nr == DP_CALL_UNKNOWN;
}

static bool is_ours(const struct dp_thread *th)
{
	return !th->gone && !th->released && !th->foreign;
}

int dp_tracer_stop_all(struct dp_tracer *t, struct dp_error *err)
{
	u64 begin = dp_now_ns();
	pid_t who;

	do {
		for (u32 i = 0; i < t->n; i++) /* all at once: they need not wait for one another */
			if (is_ours(&t->v[i]) && t->v[i].running && !t->v[i].asked && !t->v[i].trap_due)
				interrupt(&t->v[i]);
		for (u32 i = 0; i < t->n; i++) { /* threads that are born meanwhile come to the end */
			pid_t tid = t->v[i].tid;

			if (is_ours(&t->v[i]) && !dp_tracer_stop(t, &t->v[i], STUCK_NS) && may_map(tid) &&
			    is_ours(&t->v[i]))
				dp_tracer_stop(t, &t->v[i], STOP_ALL_NS);
		}
		/*
		 * From here on nobody is let go: there is no pump. Whoever runs is interrupted, once more if its stop
		 * was let pass meanwhile.
		 */
		who = 0;
		for (u32 i = 0; i < t->n; i++)
			if (is_ours(&t->v[i]) && t->v[i].running && !ptrace(PTRACE_INTERRUPT, t->v[i].tid, 0, 0) &&
			    may_map(t->v[i].tid))
				who = t->v[i].tid;
		if (!who)
			return 0;
		dp_tracer_resume_all(t);
		dp_tracer_pump(t);
	} while (!t->dead && dp_now_ns() - begin < STOPS_NS);
	return dp_fail(err, E_TARGET_STUCK, "thread %d of process %d", (int)who, (int)t->pid);
}

void dp_tracer_stop_each(struct dp_tracer *t, u64 timeout_ns)
{
	struct dp_thread *th;

	dp_tracer_begin(t, false);
	while ((th = dp_tracer_next_stopped(t, timeout_ns))) {
		th->done = true;
		dp_tracer_resume(t, th);
	}
}

void dp_tracer_resume_all(struct dp_tracer *t)
{
	for (u32 i = 0; i < t->n; i++)
		if (is_ours(&t->v[i]))
			dp_resume_unless_parked(t, &t->v[i]);
}
