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

#include "cmd/cmd.h"
#include "cmd/names-cache.h"
#include "lang/dpcc/syscalls.h"
#include "run/run-select.h"
#include "symbols/statics.h"
#include "symbols/vars.h"

#define WORDS 128
#define CANDIDATES 2000

struct line {
	char *words[WORDS]; /* behind "dprobes", as the shell would pass them; the last one is being written */
	u32 n;
	char quote; /* that the last one is in; 0: none */
};

struct candidates {
	const char *word; /* what they begin with */
	size_t word_len;
	size_t kept;        /* bytes of the word that stand before what is completed, and */
	size_t hidden;      /* of the word that are not printed: bash has made a word of its own of them */
	const char *before; /* of the word: printed in front of each */
	u32 n;
};

/* ---- the line ---- */

/* Takes the line apart in place, as shells do it. */
static void split(struct line *l, char *text)
{
	char *to = text, *start;

	while (l->n < WORDS) {
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
static bool cut_command(struct line *l)
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

static void put(struct candidates *c, const char *value, const char *about)
{
	const char *shown = value;

	if (strncmp(value, c->word, c->word_len) != 0 || c->n == CANDIDATES)
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
static void keep(struct candidates *c, size_t n)
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
		put(c, word, NULL);
	}
}

static void put_formats(struct candidates *c, enum cmd_kind kind)
{
#define DP_FORMAT(id, name, events, programs, help) put(c, name, help);
#define DP_EVENT_FORMAT(id, name, events, help) \
	if (kind == KIND_FORMAT)                \
		put(c, name, help);
#include "log/formats.def"
#undef DP_EVENT_FORMAT
#undef DP_FORMAT
}

static void put_subcommands(struct candidates *c)
{
	for (enum cmd_verb v = VERB_NONE + 1; v < VERB_COUNT; v++)
		if (dp_cmd_specs[v].purpose)
			put(c, dp_cmd_specs[v].name, dp_cmd_specs[v].purpose);
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
		put(c, e->d_name, comm);
		if (names && c->word_len && !isdigit((unsigned char)*c->word))
			put(c, strrchr(exe, '/') + 1, e->d_name);
	}
	if (dir)
		closedir(dir);
}

/* ---- names of a program ---- */

/* Where the names of a command line come from. */
struct subject {
	pid_t pid;        /* 0: none */
	const char *file; /* NULL: none */
};

static const char *value_of(const struct line *l, enum cmd_verb verb, enum cmd_option_id id)
{
	for (u32 i = 1; i + 1 < l->n; i++) {
		const char *w = l->words[i];
		const struct cmd_option *o = NULL;
		size_t n = strcspn(w, "=");

		if (!strncmp(w, "--", 2))
			o = dp_cmd_option_named(verb, w + 2, n - DP_MIN(n, 2ul));
		else if (w[0] == '-' && w[1])
			o = dp_cmd_option_lettered(verb, w[1]);
		if (!o || o->id != id || !o->value)
			continue;
		if (w[1] == '-')
			return w[n] ? w + n + 1 : l->words[i + 1];
		return w[2] ? w + 2 : l->words[i + 1];
	}
	return NULL;
}

static pid_t first_process(const char *who)
{
	struct dp_select s = {0};
	struct dp_pids pids = {0};
	struct dp_error err;
	pid_t pid = 0;

	if (who && dp_select_add(&s, who) && !dp_select_find(&s, &pids, &err) && pids.n)
		pid = pids.v[0];
	dp_pids_free(&pids);
	dp_select_free(&s);
	return pid;
}

static struct subject find_subject(const struct line *l, enum cmd_verb verb)
{
	struct subject s = {first_process(value_of(l, verb, OPT_PID)), NULL};

	if (verb == VERB_TRACE || verb == VERB_RECORD)
		s.file = value_of(l, verb, OPT_ALL);
	else if (l->n > 2 && l->words[1][0] != '-')
		s.file = l->words[1];
	return s;
}

/* The part of a file's name by which its functions are named: libc.so.6 is libc. */
static void short_name(char *buf, size_t size, const char *path)
{
	const char *base = strrchr(path, '/'), *so;

	base = base ? base + 1 : path;
	so = strstr(base, ".so");
	snprintf(buf, size, "%.*s", so && (!so[3] || so[3] == '.') ? (int)(so - base) : (int)strlen(base), base);
}

/* The module of that name, as short_name() has it or as the file is called; NULL: the executable. */
static struct dp_module *open_module(const struct subject *s, const char *name)
{
	struct dp_module *m = NULL;
	struct dp_maps maps;
	char exe[64], path[4096], own[256];
	ssize_t n;

