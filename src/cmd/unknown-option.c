/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is said of an option that a subcommand does not have: what does the same there, who has it, or what it may
 * mean.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

static const char *option_name(int i, void *arg)
{
	const enum cmd_verb *verb = arg;
	const struct cmd_option *o = dp_cmd_option_after(*verb, NULL);

	while (o && i--)
		o = dp_cmd_option_after(*verb, o);
	return o ? o->name : NULL;
}

static const struct cmd_option *find_option(enum cmd_verb verb, const char *name)
{
	return name[1] ? dp_cmd_option_named(verb, name, strlen(name)) : dp_cmd_option_lettered(verb, name[0]);
}

/* The other form of the subcommand has it: `trace` of events, and of a program. */
static bool is_of_other_form(enum cmd_verb verb, const char *name)
{
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
		if (v != verb && !strcmp(dp_cmd_specs[v].name, dp_cmd_specs[verb].name) && find_option(v, name))
			return true;
	return false;
}

/* What to do where a subcommand cannot have the option, though another one has. */
static const char *instead_of(enum cmd_verb verb, const char *name)
{
#define BIT(verb) (1u << VERB_##verb)
#define RECORDS (BIT(RECORD) | BIT(RECORD_PROGRAM))
#define TRACES (BIT(TRACE) | BIT(TRACE_PROGRAM) | BIT(RUN))
#define LINES (TRACES | RECORDS)
	static const struct {
		u32 verbs;
		const char *name, *hint;
	} known[] = {
	    {RECORDS, "json", "`dprobes report --json FILE` shows a recording so"},
	    {RECORDS, "format", "`dprobes report --format FORMAT FILE` shows a recording so"},
	    {RECORDS, "endpoint", "`dprobes report --format otlp --endpoint URL FILE` sends a recording"},
	    {RECORDS, "info", "`dprobes report --info FILE` tells it of a recording"},
	    {LINES | BIT(WATCH), "min", "`dprobes graph` has it; in a line: 'r FUNCTION if $duration > 10us'"},
	    {LINES, "summary", "`dprobes graph --summary`, or tables in lines: 'r FUNCTION count, hist($duration)'"},
	    {LINES, "sample", "`dprobes top --sample HZ` has it"},
	    {LINES, "count", "--max-events ends after so many events"},
	    {LINES, "callers", "ask for $backtrace in the line"},
	    {TRACES, "last", "`dprobes record -o FILE --last LIMIT` has it"},
	    {TRACES, "rotate", "`dprobes record -o FILE --rotate LIMIT` has it"},
	    {TRACES, "dump-on", "`dprobes record -o FILE --last LIMIT` has it"},
	    {TRACES, "keep", "`dprobes record -o FILE --rotate LIMIT` has it"},
	    {BIT(RUN), "event", "`dprobes run NAME --show` prints the trace that takes more lines"},
	    {BIT(RUN), "file", "`dprobes run NAME --show` prints the trace that takes more lines"},
	    {BIT(RUN), "define", "a recipe's own parameters are given as NAME=VALUE"},
	    {BIT(GRAPH) | BIT(TOP), "event", "give the function without -e"},
	    {BIT(GRAPH) | BIT(TOP), "file", "`dprobes trace -f FILE` has it"},
	    {BIT(TOP), "max-events", "--count ends after so many turns"},
	    {BIT(TOP), "output", "`dprobes top --plain > FILE`, or --json, writes lines"},
	    {BIT(TOP), "format", "--json is the only other one"},
	    {BIT(GRAPH) | BIT(WATCH), "count", "--max-events ends after so many events"},
	    {BIT(REPORT), "duration", "it shows what was recorded; --max-events shows less"},
	    {BIT(REPORT), "keep-if", "`dprobes record --keep-if` records less"},
	    {BIT(WATCH), "event", "`dprobes trace 'w VARIABLE'` takes other lines, too"},
	    {BIT(WATCH), "budget", "what watches memory cannot be taken out; a condition (if new > 3) shows less"},
	    {BIT(INSERT) | BIT(APPLY), "duration", "`dprobes trace -f FILE --duration SEC` ends by itself"},
	    {BIT(INSERT) | BIT(APPLY), "output",
	     "`dprobes log` shows what was logged; `dprobes trace -f FILE -o` writes it"},
	};
#undef LINES
#undef TRACES
#undef RECORDS
#undef BIT

	for (size_t i = 0; i < DP_ARRAY_SIZE(known); i++)
		if (known[i].verbs & 1u << verb && !strcmp(known[i].name, name))
			return known[i].hint;
	return NULL;
}

/* "`dprobes trace`, `dprobes record` have it"; at most three of them. */
static bool others_with(enum cmd_verb verb, const char *name, char *text, size_t size)
{
	size_t n = 0;
	u32 found = 0;

	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT && name[1]; v++) {
		const char *other = dp_cmd_specs[v].name;

		if (v == verb || !other || !find_option(v, name) || (n && strstr(text, other)) || found == 3)
			continue;
		found++;
		n += (size_t)snprintf(text + n, size - n, "%s`dprobes %s`", n ? ", " : "", other);
	}
	if (n)
		snprintf(text + n, size - n, found > 1 ? " have it" : " has it");
	return n;
}

int dp_cmd_unknown_option(enum cmd_verb verb, const char *shown, const char *name)
{
	const char *near = name[1] ? dp_ui_nearest(name, option_name, &verb) : NULL;
	const struct cmd_option *o = NULL;
	char hint[160], others[160];
	const char *instead;

	if (!dp_cmd_specs[verb].name)
		return dp_ui_fail(E_CMD_OPTION, NULL, "%s", shown);
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT && !o; v++)
		o = find_option(v, name);
	instead = instead_of(verb, o && name[1] ? o->name : name);
	if (is_of_other_form(verb, name)) {
		snprintf(hint, sizeof(hint), "`dprobes help %s` lists the options of both forms",
			 dp_cmd_specs[verb].name);
		return dp_ui_fail(E_CMD_OPTION, instead ? instead : hint, "%s, in this form of `dprobes %s`", shown,
				  dp_cmd_specs[verb].name);
	}
	if (instead)
		return dp_ui_fail(E_CMD_OPTION, instead, "%s, in `dprobes %s`", shown, dp_cmd_specs[verb].name);
	if (o && others_with(verb, name, others, sizeof(others)))
		return dp_ui_fail(E_CMD_OPTION, others, "%s, in `dprobes %s`", shown, dp_cmd_specs[verb].name);
	if (near)
		snprintf(hint, sizeof(hint), "did you mean --%s?", near);
	else
		snprintf(hint, sizeof(hint), "`dprobes %s --help` shows the options", dp_cmd_specs[verb].name);
	return dp_ui_fail(E_CMD_OPTION, hint, "%s", shown);
}
