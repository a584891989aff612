/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Signals. A breakpoint's SIGTRAP only moves the program counter into the point's slot: handlers of
 * probes run after the return from the signal. Faults in copies of instructions are reported as
 * faults of the originals. Whatever is not ours goes to the program's own action, which is kept
 * here.
 */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "abi/abi-watch.h"
#include "host/self/inside.h"
#include "host/self/trap.h"
#include "host/self/self-watch.h"
#include "arch/context.h" /* for struct pt_regs as declared above */

#define SA_RESTORER_FLAG 0x04000000

static const int signals[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct self_action actions[65]; /* the program's, by signal */
static bool installed;

int dp_self_pid;

/* self-entry.S */
void dp_self_restorer(void) __attribute__((visibility("hidden")));

HIT long dp_self_syscall(long nr, long a, long b, long c, long d)
{
	return (long)dp_call_system(nr, (u64)a, (u64)b, (u64)c, (u64)d, 0, 0);
}

static const u64 trap_bit = 1ull << (SIGTRAP - 1);

HIT struct self_action *dp_self_action(int sig)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(signals); i++)
		if (signals[i] == sig)
			return &actions[sig];
	return NULL;
}

/* The kernel's default action: for a fault by meeting it again, else by sending the signal once
 * more. */
static HIT void take_default(int sig, const siginfo_t *info)
{
	struct self_action dfl = {0};
	bool fault = info->si_code > 0 && sig != SIGTRAP;

	dp_self_syscall(SYS_rt_sigaction, sig, (long)&dfl, 0, 8);
	if (!fault)
		dp_self_syscall(SYS_tgkill, dp_self_syscall(SYS_getpid, 0, 0, 0, 0),
				dp_self_syscall(SYS_gettid, 0, 0, 0, 0), sig, 0);
}

/* Do what the kernel would have done with the program's action. */
static HIT void chain(int sig, siginfo_t *info, ucontext_t *uc)
{
	struct self_action a = actions[sig];
	u64 mask = a.mask & ~trap_bit, old;

	if (a.handler == (u64)SIG_DFL || (a.handler == (u64)SIG_IGN && info->si_code > 0)) {
		take_default(sig, info);
		return;
	}
	if (a.handler == (u64)SIG_IGN)
		return;
	if (!(a.flags & SA_NODEFER) && sig != SIGTRAP)
		mask |= 1ull << (sig - 1);
	if (a.flags & SA_RESETHAND)
		actions[sig].handler = (u64)SIG_DFL;
	dp_self_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, (long)&old, 8);
	((void (*)(int, siginfo_t *, void *))a.handler)(sig, info, uc);
	dp_self_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, 8);
}

/* Bytes at boundaries that raise a general protection fault instead of a breakpoint. */
static HIT bool traps_by_fault(u64 pc)
{
	return dp_code_faults(*(const volatile u8 *)pc);
}

static HIT bool redirect(int sig, ucontext_t *uc)
{
	u64 pc = (u64)dp_context_ip(uc), to;

	if (sig == SIGTRAP && dp_context_trap(uc) == 3)
		to = dp_mgr_redirect(&dp_self_manager, pc - 1);
	else if (sig == SIGSEGV && dp_context_trap(uc) == 13)
		to = dp_mgr_redirect(&dp_self_manager, pc);
	else
		return false;
	if (!to || (sig == SIGSEGV && !traps_by_fault(pc)))
		return false;
	dp_context_ip(uc) = (greg_t)to;
	return true;
}

/* A fault of the probed instruction itself: its probes' fault handlers are asked one after the
 * other. */
static HIT bool ask_point(struct dp_kpoint *p, struct pt_regs *regs, int trapnr)
{
	struct dp_hitlist *list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE); /* pairs with the release in relist() */

	for (u32 i = 0; list && i < list->n; i++) {
		struct kprobe *kp = list->v[i]->owner;

		if (kp->fault_handler && kp->fault_handler(kp, regs, trapnr))
			return true;
	}
	return false;
}

static HIT void fault_in_copy(int sig, siginfo_t *info, ucontext_t *uc, struct dp_kpoint *p, u64 home, bool probed)
{
	greg_t copy = dp_context_ip(uc);
	struct self_thread *t = probed ? dp_self_thread() : NULL;
	struct pt_regs regs;
	bool handled = false;

	dp_context_ip(uc) = (greg_t)home;
	if (t && self_enter(t, (u64)dp_context_sp(uc))) {
		dp_context_take(uc, &regs);
		handled = ask_point(p, &regs, (int)dp_context_trap(uc));
		self_leave(t);
		if (handled)
			dp_context_put(&regs, uc);
	}
	if (!handled)
		chain(sig, info, uc);
	if (dp_context_ip(uc) == (greg_t)home) /* again, without a second hit */
		dp_context_ip(uc) = copy;
}

