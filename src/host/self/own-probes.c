/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probes that the library puts into the C library for itself: signal actions that the program sets
 * later are kept as its own and ours stay in force; masks that it sets, or waits with, never block
 * SIGTRAP; the dynamic linker tells when modules come and go. What cannot be hooked (a static
 * program without these functions) is done without.
 */
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <sys/syscall.h>

#include "host/self/own-probes.h"
#include "host/self/host.h"
#include "host/self/trap.h"

static __thread struct sigaction given __attribute__((tls_model("initial-exec")));

#define TRAP_BIT (1ul << (SIGTRAP - 1))

/* sigset_t begins with the kernel's 64 bits; sigset functions might be probed. */
static HIT unsigned long *bits(sigset_t *set)
{
	return (unsigned long *)set;
}

/* Return from the function at whose entry we are. */
static HIT int leave_with(struct pt_regs *regs, long value)
{
	dp_regs_result(regs) = (unsigned long)value;
	dp_regs_ip(regs) = *(unsigned long *)dp_regs_sp(regs);
	dp_regs_sp(regs) += 8;
	return 1;
}

/* sigaction(sig, act, old) for a signal whose action is ours: only the notes change. */
static HIT void swap_action(struct self_action *a, const struct sigaction *act, struct sigaction *old)
{
	struct self_action new = *a;

	if (act) {
		new.handler = (u64)act->sa_handler;
		new.flags = (u64)(unsigned)act->sa_flags;
		new.mask = *bits((sigset_t *)&act->sa_mask);
	}
	if (old) {
		for (u32 i = 0; i < sizeof(old->sa_mask) / sizeof(long); i++)
			bits(&old->sa_mask)[i] = 0;
		old->sa_handler = (void (*)(int))a->handler;
		old->sa_flags = (int)(a->flags & ~0x04000000ul);
		*bits(&old->sa_mask) = a->mask;
	}
	*a = new;
}

static HIT int on_sigaction(struct kprobe *kp, struct pt_regs *regs)
{
	const struct sigaction *act = (const struct sigaction *)dp_regs_arg(regs, 1);
	struct self_action *a = dp_self_action((int)dp_regs_arg(regs, 0));

	if (a) {
		/* A child on its way to another program shares our memory, but not our actions:
		 * what it sets is for that program, and must not take the handlers away before. */
		if (dp_self_syscall(SYS_getpid, 0, 0, 0, 0) != dp_self_pid)
			act = NULL;
		swap_action(a, act, (struct sigaction *)dp_regs_arg(regs, 2));
		return leave_with(regs, 0);
	}
	if (act && *bits((sigset_t *)&act->sa_mask) & TRAP_BIT) {
		const u64 *from = (const u64 *)act;

		for (u32 i = 0; i < sizeof(given) / 8; i++)
			((u64 *)&given)[i] = from[i];
		*bits(&given.sa_mask) &= ~TRAP_BIT;
		dp_regs_arg(regs, 1) = (unsigned long)&given;
	}
	return 0;
}

/* Masks of the calls that set one, or wait with one in force, by the argument that points to it. */
static HIT int on_sigmask(struct kprobe *kp, struct pt_regs *regs)
{
	if ((int)dp_regs_arg(regs, 0) != SIG_UNBLOCK)
		dp_self_open_mask(&dp_regs_arg(regs, 1));
	return 0;
}

#define ON_MASK(arg)                                                          \
	static HIT int on_mask_##arg(struct kprobe *kp, struct pt_regs *regs) \
	{                                                                     \
		dp_self_open_mask(&dp_regs_arg(regs, arg));                   \
		return 0;                                                     \
	}

ON_MASK(0)
ON_MASK(1)
ON_MASK(3)
ON_MASK(4)
ON_MASK(5)

static int on_linker(struct kprobe *kp, struct pt_regs *regs)
{
	if (_r_debug.r_state == RT_CONSISTENT)
		dp_self_modules_changed();
	return 0;
}

#define OURS (DP_MGR_ALWAYS | DP_MGR_GENERAL)

static struct own_probe {
	const char *name, *or_name;
	u32 flags;
	struct kprobe kp;
	struct dp_mgr_probe k;
} own_probes[] = {
    /* The inner one is what posix_spawn() and system() call. */
    {"libc:__libc_sigaction", "libc:sigaction", OURS, {.pre_handler = on_sigaction}},
    {"libc:pthread_sigmask", NULL, OURS, {.pre_handler = on_sigmask}},
    {"libc:pthread_attr_setsigmask_np", NULL, OURS, {.pre_handler = on_mask_1}},
    {"libc:sigsuspend", NULL, OURS, {.pre_handler = on_mask_0}},
    {"libc:ppoll", NULL, OURS, {.pre_handler = on_mask_3}},
    {"libc:epoll_pwait", NULL, OURS, {.pre_handler = on_mask_4}},
    {"libc:epoll_pwait2", NULL, OURS, {.pre_handler = on_mask_4}},
    {"libc:pselect", NULL, OURS, {.pre_handler = on_mask_5}},
    {NULL, NULL, 0, {.pre_handler = on_linker}},
};

static void attach(struct own_probe *h)
{
	struct dp_error why;
	u64 addr = 0;

	if (h->k.point)
		return;
	if (h->name && dp_self_lookup(h->name, &addr, &why) && (!h->or_name || dp_self_lookup(h->or_name, &addr, &why)))
		return;
	if (!h->name)
		addr = (u64)_r_debug.r_brk;
	if (!addr)
		return;
	h->k.flags = h->flags;
	h->k.owner = &h->kp;
	dp_mgr_attach(&dp_self_manager, addr, &h->k, &why);
}

/*
 * First the places that block everything for a moment; once each thread has been seen outside, none
 * comes into such a moment with SIGTRAP blocked any more. Then those that make children without handlers, until none
 * is on its way. Then the functions by which the program itself blocks signals; from then on no thread does that had
 * not done before.
 */
int dp_self_own_probes_init(struct dp_error *err)
{
	int r;

	dp_self_masks_attach();
	r = dp_mgr_apply(&dp_self_manager, err);
	if (r)
		return r;
	dp_self_masks_keep_jumps();
	r = dp_self_wait_unblocked(err);
	if (r)
		return r;
	dp_self_masks_attach_clones();
	r = dp_mgr_apply(&dp_self_manager, err);
	if (!r)
		r = dp_self_wait_unblocked(err);
	if (r)
		return r;
	for (u32 i = 0; i < DP_ARRAY_SIZE(own_probes); i++)
		attach(&own_probes[i]);
	r = dp_mgr_apply(&dp_self_manager, err);
	return r ? r : dp_self_wait_unblocked(err);
}
