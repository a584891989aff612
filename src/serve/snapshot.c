/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a run tells (run-metrics.c, and tables as `dprobes vars --json` shows them) as metric families. The lines are
 * parsed by json-c; what they lack counts as zero.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve-priv.h"

#define SERIES_MAX 1000 /* of a family */
#define NAMES_MAX 4096
#define KEYS_MAX 4
#define KEY_BYTES 512

struct name {
	u64 pid;
	char comm[16];
};

struct dp_snapshot {
	struct dp_families *families;
	struct json_tokener *parser;
	struct name *names; /* of processes, also of those that have ended meanwhile */
	u32 nnames;
};

struct dp_snapshot *dp_snapshot_new(void)
{
	struct dp_snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->families = dp_families_new(SERIES_MAX);
	s->parser = json_tokener_new_ex(8);
	s->names = calloc(NAMES_MAX, sizeof(*s->names));
	if (s->families && s->parser && s->names)
		return s;
	dp_families_free(s->families);
	if (s->parser)
		json_tokener_free(s->parser);
	free(s->names);
	free(s);
	return NULL;
}

/* ---- JSON ---- */

static struct json_object *member(struct json_object *o, const char *key)
{
	struct json_object *v = NULL;

	json_object_object_get_ex(o, key, &v);
	return v;
}

static u64 unsigned_of(struct json_object *o, const char *key)
{
	return json_object_get_uint64(member(o, key));
}

/* Of any object; of none "". */
static struct dp_metric_label label_of(const char *name, struct json_object *v)
{
	struct dp_metric_label l = {.name = name, .value = v ? json_object_get_string(v) : NULL};

	if (!l.value)
		l.value = "";
	l.len = json_object_is_type(v, json_type_string) ? (size_t)json_object_get_string_len(v) : strlen(l.value);
	return l;
}

/* ---- the run itself ---- */

static void put_one(struct dp_snapshot *s, const char *name, enum dp_metric type, const char *help,
		    const struct dp_metric_label *labels, u32 n, double number)
{
	struct dp_family *f = dp_family(s->families, name, type, NULL, help);

	if (f)
		dp_family_put(f, labels, n, &(struct dp_metric_value){.number = number});
}

static void take_run(struct dp_snapshot *s, struct json_object *o, const char *source)
{
	struct dp_metric_label l = {"source", source, strlen(source)};

	put_one(s, "dprobes_programs", DP_METRIC_GAUGE, "probe programs in place", &l, 1,
		(double)unsigned_of(o, "programs"));
	put_one(s, "dprobes_processes", DP_METRIC_GAUGE, "processes that have probes", &l, 1,
		(double)unsigned_of(o, "processes"));
	put_one(s, "dprobes_processes_let_go", DP_METRIC_COUNTER,
		"processes that began, or loaded a file, without waiting for their probes", &l, 1,
		(double)unsigned_of(o, "let_go"));
}

static void take_program(struct dp_snapshot *s, struct json_object *o)
{
	struct dp_metric_label l = label_of("program", member(o, "program"));

	put_one(s, "dprobes_program_processes", DP_METRIC_GAUGE, "processes that have the program's probes", &l, 1,
		(double)unsigned_of(o, "processes"));
	put_one(s, "dprobes_program_processes_left_out", DP_METRIC_GAUGE, "processes that refused the program's probes",
		&l, 1, (double)unsigned_of(o, "left_out"));
}

static void take_probe(struct dp_snapshot *s, struct json_object *o)
{
	static const char *const outcomes[] = {"recorded", "passed", "filtered", "missed", "lost"};
	struct dp_metric_label l[] = {
	    label_of("program", member(o, "program")), label_of("probe", member(o, "probe")), {.name = "outcome"}};

	for (u32 i = 0; i < DP_ARRAY_SIZE(outcomes); i++) {
		l[2].value = outcomes[i];
		l[2].len = strlen(outcomes[i]);
		put_one(s, "dprobes_probe_hits", DP_METRIC_COUNTER,
			"hits of a probe by outcome; passed: the program did not log; filtered: a condition was false",
			l, 3, (double)unsigned_of(o, outcomes[i]));
	}
	put_one(s, "dprobes_probe_exceptions", DP_METRIC_COUNTER, "exceptions that the program of a probe has met", l,
		2, (double)unsigned_of(o, "exceptions"));
}

