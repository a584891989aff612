/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A program of the build. It copies a page or a script from standard input to standard output and puts something from
 * the table of commands.c in the place of lines that begin with "@":
 *   @synopsis          usage lines of all subcommands, for man
 *   @options NAME [2]  the options of one, or of its second form, for man
 *   @completion        what the completion for bash has to know
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cmd/commands.h"

/* ---- the manual page ---- */

static void put_escaped(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '-' || s[i] == '\\')
			putchar('\\');
		putchar(s[i] == '\\' ? 'e' : s[i]);
	}
}

/* Words in capitals are what the user puts something for. */
static void put_usage(const char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t capitals = 0, len;

		while (i + capitals < n &&
		       (isupper((unsigned char)s[i + capitals]) || (capitals && s[i + capitals] == '-')))
			capitals++;
		len = capitals ? capitals : 1;
		if (capitals)
			fputs("\\fI", stdout);
		put_escaped(s + i, len);
		if (capitals)
			fputs("\\fR", stdout);
		i += len;
	}
}

static void put_synopsis(const struct cmd_spec *spec)
{
	for (const char *line = spec->synopsis; *line;) {
		size_t n = strcspn(line, "\n");

		if (spec->old)
			printf("\\fBdprobes\\fR {\\fB%s\\fR | \\fB\\-%c\\fR} ", spec->name, spec->old_letter);
		else
			printf("\\fBdprobes %s\\fR ", spec->name);
		put_usage(line, n);
		putchar('\n');
		line += n + (line[n] == '\n');
	}
}

static void put_format(const char *name, const char *help)
{
	printf(".br\n\\fB%s\\fR: ", name);
	put_escaped(help, strlen(help));
	putchar('\n');
}

static void put_formats(enum cmd_kind kind)
{
#define DP_FORMAT(id, name, events, programs, help) put_format(name, help);
#define DP_EVENT_FORMAT(id, name, events, help) \
	if (kind == KIND_FORMAT)                \
		put_format(name, help);
#include "log/formats.def"
#undef DP_EVENT_FORMAT
#undef DP_FORMAT
}

static void put_option(const struct cmd_option *o)
{
	fputs(".TP\n", stdout);
	if (o->letter)
		printf("\\fB\\-%c\\fR, ", o->letter);
	fputs("\\fB\\-\\-", stdout);
	put_escaped(o->name, strlen(o->name));
	fputs("\\fR", stdout);
	if (o->value) {
		fputs(" \\fI", stdout);
		put_escaped(o->value, strlen(o->value));
		fputs("\\fR", stdout);
	}
	putchar('\n');
	putchar(toupper((unsigned char)o->help[0]));
	put_escaped(o->help + 1, strlen(o->help) - 1);
	fputs(".\n", stdout);
	if (o->kind == KIND_FORMAT || o->kind == KIND_RECORD_FORMAT)
		put_formats(o->kind);
}

static void put_all_options(enum cmd_verb verb)
{
	const struct cmd_option *o = NULL;

	while ((o = dp_cmd_option_after(verb, o)))
		if (o->id != OPT_HELP)
			put_option(o);
}

/* ---- completion ---- */

static const char *const kinds[] = {[KIND_TEXT] = "text",
				    [KIND_PID] = "pid",
				    [KIND_FILE] = "file",
				    [KIND_FORMAT] = "format",
				    [KIND_RECORD_FORMAT] = "record",
				    [KIND_WORD] = "word"};

static void put_words(const char *words)
{
	for (; *words; words++)
		putchar(*words == '|' ? ' ' : *words);
}

/* "--pid=pid -p=pid --json=": each option with what its value is. */
static void put_options(enum cmd_verb verb)
{
	const struct cmd_option *o = NULL;

	while ((o = dp_cmd_option_after(verb, o))) {
		bool is_word = o->kind == KIND_WORD;
		char kind[64] = "";

		if (o->value)
			snprintf(kind, sizeof(kind), "%s%s%s", kinds[o->kind], is_word ? ":" : "",
				 is_word ? o->value : "");
		printf(" --%s=%s", o->name, kind);
		if (o->letter)
			printf(" -%c=%s", o->letter, kind);
	}
}

static void put_verb(enum cmd_verb verb)
{
	const struct cmd_spec *spec = &dp_cmd_specs[verb];

	printf("\t%s", spec->name);
	if (spec->old)
		printf(" | --%s | -%c", spec->old, spec->old_letter);
	printf(") options='");
	for (enum cmd_verb v = verb; v < VERB_COUNT && !strcmp(dp_cmd_specs[v].name, spec->name); v++)
		put_options(v);
	printf(" ' operands='");
	put_words(spec->words ? spec->words : "");
	printf("' kind=%s ;;\n", kinds[spec->operand]);
}

static void put_completion(void)
{
	fputs("_dprobes_record_formats='", stdout);
#define DP_FORMAT(id, name, events, programs, help) fputs(name " ", stdout);
#define DP_EVENT_FORMAT(id, name, events, help)
#include "log/formats.def"
#undef DP_EVENT_FORMAT
	fputs("'\n_dprobes_formats='", stdout);
#define DP_EVENT_FORMAT(id, name, events, help) fputs(name " ", stdout);
#include "log/formats.def"
#undef DP_EVENT_FORMAT
#undef DP_FORMAT
	fputs("'\n_dprobes_names='", stdout);
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
		if (dp_cmd_specs[v].purpose)
			printf("%s ", dp_cmd_specs[v].name);
	puts("'\n\n_dprobes_know() {\n\tcase $1 in");
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
		if (dp_cmd_specs[v].purpose)
			put_verb(v);
	puts("\tesac\n}");
}

/* ---- lines of the input ---- */

static bool put_section(const char *line)
{
	char what[16], name[16];
	int form = 1, n = sscanf(line, "@%15s %15s %d", what, name, &form);
	enum cmd_verb verb = n > 1 ? dp_cmd_verb_named(name) : VERB_NONE;

	if (n == 1 && !strcmp(what, "synopsis"))
		for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
			put_synopsis(&dp_cmd_specs[v]);
	else if (n == 1 && !strcmp(what, "completion"))
		put_completion();
	else if (verb != VERB_NONE && !strcmp(what, "options"))
		put_all_options(verb + (form == 2));
	else
		return false;
	return true;
}

int main(void)
{
	char line[4096];

	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] != '@') {
			fputs(line, stdout);
		} else if (!put_section(line)) {
			fprintf(stderr, "gen-pages: what is %s", line);
			return 1;
		}
	}
	return 0;
}