static HIT bool fault_in_handler(ucontext_t *uc)
{
	struct self_thread *t = dp_self_thread();
	struct kprobe *kp = t && t->depth ? t->kp : NULL;
	struct pt_regs regs;
	int r;

	if (!kp || !kp->fault_handler)
		return false;
	t->kp = NULL; /* a fault in the fault handler is not asked about */
	dp_context_take(uc, &regs);
	r = kp->fault_handler(kp, &regs, (int)dp_context_trap(uc));
	t->kp = kp;
	if (r)
		dp_context_put(&regs, uc);
	return r;
}

/* What the kernel tells of a performance event's signal, behind the address; older headers lack it. */
struct perf_part {
	u64 data;
	u32 type, flags;
};

#define PERF_FLAG_ASYNC 1 /* SIGTRAP was blocked at the access */

/* A watchpoint's signal. False: somebody else's. */
static HIT bool watch_hit(const siginfo_t *info, ucontext_t *uc)
{
	const struct perf_part *perf = (const struct perf_part *)((const u8 *)info + 24);
	struct self_thread *t;
	struct watchpoint *w;
	struct pt_regs regs;
	bool inside;
	u32 slot;

	if (info->si_code != DP_TRAP_PERF || perf->data >> 32 != SELF_WATCH_MAGIC)
		return false;
	slot = (u32)perf->data;
	t = dp_self_thread();
	if (slot >= SELF_WATCHES || !t)
		return true;
	/* If not here, this thread is inside a hit already: the grace period waits for it in both cases. */
	inside = self_enter(t, (u64)dp_context_sp(uc));
	/* Pairs with the release in self-watch.c. */
	w = __atomic_load_n(&dp_self_watched[slot], __ATOMIC_ACQUIRE);
	if (w && inside && !(perf->flags & PERF_FLAG_ASYNC)) {
		dp_context_take(uc, &regs);
		w->handler(w, &regs, w->addr);
		dp_context_put(&regs, uc);
	} else if (w) {
		__atomic_fetch_add(&w->nmissed, 1, __ATOMIC_RELAXED);
	}
	if (inside)
		self_leave(t);
	return true;
}

static HIT void on_signal(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	struct dp_kpoint *p = NULL;
	u32 index = 0;
	int saved;
	u64 home;

	if (redirect(sig, uc))
		return;
	saved = errno;
	if (sig == SIGTRAP && watch_hit(info, uc)) {
		errno = saved;
		return;
	}
	if (info->si_code > 0 && sig != SIGTRAP) {
		home = dp_mgr_home(&dp_self_manager, (u64)dp_context_ip(uc), &p, &index);
		if (home) {
			fault_in_copy(sig, info, uc, p, home, !index);
			errno = saved;
			return;
		}
		if (fault_in_handler(uc)) {
			errno = saved;
			return;
		}
	}
	chain(sig, info, uc);
	errno = saved;
}

/*
 * The program's other handlers must not block SIGTRAP: a breakpoint met there would end the
 * program.
 */
static int open_masks(void)
{
	struct self_action a;

	for (int sig = 1; sig <= 64; sig++) {
		if (dp_self_action(sig) || sig == SIGKILL || sig == SIGSTOP)
			continue;
		if (dp_self_syscall(SYS_rt_sigaction, sig, 0, (long)&a, 8) || !(a.mask & trap_bit))
			continue;
		a.mask &= ~trap_bit;
		dp_self_syscall(SYS_rt_sigaction, sig, (long)&a, 0, 8);
	}
	return 0;
}

int dp_self_trap_init(struct dp_error *err)
{
	struct self_action ours = {.handler = (u64)on_signal,
				   .flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART | SA_RESTORER_FLAG,
				   .restorer = (u64)dp_self_restorer};
	u64 unblock = trap_bit;

	dp_self_pid = (int)dp_self_syscall(SYS_getpid, 0, 0, 0, 0);
	dp_self_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&unblock, 0, 8);
	for (u32 i = 0; i < DP_ARRAY_SIZE(signals) && !installed; i++)
		if (dp_self_syscall(SYS_rt_sigaction, signals[i], (long)&ours, (long)&actions[signals[i]], 8))
			return dp_fail(err, E_KPROBE_SIGNAL, "signal %d", signals[i]);
	installed = true; /* a second attempt must not take ours for the program's */
	return open_masks();
}
