/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The second net: a thread that arrives at a trapping byte is sent on to the copy of the
 * instruction that stood there. Signals of our watchpoints go to watch.c and page.c, every other one to the
 * program's own handler.
 */
#include "hit/hit-priv.h"

#define SIGTRAP_NR 5
#define SYS_RT_SIGACTION 13
#define SYS_GETPID 39
#define SYS_GETTID 186
#define SYS_TGKILL 234
#define SA_SIGINFO_BIT 4
#define SA_RESETHAND_BIT 0x80000000u
#define SI_KERNEL_CODE 128
#define SI_QUEUE_CODE (-1)

/* Give the signal the fate that it would have had without us. */
static void chain(int sig, struct dp_siginfo *info, u64 *uc, const u64 *old)
{
	typedef void (*handler_fn)(int, void *, void *);

	if (old[0] > 1) {
		((handler_fn)old[0])(sig, info, uc);
		return;
	}
	if (old[0] == 1 && info->code <= 0)
		return; /* ignored, and sent by somebody: stays ignored */
	/* Default: put it back and let the cause strike again. */
	dp_syscall(SYS_RT_SIGACTION, (u64)sig, (u64)old, 0, 8, 0, 0);
	if (sig == SIGTRAP_NR && info->code == SI_KERNEL_CODE)
		uc[DP_UC_IP]--;
	else if (info->code <= 0 || sig == SIGTRAP_NR)
		dp_syscall(SYS_TGKILL, (u64)dp_syscall(SYS_GETPID, 0, 0, 0, 0, 0, 0),
			   (u64)dp_syscall(SYS_GETTID, 0, 0, 0, 0, 0, 0), (u64)sig, 0, 0, 0);
}

void dp_on_signal(int sig, void *info, void *ucontext, const struct dp_control *ctl)
{
	u64 *uc = ucontext;
	struct dp_siginfo *si = info;
	bool marked = si->code == SI_QUEUE_CODE && si->sent.value == DP_REDIRECTED;
	u64 to = 0;

	if (si->code == DP_TRAP_PERF && sig == SIGTRAP_NR && si->perf.data >> 32 == DP_WATCH_MAGIC) {
		dp_on_watch(si, uc, ctl);
		return;
	}
	if (si->code == DP_TRAP_PERF && sig == SIGTRAP_NR && si->perf.data >> 32 == DP_PAGE_MAGIC) {
		dp_on_page(si, uc, ctl);
		return;
	}
	if (si->code == SI_KERNEL_CODE || marked) /* raised by an instruction */
		to = dp_redirect_find((const struct dp_redirect *)ctl->redirects, ctl->nredirects, uc[DP_UC_IP] - (sig == SIGTRAP_NR));
	if (to)
		uc[DP_UC_IP] = to;
	else if (!marked)
		chain(sig, si, uc, sig == SIGTRAP_NR ? ctl->old_trap : ctl->old_segv);
}
