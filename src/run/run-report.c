/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-report.h. Asks nothing of the machine that it runs on: names are those of the recording. */
#include <string.h>

#include "abi/abi-record.h"
#include "run/run-report.h"

#define PROGRESS_EVERY 1024 /* records */

struct showing {
	struct dp_report *r;
	struct dp_formatter *formatter;
	struct dp_report_source at; /* of the record at hand */
	struct dp_recording_env facts;
	struct dp_recording_head head;
};

bool dp_report_symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	const struct dp_report_source *s = arg;

	return s->source != ~0u && dp_recording_symbolize(s->from, s->source, addr, buf, size);
}

bool dp_report_code_file(void *arg, u64 addr, struct dp_code_file *file)
{
	static struct dp_recording_map map; /* one report at a time */
	const struct dp_report_source *s = arg;
	struct dp_recording_process p = {0};

	if (s->source != ~0u)
		dp_recording_process(s->from, s->source, &p);
	for (u32 i = 0; i < p.nmaps; i++) {
		const char *path = dp_recording_map(s->from, s->source, i, &map);

		if (addr < map.lo || addr >= map.hi)
			continue;
		*file = (struct dp_code_file){map.lo, map.hi, path, map.build_id};
		return true;
	}
	return false;
}

bool dp_report_name_thread(void *arg, u32 *tid, char buf[16])
{
	const struct dp_report_source *s = arg;

	return s->source != ~0u && dp_recording_task(s->from, s->source, tid, buf);
}

u32 dp_report_pid(const struct dp_report_source *s)
{
	struct dp_recording_process p;

	dp_recording_process(s->from, s->source, &p);
	return p.pid == ~0u ? 0 : p.pid;
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

	if (s->at.source != source) {
		s->at.source = source;
		dp_recording_process(r->from, source, &p);
		dp_formatter_source(s->formatter, source, dp_report_pid(&s->at), p.comm);
	}
	if (dp_recording_hit(r->from, rec->event)->probe)
		dp_report_program(r, s->formatter, &s->at, rec);
	else
		dp_formatter_record(s->formatter, rec, rec->tsc);
	dp_output_line_done(&r->out);
	r->shown++;
	if (r->progress && !(r->shown % PROGRESS_EVERY))
		tell_progress(r);
	return r->shown != r->max_events && !*r->out.stop && !ferror_unlocked(r->out.f);
}

static void lose(void *arg, u64 n)
{
	struct showing *s = arg;

	s->r->lost += n;
	dp_formatter_lost(s->formatter, n);
}

static void show_printed(void *arg, const struct dp_recording_tables_read *t)
{
	struct showing *s = arg;

	dp_report_printed(s->r, s->formatter, t);
}

static void show_interval(void *arg, u64 ns, const struct dp_recording_tables_read *v, u32 n)
{
	struct showing *s = arg;

	dp_report_interval(s->r, s->formatter, ns, v, n);
}

/* ---- what the recording tells beside its records ---- */

/* Programs' records tell the id of their process. ~0: there is no such process. */
static u32 find_source(const struct showing *s, const struct dp_recording_info *info, u32 given)
{
	if (!info->nprograms)
		return given < info->nsources ? given : ~0u;
	for (u32 i = 0; i < info->nsources; i++)
		if (dp_report_pid(&(struct dp_report_source){s->r->from, i}) == given)
			return i;
	return ~0u;
}

static void put_source(void *arg, u32 given, struct dp_line *to)
{
	const struct showing *s = arg;
	struct dp_recording_process p;
	struct dp_recording_source head = {0};
	struct dp_recording_info info;
	u32 source;

	dp_recording_info(s->r->from, &info);
	source = find_source(s, &info, given);
	if (source != ~0u) {
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
	s->facts = (struct dp_recording_env){s, put_source, put_rows, lasted_ns, &s->head, put_budget, info.nprograms};

	struct dp_format_env env = {
	    .events = info.events,
	    .nevents = info.nprograms ? 0 : info.nevents,
	    .described = info.nprograms ? info.events : NULL,
	    .ndescribed = info.nprograms ? info.nevents : 0,
	    .symbolize = dp_report_symbolize,
	    .code_file = dp_report_code_file,
	    .arg = &s->at,
	    .comm = dp_report_name_thread,
	    .recorded = true,
	    .comm_arg = &s->at,
	    .color = r->color,
	    .pid = p.pid,
	    .path = r->path,
	    .graph = r->graph,
	    .recording = &s->facts,
	};

	if (dp_formatter_new(&s->formatter, r->format, r->out.f, &env))
		return dp_fail(err, E_REC_MEMORY, "%u events", info.nevents);
	if (info.nprograms)
		dp_report_program_head(r, s->formatter);
	else
		dp_formatter_head(s->formatter);
	return 0;
}

int dp_report_run(struct dp_report *r, struct dp_error *err)
{
	static const struct dp_recording_ops ops = {show, lose, show_printed, show_interval};
	struct showing s = {.r = r, .at = {r->from, ~0u}};
	const char *trouble = NULL;
	struct dp_error late;
	int result = dp_report_check_programs(r, err), closed;

	result = result ? result : begin(&s, err);
	if (!result && r->progress)
		tell_progress(r);
	if (!result)
		result = dp_recording_play(r->from, &ops, &s, err);
	if (s.formatter && !ferror(r->out.f)) {
		dp_report_tables(r, s.formatter);
		trouble = dp_formatter_finish(s.formatter);
	}
	if (trouble && !result)
		result = dp_fail(err, E_OUT_WHOLE, "%s: %s", r->path ? r->path : r->out.name, trouble);
	dp_formatter_free(s.formatter);
	closed = dp_output_close(&r->out, result ? &late : err);
	return result ? result : closed;
}
