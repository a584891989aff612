/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The rows of a trace's summary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run-trace.h"

static void put_name(const struct dp_probe_info *info, char *buf, size_t size)
{
	if (info->event->is_named)
		snprintf(buf, size, "%s", info->name);
	else if (info->event->is_return)
		snprintf(buf, size, "<-%s", info->symbol);
	else if (info->offset)
		snprintf(buf, size, "%s+0x%llx", info->symbol, (unsigned long long)info->offset);
	else
		snprintf(buf, size, "%s", info->symbol);
}

static void fill(struct dp_trace_row *row, const struct dp_trace *t, u32 i, const struct dp_counts *counts,
		 struct dp_trace_row *total)
{
	struct dp_probe_info p;

	dp_tracee_probe(&t->v[t->places[i].member]->tracee, t->places[i].probe, &p);
	put_name(&p, row->name, sizeof(row->name));
	row->via = dp_trace_row_via(&p);
	row->counts = *counts;
	row->governed = i < t->ngone ? t->gone[i].governed : (struct dp_governed){0};
	dp_trace_row_program(row, &p.event->prog, dp_trace_way_of(&p));
	dp_trace_row_finish(row, total);
}

/* Records that --keep-if has not kept were recorded, and are not shown. */
static void take_off(const struct dp_trace *t, u32 event, struct dp_counts *c)
{
	struct dp_keep_event not_shown = dp_keep_event(t->keep, event);
	u64 n = DP_MIN(not_shown.passed + not_shown.lost, c->v[DP_COUNT_RECORDED]), lost = DP_MIN(not_shown.lost, n);

	c->v[DP_COUNT_RECORDED] -= n;
	c->v[DP_COUNT_LOST] += lost;
	c->v[DP_COUNT_PASSED] += n - lost;
}

static bool was_hit(const struct dp_counts *c)
{
	static const struct dp_counts none;

	return memcmp(c, &none, sizeof(none)) != 0;
}

static u32 count_hit(const struct dp_trace *t, const struct dp_counts *counts)
{
	u32 n = 0;

	for (u32 i = 0; i < t->nevents; i++)
		n += was_hit(&counts[i]);
	return n;
}

struct dp_trace_row *dp_trace_rows(const struct dp_trace *t, u32 quiet, u32 *n, struct dp_trace_row *total)
{
	struct dp_counts *counts = dp_trace_counts(t);
	u32 hit = counts ? count_hit(t, counts) : 0;
	bool all = t->budget || t->nevents - hit <= quiet;
	struct dp_trace_row *rows = counts ? dp_alloc((all ? t->nevents : hit) * sizeof(*rows)) : NULL;

	*n = 0;
	*total = (struct dp_trace_row){.name = "total", .via = ""};
	for (u32 i = 0; rows && i < t->nevents; i++) {
		if (!all && !was_hit(&counts[i]))
			continue;
		take_off(t, i, &counts[i]);
		fill(&rows[(*n)++], t, i, &counts[i], total);
	}
	for (u32 i = 0; rows && i < t->n; i++)
		for (u32 k = 0; t->v[i]->governor && k < dp_tracee_nprobes(&t->v[i]->tracee); k++)
			dp_governor_add(t->v[i]->governor, k, &rows[t->v[i]->events[k]].governed);
	free(counts);
	return rows;
}

void dp_trace_govern_cost(const struct dp_trace *t, struct dp_govern_cost *sum)
{
	*sum = t->governed;
	for (u32 i = 0; i < t->n; i++)
		dp_governor_add_cost(t->v[i]->governor, sum);
}
