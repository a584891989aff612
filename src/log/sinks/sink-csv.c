/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Records as comma-separated values (RFC 4180). Of events all columns are known before the first record: the fixed
 * ones, then one for each name of an argument, in which the events that lack it have nothing. Elements of arrays stand
 * in one column, with spaces between them. Records of programs have their fields in one column, as "name=value;
 * name=value".
 */
#include <stdio.h>

#include "log/aggregate.h"
#include "log/log-rpn.h"
#include "log/sinks.h"
#include "log/sinks/kept-head.h"
#include "log/template.h"

struct column {
	const char *name;
	unsigned place;  /* of an argument without a name: arg1 has 0 */
	size_t at, size; /* of the record's value in cells */
};

struct csv_sink {
	struct dp_sink s;
	struct dp_line cells; /* values in the order of the record */
	struct dp_line *to;   /* the line that s.line was */
	struct column *columns;
	u32 ncolumns;
	struct column *current;   /* whose value is written; NULL: nobody's */
	struct dp_kept_head head; /* behind the time */
};
_Static_assert(sizeof(struct csv_sink) <= sizeof(union dp_sink_room), "a sink fits");

static const char quote[] = {',', '"'}; /* begins a quoted cell */

static struct csv_sink *csv(struct dp_sink *s)
{
	return (struct csv_sink *)s;
}

/* As within a quoted cell: quotation marks are doubled. */
static void put_inside(struct dp_line *l, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '"')
			dp_line_char(l, '"');
		dp_line_char(l, p[i]);
	}
}

/* A text that somebody else has chosen: one line, and nothing in it drives a terminal. */
static void put_clean(struct dp_line *l, const char *p, size_t n, bool inside)
{
	struct dp_line clean = {0};

	dp_line_clean(inside ? &clean : l, p, n, "");
	put_inside(l, clean.text, clean.n);
	dp_line_free(&clean);
}

static void put_cell(struct dp_line *l, const char *p, size_t n)
{
	bool quoted = false;

	for (size_t i = 0; i < n; i++)
		quoted |= p[i] == ',' || p[i] == '"' || p[i] == '\n' || p[i] == '\r';
	if (!quoted) {
		dp_line_bytes(l, p, n);
		return;
	}
	dp_line_char(l, '"');
	put_inside(l, p, n);
	dp_line_char(l, '"');
}

static void text_cell(struct dp_line *l, const char *text)
{
	struct dp_line clean = {0};

	dp_line_clean(&clean, text, strlen(text), "");
	dp_line_char(l, ',');
	put_cell(l, clean.text, clean.n);
	dp_line_free(&clean);
}

static void number_cell(struct dp_line *l, u64 v)
{
	dp_line_char(l, ',');
	dp_line_dec(l, v, 0, ' ');
}

/* ---- columns of events ---- */

static bool is_column(const struct column *c, const struct dp_field *f, unsigned i)
{
	return f->name[0] ? c->name && !strcmp(c->name, f->name) : !c->name && c->place == i;
}

static struct column *find_column(const struct csv_sink *c, const struct dp_field *f, unsigned i)
{
	for (u32 k = 0; k < c->ncolumns; k++)
		if (is_column(&c->columns[k], f, i))
			return &c->columns[k];
	return NULL;
}

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	struct csv_sink *c = csv(s);
	u32 most = 0;

	for (u32 i = 0; i < env->nevents; i++)
		most += env->events[i].layout->nfields;
	c->columns = dp_alloc((most + 1) * sizeof(*c->columns));
	if (!c->columns)
		return false;
	for (u32 i = 0; i < env->nevents; i++)
		for (u32 k = 0; k < env->events[i].layout->nfields; k++) {
			const struct dp_field *f = &env->events[i].layout->fields[k];

			if (!find_column(c, f, k))
				c->columns[c->ncolumns++] = (struct column){f->name[0] ? f->name : NULL, k};
		}
	return true;
}

static void release(struct dp_sink *s)
{
	dp_line_free(&csv(s)->cells);
	dp_free(csv(s)->columns);
}

