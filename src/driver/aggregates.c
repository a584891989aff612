/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Aggregates: what local variables add up to, as tables and bars, also those of processes that have
 * ended.
 */
#include <stdlib.h>
#include <string.h>

#include "driver/driver-priv.h"

#define BAR 40
#define ENDED_MAX 32 /* processes that are remembered, for each module */

static const char bar[] = "########################################";

/* One line of an aggregate: its words, and the key's. */
struct entry {
	u64 v[DP_HIST_WORDS];
	u64 key[DP_KEY_WORDS_MAX];
};

static bool is_hist(u32 kind)
{
	return dp_aggregate_words(kind) == DP_HIST_WORDS;
}

/* What the values in a bar's word are: "0 and less", "4 .. 7". */
static void show_range(const struct dp_rpn_aggregate *a, u32 i, FILE *out)
{
	bool powers = a->kind == DP_AGG_HIST;
	u64 lo = powers ? 1ull << (i ? i - 1 : 0) : (u64)i * a->step - a->step,
	    hi = powers ? lo * 2 - 1 : lo + a->step - 1;

	if (!i)
		fprintf(out, "%20s    %-20s", "", powers ? "0 and less" : "less than 0");
	else if (!powers && i == DP_HIST_WORDS - 1)
		fprintf(out, "%20llu and more%12s", (unsigned long long)lo, "");
	else
		fprintf(out, "%20llu .. %-20llu", (unsigned long long)lo, (unsigned long long)hi);
}

static void show_hist(const struct dp_rpn_aggregate *a, const u64 *v, const char *indent, FILE *out)
{
	u32 lo = DP_HIST_WORDS, hi = 0;
	u64 most = 1;

	for (u32 i = 0; i < DP_HIST_WORDS; i++) {
		if (!v[i])
			continue;
		lo = DP_MIN(lo, i);
		hi = i;
		most = DP_MAX(most, v[i]);
	}
	for (u32 i = lo; i <= hi && lo < DP_HIST_WORDS; i++) {
		fputs(indent, out);
		show_range(a, i, out);
		fprintf(out, " %10llu |%.*s\n", (unsigned long long)v[i],
			(int)((double)v[i] / (double)most * BAR + 0.5), bar);
	}
}

/* What a table is sorted by, the largest first. */
static double weight(u32 kind, const u64 *v)
{
	double sum = 0;

	if (kind == DP_AGG_COUNT)
		return (double)v[0];
	if (!is_hist(kind))
		return (double)(s64)v[0];
	for (u32 i = 0; i < DP_HIST_WORDS; i++)
		sum += (double)v[i];
	return sum;
}

static void show_value(u32 kind, const u64 *v, FILE *out)
{
	if (kind == DP_AGG_COUNT)
		fprintf(out, "%llu", (unsigned long long)v[0]);
	else if (kind == DP_AGG_LAST)
		fprintf(out, "%lld", (long long)v[0]);
	else if (!v[1])
		fprintf(out, "-");
	else if (kind == DP_AGG_SUM)
		fprintf(out, "%lld, %llu values, %.6g on average", (long long)v[0],
			(unsigned long long)v[1], (double)(s64)v[0] / (double)v[1]);
	else
		fprintf(out, "%lld", (long long)v[0]);
}

static void key_text(const struct dp_rpn_aggregate *a, const u64 *key, char *buf, size_t size)
{
	size_t n = 0;

	for (u32 i = 0; i < a->nparts && n < size; i++) {
		char text[DP_KEY_TEXT_WORDS * 8 + 1] = "";

		if (i)
			n += (size_t)snprintf(buf + n, size - n, ", ");
		switch (a->parts[i]) {
		case DP_KEY_TEXT:
			memcpy(text, key, DP_KEY_TEXT_WORDS * 8);
			for (char *s = text; *s; s++)
				if ((unsigned char)*s < ' ' || *s == 0x7f)
					*s = '?';
			n += (size_t)snprintf(buf + n, size - n, "%s", text);
			key += DP_KEY_TEXT_WORDS - 1;
			break;
		case DP_KEY_HEX:
			n +=
			    (size_t)snprintf(buf + n, size - n, "0x%llx", (unsigned long long)*key);
			break;
		case DP_KEY_SIGNED:
			n += (size_t)snprintf(buf + n, size - n, "%lld", (long long)*key);
			break;
		default:
			n += (size_t)snprintf(buf + n, size - n, "%llu", (unsigned long long)*key);
			break;
		}
		key++;
	}
}

static u32 sorted_kind; /* qsort() hands nothing on; the driver has one thread */

static int heavier(const void *a, const void *b)
{
	double x = weight(sorted_kind, ((const struct entry *)a)->v),
	       y = weight(sorted_kind, ((const struct entry *)b)->v);

	return x > y ? -1 : x < y;
}

