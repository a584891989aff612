/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the local variables of a probe program add up to, read and sorted, for a sink to show. */
#ifndef DP_LOG_AGGREGATE_H
#define DP_LOG_AGGREGATE_H

#include <sys/types.h>

#include "abi/abi-apart.h"
#include "lang/rpn/rpn.h"
#include "log/format.h"
#include "log/line.h"
#include "program/opcode.h"

/* Whose words they are, and what names the addresses in keys. */
struct dp_agg_view {
	pid_t pid; /* 0: the kernel */
	bool ended;
	dp_symbolize_fn *symbolize;
	void *arg;
	dp_code_file_fn *code_file; /* may be NULL */
	u32 taken_out;              /* of the program's probes, to keep a budget: what it shows is not all */
	struct dp_apart apart;      /* words are not all of it: they are where hits add to them */
};

struct dp_agg_entry { /* the words of one key; without keys there is one entry */
	u64 v[DP_AGG_WORDS_MAX];
	u64 key[DP_KEY_WORDS_MAX];
	const struct dp_agg_view *view; /* of a table of several processes: of this one */
};

struct dp_agg_table {
	const struct dp_rpn_aggregate *a;
	const struct dp_rpn_unit *unit;
	const char *module;
	const struct dp_agg_view *view;
	const struct dp_agg_entry *v; /* the largest first, of equal ones the lowest key */
	u32 n;
	u32 left_out; /* keys behind the first ones, which alone are wanted */
	u64 no_room;  /* values whose keys found no room */
};

/*
 * All aggregates of a program, whose local variables begin at words, in this format; or the one with this index; or
 * those that are not shown for several processes together (agg-show.c).
 */
#define DP_AGG_ALL (~0u)
#define DP_AGG_OWN (~0u - 1)
void dp_agg_show(enum dp_format format, const struct dp_rpn_unit *u, volatile const u64 *words, u32 only,
		 const struct dp_agg_view *view, FILE *out);

/*
 * For people, the same with a line in front that says whose they are. merged: tables whose keys have the process are
 * shown for all processes together, by the second function.
 */
void dp_agg_show_process(const struct dp_rpn_unit *u, volatile const u64 *words, bool merged,
			 const struct dp_agg_view *view, FILE *out);

/* The same, handed to fn, which may keep nothing of it. */
typedef void dp_agg_fn(void *arg, const struct dp_agg_table *t);
void dp_agg_each(const struct dp_rpn_unit *u, volatile const u64 *words, u32 only, const struct dp_agg_view *view,
		 dp_agg_fn *fn, void *arg);
/* The same of several processes: tables whose keys have the process are one. */
struct dp_agg_source {
	const struct dp_rpn_aggregate *a; /* of several programs: this one's */
	volatile const u64 *words;
	struct dp_agg_view view;
};
void dp_agg_show_merged(const struct dp_rpn_unit *u, const struct dp_agg_source *v, u32 n, FILE *out);
/* Whether tables of two programs have one name and the same columns: they can be shown as one. */
bool dp_agg_same_table(const struct dp_rpn_aggregate *a, const struct dp_rpn_aggregate *b);
/* Such tables, one at least; u has the first one's. */
void dp_agg_show_shared(enum dp_format format, const struct dp_rpn_unit *u, const struct dp_agg_source *v, u32 n,
			FILE *out);
/* Whether a program has such tables, and others. */
bool dp_agg_any_merged(const struct dp_rpn_unit *u);
bool dp_agg_any_own(const struct dp_rpn_unit *u);
/* One table in a format, as a text in l. */
void dp_agg_put(enum dp_format format, const struct dp_agg_table *t, struct dp_line *l);

/* Whether it shows anything; what is counted as lost (dp_rpn_aggregate.loss) is told elsewhere, as a sum. */
bool dp_agg_any_shown(const struct dp_rpn_unit *u);
u64 dp_agg_losses(const struct dp_rpn_unit *u, volatile const u64 *words);
/* Hits that ended because there was no room for a variable of their thread. */
u64 dp_agg_thread_losses(const struct dp_rpn_unit *u, volatile const u64 *words);

/* ---- for sinks ---- */

/* What it is called: as the language has it, or "avg". */
const char *dp_agg_kind(const struct dp_rpn_aggregate *a);

bool dp_agg_is_hist(const struct dp_rpn_aggregate *a);

/* How many values quantiles have; and below which value that part (0 to 1) of them is, from between the bars' ends. */
u64 dp_agg_values(const u64 *v);
u64 dp_agg_quantile(const u64 *v, double part);

/* The parts that are shown, and their names; the last has no name. */
extern const struct dp_agg_part_of {
	const char *name;
	double part;
} dp_agg_parts_shown[];

/* The values that belong to bar i. Bar 0 has what is less than bar 1. Returns whether there is no upper end. */
bool dp_agg_range(const struct dp_rpn_aggregate *a, u32 i, s64 *lo, s64 *hi);

/* What a table is sorted by. */
double dp_agg_weight(const struct dp_rpn_aggregate *a, const u64 *v);

/* Part i of a key as text; of a call chain: the place that was hit. */
void dp_agg_part(const struct dp_agg_table *t, u32 i, const u64 *key, char *buf, size_t size);

/* Frame i of a call chain, the hit being the first; 0 behind its end. And its name. */
u64 dp_agg_frame(const struct dp_rpn_aggregate *a, const u64 *chain, u32 i);
void dp_agg_frame_name(const struct dp_agg_table *t, const u64 *chain, u32 i, char *buf, size_t size);

#endif