static struct name *name_of(const struct dp_snapshot *s, u64 pid)
{
	for (u32 i = 0; i < s->nnames; i++)
		if (s->names[i].pid == pid)
			return &s->names[i];
	return NULL;
}

static void take_process(struct dp_snapshot *s, struct json_object *o)
{
	struct name *n = name_of(s, unsigned_of(o, "pid"));

	if (!n) {
		if (s->nnames == NAMES_MAX)
			s->nnames = 0;
		n = &s->names[s->nnames++];
		n->pid = unsigned_of(o, "pid");
	}
	snprintf(n->comm, sizeof(n->comm), "%s", label_of("", member(o, "comm")).value);
}

/* ---- tables ---- */

enum kind { KIND_COUNT, KIND_SUM, KIND_AVG, KIND_MIN, KIND_MAX, KIND_LAST, KIND_HIST, KIND_LHIST, KIND_QUANTILES };

static const struct kind_of_table {
	const char *name, *behind; /* the name of its family */
	enum dp_metric type;
	enum dp_metric_fold fold;
} kinds[] = {
    [KIND_COUNT] = {"count", "", DP_METRIC_COUNTER, DP_FOLD_SUM},
    [KIND_SUM] = {"sum", "_values", DP_METRIC_SUMMARY, DP_FOLD_SUM},
    [KIND_AVG] = {"avg", "_values", DP_METRIC_SUMMARY, DP_FOLD_SUM},
    [KIND_MIN] = {"min", "_min", DP_METRIC_GAUGE, DP_FOLD_MIN},
    [KIND_MAX] = {"max", "_max", DP_METRIC_GAUGE, DP_FOLD_MAX},
    [KIND_LAST] = {"last", "_last", DP_METRIC_GAUGE, DP_FOLD_NONE},
    [KIND_HIST] = {"hist", "", DP_METRIC_HISTOGRAM, DP_FOLD_SUM},
    [KIND_LHIST] = {"lhist", "", DP_METRIC_HISTOGRAM, DP_FOLD_SUM},
    [KIND_QUANTILES] = {"quantiles", "_quantiles", DP_METRIC_SUMMARY, DP_FOLD_SUM},
};

/* The bar that begins with that value; the first one has no beginning. */
static u32 bar_at(const struct dp_metric_value *v, struct json_object *from)
{
	s64 lo = json_object_get_int64(from);
	u64 i = !from     ? 0
		: v->step ? ((u64)lo - (u64)v->low) / v->step + 1
		: lo > 0  ? 64 - (u64)__builtin_clzll((u64)lo)
			  : 0;

	return (u32)DP_MIN(i, DP_METRIC_BARS - 1ull);
}

/* What is known of a sum: each value as if it lay in the middle of its bar. */
static double middle(struct json_object *bar)
{
	struct json_object *from = member(bar, "from"), *to = member(bar, "to");

	if (!from)
		return 0;
	return to ? ((double)json_object_get_int64(from) + (double)json_object_get_int64(to)) / 2
		  : (double)json_object_get_int64(from);
}

static bool read_bars(struct json_object *o, struct dp_metric_value *v)
{
	struct json_object *bars = member(o, "bars");
	size_t n = json_object_is_type(bars, json_type_array) ? json_object_array_length(bars) : 0;

	v->bars = calloc(DP_METRIC_BARS, sizeof(*v->bars));
	v->has_sum = v->low >= 0;
	for (size_t i = 0; v->bars && i < n; i++) {
		struct json_object *bar = json_object_array_get_idx(bars, i);
		u64 count = unsigned_of(bar, "count");

		v->bars[bar_at(v, member(bar, "from"))] += count;
		v->sum += (double)count * middle(bar);
	}
	return v->bars;
}

