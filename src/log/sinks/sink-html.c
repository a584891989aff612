/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A trace as one page for the browser, with all that it needs in itself. The page is made by its script (report-*.js)
 * from JSON in it: the records as they come, and behind them what they refer to by number. Names and texts are the
 * target's choice. None is markup: '<' is written as an escape of JSON, and the script sets texts only.
 */
#include <stdlib.h>
#include <string.h>

#include "log/calls.h"
#include "log/log-rpn.h"
#include "log/recording-table.h"
#include "log/recording.h"
#include "log/sinks.h"
#include "log/sinks/sink-flame.h"
#include "log/sinks/sink-json.h"

/* Each item begins with one of these; report-data.js knows what follows. */
enum item {
	ITEM_END,
	ITEM_RECORD, /* nanoseconds since the last one, thread, event, processor, call stack (a node; 0: none), text */
	ITEM_CALL, /* thread, record of the entry, of the return (-1: none), duration, self, depth, enum dp_call_end */
	ITEM_DURATION, /* nanoseconds that the last record tells */
	ITEM_LOST,     /* how many; behind the last record */
	ITEM_TABLE,    /* an object */
};

#define NONE (~0u)

static const char page_style[] =
#include <report-style.inc>
    ;
static const char page_body[] =
#include <report-body.inc>
    ;
static const char page_script[] =
#include <report-script.inc>
    ;

struct thread {
	u32 tid, source;
	char task[16];
};

struct event {
	char *group, *name, *symbol;
	u64 offset;
	bool is_return;
};

struct page {
	struct dp_json j;
	struct dp_calls *calls;
	struct thread *threads;
	struct dp_recording_table by_tid, by_program; /* by_program: events by their description */
	struct event *events;                         /* of programs */
	size_t nthreads, threads_room, nevents, events_room;
	u64 base_ns, last_ns, lost, nrecords;
	u64 duration; /* of the record at hand; 0: none */
	size_t mark;  /* where the line had begun, */
	size_t field; /* and the field */
	u32 thread;   /* of the record at hand */
	bool in_stack, is_duration, of_program;
};

struct html_sink {
	struct dp_stacks_sink st;
	struct page *p;
};
_Static_assert(sizeof(struct html_sink) <= sizeof(union dp_sink_room), "a sink fits");

static struct page *page_of(struct dp_sink *s)
{
	return ((struct html_sink *)s)->p;
}

/* ---- JSON in a page ---- */

/* From here to the end of the line: no '<' is left that could begin a tag. Outside of texts JSON has none. */
static void close_piece(struct dp_line *l, size_t from)
{
	static const char escape[6] = {'\\', 'u', '0', '0', '3', 'c'};
	size_t n = 0, end = l->n;

	if (l->broken)
		return;
	for (size_t i = from; i < end; i++)
		n += l->text[i] == '<';
	if (!n || !dp_line_reserve(l, n * (sizeof(escape) - 1)))
		return;
	l->n += n * (sizeof(escape) - 1);
	for (size_t i = end, to = l->n; i-- > from;) {
		if (l->text[i] != '<') {
			l->text[--to] = l->text[i];
			continue;
		}
		to -= sizeof(escape);
		memcpy(l->text + to, escape, sizeof(escape));
	}
}

/* ---- what records refer to ---- */

static u32 thread_of(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct page *p = page_of(s);
	struct thread *t;
	u32 i;

	if (!dp_recording_find(&p->by_tid, r->tid, r->source, &i)) {
		if (!dp_grow((void **)&p->threads, &p->threads_room, p->nthreads, sizeof(*t)) ||
		    !dp_recording_add(&p->by_tid, r->tid, r->source, (u32)p->nthreads)) {
			s->trouble = "there was no memory for some threads";
			return 0;
		}
		i = (u32)p->nthreads++;
		p->threads[i] = (struct thread){.tid = r->tid, .source = r->source};
	}
	t = &p->threads[i];
	dp_format(t->task, sizeof(t->task), "%s", r->task ? r->task : "");
	return i;
}

