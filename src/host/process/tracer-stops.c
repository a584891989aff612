/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a stop of a traced thread is about: a trap at bytes of ours, a signal of the program, somebody newly born, a
 * call that our tracing has ended.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "abi/abi-page.h"
#include "host/process/process-priv.h"

#define USUAL_SIGNALS (0x7fffffffull & ~(SIGNAL_BIT(SIGKILL) | SIGNAL_BIT(SIGSTOP)))

u64 dp_signal_mask(pid_t tid, const char *name)
{
	char mask[32] = "0";

	dp_status_field(tid, tid, name, mask, sizeof(mask));
	return strtoull(mask, NULL, 16);
}

bool dp_shares_memory(pid_t a, pid_t b)
{
	return syscall(SYS_kcmp, a, b, 1 /* KCMP_VM */, 0, 0) == 0;
}

static void mark_stopped(struct dp_tracer *t, struct dp_thread *th)
{
	/* Without them a stop at a system call looks like a trap of the program's, and would be given to it. */
	if (th->bare && !ptrace(PTRACE_SETOPTIONS, th->tid, 0, DP_TRACE_OPTIONS))
		th->bare = false;
	th->running = false;
	th->stopped_at = dp_now_ns();
	t->stops++;
}

/*
 * Whether the signal was in the thread's mask, which has changed in nothing else: it is as it was when we came, or of
 * those that block everything (as glibc has them when it makes a thread).
 */
static bool was_blocked(const struct dp_thread *th, u64 mask, u64 bit)
{
	return (mask | bit) == th->blocked || ((mask | bit) & USUAL_SIGNALS) == USUAL_SIGNALS;
}

/*
 * When an instruction traps whose signal is blocked, the kernel lets the signal through all the same: it
 * takes it out of the mask and sets the default action. The callers put the action back when they can make calls;
 * put the mask right here. That the action is gone tells this from a thread that unblocked the signal itself.
 */
static void note_reset(struct dp_tracer *t, struct dp_thread *th, int sig)
{
	u64 bit = SIGNAL_BIT(sig), mask;

	if (dp_signal_mask(th->tid, "SigCgt") & bit)
		return;
	if (!th->sharer) /* which has signal actions of its own */
		t->lost |= t->handled & bit;
	if (!ptrace(PTRACE_GETSIGMASK, th->tid, sizeof(mask), &mask) && !(mask & bit) && was_blocked(th, mask, bit)) {
		mask |= bit;
		ptrace(PTRACE_SETSIGMASK, th->tid, sizeof(mask), &mask);
	}
}

/*
 * A trap at a byte that we own: send the thread to where that byte's instruction lives now. The signal dies here; but
 * should we die before the thread goes on, it is delivered all the same, and our handler in the target must see that
 * its work is done.
 */
static bool redirect(struct dp_tracer *t, struct dp_thread *th, int sig)
{
	struct user_regs_struct regs;
	siginfo_t si;
	u64 pc, to;

	if ((sig != SIGTRAP && sig != SIGSEGV) || !t->nredirects)
		return false;
	if (ptrace(PTRACE_GETSIGINFO, th->tid, 0, &si) || si.si_code != SI_KERNEL)
		return false;
	if (ptrace(PTRACE_GETREGS, th->tid, 0, &regs))
		return false;
	pc = dp_user_ip(&regs) - (sig == SIGTRAP);
	to = dp_redirect_find(t->redirects, t->nredirects, pc);
	if (!to)
		return false;
	dp_user_ip(&regs) = to;
	si.si_code = SI_QUEUE;
	si.si_value.sival_ptr = (void *)DP_REDIRECTED;
	if (ptrace(PTRACE_SETSIGINFO, th->tid, 0, &si) || ptrace(PTRACE_SETREGS, th->tid, 0, &regs))
		return false;
	note_reset(t, th, sig);
	t->rescued++;
	return true;
}

/* The program's own trap while its action is lost: let it come again, until the action is back. */
static bool postpone(const struct dp_tracer *t, struct dp_thread *th, int sig)
{
	struct user_regs_struct regs;
	siginfo_t si;

	if (th->sharer || !(t->lost & SIGNAL_BIT(sig)) || ptrace(PTRACE_GETSIGINFO, th->tid, 0, &si) ||
	    si.si_code != SI_KERNEL || ptrace(PTRACE_GETREGS, th->tid, 0, &regs))
		return false;
	dp_user_ip(&regs) -= sig == SIGTRAP;
	return !ptrace(PTRACE_SETREGS, th->tid, 0, &regs);
}

/* A watchpoint was hit, and what watched it is gone. */
static bool is_late_watch(const struct dp_tracer *t, const siginfo_t *si)
{
	u64 data;

	if (!t->late_watches || si->si_signo != SIGTRAP || si->si_code != DP_TRAP_PERF)
		return false;
	memcpy(&data, (const u8 *)si + 24, 8); /* si_perf_data */
	return DP_WATCH_OF(data) == DP_WATCH_DATA(DP_WATCH_MAGIC, t->late_watches, 0) ||
	       DP_WATCH_OF(data) == DP_WATCH_DATA(DP_PAGE_MAGIC, t->late_watches, 0);
}

static bool stopped_by_late_watch(const struct dp_tracer *t, pid_t tid)
{
	siginfo_t si;

	return !ptrace(PTRACE_GETSIGINFO, tid, 0, &si) && is_late_watch(t, &si);
}

