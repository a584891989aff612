/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a program that watches a run wants to know: JSON, one object a line. "metrics" tells what a line is of: the run,
 * a program, a probe or a process; the others are tables, as `dprobes vars --json` shows them.
 */
#include <string.h>

#include "log/json.h"
#include "program/described.h"
#include "run/run-priv.h"

static void begin(struct dp_json *j, const char *what)
{
	dp_json_open(j, '{');
	dp_json_put_string(j, "metrics", what);
}

static void end(struct dp_json *j)
{
	dp_json_close(j, '}');
	dp_json_end(j);
}

static void put_run(struct dp_json *j, const struct dp_run *run)
{
	u64 programs = 0, processes = 0;

	for (const struct run_module *m = run->modules; m; m = m->next)
		programs++;
	for (const struct run_target *t = run->targets; t; t = t->next)
		processes += t->session && t->pid;
	begin(j, "run");
	dp_json_put_unsigned(j, "programs", programs);
	dp_json_put_unsigned(j, "processes", processes);
	dp_json_put_unsigned(j, "let_go", dp_run_let_go(run));
	end(j);
}

static void put_probe(struct dp_json *j, const struct dp_run *run, const struct run_module *m, u32 i)
{
	static const char *const names[] = {
	    [DP_COUNT_RECORDED] = "recorded", [DP_COUNT_PASSED] = "passed", [DP_COUNT_FILTERED] = "filtered",
	    [DP_COUNT_MISSED] = "missed",     [DP_COUNT_LOST] = "lost",     [DP_COUNT_EXCEPTIONS] = "exceptions",
	};
	struct dp_counts c;
	char place[DP_RPN_NAME_MAX + 64];

	dp_run_counts(run, m, i, &c);
	dp_run_place_text(&m->unit.probes[i], place, sizeof(place));
	if (m->unit.probes[i].rf && m->unit.probes[i].rf->event)
		dp_run_probe_name(&m->unit.probes[i], place, sizeof(place));
	else if (m->unit.probes[i].at_return)
		strcat(place, " at return");
	begin(j, "probe");
	dp_json_put_string(j, "program", m->unit.name);
	dp_json_put_string(j, "probe", place);
	for (u32 k = 0; k < DP_ARRAY_SIZE(names); k++)
		if (names[k])
			dp_json_put_unsigned(j, names[k], c.v[k]);
	end(j);
}

static void put_program(struct dp_json *j, const struct dp_run *run, const struct run_module *m)
{
	begin(j, "program");
	dp_json_put_string(j, "program", m->unit.name);
	dp_json_put_unsigned(j, "processes", dp_run_count_targets(run, m));
	dp_json_put_unsigned(j, "left_out", m->left_out);
	dp_json_put_unsigned(j, "let_go", m->let_go);
	end(j);
	for (u32 i = 0; i < m->unit.nprobes; i++)
		put_probe(j, run, m, i);
}

static void put_process(struct dp_json *j, const struct run_target *t)
{
	char comm[16];

	if (!t->session || !t->pid || !dp_task_comm((u32)t->pid, comm))
		return;
	begin(j, "process");
	dp_json_put_unsigned(j, "pid", (u64)t->pid);
	dp_json_put_string(j, "comm", comm);
	end(j);
}

int dp_run_metrics(struct dp_run *run, FILE *out, struct dp_error *err)
{
	const struct dp_run_request tables = {.flags = dp_run_with_format(DP_RUN_AGGREGATES, DP_FORMAT_JSON),
					      .hi = ~0u};
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	put_run(&j, run);
	for (const struct run_module *m = run->modules; m; m = m->next)
		put_program(&j, run, m);
	for (const struct run_target *t = run->targets; t; t = t->next)
		put_process(&j, t);
	if (line.broken) {
		dp_line_free(&line);
		return dp_fail(err, E_RPN_MEMORY, "metrics");
	}
	fwrite(line.text, 1, line.n, out);
	dp_line_free(&line);
	return dp_run_vars(run, &tables, "", out, err);
}
