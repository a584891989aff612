/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records as JSON, one object a line:
 *
 *   {"ts":262.389131000,"task":"redis-server","pid":2376,"tid":2376,"cpu":1,"event":"conn",
 *    "group":"dprobes","symbol":"acceptTcpHandler","offset":0,"return":false,"args":{"fd":6}}
 */
#include <stdio.h>

#include "log/core-text.h"
#include "log/aggregate.h"
#include "log/log-rpn.h"
#include "log/sinks.h"
#include "log/sinks/kept-head.h"
#include "log/sinks/sink-json.h"
#include "log/template.h"

struct json_sink {
	struct dp_json_sink json;
	struct dp_kept_head head; /* behind the time */
};
_Static_assert(sizeof(struct json_sink) <= sizeof(union dp_sink_room), "a sink fits");

static struct dp_json *json(struct dp_sink *s)
{
	return dp_json_of(s);
}

void dp_json_member(struct dp_sink *s, const char *name)
{
	if (name)
		dp_json_key_text(json(s), name);
}

static void put_symbol(struct dp_sink *s, u64 addr, bool behind_call)
{
	char buf[DP_SINK_SYMBOL];

	s->symbol(s, addr, behind_call, buf, sizeof(buf));
	dp_json_string(json(s), buf);
}

/* ---- records ---- */

static void shortened(struct dp_json *j, const struct dp_sink_record *r)
{
	if (!(r->rec->flags & DP_REC_TRUNCATED))
		return;
	dp_json_put_bool(j, "shortened", true);
}

static void put_who(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_kept_head *head = &((struct json_sink *)s)->head;
	struct dp_json *j = json(s);
	size_t before;

	dp_json_key(j, "ts");
	dp_json_seconds(j, r->ns);
	if (dp_kept_head_put(head, s->line, r))
		return;
	before = s->line->n;
	dp_json_put_string(j, "task", r->task);
	if (r->pid)
		dp_json_put_unsigned(j, "pid", r->pid);
	dp_json_put_unsigned(j, "tid", r->tid);
	dp_json_put_unsigned(j, "cpu", r->rec->cpu);
	dp_kept_head_is(head, s->line, before, r);
}

static void put_event(struct dp_json *j, const struct dp_event_info *ev)
{
	dp_json_put_string(j, "event", ev->name && ev->name[0] ? ev->name : ev->symbol);
	dp_json_put_string(j, "group", ev->group ? ev->group : "");
	dp_json_put_string(j, "symbol", ev->symbol);
	dp_json_put_unsigned(j, "offset", ev->offset);
	dp_json_put_bool(j, "return", ev->is_return);
}

static void put_caller(struct dp_sink *s, const struct dp_sink_record *r)
{
	u64 addr;

	if (!dp_view_ret_addr(&r->view, &addr))
		return;
	dp_json_key(json(s), "caller");
	put_symbol(s, addr, true);
}

static void open_args(struct dp_json *j)
{
	dp_json_key(j, "args");
	dp_json_open(j, '{');
}

static void begin_event(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_json *j = json(s);

	put_who(s, r);
	put_event(j, r->event);
	put_caller(s, r);
	shortened(j, r);
	open_args(j);
}

/*
 * A caller is the record's, and stands behind what is the event's. What is open then the template closes: nothing is,
 * for whoever writes the next line.
 */
static void start(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_json *j = json(s);

	dp_json_open(j, '{');
	put_who(s, r);
	if (r->view.layout->has_ret_addr) {
		put_event(j, r->event);
		put_caller(s, r);
	}
	j->depth = 0;
	j->more = 0;
}

static void named(struct dp_sink *s)
{
	json(s)->keyed = true;
}

static bool lay_out(struct dp_sink *s, struct dp_template *t, const struct dp_sink_record *r)
{
	const struct dp_layout *layout = r->view.layout;
	struct dp_json *j = json(s);

	j->depth = 1; /* behind the members that start has put */
	j->more = 1 << 1;
	if (!layout->has_ret_addr)
		put_event(j, r->event);
	open_args(j);
	for (u32 i = 0; i < layout->nfields; i++) {
		dp_json_field(s, layout->fields[i].name, i);
		dp_template_field(t, i, false);
		j->keyed = false;
	}
	dp_json_close(j, '}');
	dp_json_close(j, '}');
	dp_json_end(j);
	return true;
}

