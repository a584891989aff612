/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What `dprobes top` shows: rows with counts, rates and times, in an order, behind a filter. Sources fill the rows
 * (top-calls.c, top-events.c, top-sample.c), views show them (top-plain.c, top-screen.c); both know this model only.
 */
#ifndef DP_TOP_H
#define DP_TOP_H

#include <stdio.h>

#include "base/error.h"
#include "log/line.h"
#include "log/sinks/graph-table.h"

#define DP_TOP_TREND 60 /* turns that are remembered */

enum dp_top_kind { DP_TOP_CALLS, DP_TOP_EVENTS, DP_TOP_SAMPLES };

enum dp_top_column {
	DP_TOP_RATE,
	DP_TOP_HITS,
	DP_TOP_TOTAL, /* of samples: the share of those in which the function is anywhere */
	DP_TOP_SELF,
	DP_TOP_MEAN,
	DP_TOP_MEDIAN,
	DP_TOP_P99,
	DP_TOP_MAX,
	DP_TOP_NAME,
	DP_TOP_NCOLUMNS
};

struct dp_top_row {
	const char *name;
	u64 hits;              /* as the source counts them, */
	u64 hits_before, base; /* at the last turn, at the last reset */
	double rate;           /* a second, in the last turn */
	double trend[DP_TOP_TREND];
	/* Since the last reset: */
	u64 ncalls, sum_ns;       /* calls whose time is known */
	u64 total, self, longest; /* nanoseconds; of samples: their numbers */
	u64 *bars;                /* of the times: DP_QUANTILE_WORDS; NULL: none are known */
	bool off;                 /* the user has disabled its probes; */
	bool out;                 /* its budget has taken one of them out */
};

struct dp_top;

/* pause and reset may be NULL. */
struct dp_top_source {
	void (*refresh)(void *arg, struct dp_top *t); /* the rows as they are now */
	int (*pause)(void *arg, struct dp_top_row *row, bool off, struct dp_error *err);
	void (*reset)(void *arg); /* what the source adds up itself begins anew */
	void *arg;
};

struct dp_top {
	enum dp_top_kind kind;
	const struct dp_top_source *source;
	struct dp_top_row *rows;
	u32 n;
	size_t room;
	struct dp_graph_table edges; /* its names are those of the rows; calls by function and caller */
	u32 *row_of;                 /* by the number of a name: the row, plus 1; 0: none */
	size_t row_of_n, row_of_room;

	u32 *order; /* rows that are shown, in this order */
	u32 nshown;
	size_t order_room;
	enum dp_top_column sort;
	bool ascending;
	char filter[128]; /* a part of the name, or a pattern of the shell; "": all */

	u64 turned_ns, reset_ns; /* CLOCK_MONOTONIC */
	double lasted;           /* seconds of the last turn */
	u32 turns;
	u64 samples;           /* since the reset */
	u64 lost;              /* records that found no room: times of their calls are missing */
	struct dp_line tables; /* of lines that have some, */
	bool tables_as_json;   /* in this form: objects with commas between them */
	char title[160];
};

bool dp_top_init(struct dp_top *t, enum dp_top_kind kind, const struct dp_top_source *source); /* false: no memory */
void dp_top_free(struct dp_top *t);

/* The row of that name, which is made where there is none. NULL: no memory. Rows may move. */
struct dp_top_row *dp_top_row(struct dp_top *t, const char *name);
/* The bars of a row, made where there are none. NULL: no memory. */
u64 *dp_top_bars(struct dp_top_row *row);

/* The first turn begins: all before was preparation. */
void dp_top_begin(struct dp_top *t);
/* A turn is over: rates, order. */
void dp_top_turn(struct dp_top *t);
/* The last look, at a source that has ended: rates are of the last turn, where there was one. */
void dp_top_end(struct dp_top *t);
/* The order and the filter have changed. */
void dp_top_order(struct dp_top *t);
void dp_top_reset(struct dp_top *t);
/* The row's probes are taken out, or put back. */
int dp_top_toggle(struct dp_top *t, struct dp_top_row *row, struct dp_error *err);
/* What stands behind its name: that its probes are not in place. */
const char *dp_top_remark(const struct dp_top_row *row);
bool dp_top_matches(const struct dp_top *t, const char *name);

u64 dp_top_hits(const struct dp_top_row *row); /* since the reset */
u64 dp_top_mean(const struct dp_top_row *row);
u64 dp_top_quantile(const struct dp_top_row *row, double part); /* 0: no time is known */

/* A row of callers or callees. */
struct dp_top_edge {
	const char *name;
	u64 calls, total;
};
/* Of the function; free() *v. */
u32 dp_top_callers(const struct dp_top *t, const char *name, struct dp_top_edge **v);
u32 dp_top_callees(const struct dp_top *t, const char *name, struct dp_top_edge **v);

/* ---- columns: top-columns.c ---- */

struct dp_top_spec {
	const char *head, *key; /* on the screen, in JSON */
	int width;
};

int dp_top_width(const struct dp_top *t, enum dp_top_column c); /* 0: up to the end of the line */
bool dp_top_has(const struct dp_top *t, enum dp_top_column c);
const struct dp_top_spec *dp_top_spec(const struct dp_top *t, enum dp_top_column c);
double dp_top_value(const struct dp_top *t, const struct dp_top_row *row, enum dp_top_column c);
/* "1.23ms", "45.6k"; "-" where nothing is known. */
void dp_top_cell(const struct dp_top *t, const struct dp_top_row *row, enum dp_top_column c, char *buf, size_t size);
/* The last rates as bars of eight heights, in UTF-8 or in ASCII; width characters. */
void dp_top_trend(const struct dp_top *t, const struct dp_top_row *row, u32 width, bool utf8, char *buf, size_t size);

#endif
