/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The second net: a thread that arrives at a trapping byte is sent on to the copy of the
 * instruction that stood there. Signals of our watchpoints go to hit-watch.c and page.c, every other one to the
 * program's own handler, which runs as if the kernel had called it: with its mask, on its stack, in a frame that
 * leads back through the program's own restorer. Nothing of ours is on the stack then, so our code may go away
 * meanwhile.
 */
#include "abi/abi-page.h"
#include "abi/abi-point.h"
#include "abi/abi-watch.h"
#include "hit/hit-priv.h"

#define SIGTRAP_NR 5
#define SIGSEGV_NR 11
#define SYS_RT_SIGACTION 13
#define SYS_RT_SIGPROCMASK 14
#define SYS_GETPID 39
#define SYS_GETTID 186
#define SYS_TGKILL 234
#define SYS_RT_TGSIGQUEUEINFO 297
#define SIG_BLOCK_HOW 0
#define SA_RESTORER_BIT 0x04000000u
#define SA_ONSTACK_BIT 0x08000000u
#define SA_NODEFER_BIT 0x40000000u
#define SA_RESETHAND_BIT 0x80000000u
#define SS_DISABLE_VALUE 2
#define SS_AUTODISARM_BIT 0x80000000u
#define SI_KERNEL_CODE 128
#define SI_QUEUE_CODE (-1)
#define RED_ZONE 128
#define PAGE 4096ull

enum { HANDLER, FLAGS, RESTORER, MASK }; /* words of a signal action */

struct frame { /* as the kernel builds it; the floating point state lies above */
	u64 restorer;
	u64 uc[DP_CTX_WORDS];
	u64 info[16];
};

static u64 bit_of(int sig)
{
	return 1ull << (sig - 1);
}

/*
 * The signal comes once more when the handler has returned: with the interrupted registers, for a core or for a
 * handler.
 */
static s64 send_again(int sig, const void *info)
{
	u64 bit = bit_of(sig), pid = (u64)dp_syscall(SYS_GETPID, 0, 0, 0, 0, 0, 0);
	u64 tid = (u64)dp_syscall(SYS_GETTID, 0, 0, 0, 0, 0, 0);
	s64 r;

	dp_syscall(SYS_RT_SIGPROCMASK, SIG_BLOCK_HOW, (u64)&bit, 0, 8, 0, 0);
	r = dp_syscall(SYS_RT_TGSIGQUEUEINFO, pid, tid, (u64)sig, (u64)info, 0, 0);
	return r ? dp_syscall(SYS_TGKILL, pid, tid, (u64)sig, 0, 0, 0) : 0;
}

/* No handler: the kernel is to do what it would have done. */
static void do_default(int sig, struct frame *f, const u64 *old)
{
	const struct dp_siginfo *info = (const struct dp_siginfo *)f->info;
	u64 action[4] = {0, old[FLAGS], old[RESTORER], old[MASK]};

	if (info->code <= 0 && dp_syscall(SYS_GETPID, 0, 0, 0, 0, 0, 0) == 1)
		return; /* the first process of a container does not get such a signal at all */
	dp_syscall(SYS_RT_SIGACTION, (u64)sig, (u64)action, 0, 8, 0, 0);
	if (sig == SIGSEGV_NR && info->code > 0)
		return; /* the instruction faults again */
	if (send_again(sig, info) && info->code == SI_KERNEL_CODE)
		f->uc[DP_CTX_IP]--; /* no such calls allowed: the breakpoint strikes again */
}

/*
 * The kernel cannot give a handler its frame either: the program gets SIGSEGV, and dies if that is what it was about.
 */
static void fail_frame(int sig, struct frame *f, const u64 *old)
{
	u64 info[16] = {SIGSEGV_NR, SI_KERNEL_CODE};

	if (sig == SIGSEGV_NR)
		do_default(sig, f, old);
	else
		send_again(SIGSEGV_NR, info);
}

static u64 fp_bytes(const u64 *fp)
{
	const u32 *software = (const u32 *)((const u8 *)fp + 464); /* magic, size with all that follows */

	return !fp ? 0 : software[0] == 0x46505853 ? software[1] : 512;
}

/* What lies there can be written; a stack grows where the kernel would let it. */
static bool writable(u64 lo, u64 hi, const struct dp_control *ctl)
{
	if (!(ctl->caps & DP_CAP_PROBE_READ))
		return true;
	for (u64 at = lo; at < hi; at = (at & ~(PAGE - 1)) + PAGE)
		if (dp_syscall(SYS_RT_SIGPROCMASK, SIG_BLOCK_HOW, 0, at, 8, 0, 0))
			return false;
	return true;
}

/*
 * We asked for the alternate stack, since a goroutine's has no room, say. A handler that has not asked for it gets its
 * frame where the kernel would have put it. NULL: it does not fit.
 */
static struct frame *place(struct frame *f, const u64 *old, const struct dp_control *ctl)
{
	u64 alt = f->uc[DP_CTX_ALT], size = f->uc[DP_CTX_ALT_SIZE], sp = f->uc[DP_CTX_SP];
	u64 bytes = fp_bytes((const u64 *)f->uc[DP_CTX_STATE]), fp, to;

