/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See stacks.h. */
#include <stdlib.h>
#include <string.h>

#include "log/stacks.h"

#define FRAMES DP_ARRAY_MAX

/* ---- the tree ---- */

bool dp_stacks_init(struct dp_stacks *s)
{
	s->name_slots = s->node_slots = 1024;
	s->name_hash = calloc(s->name_slots, sizeof(u32));
	s->node_hash = calloc(s->node_slots, sizeof(u32));
	if (!s->name_hash || !s->node_hash || !dp_grow((void **)&s->nodes, &s->room, 0, sizeof(*s->nodes)))
		return false;
	s->nodes[0] = (struct dp_stack_node){.name = dp_stacks_name(s, "all")};
	s->n = 1;
	return !s->broken;
}

void dp_stacks_free(struct dp_stacks *s)
{
	for (size_t i = 0; i < s->nnames; i++)
		free(s->names[i]);
	free(s->names);
	free(s->nodes);
	free(s->name_hash);
	free(s->node_hash);
	free(s->frames);
	dp_calls_free(s->calls);
}

static u64 mix(u64 x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	return x ^ x >> 33;
}

static u64 hash_of_name(const char *name)
{
	u64 h = 14695981039346656037ull;

	for (; *name; name++)
		h = (h ^ (u8)*name) * 1099511628211ull;
	return mix(h);
}

static u64 hash_of_node(const struct dp_stacks *s, u32 i)
{
	return mix((u64)s->nodes[i].parent << 32 | s->nodes[i].name);
}

/* Twice the slots; what lies in them finds its place anew. */
static bool grow_hash(struct dp_stacks *s, u32 **hash, size_t *slots, size_t n, bool names)
{
	size_t more = 2 * *slots;
	u32 *wider;

	if (n < *slots / 2)
		return true;
	wider = calloc(more, sizeof(u32));
	if (!wider)
		return false;
	for (u32 i = names ? 0 : 1; i < n; i++) {
		size_t at = (names ? hash_of_name(s->names[i]) : hash_of_node(s, i)) & (more - 1);

		while (wider[at])
			at = (at + 1) & (more - 1);
		wider[at] = i + 1;
	}
	free(*hash);
	*hash = wider;
	*slots = more;
	return true;
}

u32 dp_stacks_name(struct dp_stacks *s, const char *name)
{
	size_t at;

	if (!grow_hash(s, &s->name_hash, &s->name_slots, s->nnames, true))
		goto broken;
	at = hash_of_name(name) & (s->name_slots - 1);
	for (; s->name_hash[at]; at = (at + 1) & (s->name_slots - 1))
		if (!strcmp(s->names[s->name_hash[at] - 1], name))
			return s->name_hash[at] - 1;
	if (s->nnames >= DP_STACKS_NODES || !dp_grow((void **)&s->names, &s->names_room, s->nnames, sizeof(*s->names)))
		goto broken;
	s->names[s->nnames] = strdup(name);
	if (!s->names[s->nnames])
		goto broken;
	s->name_hash[at] = (u32)++s->nnames;
	return (u32)s->nnames - 1;
broken:
	s->broken = true;
	return 0;
}

u32 dp_stacks_child(struct dp_stacks *s, u32 parent, u32 name)
{
	size_t at;

	if (!grow_hash(s, &s->node_hash, &s->node_slots, s->n, false))
		goto broken;
	at = mix((u64)parent << 32 | name) & (s->node_slots - 1);
	for (; s->node_hash[at]; at = (at + 1) & (s->node_slots - 1)) {
		const struct dp_stack_node *node = &s->nodes[s->node_hash[at] - 1];

		if (node->parent == parent && node->name == name)
			return s->node_hash[at] - 1;
	}
	if (s->n >= DP_STACKS_NODES || !dp_grow((void **)&s->nodes, &s->room, s->n, sizeof(*s->nodes)))
		goto broken;
	s->nodes[s->n] = (struct dp_stack_node){.name = name, .parent = parent, .sibling = s->nodes[parent].child};
	s->nodes[parent].child = (u32)s->n;
	s->node_hash[at] = (u32)++s->n;
	return (u32)s->n - 1;
broken:
	s->broken = true;
	return 0;
}

/* Children come behind their parents. */
void dp_stacks_sum(struct dp_stacks *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->nodes[i].total = s->nodes[i].self;
	for (size_t i = s->n; i-- > 1;)
		s->nodes[s->nodes[i].parent].total += s->nodes[i].total;
}

/* The last '+': operators may have one in their names. */
void dp_stacks_function(char *symbol)
{
	char *plus = strrchr(symbol, '+');

	if (plus && plus > symbol)
		*plus = '\0';
}

/* ---- from records ---- */

static struct dp_stacks *stacks_of(struct dp_sink *s)
{
	return ((struct dp_stacks_sink *)s)->stacks;
}

