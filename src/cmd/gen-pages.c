/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A program of the build. It copies a page from standard input to standard output and puts something from
 * the table of commands.c in the place of lines that begin with "@":
 *   @subcommands                   what each does, for man
 *   @section NAME... or NAME/2 HEADING   here begins what is told of subcommands, or of a second form
 *   @end                           and here it ends
 * Sections are left out; with the name of a subcommand as argument nothing but its sections is written, as a page.
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

		printf("\\fBdprobes %s\\fR ", spec->name);
		put_usage(line, n);
		putchar('\n');
		line += n + (line[n] == '\n');
	}
	if (spec->old)
		printf("\\fBdprobes\\fR {\\fB\\-\\-%s\\fR | \\fB\\-%c\\fR} ...\n", spec->old, spec->old_letter);
}

static void put_format(void *arg, const char *name, const char *help)
{
	printf(".br\n\\fB%s\\fR: ", name);
	put_escaped(help, strlen(help));
	putchar('\n');
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
	if (cmd_kind_is_format(o->kind))
		dp_cmd_each_format(o->kind, put_format, NULL);
}

static void put_all_options(enum cmd_verb verb)
{
	const struct cmd_option *o = NULL;

	while ((o = dp_cmd_option_after(verb, o)))
		if (o->id != OPT_HELP)
			put_option(o);
}

/* ---- lines of the input ---- */

static void put_subcommands(void)
{
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++) {
		if (!dp_cmd_specs[v].purpose)
			continue;
		printf(".TP\n.BR dprobes\\-%s (1)\n", dp_cmd_specs[v].name);
		put_escaped(dp_cmd_specs[v].purpose, strlen(dp_cmd_specs[v].purpose));
		putchar('\n');
	}
}

static bool is_second_form(enum cmd_verb v)
{
	return v < VERB_COUNT && v > VERB_NONE + 1 && !strcmp(dp_cmd_specs[v].name, dp_cmd_specs[v - 1].name);
}

static void begin_page(enum cmd_verb verb)
{
	const struct cmd_spec *spec = &dp_cmd_specs[verb];

	fputs(".\\\" SPDX-License-Identifier: MIT OR GPL-2.0-only\n.TH DPROBES\\-", stdout);
	for (const char *p = spec->name; *p; p++)
		putchar(toupper((unsigned char)*p));
	printf(" 1 \"\" \"Dynamic Probes\" \"User Commands\"\n.SH NAME\ndprobes\\-%s \\- ", spec->name);
	put_escaped(spec->purpose, strlen(spec->purpose));
	puts("\n.SH SYNOPSIS\n.nf");
	put_synopsis(spec);
	if (is_second_form(verb + 1))
		put_synopsis(spec + 1);
	puts(".fi\n.SH DESCRIPTION");
}

static void put_examples(const struct cmd_spec *spec)
{
	if (!spec->examples)
		return;
	puts(".SH EXAMPLES\n.nf");
	put_escaped(spec->examples, strlen(spec->examples));
	puts("\n.fi");
}

/* What the table tells behind the text of a section. */
static void end_section(enum cmd_verb verb)
{
	if (!is_second_form(verb)) {
		if (dp_cmd_option_after(verb, NULL)->id != OPT_HELP)
			puts(".SH OPTIONS");
		put_all_options(verb);
		put_examples(&dp_cmd_specs[verb]);
	} else {
		put_all_options(verb);
	}
}

/* Which form of the subcommand a section tells of, if any. */
static enum cmd_verb section_of(const char *line, enum cmd_verb page)
{
	char name[16];
	int n, form;

	line += strlen("@section");
	while (sscanf(line, " %15[a-z]%n", name, &n) == 1) {
		line += n;
		form = *line == '/' ? line[1] - '0' : 1;
		if (page != VERB_NONE && !strcmp(name, dp_cmd_specs[page].name)) {
			if (form == 2)
				printf(".SH %s", line + 3);
			return page + (u32)form - 1;
		}
		if (form == 2)
			break;
	}
	return VERB_NONE;
}

static bool begins(const char *line, const char *word)
{
	return !strncmp(line, word, strlen(word));
}

int main(int argc, char **argv)
{
	enum cmd_verb page = argc > 1 ? dp_cmd_verb_named(argv[1]) : VERB_NONE, section = VERB_NONE;
	bool in_section = false;
	char line[4096];

	if (argc > 1 && page == VERB_NONE) {
		fprintf(stderr, "gen-pages: there is no subcommand %s\n", argv[1]);
		return 1;
	}
	if (page != VERB_NONE)
		begin_page(page);
	while (fgets(line, sizeof(line), stdin)) {
		if (begins(line, "@section") || begins(line, "@end")) {
			if (section != VERB_NONE)
				end_section(section);
			in_section = begins(line, "@section");
			section = in_section ? section_of(line, page) : VERB_NONE;
		} else if (in_section ? section == VERB_NONE : page != VERB_NONE) {
			continue;
		} else if (begins(line, "@subcommands")) {
			put_subcommands();
		} else if (line[0] == '@') {
			fprintf(stderr, "gen-pages: what is %s", line);
			return 1;
		} else {
			fputs(line, stdout);
		}
	}
	if (page != VERB_NONE)
		puts(".SH SEE ALSO\n.BR dprobes (1),\n.BR dprobes\\-event (5)");
	return 0;
}