static void read_quantiles(struct json_object *o, struct dp_metric_value *v)
{
	static const struct {
		const char *name;
		double part;
	} parts[DP_METRIC_QUANTILES] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};

	v->count = unsigned_of(o, "values");
	for (u32 i = 0; v->count && i < DP_METRIC_QUANTILES; i++) {
		v->part[i] = parts[i].part;
		v->quantile[i] = (double)unsigned_of(o, parts[i].name);
		v->nquantiles = i + 1;
	}
}

/* False: there is no value yet. */
static bool read_value(struct json_object *o, enum kind kind, struct dp_metric_value *v)
{
	struct json_object *value = member(o, "value");

	v->fold = kinds[kind].fold;
	if (kind == KIND_HIST || kind == KIND_LHIST)
		return read_bars(o, v);
	if (kind == KIND_QUANTILES) {
		read_quantiles(o, v);
		return true;
	}
	if (kind == KIND_SUM || kind == KIND_AVG) {
		v->count = unsigned_of(o, "values");
		v->sum = (double)json_object_get_int64(value);
		v->has_sum = true;
		return true;
	}
	v->number = kind == KIND_COUNT ? (double)json_object_get_uint64(value) : (double)json_object_get_int64(value);
	return value;
}

/* A part of a key; of a call chain its frames, with ; between them. */
static struct dp_metric_label key_label(u32 i, struct json_object *part, char buf[KEY_BYTES])
{
	static const char *const names[KEYS_MAX] = {"key1", "key2", "key3", "key4"};
	size_t n = 0, frames;

	if (!json_object_is_type(part, json_type_array))
		return label_of(names[i], part);
	frames = json_object_array_length(part);
	for (size_t k = 0; k < frames; k++) {
		struct dp_metric_label frame = label_of("", json_object_array_get_idx(part, k));

		if (n + frame.len + 2 > KEY_BYTES)
			break;
		if (k)
			buf[n++] = ';';
		memcpy(buf + n, frame.value, frame.len);
		n += frame.len;
	}
	return (struct dp_metric_label){names[i], buf, n};
}

struct table {
	struct dp_family *family;
	enum kind kind;
	s64 low;
	u32 step;
	struct dp_metric_label labels[3 + KEYS_MAX]; /* the first three are of the table */
};

static void take_entry(struct table *t, struct json_object *entry, struct json_object *key)
{
	size_t nkeys = key ? json_object_array_length(key) : 0;
	struct dp_metric_value v = {.low = 0};
	char buf[KEYS_MAX][KEY_BYTES];

	nkeys = DP_MIN(nkeys, (size_t)KEYS_MAX);
	for (u32 i = 0; i < nkeys; i++)
		t->labels[3 + i] = key_label(i, json_object_array_get_idx(key, i), buf[i]);
	if (t->kind == KIND_LHIST) {
		v.low = json_object_get_int64(member(entry, "low"));
		v.step = (u32)DP_MAX(unsigned_of(entry, "step"), 1ull);
	}
	if (read_value(entry, t->kind, &v))
		dp_family_put(t->family, t->labels, 3 + (u32)nkeys, &v);
}

static struct dp_family *family_of(struct dp_snapshot *s, struct json_object *o, enum kind kind)
{
	struct dp_metric_label name = label_of("", member(o, "aggregate"));
	size_t n = name.len;
	char text[256], help[320];

