/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Rows as aligned lines, and as JSON. */
#include <string.h>
#include <time.h>

#include "host/process/process.h"
#include "log/human.h"
#include "log/json.h"
#include "top/top-show.h"

#define TREND 10

void dp_top_put_heads(struct dp_line *l, const struct dp_top *t)
{
	for (enum dp_top_column c = 0; c < DP_TOP_NAME; c++)
		if (dp_top_has(t, c)) {
			dp_line_column(l, dp_top_spec(t, c)->head, -dp_top_width(t, c));
			dp_line_str(l, "  ");
		}
	dp_line_column(l, "TREND", TREND);
	dp_line_str(l, "  ");
	dp_line_str(l, dp_top_spec(t, DP_TOP_NAME)->head);
	dp_line_char(l, '\n');
}

static void put_row(struct dp_line *l, const struct dp_top *t, const struct dp_top_row *row, bool utf8)
{
	char text[4 * TREND + 1];

	for (enum dp_top_column c = 0; c < DP_TOP_NAME; c++)
		if (dp_top_has(t, c)) {
			dp_top_cell(t, row, c, text, sizeof(text));
			dp_line_column(l, text, -dp_top_width(t, c));
			dp_line_str(l, "  ");
		}
	dp_top_trend(t, row, TREND, utf8, text, sizeof(text));
	dp_line_str(l, text);
	dp_line_str(l, "  ");
	dp_line_clean(l, row->name, strlen(row->name), "");
	dp_line_str(l, dp_top_remark(row));
	dp_line_char(l, '\n');
}

void dp_top_put_rows(struct dp_line *l, const struct dp_top *t, u32 n, bool utf8)
{
	for (u32 i = 0; i < t->nshown && i < n; i++)
		put_row(l, t, &t->rows[t->order[i]], utf8);
	if (t->nshown > n)
		dp_line_format(l, "and %u more\n", t->nshown - n);
}

static void add_up(const struct dp_top *t, u32 *hit, u64 *hits, double *rate)
{
	*hit = 0;
	*hits = 0;
	*rate = 0;
	for (u32 i = 0; i < t->n; i++) {
		*hit += dp_top_hits(&t->rows[i]) > 0;
		*hits += dp_top_hits(&t->rows[i]);
		*rate += t->rows[i].rate;
	}
}

void dp_top_put_summary(struct dp_line *l, const struct dp_top *t)
{
	static const char *const what[] = {"functions", "events", "functions"};
	char clock[16], number[16], persec[16];
	time_t now = time(NULL);
	struct tm tm;
	double rate;
	u64 hits;
	u32 hit;

	add_up(t, &hit, &hits, &rate);
	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &tm));
	dp_human_count((double)(t->kind == DP_TOP_SAMPLES ? t->samples : hits), number, sizeof(number));
	dp_human_count(rate, persec, sizeof(persec));
	dp_line_format(l, "%s  ", clock);
	dp_line_clean(l, t->title, strlen(t->title), "");
	if (t->kind == DP_TOP_SAMPLES)
		dp_line_format(l, "  %.1f s, %s samples, %u functions", (double)(dp_now_ns() - t->reset_ns) / 1e9,
			       number, hit);
	else
		dp_line_format(l, "  %.1f s, %u of %u %s hit, %s hits, %s/s", (double)(dp_now_ns() - t->reset_ns) / 1e9,
			       hit, t->n, what[t->kind], number, persec);
	if (t->lost) {
		dp_human_count((double)t->lost, number, sizeof(number));
		dp_line_format(
		    l, t->kind == DP_TOP_SAMPLES ? ", %s samples lost" : ", %s records lost: times are not whole",
		    number);
	}
	dp_line_char(l, '\n');
}

/* ---- JSON ---- */

static void put_number(struct dp_json *j, const char *key, double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.3f", v);
	dp_json_key(j, key);
	dp_json_digits(j, text, strlen(text));
}

static bool is_fraction(const struct dp_top *t, enum dp_top_column c)
{
	return c == DP_TOP_RATE || (t->kind == DP_TOP_SAMPLES && c != DP_TOP_HITS);
}

static void put_json_row(struct dp_json *j, const struct dp_top *t, const struct dp_top_row *row)
{
	dp_json_open(j, '{');
	dp_json_put_string(j, "name", row->name);
	for (enum dp_top_column c = 0; c < DP_TOP_NAME; c++) {
		bool unknown = c >= DP_TOP_TOTAL && t->kind != DP_TOP_SAMPLES && !row->bars && !row->total;

		if (!dp_top_has(t, c) || unknown)
			continue;
		if (is_fraction(t, c))
			put_number(j, dp_top_spec(t, c)->key, dp_top_value(t, row, c));
		else
			dp_json_put_unsigned(j, dp_top_spec(t, c)->key, (u64)dp_top_value(t, row, c));
	}
	if (row->off) {
		dp_json_key(j, "disabled");
		dp_json_bool(j, true);
	}
	dp_json_close(j, '}');
}

void dp_top_put_json(struct dp_line *l, const struct dp_top *t)
{
	static const char *const kinds[] = {"functions", "events", "samples"};
	struct dp_json j = {.line = l};

	dp_json_open(&j, '{');
	dp_json_put_unsigned(&j, "turn", t->turns);
	dp_json_put_string(&j, "kind", kinds[t->kind]);
	put_number(&j, "seconds", t->lasted);
	if (t->kind == DP_TOP_SAMPLES)
		dp_json_put_unsigned(&j, "samples", t->samples);
	dp_json_put_unsigned(&j, "lost", t->lost);
	dp_json_key(&j, "rows");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < t->nshown; i++)
		put_json_row(&j, t, &t->rows[t->order[i]]);
	dp_json_close(&j, ']');
	if (t->kind == DP_TOP_EVENTS) {
		dp_json_key(&j, "tables");
		dp_json_open(&j, '[');
		dp_line_bytes(l, t->tables.text, t->tables.n);
		dp_json_close(&j, ']');
	}
	dp_json_close(&j, '}');
	dp_json_end(&j);
}
