/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Steps of arming that extend.c and change.c take as well: calls of the process, the control block without its tables,
 * the second net (our handlers before those that stand there), and the publication with what threads and children see.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/process/arm-priv.h"
#include "host/process/owners.h"
#include "host/process/publish-host.h"
#include "log/clock.h"

/*
 * SA_SIGINFO, SA_RESTORER, SA_ONSTACK (goroutines have no room for a frame), SA_NODEFER. While our handler runs no
 * other one interrupts it: only what an instruction raises is not blocked, since that would be fatal.
 */
#define SA_FLAGS (0x4 | 0x04000000 | 0x08000000 | 0x40000000)
#define SA_MASK                                                                                                       \
	(~(SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGFPE) | \
	   SIGNAL_BIT(SIGSYS)))

#define ANSWERS 2304 /* in the page of the calls: behind them, and before what others have in it */

int dp_arm_made(const struct dp_call *v, u32 n, const char *what, struct dp_error *err)
{
	for (u32 i = 0; i < n; i++)
		if (v[i].ret < 0 && v[i].ret > -4096)
			return dp_fail(err, E_TARGET_CALL, "%s (call %lld): %s", what, (long long)v[i].nr,
				       strerror((int)-v[i].ret));
	return 0;
}

int dp_arm_calls(struct arming *a, struct dp_call *v, u32 n, const char *what, struct dp_error *err)
{
	int r = dp_remote_calls(&a->remote, v, n, err);

	return r ? r : dp_arm_made(v, n, what, err);
}

int dp_arm_put_control(struct arming *a, struct dp_error *err)
{
	a->s->block.ctl = *a->ctl;
	dp_record_update(a->s);
	return dp_mem_write(&a->mem, a->s->control, a->ctl, sizeof(*a->ctl), err);
}

/* `push ns`: a line through two moments by both clocks. Taken once, so that it never runs backwards. */
void dp_arm_set_clock(struct arming *a)
{
	static struct dp_clock clock;

	if (!dp_session_uses(a->s, DP_OP_PUSH_NS))
		return;
	if (!clock.n) {
		dp_clock_start(&clock);
		nanosleep(&(struct timespec){0, 20000000}, NULL); /* the longer the line, the straighter */
		dp_clock_mark(&clock);
	}
	a->ctl->clock_tsc = clock.pair[0].tsc;
	a->ctl->clock_ns = clock.pair[0].ns;
	a->ctl->clock_mult = clock.mult;
}

struct dp_call *dp_arm_area_calls(const struct arming *a)
{
	struct dp_call *v = calloc(a->nareas + 1ull, sizeof(*v));

	for (u32 i = 0; v && i < a->nareas; i++)
		v[i] = (struct dp_call){SYS_mmap,
					{a->areas[i].lo, a->areas[i].hi - a->areas[i].lo, PROT_READ | PROT_EXEC,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (u64)-1, 0},
					0};
	return v;
}

int dp_arm_map_areas(struct arming *a, struct dp_error *err)
{
	struct dp_call *calls = dp_arm_area_calls(a);
	int r = calls ? 0 : dp_fail(err, E_ARM_NOMEM, "areas");

	for (u32 i = 0; i < a->nareas && !r; i += 32)
		r = dp_arm_calls(a, calls + i, DP_MIN(32u, a->nareas - i), "mapping the detours", err);
	free(calls);
	return r ? r : dp_arm_write_detours(a, err);
}