static u32 read_table(const struct dp_rpn_aggregate *a, volatile u64 *table, struct entry *v)
{
	u32 k = dp_rpn_key_words(a), words = dp_aggregate_words(a->kind), n = 0;

	for (u32 i = 0; i < a->keys; i++) {
		volatile u64 *place = table + 1 + i * (1 + k + words);

		if (__atomic_load_n(place, __ATOMIC_ACQUIRE) != DP_TABLE_VALID)
			continue;
		for (u32 w = 0; w < k; w++)
			v[n].key[w] = place[1 + w];
		for (u32 w = 0; w < words; w++)
			v[n].v[w] = place[1 + k + w];
		n += weight(a->kind, v[n].v) != 0 || a->kind != DP_AGG_LAST;
	}
	sorted_kind = a->kind;
	qsort(v, n, sizeof(*v), heavier);
	return n;
}

static void show_head(const struct dp_rpn_aggregate *a, FILE *out)
{
	fprintf(out, "  %-5s %-16s ", dp_rpn_aggregate_kind(a->kind), a->name);
}

static void show_table(const struct dp_rpn_aggregate *a, volatile u64 *table, FILE *out)
{
	struct entry *v = calloc(a->keys, sizeof(*v));
	u32 n = v ? read_table(a, table, v) : 0;
	double most = n ? weight(a->kind, v[0].v) : 0;
	size_t width = 8;
	char key[256];

	if (n || a->kind != DP_AGG_LAST) { /* what handlers keep for themselves is mostly empty */
		show_head(a, out);
		fprintf(out, "%s\n", n ? "" : "-");
	}
	for (u32 i = 0; i < n; i++) {
		key_text(a, v[i].key, key, sizeof(key));
		width = DP_MAX(width, strlen(key));
	}
	for (u32 i = 0; i < n; i++) {
		key_text(a, v[i].key, key, sizeof(key));
		if (is_hist(a->kind)) {
			fprintf(out, "    %s\n", key);
			show_hist(a, v[i].v, "    ", out);
		} else if (a->kind == DP_AGG_COUNT) {
			fprintf(out, "    %-*s %10llu |%.*s\n", (int)width, key,
				(unsigned long long)v[i].v[0],
				(int)((double)v[i].v[0] / DP_MAX(most, 1.0) * BAR + 0.5), bar);
		} else {
			fprintf(out, "    %-*s ", (int)width, key);
			show_value(a->kind, v[i].v, out);
			fprintf(out, "\n");
		}
	}
	if (table[0])
		fprintf(out, "    %llu values had keys for which there was no room\n",
			(unsigned long long)table[0]);
	free(v);
}

void drv_show_aggregates(const struct dp_rpn_unit *u, volatile u64 *words, FILE *out)
{
	for (u32 i = 0; i < u->naggregates; i++) {
		const struct dp_rpn_aggregate *a = &u->aggregates[i];
		u64 v[DP_HIST_WORDS];

		if (a->nparts) {
			show_table(a, words + a->index, out);
			continue;
		}
		show_head(a, out);
		for (u32 k = 0; k < dp_aggregate_words(a->kind); k++)
			v[k] = words[a->index + k];
		if (!is_hist(a->kind))
			show_value(a->kind, v, out);
		fprintf(out, "\n");
		if (is_hist(a->kind))
			show_hist(a, v, "    ", out);
	}
}

u32 drv_aggregate_at(const struct dp_rpn_unit *u, u32 i)
{
	for (u32 k = 0; k < u->naggregates; k++) {
		const struct dp_rpn_aggregate *a = &u->aggregates[k];
		u32 words = (u32)dp_rpn_aggregate_words(a);

		if (i >= a->index && i - a->index < words)
			return a->index + words - i;
	}
	return 0;
}

/* ---- processes that have ended ---- */

void drv_keep_ended(struct drv_module *m, pid_t pid, volatile u64 *words)
{
	struct drv_ended *e, **p = &m->ended;
	u32 n = 0;

	if (!m->unit.naggregates)
		return;
	e = calloc(1, sizeof(*e) + m->unit.nlocals * sizeof(u64));
	if (!e)
		return;
	e->pid = pid;
	for (u32 i = 0; i < m->unit.nlocals; i++)
		e->words[i] = words[i];
	while (*p) {
		n++;
		p = &(*p)->next;
	}
	*p = e;
	if (n >= ENDED_MAX) {
		e = m->ended;
		m->ended = e->next;
		free(e);
	}
}

void drv_forget_ended(struct drv_module *m)
{
	for (struct drv_ended *e; (e = m->ended);) {
		m->ended = e->next;
		free(e);
	}
}
