/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Calls as an indented tree for each thread, in the layout of uftrace:
 *
 *   # DURATION       TID   FUNCTION
 *                [   2376] | serve(fd=6) {
 *       2.405 us [   2376] |   lookup(key="a") = 17;
 *       9.310 us [   2376] | } = 1;
 *
 * A comment of C behind it tells the function again, and what else there is to say. A call is written when
 * it has ended; the begin of one around it is written before the first call within.
 */
#include <stdlib.h>
#include <string.h>

#include "log/calls.h"
#include "log/sinks.h"
#include "log/sinks/graph-table.h"

struct graph_sink {
	struct dp_sink s;
	struct dp_calls *calls;
	struct dp_graph_table table;
	struct dp_graph_options opt;
	size_t mark;           /* where the record's fields begin in the line */
	size_t field;          /* and where this one does */
	bool hidden;           /* this one is not shown */
	struct dp_call *outer; /* a return whose fields are yet to come: outer[depth] */
	u32 depth;
	u64 ns, last_ns;
	enum dp_call_role role;
};
_Static_assert(sizeof(struct graph_sink) <= sizeof(union dp_sink_room), "a sink fits");

static struct graph_sink *graph(struct dp_sink *s)
{
	return (struct graph_sink *)s;
}

/* ---- lines ---- */

static const char *name_of(const struct graph_sink *g, const struct dp_call *c)
{
	return g->s.env->events[c->event].symbol;
}

static void put_clean(struct dp_line *l, const char *text)
{
	dp_line_clean(l, text, strlen(text), "");
}

/* What stands before the function; ns ~0: no duration. */
static void put_front(struct graph_sink *g, u64 ns, u32 tid, u32 depth)
{
	struct dp_line *l = g->s.line;

	if (ns == ~(u64)0)
		dp_line_str(l, "           ");
	else
		dp_graph_duration(l, ns);
	dp_line_str(l, " [");
	dp_line_dec(l, tid, 7, ' ');
	dp_line_str(l, "] | ");
	for (u32 i = 0; i < depth; i++)
		dp_line_str(l, "  ");
}

static void put_call(struct graph_sink *g, const struct dp_call *c)
{
	put_clean(g->s.line, name_of(g, c));
	dp_line_char(g->s.line, '(');
	if (c->text)
		dp_line_str(g->s.line, c->text);
	dp_line_char(g->s.line, ')');
}

/* The calls around one that is written, as far as they are not. */
static void open_outer(struct graph_sink *g, u32 tid, struct dp_call *outer, u32 depth)
{
	for (u32 i = 0; i < depth; i++) {
		if (outer[i].shown)
			continue;
		outer[i].shown = true;
		put_front(g, ~(u64)0, tid, i);
		put_call(g, &outer[i]);
		dp_line_str(g->s.line, " {\n");
	}
}

static const char *remark(const struct dp_call *c, enum dp_call_end how)
{
	if (how == DP_CALL_OPEN)
		return "goes on";
	if (how == DP_CALL_LEFT)
		return c->lost ? "its return was not seen, and records were lost" : "its return was not seen";
	return c->lost ? "records were lost" : NULL;
}

static void write_call(struct graph_sink *g, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how,
		       const char *result)
{
	struct dp_call *c = &outer[depth];
	u64 took = ns > c->begin_ns ? ns - c->begin_ns : 0;
	const char *why = remark(c, how);
	struct dp_line *l = g->s.line;

	if (!c->shown && c->brief)
		return;
	open_outer(g, tid, outer, depth);
	put_front(g, took, tid, depth);
	if (c->shown)
		dp_line_char(l, '}');
	else
		put_call(g, c);
	if (result && *result) {
		dp_line_str(l, " = ");
		dp_line_str(l, result);
	}
	if (!c->shown || (result && *result))
		dp_line_char(l, ';');
	if (c->shown || why) {
		dp_line_str(l, " /* ");
		put_clean(l, c->shown ? name_of(g, c) : why);
		if (c->shown && why) {
			dp_line_str(l, ": ");
			dp_line_str(l, why);
		}
		dp_line_str(l, " */");
	}
	dp_line_char(l, '\n');
}

/* ---- calls ---- */

static void on_enter(void *arg, u32 tid, struct dp_call *c, const struct dp_call *parent, u32 depth)
{
}

static void end_call(struct graph_sink *g, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how,
		     const char *result)
{
	if (g->opt.summary && how != DP_CALL_OPEN && !outer[depth].brief)
		dp_graph_table_add(&g->table, g->s.env->events, outer, depth, ns, "(not traced)");
	else if (!g->opt.summary)
		write_call(g, tid, outer, depth, ns, how, result);
	if (outer[depth].text)
		free(outer[depth].text);
	outer[depth].text = NULL;
}

