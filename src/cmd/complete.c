/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes complete SHELL LINE`, for the completion of shells: what can stand at the end of the command line, which may
 * end in an open quote with an event in it. The first line of the answer is "words", or "files" or "commands" where the
 * shell knows better; then a candidate in each line, whole, and after a tab what it is. Errors are no candidates.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/complete.h"
#include "cmd/recipes.h"

#define CANDIDATES 2000

/* ---- the line ---- */

/* Takes the line apart in place, as shells do it. */
static void split(struct complete_line *l, char *text)
{
	char *to = text, *start;

	while (l->n < COMPLETE_WORDS) {
		while (isspace((unsigned char)*text))
			text++;
		start = to = text;
		l->quote = 0;
		for (; *text && (l->quote || !isspace((unsigned char)*text)); text++) {
			if (*text == l->quote)
				l->quote = 0;
			else if (!l->quote && (*text == '\'' || *text == '"'))
				l->quote = *text;
			else if (*text == '\\' && l->quote != '\'' && text[1])
				*to++ = *++text;
			else
				*to++ = *text;
		}
		l->words[l->n++] = start;
		if (!*text)
			break;
		text++;
		*to = '\0';
	}
	*to = '\0';
}

/* What stands before the command and itself goes: sudo, a path. */
static bool cut_command(struct complete_line *l)
{
	for (u32 i = l->n - 1; i--;) {
		const char *slash = strrchr(l->words[i], '/');

		if (strcmp(slash ? slash + 1 : l->words[i], "dprobes") != 0)
			continue;
		l->n -= i + 1;
		memmove(l->words, l->words + i + 1, l->n * sizeof(*l->words));
		return true;
	}
	return false;
}

/* ---- candidates ---- */

/* Whether the shell takes the text as it is. A file chooses the names of its functions: none may become a command. */
static bool is_plain(const struct candidates *c, const char *text)
{
	if (c->quote == '\'')
		return !strchr(text, '\'');
	if (c->quote == '"')
		return !strpbrk(text, "\"$`\\!");
	while (c->is_bash && (isalnum((unsigned char)*text) || (*text && strchr("_.@:/+-,=%", *text))))
		text++;
	return !c->is_bash || !*text; /* the others quote what needs it */
}

void dp_complete_put(struct candidates *c, const char *value, const char *about)
{
	const char *shown = value;

	if (strncmp(value, c->word, c->word_len) != 0 || c->n == CANDIDATES || !is_plain(c, value))
		return;
	c->n++;
	if (c->hidden >= c->kept)
		shown += c->hidden - c->kept;
	if (c->hidden < c->kept)
		printf("%.*s", (int)(c->kept - c->hidden), c->before + c->hidden);
	fputs(dp_ui_clean(shown), stdout);
	if (about && *about)
		printf("\t%s", dp_ui_clean(about));
	putchar('\n');
}

/* From here on the first `n` bytes of the word stand as they are. */
void dp_complete_keep(struct candidates *c, size_t n)
{
	c->kept += n;
	c->word += n;
	c->word_len -= n;
}

static void put_alternatives(struct candidates *c, const char *words)
{
	char word[32];

	for (size_t n; *words; words += n + (words[n] == '|')) {
		n = strcspn(words, "|");
		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		dp_complete_put(c, word, NULL);
	}
}

static void put_named(void *c, const char *name, const char *help)
{
	dp_complete_put(c, name, help);
}

static void put_subcommands(struct candidates *c)
{
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
		if (dp_cmd_specs[v].purpose)
			dp_complete_put(c, dp_cmd_specs[v].name, dp_cmd_specs[v].purpose);
}

/* Ids with what they run; or names, where some are wanted and the word is none of a number. */
static void put_processes(struct candidates *c, bool names)
{
	DIR *dir = opendir("/proc");
	char path[300], exe[4096], comm[64];
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		ssize_t n;
		FILE *f;

		if (!isdigit((unsigned char)e->d_name[0]) || atoi(e->d_name) == (int)getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/%s/exe", e->d_name);
		n = readlink(path, exe, sizeof(exe) - 1);
		if (n <= 0)
			continue; /* a thread of the kernel, or another user's */
		exe[n] = '\0';
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (!f || !fgets(comm, sizeof(comm), f))
			*comm = '\0';
		if (f)
			fclose(f);
		comm[strcspn(comm, "\n")] = '\0';
		dp_complete_put(c, e->d_name, comm);
		if (names && c->word_len && !isdigit((unsigned char)*c->word))
			dp_complete_put(c, strrchr(exe, '/') + 1, e->d_name);
	}
	if (dir)
		closedir(dir);
}

