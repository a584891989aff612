/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Call stacks as other tools of flame graphs read them: "outer;inner;innermost WEIGHT", one on a line. */
#include <string.h>

#include "log/sinks.h"
#include "log/stacks.h"

_Static_assert(sizeof(struct dp_stacks_sink) <= sizeof(union dp_sink_room), "a sink fits");

/* A name is cut into frames at ';', and ends the line with a line's end. */
static void put_name(struct dp_line *l, const char *name)
{
	size_t n;

	for (; *name; name += n + (name[n] == ';')) {
		n = strcspn(name, ";");
		dp_line_clean(l, name, n, "");
		if (name[n] == ';')
			dp_line_char(l, ':');
	}
}

static void put_stack(struct dp_line *l, const struct dp_stacks *st, u32 node)
{
	u32 path[DP_ARRAY_MAX * 16], n = 0;

	for (; node && n < DP_ARRAY_SIZE(path); node = st->nodes[node].parent)
		path[n++] = node;
	while (n--) {
		put_name(l, st->names[st->nodes[path[n]].name]);
		dp_line_char(l, n ? ';' : ' ');
	}
}

static void finish(struct dp_sink *s)
{
	const struct dp_stacks *st = dp_stacks_whole(s);

	for (u32 i = 1; i < st->n; i++) {
		if (!st->nodes[i].self)
			continue;
		put_stack(s->line, st, i);
		dp_line_dec(s->line, st->nodes[i].self, 0, ' ');
		dp_line_char(s->line, '\n');
	}
}

const struct dp_sink_ops dp_sink_folded = {DP_STACKS_OPS, .finish = finish};