int dp_arm_attach(struct arming *a, pid_t pid, u32 tries, struct dp_error *err)
{
	struct dp_session *s = a->s;
	int r;

	for (u32 i = 1;; i++) {
		r = dp_tracer_attach(&a->tracer, pid, err);
		if (r != -dp_error_info(E_TARGET_TRACED)->number || i >= tries)
			break;
		dp_tracer_detach(&a->tracer);
		usleep(10000);
	}
	a->tracer.handled |= SIGNAL_BIT(SIGTRAP) | (s->block.ctl.segv_taken ? SIGNAL_BIT(SIGSEGV) : 0);
	if (!r)
		r = dp_remote_init(&a->remote, &a->tracer, &a->mem, &a->now, err);
	dp_remote_serve(&a->remote, s->region, (const struct dp_blob_head *)dp_blob, s->region + s->slots_off,
			s->nslots, false);
	return r;
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

static struct dp_call ask_for(const struct arming *a, int sig)
{
	u64 at = a->remote.table + ANSWERS + (sig == SIGSEGV) * 4 * sizeof(u64);

	return (struct dp_call){SYS_rt_sigaction, {(u64)sig, 0, at, 8}, 0};
}

void dp_arm_ask_signals(struct arming *a)
{
	u32 n = 1 + !!a->ctl->segv_taken;

	a->asking[0] = ask_for(a, SIGTRAP);
	a->asking[1] = n > 1 ? ask_for(a, SIGSEGV) : (struct dp_call){0};
	dp_remote_later(&a->remote, a->asking, n);
}

/* The second net: our handler before the program's own, whose action is remembered. */
int dp_arm_take_signal(struct arming *a, int sig, u64 old[4], struct dp_error *err)
{
	struct dp_call ask = a->asking[sig == SIGSEGV];
	u64 ours[4];
	int r = 0;

	if (ask.nr) {
		r = dp_arm_made(&ask, 1, "rt_sigaction", err);
	} else {
		ask = ask_for(a, sig);
		r = dp_arm_calls(a, &ask, 1, "rt_sigaction", err);
	}
	if (!r)
		r = dp_mem_read(&a->mem, ask.arg[2], old, 4 * sizeof(*old), err);
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

/* ---- bytes and threads ---- */

/*
 * Forked children that were held: their copies of the code may be in any step. Make them complete,
 * unless they were born before the first byte changed: those may lack the detours.
 */
void dp_arm_finish_children(struct arming *a)
{
	struct dp_patch *v = a->tracer.held ? dp_plan_patches(a->plan) : NULL;

	for (u32 i = 0; a->tracer.held && i < a->tracer.n; i++) {
		struct dp_thread *th = &a->tracer.v[i];
		bool begun = false;
		struct dp_mem mem;

		if (!th->foreign || th->gone || th->released)
			continue;
		if (!dp_mem_open(&mem, th->tid, NULL)) {
			begun = dp_block_begun(&mem, a->s->region, a->s->control);
			dp_mem_close(&mem);
		}
		if (begun && v)
			dp_patch_child(th->tid, &a->old, &(struct dp_patches){v, a->plan->npatches});
		dp_tracer_release(&a->tracer, th);
	}
	free(v);
}

/*
 * Each thread is stopped once and moved if it stands on a displaced instruction, then let go. each() sees it while it
 * is stopped: threads that it started before are in our table, those that it starts later inherit what parts set. So
 * each gets it once.
 */
int dp_arm_last_round(struct arming *a, int (*each)(struct dp_session *s, pid_t tid, struct dp_error *err),
		      struct dp_error *err)
{
	struct dp_tracer *t = &a->tracer;
	struct dp_moves mv = {.map = a->plan->redirects,
			      .nmap = a->plan->nredirects,
			      .slots = a->remote.slots,
			      .nslots = a->remote.nslots};
	struct dp_thread *th;
	int r = 0;

	dp_tracer_begin(t, false);
	do {
		dp_tracer_begin_pass(t);
		while (!r && (th = dp_tracer_next_stopped(t, 500000000))) {
			th->done = true;
			dp_move_thread(th, &a->mem, &a->now, &mv);
			if (each && !th->sharer)
				r = each(a->s, th->tid, err);
			if (!r)
				dp_tracer_release(t, th);
			dp_arm_finish_children(a); /* which do not wait for all the others */
		}
		for (u32 i = 0; !r && i < t->n; i++) {
			th = &t->v[i];
			if (th->done || th->foreign || th->gone || th->released)
				continue;
			th->done = true;
			a->unseen++; /* stuck in the kernel: the second net stays */
			if (each && !th->sharer)
				r = each(a->s, th->tid, err);
		}
		dp_arm_finish_children(a);
	} while (!r && dp_tracer_newborn(t));
	a->s->stats.moved += mv.moved;
	return r;
}

int dp_arm_begin_publish(struct arming *a, const struct dp_redirect *redirects, u32 n, struct dp_error *err)
{
	a->tracer.redirects = redirects;
	a->tracer.nredirects = n;
	dp_tracer_pass_forks(&a->tracer);
	a->tracer.holds = true;
	a->ctl->state = DP_STATE_ARMING;
	return dp_arm_put_control(a, err);
}

int dp_arm_publish(struct arming *a, struct dp_error *err)
{
	const struct dp_plan *plan = a->plan;
	struct dp_publish_host ph;
	struct dp_patch *v = dp_plan_patches(plan);
	bool begun;
	int r;

	if (!v)
		return dp_fail(err, E_ARM_NOMEM, "patches");
	dp_publish_host_init(&ph, &a->tracer, &a->mem, &a->remote);
	r = dp_arm_begin_publish(a, plan->redirects, plan->nredirects, err);
	/* Others must find the calls of their hits when they go. */
	if (!r && a->old.n && !a->s->recorded)
		r = dp_fail(err, E_SITE_TAKEN, "no record can be written");
	if (!r)
		r = a->old.n ? dp_patches_exchange(&ph, &a->old, &(struct dp_patches){v, plan->npatches}, &begun, err)
			     : dp_patches_in(&ph, v, plan->npatches, err);
	if (!r)
		r = dp_arm_renew_signals(a, err);
	a->ctl->state = DP_STATE_ARMED;
	if (!r)
		r = dp_arm_put_control(a, err);
	free(v);
	return r;
}