static void free_event(struct event *e)
{
	free(e->group);
	free(e->name);
	free(e->symbol);
}

/* Events of programs are known when they come. */
static u32 add_event(struct page *p, const struct dp_event_info *ev)
{
	struct event e = {.group = strdup(ev->group ? ev->group : ""),
			  .name = strdup(ev->name ? ev->name : ""),
			  .symbol = strdup(ev->symbol ? ev->symbol : ""),
			  .offset = ev->offset,
			  .is_return = ev->is_return};

	if (e.group && e.name && e.symbol &&
	    dp_grow((void **)&p->events, &p->events_room, p->nevents, sizeof(*p->events))) {
		p->events[p->nevents] = e;
		return (u32)p->nevents++;
	}
	free_event(&e);
	return NONE;
}

static u32 event_of_program(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct page *p = page_of(s);
	const struct dp_rpn_context *c = r->program;
	const struct dp_event_info unnamed = {.symbol = dp_base_name(c->module), .offset = c->offset};
	u64 described = (u64)(uintptr_t)c->rf;
	u32 i;

	if (dp_recording_find(&p->by_program, described, (u32)c->offset, &i))
		return i;
	i = add_event(p, r->event ? r->event : &unnamed);
	if (i == NONE || !dp_recording_add(&p->by_program, described, (u32)c->offset, i))
		s->trouble = "there was no memory for some events";
	return i;
}

/* ---- calls ---- */

static void on_enter(void *arg, u32 tid, struct dp_call *c, const struct dp_call *parent, u32 depth)
{
	c->node = (u32)page_of(arg)->nrecords;
}

static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	struct page *p = page_of(arg);
	const struct dp_call *c = &outer[depth];
	u64 took = ns > c->begin_ns ? ns - c->begin_ns : 0;

	if (c->brief)
		return;
	dp_json_unsigned(&p->j, ITEM_CALL);
	dp_json_unsigned(&p->j, c->node);
	dp_json_signed(&p->j, how == DP_CALL_RETURNED ? (s64)p->nrecords : -1);
	dp_json_unsigned(&p->j, took);
	dp_json_unsigned(&p->j, took > c->inner_ns ? took - c->inner_ns : 0);
	dp_json_unsigned(&p->j, depth);
	dp_json_unsigned(&p->j, how + (c->lost ? 4u : 0));
}

/* ---- records ---- */

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};
	struct html_sink *h = (struct html_sink *)s;
	struct page *p = dp_alloc(sizeof(*p));

	h->p = p;
	if (!dp_stacks_open(s, env) || !p)
		return false;
	p->j.line = s->line;
	p->calls = dp_calls_new(env, &ops, s);
	return p->calls;
}

static void release(struct dp_sink *s)
{
	struct page *p = page_of(s);

	if (p) {
		dp_calls_free(p->calls);
		dp_recording_table_free(&p->by_tid);
		dp_recording_table_free(&p->by_program);
		for (size_t i = 0; i < p->nevents; i++)
			free_event(&p->events[i]);
		free(p->events);
		free(p->threads);
	}
	dp_free(p);
	dp_stacks_release(s);
}

static void head(struct dp_sink *s)
{
	struct page *p = page_of(s);
	struct dp_line *l = s->line;

	dp_line_str(l, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>dprobes</title>\n"
		       "<meta name=\"viewport\" content=\"width=device-width\">\n"
		       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		       "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<style>\n");
	dp_line_str(l, page_style);
	dp_line_str(l, dp_flame_style);
	dp_line_str(l, "\n</style>\n</head>\n<body>\n");
	dp_line_str(l, page_body);
	dp_line_str(l, "<script type=\"application/json\" id=\"data\">\n");
	dp_json_open(&p->j, '{');
	dp_json_key(&p->j, "items");
	dp_json_open(&p->j, '[');
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct page *p = page_of(s);

	p->mark = s->line->n;
	p->duration = 0;
	p->is_duration = p->in_stack = false;
	p->of_program = r->program;
	p->thread = thread_of(s, r);
	if (!p->base_ns)
		p->base_ns = p->last_ns = r->ns;
	dp_stacks_begin(s, r);
	if (!r->program) {
		dp_calls_take(p->calls, r);
		close_piece(s->line, p->mark);
	}
	p->mark = s->line->n;
}