static void head(struct dp_sink *s)
{
	char unnamed[16];

	if (s->program) {
		dp_line_str(s->line, "time,major,minor,module,pid,tid,cpu,task,shortened,data,fields\n");
		return;
	}
	dp_line_str(s->line, "time,task,tid,cpu,event,group,symbol,offset,return,caller,shortened");
	for (u32 i = 0; i < csv(s)->ncolumns; i++) {
		const struct column *c = &csv(s)->columns[i];

		dp_format(unnamed, sizeof(unnamed), "arg%u", c->place + 1);
		text_cell(s->line, c->name ? c->name : unnamed);
	}
	dp_line_char(s->line, '\n');
}

/* ---- records ---- */

static void put_who(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct csv_sink *c = csv(s);
	size_t before;

	dp_line_seconds(s->line, r->ns);
	if (dp_kept_head_put(&c->head, s->line, r))
		return;
	before = s->line->n;
	text_cell(s->line, r->task);
	number_cell(s->line, r->tid);
	number_cell(s->line, r->rec->cpu);
	dp_kept_head_is(&c->head, s->line, before, r);
}

static void put_event(struct dp_line *l, const struct dp_event_info *ev)
{
	text_cell(l, ev->name && ev->name[0] ? ev->name : ev->symbol);
	text_cell(l, ev->group ? ev->group : "");
	text_cell(l, ev->symbol);
	number_cell(l, ev->offset);
	number_cell(l, ev->is_return);
}

static void put_caller(struct dp_sink *s, const struct dp_sink_record *r)
{
	char caller[DP_SINK_SYMBOL] = "";
	u64 addr;

	if (dp_view_ret_addr(&r->view, &addr))
		s->symbol(s, addr, true, caller, sizeof(caller));
	text_cell(s->line, caller);
}

static void begin_event(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct csv_sink *c = csv(s);

	put_who(s, r);
	put_event(s->line, r->event);
	put_caller(s, r);
	number_cell(s->line, !!(r->rec->flags & DP_REC_TRUNCATED));
	for (u32 i = 0; i < c->ncolumns; i++)
		c->columns[i].size = 0;
	dp_line_reset(&c->cells);
	c->to = s->line;
	s->line = &c->cells;
}

/* A caller is the record's, and stands behind what is the event's. */
static void start(struct dp_sink *s, const struct dp_sink_record *r)
{
	put_who(s, r);
	if (r->view.layout->has_ret_addr) {
		put_event(s->line, r->event);
		put_caller(s, r);
	}
}

/* Where the column has its value from; nfields: from nowhere. Of two of one name the last one shows. */
static u32 field_of(const struct column *c, const struct dp_layout *layout)
{
	u32 found = layout->nfields;

	for (u32 i = 0; i < layout->nfields; i++)
		if (is_column(c, &layout->fields[i], i))
			found = i;
	return found;
}

/* What is no number may have to be quoted, which is known when it is there. */
static bool lay_out(struct dp_sink *s, struct dp_template *t, const struct dp_sink_record *r)
{
	const struct dp_layout *layout = r->view.layout;

	if (!layout->has_ret_addr) {
		put_event(s->line, r->event);
		text_cell(s->line, ""); /* no caller */
	}
	number_cell(s->line, false); /* it is not shortened */
	for (u32 i = 0; i < csv(s)->ncolumns; i++) {
		u32 field = field_of(&csv(s)->columns[i], layout);

		dp_line_char(s->line, ',');
		if (field < layout->nfields && !dp_template_has_number(&layout->fields[field]))
			return false;
		if (field < layout->nfields)
			dp_template_field(t, field, false);
	}
	dp_line_char(s->line, '\n');
	return true;
}

