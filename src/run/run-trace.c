/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The loop of a trace: drain, format, flush, rest. Never blocks for long, so that an end is noticed at once. */
#include <signal.h>

#include "host/process/process.h"
#include "run/run-drain.h"
#include "run/run-threads.h"
#include "run/run-trace.h"

int dp_trace_open(struct dp_trace *t, pid_t pid, char *const command[], const struct dp_session_options *opt,
		  struct dp_error *err)
{
	t->started = command;
	return dp_tracee_open(&t->tracee, pid, command, opt, err);
}

int dp_trace_describe(struct dp_trace *t, struct dp_error *err)
{
	u32 n = dp_tracee_nprobes(&t->tracee);

	t->infos = dp_alloc(n * sizeof(*t->infos));
	if (!t->infos)
		return dp_fail(err, E_RING_MEMORY, "%u events", n);
	for (u32 i = 0; i < n; i++) {
		struct dp_probe_info p;

		dp_tracee_probe(&t->tracee, i, &p);
		t->infos[i] = (struct dp_event_info){
		    .group = p.event->group,
		    .name = p.event->is_named ? p.event->name : "",
		    .symbol = p.symbol,
		    .offset = p.offset,
		    .is_return = p.event->is_return,
		    .layout = &p.event->prog.layout,
		};
	}
	return 0;
}

int dp_trace_begin(struct dp_trace *t, enum dp_format format, bool color, struct dp_error *err)
{
	pid_t pid = dp_tracee_pid(&t->tracee);
	struct dp_format_env env = {
	    .events = t->infos,
	    .nevents = dp_tracee_nprobes(&t->tracee),
	    .symbolize = dp_tracee_symbolize,
	    .arg = &t->tracee,
	    .color = color,
	};
	char comm[16];

	if (pid)
		t->threads = dp_threads_new(pid);
	if (t->threads) {
		env.comm = dp_threads_comm;
		env.comm_arg = t->threads;
	}
	if (dp_formatter_new(&t->formatter, format, t->out.f, &env))
		return dp_fail(err, E_RING_MEMORY, "%u events", env.nevents);
	if (pid && dp_task_comm((u32)pid, comm)) /* its threads may have ended before anybody looks */
		dp_formatter_learn(t->formatter, comm);
	dp_formatter_head(t->formatter);
	return dp_output_flush(&t->out, err);
}

int dp_trace_arm(struct dp_trace *t, struct dp_error *err)
{
	int r = dp_tracee_arm(&t->tracee, err);

	if (r)
		return r;
	t->armed = true;
	r = dp_reader_open(&t->reader, dp_tracee_rings(&t->tracee), err);
	if (!r && t->threads)
		dp_reader_set_alive(t->reader, dp_threads_alive, t->threads);
	return r;
}

/* ---- while it runs ---- */

static void show(const struct dp_record *rec, u64 ns, void *arg)
{
	struct dp_trace *t = arg;

	t->shown++;
	/* Once writing has failed the rest is only counted. */
	if (ferror(t->out.f))
		return;
	dp_formatter_record(t->formatter, rec, ns);
	if (t->more)
		t->more(rec, t->more_arg);
	dp_output_line_done(&t->out);
}

int dp_trace_run(struct dp_trace *t, struct dp_error *err)
{
	u64 start = dp_now_ns(), now = start;
	u64 end = t->seconds > 0 ? start + (u64)(t->seconds * 1e9) : ~(u64)0;
	struct dp_drain d = {.tended_ns = start};
	int r = 0;

	while (!*t->out.stop && now < end) {
		bool alive = dp_tracee_alive(&t->tracee); /* before the drain: its last records count */

		if (dp_drain_turn(&d, &t->tracee, t->reader, show, t))
			r = dp_output_flush(&t->out, err);
		if (r || !alive)
			break;
		now = dp_now_ns();
		if (d.rest_ns && now < end)
			dp_tracee_rest(&t->tracee, DP_MIN(d.rest_ns, end - now));
		now = dp_now_ns();
	}
	t->lasted = (double)(dp_now_ns() - start) / 1e9;
	return r;
}

/* ---- the end ---- */

int dp_trace_end(struct dp_trace *t, struct dp_error *err)
{
	struct dp_error late;
	int closed, r = 0;

	if (t->reader && dp_reader_drain(t->reader, true, show, t))
		r = dp_output_flush(&t->out, err);
	closed = dp_output_close(&t->out, r ? &late : err);

	return r ? r : closed;
}

void dp_trace_losses(const struct dp_trace *t, u64 *lost, u64 *unread)
{
	u64 recorded = 0;

	*lost = 0;
	for (u32 i = 0; i < dp_tracee_nprobes(&t->tracee); i++) {
		struct dp_counts c;

		dp_reader_counts(t->reader, i, &c);
		*lost += c.v[DP_COUNT_LOST];
		recorded += c.v[DP_COUNT_RECORDED];
	}
	*unread = recorded > t->shown ? recorded - t->shown : 0;
}

void dp_trace_free(struct dp_trace *t)
{
	pid_t pid = dp_tracee_pid(&t->tracee);

	if (t->started && !t->armed && pid)
		kill(pid, SIGKILL);
	dp_formatter_free(t->formatter);
	dp_reader_close(t->reader);
	dp_threads_free(t->threads);
	dp_tracee_free(&t->tracee);
	dp_free(t->infos);
}
