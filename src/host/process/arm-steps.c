/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Steps of arming that extend.c and change.c take as well: calls of the process, the control block without its tables,
 * and the second net: our handlers before those that stand there.
 */
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "host/process/arm-priv.h"
#include "host/process/owners.h"

/*
 * SA_SIGINFO, SA_RESTORER, SA_ONSTACK (goroutines have no room for a frame), SA_NODEFER. While our handler runs no
 * other one interrupts it: only what an instruction raises is not blocked, since that would be fatal.
 */
#define SA_FLAGS (0x4 | 0x04000000 | 0x08000000 | 0x40000000)
#define SA_MASK                                                                                                       \
	(~(SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGFPE) | \
	   SIGNAL_BIT(SIGSYS)))

int dp_arm_calls(struct arming *a, struct dp_call *v, u32 n, const char *what, struct dp_error *err)
{
	int r = dp_remote_calls(&a->remote, v, n, err);

	for (u32 i = 0; i < n && !r; i++)
		if (v[i].ret < 0 && v[i].ret > -4096)
			r = dp_fail(err, E_TARGET_CALL, "%s (call %lld): %s", what, (long long)v[i].nr,
				    strerror((int)-v[i].ret));
	return r;
}

int dp_arm_put_control(struct arming *a, struct dp_error *err)
{
	a->s->block.ctl = *a->ctl;
	dp_record_update(a->s);
	return dp_mem_write(&a->mem, a->s->control, a->ctl, sizeof(*a->ctl), err);
}

/* ---- signals ---- */

/* A system call that the signal interrupts goes on where it would have gone on without us. */
static void make_action(u64 v[4], u64 base, const struct dp_blob_head *head, const u64 old[4])
{
	v[0] = base + head->signal_entry;
	v[1] = SA_FLAGS | (old[0] <= 1 ? SA_RESTART : old[1] & SA_RESTART);
	v[2] = base + head->restorer;
	v[3] = SA_MASK;
}

static int put_action(struct arming *a, int sig, const u64 v[4], struct dp_error *err)
{
	u64 scratch = a->remote.table + 3072;
	struct dp_call put = {SYS_rt_sigaction, {(u64)sig, scratch, 0, 8}, 0};
	int r = dp_mem_write(&a->mem, scratch, v, 4 * sizeof(*v), err);

	if (!r)
		r = dp_arm_calls(a, &put, 1, "rt_sigaction", err);
	if (!r) {
		a->tracer.handled |= SIGNAL_BIT(sig);
		a->tracer.lost &= ~SIGNAL_BIT(sig);
	}
	return r;
}

/* The second net: our handler before the program's own, whose action is remembered. */
int dp_arm_take_signal(struct arming *a, int sig, u64 old[4], struct dp_error *err)
{
	u64 scratch = a->remote.table + 3072, ours[4];
	struct dp_call ask = {SYS_rt_sigaction, {(u64)sig, 0, scratch, 8}, 0};
	int r = dp_arm_calls(a, &ask, 1, "rt_sigaction", err);

	if (!r)
		r = dp_mem_read(&a->mem, scratch, old, 4 * sizeof(*old), err);
	if (r)
		return r;
	if (sig == SIGTRAP)
		a->ctl->above = dp_owners_handler(&a->mem, &a->now, old[0]);
	make_action(ours, a->s->region, (const struct dp_blob_head *)dp_blob, old);
	/* Known to the handler before it can be called, and to a successor before it has to put it back. */
	r = dp_arm_put_control(a, err);
	return r ? r : put_action(a, sig, ours, err);
}

/* The first of all handlers again: the others stand below it. */
static int renew_signal(struct arming *a, int sig, struct dp_error *err)
{
	const struct dp_blob_head *head = (const struct dp_blob_head *)dp_blob;
	struct dp_owner top;
	u64 v[4];

	if (dp_owners_top(&a->mem, &a->now, a->ctl, sig, &top))
		head = &top.head;
	make_action(v, top.ctl.region_lo, head, sig == SIGTRAP ? top.ctl.old_trap : top.ctl.old_segv);
	return put_action(a, sig, v, err);
}

int dp_arm_renew_signals(struct arming *a, struct dp_error *err)
{
	int r = 0;

	if (a->tracer.lost & SIGNAL_BIT(SIGTRAP))
		r = renew_signal(a, SIGTRAP, err);
	if (!r && a->tracer.lost & SIGNAL_BIT(SIGSEGV))
		r = renew_signal(a, SIGSEGV, err);
	return r;
}
