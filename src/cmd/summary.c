/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Prints the summary of a trace. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/summary.h"
#include "log/human.h"
#include "log/json.h"

#define SHOWN 40      /* rows; more than a screen helps nobody */
#define COST 9        /* columns of the cost, */
#define COST_RAW 13   /* and of nanoseconds */
#define QUIET_NAMED 8 /* probes that were never hit: of more only the number is shown */

bool dp_summary_all;

static int by_hits(const void *a, const void *b)
{
	u64 x = ((const struct dp_trace_row *)a)->hits, y = ((const struct dp_trace_row *)b)->hits;

	return x < y ? 1 : x > y ? -1 : 0;
}

static const struct {
	enum dp_count count;
	const char *head, *key; /* in text, in JSON */
} columns[] = {
    {DP_COUNT_RECORDED, "RECORDED", "recorded"},
    {DP_COUNT_FILTERED, "FILTERED", "filtered"},
    {DP_COUNT_PASSED, "PASSED", "passed"},
    {DP_COUNT_MISSED, "MISSED", "missed"},
    {DP_COUNT_LOST, "LOST", "lost"},
    {DP_COUNT_FAULTS, "FAULTS", "faults"},
};

static void put_row(struct dp_line *l, FILE *to, const struct dp_trace_row *row, int width)
{
	char buf[32];

	dp_line_column(l, dp_ui_clean(row->name), width);
	dp_line_char(l, ' ');
	dp_line_column(l, dp_ui_clean(row->via), 10);
	dp_line_dec(l, row->hits, 11, ' ');
	for (size_t i = 0; i < DP_ARRAY_SIZE(columns); i++) {
		u64 v = row->counts.v[columns[i].count];
		bool bad = v && (columns[i].count == DP_COUNT_LOST || columns[i].count == DP_COUNT_MISSED);

		dp_line_str(l, bad ? dp_ui_style(to, UI_RED) : "");
		dp_line_dec(l, v, 10, ' ');
		dp_line_str(l, bad ? dp_ui_style(to, UI_PLAIN) : "");
	}
	dp_human_duration(row->cost_ns, buf, sizeof(buf));
	dp_line_column(l, buf, dp_human.raw_units ? -COST_RAW : -COST);
	dp_line_char(l, '\n');
}

static void put_head(struct dp_line *l, FILE *to, int width)
{
	dp_line_char(l, '\n');
	dp_line_str(l, dp_ui_style(to, UI_BOLD));
	dp_line_column(l, "PROBE", width);
	dp_line_str(l, " VIA              HITS");
	for (size_t i = 0; i < DP_ARRAY_SIZE(columns); i++)
		dp_line_column(l, columns[i].head, -10);
	dp_line_column(l, "COST~", dp_human.raw_units ? -COST_RAW : -COST);
	dp_line_str(l, dp_ui_style(to, UI_PLAIN));
	dp_line_char(l, '\n');
}

/* ---- for programs ---- */

static void json_row(struct dp_json *j, const struct dp_trace_row *row)
{
	dp_json_open(j, '{');
	dp_json_put_string(j, "probe", row->name);
	dp_json_put_string(j, "via", row->via);
	dp_json_put_unsigned(j, "hits", row->hits);
	for (size_t i = 0; i < DP_ARRAY_SIZE(columns); i++)
		dp_json_put_unsigned(j, columns[i].key, row->counts.v[columns[i].count]);
	dp_json_put_unsigned(j, "cost_ns", (u64)DP_MAX(row->cost_ns, 0.0));
	dp_json_close(j, '}');
}

void dp_summary_json(struct dp_json *j, const struct dp_trace_row *rows, u32 n, const struct dp_trace_row *total,
		     double lasted)
{
	dp_json_open(j, '{');
	dp_json_key(j, "probes");
	dp_json_open(j, '[');
	for (u32 i = 0; i < n; i++)
		json_row(j, &rows[i]);
	dp_json_close(j, ']');
	dp_json_key(j, "total");
	json_row(j, total);
	dp_json_key(j, "seconds");
	dp_json_seconds(j, (u64)(DP_MAX(lasted, 0.0) * 1e9));
	dp_json_close(j, '}');
}

static void tell_rows(const struct dp_trace_row *rows, u32 n, const struct dp_trace_row *total, double lasted)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_ui_message_open(&j, "summary");
	dp_summary_json(&j, rows, n, total, lasted);
	dp_ui_message_close(&j);
}

/* ---- for people ---- */

/* Which of them were never hit, where their rows are not there. */
static void put_quiet(struct dp_line *l, const struct dp_trace_row *rows, u32 n, u32 quiet)
{
	const char *apart = " (";

	if (!quiet || dp_summary_all)
		return;
	if (quiet > QUIET_NAMED) {
		dp_line_str(l, " (not shown)");
		return;
	}
	for (u32 i = 0; i < n; i++) {
		if (rows[i].hits)
			continue;
		dp_line_str(l, apart);
		dp_line_str(l, dp_ui_clean(rows[i].name));
		apart = ", ";
	}
	dp_line_char(l, ')');
}

