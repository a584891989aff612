/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The rows of a trace's summary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run-trace.h"

const char *dp_trace_row_via(const struct dp_probe_info *info)
{
	bool trap = info->outcome == DP_OUTCOME_TRAP;

	if (info->absent)
		return info->absent;
	if (info->via)
		return info->via;
	if (info->outcome == DP_OUTCOME_REFUSED)
		return "left-out"; /* one of a pattern's that could not be armed */
	if (info->event->is_return)
		return trap ? "exits+trap" : "exits";
	return trap ? "trap" : "jump";
}

static void put_name(const struct dp_probe_info *info, char *buf, size_t size)
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

void dp_trace_row_finish(struct dp_trace_row *row, struct dp_trace_row *total)
{
	row->hits = row->counts.v[DP_COUNT_RECORDED] + row->counts.v[DP_COUNT_PASSED] +
		    row->counts.v[DP_COUNT_FILTERED] + row->counts.v[DP_COUNT_MISSED] + row->counts.v[DP_COUNT_LOST];
	row->cost_ns = dp_trace_cost_ns(row);
	for (int k = 0; k < DP_NCOUNTS; k++)
		total->counts.v[k] += row->counts.v[k];
	total->hits += row->hits;
	total->cost_ns += row->cost_ns;
}

static void fill(struct dp_trace_row *row, const struct dp_trace *t, u32 i, const struct dp_counts *counts,
		 struct dp_trace_row *total)
{
	struct dp_probe_info p;

	dp_tracee_probe(&t->v[t->places[i].member]->tracee, t->places[i].probe, &p);
	put_name(&p, row->name, sizeof(row->name));
	row->via = dp_trace_row_via(&p);
	row->counts = *counts;
	dp_trace_row_program(row, &p.event->prog, p.ncompiled != p.nsites);
	dp_trace_row_finish(row, total);
}

struct dp_trace_row *dp_trace_rows(const struct dp_trace *t, struct dp_trace_row *total)
{
	u32 n = t->nevents;
	struct dp_trace_row *rows = dp_alloc(n * sizeof(*rows));
	struct dp_counts *counts = dp_trace_counts(t);

	if (!rows || !counts) {
		dp_free(rows);
		free(counts);
		return NULL;
	}
	*total = (struct dp_trace_row){.name = "total", .via = ""};
	for (u32 i = 0; i < n; i++)
		fill(&rows[i], t, i, &counts[i], total);
	free(counts);
	return rows;
}
