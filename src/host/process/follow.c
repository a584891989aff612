/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A thread that makes system calls for us is stopped at their entry and their exit where their results are needed, or
 * where a filter of system calls is in force. The filter is suspended from the entry of such a call to its exit; the
 * call's number and arguments come from us then, whatever stands in the thread's registers: no call of the program
 * itself gets past its filter.
 */
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>

#include "host/process/process-priv.h"

static void on_entry(struct dp_follow *f, struct dp_thread *th)
{
	const struct dp_call *c = &f->v[f->done];
	struct user_regs_struct regs;

	if (!f->lifts) {
		f->inside = true;
		return;
	}
	if (ptrace(PTRACE_GETREGS, th->tid, 0, &regs))
		return;
	dp_user_call(&regs) = (u64)c->nr;
	dp_user_set_args(&regs, c->arg);
	/* In this order: should we die between the two, the filter sees a call that it allows. */
	f->inside = !ptrace(PTRACE_SETOPTIONS, th->tid, 0, DP_TRACE_OPTIONS | PTRACE_O_SUSPEND_SECCOMP) &&
		    !ptrace(PTRACE_SETREGS, th->tid, 0, &regs);
}

static void on_exit_of(struct dp_follow *f, struct dp_thread *th, s64 ret)
{
	if (f->lifts)
		ptrace(PTRACE_SETOPTIONS, th->tid, 0, DP_TRACE_OPTIONS);
	f->inside = false;
	f->v[f->done++].ret = ret;
	th->followed = f->done < f->n;
}

/* At each system call of the thread: those that a signal handler of the program makes meanwhile are none of ours. */
static void on_call(void *arg, struct dp_thread *th)
{
	struct dp_follow *f = arg;
	struct __ptrace_syscall_info info;

	if (th->tid != f->tid || ptrace(PTRACE_GET_SYSCALL_INFO, th->tid, sizeof(info), &info) < (long)sizeof(info.op))
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY && f->done < f->n && info.instruction_pointer > f->lo &&
	    info.instruction_pointer <= f->hi)
		on_entry(f, th);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT && f->inside)
		on_exit_of(f, th, info.exit.rval);
}

void dp_follow_begin(struct dp_follow *f, struct dp_tracer *t, struct dp_thread *th, struct dp_call *v, u32 n, u64 lo,
		     u64 hi)
{
	f->tid = th->tid;
	f->v = v;
	f->n = n;
	f->done = 0;
	f->inside = false;
	f->lo = lo;
	f->hi = hi;
	t->on_call = on_call;
	t->on_call_arg = f;
	th->followed = true;
}

bool dp_follow_done(void *arg)
{
	const struct dp_follow *f = arg;

	return f->done == f->n;
}

void dp_follow_end(struct dp_follow *f, struct dp_tracer *t)
{
	for (u32 i = 0; i < t->n; i++)
		t->v[i].followed = false;
	t->on_call = NULL;
	f->tid = 0;
}
