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

#include "hit/hit.h"
#include "host/self/inside.h"
#include "host/self/trap.h"
#include "host/self/watch.h"

#define SA_RESTORER_FLAG 0x04000000

static const int signals[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct self_action actions[65]; /* the program's, by signal */
static bool installed;

int self_pid;

/* The bytes by which unwinders know a signal frame. */
__asm__(".section dprobes_text,\"ax\",@progbits\n"
	".type dp_self_restorer, @function\n"
	"dp_self_restorer: mov $15, %rax\n"
	"syscall\n"
	".size dp_self_restorer, . - dp_self_restorer\n"
	".previous\n");
void dp_self_restorer(void) __attribute__((visibility("hidden")));

HIT long self_syscall(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return r;
}

static const u64 trap_bit = 1ull << (SIGTRAP - 1);

HIT struct self_action *self_action(int sig)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(signals); i++)
		if (signals[i] == sig)
			return &actions[sig];
	return NULL;
}

static HIT void from_context(const ucontext_t *uc, struct pt_regs *r)
{
	const greg_t *g = uc->uc_mcontext.gregs;

	*r = (struct pt_regs){
	    g[REG_R15], g[REG_R14], g[REG_R13], g[REG_R12], g[REG_RBP], g[REG_RBX], g[REG_R11],
	    g[REG_R10], g[REG_R9],  g[REG_R8],  g[REG_RAX], g[REG_RCX], g[REG_RDX], g[REG_RSI],
	    g[REG_RDI], -1ul,       g[REG_RIP], 0x33,       g[REG_EFL], g[REG_RSP], 0x2b};
}

static HIT void to_context(const struct pt_regs *r, ucontext_t *uc)
{
	greg_t *g = uc->uc_mcontext.gregs;

	g[REG_R15] = (greg_t)r->r15;
	g[REG_R14] = (greg_t)r->r14;
	g[REG_R13] = (greg_t)r->r13;
	g[REG_R12] = (greg_t)r->r12;
	g[REG_RBP] = (greg_t)r->bp;
	g[REG_RBX] = (greg_t)r->bx;
	g[REG_R11] = (greg_t)r->r11;
	g[REG_R10] = (greg_t)r->r10;
	g[REG_R9] = (greg_t)r->r9;
	g[REG_R8] = (greg_t)r->r8;
	g[REG_RAX] = (greg_t)r->ax;
	g[REG_RCX] = (greg_t)r->cx;
	g[REG_RDX] = (greg_t)r->dx;
	g[REG_RSI] = (greg_t)r->si;
	g[REG_RDI] = (greg_t)r->di;
	g[REG_RIP] = (greg_t)r->ip;
	g[REG_EFL] = (greg_t)r->flags;
	g[REG_RSP] = (greg_t)r->sp;
}

/* The kernel's default action: for a fault by meeting it again, else by sending the signal once
 * more. */
static HIT void take_default(int sig, const siginfo_t *info)
{
	struct self_action dfl = {0};
	bool fault = info->si_code > 0 && sig != SIGTRAP;

	self_syscall(SYS_rt_sigaction, sig, (long)&dfl, 0, 8);
	if (!fault)
		self_syscall(SYS_tgkill, self_syscall(SYS_getpid, 0, 0, 0, 0),
			     self_syscall(SYS_gettid, 0, 0, 0, 0), sig, 0);
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
	self_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, (long)&old, 8);
	((void (*)(int, siginfo_t *, void *))a.handler)(sig, info, uc);
	self_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, 8);
}

/* Bytes at boundaries that raise a general protection fault instead of a breakpoint. */
static HIT bool traps_by_fault(u64 pc)
{
	u8 b = *(const volatile u8 *)pc;

	return (b >= 0x6c && b <= 0x6f) || (b >= 0xec && b <= 0xef) || b == 0xf4 || b == 0xfa ||
	       b == 0xfb;
}

static HIT bool redirect(int sig, ucontext_t *uc)
{
	greg_t *g = uc->uc_mcontext.gregs;
	u64 pc = (u64)g[REG_RIP], to;

	if (sig == SIGTRAP && g[REG_TRAPNO] == 3)
		to = dp_mgr_redirect(&self_manager, pc - 1);
	else if (sig == SIGSEGV && g[REG_TRAPNO] == 13)
		to = dp_mgr_redirect(&self_manager, pc);
	else
		return false;
	if (!to || (sig == SIGSEGV && !traps_by_fault(pc)))
		return false;
	g[REG_RIP] = (greg_t)to;
	return true;
}

