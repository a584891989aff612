/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes graph`: calls of functions with their durations. Each pattern becomes two event lines, of its entries and
 * its returns, which carry the stack pointer; the format puts them together (log/calls.h).
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd-trace.h"

struct graph {
	struct trace t;
	struct dp_graph_options opt;
	bool results;
	const char **patterns; /* with their arguments */
	u32 n;
};

/* "10us", "1.5ms"; without a unit: microseconds. */
static bool parse_duration(const char *text, u64 *ns)
{
	char with_unit[64];

	if (dp_cmd_parse_time(text, ns))
		return true;
	snprintf(with_unit, sizeof(with_unit), "%.60sus", text);
	if (dp_cmd_parse_time(with_unit, ns))
		return true;
	dp_ui_fail(E_CMD_VALUE, "give a duration such as 500ns, 10us or 1.5ms", "'%s' is no duration", text);
	return false;
}

static bool parse_depth(const char *text, u32 *depth)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (end != text && !*end && text[0] != '-' && v && v < 65536) {
		*depth = (u32)v;
		return true;
	}
	dp_ui_fail(E_CMD_VALUE, "give a number from 1 on", "'%s' is no depth", text);
	return false;
}

int dp_cmd_graph_option(struct dp_graph_options *opt, int id, const char *value)
{
	switch (id) {
	case OPT_MIN:
		return parse_duration(value, &opt->min_ns) ? 0 : CMD_USAGE;
	case OPT_DEPTH:
		return parse_depth(value, &opt->depth) ? 0 : CMD_USAGE;
	case OPT_ONLY:
		opt->only = value;
		return 0;
	default: /* OPT_SUMMARY */
		opt->summary = true;
		return 0;
	}
}

int dp_cmd_graph_check(const struct dp_graph_options *opt, enum dp_format format)
{
	if (opt->min_ns && !dp_format_takes_min(format))
		return dp_ui_fail(E_CMD_VALUE, "use graph, flame, folded, speedscope, pprof or html",
				  "--min has no effect on format %s", dp_format_name(format));
	if (opt->summary && format != DP_FORMAT_GRAPH)
		return dp_ui_fail(E_CMD_VALUE, "use format graph", "--summary has no effect on format %s",
				  dp_format_name(format));
	return CMD_OK;
}

void dp_cmd_graph_tell_only(const struct dp_graph_options *opt, const struct dp_event_info *events, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if (!opt->only || !strcmp(events[i].symbol, opt->only))
			return;
	if (opt->only && n)
		dp_ui_note("no function that is traced is called %s: --only shows nothing", dp_ui_clean(opt->only));
}

/* Once it is known what is traced. */
static void look_at_only(struct trace *t)
{
	if (!dp_select_is_open(&t->select)) /* else others may bring it along */
		dp_cmd_graph_tell_only(t->run.graph, t->run.infos, t->run.nevents);
}

static int take_option(void *arg, int id, const char *value)
{
	struct graph *g = arg;
	const char **more;

	switch (id) {
	case OPT_MIN:
	case OPT_DEPTH:
	case OPT_ONLY:
	case OPT_SUMMARY:
		return dp_cmd_graph_option(&g->opt, id, value);
	case OPT_RESULTS:
		g->results = true;
		return 0;
	case CMD_OPT_OPERAND:
		more = realloc(g->patterns, (g->n + 1) * sizeof(*more));
		if (!more)
			return dp_ui_fail(E_CMD_EVENTS, NULL, "no memory");
		g->patterns = more;
		g->patterns[g->n++] = value;
		return 0;
	default:
		return dp_cmd_trace_option(&g->t, id, value);
	}
}

int dp_cmd_add_calls(struct event_lines *lines, const char *pattern, bool results)
{
	size_t n = strcspn(pattern, " \t"), size = strlen(pattern) + 64;
	char *line = malloc(size);
	struct dp_error err = {0};
	int r = line ? 0 : dp_fail(&err, E_CMD_EVENTS, "no memory");

	if (!r) {
		snprintf(line, size, "p %.*s sp=%%sp%s", (int)n, pattern, pattern + n);
		r = dp_event_lines_add(lines, line, "", &err);
	}
	if (!r) {
		snprintf(line, size, "r %.*s sp=%%sp%s", (int)n, pattern, results ? " result=$retval" : "");
		r = dp_event_lines_add(lines, line, "", &err);
	}
	free(line);
	if (r)
		dp_ui_error(&err, NULL);
	return r ? CMD_FAILED : CMD_OK;
}

static int make_lines(struct graph *g)
{
	int r = g->n ? CMD_OK : dp_cmd_add_calls(&g->t.lines, DP_CMD_ALL_FUNCTIONS, g->results);

	for (u32 i = 0; i < g->n && !r; i++)
		r = dp_cmd_add_calls(&g->t.lines, g->patterns[i], g->results);
	if (!r)
		r = dp_cmd_keep_if(&g->t);
	if (!r)
		r = dp_cmd_trace_ends(&g->t);
	if (!r)
		dp_event_lines_parse(&g->t.lines, false);
	return r;
}

int dp_cmd_graph(int argc, char **argv)
{
	struct graph g = {.t = {.status = CMD_OK, .format = DP_FORMAT_GRAPH, .no_summary = true}};
	bool done = false;
	int r = dp_cmd_options(VERB_GRAPH, argc, argv, take_option, &g, &g.t.command, &done);

	if (!r && !done && dp_select_any(&g.t.select) == !!g.t.command)
		r = dp_ui_fail(g.t.command ? E_CMD_EXTRA : E_CMD_MISSING,
			       "give a process with -p, or a command after --",
			       g.t.command ? "both a process and a command are given" : "no process to probe");
	g.t.run.graph = &g.opt;
	g.t.adapt = look_at_only;
	if (!r && !done)
		r = dp_cmd_graph_check(&g.opt, g.t.format);
	if (!r && !done)
		r = make_lines(&g);
	if (!r && !done) {
		r = dp_cmd_trace_run(&g.t);
	} else {
		dp_select_free(&g.t.select);
		dp_event_lines_free(&g.t.lines);
	}
	free(g.patterns);
	return r;
}