/* ---- words ---- */

/* The option of any form of the subcommand that has that name or letter. */
static const struct cmd_option *find_option(enum cmd_verb verb, const char *word)
{
	const struct cmd_option *o = NULL;

	for (enum cmd_verb v = verb; !o && v < VERB_COUNT && !strcmp(dp_cmd_specs[v].name, dp_cmd_specs[verb].name);
	     v++) {
		if (!strncmp(word, "--", 2))
			o = dp_cmd_option_named(v, word + 2, strcspn(word + 2, "="));
		else if (word[0] == '-' && word[1] && !word[2])
			o = dp_cmd_option_lettered(v, word[1]);
	}
	return o;
}

/* What the shell is to do instead; NULL: there are candidates. */
static const char *complete_value(struct candidates *c, const struct cmd_option *o)
{
	const char *comma = strrchr(c->word, ',');

	if (o->kind == KIND_FILE)
		return "files";
	puts("words");
	if (o->kind == KIND_PID) {
		if (comma)
			dp_complete_keep(c, (size_t)(comma + 1 - c->word));
		put_processes(c, !strcmp(o->value, "WHO"));
	} else if (o->kind == KIND_WORD) {
		put_alternatives(c, o->value);
	} else if (cmd_kind_is_format(o->kind)) {
		dp_cmd_each_format(o->kind, put_named, c);
	}
	return NULL;
}

static void put_options(struct candidates *c, enum cmd_verb verb)
{
	const struct cmd_option *o = NULL;
	char word[64];

	for (enum cmd_verb v = verb; v < VERB_COUNT && !strcmp(dp_cmd_specs[v].name, dp_cmd_specs[verb].name); v++)
		while ((o = dp_cmd_option_after(v, o))) {
			bool told = false;

			for (enum cmd_verb before = verb; before < v; before++)
				told |= !!dp_cmd_option_named(before, o->name, strlen(o->name));
			if (told)
				continue;
			snprintf(word, sizeof(word), "--%s", o->name);
			dp_complete_put(c, word, o->help);
			snprintf(word, sizeof(word), "-%c", o->letter);
			if (o->letter)
				dp_complete_put(c, word, o->help);
		}
}

/* The recipe that the line has before the word; NULL: none. */
static const char *recipe_in(const struct complete_line *l, const struct recipe_names *names)
{
	for (u32 w = 1; w + 1 < l->n; w++)
		for (u32 i = 0; i < names->n; i++)
			if (!strcmp(l->words[w], names->v[i]))
				return names->v[i];
	return NULL;
}

/* The first operand is a recipe, the others are its parameters. */
static void put_recipes(struct candidates *c, const struct complete_line *l)
{
	struct recipe_names names;
	struct dp_error err;
	struct recipe r;
	const char *chosen;
	char word[64];

	dp_recipe_names(&names);
	chosen = recipe_in(l, &names);
	if (chosen) {
		dp_recipe_open(&r, chosen, &err);
		for (u32 k = 0; k < r.nparams; k++) {
			snprintf(word, sizeof(word), "%.40s=", r.params[k].name);
			dp_complete_put(c, word, r.params[k].about);
		}
		dp_recipe_free(&r);
	}
	for (u32 i = 0; i < names.n && !chosen; i++) {
		dp_complete_put(c, names.v[i], dp_recipe_open(&r, names.v[i], &err) ? NULL : r.title);
		dp_recipe_free(&r);
	}
	dp_recipe_names_free(&names);
}