	if (!s->pid)
		return s->file && !dp_module_open(&m, s->file, NULL) ? m : NULL;
	snprintf(exe, sizeof(exe), "/proc/%d/exe", (int)s->pid);
	n = readlink(exe, path, sizeof(path) - 1);
	path[DP_MAX(n, 0l)] = '\0';
	if (dp_maps_read(&maps, s->pid, NULL))
		return NULL;
	for (size_t i = 0; i < maps.n && !m; i++) {
		const struct dp_map *map = &maps.v[i];
		const char *base = strrchr(map->path, '/');
		int fd;

		if (!map->x || !base)
			continue;
		short_name(own, sizeof(own), map->path);
		if (name && *name ? strcmp(name, own) && strcmp(name, base + 1) && strcmp(name, map->path)
				  : strcmp(map->path, path))
			continue;
		fd = dp_map_open(s->pid, map);
		if (fd >= 0 && dp_module_open_fd(&m, fd, map->path, NULL))
			m = NULL;
		if (fd >= 0)
			close(fd);
	}
	dp_maps_free(&maps);
	return m;
}

static void put_modules(struct candidates *c, const struct subject *s)
{
	struct dp_maps maps;
	char own[256], seen[256] = "";

	put(c, "kernel:", "functions of the kernel");
	if (!s->pid || dp_maps_read(&maps, s->pid, NULL))
		return;
	for (size_t i = 0; i < maps.n; i++) {
		if (!maps.v[i].x || maps.v[i].path[0] != '/')
			continue;
		short_name(own, sizeof(own) - 1, maps.v[i].path);
		strcat(own, ":");
		if (strcmp(own, seen) != 0)
			put(c, own, maps.v[i].path);
		memcpy(seen, own, sizeof(seen));
	}
	dp_maps_free(&maps);
}

static void put_name(void *c, const char *name)
{
	put(c, name, NULL);
}

static void put_kernel(struct candidates *c)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char text[512], name[256], kind;

	while (f && fgets(text, sizeof(text), f))
		if (sscanf(text, "%*x %c %255s", &kind, name) == 2 && strchr("tTwW", kind) && !strchr(text, '['))
			put(c, name, NULL);
	if (f)
		fclose(f);
}

static void put_statics(struct candidates *c, struct dp_module *m)
{
	const struct dp_static *v;
	char name[256];

	for (u32 i = 0, n = dp_module_statics(m, &v); i < n; i++) {
		snprintf(name, sizeof(name), "%s__%s", v[i].provider, v[i].name);
		put(c, name, v[i].args);
	}
}

static void put_calls(struct candidates *c)
{
	u32 numbers[DP_SYSCALLS_MAX], n = dp_syscalls_matching("*", numbers, DP_SYSCALLS_MAX);

	for (u32 i = 0; i < n; i++)
		put(c, dp_syscall_name_of(numbers[i]), NULL);
}

/* [MODULE:]FUNCTION; of a static probe or a system call where kind is u or s. */
static void complete_place(struct candidates *c, const struct subject *s, char kind)
{
	const char *colon = strchr(c->word, ':');
	char name[256] = "";
	struct dp_module *m;

	if (kind == 's') {
		put_calls(c);
		return;
	}
	if (colon && colon[1] != ':') {
		snprintf(name, sizeof(name), "%.*s", (int)(colon - c->word), c->word);
		keep(c, (size_t)(colon - c->word) + 1);
		if (!strcmp(name, "kernel")) {
			put_kernel(c);
			return;
		}
	} else {
		put_modules(c, s);
	}
	m = open_module(s, name);
	if (m && kind == 'u')
		put_statics(c, m);
	else if (m)
		dp_names_each(m, c->word, put_name, c);
	dp_module_close(m);
}

static int put_variable(const char *name, int r, const struct dp_var *v, const struct dp_error *err, void *arg)
{
	char word[256];

	snprintf(word, sizeof(word), "$%s", name);
	put(arg, word, r ? "not available at this place" : "variable");
	return 0;
}

static void put_variables(struct candidates *c, const struct subject *s, const char *place)
{
	const char *colon = strchr(place, ':'), *function = place;
	char name[256] = "", function_name[256];
	struct dp_symbol sym;
	struct dp_module *m;

	if (colon && colon[1] != ':') {
		snprintf(name, sizeof(name), "%.*s", (int)(colon - place), place);
		function = colon + 1;
	}
	snprintf(function_name, sizeof(function_name), "%.*s", (int)strcspn(function, " +%"), function);
	m = open_module(s, name);
	if (m && !dp_module_symbol(m, function_name, &sym, NULL))
		dp_var_each(m, sym.addr, put_variable, c, NULL);
	dp_module_close(m);
}

