/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See calls.h. The records come from memory of the target: any order and any stack pointer may come, forever. */
#include <stdlib.h>

#include "log/calls.h"

/*
 * Bytes. An event so near to the calls of the innermost stack is on it; so far from those of every stack,
 * it is on a new one. A new stack that is none in truth (a frame was very large) does no harm: its calls are within
 * those before it.
 */
#define NEAR 4096
#define FAR 16384

#define MAX_DEPTH 65536
#define MAX_THREADS 65536

struct role {
	enum dp_call_role role;
	int sp; /* the field that has the stack pointer, -1: none */
};

struct frames {
	struct dp_call *v; /* of one stack: stack pointers descend */
	size_t n, room;
};

struct thread {
	u32 tid;
	struct frames open;   /* calls on several stacks may follow one another */
	struct frames parked; /* of stacks that the thread has left and may come back to */
	struct thread *next;  /* of the same bucket */
};

struct dp_calls {
	const struct dp_format_env *env;
	const struct dp_calls_ops *ops;
	void *arg;
	struct role *roles; /* by event */
	bool any;
	u32 nthreads, next_stack;
	u64 last_ns, dropped;
	struct thread *buckets[1024];
};

/* ---- which events are ends of calls ---- */

static int sp_field(const struct dp_layout *l)
{
	for (u32 i = 0; i < l->nfields; i++)
		if (!strcmp(l->fields[i].name, "sp") && l->fields[i].size == 8 && !l->fields[i].count)
			return (int)i;
	return -1;
}

static const struct dp_event_info *sorted; /* for qsort(); one thread at a time uses this */

static int by_function(const void *a, const void *b)
{
	const struct dp_event_info *x = &sorted[*(const u32 *)a], *y = &sorted[*(const u32 *)b];

	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	return strcmp(x->symbol, y->symbol);
}

/* Events of one function follow one another in order[]. */
static void take_roles(struct dp_calls *c, const u32 *order, u32 n)
{
	const struct dp_event_info *events = c->env->events;
	u32 next;

	for (u32 i = 0; i < n; i = next) {
		bool entry = false, ret = false;

		for (next = i; next < n && !by_function(&order[i], &order[next]); next++) {
			entry |= !events[order[next]].is_return && !events[order[next]].offset;
			ret |= events[order[next]].is_return;
		}
		for (u32 k = i; k < next && entry && ret; k++) {
			const struct dp_event_info *ev = &events[order[k]];

			c->any = true;
			if (ev->is_return || !ev->offset)
				c->roles[order[k]].role = ev->is_return ? DP_CALL_RETURN : DP_CALL_ENTRY;
		}
	}
}

struct dp_calls *dp_calls_new(const struct dp_format_env *env, const struct dp_calls_ops *ops, void *arg)
{
	struct dp_calls *c = dp_alloc(sizeof(*c));
	u32 *order = dp_alloc((env->nevents + 1) * sizeof(*order));

	if (c)
		c->roles = dp_alloc((env->nevents + 1) * sizeof(*c->roles));
	if (!order || !c || !c->roles) {
		dp_free(order);
		dp_calls_free(c);
		return NULL;
	}
	c->env = env;
	c->ops = ops;
	c->arg = arg;
	for (u32 i = 0; i < env->nevents; i++) {
		order[i] = i;
		c->roles[i].sp = sp_field(env->events[i].layout);
	}
	sorted = env->events;
	qsort(order, env->nevents, sizeof(*order), by_function);
	take_roles(c, order, env->nevents);
	dp_free(order);
	return c;
}

void dp_calls_free(struct dp_calls *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < DP_ARRAY_SIZE(c->buckets); i++)
		for (struct thread *t = c->buckets[i], *next; t; t = next) {
			next = t->next;
			free(t->open.v);
			free(t->parked.v);
			dp_free(t);
		}
	dp_free(c->roles);
	dp_free(c);
}

bool dp_calls_any(const struct dp_calls *c)
{
	return c->any;
}

u64 dp_calls_dropped(const struct dp_calls *c)
{
	return c->dropped;
}

static struct thread *thread_of(struct dp_calls *c, u32 tid)
{
	struct thread **at = &c->buckets[tid % DP_ARRAY_SIZE(c->buckets)], *t;

	for (t = *at; t && t->tid != tid; t = t->next)
		;
	if (t || c->nthreads >= MAX_THREADS)
		return t;
	t = dp_alloc(sizeof(*t));
	if (!t)
		return NULL;
	*t = (struct thread){.tid = tid, .next = *at};
	*at = t;
	c->nthreads++;
	return t;
}

