/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Prints the summary of a trace. Only arithmetic and columns. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/summary.h"

#define SHOWN 40      /* rows; more than a screen helps nobody */
#define QUIET_SHOWN 8 /* rows of probes that were never hit: of more only the number is shown */

/* Rough times of one hit in nanoseconds, for the column COST only; `make bench` measures real ones.
 */
#define COST_HIT 3
#define COST_RECORD 13
#define COST_HIT_INTERPRETED 18
#define COST_RECORD_INTERPRETED 50
#define COST_TRAP 1500
#define COST_WATCH 4000 /* 20000 in a virtual machine: a debug exception leaves it */

const char *dp_summary_via(const struct dp_probe_info *info)
{
	bool trap = info->outcome == DP_OUTCOME_TRAP;

	if (info->via)
		return info->via;
	if (info->outcome == DP_OUTCOME_REFUSED)
		return "left-out"; /* one of a pattern's that could not be armed */
	if (info->event->is_return)
		return trap ? "exits+trap" : "exits";
	return trap ? "trap" : "jump";
}

void dp_summary_name(const struct dp_probe_info *info, char *buf, size_t size)
{
	if (info->event->is_named)
		snprintf(buf, size, "%s", info->event->name);
	else if (info->event->is_return)
		snprintf(buf, size, "<-%s", info->symbol);
	else if (info->offset)
		snprintf(buf, size, "%s+0x%llx", info->symbol, (unsigned long long)info->offset);
	else
		snprintf(buf, size, "%s", info->symbol);
}

u64 dp_summary_hits(const struct dp_counts *c)
{
	return c->v[DP_COUNT_RECORDED] + c->v[DP_COUNT_PASSED] + c->v[DP_COUNT_FILTERED] + c->v[DP_COUNT_MISSED] +
	       c->v[DP_COUNT_LOST];
}

static double cost_ns(const struct summary_row *row)
{
	u64 hits = dp_summary_hits(&row->counts);
	double ns = (double)hits * (row->compiled ? COST_HIT : COST_HIT_INTERPRETED);

	ns += (double)row->counts.v[DP_COUNT_RECORDED] * (row->compiled ? COST_RECORD : COST_RECORD_INTERPRETED);
	if (strstr(row->via, "trap"))
		ns += (double)hits * COST_TRAP;
	if (strstr(row->via, "watch"))
		ns += (double)hits * COST_WATCH;
	return ns;
}

static const char *duration(double ns, char buf[16])
{
	if (ns < 1e3)
		snprintf(buf, 16, "%.0fns", ns);
	else if (ns < 1e6)
		snprintf(buf, 16, "%.1fus", ns / 1e3);
	else if (ns < 1e9)
		snprintf(buf, 16, "%.1fms", ns / 1e6);
	else
		snprintf(buf, 16, "%.1fs", ns / 1e9);
	return buf;
}

static int by_hits(const void *a, const void *b)
{
	u64 x = dp_summary_hits(&((const struct summary_row *)a)->counts);
	u64 y = dp_summary_hits(&((const struct summary_row *)b)->counts);

	return x < y ? 1 : x > y ? -1 : 0;
}

static void print_row(FILE *to, const struct summary_row *row, int width, double ns)
{
	static const enum dp_count columns[] = {DP_COUNT_RECORDED, DP_COUNT_FILTERED, DP_COUNT_PASSED,
						DP_COUNT_MISSED,   DP_COUNT_LOST,     DP_COUNT_FAULTS};
	char buf[16];

	fprintf(to, "%-*s %-10s %10llu", width, dp_ui_clean(row->name), row->via,
		(unsigned long long)dp_summary_hits(&row->counts));
	for (size_t i = 0; i < DP_ARRAY_SIZE(columns); i++) {
		u64 v = row->counts.v[columns[i]];
		bool bad = v && (columns[i] == DP_COUNT_LOST || columns[i] == DP_COUNT_MISSED);

		fprintf(to, "%s %9llu%s", bad ? dp_ui_style(to, UI_RED) : "", (unsigned long long)v,
			bad ? dp_ui_style(to, UI_PLAIN) : "");
	}
	fprintf(to, " %8s\n", duration(ns, buf));
}

void dp_summary_print(FILE *to, struct summary_row *rows, u32 n, double seconds)
{
	struct summary_row total = {.name = "total", .via = ""};
	double ns = 0, total_ns = 0, percent;
	u32 quiet = 0, shown = n;
	int width = 12;

	if (n > SHOWN) {
		qsort(rows, n, sizeof(*rows), by_hits);
		shown = SHOWN;
	}
	for (u32 i = 0; i < n; i++) {
		total_ns += cost_ns(&rows[i]);
		for (int k = 0; k < DP_NCOUNTS; k++)
			total.counts.v[k] += rows[i].counts.v[k];
		if (i < shown)
			width = DP_MAX(width, (int)DP_MIN(strlen(rows[i].name), (size_t)40));
		quiet += !dp_summary_hits(&rows[i].counts);
	}
	fprintf(to, "\n%s%-*s %-10s %10s %9s %9s %9s %9s %9s %9s %8s%s\n", dp_ui_style(to, UI_BOLD), width, "PROBE",
		"VIA", "HITS", "RECORDED", "FILTERED", "PASSED", "MISSED", "LOST", "FAULTS", "COST~",
		dp_ui_style(to, UI_PLAIN));
	for (u32 i = 0; i < shown; i++) {
		if (quiet > QUIET_SHOWN && !dp_summary_hits(&rows[i].counts))
			continue;
		ns = cost_ns(&rows[i]);
		print_row(to, &rows[i], width, ns);
	}
	if (shown < n && n - shown > quiet)
		fprintf(to, "... and %u more probes\n", n - shown - (quiet > QUIET_SHOWN ? quiet : 0));
	if (n > 1)
		print_row(to, &total, width, total_ns);
	percent = seconds > 0 ? total_ns / seconds / 1e7 : 0;
	fprintf(to, "%u probe%s, %u never hit%s; %.1f s; %s %.*f %% of one processor\n", n, n == 1 ? "" : "s", quiet,
		quiet > QUIET_SHOWN ? " (not shown)" : "", seconds, percent < 0.01 ? "less than" : "about",
		percent < 10 ? 2 : 0, DP_MAX(percent, 0.01));
}