static bool blocks(pid_t tid, int sig)
{
	u64 mask;

	return ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask) || mask & SIGNAL_BIT(sig);
}

bool dp_tracer_at_work(const struct dp_thread *th, const struct user_regs_struct *regs)
{
	return th->worked && dp_user_ip(regs) >= th->work_lo && dp_user_ip(regs) < th->work_hi;
}

/*
 * A signal is delivered to a thread that makes calls for us: behind them, since it blocks signals before, or in the
 * borrowed bytes (dp_remote_stub() makes the call again where that has not been done). The handler is to find the
 * thread where it was when we came: that of pthread_cancel() asks whether it waits in a call. The thread needs nothing
 * any more of the code that it leaves. SIGSTOP has no handler, and comes at any time.
 */
static void give_back(struct dp_thread *th, int sig)
{
	struct user_regs_struct regs;

	if (th->worked && sig != SIGSTOP && !blocks(th->tid, sig) && !ptrace(PTRACE_GETREGS, th->tid, 0, &regs) &&
	    dp_tracer_at_work(th, &regs))
		th->given_back = !ptrace(PTRACE_SETREGS, th->tid, 0, &th->before);
}

/* Newly born. A process with a copy of the memory is held while bytes change, so that its own can be put right. */
static void on_child(struct dp_tracer *t, struct dp_thread *th)
{
	char tgid[32] = "0";

	dp_status_field(th->tid, th->tid, "Tgid", tgid, sizeof(tgid));
	if (atoi(tgid) != t->pid) {
		/* One in the same memory (vfork, posix_spawn) meets the same bytes and goes on under our eyes. */
		th->sharer = dp_shares_memory(dp_memory_tid(t->pid), th->tid);
		th->foreign = !th->sharer;
		t->held += th->foreign;
		if (th->foreign && !t->holds)
			dp_tracer_release(t, th);
	}
	th->due = !th->foreign;
}

/* A signal that does nothing wakes a thread only because it is traced. */
static bool ignored(pid_t tid, int sig)
{
	u64 bit = SIGNAL_BIT(sig);
	bool nothing = sig == SIGCHLD || sig == SIGURG || sig == SIGWINCH;

	return dp_signal_mask(tid, "SigIgn") & bit || (nothing && !(dp_signal_mask(tid, "SigCgt") & bit));
}

/* Calls that were ended by nothing but our tracing are made again. sig: about to be delivered, 0 none. */
static void mend_call(struct dp_thread *th, int sig)
{
	struct user_regs_struct regs;
	u64 pc;

	if (ptrace(PTRACE_GETREGS, th->tid, 0, &regs) || (s64)dp_user_result(&regs) != -EINTR ||
	    (sig && !ignored(th->tid, sig)))
		return;
	pc = dp_user_ip(&regs);
	dp_fix_restart(th->tid, &regs, false);
	if (dp_user_ip(&regs) != pc)
		ptrace(PTRACE_SETREGS, th->tid, 0, &regs);
}

void dp_tracer_on_stop(struct dp_tracer *t, struct dp_thread *th, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	mark_stopped(t, th);
	th->group_stop = false;
	th->trap_due = false;
	switch (event) {
	case PTRACE_EVENT_STOP:
		if (sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU)
			th->group_stop = true;
		else
			mend_call(th, 0);
		if (th->asked)
			th->asked = false; /* dp_tracer_stop takes it from here */
		else if (th->group_stop)
			th->due = true;
		else
			on_child(t, th);
		return;
	case PTRACE_EVENT_EXEC:
		if (th->sharer || th->foreign) { /* its own memory now, and none of our business */
			dp_tracer_release(t, th);
			return;
		}
		t->execed = true;
		break;
	case 0:
		if (sig == (SIGTRAP | 0x80)) {
			if (t->on_call)
				t->on_call(t->on_call_arg, th);
			break;
		}
		if (!redirect(t, th, sig) && !postpone(t, th, sig) && !stopped_by_late_watch(t, th->tid)) {
			th->signal = sig;
			th->unfiltered = false; /* its handler may change that */
			give_back(th, sig);
			mend_call(th, sig);
		}
		break;
	default: /* clone, fork, vfork: the newborn reports itself */
		break;
	}
	/* In the kernel any stop uses up an interruption that is under way: dp_tracer_stop must ask again. */
	th->asked = false;
	th->due = true;
}

/*
 * The stop came between an instruction's trap and the delivery of its signal: the program counter
 * must not be touched now, because the signal still speaks of it. Nor is a thread let go with a signal that nobody
 * waits for any more: its delivery would be the end of the process.
 */
bool dp_tracer_trap_pending(const struct dp_tracer *t, pid_t tid)
{
	struct __ptrace_peeksiginfo_args args = {.off = 0, .flags = 0, .nr = 8};
	siginfo_t si[8];
	long n = ptrace(PTRACE_PEEKSIGINFO, tid, &args, si);

	for (long i = 0; i < n; i++) {
		if ((si[i].si_signo == SIGTRAP || si[i].si_signo == SIGSEGV) && si[i].si_code == SI_KERNEL)
			return true;
		if (is_late_watch(t, &si[i]) && !blocks(tid, SIGTRAP))
			return true;
	}
	return false;
}