static void begin_program(struct dp_json *j, const struct dp_sink_record *r)
{
	dp_json_key(j, "time");
	dp_json_seconds(j, r->program->realtime_ns);
	dp_json_put_unsigned(j, "major", r->head->major);
	dp_json_put_unsigned(j, "minor", r->head->minor);
	dp_json_put_string(j, "module", r->program->module);
	dp_json_put_unsigned(j, "pid", r->head->pid);
	dp_json_put_unsigned(j, "tid", r->rec->tid);
	dp_json_put_unsigned(j, "cpu", r->rec->cpu);
	dp_json_put_unsigned(j, "ip", r->head->ip);
	dp_json_put_unsigned(j, "sp", r->head->sp);
	dp_json_put_string(j, "name", r->task ? r->task : "");
	shortened(j, r);
	if (r->rec->flags & DP_REC_TRACE)
		return;
	dp_json_key(j, "data");
	dp_json_hex(j, r->data, r->size);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	dp_json_open(json(s), '{');
	if (s->program)
		begin_program(json(s), r);
	else
		begin_event(s, r);
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_json *j = json(s);
	char text[512];

	if (!s->program)
		dp_json_close(j, '}');
	if (s->program && !(r->rec->flags & DP_REC_TRACE) && dp_core_text(r->head, text, sizeof(text)))
		dp_json_put_string(j, "core", text);
	if (s->program && r->rec->flags & DP_REC_STOP) {
		dp_json_put_bool(j, "stopped", true);
	}
	dp_json_close(j, '}');
	dp_json_end(j);
}

static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	static const char *const names[] = {"traces", "items", "fields"};
	struct dp_json *j = json(s);

	if (j->depth) /* else somebody wants this section alone */
		dp_json_key(j, names[what]);
	if (parses)
		dp_json_open(j, '[');
	else
		dp_json_null(j);
	return parses;
}

static void section_end(struct dp_sink *s, enum dp_sink_section what)
{
	dp_json_close(json(s), ']');
}

/* ---- fields ---- */

/*
 * Fields of events are members of one object; those of programs, which may have any name any number of times, objects.
 */
void dp_json_field(struct dp_sink *s, const char *name, unsigned i)
{
	struct dp_json *j = json(s);
	char unnamed[16];

	if (!s->program) {
		if (!name[0])
			dp_format(unnamed, sizeof(unnamed), "arg%u", i + 1);
		dp_json_key_text(j, name[0] ? name : unnamed);
		return;
	}
	dp_json_open(j, '{');
	if (name)
		dp_json_put_string(j, "name", name);
	dp_json_key(j, name ? "value" : "text");
}

static void field_end(struct dp_sink *s)
{
	if (s->program)
		dp_json_close(json(s), '}');
}

void dp_json_group(struct dp_sink *s, enum dp_sink_group what)
{
	dp_json_open(json(s), what == DP_GROUP_STRUCT ? '{' : '[');
}

void dp_json_group_end(struct dp_sink *s, enum dp_sink_group what)
{
	dp_json_close(json(s), what == DP_GROUP_STRUCT ? '}' : ']');
}

/* Members of an event's args are arguments, and nothing else. */
static void missing(struct dp_sink *s, const struct dp_sink_value *v)
{
	dp_json_null(json(s));
	if (v->missing == DP_MISSING_FAULT_AT && s->program)
		dp_json_put_unsigned(json(s), "fault", v->bits);
}

void dp_json_value(struct dp_sink *s, const struct dp_sink_value *v)
{
	struct dp_json *j = json(s);
	char c = (char)v->bits;

	switch (v->kind) {
	case DP_SINK_UNSIGNED:
	case DP_SINK_CODE:
		dp_json_unsigned(j, v->bits);
		break;
	case DP_SINK_SIGNED:
		dp_json_signed(j, (s64)v->bits);
		break;
	case DP_SINK_BYTE:
		dp_json_signed(j, (s8)c);
		break;
	case DP_SINK_BOOL:
		dp_json_bool(j, v->bits);
		break;
	case DP_SINK_CHAR:
		dp_json_text(j, &c, 1);
		break;
	case DP_SINK_ADDRESS:
		put_symbol(s, v->bits, v->behind_call);
		break;
	case DP_SINK_DIGITS:
		dp_json_digits(j, v->text, v->len);
		break;
	case DP_SINK_TEXT:
	case DP_SINK_NAME:
	case DP_SINK_MESSAGE:
		dp_json_text(j, v->text, v->len);
		break;
	case DP_SINK_BYTES:
		dp_json_hex(j, v->text, v->len);
		break;
	case DP_SINK_MISSING:
		missing(s, v);
		break;
	}
}

/* ---- aggregates ---- */

static void agg_frames(struct dp_json *j, const struct dp_agg_table *t, const u64 *chain)
{
	char name[256];

	dp_json_open(j, '[');
	for (u32 i = 0; !i || dp_agg_frame(t->a, chain, i); i++) {
		dp_agg_frame_name(t, chain, i, name, sizeof(name));
		dp_json_string(j, name);
	}
	dp_json_close(j, ']');
}

