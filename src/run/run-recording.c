/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a recording tells of a trace beside its records: the processes, the files with their code, the counts. */
#include <string.h>

#include "run/run-trace.h"
#include "symbols/symbols.h"

bool dp_tracee_code_file(const struct dp_tracee *t, u64 addr, struct dp_code_file *file)
{
	struct dp_process *p = dp_tracee_process(t);
	const struct dp_image *img = p ? dp_process_image_at(p, addr) : NULL;

	if (img)
		*file = (struct dp_code_file){img->lo, img->hi, dp_module_path(img->mod), dp_module_build_id(img->mod)};
	return img;
}

static void put(struct dp_line *to, const void *p, size_t n)
{
	dp_line_bytes(to, p, n);
}

static void put_source(void *arg, u32 source, struct dp_line *to)
{
	const struct dp_trace *t = arg;
	const struct dp_trace_member *m = t->v[source];

	dp_recording_put_process(to, dp_tracee_process(&m->tracee),
				 dp_tracee_any(&m->tracee) ? (u32)dp_tracee_pid(&m->tracee) : ~0u, m->comm);
}

void dp_trace_put_row(const struct dp_trace_row *row, struct dp_line *to)
{
	struct dp_recording_row r = {.counts = row->counts, .hits = row->hits, .cost_ns = row->cost_ns};

	dp_format(r.via, sizeof(r.via), "%s", row->via);
	dp_format(r.name, sizeof(r.name), "%s", row->name);
	put(to, &r, sizeof(r));
}

static void put_rows(void *arg, struct dp_line *to)
{
	const struct dp_trace *t = arg;
	u32 n;
	struct dp_trace_row total, *rows = dp_trace_rows(t, t->nevents, &n, &total);

	for (u32 i = 0; rows && i < n; i++)
		dp_trace_put_row(&rows[i], to);
	dp_free(rows);
}

static void put_budget(void *arg, struct dp_line *to)
{
	const struct dp_trace *t = arg;
	struct dp_recording_budget b = {.budget = t->budget};
	u32 n;
	struct dp_trace_row total, *rows = t->budget ? dp_trace_rows(t, t->nevents, &n, &total) : NULL;
	struct dp_govern_cost cost;

	if (!rows)
		return;
	dp_trace_govern_cost(t, &cost);
	b.hits = cost.hits;
	b.cpu_ns = cost.cpu_ns;
	b.cost_ns = cost.cost_ns;
	put(to, &b, sizeof(b));
	for (u32 i = 0; i < n; i++) {
		const struct dp_governed *g = &rows[i].governed;
		struct dp_recording_governed told = {i, g->times, g->out_ns, g->of_ns, g->missed};

		if (g->times)
			put(to, &told, sizeof(told));
	}
	dp_free(rows);
}

static u64 lasted_ns(void *arg)
{
	const struct dp_trace *t = arg;

	return (u64)(t->lasted * 1e9);
}

void dp_trace_recording_env(struct dp_trace *t)
{
	t->recording = (struct dp_recording_env){t, put_source, put_rows, lasted_ns, NULL, put_budget};
}
