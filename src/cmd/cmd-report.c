/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes report`: shows a recording, or tells what it is. Whoever made the file has chosen every text in it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/deliver.h"
#include "cmd/summary.h"
#include "log/human.h"
#include "run/run-report.h"

struct report {
	struct dp_report r;
	struct dp_graph_options graph;
	const char *file, *out_path;
	struct delivery delivery;
	bool quiet, info;
	int status;
};

static int take_option(void *arg, int id, const char *value)
{
	struct report *t = arg;

	switch (id) {
	case OPT_OUTPUT:
		t->out_path = value;
		return CMD_OK;
	case OPT_ENDPOINT:
		t->delivery.endpoint = value;
		return CMD_OK;
	case OPT_JSON:
		t->r.format = DP_FORMAT_JSON;
		return CMD_OK;
	case OPT_FORMAT:
		return dp_cmd_parse_format(value, KIND_FORMAT, &t->r.format) ? CMD_OK : CMD_USAGE;
	case OPT_MAX_EVENTS:
		return dp_cmd_parse_count(value, &t->r.max_events) ? CMD_OK : CMD_USAGE;
	case OPT_INFO:
		t->info = true;
		return CMD_OK;
	case OPT_ALL_ROWS:
		dp_summary_all = true;
		return CMD_OK;
	case OPT_RAW_UNITS:
		dp_human.raw_units = true;
		return CMD_OK;
	case OPT_QUIET:
		t->quiet = true;
		return CMD_OK;
	case CMD_OPT_OPERAND:
		if (t->file)
			return dp_ui_fail(E_CMD_EXTRA, "one recording at a time", "%s", value);
		t->file = value;
		return CMD_OK;
	default:
		return dp_cmd_graph_option(&t->graph, id, value);
	}
}

/* ---- the summary ---- */

static void take_governed(const struct dp_recording_info *info, struct dp_trace_row *rows)
{
	for (u32 i = 0; i < info->ngoverned; i++) {
		const struct dp_recording_governed *g = &info->governed[i];

		rows[g->row].governed = (struct dp_governed){
		    .times = g->times, .out_ns = g->out_ns, .of_ns = g->of_ns, .missed = g->missed};
	}
}

/* May sort the rows. */
static void put_rows(FILE *to, const struct dp_recording_info *info, struct dp_trace_row *rows,
		     const struct dp_trace_row *total)
{
	const struct dp_recording_budget *b = &info->budget;
	const struct dp_govern_cost cost = {b->cost_ns, b->hits, b->cpu_ns};

	take_governed(info, rows);
	dp_summary_rows(to, rows, info->nrows, 0, total, (double)info->lasted_ns / 1e9);
	if (b->budget)
		dp_summary_budget_rows(to, (u32)b->budget, &cost, rows, info->nrows, false);
}

/* NULL: it has none, or there is no memory. */
static struct dp_trace_row *make_rows(const struct dp_recording_info *info, struct dp_trace_row *total)
{
	struct dp_trace_row *rows = info->nrows ? calloc(info->nrows, sizeof(*rows)) : NULL;

	*total = (struct dp_trace_row){.name = "total", .via = ""};
	for (u32 i = 0; rows && i < info->nrows; i++) {
		const struct dp_recording_row *from = &info->rows[i];

		memcpy(rows[i].name, from->name, sizeof(rows[i].name));
		rows[i].via = from->via;
		rows[i].counts = from->counts;
		rows[i].hits = from->hits;
		rows[i].cost_ns = from->cost_ns;
		total->hits += from->hits;
		total->cost_ns += from->cost_ns;
		for (u32 k = 0; k < DP_NCOUNTS; k++)
			total->counts.v[k] += from->counts.v[k];
	}
	return rows;
}

static void put_summary(FILE *to, const struct dp_recording_info *info)
{
	struct dp_trace_row total, *rows = make_rows(info, &total);

	if (!info->nrows)
		dp_ui_note("the recording is incomplete: it has no counts of hits");
	if (rows)
		put_rows(to, info, rows, &total);
	free(rows);
}

/* ---- what it is ---- */

static void put_source(const struct dp_recording *r, u32 source)
{
	struct dp_recording_process p;

	dp_recording_process(r, source, &p);
	if (p.pid && p.pid != ~0u)
		printf("process %u  %s\n", p.pid, dp_ui_clean(p.comm));
	else
		printf(p.pid ? "a process\n" : "the kernel\n");
	for (u32 i = 0; i < p.nmaps; i++) {
		struct dp_recording_map m;
		const char *path = dp_recording_map(r, source, i, &m);

		printf("  %012llx-%012llx %-40s %s\n", (unsigned long long)m.lo, (unsigned long long)m.hi,
		       m.build_id[0] ? m.build_id : "-", dp_ui_clean(path));
	}
}

static void put_info(const struct dp_recording *r, const struct dp_recording_info *info)
{
	time_t begun = (time_t)(info->head.real_ns / 1000000000u);
	struct tm tm;
	char when[64] = "?";

	if (localtime_r(&begun, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %z", &tm);
	printf("recorded %s on %s (%s %s, %s)\n", when, dp_ui_clean(info->head.host), dp_ui_clean(info->head.system),
	       dp_ui_clean(info->head.release), dp_ui_clean(info->head.machine));
	for (u32 i = 0; i < info->nsources; i++)
		put_source(r, i);
	put_summary(stdout, info);
}

/* ---- the same for programs ---- */

static void json_head(struct dp_json *j, const struct dp_recording_info *info)
{
	const struct dp_recording_head *h = &info->head;

	dp_json_put_string(j, "host", h->host);
	dp_json_put_string(j, "system", h->system);
	dp_json_put_string(j, "release", h->release);
	dp_json_put_string(j, "machine", h->machine);
	dp_json_key(j, "time");
	dp_json_seconds(j, h->real_ns);
	dp_json_key(j, "monotonic");
	dp_json_seconds(j, h->mono_ns);
	dp_json_put_bool(j, "complete", info->nrows);
	dp_json_put_unsigned(j, "cut", info->cut);
}

static void json_events(struct dp_json *j, const struct dp_recording_info *info)
{
	dp_json_key(j, "events");
	dp_json_open(j, '[');
	for (u32 i = 0; i < info->nevents; i++) {
		const struct dp_event_info *ev = &info->events[i];

		dp_json_open(j, '{');
		dp_json_put_string(j, "event", ev->name && ev->name[0] ? ev->name : ev->symbol);
		dp_json_put_string(j, "group", ev->group ? ev->group : "");
		dp_json_put_string(j, "symbol", ev->symbol);
		dp_json_put_unsigned(j, "offset", ev->offset);
		dp_json_put_bool(j, "return", ev->is_return);
		dp_json_close(j, '}');
	}
	dp_json_close(j, ']');
}

static void json_source(struct dp_json *j, const struct dp_recording *r, u32 source)
{
	struct dp_recording_process p;

	dp_recording_process(r, source, &p);
	dp_json_open(j, '{');
	dp_json_key(j, "pid");
	p.pid == ~0u ? dp_json_null(j) : dp_json_unsigned(j, p.pid);
	dp_json_put_string(j, "comm", p.comm);
	dp_json_key(j, "files");
	dp_json_open(j, '[');
	for (u32 i = 0; i < p.nmaps; i++) {
		struct dp_recording_map m;
		const char *path = dp_recording_map(r, source, i, &m);

		dp_json_open(j, '{');
		dp_json_put_string(j, "path", path);
		dp_json_put_string_or_null(j, "build_id", m.build_id[0] ? m.build_id : NULL);
		dp_cmd_json_address(j, "begin", m.lo);
		dp_cmd_json_address(j, "end", m.hi);
		dp_json_close(j, '}');
	}
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

static void print_json(const struct dp_recording *r, const struct dp_recording_info *info)
{
	struct dp_trace_row total, *rows = make_rows(info, &total);
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	json_head(&j, info);
	json_events(&j, info);
	dp_json_key(&j, "processes");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < info->nsources; i++)
		json_source(&j, r, i);
	dp_json_close(&j, ']');
	dp_json_key(&j, "summary");
	if (rows)
		dp_summary_json(&j, rows, info->nrows, &total, (double)info->lasted_ns / 1e9);
	else
		dp_json_null(&j);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
	free(rows);
}

/* ---- the command ---- */

static void tell(const struct report *t, const struct dp_recording_info *info)
{
	u64 left_out = dp_recording_left_out(t->r.from);

	if (!t->quiet && !t->r.max_events)
		put_summary(stderr, info);
	if (t->r.lost)
		dp_ui_note("%llu records were lost when it was recorded", (unsigned long long)t->r.lost);
	if (info->cut)
		dp_ui_note("the recording ends in the middle of a block: its last %llu bytes are left out",
			   (unsigned long long)info->cut);
	if (left_out)
		dp_ui_note("the last %llu records are left out: older ones of other processors may be missing",
			   (unsigned long long)left_out);
}

static void on_progress(u64 done, u64 total)
{
	dp_ui_progress("bytes read:", done, total);
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int show(struct report *t, struct dp_error *err)
{
	bool is_directory = dp_format_is_directory(t->r.format);
	struct dp_recording_info info;
	int r;

	dp_recording_info(t->r.from, &info);
	if (t->info) {
		if (t->r.format == DP_FORMAT_JSON)
			print_json(t->r.from, &info);
		else
			put_info(t->r.from, &info);
		return 0;
	}
	dp_cmd_graph_tell_only(&t->graph, info.events, info.nevents);
	if (is_directory && !t->out_path)
		return dp_fail(err, E_OUT_PLACE, "%s", dp_format_name(t->r.format));
	r = dp_output_open(&t->r.out, is_directory ? "/dev/null" : t->out_path, &dp_cmd_stop, err);
	if (r)
		return r;
	t->status = dp_cmd_deliver(&t->delivery, t->r.format, t->out_path, true, &t->r.out);
	if (t->status) {
		dp_output_drop(&t->r.out);
		return dp_output_close(&t->r.out, err);
	}
	t->r.path = is_directory ? t->out_path : NULL;
	t->r.graph = &t->graph;
	t->r.color = !t->out_path && dp_ui_color(stdout);
	t->r.progress = t->out_path || isatty(STDOUT_FILENO) != 1 ? on_progress : NULL;
	dp_cmd_catch_signals();
	dp_ui_ready();
	r = dp_report_run(&t->r, err);
	dp_ui_progress_end();
	if (r && err->code == E_OUT_WRITE && dp_output_unwanted(&t->r.out))
		return 0;
	tell(t, &info);
	return r;
}

int dp_cmd_report(int argc, char **argv)
{
	struct report t = {.r = {.format = DP_FORMAT_TEXT}};
	bool done = false;
	struct dp_error err = {0};
	int r = dp_cmd_options(VERB_REPORT, argc, argv, take_option, &t, NULL, &done);

	if (r || done)
		return r;
	if (!t.file)
		return dp_ui_fail(E_CMD_MISSING, "for example: dprobes report run.dpt", "no recording");
	if (t.out_path && is_same_file(t.out_path, t.file))
		return dp_ui_fail(E_CMD_VALUE, "name another file", "-o would overwrite the recording");
	r = dp_cmd_graph_check(&t.graph, t.r.format);
	if (r)
		return r;
	r = dp_recording_open(&t.r.from, t.file, &err);
	if (!r)
		r = show(&t, &err);
	dp_recording_close(t.r.from);
	if (r)
		dp_ui_error(&err, NULL);
	return dp_cmd_delivered(&t.delivery, t.quiet, r ? dp_ui_status(err.code) : t.status);
}