static void agg_key(struct dp_json *j, const struct dp_agg_table *t, const u64 *key)
{
	char text[256];

	dp_json_key(j, "key");
	dp_json_open(j, '[');
	for (u32 i = 0; i < t->a->nparts; key += dp_rpn_key_part_words(t->a, i++)) {
		if (t->a->parts[i] == DP_KEY_STACK) {
			agg_frames(j, t, key);
			continue;
		}
		if (t->a->parts[i] == DP_KEY_OCTAL) { /* a number, as in records */
			dp_json_unsigned(j, *key);
			continue;
		}
		dp_agg_part(t, i, key, text, sizeof(text));
		if (t->a->parts[i] == DP_KEY_SIGNED || t->a->parts[i] == DP_KEY_UNSIGNED ||
		    t->a->parts[i] == DP_KEY_PROCESS)
			dp_json_digits(j, text, strlen(text));
		else
			dp_json_string(j, text);
	}
	dp_json_close(j, ']');
}

static void agg_bars(struct dp_json *j, const struct dp_rpn_aggregate *a, const u64 *v)
{
	if (a->kind == DP_AGG_LINEAR) {
		dp_json_key(j, "low");
		dp_json_signed(j, a->from);
		dp_json_put_unsigned(j, "step", a->step);
	}
	dp_json_key(j, "bars");
	dp_json_open(j, '[');
	for (u32 i = 0; i < DP_HIST_WORDS; i++) {
		s64 lo, hi;
		bool open = dp_agg_range(a, i, &lo, &hi);

		if (!v[i])
			continue;
		dp_json_open(j, '{');
		if (i) {
			dp_json_key(j, "from");
			dp_json_signed(j, lo);
		}
		if (!open) {
			dp_json_key(j, "to");
			dp_json_signed(j, i ? hi : a->kind == DP_AGG_HIST ? 0 : a->from - 1);
		}
		dp_json_put_unsigned(j, "count", v[i]);
		dp_json_close(j, '}');
	}
	dp_json_close(j, ']');
}

static void agg_quantiles(struct dp_json *j, const u64 *v)
{
	dp_json_put_unsigned(j, "values", dp_agg_values(v));
	for (u32 i = 0; dp_agg_values(v) && dp_agg_parts_shown[i].name; i++)
		dp_json_put_unsigned(j, dp_agg_parts_shown[i].name, dp_agg_quantile(v, dp_agg_parts_shown[i].part));
}

static void agg_value(struct dp_json *j, const struct dp_rpn_aggregate *a, const u64 *v)
{
	if (a->kind == DP_AGG_QUANTILES) {
		agg_quantiles(j, v);
		return;
	}
	if (dp_agg_is_hist(a)) {
		agg_bars(j, a, v);
		return;
	}
	dp_json_key(j, "value");
	if (a->kind == DP_AGG_COUNT)
		dp_json_unsigned(j, v[0]);
	else if (a->kind == DP_AGG_LAST || v[1])
		dp_json_signed(j, (s64)v[0]);
	else
		dp_json_null(j);
	if (a->kind == DP_AGG_SUM)
		dp_json_put_unsigned(j, "values", v[1]);
	if (a->average && v[1]) {
		char text[32];

		snprintf(text, sizeof(text), "%.17g", (double)(s64)v[0] / (double)v[1]);
		dp_json_key(j, "average");
		dp_json_digits(j, text, strlen(text));
	}
}

static void agg_entries(struct dp_json *j, const struct dp_agg_table *t)
{
	dp_json_key(j, "entries");
	dp_json_open(j, '[');
	for (u32 i = 0; i < t->n; i++) {
		struct dp_agg_table one = *t;

		if (t->v[i].view) /* of several processes: this one names its addresses */
			one.view = t->v[i].view;
		dp_json_open(j, '{');
		agg_key(j, &one, t->v[i].key);
		agg_value(j, t->a, t->v[i].v);
		dp_json_close(j, '}');
	}
	dp_json_close(j, ']');
	dp_json_put_unsigned(j, "left_out", t->left_out);
	dp_json_put_unsigned(j, "no_room", t->no_room);
}

void dp_json_put_aggregate(struct dp_json *j, const struct dp_agg_table *t)
{
	dp_json_open(j, '{');
	dp_json_put_string(j, "aggregate", t->a->name);
	dp_json_put_string(j, "kind", dp_agg_kind(t->a));
	dp_json_put_string_or_null(j, "module", t->a->shared ? NULL : t->module);
	dp_json_key(j, "pid");
	t->a->shared ? dp_json_null(j) : dp_json_unsigned(j, (u64)t->view->pid);
	dp_json_put_bool(j, "ended", !t->a->shared && t->view->ended);
	if (t->a->nparts)
		agg_entries(j, t);
	else
		agg_value(j, t->a, t->v->v);
	dp_json_close(j, '}');
}

static void aggregate(struct dp_sink *s, const struct dp_agg_table *t)
{
	dp_json_put_aggregate(json(s), t);
	dp_json_end(json(s));
}

const struct dp_sink_ops dp_sink_json = {
    .begin = begin,
    .field = dp_json_field,
    .field_end = field_end,
    .group = dp_json_group,
    .member = dp_json_member,
    .group_end = dp_json_group_end,
    .value = dp_json_value,
    .end = end,
    .start = start,
    .lay_out = lay_out,
    .named = named,
    .section = section,
    .section_end = section_end,
    .aggregate = aggregate,
};
