/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * JSON for speedscope: a profile of each thread, with its calls as they began and ended, where entries and returns are
 * traced; else one profile of all call stacks.
 */
#include <stdlib.h>

#include "log/json.h"
#include "log/sinks.h"
#include "log/stacks.h"

struct turn { /* a call begins or ends */
	u64 ns;
	u32 name;
	bool opens;
};

struct profile { /* of a thread */
	u32 tid;
	char task[16];
	struct turn *v;
	size_t n, room;
	u32 *open; /* names of the calls that are open */
	size_t nopen, open_room;
	struct profile *next;
};

struct speedscope_sink {
	struct dp_stacks_sink st;
	struct dp_calls *calls;
	struct profile *first, *last;
	u64 ns; /* of the last record */
};
_Static_assert(sizeof(struct speedscope_sink) <= sizeof(union dp_sink_room), "a sink fits");

/* ---- calls in time ---- */

static struct profile *profile_of(struct speedscope_sink *ss, u32 tid, const char *task)
{
	struct profile *p = ss->first;

	for (; p && p->tid != tid; p = p->next)
		;
	if (p || !task)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->tid = tid;
	dp_format(p->task, sizeof(p->task), "%s", task);
	*(ss->last ? &ss->last->next : &ss->first) = p;
	ss->last = p;
	return p;
}

static void add(struct speedscope_sink *ss, u32 tid, u32 name, bool opens, u64 ns)
{
	struct profile *p = profile_of(ss, tid, NULL);

	if (p && dp_grow((void **)&p->v, &p->room, p->n, sizeof(*p->v)))
		p->v[p->n++] = (struct turn){ns, name, opens};
	else
		ss->st.stacks->broken = true;
}

static void on_enter(void *arg, u32 tid, struct dp_call *call, const struct dp_call *parent, u32 depth)
{
	struct speedscope_sink *ss = arg;

	call->node = dp_stacks_name(ss->st.stacks, ss->st.s.env->events[call->event].symbol);
	add(ss, tid, call->node, true, call->begin_ns);
}

static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	const struct dp_call *c = &outer[depth];
	struct profile *p = profile_of(arg, tid, NULL);
	const struct turn *last = p && p->n ? &p->v[p->n - 1] : NULL;

	if (c->brief && last && last->opens && last->name == c->node && last->ns == c->begin_ns)
		p->n--; /* those within it were as brief, and are not there either */
	else
		add(arg, tid, c->node, false, ns);
}

static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};
	struct speedscope_sink *ss = (struct speedscope_sink *)s;

	if (!dp_stacks_open(s, env))
		return false;
	ss->calls = dp_calls_new(env, &ops, s);
	return ss->calls;
}

static void release(struct dp_sink *s)
{
	struct speedscope_sink *ss = (struct speedscope_sink *)s;

	dp_calls_free(ss->calls);
	for (struct profile *p = ss->first, *next; p; p = next) {
		next = p->next;
		free(p->v);
		free(p->open);
		free(p);
	}
	dp_stacks_release(s);
}

static bool in_time(const struct speedscope_sink *ss)
{
	return ss->st.stacks->unit[0] == 'n';
}

static void begin(struct dp_sink *s, const struct dp_sink_record *r)
{
	struct speedscope_sink *ss = (struct speedscope_sink *)s;

	ss->ns = DP_MAX(ss->ns, r->ns);
	if (!in_time(ss))
		dp_stacks_begin(s, r);
	else if (profile_of(ss, r->tid, r->task))
		dp_calls_take(ss->calls, r);
}

static void lost(struct dp_sink *s, u64 n)
{
	dp_calls_lost(((struct speedscope_sink *)s)->calls);
}

/* ---- the file ---- */

