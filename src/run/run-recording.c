/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a recording tells of a trace beside its records: the processes, the files with their code, the counts. */
#include <string.h>

#include "run/run-trace.h"
#include "symbols/symbols.h"

static void put(struct dp_line *to, const void *p, size_t n)
{
	dp_line_bytes(to, p, n);
}

static void put_map(struct dp_line *to, const struct dp_image *img)
{
	const char *path = dp_module_path(img->mod);
	struct dp_recording_map m = {
	    .lo = img->lo, .hi = img->hi, .bias = img->bias, .path = dp_recording_text_size(path)};

	dp_format(m.build_id, sizeof(m.build_id), "%s", dp_module_build_id(img->mod));
	put(to, &m, sizeof(m));
	dp_recording_put_text(to, path);
}

static void put_source(void *arg, u32 source, struct dp_line *to)
{
	const struct dp_trace *t = arg;
	const struct dp_trace_member *m = t->v[source];
	const struct dp_process *p = dp_tracee_process(&m->tracee);
	struct dp_recording_source s = {.pid = dp_tracee_any(&m->tracee) ? (u32)dp_tracee_pid(&m->tracee) : ~0u,
					.nmaps = p ? (u32)p->nimages : 0};

	dp_format(s.comm, sizeof(s.comm), "%s", m->comm);
	put(to, &s, sizeof(s));
	for (u32 i = 0; i < s.nmaps; i++)
		put_map(to, &p->images[i]);
}

static void put_rows(void *arg, struct dp_line *to)
{
	const struct dp_trace *t = arg;
	struct dp_trace_row total, *rows = dp_trace_rows(t, &total);

	for (u32 i = 0; rows && i < t->nevents; i++) {
		struct dp_recording_row r = {
		    .counts = rows[i].counts, .hits = rows[i].hits, .cost_ns = rows[i].cost_ns};

		dp_format(r.via, sizeof(r.via), "%s", rows[i].via);
		dp_format(r.name, sizeof(r.name), "%s", rows[i].name);
		put(to, &r, sizeof(r));
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
	t->recording = (struct dp_recording_env){t, put_source, put_rows, lasted_ns};
}
