/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Aggregates: what local variables add up to, as tables and bars or as JSON, also those of processes that have ended: of
 * these the names of the addresses in keys are kept, too, since nothing could tell them later.
 */
#include <stdlib.h>
#include <string.h>

#include "driver/driver-priv.h"
#include "log/line.h"
#include "log/symbol.h"

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

/* The values that belong to bar i, but for the first, which has what is less. Returns whether there is no upper end. */
static bool range_of(const struct dp_rpn_aggregate *a, u32 i, u64 *lo, u64 *hi)
{
	bool powers = a->kind == DP_AGG_HIST;

	*lo = powers ? 1ull << (i ? i - 1 : 0) : (u64)i * a->step - a->step;
	*hi = powers ? *lo * 2 - 1 : *lo + a->step - 1;
	return !powers && i == DP_HIST_WORDS - 1;
}

/* "0 and less", "4 .. 7". */
static void show_range(const struct dp_rpn_aggregate *a, u32 i, FILE *out)
{
	u64 lo, hi;
	bool open = range_of(a, i, &lo, &hi);

	if (!i)
		fprintf(out, "%20s    %-20s", "", a->kind == DP_AGG_HIST ? "0 and less" : "less than 0");
	else if (open)
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

static void part_text(const struct dp_rpn_aggregate *a, u32 i, const u64 *key, const struct drv_view *view, char *buf,
		      size_t size)
{
	char text[DP_KEY_TEXT_WORDS * 8 + 1] = "";

	switch (a->parts[i]) {
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
	case DP_KEY_SIGNED:
		snprintf(buf, size, "%lld", (long long)*key);
		break;
	case DP_KEY_CODE:
		dp_symbol_text(view->symbolize, view->arg, *key, false, buf, size);
		break;
	case DP_KEY_STACK: /* its callers follow below, see show_callers() */
		dp_symbol_text(view->symbolize, view->arg, key[a->frames - 1], false, buf, size);
		break;
	default:
		snprintf(buf, size, "%llu", (unsigned long long)*key);
		break;
	}
}

static void key_text(const struct dp_rpn_aggregate *a, const u64 *key, const struct drv_view *view, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (u32 i = 0; i < a->nparts && n + 3 < size; i++) {
		if (i)
			n += (size_t)snprintf(buf + n, size - n, ", ");
		part_text(a, i, key, view, buf + n, size - n);
		n += strlen(buf + n);
		key += dp_rpn_key_part_words(a, i);
	}
}

/* Frame i of a call chain, the hit being the first; 0 behind its end. */
static u64 frame_of(const struct dp_rpn_aggregate *a, const u64 *chain, u32 i)
{
	return i < a->frames ? chain[a->frames - 1 - i] : 0;
}

static void show_callers(const struct dp_rpn_aggregate *a, const u64 *key, const struct drv_view *view, FILE *out)
{
	char name[256];

	for (u32 i = 0; i < a->nparts; key += dp_rpn_key_part_words(a, i++))
		for (u32 k = 1; a->parts[i] == DP_KEY_STACK && frame_of(a, key, k); k++) {
			dp_symbol_text(view->symbolize, view->arg, frame_of(a, key, k), true, name, sizeof(name));
			fprintf(out, "      %s\n", name);
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

static void show_table(const struct dp_rpn_aggregate *a, volatile u64 *table, const struct drv_view *view, FILE *out)
{
	struct entry *v = calloc(a->keys, sizeof(*v));
	char(*keys)[512] = calloc(a->keys, sizeof(*keys)); /* names of addresses are looked up once */
	u32 n = v && keys ? read_table(a, table, v) : 0;
	double most = n ? weight(a->kind, v[0].v) : 0;
	size_t width = 8;

	if (n || a->kind != DP_AGG_LAST) { /* what handlers keep for themselves is mostly empty */
		show_head(a, out);
		fprintf(out, "%s\n", n ? "" : "-");
	}
	for (u32 i = 0; i < n; i++) {
		key_text(a, v[i].key, view, keys[i], sizeof(keys[i]));
		width = DP_MAX(width, strlen(keys[i]));
	}
	for (u32 i = 0; i < n; i++) {
		if (is_hist(a->kind)) {
			fprintf(out, "    %s\n", keys[i]);
			show_callers(a, v[i].key, view, out);
			show_hist(a, v[i].v, "    ", out);
			continue;
		}
		if (a->kind == DP_AGG_COUNT) {
			fprintf(out, "    %-*s %10llu |%.*s\n", (int)width, keys[i],
				(unsigned long long)v[i].v[0],
				(int)((double)v[i].v[0] / DP_MAX(most, 1.0) * BAR + 0.5), bar);
		} else {
			fprintf(out, "    %-*s ", (int)width, keys[i]);
			show_value(a->kind, v[i].v, out);
			fprintf(out, "\n");
		}
		show_callers(a, v[i].key, view, out);
	}
	if (table[0])
		fprintf(out, "    %llu values had keys for which there was no room\n",
			(unsigned long long)table[0]);
	free(keys);
	free(v);
}

static void read_single(const struct dp_rpn_aggregate *a, volatile u64 *words, u64 *v)
{
	for (u32 k = 0; k < dp_aggregate_words(a->kind); k++)
		v[k] = words[a->index + k];
}

void drv_show_aggregates(const struct dp_rpn_unit *u, volatile u64 *words, const struct drv_view *view, FILE *out)
{
	for (u32 i = 0; i < u->naggregates; i++) {
		const struct dp_rpn_aggregate *a = &u->aggregates[i];
		u64 v[DP_HIST_WORDS];

		if (a->nparts) {
			show_table(a, words + a->index, view, out);
			continue;
		}
		show_head(a, out);
		read_single(a, words, v);
		if (!is_hist(a->kind))
			show_value(a->kind, v, out);
		fprintf(out, "\n");
		if (is_hist(a->kind))
			show_hist(a, v, "    ", out);
	}
}

/* ---- as JSON: one object a line for each aggregate ---- */

static void json_frames(const struct dp_rpn_aggregate *a, const u64 *chain, const struct drv_view *view, struct dp_line *l)
{
	char name[256];

	dp_line_char(l, '[');
	for (u32 i = 0; !i || frame_of(a, chain, i); i++) {
		dp_symbol_text(view->symbolize, view->arg, frame_of(a, chain, i), i > 0, name, sizeof(name));
		dp_line_str(l, i ? "," : "");
		dp_line_json_string(l, name, strlen(name));
	}
	dp_line_char(l, ']');
}

static void json_key(const struct dp_rpn_aggregate *a, const u64 *key, const struct drv_view *view, struct dp_line *l)
{
	char text[256];

	dp_line_str(l, "\"key\":[");
	for (u32 i = 0; i < a->nparts; key += dp_rpn_key_part_words(a, i++)) {
		dp_line_str(l, i ? "," : "");
		if (a->parts[i] == DP_KEY_STACK) {
			json_frames(a, key, view, l);
			continue;
		}
		part_text(a, i, key, view, text, sizeof(text));
		if (a->parts[i] == DP_KEY_SIGNED || a->parts[i] == DP_KEY_UNSIGNED)
			dp_line_str(l, text);
		else
			dp_line_json_string(l, text, strlen(text));
	}
	dp_line_str(l, "],");
}

static void json_bars(const struct dp_rpn_aggregate *a, const u64 *v, struct dp_line *l)
{
	bool first = true;

	dp_line_str(l, "\"bars\":[");
	for (u32 i = 0; i < DP_HIST_WORDS; i++) {
		u64 lo, hi;
		bool open = range_of(a, i, &lo, &hi);
		char text[96];

		if (!v[i])
			continue;
		if (!i)
			snprintf(text, sizeof(text), "{\"to\":%d", a->kind == DP_AGG_HIST ? 0 : -1);
		else if (open)
			snprintf(text, sizeof(text), "{\"from\":%llu", (unsigned long long)lo);
		else
			snprintf(text, sizeof(text), "{\"from\":%llu,\"to\":%llu", (unsigned long long)lo, (unsigned long long)hi);
		dp_line_str(l, first ? "" : ",");
		dp_line_str(l, text);
		snprintf(text, sizeof(text), ",\"count\":%llu}", (unsigned long long)v[i]);
		dp_line_str(l, text);
		first = false;
	}
	dp_line_char(l, ']');
}

static void json_value(const struct dp_rpn_aggregate *a, const u64 *v, struct dp_line *l)
{
	if (is_hist(a->kind)) {
		json_bars(a, v, l);
		return;
	}
	dp_line_str(l, "\"value\":");
	if (a->kind == DP_AGG_COUNT)
		dp_line_dec(l, v[0], 0, ' ');
	else if (a->kind == DP_AGG_LAST || v[1])
		dp_line_signed(l, (s64)v[0]);
	else
		dp_line_str(l, "null");
	if (a->kind == DP_AGG_SUM) {
		dp_line_str(l, ",\"values\":");
		dp_line_dec(l, v[1], 0, ' ');
	}
}

static void json_table(const struct dp_rpn_aggregate *a, volatile u64 *table, const struct drv_view *view, struct dp_line *l)
{
	struct entry *v = calloc(a->keys, sizeof(*v));
	u32 n = v ? read_table(a, table, v) : 0;

	dp_line_str(l, "\"entries\":[");
	for (u32 i = 0; i < n; i++) {
		dp_line_str(l, i ? ",{" : "{");
		json_key(a, v[i].key, view, l);
		json_value(a, v[i].v, l);
		dp_line_char(l, '}');
	}
	dp_line_str(l, "],\"no_room\":");
	dp_line_dec(l, table[0], 0, ' ');
	free(v);
}

void drv_json_aggregates(const struct dp_rpn_unit *u, volatile u64 *words, const struct drv_view *view, FILE *out)
{
	struct dp_line l = {0};

	for (u32 i = 0; i < u->naggregates; i++) {
		const struct dp_rpn_aggregate *a = &u->aggregates[i];
		u64 v[DP_HIST_WORDS];

		dp_line_reset(&l);
		dp_line_str(&l, "{\"aggregate\":");
		dp_line_json_string(&l, a->name, strlen(a->name));
		dp_line_str(&l, ",\"kind\":");
		dp_line_json_string(&l, dp_rpn_aggregate_kind(a->kind), strlen(dp_rpn_aggregate_kind(a->kind)));
		dp_line_str(&l, ",\"module\":");
		dp_line_json_string(&l, u->name, strlen(u->name));
		dp_line_str(&l, ",\"pid\":");
		dp_line_dec(&l, (u64)view->pid, 0, ' ');
		dp_line_str(&l, view->ended ? ",\"ended\":true," : ",\"ended\":false,");
		if (a->nparts) {
			json_table(a, words + a->index, view, &l);
		} else {
			read_single(a, words, v);
			json_value(a, v, &l);
		}
		dp_line_str(&l, "}\n");
		if (!l.broken)
			fwrite(l.text, 1, l.n, out);
	}
	dp_line_free(&l);
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

struct recorder { /* asks another, and keeps the answers in the order of addresses */
	const struct drv_view *view;
	struct drv_name *v;
	size_t n, room;
};

static size_t position(const struct drv_name *v, size_t n, u64 addr)
{
	size_t lo = 0;

	while (lo < n) {
		size_t mid = (lo + n) / 2;

		if (v[mid].addr < addr)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

static bool record(void *arg, u64 addr, char *buf, size_t size)
{
	struct recorder *r = arg;
	size_t at = position(r->v, r->n, addr);

	if (!r->view->symbolize(r->view->arg, addr, buf, size))
		return false;
	if ((at < r->n && r->v[at].addr == addr) || !dp_grow((void **)&r->v, &r->room, r->n, sizeof(*r->v)))
		return true;
	memmove(&r->v[at + 1], &r->v[at], (r->n - at) * sizeof(*r->v));
	r->v[at].addr = addr;
	snprintf(r->v[at].text, sizeof(r->v[at].text), "%s", buf);
	r->n++;
	return true;
}

bool drv_name_of_ended(void *arg, u64 addr, char *buf, size_t size)
{
	const struct drv_ended *e = arg;
	size_t at = position(e->names, e->nnames, addr);

	if (at == e->nnames || e->names[at].addr != addr)
		return false;
	snprintf(buf, size, "%s", e->names[at].text);
	return true;
}

static bool has_names(const struct dp_rpn_unit *u)
{
	for (u32 i = 0; i < u->naggregates; i++)
		for (u32 k = 0; k < u->aggregates[i].nparts; k++)
			if (u->aggregates[i].parts[k] >= DP_KEY_CODE)
				return true;
	return false;
}

/* Whatever would be asked later is asked now. */
static void keep_names(const struct dp_rpn_unit *u, struct drv_ended *e, const struct drv_view *view)
{
	FILE *nowhere = has_names(u) ? fopen("/dev/null", "we") : NULL;
	struct recorder r = {.view = view};

	if (!nowhere)
		return;
	drv_show_aggregates(u, e->words, &(struct drv_view){view->pid, true, record, &r}, nowhere);
	fclose(nowhere);
	e->names = r.v;
	e->nnames = (u32)r.n;
}

void drv_free_ended(struct drv_ended *e)
{
	if (e)
		free(e->names);
	free(e);
}

struct drv_ended *drv_ended_new(const struct drv_module *m, volatile const u64 *words, const struct drv_view *view)
{
	struct drv_ended *e = calloc(1, sizeof(*e) + m->unit.nlocals * sizeof(u64));

	if (!e)
		return NULL;
	e->pid = view->pid;
	for (u32 i = 0; i < m->unit.nlocals; i++)
		e->words[i] = words[i];
	keep_names(&m->unit, e, view);
	return e;
}

void drv_keep_ended(struct drv_module *m, struct drv_ended *e)
{
	struct drv_ended **p = &m->ended;
	u32 n = 0;

	if (!e || !m->unit.naggregates) {
		drv_free_ended(e);
		return;
	}
	while (*p) {
		n++;
		p = &(*p)->next;
	}
	*p = e;
	if (n >= ENDED_MAX) {
		e = m->ended;
		m->ended = e->next;
		drv_free_ended(e);
	}
}

void drv_forget_ended(struct drv_module *m)
{
	for (struct drv_ended *e; (e = m->ended);) {
		m->ended = e->next;
		drv_free_ended(e);
	}
}