	if (kind == KIND_COUNT && n > 6 && !strcmp(name.value + n - 6, "_total"))
		n -= 6;
	snprintf(text, sizeof(text), "dprobes_table_%.*s%s", (int)DP_MIN(n, 200ul), name.value, kinds[kind].behind);
	snprintf(help, sizeof(help), "%.200s, %s%s", name.value, kinds[kind].name,
		 kind == KIND_HIST || kind == KIND_LHIST ? "; the sum is estimated from the middles of buckets" : "");
	return dp_family(s->families, text, kinds[kind].type, NULL, help);
}

static void take_table(struct dp_snapshot *s, struct json_object *o)
{
	struct dp_metric_label kind = label_of("", member(o, "kind"));
	struct json_object *entries = member(o, "entries");
	struct table t = {.kind = KIND_COUNT};
	const struct name *name = name_of(s, unsigned_of(o, "pid"));

	while (t.kind < DP_ARRAY_SIZE(kinds) && strcmp(kinds[t.kind].name, kind.value))
		t.kind++;
	t.family = t.kind < DP_ARRAY_SIZE(kinds) ? family_of(s, o, t.kind) : NULL;
	if (!t.family)
		return;
	t.labels[0] = label_of("program", member(o, "module"));
	t.labels[1] = label_of("pid", member(o, "pid"));
	t.labels[2] = (struct dp_metric_label){"comm", name ? name->comm : "", name ? strlen(name->comm) : 0};
	if (!json_object_is_type(entries, json_type_array)) {
		take_entry(&t, o, NULL);
		return;
	}
	for (size_t i = 0; i < json_object_array_length(entries); i++) {
		struct json_object *entry = json_object_array_get_idx(entries, i), *key = member(entry, "key");

		if (json_object_is_type(key, json_type_array))
			take_entry(&t, entry, key);
	}
	t.labels[3] = label_of("table", member(o, "aggregate"));
	put_one(s, "dprobes_values_without_room", DP_METRIC_COUNTER, "values whose keys found no room in their table",
		t.labels, 4, (double)unsigned_of(o, "no_room"));
}

/* ---- a snapshot ---- */

static void take_line(struct dp_snapshot *s, const char *line, size_t n, const char *source)
{
	struct json_object *o;
	const char *what;

	json_tokener_reset(s->parser);
	o = json_tokener_parse_ex(s->parser, line, (int)n);
	if (json_object_is_type(o, json_type_object)) {
		what = label_of("", member(o, "metrics")).value;
		if (!strcmp(what, "run"))
			take_run(s, o, source);
		else if (!strcmp(what, "program"))
			take_program(s, o);
		else if (!strcmp(what, "probe"))
			take_probe(s, o);
		else if (!strcmp(what, "process"))
			take_process(s, o);
		else
			take_table(s, o);
	}
	json_object_put(o);
}

static void take_lines(struct dp_snapshot *s, const char *text, const char *source)
{
	for (const char *p = text; p && *p;) {
		size_t n = strcspn(p, "\n");

		take_line(s, p, n, source);
		p += n + (p[n] == '\n');
	}
}

void dp_snapshot_take(struct dp_snapshot *s, const char *driver, const char *own, double seconds)
{
	struct dp_metric_label version = {"version", DP_VERSION, strlen(DP_VERSION)};
	struct dp_family *f;

	dp_families_begin(s->families);
	put_one(s, "dprobes_build", DP_METRIC_INFO, "the dprobes that answers", &version, 1, 1);
	put_one(s, "dprobes_driver_up", DP_METRIC_GAUGE, "whether a driver runs and has answered", NULL, 0,
		driver != NULL);
	f = dp_family(s->families, "dprobes_snapshot_duration", DP_METRIC_GAUGE, "seconds",
		      "the time that it took to collect these values");
	if (f)
		dp_family_put(f, NULL, 0, &(struct dp_metric_value){.number = seconds});
	take_lines(s, driver, "driver");
	take_lines(s, own, "lines");
}

void dp_snapshot_write(struct dp_snapshot *s, enum dp_exposition format, struct dp_line *out)
{
	dp_families_write(s->families, format, out);
}
