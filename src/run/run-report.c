/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-report.h. Asks nothing of the machine that it runs on: names are those of the recording. */
#include <string.h>

#include "abi/abi-record.h"
#include "run/run-report.h"

#define PROGRESS_EVERY 1024 /* records */

struct showing {
	struct dp_report *r;
	struct dp_formatter *formatter;
	u32 source; /* of the record at hand; ~0: none yet */
	struct dp_recording_env facts;
	struct dp_recording_head head;
};

static bool symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	const struct showing *s = arg;

	return s->source != ~0u && dp_recording_symbolize(s->r->from, s->source, addr, buf, size);
}

static bool code_file(void *arg, u64 addr, struct dp_code_file *file)
{
	static struct dp_recording_map map; /* one report at a time */
	const struct showing *s = arg;
	struct dp_recording_process p = {0};

	if (s->source != ~0u)
		dp_recording_process(s->r->from, s->source, &p);
	for (u32 i = 0; i < p.nmaps; i++) {
		const char *path = dp_recording_map(s->r->from, s->source, i, &map);

		if (addr < map.lo || addr >= map.hi)
			continue;
		*file = (struct dp_code_file){map.lo, map.hi, path, map.build_id};
		return true;
	}
	return false;
}

static bool name_thread(void *arg, u32 *tid, char buf[16])
{
	const struct showing *s = arg;

	return s->source != ~0u && dp_recording_task(s->r->from, s->source, tid, buf);
}

static void tell_progress(const struct dp_report *r)
{
	u64 done, total;

	dp_recording_place(r->from, &done, &total);
	r->progress(done, total);
}

static bool show(void *arg, u32 source, const struct dp_record *rec)
{
	struct showing *s = arg;
	struct dp_report *r = s->r;
	struct dp_recording_process p;

	if (s->source != source) {
		s->source = source;
		dp_recording_process(r->from, source, &p);
		dp_formatter_source(s->formatter, source, p.pid == ~0u ? 0 : p.pid, p.comm);
	}
	dp_formatter_record(s->formatter, rec, rec->tsc);
	dp_output_line_done(&r->out);
	r->shown++;
	if (r->progress && !(r->shown % PROGRESS_EVERY))
		tell_progress(r);
	return r->shown != r->max_events && !*r->out.stop && !ferror(r->out.f);
}

static void lose(void *arg, u64 n)
{
	struct showing *s = arg;

	s->r->lost += n;
	dp_formatter_lost(s->formatter, n);
}

/* ---- what the recording tells beside its records ---- */

static void put_source(void *arg, u32 source, struct dp_line *to)
{
	const struct showing *s = arg;
	struct dp_recording_process p;
	struct dp_recording_source head = {0};
	struct dp_recording_info info;

	dp_recording_info(s->r->from, &info);
	if (source < info.nsources) {
		dp_recording_process(s->r->from, source, &p);
		head = (struct dp_recording_source){.pid = p.pid, .nmaps = p.nmaps};
		memcpy(head.comm, p.comm, sizeof(head.comm));
	}
	dp_line_bytes(to, (const char *)&head, sizeof(head));
	for (u32 i = 0; i < head.nmaps; i++) {
		struct dp_recording_map map;
		const char *path = dp_recording_map(s->r->from, source, i, &map);

		map.path = dp_recording_text_size(path);
		dp_line_bytes(to, (const char *)&map, sizeof(map));
		dp_recording_put_text(to, path);
	}
}

static void put_rows(void *arg, struct dp_line *to)
{
	const struct showing *s = arg;
	struct dp_recording_info info;

	dp_recording_info(s->r->from, &info);
	dp_line_bytes(to, (const char *)info.rows, info.nrows * sizeof(*info.rows));
}

static void put_budget(void *arg, struct dp_line *to)
{
	const struct showing *s = arg;
	struct dp_recording_info info;

	dp_recording_info(s->r->from, &info);
	if (!info.budget.budget)
		return;
	dp_line_bytes(to, (const char *)&info.budget, sizeof(info.budget));
	dp_line_bytes(to, (const char *)info.governed, info.ngoverned * sizeof(*info.governed));
}

static u64 lasted_ns(void *arg)
{
	const struct showing *s = arg;
	struct dp_recording_info info;

	dp_recording_info(s->r->from, &info);
	return info.lasted_ns;
}

static int begin(struct showing *s, struct dp_error *err)
{
	struct dp_report *r = s->r;
	struct dp_recording_info info;
	struct dp_recording_process p = {0};

	dp_recording_info(r->from, &info);
	if (info.nsources)
		dp_recording_process(r->from, 0, &p);
	s->head = info.head;
	s->facts = (struct dp_recording_env){s, put_source, put_rows, lasted_ns, &s->head, put_budget};

	struct dp_format_env env = {
	    .events = info.events,
	    .nevents = info.nevents,
	    .symbolize = symbolize,
	    .code_file = code_file,
	    .arg = s,
	    .comm = name_thread,
	    .recorded = true,
	    .comm_arg = s,
	    .color = r->color,
	    .pid = p.pid,
	    .path = r->path,
	    .graph = r->graph,
	    .recording = &s->facts,
	};

	if (dp_formatter_new(&s->formatter, r->format, r->out.f, &env))
		return dp_fail(err, E_REC_MEMORY, "%u events", info.nevents);
	dp_formatter_head(s->formatter);
	return 0;
}

int dp_report_run(struct dp_report *r, struct dp_error *err)
{
	static const struct dp_recording_ops ops = {show, lose};
	struct showing s = {.r = r, .source = ~0u};
	const char *trouble = NULL;
	struct dp_error late;
	int result = begin(&s, err), closed;

	if (!result && r->progress)
		tell_progress(r);
	if (!result)
		result = dp_recording_play(r->from, &ops, &s, err);
	if (s.formatter && !ferror(r->out.f))
		trouble = dp_formatter_finish(s.formatter);
	if (trouble && !result)
		result = dp_fail(err, E_OUT_WHOLE, "%s: %s", r->path ? r->path : r->out.name, trouble);
	dp_formatter_free(s.formatter);
	closed = dp_output_close(&r->out, result ? &late : err);
	return result ? result : closed;
}
