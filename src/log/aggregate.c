/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the words of an aggregate mean, and its keys as text. agg-show.c reads and sorts them; sinks show them. */
#include <string.h>

#include "log/aggregate.h"
#include "log/log-fields.h"
#include "log/sink.h"

const char *dp_agg_kind(const struct dp_rpn_aggregate *a)
{
	return a->average ? "avg" : dp_rpn_aggregate_kind(a->kind);
}

bool dp_agg_is_hist(const struct dp_rpn_aggregate *a)
{
	return dp_aggregate_words(a->kind) == DP_HIST_WORDS;
}

bool dp_agg_range(const struct dp_rpn_aggregate *a, u32 i, s64 *lo, s64 *hi)
{
	bool powers = a->kind == DP_AGG_HIST;

	*lo = powers ? (s64)(1ull << (i ? i - 1 : 0)) : a->from + (s64)i * a->step - a->step;
	*hi = powers ? (s64)((u64)*lo * 2 - 1) : *lo + a->step - 1;
	return !powers && i == DP_HIST_WORDS - 1;
}

const struct dp_agg_part_of dp_agg_parts_shown[] = {{"p50", 0.5},     {"p90", 0.9}, {"p99", 0.99},
						    {"p99.9", 0.999}, {"max", 1},   {NULL, 0}};

u64 dp_agg_values(const u64 *v)
{
	u64 n = 0;

	for (u32 i = 0; i < DP_QUANTILE_WORDS; i++)
		n += v[i];
	return n;
}

static u64 quantile_begin(u32 bar)
{
	return bar < 4 ? bar : (u64)(4 + bar % 4) << (bar / 4 - 1);
}

u64 dp_agg_quantile(const u64 *v, double part)
{
	u64 n = dp_agg_values(v), wanted = (u64)(part * (double)n), seen = 0;
	u32 i = 0;

	if ((double)wanted < part * (double)n) /* the next whole number */
		wanted++;
	for (wanted = DP_MAX(wanted, 1ull); i + 1 < DP_QUANTILE_WORDS && seen + v[i] < wanted; i++)
		seen += v[i];
	if (i < 4 || !v[i])
		return i < 4 ? i : quantile_begin(i);
	/* As if the bar's values lay evenly in it. */
	return quantile_begin(i) + (u64)((double)(1ull << (i / 4 - 1)) * (double)(wanted - seen) / (double)v[i] - 0.5);
}

bool dp_agg_any_shown(const struct dp_rpn_unit *u)
{
	for (u32 i = 0; i < u->naggregates; i++)
		if (!u->aggregates[i].loss && !u->aggregates[i].thread && !u->aggregates[i].hidden &&
		    !u->aggregates[i].shared)
			return true;
	return false;
}

bool dp_agg_any_merged(const struct dp_rpn_unit *u)
{
	for (u32 i = 0; i < u->naggregates; i++)
		if (dp_rpn_is_by_process(&u->aggregates[i]) && !u->aggregates[i].shared)
			return true;
	return false;
}

bool dp_agg_any_own(const struct dp_rpn_unit *u)
{
	for (u32 i = 0; i < u->naggregates; i++)
		if (!u->aggregates[i].loss && !u->aggregates[i].thread && !u->aggregates[i].shared &&
		    !dp_rpn_is_by_process(&u->aggregates[i]))
			return true;
	return false;
}

u64 dp_agg_losses(const struct dp_rpn_unit *u, volatile const u64 *words)
{
	u64 n = 0;

	for (u32 i = 0; i < u->naggregates; i++)
		n += u->aggregates[i].loss ? words[u->aggregates[i].index] : 0;
	return n;
}

u64 dp_agg_thread_losses(const struct dp_rpn_unit *u, volatile const u64 *words)
{
	u64 n = 0;

	for (u32 i = 0; i < u->naggregates; i++)
		n += u->aggregates[i].thread ? words[u->aggregates[i].index] : 0;
	return n;
}

double dp_agg_weight(const struct dp_rpn_aggregate *a, const u64 *v)
{
	double sum = 0;

	if (a->kind == DP_AGG_COUNT)
		return (double)v[0];
	if (a->kind == DP_AGG_QUANTILES)
		return (double)dp_agg_values(v);
	if (a->average)
		return v[1] ? (double)(s64)v[0] / (double)v[1] : 0;
	if (!dp_agg_is_hist(a))
		return (double)(s64)v[0];
	for (u32 i = 0; i < DP_HIST_WORDS; i++)
		sum += (double)v[i];
	return sum;
}

/* Layouts of the program's header: all of its probes have them. */
static const struct dp_rf_layout *layout_of(const struct dp_rpn_unit *u, u32 number)
{
	const struct dp_rf *rf = u->nprobes ? u->probes[0].rf : NULL;

	for (u32 i = 0; rf && i < rf->nlayouts; i++)
		if (rf->layouts[i].number == number && rf->layouts[i].is_enum)
			return &rf->layouts[i];
	return NULL;
}

void dp_agg_part(const struct dp_agg_table *t, u32 i, const u64 *key, char *buf, size_t size)
{
	const struct dp_agg_view *view = t->view;
	const struct dp_rf_layout *layout = t->a->parts[i] == DP_KEY_NAMES ? layout_of(t->unit, t->a->layouts[i])
									   : NULL;
	char text[DP_KEY_TEXT_WORDS * 8 + 1] = "";

	switch (t->a->parts[i]) {
	case DP_KEY_TEXT:
		memcpy(text, key, DP_KEY_TEXT_WORDS * 8);
		for (char *s = text; *s; s++)
			if ((unsigned char)*s < ' ' || *s == 0x7f)
				*s = '?';
		snprintf(buf, size, "%s", text);
		break;
	case DP_KEY_HEX:
		snprintf(buf, size, "0x%llx", (unsigned long long)*key);
		break;
	case DP_KEY_OCTAL:
		snprintf(buf, size, "%#llo", (unsigned long long)*key);
		break;
	case DP_KEY_SIGNED:
		snprintf(buf, size, "%lld", (long long)*key);
		break;
	case DP_KEY_CODE:
		dp_symbol_text(view->symbolize, view->arg, *key, false, buf, size);
		break;
	case DP_KEY_NAMES:
		if (!layout || !dp_layout_name(layout, *key, buf, size))
			snprintf(buf, size, "%lld", (long long)*key);
		break;
	case DP_KEY_STACK:
		dp_agg_frame_name(t, key, 0, buf, size);
		break;
	default:
		snprintf(buf, size, "%llu", (unsigned long long)*key);
		break;
	}
}

u64 dp_agg_frame(const struct dp_rpn_aggregate *a, const u64 *chain, u32 i)
{
	return i < a->frames ? chain[a->frames - 1 - i] : 0;
}

void dp_agg_frame_name(const struct dp_agg_table *t, const u64 *chain, u32 i, char *buf, size_t size)
{
	dp_symbol_text(t->view->symbolize, t->view->arg, dp_agg_frame(t->a, chain, i), i > 0, buf, size);
}