/* ---- stacks ---- */

static u32 bottom_of(const struct frames *f, size_t at)
{
	while (at > 0 && f->v[at - 1].stack == f->v[at].stack)
		at--;
	return (u32)at;
}

/* How far something at sp is from the calls of the stack whose innermost one is v[top]. */
static u64 distance(const struct frames *f, size_t top, u64 sp)
{
	u64 lowest = f->v[top].sp, highest = f->v[bottom_of(f, top)].sp;

	if (!lowest || !sp)
		return 0;
	return sp < lowest ? lowest - sp : sp > highest ? sp - highest : 0;
}

static void leave(struct dp_calls *c, struct thread *t, u64 ns, enum dp_call_end how)
{
	struct dp_call *call = &t->open.v[t->open.n - 1];
	u64 took = ns > call->begin_ns ? ns - call->begin_ns : 0;

	call->brief = c->env->graph && took < c->env->graph->min_ns;
	if (t->open.n > 1 && !call->brief)
		t->open.v[t->open.n - 2].inner_ns += took;
	c->ops->leave(c->arg, t->tid, t->open.v, (u32)t->open.n - 1, ns, how);
	t->open.n--;
}

/* Move the calls from v[at] on to the other place; those that do not fit there are over. */
static void move(struct dp_calls *c, struct thread *t, struct frames *from, struct frames *to, size_t at, size_t n)
{
	for (size_t i = at; i < at + n; i++) {
		if (to->n < MAX_DEPTH && dp_grow((void **)&to->v, &to->room, to->n, sizeof(*to->v)))
			to->v[to->n++] = from->v[i];
		else
			c->dropped++;
	}
	if (!n)
		return;
	memmove(from->v + at, from->v + at + n, (from->n - at - n) * sizeof(*from->v));
	from->n -= n;
}

/* The thread has left the stacks above open.v[n - 1]; it may come back to them. */
static void park_above(struct dp_calls *c, struct thread *t, size_t n)
{
	move(c, t, &t->open, &t->parked, n, t->open.n - n);
}

/* Back to a stack that was left, one of whose calls is parked.v[at]: all its calls are open again. */
static void resume(struct dp_calls *c, struct thread *t, size_t at)
{
	size_t from = bottom_of(&t->parked, at), to = at + 1;

	while (to < t->parked.n && t->parked.v[to].stack == t->parked.v[at].stack)
		to++;
	move(c, t, &t->parked, &t->open, from, to - from);
}

/* The nearest stack, if it is nearer than *best: the index behind its innermost call, else 0. */
static size_t nearest(const struct frames *f, u64 sp, u64 *best)
{
	size_t found = 0;

	for (size_t top = f->n; top > 0; top = bottom_of(f, top - 1)) {
		u64 d = distance(f, top - 1, sp);

		if (d >= *best)
			continue;
		*best = d;
		found = top;
	}
	return found;
}

/* The stack that something at sp is on comes to be the innermost; false: it is a new one. */
static bool find_stack(struct dp_calls *c, struct thread *t, u64 sp)
{
	u64 best = FAR;
	size_t open, parked;

	if (t->open.n && distance(&t->open, t->open.n - 1, sp) < NEAR)
		return true;
	open = nearest(&t->open, sp, &best);
	parked = nearest(&t->parked, sp, &best);
	if (parked)
		resume(c, t, parked - 1);
	else if (open)
		park_above(c, t, open);
	return parked || open;
}

/* What lies below sp is over; at an entry, also a call whose return address stood there. */
static void leave_below(struct dp_calls *c, struct thread *t, u64 sp, bool entry, u64 ns)
{
	u32 stack = t->open.n ? t->open.v[t->open.n - 1].stack : 0;

	while (t->open.n && t->open.v[t->open.n - 1].stack == stack && t->open.v[t->open.n - 1].sp &&
	       (t->open.v[t->open.n - 1].sp < sp || (entry && t->open.v[t->open.n - 1].sp == sp)))
		leave(c, t, ns, DP_CALL_LEFT);
}

/* ---- records ---- */

