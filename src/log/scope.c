/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See scope.h. Has its own view of the calls, since it must see those that are left out. */
#include <string.h>

#include "log/calls.h"
#include "log/scope.h"

struct dp_scope {
	const struct dp_format_env *env;
	struct dp_calls *calls;
	u32 nevents;       /* that calls knows */
	bool takes_return; /* the call of the last return is one that is shown */
};

static bool is_only(const struct dp_scope *s, const struct dp_call *c)
{
	const char *only = s->env->graph->only;

	return !only || !strcmp(s->env->events[c->event].symbol, only);
}

static bool shows(const struct dp_scope *s, const struct dp_call *outer, u32 depth)
{
	u32 most = s->env->graph->depth, top = 0;

	while (top <= depth && !is_only(s, &outer[top]))
		top++;
	return top <= depth && (!most || depth - top < most);
}

static void on_enter(void *arg, u32 tid, struct dp_call *c, const struct dp_call *parent, u32 depth)
{
	c->shown = shows(arg, c - depth, depth);
}

static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	struct dp_scope *s = arg;

	s->takes_return = outer[depth].shown;
}

/* Processes that join bring events along: what is in progress is forgotten then. */
static bool begin_calls(struct dp_scope *s)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};

	dp_calls_free(s->calls);
	s->nevents = s->env->nevents;
	s->calls = dp_calls_new(s->env, &ops, s);
	return s->calls;
}

struct dp_scope *dp_scope_new(const struct dp_format_env *env)
{
	struct dp_scope *s = dp_alloc(sizeof(*s));

	if (!s)
		return NULL;
	s->env = env;
	if (begin_calls(s))
		return s;
	dp_scope_free(s);
	return NULL;
}

void dp_scope_free(struct dp_scope *s)
{
	if (s)
		dp_calls_free(s->calls);
	dp_free(s);
}

bool dp_scope_limits(const struct dp_graph_options *opt)
{
	return opt && (opt->only || opt->depth);
}

bool dp_scope_takes(struct dp_scope *s, const struct dp_sink_record *r)
{
	const struct dp_call *inner;

	if (s->nevents != s->env->nevents && !begin_calls(s))
		return true;
	switch (s->calls ? dp_calls_take(s->calls, r) : DP_CALL_POINT) {
	case DP_CALL_RETURN:
		return s->takes_return;
	case DP_CALL_ORPHAN:
		return !s->env->graph->only;
	default: /* an entry, or something within a call */
		inner = s->calls ? dp_calls_innermost(s->calls, r->tid) : NULL;
		return inner ? inner->shown : !s->env->graph->only;
	}
}
