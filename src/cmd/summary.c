/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Prints the summary of a trace. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/summary.h"

#define SHOWN 40      /* rows; more than a screen helps nobody */
#define QUIET_SHOWN 8 /* rows of probes that were never hit: of more only the number is shown */

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
	u64 x = ((const struct dp_trace_row *)a)->hits, y = ((const struct dp_trace_row *)b)->hits;

	return x < y ? 1 : x > y ? -1 : 0;
}

static void print_row(FILE *to, const struct dp_trace_row *row, int width)
{
	static const enum dp_count columns[] = {DP_COUNT_RECORDED, DP_COUNT_FILTERED, DP_COUNT_PASSED,
						DP_COUNT_MISSED,   DP_COUNT_LOST,     DP_COUNT_FAULTS};
	char buf[16];

	fprintf(to, "%-*s %-10s %10llu", width, dp_ui_clean(row->name), row->via, (unsigned long long)row->hits);
	for (size_t i = 0; i < DP_ARRAY_SIZE(columns); i++) {
		u64 v = row->counts.v[columns[i]];
		bool bad = v && (columns[i] == DP_COUNT_LOST || columns[i] == DP_COUNT_MISSED);

		fprintf(to, "%s %9llu%s", bad ? dp_ui_style(to, UI_RED) : "", (unsigned long long)v,
			bad ? dp_ui_style(to, UI_PLAIN) : "");
	}
	fprintf(to, " %8s\n", duration(row->cost_ns, buf));
}

void dp_summary_print(FILE *to, const struct dp_trace *t)
{
	u32 n = t->nevents, quiet = 0, shown = n;
	struct dp_trace_row total, *rows = dp_trace_rows(t, &total);
	int width = 12;
	double percent;

	if (!rows)
		return;
	if (n > SHOWN) {
		qsort(rows, n, sizeof(*rows), by_hits);
		shown = SHOWN;
	}
	for (u32 i = 0; i < n; i++) {
		if (i < shown)
			width = DP_MAX(width, (int)DP_MIN(strlen(rows[i].name), (size_t)40));
		quiet += !rows[i].hits;
	}
	fprintf(to, "\n%s%-*s %-10s %10s %9s %9s %9s %9s %9s %9s %8s%s\n", dp_ui_style(to, UI_BOLD), width, "PROBE",
		"VIA", "HITS", "RECORDED", "FILTERED", "PASSED", "MISSED", "LOST", "FAULTS", "COST~",
		dp_ui_style(to, UI_PLAIN));
	for (u32 i = 0; i < shown; i++)
		if (quiet <= QUIET_SHOWN || rows[i].hits)
			print_row(to, &rows[i], width);
	if (shown < n && n - shown > quiet)
		fprintf(to, "... and %u more probes\n", n - shown - (quiet > QUIET_SHOWN ? quiet : 0));
	if (n > 1)
		print_row(to, &total, width);
	percent = t->lasted > 0 ? total.cost_ns / t->lasted / 1e7 : 0;
	fprintf(to, "%u probe%s, %u never hit%s; %.1f s; %s %.*f %% of one processor\n", n, n == 1 ? "" : "s", quiet,
		quiet > QUIET_SHOWN ? " (not shown)" : "", t->lasted, percent < 0.01 ? "less than" : "about",
		percent < 10 ? 2 : 0, DP_MAX(percent, 0.01));
	dp_free(rows);
}