static void begin_program(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_line *l = s->line;

	dp_line_seconds(l, r->program->realtime_ns);
	number_cell(l, r->head->major);
	number_cell(l, r->head->minor);
	text_cell(l, r->program->module);
	number_cell(l, r->head->pid);
	number_cell(l, r->rec->tid);
	number_cell(l, r->rec->cpu);
	text_cell(l, r->task ? r->task : "");
	number_cell(l, !!(r->rec->flags & DP_REC_TRUNCATED));
	dp_line_char(l, ',');
	dp_line_bytes_hex(l, r->data, r->size);
	dp_line_bytes(l, quote, 2);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	if (s->program)
		begin_program(s, r);
	else
		begin_event(s, r);
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct csv_sink *c = csv(s);

	if (s->program) {
		dp_line_str(s->line, "\"\n");
		return;
	}
	s->line = c->to;
	for (u32 i = 0; i < c->ncolumns; i++) {
		dp_line_char(s->line, ',');
		if (!c->cells.broken)
			put_cell(s->line, c->cells.text + c->columns[i].at, c->columns[i].size);
	}
	dp_line_char(s->line, '\n');
}

/* Items have no names; what describes them has. */
static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	return what == DP_SECTION_FIELDS && parses;
}

static void section_end(struct dp_sink *s, enum dp_sink_section what)
{
}

/* ---- values ---- */

static void put_text(struct dp_sink *s, const char *p, size_t n)
{
	put_clean(s->line, p, n, s->program);
}

static void field(struct dp_sink *s, const char *name, unsigned i)
{
	struct csv_sink *c = csv(s);
	struct dp_field wanted = {.size = 0};

	if (s->program) {
		dp_line_str(s->line, i ? "; " : "");
		if (name) {
			put_text(s, name, strlen(name));
			dp_line_char(s->line, '=');
		}
		return;
	}
	dp_format(wanted.name, sizeof(wanted.name), "%s", name);
	c->current = find_column(c, &wanted, i);
	if (c->current)
		c->current->at = s->line->n;
}

static void field_end(struct dp_sink *s)
{
	struct csv_sink *c = csv(s);

	if (!s->program && c->current)
		c->current->size = s->line->n - c->current->at;
}

static void group(struct dp_sink *s, enum dp_sink_group what)
{
	if (s->depth)
		dp_line_char(s->line, '{');
	dp_sink_deeper(s);
}

static void member(struct dp_sink *s, const char *name)
{
	if (dp_sink_next(s))
		dp_line_char(s->line, ' ');
	if (name && *name) {
		put_text(s, name, strlen(name));
		dp_line_char(s->line, '=');
	}
}

static void group_end(struct dp_sink *s, enum dp_sink_group what)
{
	s->depth--;
	if (s->depth)
		dp_line_char(s->line, '}');
}

static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	struct dp_line *l = s->line;
	char buf[DP_SINK_SYMBOL], c = (char)v->bits;

	switch (v->kind) {
	case DP_SINK_UNSIGNED:
	case DP_SINK_CODE:
		dp_line_dec(l, v->bits, 0, ' ');
		break;
	case DP_SINK_SIGNED:
		dp_line_signed(l, (s64)v->bits);
		break;
	case DP_SINK_BOOL:
		dp_line_str(l, v->bits ? "true" : "false");
		break;
	case DP_SINK_CHAR:
		put_text(s, &c, 1);
		break;
	case DP_SINK_BYTE:
		dp_line_signed(l, (s8)c);
		break;
	case DP_SINK_ADDRESS:
		s->symbol(s, v->bits, v->behind_call, buf, sizeof(buf));
		put_text(s, buf, strlen(buf));
		break;
	case DP_SINK_BYTES:
		dp_line_bytes_hex(l, v->text, v->len);
		break;
	case DP_SINK_DIGITS:
	case DP_SINK_TEXT:
	case DP_SINK_NAME:
	case DP_SINK_MESSAGE:
		put_text(s, v->text, v->len);
		break;
	case DP_SINK_MISSING:
		break; /* an empty cell */
	}
}

/* ---- aggregates: "aggregate", name, kind, module, process, ended, key, part, value ---- */