	if (old[FLAGS] & SA_ONSTACK_BIT || !size || (u64)f - alt >= size ||
	    (sp - alt - 1 < size && !(f->uc[DP_CTX_ALT_FLAGS] & SS_AUTODISARM_BIT)))
		return f;
	fp = (sp - RED_ZONE - bytes) & ~63ull;
	to = ((fp - sizeof(*f)) & ~15ull) - 8;
	if (!writable(to, sp - RED_ZONE, ctl))
		return NULL;
	memcpy((void *)fp, (const void *)f->uc[DP_CTX_STATE], bytes);
	memcpy((void *)to, f, sizeof(*f));
	f = (struct frame *)to;
	if (bytes)
		f->uc[DP_CTX_STATE] = fp;
	return f;
}

/* The context in which a handler begins; rt_sigreturn enters it, which sets mask, stack and registers in one step. */
static void begin_handler(u64 *start, int sig, struct frame *f, const u64 *old)
{
	memcpy(start, f->uc, sizeof(f->uc));
	start[DP_CTX_ARG0] = (u64)sig;
	start[DP_CTX_ARG1] = (u64)f->info;
	start[DP_CTX_ARG2] = (u64)f->uc;
	start[DP_CTX_RESULT] = 0;
	start[DP_CTX_IP] = old[HANDLER];
	start[DP_CTX_SP] = (u64)f;
	start[DP_CTX_FLAGS] &= ~DP_CTX_FLAGS_CLEARED;
	start[DP_CTX_STATE] = 0; /* the initial state, as ever */
	start[DP_CTX_MASK] |= old[MASK] | (old[FLAGS] & SA_NODEFER_BIT ? 0 : bit_of(sig));
	if (start[DP_CTX_ALT_FLAGS] & SS_AUTODISARM_BIT) { /* it is disarmed now */
		start[DP_CTX_ALT] = start[DP_CTX_ALT_SIZE] = 0;
		start[DP_CTX_ALT_FLAGS] = SS_DISABLE_VALUE;
	}
	f->restorer = old[RESTORER];
}

/* Give the signal the fate that it would have had without us. True: with the context in start. */
static bool chain(int sig, struct frame *f, const u64 *old, u64 *start, const struct dp_control *ctl)
{
	const struct dp_siginfo *info = (const struct dp_siginfo *)f->info;
	struct frame *to;

	if (old[HANDLER] == 1 && info->code <= 0)
		return false; /* ignored, and sent by somebody: stays ignored */
	if (old[HANDLER] <= 1 ||
	    (old[FLAGS] & SA_RESETHAND_BIT &&
	     __atomic_fetch_or((u64 *)ctl->signals, bit_of(sig), __ATOMIC_RELAXED) & bit_of(sig))) {
		do_default(sig, f, old);
		return false;
	}
	to = old[FLAGS] & SA_RESTORER_BIT ? place(f, old, ctl) : NULL;
	if (to)
		begin_handler(start, sig, to, old);
	else
		fail_frame(sig, f, old);
	return to;
}

/*
 * Of a watchpoint of ours, which has been dealt with; or of one that nobody has any more: a program knows nothing of
 * such signals. One of another session is passed on to its handler, if there may be one below ours.
 */
static bool is_watch(const struct dp_siginfo *si, u64 *uc, const struct dp_control *ctl, bool above)
{
	u64 data = si->perf.data;

	if (DP_WATCH_OF(data) == DP_WATCH_DATA(DP_WATCH_MAGIC, ctl->region_lo, 0))
		dp_on_watch(si, uc, ctl);
	else if (DP_WATCH_OF(data) == DP_WATCH_DATA(DP_PAGE_MAGIC, ctl->region_lo, 0))
		dp_on_page(si, uc, ctl);
	else
		return (data >> 48 == DP_WATCH_MAGIC || data >> 48 == DP_PAGE_MAGIC) && !above;
	return true;
}

/* As the control block has them from `above` on. */
struct actions {
	u64 above, trap[4], segv[4];
};

/*
 * All of it from before another session went, or from after that. The words change while no thread runs, so who was
 * stopped between two of them finds others when it looks again.
 */
static void take_actions(struct actions *to, const struct dp_control *ctl)
{
	const u64 *from = &ctl->above;
	u64 *v = &to->above;
	u64 differ;

	_Static_assert(offsetof(struct dp_control, old_segv) == offsetof(struct dp_control, above) + 5 * 8,
		       "nine words");
	do {
		differ = 0;
		for (u32 i = 0; i < sizeof(*to) / 8; i++)
			v[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
		/* Pairs with change_actions(): a stop between these two looks orders all that it writes. */
		__atomic_signal_fence(__ATOMIC_ACQUIRE);
		for (u32 i = 0; i < sizeof(*to) / 8; i++)
			differ |= v[i] ^ __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	} while (differ);
}

bool dp_on_signal(int sig, void *info, u64 *uc, const struct dp_control *ctl, u64 *start)
{
	struct dp_siginfo *si = info;
	bool marked = si->code == SI_QUEUE_CODE && si->sent.value == DP_REDIRECTED;
	struct actions old;
	u64 to = 0;

	_Static_assert(sizeof(struct frame) == 440, "struct rt_sigframe");
	take_actions(&old, ctl);
	if (si->code == DP_TRAP_PERF && sig == SIGTRAP_NR && is_watch(si, uc, ctl, old.above))
		return false;
	if (si->code == SI_KERNEL_CODE || marked) /* raised by an instruction */
		to = dp_redirect_find((const struct dp_redirect *)ctl->redirects, ctl->nredirects,
				      uc[DP_CTX_IP] - (sig == SIGTRAP_NR));
	if (to)
		uc[DP_CTX_IP] = to;
	else if (!marked)
		return chain(sig, (struct frame *)(uc - 1), sig == SIGTRAP_NR ? old.trap : old.segv, start, ctl);
	return false;
}