static void put_frames(struct dp_json *j, const struct dp_stacks *st)
{
	dp_json_key(j, "shared");
	dp_json_open(j, '{');
	dp_json_key(j, "frames");
	dp_json_open(j, '[');
	for (size_t i = 0; i < st->nnames; i++) {
		dp_json_open(j, '{');
		dp_json_put_string(j, "name", st->names[i]);
		dp_json_close(j, '}');
	}
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

static void put_turn(struct dp_json *j, const char *type, u32 frame, u64 ns)
{
	dp_json_open(j, '{');
	dp_json_put_string(j, "type", type);
	dp_json_put_unsigned(j, "frame", frame);
	dp_json_put_unsigned(j, "at", ns);
	dp_json_close(j, '}');
}

/* A call that ends ends those within it; a thread's coroutines are not nested otherwise. */
static void put_turns(struct dp_json *j, struct profile *p, u64 end)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct turn *t = &p->v[i];
		size_t at = p->nopen;

		if (t->opens) {
			if (!dp_grow((void **)&p->open, &p->open_room, p->nopen, sizeof(*p->open)))
				return;
			p->open[p->nopen++] = t->name;
			put_turn(j, "O", t->name, t->ns);
			continue;
		}
		while (at > 0 && p->open[at - 1] != t->name)
			at--;
		while (at > 0 && p->nopen >= at)
			put_turn(j, "C", p->open[--p->nopen], t->ns);
	}
	while (p->nopen)
		put_turn(j, "C", p->open[--p->nopen], end);
}

static void open_profile(struct dp_json *j, const char *type, const char *name, const char *unit, u64 start, u64 end)
{
	dp_json_open(j, '{');
	dp_json_put_string(j, "type", type);
	dp_json_put_string(j, "name", name);
	dp_json_put_string(j, "unit", unit);
	dp_json_put_unsigned(j, "startValue", start);
	dp_json_put_unsigned(j, "endValue", end);
}

static void put_thread(struct dp_json *j, struct profile *p, u64 end)
{
	char name[48];

	dp_format(name, sizeof(name), "%s (%u)", p->task, p->tid);
	open_profile(j, "evented", name, "nanoseconds", p->v[0].ns, end);
	dp_json_key(j, "events");
	dp_json_open(j, '[');
	put_turns(j, p, end);
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

static void put_path(struct dp_json *j, const struct dp_stacks *st, u32 node)
{
	u32 path[DP_ARRAY_MAX], n = 0;

	for (; node && n < DP_ARRAY_SIZE(path); node = st->nodes[node].parent)
		path[n++] = st->nodes[node].name;
	dp_json_open(j, '[');
	while (n--)
		dp_json_unsigned(j, path[n]);
	dp_json_close(j, ']');
}

static void put_samples(struct dp_json *j, const struct dp_stacks *st)
{
	open_profile(j, "sampled", "events", "none", 0, st->nodes[0].total);
	dp_json_key(j, "samples");
	dp_json_open(j, '[');
	for (u32 i = 1; i < st->n; i++)
		if (st->nodes[i].self)
			put_path(j, st, i);
	dp_json_close(j, ']');
	dp_json_key(j, "weights");
	dp_json_open(j, '[');
	for (u32 i = 1; i < st->n; i++)
		if (st->nodes[i].self)
			dp_json_unsigned(j, st->nodes[i].self);
	dp_json_close(j, ']');
	dp_json_close(j, '}');
}

static void finish(struct dp_sink *s)
{
	struct speedscope_sink *ss = (struct speedscope_sink *)s;
	struct dp_json j = {s->line};
	const struct dp_stacks *st;

	dp_calls_end(ss->calls);
	st = dp_stacks_whole(s);
	dp_json_open(&j, '{');
	dp_json_put_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	dp_json_put_string(&j, "exporter", "dprobes");
	put_frames(&j, st);
	dp_json_key(&j, "profiles");
	dp_json_open(&j, '[');
	if (!in_time(ss))
		put_samples(&j, st);
	for (struct profile *p = ss->first; p; p = p->next)
		if (p->n)
			put_thread(&j, p, ss->ns);
	dp_json_close(&j, ']');
	dp_json_close(&j, '}');
	dp_json_end(&j);
}

const struct dp_sink_ops dp_sink_speedscope = {
    .open = open,
    .release = release,
    .begin = begin,
    .field = dp_stacks_field,
    .group = dp_stacks_group,
    .member = dp_stacks_member,
    .group_end = dp_stacks_group_end,
    .value = dp_stacks_value,
    .end = dp_stacks_end,
    .lost = lost,
    .finish = finish,
    .takes_min = true,
};
