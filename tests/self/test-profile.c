/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A profiler in the program: a signal whose handler unwinds the stack. Each probed call is made instruction by
 * instruction, under ptrace, and the signal arrives before each of them: in a hit, in a stub, in a return. It must come
 * through, or stop early, and never go astray.
 */
#include <execinfo.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprobes/kprobes.h"
#include "tap.h"

#define MOST 20000 /* instructions of one call */
#define TF 0x100ull
#define SYSCALL 0x050f

PROBED long work(long x)
{
	return x * 3 + 1;
}

static volatile long traces, with_caller;

PROBED long caller(long x)
{
	return work(x) + 1;
}

/* Tell the tracer. raise() would block signals meanwhile. */
static void tell(int sig)
{
	syscall(SYS_tgkill, getpid(), gettid(), sig);
}

static void on_signal(int sig)
{
	void *v[64];
	int n = backtrace(v, 64);

	for (int i = 0; i < n; i++)
		if ((char *)v[i] >= (char *)caller && (char *)v[i] < (char *)caller + 128) {
			with_caller++;
			break;
		}
	traces++;
	tell(SIGSTOP); /* the tracer steps on from here */
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static int vectors(struct kprobe *p, struct pt_regs *regs)
{
	__asm__ volatile("pcmpeqd %%xmm1, %%xmm1" ::: "xmm1");
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}

static int vectors_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	__asm__ volatile("pcmpeqd %%xmm1, %%xmm1" ::: "xmm1");
	return 0;
}

static long jwork(long x)
{
	jprobe_return();
	return 0;
}

static const struct {
	const char *name;
	kprobe_pre_handler_t pre;
	kprobe_post_handler_t post;
	kretprobe_handler_t ret, entry;
	unsigned flags;
	int jprobe, breakpoints;
} kinds[] = {
    {"a kprobe", .pre = pre},
    {"a kprobe that uses vector registers", .pre = vectors},
    {"a kprobe, breakpoint", .pre = pre, .breakpoints = 1},
    {"a kprobe with a post handler", .pre = pre, .post = post},
    {"a return probe", .ret = on_return},
    {"a return probe that uses vector registers", .ret = vectors_return},
    {"a return probe with an entry handler", .ret = on_return, .entry = on_return},
    {"a kprobe and a return probe", .pre = pre, .ret = on_return},
    {"a return probe, breakpoint", .ret = on_return, .breakpoints = 1},
    {"a return probe, classic", .ret = on_return, .flags = KPROBE_FLAG_RET_CLASSIC},
    {"a return probe by exits", .ret = on_return, .flags = KPROBE_FLAG_RET_EXITS},
    {"a jprobe", .jprobe = 1},
};

static void test_kind(size_t k)
{
	struct kprobe kp = {.symbol_name = "work", .pre_handler = kinds[k].pre, .post_handler = kinds[k].post};
	struct kretprobe rp = {.kp.symbol_name = "work",
			       .kp.flags = kinds[k].flags,
			       .handler = kinds[k].ret,
			       .entry_handler = kinds[k].entry};
	struct jprobe jp = {.kp.symbol_name = "work", .entry = (void *)jwork};
	int r = 0;
	long got;

	dp_kprobes_optimization(!kinds[k].breakpoints);
	if (kinds[k].pre)
		r |= register_kprobe(&kp);
	if (kinds[k].ret)
		r |= register_kretprobe(&rp);
	if (kinds[k].jprobe)
		r |= register_jprobe(&jp);
	traces = with_caller = 0;
	tell(SIGUSR2);
	got = caller(5);
	tell(SIGUSR2);
	ok(!r && got == 17 && traces > 10 && with_caller > traces / 2,
	   "%s, unwound before each instruction: %ld of %ld reach the caller", kinds[k].name, with_caller, traces);
	if (kinds[k].pre)
		unregister_kprobe(&kp);
	if (kinds[k].ret)
		unregister_kretprobe(&rp);
	if (kinds[k].jprobe)
		unregister_jprobe(&jp);
}

static int traced(void)
{
	void *v[4];

	backtrace(v, 4); /* loads the unwinder */
	signal(SIGUSR1, on_signal);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		test_kind(k);
	return tap_done();
}

/* ---- the tracer ---- */

/* The signal that it stops for; 0: a step. -1: it has ended, *status tells how. */
static int step(pid_t pid, int how, int sig, int *status)
{
	siginfo_t si;

	if (ptrace(how, pid, 0, (void *)(long)sig) || waitpid(pid, status, 0) != pid || !WIFSTOPPED(*status))
		return -1;
	if (WSTOPSIG(*status) == SIGTRAP && !ptrace(PTRACE_GETSIGINFO, pid, 0, &si) && si.si_code != SI_KERNEL)
		return 0;
	return WSTOPSIG(*status);
}

/*
 * A signal's handler runs to its SIGSTOP and then step by step back to where the signal came. As step(); nothing where
 * the signal is blocked.
 */
static int interrupt(pid_t pid, int *status)
{
	struct user_regs_struct before, now;
	int sig;

	ptrace(PTRACE_GETREGS, pid, 0, &before);
	sig = step(pid, PTRACE_SINGLESTEP, SIGUSR1, status);
	ptrace(PTRACE_GETREGS, pid, 0, &now);
	if (sig || now.rip != (unsigned long)on_signal)
		return sig;
	/* A popf in the code that is stepped through sets the trap flag, for good. */
	now.eflags &= ~TF;
	ptrace(PTRACE_SETREGS, pid, 0, &now);
	sig = step(pid, PTRACE_CONT, 0, status);
	for (int i = 0; (sig == SIGSTOP || !sig) && i < MOST; i++) {
		bool back = now.rax == SYS_rt_sigreturn &&
			    (ptrace(PTRACE_PEEKTEXT, pid, now.rip, 0) & 0xffff) == SYSCALL;

		sig = step(pid, PTRACE_SINGLESTEP, 0, status);
		ptrace(PTRACE_GETREGS, pid, 0, &now);
		if (back)
			return sig;
	}
	return sig ? sig : -1;
}

/* What the tracer sends stays with it; what breakpoints raise the program gets. */
static int to_pass(int sig)
{
	return sig == SIGSTOP || sig == SIGUSR1 || sig == SIGUSR2 ? 0 : sig;
}

/* From the SIGUSR2 before the call to the one behind it. */
static int step_through(pid_t pid, int *status)
{
	int sig = 0;

	for (int i = 0; i < MOST && sig >= 0; i++) {
		if (!sig)
			sig = interrupt(pid, status);
		if (sig == SIGUSR2)
			return 0;
		if (sig >= 0)
			sig = step(pid, PTRACE_SINGLESTEP, to_pass(sig), status);
	}
	return -1;
}

int main(void)
{
	int status = 0, sig;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(traced());
	waitpid(pid, &status, 0);
	while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR2 && !step_through(pid, &status)) {
		/* To the next call. */
		for (sig = 0; sig >= 0 && sig != SIGUSR2;)
			sig = step(pid, PTRACE_CONT, to_pass(sig), &status);
	}
	if (WIFSTOPPED(status))
		printf("# stopped by signal %d\n", WSTOPSIG(status));
	else if (WIFSIGNALED(status))
		printf("# ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
