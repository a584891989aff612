/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probes that the library puts into the C library for itself: signal actions that the program sets
 * later are kept as its own and ours stay in force; masks never block SIGTRAP; the dynamic linker
 * tells when modules come and go. What cannot be hooked (a static program without these functions)
 * is done without.
 */
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <string.h>

#include "host/self/hooks.h"
#include "host/self/trap.h"

static __thread struct sigaction given __attribute__((tls_model("initial-exec")));
static __thread sigset_t mask __attribute__((tls_model("initial-exec")));

#define TRAP_BIT (1ul << (SIGTRAP - 1))

/* sigset_t begins with the kernel's 64 bits; sigset functions might be probed. */
static HIT unsigned long *bits(sigset_t *set)
{
	return (unsigned long *)set;
}

/* Return from the function at whose entry we are. */
static HIT int leave_with(struct pt_regs *regs, long value)
{
	regs->ax = (unsigned long)value;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += 8;
	return 1;
}

/* sigaction(sig, act, old) for a signal whose action is ours: only the notes change. */
static HIT void swap_action(struct self_action *a, const struct sigaction *act,
			    struct sigaction *old)
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
	const struct sigaction *act = (const struct sigaction *)regs->si;
	struct self_action *a = self_action((int)regs->di);

	if (a) {
		swap_action(a, act, (struct sigaction *)regs->dx);
		return leave_with(regs, 0);
	}
	if (act && *bits((sigset_t *)&act->sa_mask) & TRAP_BIT) {
		const u64 *from = (const u64 *)act;

		for (u32 i = 0; i < sizeof(given) / 8; i++)
			((u64 *)&given)[i] = from[i];
		*bits(&given.sa_mask) &= ~TRAP_BIT;
		regs->si = (unsigned long)&given;
	}
	return 0;
}

static HIT int on_sigmask(struct kprobe *kp, struct pt_regs *regs)
{
	const sigset_t *set = (const sigset_t *)regs->si;

	if (set && (int)regs->di != SIG_UNBLOCK && *bits((sigset_t *)set) & TRAP_BIT) {
		for (u32 i = 0; i < sizeof(mask) / 8; i++)
			((u64 *)&mask)[i] = ((const u64 *)set)[i];
		*bits(&mask) &= ~TRAP_BIT;
		regs->si = (unsigned long)&mask;
	}
	return 0;
}

static int on_linker(struct kprobe *kp, struct pt_regs *regs)
{
	if (_r_debug.r_state == RT_CONSISTENT)
		self_modules_changed();
	return 0;
}

static struct hook {
	const char *name;
	u32 flags;
	struct kprobe kp;
	struct dp_mgr_probe k;
} hooks[] = {
    {"libc:sigaction", DP_KPROBE_ALWAYS | DP_KPROBE_GENERAL, {.pre_handler = on_sigaction}},
    {"libc:pthread_sigmask", DP_KPROBE_ALWAYS | DP_KPROBE_GENERAL, {.pre_handler = on_sigmask}},
    {NULL, 0, {.pre_handler = on_linker}},
};

int self_hooks_init(struct dp_error *err)
{
	struct dp_error why;

	for (u32 i = 0; i < DP_ARRAY_SIZE(hooks); i++) {
		struct hook *h = &hooks[i];
		u64 addr = 0;

		if (h->name && self_lookup(h->name, &addr, &why))
			continue;
		if (!h->name)
			addr = (u64)_r_debug.r_brk;
		if (!addr || h->k.point)
			continue;
		h->k.flags = h->flags;
		h->k.owner = &h->kp;
		dp_mgr_attach(&self_manager, addr, &h->k, &why);
	}
	return dp_mgr_apply(&self_manager, err);
}
