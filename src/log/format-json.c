/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records as JSON, one object a line:
 *
 *   {"ts":262.389131000,"task":"redis-server","tid":2376,"cpu":1,"event":"conn","group":"dprobes",
 *    "symbol":"acceptTcpHandler","offset":0,"return":false,"args":{"fd":6}}
 */
#include "log/format-priv.h"

static void key(struct dp_line *l, const char *name)
{
	dp_line_str(l, ",\"");
	dp_line_str(l, name);
	dp_line_str(l, "\":");
}

static void string(struct dp_line *l, const char *s)
{
	dp_line_json_string(l, s, strlen(s));
}

static void number(struct dp_line *l, u64 v)
{
	dp_line_dec(l, v, 0, ' ');
}

static void put_symbol(struct dp_formatter *f, u64 addr, bool behind_call)
{
	char buf[512];

	dp_symbol_text(f->env.symbolize, f->env.arg, addr, behind_call, buf, sizeof(buf));
	string(&f->line, buf);
}

static void put_element(struct dp_formatter *f, const struct dp_view *v, unsigned i, unsigned at)
{
	const struct dp_field *field = &v->layout->fields[i];
	struct dp_value value = dp_view_value(v, i, at);
	char c = (char)value.bits;

	if (value.state != DP_VALUE_OK)
		dp_line_str(&f->line, "null");
	else if (field->type == DP_FIELD_STRING)
		dp_line_json_string(&f->line, value.text, value.len);
	else if (field->type == DP_FIELD_CHAR)
		dp_line_json_string(&f->line, &c, 1);
	else if (field->type == DP_FIELD_SYMBOL)
		put_symbol(f, value.bits, false);
	else if (field->type == DP_FIELD_FRAME)
		put_symbol(f, value.bits, at > 0);
	else if (dp_field_is_signed(field))
		dp_line_signed(&f->line, (s64)value.bits);
	else
		number(&f->line, value.bits);
}

static void put_field(struct dp_formatter *f, const struct dp_view *v, unsigned i)
{
	const struct dp_field *field = &v->layout->fields[i];
	struct dp_line *l = &f->line;
	char unnamed[16];

	if (i)
		dp_line_char(l, ',');
	dp_format(unnamed, sizeof(unnamed), "arg%u", i + 1);
	string(l, field->name[0] ? field->name : unnamed);
	dp_line_char(l, ':');
	if (!field->count) {
		put_element(f, v, i, 0);
		return;
	}
	dp_line_char(l, '[');
	for (unsigned k = 0; k < dp_view_count(v, i); k++) {
		if (k)
			dp_line_char(l, ',');
		put_element(f, v, i, k);
	}
	dp_line_char(l, ']');
}

static void put_caller(struct dp_formatter *f, const struct dp_view *v)
{
	u64 addr;

	if (!dp_view_ret_addr(v, &addr))
		return;
	key(&f->line, "caller");
	put_symbol(f, addr, true);
}

void dp_format_json(struct dp_formatter *f, const struct dp_record *rec, u64 ns,
		    const struct dp_event_info *ev)
{
	struct dp_line *l = &f->line;
	struct dp_view v;

	dp_view_init(&v, rec, ev->layout);
	dp_line_str(l, "{\"ts\":");
	number(l, ns / 1000000000);
	dp_line_char(l, '.');
	dp_line_dec(l, ns % 1000000000, 9, '0');
	key(l, "task");
	string(l, dp_task_name(f, rec, ns));
	key(l, "tid");
	number(l, dp_task_id(f, rec->tid));
	key(l, "cpu");
	number(l, rec->cpu);
	key(l, "event");
	string(l, ev->name && ev->name[0] ? ev->name : ev->symbol);
	key(l, "group");
	string(l, ev->group ? ev->group : "");
	key(l, "symbol");
	string(l, ev->symbol);
	key(l, "offset");
	number(l, ev->offset);
	key(l, "return");
	dp_line_str(l, ev->is_return ? "true" : "false");
	put_caller(f, &v);
	if (rec->flags & DP_REC_TRUNCATED)
		dp_line_str(l, ",\"shortened\":true");
	key(l, "args");
	dp_line_char(l, '{');
	for (unsigned i = 0; i < ev->layout->nfields; i++)
		put_field(f, &v, i);
	dp_line_str(l, "}}\n");
}
