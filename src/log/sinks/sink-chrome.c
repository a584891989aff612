/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Events as trace events of Chrome, which Perfetto's viewer reads, too: entries and returns of one function begin and
 * end a slice of their thread, everything else is a moment.
 */
#include <stdio.h>

#include "log/calls.h"
#include "log/sinks.h"
#include "log/sinks/sink-json.h"

#define NAMES 1024 /* threads whose names were just written */

struct chrome_sink {
	struct dp_json_sink js;
	struct dp_calls *calls;
	u32 *named; /* threads by their low bits */
	u64 ns;     /* of the last record */
};
_Static_assert(sizeof(struct chrome_sink) <= sizeof(union dp_sink_room), "a sink fits");

/* Members that each trace event has; its object stays open. */
static struct dp_json *open_event(struct chrome_sink *c, const char *phase, u32 tid, u64 ns)
{
	struct dp_json *j = dp_json_of(&c->js.s);
	char us[32];

	dp_json_open(j, '{');
	dp_json_put_string(j, "ph", phase);
	dp_json_put_unsigned(j, "pid", c->js.s.env->pid);
	dp_json_put_unsigned(j, "tid", tid);
	dp_json_key(j, "ts"); /* microseconds */
	dp_json_digits(
	    j, us,
	    (size_t)dp_format(us, sizeof(us), "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000)));
	return j;
}

static void put_name(struct chrome_sink *c, const char *what, u32 tid, const char *name)
{
	struct dp_json *j = open_event(c, "M", tid, 0);

	dp_json_put_string(j, "name", what);
	dp_json_key(j, "args");
	dp_json_open(j, '{');
	dp_json_put_string(j, "name", name);
	dp_json_close(j, '}');
	dp_json_close(j, '}');
}

/* ---- calls ---- */

static void on_enter(void *arg, u32 tid, struct dp_call *call, const struct dp_call *parent, u32 depth)
{
}

/* A return that was seen is written with its record. Calls that go on have no end. */
static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	struct dp_json *j;

	if (how != DP_CALL_LEFT)
		return;
	j = open_event(arg, "E", tid, ns);
	dp_json_key(j, "args");
	dp_json_open(j, '{');
	dp_json_put_string(j, "end", outer[depth].lost ? "records were lost" : "no return was seen");
	dp_json_close(j, '}');
	dp_json_close(j, '}');
}

/* ---- the sink ---- */

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};
	struct chrome_sink *c = (struct chrome_sink *)s;

	c->calls = dp_calls_new(env, &ops, c);
	c->named = dp_alloc(NAMES * sizeof(*c->named));
	c->js.j.one_a_line = true;
	return c->calls && c->named;
}

static void release(struct dp_sink *s)
{
	struct chrome_sink *c = (struct chrome_sink *)s;

	dp_calls_free(c->calls);
	dp_free(c->named);
}

static void head(struct dp_sink *s)
{
	struct dp_json *j = dp_json_of(s);

	dp_json_open(j, '{');
	dp_json_put_string(j, "displayTimeUnit", "ns");
	dp_json_key(j, "traceEvents");
	dp_json_open(j, '[');
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	static const char *const phases[] = {
	    [DP_CALL_POINT] = "i", [DP_CALL_ENTRY] = "B", [DP_CALL_RETURN] = "E", [DP_CALL_ORPHAN] = "i"};
	struct chrome_sink *c = (struct chrome_sink *)s;
	const struct dp_event_info *ev = r->event;
	enum dp_call_role role = dp_calls_take(c->calls, r);
	bool named = ev->name && ev->name[0];
	struct dp_json *j;

	c->ns = DP_MAX(c->ns, r->ns);
	if (c->named[r->tid % NAMES] != r->tid) {
		c->named[r->tid % NAMES] = r->tid;
		put_name(c, "thread_name", r->tid, r->task);
	}
	j = open_event(c, phases[role], r->tid, c->ns);
	dp_json_put_string(j, "name", role == DP_CALL_POINT && named ? ev->name : ev->symbol);
	dp_json_put_string(j, "cat", ev->group ? ev->group : "");
	if (phases[role][0] == 'i')
		dp_json_put_string(j, "s", "t");
	dp_json_key(j, "args");
	dp_json_open(j, '{');
	if (role == DP_CALL_ORPHAN)
		dp_json_put_string(j, "end", "its entry was not seen");
}

static void end(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct dp_json *j = dp_json_of(s);

	dp_json_close(j, '}');
	dp_json_close(j, '}');
}

static void lost(struct dp_sink *s, u64 n)
{
	struct chrome_sink *c = (struct chrome_sink *)s;
	struct dp_json *j = open_event(c, "i", s->env->pid, c->ns);

	dp_calls_lost(c->calls);
	dp_json_put_string(j, "name", "records were lost");
	dp_json_put_string(j, "s", "g");
	dp_json_key(j, "args");
	dp_json_open(j, '{');
	dp_json_put_unsigned(j, "records", n);
	dp_json_close(j, '}');
	dp_json_close(j, '}');
}

static void finish(struct dp_sink *s)
{
	struct dp_json *j = dp_json_of(s);

	dp_json_close(j, ']');
	dp_json_close(j, '}');
	dp_json_end(j);
}

const struct dp_sink_ops dp_sink_chrome = {
    .open = open,
    .release = release,
    .head = head,
    .begin = begin,
    .field = dp_json_field,
    .group = dp_json_group,
    .member = dp_json_member,
    .group_end = dp_json_group_end,
    .value = dp_json_value,
    .end = end,
    .lost = lost,
    .finish = finish,
};