static void field(struct dp_sink *s, const char *name, unsigned i)
{
	struct page *p = page_of(s);

	p->field = s->line->n;
	p->is_duration = p->of_program && name && !strcmp(name, "duration"); /* $duration */
	p->in_stack = name && !strcmp(name, "sp"); /* of dprobes graph: nobody wants to see it */
	dp_put_field(s, name, i);
}

static void field_end(struct dp_sink *s)
{
	struct page *p = page_of(s);

	if (p->in_stack)
		s->line->n = DP_MIN(s->line->n, p->field);
	p->in_stack = false;
}

static void group(struct dp_sink *s, enum dp_sink_group what)
{
	if (what != DP_GROUP_STACK) {
		dp_put_group(s, what);
		return;
	}
	page_of(s)->in_stack = true;
	dp_stacks_group(s, what);
}

static void member(struct dp_sink *s, const char *name)
{
	if (!page_of(s)->in_stack)
		dp_put_member(s, name);
}

static void group_end(struct dp_sink *s, enum dp_sink_group what)
{
	if (what == DP_GROUP_STACK)
		dp_stacks_group_end(s, what);
	else
		dp_put_group_end(s, what);
}

static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	struct page *p = page_of(s);

	if (p->is_duration && (v->kind == DP_SINK_UNSIGNED || v->kind == DP_SINK_SIGNED))
		p->duration = v->bits;
	if (p->in_stack)
		dp_stacks_value(s, v);
	else
		dp_put_value(s, v);
}

static void put_record(struct dp_sink *s, const struct dp_sink_record *r, u32 event, const char *text, size_t n)
{
	struct page *p = page_of(s);
	const struct dp_stacks *st = ((struct html_sink *)s)->st.stacks;
	u64 ns = DP_MAX(r->ns, p->last_ns); /* one that comes late happens now, as for calls */

	dp_json_unsigned(&p->j, ITEM_RECORD);
	dp_json_unsigned(&p->j, ns - p->last_ns);
	dp_json_unsigned(&p->j, p->thread);
	dp_json_unsigned(&p->j, event);
	dp_json_unsigned(&p->j, r->rec->cpu);
	dp_json_unsigned(&p->j, st->nframes ? st->last : 0);
	dp_json_text(&p->j, text, n);
	if (p->duration) {
		dp_json_unsigned(&p->j, ITEM_DURATION);
		dp_json_unsigned(&p->j, p->duration);
	}
	dp_line_char(s->line, '\n');
	p->last_ns = ns;
	p->nrecords++;
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct page *p = page_of(s);
	struct dp_line *l = s->line;
	u32 event = r->program ? event_of_program(s, r) : r->rec->event;
	size_t n = l->n - p->mark;
	char *text = l->broken ? NULL : malloc(n + 1);

	dp_stacks_end(s, r);
	if (text && n)
		memcpy(text, l->text + p->mark, n);
	l->n = p->mark;
	if (text && event != NONE) {
		size_t blanks = 0;

		while (blanks < n && (text[blanks] == ' ' || text[blanks] == '\n'))
			blanks++;
		while (n > blanks && text[n - 1] == '\n')
			n--;
		put_record(s, r, event, text + blanks, n - blanks);
		close_piece(l, p->mark);
	}
	free(text);
}

/* Records of programs that are no events: what they describe. */
static bool section(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses)
{
	return what == DP_SECTION_FIELDS && parses;
}

static void section_end(struct dp_sink *s, enum dp_sink_section what)
{
}

static void lost(struct dp_sink *s, u64 n)
{
	struct page *p = page_of(s);

	dp_calls_lost(p->calls);
	dp_stacks_lost(s, n);
	p->lost += n;
	dp_json_unsigned(&p->j, ITEM_LOST);
	dp_json_unsigned(&p->j, n);
	dp_line_char(s->line, '\n');
}