static void agg_row(struct dp_line *l, const struct dp_agg_table *t, const struct dp_agg_entry *e, const char *part)
{
	const u64 *key = e->key;
	char text[512];

	dp_line_str(l, "aggregate");
	text_cell(l, t->a->name);
	text_cell(l, dp_agg_kind(t->a));
	text_cell(l, t->a->shared ? "" : t->module);
	if (t->a->shared)
		dp_line_char(l, ',');
	else
		number_cell(l, (u64)t->view->pid);
	number_cell(l, !t->a->shared && t->view->ended);
	dp_line_bytes(l, quote, 2);
	for (u32 i = 0; i < t->a->nparts; key += dp_rpn_key_part_words(t->a, i++)) {
		dp_line_str(l, i ? "; " : "");
		for (u32 k = 0; !k || (t->a->parts[i] == DP_KEY_STACK && dp_agg_frame(t->a, key, k)); k++) {
			if (k) {
				dp_line_char(l, ' ');
				dp_agg_frame_name(t, key, k, text, sizeof(text));
			} else if (t->a->parts[i] == DP_KEY_OCTAL) { /* a number, as in records */
				snprintf(text, sizeof(text), "%llu", (unsigned long long)*key);
			} else {
				dp_agg_part(t, i, key, text, sizeof(text));
			}
			put_clean(l, text, strlen(text), true);
		}
	}
	dp_line_char(l, '"');
	text_cell(l, part);
	dp_line_char(l, ',');
}

/* "4..7": the values of a bar; "count" and "value" of what is no histogram. */
static void agg_entry(struct dp_line *l, const struct dp_agg_table *t, const struct dp_agg_entry *e)
{
	char part[64];
	s64 lo, hi;

	for (u32 i = 0; i < DP_HIST_WORDS && dp_agg_is_hist(t->a); i++) {
		bool open = dp_agg_range(t->a, i, &lo, &hi);

		if (!e->v[i])
			continue;
		if (!i)
			snprintf(part, sizeof(part), "..%lld",
				 t->a->kind == DP_AGG_HIST ? 0 : (long long)t->a->from - 1);
		else if (open)
			snprintf(part, sizeof(part), "%lld..", (long long)lo);
		else
			snprintf(part, sizeof(part), "%lld..%lld", (long long)lo, (long long)hi);
		agg_row(l, t, e, part);
		dp_line_dec(l, e->v[i], 0, ' ');
		dp_line_char(l, '\n');
	}
	for (u32 i = 0; t->a->kind == DP_AGG_QUANTILES && dp_agg_parts_shown[i].name; i++) {
		agg_row(l, t, e, dp_agg_parts_shown[i].name);
		if (dp_agg_values(e->v))
			dp_line_dec(l, dp_agg_quantile(e->v, dp_agg_parts_shown[i].part), 0, ' ');
		dp_line_char(l, '\n');
	}
	if (dp_agg_is_hist(t->a) || t->a->kind == DP_AGG_QUANTILES)
		return;
	agg_row(l, t, e, "value");
	if (t->a->kind == DP_AGG_COUNT)
		dp_line_dec(l, e->v[0], 0, ' ');
	else if (t->a->kind == DP_AGG_LAST || e->v[1])
		dp_line_signed(l, (s64)e->v[0]);
	dp_line_char(l, '\n');
	if (t->a->kind != DP_AGG_SUM)
		return;
	agg_row(l, t, e, "values");
	dp_line_dec(l, e->v[1], 0, ' ');
	dp_line_char(l, '\n');
}

static void aggregate(struct dp_sink *s, const struct dp_agg_table *t)
{
	for (u32 i = 0; i < t->n; i++)
		agg_entry(s->line, t, &t->v[i]);
}

const struct dp_sink_ops dp_sink_csv = {
    .open = open,
    .release = release,
    .head = head,
    .begin = begin,
    .field = field,
    .field_end = field_end,
    .group = group,
    .member = member,
    .group_end = group_end,
    .value = value,
    .end = end,
    .start = start,
    .lay_out = lay_out,
    .section = section,
    .section_end = section_end,
    .aggregate = aggregate,
};