static void complete_value_of_event(struct candidates *c, const struct subject *s, char kind, const char *place)
{
	static const char *const known[] = {"$args",  "$arg1", "$arg2",      "$comm",   "$pid",      "$tid",
					    "$cpu",   "$time", "$backtrace", "$caller", "$ip",       "$stack",
					    "count",  "sum(",  "avg(",       "min(",    "max(",      "hist(",
					    "lhist(", "by",    "if",         "top",     "quantiles("};

	for (size_t i = 0; i < DP_ARRAY_SIZE(known); i++)
		put(c, known[i], NULL);
	if (kind == 'r') {
		put(c, "$retval", "what the function returns");
		put(c, "$duration", "nanoseconds of the call");
	}
	if (c->word[0] == '$' && (kind == 'p' || kind == 'r'))
		put_variables(c, s, place);
}

static void complete_event(struct candidates *c, const struct subject *s)
{
	const char *blank = strchr(c->word, ' '), *last = strrchr(c->word, ' '), *place;
	char kind = c->word[0];

	if (!blank) {
		put(c, "p ", "entry of a function, an instruction or a line");
		put(c, "r ", "return of a function");
		put(c, "u ", "static probe");
		put(c, "s ", "system call");
		put(c, "w ", "watchpoint");
		return;
	}
	place = blank + strspn(blank, " ");
	keep(c, (size_t)(last + 1 - c->word));
	if (last < place)
		complete_place(c, s, kind);
	else
		complete_value_of_event(c, s, kind, place);
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
			keep(c, (size_t)(comma + 1 - c->word));
		put_processes(c, !strcmp(o->value, "WHO"));
	} else if (o->kind == KIND_WORD) {
		put_alternatives(c, o->value);
	} else if (o->kind == KIND_FORMAT || o->kind == KIND_RECORD_FORMAT) {
		put_formats(c, o->kind);
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
			put(c, word, o->help);
			snprintf(word, sizeof(word), "-%c", o->letter);
			if (o->letter)
				put(c, word, o->help);
		}
}

static const char *complete_operand(struct candidates *c, const struct line *l, enum cmd_verb verb)
{
	const struct cmd_spec *spec = &dp_cmd_specs[verb];
	struct subject s = find_subject(l, verb);
	bool of_process = s.pid || s.file;

	if (spec->words) {
		puts("words");
		put_alternatives(c, spec->words);
		return c->n ? NULL : spec->operand == KIND_FILE ? "files" : NULL;
	}
	if (verb == VERB_TRACE || verb == VERB_RECORD) {
		puts("words");
		complete_event(c, &s);
	} else if (of_process && (verb == VERB_GRAPH || verb == VERB_FUNCS || verb == VERB_LINES || verb == VERB_VARS ||
				  verb == VERB_WATCH)) {
		puts("words");
		complete_place(c, &s, verb == VERB_WATCH ? 'w' : 'p');
	} else if (verb == VERB_EXPLAIN) {
		puts("words");
#define DP_ERROR(id, name, number, sentence, ...) put(c, name, sentence);
#include "base/errors.def"
#undef DP_ERROR
	} else {
		return spec->operand == KIND_FILE ? "files" : "words";
	}
	return NULL;
}

static const char *complete(struct candidates *c, const struct line *l)
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
			dp_cmd_each_topic(put_name, c);
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
		keep(c, (size_t)(equals + 1 - word));
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
	struct line l = {0};
	const char *instead, *last;
	char *text;

	if (argc != 3)
		return CMD_USAGE;
	text = strdup(argv[2]);
	if (!text)
		return CMD_FAILED;
	split(&l, text);
	if (l.n > 1 && cut_command(&l)) {
		c.before = c.word = l.words[l.n - 1];
		c.word_len = strlen(c.word);
		/* Bash begins a word behind each of these, outside of quotes. */
		last = strpbrk(c.word, ":=");
		for (const char *p = last; p && (p = strpbrk(p + 1, ":="));)
			last = p;
		if (last && !l.quote && !strcmp(argv[1], "bash"))
			c.hidden = (size_t)(last + 1 - c.word);
		instead = complete(&c, &l);
		if (instead)
			puts(instead);
	}
	free(text);
	return CMD_OK;
}