static void aggregate(struct dp_sink *s, const struct dp_agg_table *t)
{
	struct page *p = page_of(s);
	size_t from = s->line->n;

	dp_json_unsigned(&p->j, ITEM_TABLE);
	dp_json_put_aggregate(&p->j, t);
	dp_line_char(s->line, '\n');
	close_piece(s->line, from);
}

/* ---- behind the records ---- */

static void put_processes(struct dp_sink *s, struct dp_json *j)
{
	const struct dp_recording_env *env = s->env->recording;
	const struct page *p = page_of(s);
	struct dp_line source = {0};
	struct dp_recording_table told = {0};
	u32 known;

	dp_json_key(j, "processes");
	dp_json_open(j, '[');
	for (size_t i = 0; env && i < p->nthreads; i++) {
		struct dp_recording_source head = {0};

		if (dp_recording_find(&told, 0, p->threads[i].source, &known) ||
		    !dp_recording_add(&told, 0, p->threads[i].source, 0))
			continue;
		dp_line_reset(&source);
		env->source(env->arg, p->threads[i].source, &source);
		if (!source.broken && source.n >= sizeof(head))
			memcpy(&head, source.text, sizeof(head));
		dp_json_open(j, '[');
		dp_json_unsigned(j, p->threads[i].source);
		dp_json_unsigned(j, head.pid);
		dp_json_text(j, head.comm, strnlen(head.comm, sizeof(head.comm)));
		dp_json_close(j, ']');
	}
	dp_json_close(j, ']');
	dp_recording_table_free(&told);
	dp_line_free(&source);
}

static void put_threads(struct dp_json *j, const struct page *p)
{
	dp_json_key(j, "threads");
	dp_json_open(j, '[');
	for (size_t i = 0; i < p->nthreads; i++) {
		dp_json_open(j, '[');
		dp_json_unsigned(j, p->threads[i].tid);
		dp_json_unsigned(j, p->threads[i].source);
		dp_json_string(j, p->threads[i].task);
		dp_json_close(j, ']');
	}
	dp_json_close(j, ']');
}

static void put_event(struct dp_json *j, const char *group, const char *name, const char *symbol, u64 offset,
		      bool is_return)
{
	dp_json_open(j, '[');
	dp_json_string(j, group ? group : "");
	dp_json_string(j, name ? name : "");
	dp_json_string(j, symbol ? symbol : "");
	dp_json_unsigned(j, offset);
	dp_json_unsigned(j, is_return);
	dp_json_close(j, ']');
}

static void put_events(struct dp_sink *s, struct dp_json *j)
{
	const struct page *p = page_of(s);

	dp_json_key(j, "events");
	dp_json_open(j, '[');
	for (u32 i = 0; i < s->env->nevents; i++) {
		const struct dp_event_info *ev = &s->env->events[i];

		put_event(j, ev->group, ev->name, ev->symbol, ev->offset, ev->is_return);
	}
	for (size_t i = 0; i < p->nevents; i++) {
		const struct event *ev = &p->events[i];

		put_event(j, ev->group, ev->name, ev->symbol, ev->offset, ev->is_return);
	}
	dp_json_close(j, ']');
}

/* Names, and the nodes of call stacks: pairs of a name and the caller's node. */
static void put_stacks(struct dp_json *j, const struct dp_stacks *st)
{
	dp_json_key(j, "names");
	dp_json_open(j, '[');
	for (size_t i = 0; i < st->nnames; i++)
		dp_json_string(j, st->names[i]);
	dp_json_close(j, ']');
	dp_json_key(j, "nodes");
	dp_json_open(j, '[');
	for (size_t i = 0; i < st->n; i++) {
		dp_json_unsigned(j, st->nodes[i].name);
		dp_json_unsigned(j, st->nodes[i].parent);
	}
	dp_json_close(j, ']');
}