/* A function by its name, or by an address in it (symbol NULL). */
static u32 place_of(struct dp_sink *sink, u64 addr, bool behind_call, const char *symbol)
{
	struct dp_stacks *s = stacks_of(sink);
	char name[DP_SINK_SYMBOL];

	if (s->place)
		return s->place(sink, addr, behind_call, symbol);
	if (symbol)
		return dp_stacks_name(s, symbol);
	sink->symbol(sink, addr, behind_call, name, sizeof(name));
	dp_stacks_function(name);
	return dp_stacks_name(s, name);
}

static void on_enter(void *arg, u32 tid, struct dp_call *c, const struct dp_call *parent, u32 depth)
{
	struct dp_sink *sink = arg;

	c->node = dp_stacks_child(stacks_of(sink), parent ? parent->node : 0,
				  place_of(sink, c->function, false, sink->env->events[c->event].symbol));
}

static void on_leave(void *arg, u32 tid, struct dp_call *outer, u32 depth, u64 ns, enum dp_call_end how)
{
	struct dp_stacks *s = stacks_of(arg);
	struct dp_call *c = &outer[depth];

	if (!c->node || c->brief || ns <= c->begin_ns)
		return;
	s->nodes[c->node].calls++;
	if (ns - c->begin_ns > c->inner_ns)
		s->nodes[c->node].self += ns - c->begin_ns - c->inner_ns;
}

static bool any_chain(const struct dp_format_env *env)
{
	for (u32 i = 0; i < env->nevents; i++)
		for (u32 k = 0; k < env->events[i].layout->nfields; k++)
			if (env->events[i].layout->fields[k].type == DP_FIELD_FRAME)
				return true;
	return false;
}

bool dp_stacks_open(struct dp_sink *sink, const struct dp_format_env *env)
{
	static const struct dp_calls_ops ops = {on_enter, on_leave};
	struct dp_stacks *s = dp_alloc(sizeof(*s));

	((struct dp_stacks_sink *)sink)->stacks = s;
	if (!s || !dp_stacks_init(s))
		return false;
	s->frames = malloc(FRAMES * sizeof(u64));
	s->calls = dp_calls_new(env, &ops, sink);
	s->unit = s->calls && dp_calls_any(s->calls) && !any_chain(env) ? "ns" : "events";
	return s->frames && s->calls;
}

void dp_stacks_release(struct dp_sink *sink)
{
	struct dp_stacks *s = stacks_of(sink);

	if (s)
		dp_stacks_free(s);
	dp_free(s);
}

static bool is_time(const struct dp_stacks *s)
{
	return s->unit[0] == 'n';
}

void dp_stacks_begin(struct dp_sink *sink, const struct dp_sink_record *r)
{
	struct dp_stacks *s = stacks_of(sink);

	s->nframes = 0;
	if (is_time(s))
		dp_calls_take(s->calls, r);
}

/* The outermost function comes first. An event without a chain is a stack of one function. */
void dp_stacks_end(struct dp_sink *sink, const struct dp_sink_record *r)
{
	struct dp_stacks *s = stacks_of(sink);
	const struct dp_event_info *ev = r->event;
	u32 node = 0;

	s->last = 0;
	if (is_time(s) || !ev)
		return;
	for (u32 i = s->nframes; i-- > 0;)
		node = dp_stacks_child(s, node, place_of(sink, s->frames[i], i > 0, NULL));
	if (!node)
		node = dp_stacks_child(s, 0, place_of(sink, ev->function, false, ev->symbol));
	s->nodes[node].self++;
	s->last = node;
}

void dp_stacks_field(struct dp_sink *sink, const char *name, unsigned i)
{
}

/* A second chain of the same event is another one's: the first counts. */
void dp_stacks_group(struct dp_sink *sink, enum dp_sink_group what)
{
	sink->more = what == DP_GROUP_STACK && !stacks_of(sink)->nframes;
}

void dp_stacks_member(struct dp_sink *sink, const char *name)
{
}

void dp_stacks_group_end(struct dp_sink *sink, enum dp_sink_group what)
{
	sink->more = 0;
}

void dp_stacks_value(struct dp_sink *sink, const struct dp_sink_value *v)
{
	struct dp_stacks *s = stacks_of(sink);

	if (sink->more && v->kind == DP_SINK_ADDRESS && s->nframes < FRAMES)
		s->frames[s->nframes++] = v->bits;
}

void dp_stacks_lost(struct dp_sink *sink, u64 n)
{
	dp_calls_lost(stacks_of(sink)->calls);
}

struct dp_stacks *dp_stacks_whole(struct dp_sink *sink)
{
	struct dp_stacks *s = stacks_of(sink);

	dp_calls_end(s->calls);
	dp_stacks_sum(s);
	if (s->broken)
		sink->trouble = "there is no memory for all stacks";
	return s;
}
