/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What `dprobes --help`, `dprobes SUBCOMMAND --help` and `dprobes help TOPIC` print. The first two fit a screen of 24
 * lines; `help` tells all. Subcommands and options come from the table of commands.c, other topics from topics.def.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

#define COLUMNS 80
#define LINES 24
#define HELP_COLUMN 29

static const struct topic {
	const char *name, *purpose, *text;
} topics[] = {
#define DP_TOPIC(name, purpose, text) {name, purpose, text},
#include "cmd/topics.def"
#undef DP_TOPIC
    {"formats", "in which formats events, records and tables come", NULL},
};

/* Words from this column on, which is where the cursor is; further lines begin there too. "\n" ends a line. */
static void print_wrapped(FILE *out, const char *text, size_t column)
{
	for (size_t at = column; *text;) {
		size_t n = strcspn(text, " \n");

		if (at > column && at + 1 + n > COLUMNS) {
			fprintf(out, "\n%*s", (int)column, "");
			at = column;
		}
		fprintf(out, "%s%.*s", at > column ? " " : "", (int)n, text);
		at += n + (at > column);
		text += n;
		if (*text == '\n') {
			fputc('\n', out);
			at = column;
		}
		text += *text != '\0';
	}
	fputc('\n', out);
}

static void print_lines(FILE *out, const char *lines, const char *before)
{
	for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
		n = strcspn(lines, "\n");
		fprintf(out, "%s%.*s\n", before, (int)n, lines);
	}
}

static void print_synopsis(FILE *out, const struct cmd_spec *spec)
{
	const char *word = "usage:";

	for (const char *line = spec->synopsis; *line;) {
		size_t n = strcspn(line, "\n");

		fprintf(out, "%s dprobes %s %.*s\n", word, spec->name, (int)n, line);
		line += n + (line[n] == '\n');
		word = "      ";
	}
	if (spec->old)
		fprintf(out, "%s dprobes --%s %s   (short: -%c)\n", word, spec->old, spec->synopsis, spec->old_letter);
}

static void print_two_columns(FILE *out, const char *left, const char *right)
{
	fprintf(out, "  %-*s ", HELP_COLUMN - 3, left);
	print_wrapped(out, right, HELP_COLUMN);
}

static void print_option(FILE *out, const struct cmd_option *o)
{
	char letter[8] = "    ", left[64];

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
	print_two_columns(out, left, o->help);
}

static void print_format(void *out, const char *name, const char *help)
{
	print_two_columns(out, name, help);
}

static void print_verb(FILE *out, enum cmd_verb verb, bool whole)
{
	const struct cmd_spec *spec = &dp_cmd_specs[verb];
	const struct cmd_option *o = NULL;

	print_synopsis(out, spec);
	fputc('\n', out);
	print_wrapped(out, spec->about, 0);
	if (whole && spec->notes) {
		fputc('\n', out);
		print_wrapped(out, spec->notes, 0);
	}
	fprintf(out, "\nOptions:\n");
	while ((o = dp_cmd_option_after(verb, o)))
		if (whole || !o->rare)
			print_option(out, o);
	o = dp_cmd_option_named(verb, "format", strlen("format"));
	if (o && whole) {
		fprintf(out, "\nFormats:\n");
		dp_cmd_each_format(o->kind, print_format, out);
	}
	if (spec->examples) {
		fprintf(out, "\nExamples:\n");
		print_lines(out, spec->examples, "  ");
	}
}

/* A form that is named like another one is shown behind that. */
static void print_whole_verb(FILE *out, enum cmd_verb verb)
{
	print_verb(out, verb, true);
	for (enum cmd_verb v = verb + 1; v < VERB_COUNT && !strcmp(dp_cmd_specs[v].name, dp_cmd_specs[verb].name);
	     v++) {
		fputc('\n', out);
		print_verb(out, v, true);
	}
}

void dp_cmd_print_help(enum cmd_verb verb)
{
	char *whole = NULL;
	size_t size, lines = 0;
	FILE *f = open_memstream(&whole, &size);

	if (f) {
		print_verb(f, verb, true);
		fclose(f);
	}
	for (const char *p = whole; p && *p; p++)
		lines += *p == '\n';
	if (whole && lines <= LINES) {
		fputs(whole, stdout);
	} else {
		print_verb(stdout, verb, false);
		printf("\n`dprobes help %s` tells all.\n", dp_cmd_specs[verb].name);
	}
	free(whole);
}

void dp_cmd_print_overview(void)
{
	printf("usage: dprobes SUBCOMMAND [ARGUMENTS]\n\n"
	       "Put probes into programs that are already running.\n\n");
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
		if (dp_cmd_specs[v].frequent)
			printf("  %-9s %s\n", dp_cmd_specs[v].name, dp_cmd_specs[v].purpose);
	printf("\n`dprobes SUBCOMMAND --help` describes one, `dprobes help` lists all.\n\n"
	       "  dprobes trace -p redis 'p libc:malloc bytes=%%di'\n"
	       "  dprobes trace -o trace.txt -- python3 script.py\n"
	       "  dprobes graph -p 1234 --min 100us\n");
}

static const char *topic_name(int i, void *arg)
{
	int nverbs = VERB_COUNT - 1;

	if (i < nverbs)
		return dp_cmd_specs[i + 1].name;
	return i - nverbs < (int)DP_ARRAY_SIZE(topics) ? topics[i - nverbs].name : NULL;
}

void dp_cmd_each_topic(cmd_take_named *take, void *arg)
{
	for (size_t i = 0; i < DP_ARRAY_SIZE(topics); i++)
		take(arg, topics[i].name, topics[i].purpose);
}

static const struct topic *topic_named(const char *name)
{
	for (size_t i = 0; i < DP_ARRAY_SIZE(topics); i++)
		if (!strcmp(topics[i].name, name))
			return &topics[i];
	return NULL;
}

static void print_all(void)
{
	printf("usage: dprobes help [TOPIC]\n\nSubcommands:\n");
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
		if (dp_cmd_specs[v].purpose)
			printf("  %-10s %s\n", dp_cmd_specs[v].name, dp_cmd_specs[v].purpose);
	printf("\nOther topics:\n");
	for (size_t i = 0; i < DP_ARRAY_SIZE(topics); i++)
		printf("  %-10s %s\n", topics[i].name, topics[i].purpose);
	printf("\nCodes of errors, such as E-SITE-MIDINSN, are topics too.\n");
}

int dp_cmd_help(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL, *near;
	const struct topic *t;
	enum cmd_verb verb;
	char hint[80];

	if (!name) {
		print_all();
		return CMD_OK;
	}
	if (argc > 2)
		return dp_ui_fail(E_CMD_EXTRA, "give one topic", "%s", argv[2]);
	verb = dp_cmd_verb_named(name);
	t = topic_named(name);
	if (verb != VERB_NONE)
		print_whole_verb(stdout, verb);
	else if (t && t->text)
		print_lines(stdout, t->text, "");
	else if (t)
		dp_cmd_each_format(KIND_FORMAT, print_format, stdout);
	else if (!strncasecmp(name, "E-", 2))
		return dp_cmd_explain(argc, argv);
	else {
		near = dp_ui_nearest(name, topic_name, NULL);
		snprintf(hint, sizeof(hint),
			 near ? "did you mean `dprobes help %s`?" : "`dprobes help` shows the topics", near);
		return dp_ui_fail(E_CMD_TOPIC, hint, "%s", name);
	}
	return CMD_OK;
}
