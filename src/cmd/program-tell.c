/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See trace-program.h. */
#include <string.h>

#include "base/now.h"
#include "cmd/summary.h"
#include "cmd/trace-program.h"
#include "log/aggregate.h"
#include "run/run.h"
#include "run/run-rows.h"

bool dp_cmd_program_has_tables(const struct program *p)
{
	for (u32 i = 0; i < p->programs.n; i++)
		if (dp_agg_any_shown(&p->programs.v[i].unit))
			return true;
	return false;
}

void dp_cmd_program_tell_let_go(struct program *p)
{
	unsigned long long n = dp_run_let_go(p->run);

	if (n)
		dp_ui_note(
		    "%llu process%s began, or loaded a file, without waiting for the probes: some hits are missing", n,
		    n == 1 ? "" : "es");
}

/* Whoever refused the probes of a module is told. False: a command's own program was refused. */
bool dp_cmd_program_tell_refused(const struct program *p)
{
	const char *module = NULL;
	struct dp_error why;
	bool good = true;
	pid_t last;
	u32 n;

	while (p->lines && !p->target.all && (n = dp_run_refused(p->run, &module, &last, &why))) {
		if (p->child > 0)
			dp_ui_error(&why, NULL);
		else
			dp_ui_note("process %d refused the probes of %s: %s: %s", (int)last, dp_ui_clean(module),
				   dp_error_info(why.code)->name, dp_ui_clean(why.detail));
		dp_ui_note("%u process%s refused the probes of %s: nothing of it was counted there", n,
			   n == 1 ? " has" : "es have", dp_ui_clean(module));
		good &= p->child <= 0;
	}
	return good;
}

void dp_cmd_program_tell_waiting(struct program *p, bool ended)
{
	for (u32 i = 0; i < p->programs.n; i++)
		p->programs.v[i].was_in = dp_run_was_in(p->run, p->programs.v[i].module);
	if (p->t.quiet || !p->lines)
		return;
	dp_cmd_lines_tell_waiting(p->lines, &p->programs, ended);
	for (u32 i = 0; i < p->programs.n && !ended; i++)
		if (p->programs.v[i].waits && dp_run_why_not_held(p->run)) {
			dp_ui_note(
			    "a process cannot be held while it loads a library (%s): the first calls may be missing",
			    dp_run_why_not_held(p->run));
			return;
		}
}

static void tell_budget(struct program *p, struct dp_trace_row *rows, u32 n)
{
	struct dp_govern_cost cost;

	dp_run_govern_cost(p->run, &cost);
	dp_summary_budget_rows(stderr, p->t.run.budget, &cost, rows, n, p->t.quiet);
	if (p->t.format == DP_FORMAT_JSON)
		dp_summary_budget_json_rows(p->t.run.out.f, p->t.run.budget, rows, n);
}

/* Both kinds of hits have stamps of one counter: what they have in common is how well its time is known. */
static void tell_clock(const struct program *p)
{
	bool in_kernel = false, in_process = false;
	unsigned long long ns = dp_run_error_ns(p->run);

	for (u32 i = 0; i < p->programs.n; i++) {
		const struct line_program *v = &p->programs.v[i];

		*(v->uprobes || strcmp(v->modtype, "user") != 0 ? &in_kernel : &in_process) = true;
	}
	if (in_kernel && in_process && ns)
		dp_ui_note(
		    "records of processes and of the kernel have times of one clock, within %llu ns of CLOCK_MONOTONIC",
		    ns);
}

static void tell_requests(const struct program *p)
{
	struct dp_keep_counts kept;

	if (!p->t.run.rule || p->t.rule.asks)
		return;
	dp_run_keep_counts(p->run, &kept);
	dp_cmd_keep_if_tell(&p->t, &kept);
	if (dp_cmd_program_has_tables(p))
		dp_ui_note("tables are of all hits, also of those in requests that were passed over");
}

/* The summary is what it is for events; that calls were left out is told in quiet mode, too. */
void dp_cmd_program_tell_end(struct program *p)
{
	struct dp_trace_row total, *rows;
	unsigned long long lost, hits;
	u32 n;

	dp_run_stop(p->run);
	if (p->t.watch)
		p->t.watch->last(p->t.watch->arg);
	lost = dp_run_losses(p->run);
	hits = dp_run_thread_losses(p->run);
	if (dp_run_is_full(p->run) && !p->t.quiet)
		dp_ui_note("%llu events shown; later ones were only counted", (unsigned long long)dp_run_shown(p->run));
	rows = p->t.no_summary ? NULL : dp_run_rows(p->run, &n, &total);
	if (!p->t.quiet && (p->lines || p->t.lines.n || p->t.format == DP_FORMAT_RECORDING)) {
		if (p->ended > 0)
			dp_ui_tell_ended(p->t.command[0], p->ended);
		tell_clock(p);
		tell_requests(p);
		if (rows)
			dp_summary_rows(stderr, rows, n, 0, &total, (double)(dp_now_ns() - p->begin) / 1e9);
	}
	if (rows && p->t.run.budget)
		tell_budget(p, rows, n);
	dp_free(rows);
	dp_cmd_program_tell_waiting(p, true);
	if (dp_run_body_exceptions(p->run))
		dp_ui_note("bodies of begin, end or timers ended early %llu times: they have no memory of the program, "
			   "and what they compute has limits",
			   (unsigned long long)dp_run_body_exceptions(p->run));
	if (hits)
		dp_ui_note("%llu hit%s of threads for which there was no room (begin { THREADS(N); }) %s left out",
			   hits, hits == 1 ? "" : "s", hits == 1 ? "is" : "are");
	if (lost)
		dp_ui_note("%llu call%s began while there was no room to keep what is known of %s, and %s left out",
			   lost, lost == 1 ? "" : "s", lost == 1 ? "it" : "them", lost == 1 ? "is" : "are");
}

/* Lines for whoever maps a file, now and later: that nobody did is a mistake in the file's name, perhaps. */
int dp_cmd_program_check_found(const struct program *p)
{
	bool found = !p->lines || p->t.on_wake || p->t.watch || !p->target.all;
	struct dp_error err;

	for (u32 i = 0; i < p->programs.n && !found; i++)
		found = dp_run_was_in(p->run, p->programs.v[i].module);
	if (found)
		return CMD_OK;
	dp_fail(&err, E_SELECT_NONE, "no process that maps %.150s has started", p->t.select.file);
	dp_ui_error(&err, NULL);
	return CMD_FAILED;
}
