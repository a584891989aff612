/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What of a trace's command line does not go together, and why. Looks at no target. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd-trace.h"
#include "host/kernel/kernel.h"
#include "lang/dpcc/dpcc.h"

#define USUAL_METRIC_MS 60000
#define MAX_METRIC_MS 1000000000

/* What cannot be taken out. Programs are looked at when they are there (trace-program.c). */
int dp_cmd_trace_check_budget(const struct trace *t)
{
	for (u32 i = 0; i < t->lines.n && t->run.budget; i++) {
		const struct event_line *l = &t->lines.v[i];
		const struct dp_event *ev = l->parsed ? dp_event_of_line(l->parsed) : NULL;

		if (ev && (ev->is_watch || dp_kernel_is_place(&ev->loc)))
			return dp_ui_fail(E_BUDGET_PROBE, NULL, "%s: %s", l->text,
					  ev->is_watch ? "it watches memory" : "it is in the kernel");
	}
	return CMD_OK;
}

/* Seconds between two exports of metrics, as every sender of OpenTelemetry's data takes them from the environment. */
static double usual_metric_interval(void)
{
	const char *given = getenv("OTEL_METRIC_EXPORT_INTERVAL");
	unsigned long ms = given ? strtoul(given, NULL, 10) : 0;

	return (ms && ms <= MAX_METRIC_MS ? (double)ms : USUAL_METRIC_MS) / 1000;
}

double dp_cmd_table_interval(enum dp_format format, double given)
{
	return format == DP_FORMAT_OTLP && !given ? usual_metric_interval() : given;
}

bool dp_cmd_check_interval(enum dp_format format, double interval)
{
	bool again = !dp_format_is_whole(format) || dp_format_takes_tables_again(format);

	if (!again && interval)
		dp_ui_fail(E_CMD_EXTRA, "leave it out", "--interval: --format %s is made at the end",
			   dp_format_name(format));
	return again || !interval;
}

/* What dp_cmd_trace_check_compiled() would refuse, of lines that need not be. */
bool dp_cmd_trace_can_compile(const struct trace *t)
{
	return !t->opt.pages && !t->opt.skip_refused && !t->watch && (!t->until || !dp_cc_line_is_body(t->until)) &&
	       (dp_format_of_programs(t->format) || t->format == DP_FORMAT_RECORDING);
}

/* What does not go together with lines that are compiled. */
int dp_cmd_trace_check_compiled(const struct trace *t)
{
	if (t->opt.pages)
		return dp_ui_fail(
		    E_CMD_EXTRA, "leave it out, or the other lines",
		    "--pages is for watchpoints, and lines that have names, tables or a body, or that stand "
		    "beside lines of the kernel, are programs");
	if (t->until && dp_cc_line_is_body(t->until))
		return dp_ui_fail(E_CMD_VALUE, "use --duration, or `end_trace()` in a timer's body",
				  "--until takes an event with a place");
	if (!dp_cmd_check_interval(t->format, t->interval))
		return CMD_USAGE;
	if (!dp_format_of_events(t->format) && !dp_format_takes_programs(t->format))
		return dp_ui_fail(
		    E_CMD_VALUE, "use text, json, csv, journald, html, otlp, pprof or recording",
		    "--format %s cannot show lines that have names, tables or a body, or that stand beside lines "
		    "of the kernel",
		    dp_format_name(t->format));
	return CMD_OK;
}

int dp_cmd_trace_check_kernel_lines(const struct trace *t)
{
	for (u32 i = 0; i < t->lines.n; i++) {
		const struct event_line *l = &t->lines.v[i];
		struct dp_error told = l->err;

		if (l->parsed || !told.code || (!strstr(l->text, " kernel:") && !strstr(l->text, " kmod(")))
			continue;
		snprintf(told.detail, sizeof(told.detail), "%s%.250s", l->where, l->err.detail);
		dp_ui_error(&told, l->text);
		return dp_ui_status(told.code);
	}
	return CMD_OK;
}
