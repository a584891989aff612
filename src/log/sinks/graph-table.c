/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See graph-table.h. */
#include <stdlib.h>

#include "log/human.h"
#include "log/sinks/graph-table.h"

bool dp_graph_table_init(struct dp_graph_table *t)
{
	return dp_stacks_init(&t->names);
}

void dp_graph_table_free(struct dp_graph_table *t)
{
	dp_stacks_free(&t->names);
	free(t->rows);
}

static struct dp_graph_row *row_of(struct dp_graph_table *t, u32 node)
{
	while (t->nrows <= node) {
		if (!dp_grow((void **)&t->rows, &t->room, t->nrows, sizeof(*t->rows))) {
			t->names.broken = true;
			return NULL;
		}
		t->rows[t->nrows++] = (struct dp_graph_row){0};
	}
	return &t->rows[node];
}

static void count(struct dp_graph_table *t, u32 node, u64 ns, u64 self, bool outermost)
{
	struct dp_graph_row *row = node ? row_of(t, node) : NULL;

	if (!row)
		return;
	row->calls++;
	row->self += self;
	row->total += outermost ? ns : 0;
	row->longest = DP_MAX(row->longest, ns);
}

void dp_graph_table_add(struct dp_graph_table *t, const struct dp_event_info *functions, const struct dp_call *outer,
			u32 depth, u64 ns, const char *outside)
{
	const struct dp_call *c = &outer[depth];
	u64 took = ns > c->begin_ns ? ns - c->begin_ns : 0, self = took > c->inner_ns ? took - c->inner_ns : 0;
	u32 node = dp_stacks_child(&t->names, 0, dp_stacks_name(&t->names, functions[c->event].symbol));
	const char *caller = depth ? functions[outer[depth - 1].event].symbol : outside;
	bool outermost = true;

	for (u32 i = depth; i-- > 0 && outermost;)
		outermost = outer[i].function != c->function;
	count(t, node, took, self, outermost);
	if (node)
		count(t, dp_stacks_child(&t->names, node, dp_stacks_name(&t->names, caller)), took, self, outermost);
}

void dp_graph_table_count(struct dp_graph_table *t, u32 function, u32 caller)
{
	u32 node = dp_stacks_child(&t->names, 0, function);

	if (node)
		count(t, dp_stacks_child(&t->names, node, caller), 0, 0, false);
}

void dp_graph_duration(struct dp_line *l, u64 ns)
{
	static const char *const units[] = {"us", "ms", " s"};
	int unit = 0;

	if (dp_human.raw_units) {
		dp_line_dec(l, ns, 11, ' ');
		return;
	}
	for (; unit < 2 && ns >= 1000000; unit++)
		ns /= 1000;
	dp_line_dec(l, ns / 1000, 4, ' '); /* not by a format: there is one for each call */
	dp_line_char(l, '.');
	dp_line_dec(l, ns % 1000, 3, '0');
	dp_line_char(l, ' ');
	dp_line_str(l, units[unit]);
}

/* ---- the table ---- */

static int by_total(const void *a, const void *b, void *arg)
{
	const struct dp_graph_table *t = arg;
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	if (t->rows[x].total != t->rows[y].total)
		return t->rows[x].total > t->rows[y].total ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* The children of a node, those that took longest first. The caller frees them. */
static u32 *children_of(const struct dp_graph_table *t, u32 node, u32 *n)
{
	u32 *v, k = 0;

	*n = 0;
	for (u32 c = t->names.nodes[node].child; c; c = t->names.nodes[c].sibling)
		*n += c < t->nrows;
	v = malloc((*n + 1) * sizeof(*v));
	for (u32 c = t->names.nodes[node].child; c && v; c = t->names.nodes[c].sibling)
		if (c < t->nrows)
			v[k++] = c;
	if (v)
		qsort_r(v, *n, sizeof(*v), by_total, (void *)t);
	else
		*n = 0;
	return v;
}

static const char *name_of(const struct dp_graph_table *t, u32 node)
{
	return t->names.names[t->names.nodes[node].name];
}

static void put_row(struct dp_line *l, const struct dp_graph_table *t, u32 node)
{
	const struct dp_graph_row *row = &t->rows[node];
	const char *name = name_of(t, node);

	dp_line_str(l, " ");
	dp_graph_duration(l, row->total);
	dp_line_str(l, "  ");
	dp_graph_duration(l, row->self);
	dp_line_str(l, "  ");
	dp_graph_duration(l, row->longest);
	dp_line_char(l, ' ');
	dp_line_dec(l, row->calls, 11, ' ');
	dp_line_str(l, "  ");
	dp_line_clean(l, name, strlen(name), "");
	dp_line_char(l, '\n');
}

static void put_callers(struct dp_line *l, const struct dp_graph_table *t, u32 node)
{
	u32 n, *callers = children_of(t, node, &n);

	for (u32 i = 0; i < n; i++) {
		const char *name = name_of(t, callers[i]);

		dp_line_str(l, " ");
		dp_graph_duration(l, t->rows[callers[i]].total);
		dp_line_str(l, "                            ");
		dp_line_dec(l, t->rows[callers[i]].calls, 11, ' ');
		dp_line_str(l, "    from ");
		dp_line_clean(l, name, strlen(name), "");
		dp_line_char(l, '\n');
	}
	free(callers);
}

void dp_graph_table_put(struct dp_line *l, const struct dp_graph_table *t)
{
	u32 n, *functions = children_of(t, 0, &n);

	dp_line_str(l, "#     TOTAL         SELF      LONGEST       CALLS  FUNCTION, CALLERS\n");
	for (u32 i = 0; i < n; i++) {
		put_row(l, t, functions[i]);
		put_callers(l, t, functions[i]);
	}
	free(functions);
}