static const char *complete_operand(struct candidates *c, const struct complete_line *l, enum cmd_verb verb)
{
	const struct cmd_spec *spec = &dp_cmd_specs[verb];
	struct complete_subject s = dp_complete_subject(l, verb == VERB_VARS ? VERB_VARS_PLACE : verb);
	bool of_process = s.pid || s.file;

	if (spec->words) {
		puts("words");
		put_alternatives(c, spec->words);
		return c->n ? NULL : spec->operand == KIND_FILE ? "files" : NULL;
	}
	if (verb == VERB_RUN) {
		puts("words");
		put_recipes(c, l);
	} else if (verb == VERB_TRACE || verb == VERB_RECORD) {
		puts("words");
		dp_complete_event(c, &s);
	} else if (verb == VERB_TOP && strchr(c->word, ' ')) {
		puts("words");
		dp_complete_event(c, &s);
	} else if (of_process && (verb == VERB_GRAPH || verb == VERB_TOP || verb == VERB_FUNCS || verb == VERB_LINES ||
				  verb == VERB_VARS || verb == VERB_WATCH)) {
		puts("words");
		dp_complete_place(c, &s, verb == VERB_VARS ? 'p' : 'f');
	} else if (verb == VERB_EXPLAIN) {
		puts("words");
#define DP_ERROR(id, name, number, sentence, ...) dp_complete_put(c, name, sentence);
#include "base/errors.def"
#undef DP_ERROR
	} else {
		return spec->operand == KIND_FILE ? "files" : "words";
	}
	return NULL;
}

static const char *complete(struct candidates *c, const struct complete_line *l)
{
	const char *word = l->words[l->n - 1], *before = l->n > 1 ? l->words[l->n - 2] : "", *equals;
	const struct cmd_option *o;
	enum cmd_verb verb;

	for (u32 i = 1; i + 1 < l->n; i++)
		if (!strcmp(l->words[i], "--"))
			return i + 2 == l->n ? "commands" : "files";
	if (l->n == 1 || (l->n == 2 && !strcmp(l->words[0], "help"))) {
		puts("words");
		put_subcommands(c);
		if (l->n == 1)
			put_alternatives(c, "help|--help|--version");
		else
			dp_cmd_each_topic(put_named, c);
		return NULL;
	}
	verb = dp_cmd_verb_named(l->words[0]);
	for (enum cmd_verb v = VERB_NONE + 1; verb == VERB_NONE && v < VERB_COUNT; v++)
		if (dp_cmd_specs[v].old &&
		    (!strcmp(l->words[0] + 2 * !strncmp(l->words[0], "--", 2), dp_cmd_specs[v].old) ||
		     (l->words[0][0] == '-' && l->words[0][1] == dp_cmd_specs[v].old_letter)))
			verb = v;
	if (verb == VERB_NONE)
		return "files";
	equals = !strncmp(word, "--", 2) ? strchr(word, '=') : NULL;
	o = find_option(verb, equals ? word : before);
	if (equals)
		dp_complete_keep(c, (size_t)(equals + 1 - word));
	if (o && o->value && (equals || !strchr(before, '=')))
		return complete_value(c, o);
	if (*word == '-') {
		puts("words");
		put_options(c, verb);
		return NULL;
	}
	return complete_operand(c, l, verb);
}

int dp_cmd_complete(int argc, char **argv)
{
	struct candidates c = {0};
	struct complete_line l = {0};
	const char *instead, *last;
	char *text;

	if (argc != 3)
		return CMD_USAGE;
	unsetenv("DEBUGINFOD_URLS"); /* a server takes longer than anybody waits for a key */
	text = strdup(argv[2]);
	if (!text)
		return CMD_FAILED;
	split(&l, text);
	if (l.n > 1 && cut_command(&l)) {
		c.before = c.word = l.words[l.n - 1];
		c.word_len = strlen(c.word);
		c.quote = l.quote;
		c.is_bash = !strcmp(argv[1], "bash");
		/* Bash begins a word behind each of these, outside of quotes. */
		last = strpbrk(c.word, ":=");
		for (const char *p = last; p && (p = strpbrk(p + 1, ":="));)
			last = p;
		if (last && !l.quote && c.is_bash)
			c.hidden = (size_t)(last + 1 - c.word);
		instead = complete(&c, &l);
		if (instead)
			puts(instead);
	}
	free(text);
	return CMD_OK;
}