/* A fault of the probed instruction itself: its probes' fault handlers are asked one after the
 * other. */
static HIT bool ask_point(struct dp_kpoint *p, struct pt_regs *regs, int trapnr)
{
	struct dp_hitlist *list = __atomic_load_n(&p->list, __ATOMIC_ACQUIRE);

	for (u32 i = 0; list && i < list->n; i++) {
		struct kprobe *kp = list->v[i]->owner;

		if (kp->fault_handler && kp->fault_handler(kp, regs, trapnr))
			return true;
	}
	return false;
}

static HIT void fault_in_copy(int sig, siginfo_t *info, ucontext_t *uc, struct dp_kpoint *p,
			      u64 home, bool probed)
{
	greg_t *g = uc->uc_mcontext.gregs;
	greg_t copy = g[REG_RIP];
	struct self_thread *t = probed ? self_thread() : NULL;
	struct pt_regs regs;
	bool handled = false;

	g[REG_RIP] = (greg_t)home;
	if (t && self_enter(t, (u64)g[REG_RSP])) {
		from_context(uc, &regs);
		handled = ask_point(p, &regs, (int)g[REG_TRAPNO]);
		self_leave(t);
		if (handled)
			to_context(&regs, uc);
	}
	if (!handled)
		chain(sig, info, uc);
	if (g[REG_RIP] == (greg_t)home) /* again, without a second hit */
		g[REG_RIP] = copy;
}

static HIT bool fault_in_handler(ucontext_t *uc)
{
	struct self_thread *t = self_thread();
	struct kprobe *kp = t && t->depth ? t->kp : NULL;
	struct pt_regs regs;
	int r;

	if (!kp || !kp->fault_handler)
		return false;
	t->kp = NULL; /* a fault in the fault handler is not asked about */
	from_context(uc, &regs);
	r = kp->fault_handler(kp, &regs, (int)uc->uc_mcontext.gregs[REG_TRAPNO]);
	t->kp = kp;
	if (r)
		to_context(&regs, uc);
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
	t = self_thread();
	if (slot >= SELF_WATCHES || !t)
		return true;
	/* If not here, this thread is inside a hit already: the grace period waits for it in both cases. */
	inside = self_enter(t, (u64)uc->uc_mcontext.gregs[REG_RSP]);
	/* Pairs with the release in watch.c. */
	w = __atomic_load_n(&self_watched[slot], __ATOMIC_ACQUIRE);
	if (w && inside && !(perf->flags & PERF_FLAG_ASYNC)) {
		from_context(uc, &regs);
		w->handler(w, &regs, w->addr);
		to_context(&regs, uc);
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
		home = dp_mgr_home(&self_manager, (u64)uc->uc_mcontext.gregs[REG_RIP], &p, &index);
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
		if (self_action(sig) || sig == SIGKILL || sig == SIGSTOP)
			continue;
		if (self_syscall(SYS_rt_sigaction, sig, 0, (long)&a, 8) || !(a.mask & trap_bit))
			continue;
		a.mask &= ~trap_bit;
		self_syscall(SYS_rt_sigaction, sig, (long)&a, 0, 8);
	}
	return 0;
}

int self_trap_init(struct dp_error *err)
{
	struct self_action ours = {.handler = (u64)on_signal,
				   .flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART |
					    SA_RESTORER_FLAG,
				   .restorer = (u64)dp_self_restorer};
	u64 unblock = trap_bit;

	self_pid = (int)self_syscall(SYS_getpid, 0, 0, 0, 0);
	self_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&unblock, 0, 8);
	for (u32 i = 0; i < DP_ARRAY_SIZE(signals) && !installed; i++)
		if (self_syscall(SYS_rt_sigaction, signals[i], (long)&ours,
				 (long)&actions[signals[i]], 8))
			return dp_fail(err, E_KPROBE_SIGNAL, "signal %d", signals[i]);
	installed = true; /* a second attempt must not take ours for the program's */
	return open_masks();
}