/* What a function has returned comes with the fields of its return. */
static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	struct graph_sink *g = arg;

	if (how != DP_CALL_RETURNED) {
		end_call(g, tid, outer, depth, ns, how, NULL);
		return;
	}
	g->outer = outer;
	g->depth = depth;
	g->ns = ns;
}

/* ---- the sink ---- */

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};
	struct graph_sink *g = graph(s);

	s->dim = s->plain = "";
	if (env->graph)
		g->opt = *env->graph;
	g->calls = dp_calls_new(env, &ops, g);
	return g->calls && dp_graph_table_init(&g->table);
}

static void forget(void *arg, struct dp_call *c)
{
	free(c->text);
}

static void release(struct dp_sink *s)
{
	struct graph_sink *g = graph(s);

	if (g->calls)
		dp_calls_each(g->calls, forget, g);
	dp_calls_free(g->calls);
	dp_graph_table_free(&g->table);
}

static void head(struct dp_sink *s)
{
	if (!graph(s)->opt.summary)
		dp_line_str(s->line, "# DURATION       TID   FUNCTION\n");
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct graph_sink *g = graph(s);

	g->last_ns = r->ns;
	g->outer = NULL;
	g->role = dp_calls_take(g->calls, r);
	g->mark = s->line->n;
}

static void field(struct dp_sink *s, const char *name, unsigned i)
{
	struct graph_sink *g = graph(s);
	struct dp_line *l = s->line;

	g->field = l->n;
	g->hidden = !strcmp(name, "sp");
	if (l->n > g->mark)
		dp_line_str(l, ", ");
	if (name[0] && strcmp(name, "result") != 0) {
		dp_line_str(l, name);
		dp_line_char(l, '=');
	}
}

/* What is hidden need not be written first: each record has a stack pointer. */
static void value(struct dp_sink *s, const struct dp_sink_value *v)
{
	if (!graph(s)->hidden)
		dp_put_value(s, v);
}

static void field_end(struct dp_sink *s)
{
	if (graph(s)->hidden)
		s->line->n = DP_MIN(s->line->n, graph(s)->field);
}

/* A probe that is no end of a call, or an end without the other one. */
static void write_point(struct graph_sink *g, const struct dp_sink_record *r, const char *fields)
{
	const struct dp_event_info *ev = r->event;
	struct dp_line *l = g->s.line;

	put_front(g, ~(u64)0, r->tid, 0);
	dp_line_str(l, "/* ");
	put_clean(l, ev->name && ev->name[0] ? ev->name : ev->symbol);
	if (g->role == DP_CALL_ORPHAN) {
		dp_line_str(l, " returns, its entry was not seen");
	} else {
		dp_line_str(l, *fields ? ": " : "");
		dp_line_str(l, fields);
	}
	dp_line_str(l, " */\n");
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct graph_sink *g = graph(s);
	struct dp_line *l = s->line;
	struct dp_call *call = g->role == DP_CALL_ENTRY ? dp_calls_innermost(g->calls, r->tid) : NULL;
	char none[1] = "", *fields = none;

	if (l->broken)
		return;
	if (l->n > g->mark)
		fields = strndup(l->text + g->mark, l->n - g->mark);
	l->n = g->mark;
	if (!fields)
		return;
	if (call && *fields && !call->text) {
		call->text = fields;
		return;
	}
	if (g->outer)
		end_call(g, r->tid, g->outer, g->depth, g->ns, DP_CALL_RETURNED, fields);
	else if (g->role != DP_CALL_ENTRY && !g->opt.summary)
		write_point(g, r, fields);
	if (fields != none)
		free(fields);
}

static void lost(struct dp_sink *s, u64 n)
{
	struct graph_sink *g = graph(s);

	dp_calls_lost(g->calls);
	dp_line_format(s->line, "# %llu records were lost here: calls are missing around this line\n",
		       (unsigned long long)n);
}

static void finish(struct dp_sink *s)
{
	struct graph_sink *g = graph(s);

	dp_calls_end(g->calls);
	if (g->opt.summary)
		dp_graph_table_put(s->line, &g->table);
	if (dp_calls_dropped(g->calls) || g->table.names.broken)
		s->trouble = "there is no memory for all calls";
}

const struct dp_sink_ops dp_sink_graph = {
    .open = open,
    .release = release,
    .head = head,
    .begin = begin,
    .field = field,
    .field_end = field_end,
    .group = dp_put_group,
    .member = dp_put_member,
    .group_end = dp_put_group_end,
    .value = value,
    .end = end,
    .lost = lost,
    .finish = finish,
    .takes_min = true,
};