static void put_rows(struct dp_json *j, const struct dp_recording_env *env)
{
	static const u32 shown[] = {DP_COUNT_RECORDED, DP_COUNT_FILTERED, DP_COUNT_PASSED, DP_COUNT_MISSED,
				    DP_COUNT_LOST,     DP_COUNT_FAULTS}; /* as the summary has them */
	struct dp_line rows = {0};

	if (env)
		env->rows(env->arg, &rows);
	dp_json_key(j, "rows");
	dp_json_open(j, '[');
	for (size_t at = 0; !rows.broken && at + sizeof(struct dp_recording_row) <= rows.n;
	     at += sizeof(struct dp_recording_row)) {
		struct dp_recording_row row;

		memcpy(&row, rows.text + at, sizeof(row));
		dp_json_open(j, '[');
		dp_json_text(j, row.name, strnlen(row.name, sizeof(row.name)));
		dp_json_text(j, row.via, strnlen(row.via, sizeof(row.via)));
		dp_json_unsigned(j, row.cost_ns > 0 && row.cost_ns < 1e18 ? (u64)row.cost_ns : 0);
		dp_json_unsigned(j, row.hits);
		for (u32 k = 0; k < DP_ARRAY_SIZE(shown); k++)
			dp_json_unsigned(j, row.counts.v[shown[k]]);
		dp_json_close(j, ']');
	}
	dp_json_close(j, ']');
	dp_line_free(&rows);
}

static void put_facts(struct dp_sink *s, struct dp_json *j)
{
	const struct dp_recording_env *env = s->env->recording;
	const struct page *p = page_of(s);
	struct dp_recording_head h;
	u64 since;

	dp_recording_head_of(env, &h);
	since = p->base_ns - (p->base_ns ? h.mono_ns : 0); /* either may be the later one */
	dp_json_key(j, "head");
	dp_json_open(j, '{');
	dp_json_key(j, "host");
	dp_json_text(j, h.host, strnlen(h.host, sizeof(h.host)));
	dp_json_key(j, "system");
	dp_json_text(j, h.system, strnlen(h.system, sizeof(h.system)));
	dp_json_key(j, "release");
	dp_json_text(j, h.release, strnlen(h.release, sizeof(h.release)));
	dp_json_key(j, "machine");
	dp_json_text(j, h.machine, strnlen(h.machine, sizeof(h.machine)));
	dp_json_put_unsigned(j, "began_ms", (h.real_ns + since) / 1000000);
	dp_json_put_unsigned(j, "lasted_ns", env ? env->lasted_ns(env->arg) : 0);
	dp_json_key(j, "base");
	dp_json_seconds(j, p->base_ns);
	dp_json_put_unsigned(j, "lost", p->lost);
	dp_json_close(j, '}');
}

static void finish(struct dp_sink *s)
{
	struct page *p = page_of(s);
	struct dp_line *l = s->line;
	const struct dp_stacks *st;
	struct dp_json *j = &p->j;
	size_t from = l->n;

	dp_calls_end(p->calls);
	dp_json_unsigned(j, ITEM_END);
	dp_json_close(j, ']');
	st = dp_stacks_whole(s);
	put_facts(s, j);
	put_processes(s, j);
	put_threads(j, p);
	put_events(s, j);
	put_stacks(j, st);
	put_rows(j, s->env->recording);
	dp_json_close(j, '}');
	dp_json_end(j);
	close_piece(l, from);
	dp_line_str(l, "</script>\n<div id=\"flame-svg\" hidden>\n");
	if (st->nodes[0].total)
		dp_flame_svg(l, st);
	dp_line_str(l, "</div>\n<script>\n");
	dp_line_str(l, dp_flame_script);
	dp_line_str(l, "</script>\n<script>\n");
	dp_line_str(l, page_script);
	dp_line_str(l, "</script>\n</body>\n</html>\n");
	if (dp_calls_dropped(p->calls))
		s->trouble = "there is no memory for all calls";
}

const struct dp_sink_ops dp_sink_html = {
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
    .section = section,
    .section_end = section_end,
    .aggregate = aggregate,
    .lost = lost,
    .finish = finish,
    .takes_min = true,
};