static void take_entry(struct dp_calls *c, struct thread *t, struct dp_call *call)
{
	struct frames *open = &t->open;

	if (call->sp && find_stack(c, t, call->sp)) {
		leave_below(c, t, call->sp, true, call->begin_ns);
		call->stack = open->n ? open->v[open->n - 1].stack : ++c->next_stack;
	} else if (call->sp) {
		call->stack = ++c->next_stack;
	}
	if (open->n >= MAX_DEPTH || !dp_grow((void **)&open->v, &open->room, open->n, sizeof(*open->v))) {
		c->dropped++;
		return;
	}
	open->v[open->n] = *call;
	c->ops->enter(c->arg, t->tid, &open->v[open->n], open->n ? &open->v[open->n - 1] : NULL, (u32)open->n);
	open->n++;
}

static size_t find_call(const struct frames *f, u64 function, u64 sp)
{
	for (size_t i = f->n; i > 0; i--)
		if (f->v[i - 1].function == function && (!sp || !f->v[i - 1].sp || f->v[i - 1].sp == sp))
			return i;
	return 0;
}

static enum dp_call_role take_return(struct dp_calls *c, struct thread *t, u64 function, u64 sp, u64 ns)
{
	size_t at = find_call(&t->open, function, sp);
	u32 stack;

	if (!at) {
		at = sp ? find_call(&t->parked, function, sp) : 0;
		if (at) {
			resume(c, t, at - 1);
			at = find_call(&t->open, function, sp);
		}
	}
	if (!at) {
		if (sp && find_stack(c, t, sp))
			leave_below(c, t, sp, false, ns);
		return DP_CALL_ORPHAN;
	}
	/* Other stacks above this one go on to be; calls above it on its own are over. */
	stack = t->open.v[at - 1].stack;
	for (size_t i = at; i < t->open.n; i++)
		if (t->open.v[i].stack != stack) {
			park_above(c, t, i);
			break;
		}
	while (t->open.n > at)
		leave(c, t, ns, DP_CALL_LEFT);
	leave(c, t, ns, DP_CALL_RETURNED);
	return DP_CALL_RETURN;
}

enum dp_call_role dp_calls_take(struct dp_calls *c, const struct dp_sink_record *r)
{
	const struct role *role = &c->roles[r->rec->event];
	u64 function = c->env->events[r->rec->event].function;
	struct thread *t = role->role == DP_CALL_POINT ? NULL : thread_of(c, r->tid);
	struct dp_value sp = {DP_VALUE_CUT};
	u64 ns = DP_MAX(r->ns,
			c->last_ns); /* a record that comes late happens now: calls do not end before they begin */

	c->last_ns = ns;
	if (!t)
		return DP_CALL_POINT;
	if (role->sp >= 0)
		sp = dp_view_value(&r->view, (unsigned)role->sp, 0);
	if (sp.state != DP_VALUE_OK)
		sp.bits = 0;
	if (role->role == DP_CALL_RETURN)
		return take_return(c, t, function, sp.bits, ns);
	take_entry(c, t,
		   &(struct dp_call){.function = function, .sp = sp.bits, .begin_ns = ns, .event = r->rec->event});
	return DP_CALL_ENTRY;
}

struct dp_call *dp_calls_innermost(struct dp_calls *c, u32 tid)
{
	struct thread *t = thread_of(c, tid);

	return t && t->open.n ? &t->open.v[t->open.n - 1] : NULL;
}

void dp_calls_each(struct dp_calls *c, void (*fn)(void *arg, struct dp_call *call), void *arg)
{
	for (size_t i = 0; i < DP_ARRAY_SIZE(c->buckets); i++)
		for (struct thread *t = c->buckets[i]; t; t = t->next) {
			for (size_t k = 0; k < t->open.n; k++)
				fn(arg, &t->open.v[k]);
			for (size_t k = 0; k < t->parked.n; k++)
				fn(arg, &t->parked.v[k]);
		}
}

static void mark_lost(void *arg, struct dp_call *call)
{
	call->lost = true;
}

void dp_calls_lost(struct dp_calls *c)
{
	dp_calls_each(c, mark_lost, NULL);
}

void dp_calls_end(struct dp_calls *c)
{
	for (size_t i = 0; i < DP_ARRAY_SIZE(c->buckets); i++)
		for (struct thread *t = c->buckets[i]; t; t = t->next) {
			while (t->open.n)
				leave(c, t, c->last_ns, DP_CALL_OPEN);
			move(c, t, &t->parked, &t->open, 0, t->parked.n);
			while (t->open.n)
				leave(c, t, c->last_ns, DP_CALL_OPEN);
		}
}
