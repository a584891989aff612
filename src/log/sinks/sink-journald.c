/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records as entries of systemd's journal, in its export format: lines KEY=VALUE, and an empty one behind each entry.
 * All values are one line: what is none is escaped, so that the format's other form, with lengths, is not needed.
 */
#include "log/aggregate.h"
#include "log/log-rpn.h"
#include "log/sinks.h"
#include "log/sinks/sink-json.h"

#define KEY_MAX 64 /* bytes of a field's name, by the journal's rules */
#define PREFIX "DPROBES_ARG_"

struct journald_sink {
	struct dp_sink s;
	struct dp_line message, value; /* MESSAGE, as it grows; the argument at hand */
	struct dp_line *to;            /* the line that s.line was */
	char key[KEY_MAX + 1];
};
_Static_assert(sizeof(struct journald_sink) <= sizeof(union dp_sink_room), "a sink fits");

static struct journald_sink *of(struct dp_sink *s)
{
	return (struct journald_sink *)s;
}

static void put(struct dp_line *l, const char *key, const char *text, size_t n)
{
	dp_line_str(l, key);
	dp_line_char(l, '=');
	dp_line_clean(l, text, n, "");
	dp_line_char(l, '\n');
}

static void put_string(struct dp_line *l, const char *key, const char *text)
{
	if (text && *text)
		put(l, key, text, strlen(text));
}

static void put_number(struct dp_line *l, const char *key, u64 v)
{
	dp_line_str(l, key);
	dp_line_char(l, '=');
	dp_line_dec(l, v, 0, ' ');
	dp_line_char(l, '\n');
}

static void put_head(struct dp_line *l, const char *priority)
{
	put_string(l, "PRIORITY", priority);
	put_string(l, "SYSLOG_IDENTIFIER", "dprobes");
}

/* Letters, digits and underscores; others become underscores: "o->id" is DPROBES_ARG_O__ID. */
static void set_key(char key[KEY_MAX + 1], const char *name)
{
	size_t n = sizeof(PREFIX) - 1;

	memcpy(key, PREFIX, n);
	for (; *name && n < KEY_MAX; name++) {
		char c = *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;

		key[n++] = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
	}
	key[n] = '\0';
}

/* ---- records ---- */

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct journald_sink *j = of(s);
	const struct dp_event_info *ev = r->event;
	struct dp_line *l = s->line;
	const char *module = r->program ? r->program->module : "";
	const char *what = ev ? (ev->name && ev->name[0] ? ev->name : ev->symbol) : dp_base_name(module);
	u32 pid = r->pid ? r->pid : r->head ? r->head->pid : s->env ? s->env->pid : 0;

	put_head(l, "6");
	put_string(l, "DPROBES_PROBE", what);
	put_string(l, "DPROBES_PROGRAM", module);
	if (ev) {
		put_string(l, "DPROBES_GROUP", ev->group);
		put_string(l, "DPROBES_SYMBOL", ev->symbol);
		put_number(l, "DPROBES_RETURN", ev->is_return);
	} else {
		put_number(l, "DPROBES_MAJOR", r->head->major);
		put_number(l, "DPROBES_MINOR", r->head->minor);
	}
	put_number(l, "DPROBES_PID", pid);
	put_number(l, "DPROBES_TID", r->tid);
	put_number(l, "DPROBES_CPU", r->rec->cpu);
	put_string(l, "DPROBES_COMM", r->task);
	put_number(l, "DPROBES_MONOTONIC_NS", r->ns ? r->ns : r->program ? r->program->ns : 0);
	dp_line_reset(&j->message);
	dp_line_clean(&j->message, what, strlen(what), "");
	j->to = l;
}

static void field(struct dp_sink *s, const char *name, unsigned i)
{
	struct journald_sink *j = of(s);
	char unnamed[16];

	dp_format(unnamed, sizeof(unnamed), "%s%u", s->program && !name ? "text" : "arg", i + 1);
	name = name && *name ? name : unnamed;
	set_key(j->key, name);
	dp_line_char(&j->message, ' ');
	dp_line_clean(&j->message, name, strlen(name), "");
	dp_line_char(&j->message, '=');
	dp_line_reset(&j->value);
	s->line = &j->value;
}

static void field_end(struct dp_sink *s)
{
	struct journald_sink *j = of(s);
	const char *text = j->value.text ? j->value.text : "";

	s->line = j->to;
	s->line->broken |= j->value.broken;
	put(s->line, j->key, text, j->value.n);
	dp_line_clean(&j->message, text, j->value.n, "");
}

/* As it is where it is a text: quotes belong to languages. */
static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	if (v->kind == DP_SINK_TEXT || v->kind == DP_SINK_MESSAGE)
		dp_line_clean(s->line, v->text, v->len, "");
	else
		dp_put_value(s, v);
}

/* What no program describes. */
static void put_data(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct journald_sink *j = of(s);

	dp_line_str(s->line, "DPROBES_DATA=");
	dp_line_bytes_hex(s->line, r->data, r->size);
	dp_line_char(s->line, '\n');
	dp_line_str(&j->message, " data=");
	dp_line_bytes_hex(&j->message, r->data, r->size);
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct journald_sink *j = of(s);

	if (s->program && !r->program->rf)
		put_data(s, r);
	if (r->rec->flags & DP_REC_TRUNCATED)
		put_number(s->line, "DPROBES_SHORTENED", 1);
	s->line->broken |= j->message.broken;
	dp_line_str(s->line, "MESSAGE=");
	dp_line_bytes(s->line, j->message.text, j->message.n);
	dp_line_str(s->line, "\n\n");
}

static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	return parses && what == DP_SECTION_FIELDS;
}

static void section_end(struct dp_sink *s, enum dp_sink_section what)
{
}

static void release(struct dp_sink *s)
{
	dp_line_free(&of(s)->message);
	dp_line_free(&of(s)->value);
}

/* A table is one entry, whose rows are JSON. */
static void aggregate(struct dp_sink *s, const struct dp_agg_table *t)
{
	struct dp_line *l = s->line;
	struct dp_json j = {.line = l};

	put_head(l, "6");
	put_string(l, "DPROBES_PROGRAM", t->module);
	put_number(l, "DPROBES_PID", (u64)t->view->pid);
	put_string(l, "DPROBES_TABLE", t->a->name);
	dp_line_str(l, "DPROBES_JSON=");
	dp_json_put_aggregate(&j, t);
	dp_line_str(l, "\nMESSAGE=table ");
	dp_line_clean(l, t->a->name, strlen(t->a->name), "");
	dp_line_str(l, "\n\n");
}

static void lost(struct dp_sink *s, u64 n)
{
	struct dp_line *l = s->line;

	put_head(l, "4");
	put_number(l, "DPROBES_LOST", n);
	dp_line_str(l, "MESSAGE=");
	dp_line_dec(l, n, 0, ' ');
	dp_line_str(l, " records were lost\n\n");
}

const struct dp_sink_ops dp_sink_journald = {
    .release = release,
    .begin = begin,
    .field = field,
    .field_end = field_end,
    .group = dp_put_group,
    .member = dp_put_member,
    .group_end = dp_put_group_end,
    .value = value,
    .end = end,
    .section = section,
    .section_end = section_end,
    .aggregate = aggregate,
    .lost = lost,
};
