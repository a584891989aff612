/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The rows of functions, from the records of their entries and returns: a sink. Numbers of hits are those that the
 * probes count, so they stay right where records were lost; times are those of the calls whose records were read.
 */
#include <stdlib.h>
#include <string.h>

#include "log/calls.h"
#include "program/opcode.h"
#include "top/top-calls.h"

#define NAMES 1024 /* return addresses whose names are kept; a power of two */
#define OUTSIDE "(not traced)"

struct outside { /* who called from where nothing is probed */
	u64 addr;
	u32 source;
	const char *name;
};

struct calls_sink {
	struct dp_sink s;
	struct dp_top *top;
	struct dp_calls *calls;
	u32 nevents;
	const struct dp_sink_record *now;
	struct outside *names;
};
_Static_assert(sizeof(struct calls_sink) <= sizeof(union dp_sink_room), "a sink fits");

/* ---- calls ---- */

static void on_enter(void *arg, u32 tid, struct dp_call *c, const struct dp_call *parent, u32 depth)
{
}

/* The function that an outermost call returns to. */
static const char *outside_of(struct calls_sink *c)
{
	struct dp_stacks *names = &c->top->edges.names;
	char text[DP_SINK_SYMBOL];
	struct outside *o;
	u64 addr;

	if (!c->now || !dp_view_ret_addr(&c->now->view, &addr))
		return OUTSIDE;
	o = &c->names[(addr ^ addr >> 10) % NAMES];
	if (o->addr == addr && o->source == c->now->source && o->name)
		return o->name;
	c->s.symbol(&c->s, addr, true, text, sizeof(text));
	dp_stacks_function(text);
	*o = (struct outside){addr, c->now->source, names->names[dp_stacks_name(names, text)]};
	return o->name;
}

static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	struct calls_sink *c = arg;
	const struct dp_call *call = &outer[depth];
	u64 took = ns > call->begin_ns ? ns - call->begin_ns : 0, *bars;
	struct dp_top_row *row;

	if (how == DP_CALL_OPEN)
		return;
	dp_graph_table_add(&c->top->edges, c->s.env->events, outer, depth, ns,
			   depth                     ? OUTSIDE
			   : how == DP_CALL_RETURNED ? outside_of(c)
						     : OUTSIDE);
	row = dp_top_row(c->top, c->s.env->events[call->event].symbol);
	bars = row && how == DP_CALL_RETURNED && !call->lost ? dp_top_bars(row) : NULL;
	if (!bars)
		return;
	bars[dp_quantile_bar((s64)took)]++;
	row->ncalls++;
	row->sum_ns += took;
}

/* ---- the sink ---- */

/* Processes that join bring events along: what is in progress is forgotten then. */
static bool begin_calls(struct calls_sink *c)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};

	dp_calls_free(c->calls);
	c->nevents = c->s.env->nevents;
	c->calls = dp_calls_new(c->s.env, &ops, c);
	return c->calls;
}

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	struct calls_sink *c = (struct calls_sink *)s;

	c->top = env->sink_arg;
	c->names = calloc(NAMES, sizeof(*c->names));
	return c->names && begin_calls(c);
}

static void release(struct dp_sink *s)
{
	struct calls_sink *c = (struct calls_sink *)s;

	dp_calls_free(c->calls);
	free(c->names);
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct calls_sink *c = (struct calls_sink *)s;

	if (c->nevents != s->env->nevents && !begin_calls(c))
		return;
	c->now = r;
	if (c->calls)
		dp_calls_take(c->calls, r);
	c->now = NULL;
}

static void lost(struct dp_sink *s, u64 n)
{
	struct calls_sink *c = (struct calls_sink *)s;

	c->top->lost += n;
	if (c->calls)
		dp_calls_lost(c->calls);
}

/* What a record has beside its ends is not looked at. */
static void no_field(struct dp_sink *s, const char *name, unsigned i)
{
}

static void no_group(struct dp_sink *s, enum dp_sink_group what)
{
}

static void no_member(struct dp_sink *s, const char *name)
{
}

static void no_value(struct dp_sink *s, const struct dp_sink_value *v)
{
}

static void no_end(struct dp_sink *s, const struct dp_sink_record *r)
{
}

const struct dp_sink_ops dp_top_calls_sink = {
    .open = open,
    .release = release,
    .begin = begin,
    .field = no_field,
    .group = no_group,
    .member = no_member,
    .group_end = no_group,
    .value = no_value,
    .end = no_end,
    .lost = lost,
};

/* ---- the source ---- */

static u64 hits_of(const struct dp_counts *c)
{
	return c->v[DP_COUNT_RECORDED] + c->v[DP_COUNT_PASSED] + c->v[DP_COUNT_FILTERED] + c->v[DP_COUNT_MISSED] +
	       c->v[DP_COUNT_LOST];
}

/* The rows whose probes a budget has taken out at the moment. */
static void mark_out(struct dp_top *t, const struct dp_trace *trace)
{
	for (u32 i = 0; i < t->n; i++)
		t->rows[i].out = false;
	for (u32 i = 0; i < trace->n && trace->budget; i++) {
		const struct dp_trace_member *m = trace->v[i];

		for (u32 k = 0; m->governor && m->events && k < dp_tracee_nprobes(&m->tracee); k++) {
			struct dp_top_row *row = dp_governor_is_out(m->governor, k)
						     ? dp_top_row(t, trace->infos[m->events[k]].symbol)
						     : NULL;

			if (row)
				row->out = true;
		}
	}
}

/* Several functions of one name, in several processes or files, are one row. */
static void refresh(void *arg, struct dp_top *t)
{
	const struct dp_trace *trace = arg;
	struct dp_counts *counts = dp_trace_counts(trace);

	for (u32 i = 0; i < t->n; i++)
		t->rows[i].hits = 0;
	for (u32 i = 0; counts && i < trace->nevents; i++) {
		const struct dp_event_info *ev = &trace->infos[i];
		struct dp_top_row *row = ev->is_return ? NULL : dp_top_row(t, ev->symbol);

		if (row)
			row->hits += hits_of(&counts[i]);
	}
	free(counts);
	mark_out(t, trace);
	for (u32 i = 0; i < t->n; i++) {
		struct dp_top_row *row = &t->rows[i];
		struct dp_stacks *names = &t->edges.names;
		u32 node = dp_stacks_child(names, 0, dp_stacks_name(names, row->name));

		if (!node || node >= t->edges.nrows)
			continue;
		row->total = t->edges.rows[node].total;
		row->self = t->edges.rows[node].self;
		row->longest = t->edges.rows[node].longest;
	}
}

static bool is_of(const struct dp_event_info *ev, const void *name)
{
	return !strcmp(ev->symbol, name);
}

static int pause_row(void *arg, struct dp_top_row *row, bool off, struct dp_error *err)
{
	return dp_trace_pause(arg, is_of, row->name, off, err);
}

struct dp_top_source dp_top_calls_source(struct dp_trace *trace)
{
	return (struct dp_top_source){.refresh = refresh, .pause = trace->budget ? NULL : pause_row, .arg = trace};
}