void dp_summary_rows(FILE *to, struct dp_trace_row *rows, u32 n, u32 without, const struct dp_trace_row *total,
		     double lasted)
{
	u32 quiet = without, all = n + without, shown = n;
	struct dp_line l = {0};
	int width = 12;
	double percent;

	if (to == stderr && dp_ui_messages_json()) {
		tell_rows(rows, n, total, lasted);
		return;
	}
	if (all > SHOWN && !dp_summary_all) {
		qsort(rows, n, sizeof(*rows), by_hits);
		shown = DP_MIN(n, (u32)SHOWN);
	}
	for (u32 i = 0; i < n; i++) {
		if (i < shown)
			width = DP_MAX(width, (int)DP_MIN(strlen(rows[i].name), (size_t)40));
		quiet += !rows[i].hits;
	}
	if (quiet < all || dp_summary_all)
		put_head(&l, to, width);
	for (u32 i = 0; i < shown; i++)
		if (dp_summary_all || rows[i].hits)
			put_row(&l, to, &rows[i], width);
	if (shown < all && all - shown > quiet) {
		dp_line_str(&l, "... and ");
		dp_line_dec(&l, all - shown - quiet, 0, ' ');
		dp_line_str(&l, " more probes\n");
	}
	if (all > 1 && (quiet < all || dp_summary_all))
		put_row(&l, to, total, width);
	if (all)
		dp_line_format(&l, "%u probe%s, %u never hit", all, all == 1 ? "" : "s", quiet);
	else
		dp_line_str(&l, "no probes");
	put_quiet(&l, rows, n, quiet);
	dp_line_format(&l, "; %.1f s", lasted);
	if (!l.broken)
		fwrite(l.text, 1, l.n, to);
	dp_line_free(&l);
	percent = total->cost_ns / DP_MAX(lasted, 0.1) / 1e7;
	if (lasted >= 0.1) /* of less, a share tells nothing */
		fprintf(to, "; %s %.*f %% of one processor", percent < 0.01 ? "less than" : "about",
			percent < 10 ? 2 : 0, DP_MAX(percent, 0.01));
	fputc('\n', to);
}

void dp_summary_print(FILE *to, const struct dp_trace *t)
{
	bool every = dp_summary_all || (to == stderr && dp_ui_messages_json());
	u32 n;
	struct dp_trace_row total, *rows = dp_trace_rows(t, every ? t->nevents : QUIET_NAMED, &n, &total);

	if (rows)
		dp_summary_rows(to, rows, n, t->nevents - n, &total, t->lasted);
	dp_free(rows);
}

/* ---- budgets ---- */

/* A line of it; a note where messages are objects. */
static void say(FILE *to, const char *fmt, ...) DP_PRINTF(2, 3);
static void say(FILE *to, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (to == stderr && dp_ui_messages_json())
		dp_ui_note("%s", text + strspn(text, " "));
	else
		fprintf(to, "%s\n", text);
}

static int by_missed(const void *a, const void *b)
{
	double x = ((const struct dp_trace_row *)a)->governed.missed;
	double y = ((const struct dp_trace_row *)b)->governed.missed;

	return x < y ? 1 : x > y ? -1 : 0;
}

void dp_summary_budget_rows(FILE *to, u32 budget, const struct dp_govern_cost *cost, struct dp_trace_row *rows, u32 n,
			    bool quiet)
{
	struct dp_governed rest = {0};
	u32 shown = 0, more = 0;
	char text[160];

	if (!quiet && cost->cpu_ns)
		say(to, "budget %g %%: hits took about %.2g %% of %.1f s of processor time, %.0f ns each",
		    budget / 100.0, 100 * cost->cost_ns / (double)cost->cpu_ns, (double)cost->cpu_ns / 1e9,
		    cost->hits ? cost->cost_ns / (double)cost->hits : 0.0);
	qsort(rows, n, sizeof(*rows), by_missed);
	for (u32 i = 0; i < n; i++) {
		if (!rows[i].governed.times)
			continue;
		if (shown == SHOWN) {
			dp_governed_sum(&rest, &rows[i].governed);
			more++;
			continue;
		}
		dp_governed_text(&rows[i].governed, text, sizeof(text));
		say(to, "  %s: %s", dp_ui_clean(rows[i].name), text);
		shown++;
	}
	if (!more)
		return;
	dp_governed_text(&rest, text, sizeof(text));
	say(to, "  ... and %u more probes, together: %s", more, text);
}

void dp_summary_budget(FILE *to, const struct dp_trace *t, bool quiet)
{
	u32 n;
	struct dp_trace_row total, *rows = dp_trace_rows(t, t->nevents, &n, &total);
	struct dp_govern_cost cost;

	dp_trace_govern_cost(t, &cost);
	if (rows)
		dp_summary_budget_rows(to, t->budget, &cost, rows, n, quiet);
	dp_free(rows);
}

void dp_summary_budget_json_rows(FILE *to, u32 budget, const struct dp_trace_row *rows, u32 n)
{
	char percent[24];

	snprintf(percent, sizeof(percent), "%g", budget / 100.0);
	for (u32 i = 0; i < n; i++) {
		const struct dp_governed *g = &rows[i].governed;
		struct dp_line line = {0};
		struct dp_json j = {&line};

		if (!g->times)
			continue;
		dp_json_open(&j, '{');
		dp_json_put_string(&j, "taken_out", rows[i].name);
		dp_json_key(&j, "budget");
		dp_json_digits(&j, percent, strlen(percent));
		dp_json_put_unsigned(&j, "times", g->times);
		dp_json_key(&j, "out");
		dp_json_seconds(&j, g->out_ns);
		dp_json_key(&j, "of");
		dp_json_seconds(&j, g->of_ns);
		dp_json_put_unsigned(&j, "hits_passed_over_about", (u64)DP_MIN(g->missed, 1e18));
		dp_json_close(&j, '}');
		dp_json_end(&j);
		if (!line.broken)
			fwrite(line.text, 1, line.n, to);
		dp_line_free(&line);
	}
}

void dp_summary_budget_json(struct dp_trace *t, void *arg)
{
	u32 n;
	struct dp_trace_row total, *rows = t->budget ? dp_trace_rows(t, t->nevents, &n, &total) : NULL;

	if (rows)
		dp_summary_budget_json_rows(t->out.f, t->budget, rows, n);
	dp_free(rows);
}
