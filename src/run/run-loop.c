/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a run does again and again, and its begin and end. */
#include <poll.h>
#include <stdlib.h>

#include "run/run-keep.h"
#include "run/run-merge.h"
#include "run/run-priv.h"
#include "run/run-starts.h"
#include "send/journald.h"

#define IDLE_NS 200000000ull       /* a turn, without a target */
#define TURN_NS 50000000ull        /* at most, with a target */
#define TURN_OF_EACH_NS 1000000ull /* or this, for each of many that have nothing to tell, */
#define TURN_MOST_NS 500000000ull
#define KNOWN_NS 1000000000ull  /* between looks at what programs know of their processes */
#define THREADS_NS 200000000ull /* between looks for threads that have ended: their variables are given on */

struct dp_run *dp_run_new(ssize_t (*write)(void *arg, const void *text, size_t n), void *arg)
{
	struct dp_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->watch_wake = -1;
	run->write = write;
	run->write_arg = arg;
	return run;
}

int dp_run_request(struct dp_run *run, const struct dp_run_request *rq, const char *name, const void *object, FILE *out,
		   struct dp_error *err)
{
	switch (rq->op) {
	case DP_RUN_INSERT:
		return dp_run_insert(run, rq, object, out, err);
	case DP_RUN_REMOVE:
		return dp_run_remove(run, rq, name, out, err);
	case DP_RUN_QUERY:
		return dp_run_query(run, rq, name, out, err);
	case DP_RUN_VARS:
		return dp_run_vars_of_all(run, rq, name, out, err);
	case DP_RUN_METRICS:
		return dp_run_metrics(run, out, err);
	default:
		return dp_fail(err, E_DRV_TALK, "request %u", rq->op);
	}
}

/* Each target in its own time: there may be many that have nothing to tell. */
static void drain_due(struct dp_run *run)
{
	u64 now = dp_now_ns();
	u32 n = 0;

	for (struct run_target *t = run->targets; t; t = t->next) {
		n += t->session != NULL;
		t->drain.sessions = run->nsessions;
		if (t->session && now >= t->drain.due_ns)
			dp_run_drain(run, t, false);
	}
	run->nsessions = n;
	dp_run_show_known(run);
	dp_run_log_commit(run);
}

static u64 rest_of_all(const struct dp_run *run)
{
	u64 rest = run->targets ? DP_MIN(DP_MAX(TURN_NS, run->nsessions * TURN_OF_EACH_NS), TURN_MOST_NS) : IDLE_NS;

	for (const struct run_target *t = run->targets; t; t = t->next)
		if (t->session)
			rest = DP_MIN(rest, t->drain.rest_ns);
	return rest;
}

bool dp_run_turn(struct dp_run *run, int fd)
{
	struct pollfd p[2] = {{fd, POLLIN, 0}, {run->watch_wake, POLLIN, 0}};
	u64 now, rest = dp_run_coming_start() ? 0 : DP_MIN(rest_of_all(run), dp_run_next_timer(run));

	if (poll(p, 2, (int)((rest + 999999) / 1000000)) < 0)
		p[0].revents = 0;
	dp_hear_ends();
	dp_run_catch(run);
	drain_due(run);
	dp_run_govern(run);
	dp_run_timers(run);
	now = dp_now_ns();
	if (run->modules && now > run->scan_due_ns)
		dp_run_scan(run, false);
	if (run->modules && now > run->threads_due_ns) {
		dp_run_clean_threads(run);
		run->threads_due_ns = now + THREADS_NS;
	}
	if (run->modules && now > run->known_due_ns) {
		dp_run_renew_known(run);
		run->known_due_ns = now + KNOWN_NS;
	}
	return p[0].revents & POLLIN;
}

void dp_run_finish(struct dp_run *run)
{
	for (struct run_target *t = run->targets; t; t = t->next)
		dp_run_withdraw(run, t);
	for (struct run_target *t = run->targets; t; t = t->next)
		dp_run_end_bodies(run, t, NULL);
	for (struct run_target *t = run->targets; t; t = t->next)
		if (t->session) /* what tables have counted is shown before them */
			dp_run_drain(run, t, true);
	dp_run_log_commit(run);
}

u32 dp_run_left_in(const struct dp_run *run)
{
	return run->left_in;
}

void dp_run_set_buffer(struct dp_run *run, u64 size)
{
	run->ring_size = size;
}

u64 dp_run_error_ns(const struct dp_run *run)
{
	return run->merge ? dp_merge_error_ns(run->merge) : 0;
}

u64 dp_run_shown(const struct dp_run *run)
{
	return run->shown;
}

bool dp_run_has_ended(const struct dp_run *run)
{
	return run->has_ended;
}

u64 dp_run_body_exceptions(const struct dp_run *run)
{
	return run->body_exceptions;
}

void dp_run_stop(struct dp_run *run)
{
	while (run->targets)
		dp_run_target_end(run, run->targets);
	dp_run_log_commit(run);
}

void dp_run_end(struct dp_run *run)
{
	while (run->modules)
		dp_run_drop(run, run->modules);
	while (run->targets)
		dp_run_target_end(run, run->targets);
	dp_run_log_commit(run);
	dp_run_end_guard();
}

void dp_run_free(struct dp_run *run)
{
	if (!run)
		return;
	dp_run_end(run);
	dp_run_close_globals(run);
	dp_run_free_chosen(run);
	dp_seen_free(run);
	if (run->journald)
		dp_journald_end(run->journald);
	dp_merge_free(run->merge);
	dp_keep_free(run->keep);
	free(run->numbered);
	dp_line_free(&run->line);
	free(run->out);
	free(run->unwritten);
	free(run);
}
