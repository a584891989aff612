/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Call stacks with weights, as a tree: what flame graphs and folded stacks are made of. Either events have $backtrace,
 * and each counts 1; or entries and returns make calls (calls.h), and each function weighs the nanoseconds that it
 * spent itself. Nodes and names are numbers from 0 on; node 0 is the root.
 */
#ifndef DP_LOG_STACKS_H
#define DP_LOG_STACKS_H

#include "log/calls.h"

struct dp_stack_node {
	u32 name;
	u32 parent, child, sibling; /* 0: none */
	u64 self, total;            /* weights; total is there after dp_stacks_sum() */
	u64 calls;                  /* of calls: how many */
};

struct dp_stacks {
	struct dp_stack_node *nodes;
	size_t n, room;
	char **names;
	size_t nnames, names_room;
	u32 *name_hash, *node_hash; /* open addressing; number + 1 */
	size_t name_slots, node_slots;
	bool broken; /* no memory: what there is, is not whole */
	const char *unit;

	/* Of events. */
	struct dp_calls *calls;
	u64 *frames;       /* of the record's first chain, the hit first */
	u32 nframes, last; /* the node of the last record */
	/*
	 * What nodes have in the place of the number of a name, for formats that know more of a function; NULL: the
	 * name alone. symbol: the function's name; NULL: by the address.
	 */
	u32 (*place)(struct dp_sink *s, u64 addr, bool behind_call, const char *symbol);
};

#define DP_STACKS_NODES (1u << 22) /* what a target can make us keep */

bool dp_stacks_init(struct dp_stacks *s); /* false: no memory */
void dp_stacks_free(struct dp_stacks *s);
u32 dp_stacks_name(struct dp_stacks *s, const char *name);
u32 dp_stacks_child(struct dp_stacks *s, u32 parent, u32 name); /* 0: no memory */
void dp_stacks_sum(struct dp_stacks *s);

/* A function of a call chain, as it shows: its name without the offset; addresses stay. */
void dp_stacks_function(char *symbol);

/* The sink of a format that is made of stacks alone; all its operations, but finish. */
struct dp_stacks_sink {
	struct dp_sink s;
	struct dp_stacks *stacks;
};

bool dp_stacks_open(struct dp_sink *s, const struct dp_format_env *env);
void dp_stacks_release(struct dp_sink *s);
void dp_stacks_begin(struct dp_sink *s, const struct dp_sink_record *r);
void dp_stacks_end(struct dp_sink *s, const struct dp_sink_record *r);
void dp_stacks_field(struct dp_sink *s, const char *name, unsigned i);
void dp_stacks_group(struct dp_sink *s, enum dp_sink_group what);
void dp_stacks_member(struct dp_sink *s, const char *name);
void dp_stacks_group_end(struct dp_sink *s, enum dp_sink_group what);
void dp_stacks_value(struct dp_sink *s, const struct dp_sink_value *v);
void dp_stacks_lost(struct dp_sink *s, u64 n);
#define DP_STACKS_OPS                                                                                             \
	.open = dp_stacks_open, .release = dp_stacks_release, .begin = dp_stacks_begin, .field = dp_stacks_field, \
	.group = dp_stacks_group, .member = dp_stacks_member, .group_end = dp_stacks_group_end,                   \
	.value = dp_stacks_value, .end = dp_stacks_end, .lost = dp_stacks_lost, .takes_min = true

/* No more records: open calls end, weights are summed. */
struct dp_stacks *dp_stacks_whole(struct dp_sink *s);

#endif
