/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See recipes.h. Files are read here, and believed only where their owner may decide what we do. Our own are there
 * without files, too.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/part.h"
#include "cmd/cmd.h"
#include "cmd/recipes.h"

#define ENDING ".recipe"
#define FOLDERS 3
#define SIZE_MAX_RECIPE 65536

/* What dprobes brings along, for a command without its folder. */
static const struct {
	const char *name, *text;
} texts[] = {
#include <recipe-texts.inc>
};

/* ---- folders and files ---- */

/* In the order in which they are asked; false: there is no such folder. */
static bool folder(u32 i, char *path, size_t size)
{
	if (i == 0)
		return dp_cmd_home_folder("XDG_CONFIG_HOME", ".config", "dprobes/recipes", path, size);
	if (i == 1)
		return snprintf(path, size, "/etc/dprobes/recipes") > 0;
	/* Ours lie where the command does: PREFIX/share beside PREFIX/bin, or in the directory of the build. */
	return dp_own_path("recipes", "../share/dprobes/recipes", path, size);
}

static bool is_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("-_.+", name[i]))
			return false;
	return n > 0 && name[0] != '.';
}

static int read_source(struct recipe *r, int fd, struct dp_error *err)
{
	const char *why;
	struct stat st;
	ssize_t n, have = 0;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > SIZE_MAX_RECIPE)
		return dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: no file of text", r->path);
	why = dp_cmd_distrusted(&st);
	if (why)
		return dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: %s", r->path, why);
	r->source = calloc(1, (size_t)st.st_size + 2);
	if (!r->source)
		return dp_fail(err, E_FILE_MEMORY, "recipe");
	while (have < st.st_size && (n = read(fd, r->source + have, (size_t)(st.st_size - have))) > 0)
		have += n;
	if (have < st.st_size || strlen(r->source) != (size_t)have)
		return dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: no file of text", r->path);
	return 0;
}

/* Among our own texts; false: it is none of them. */
static bool read_text(struct recipe *r, const char *name)
{
	for (size_t i = 0; i < DP_ARRAY_SIZE(texts); i++)
		if (!strcmp(name, texts[i].name)) {
			size_t n = strlen(texts[i].text);

			snprintf(r->path, sizeof(r->path), "%.200s" ENDING, name);
			r->source = calloc(1, n + 2);
			if (r->source)
				memcpy(r->source, texts[i].text, n);
			return true;
		}
	return false;
}

/* ---- what a file says ---- */

/* A copy without the blanks around it. */
static char *trimmed(const char *s, size_t n)
{
	while (n && isspace((unsigned char)*s))
		s++, n--;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	return strndup(s, n);
}

static bool is_number(const char *text)
{
	char *end;

	strtoull(text, &end, 0);
	return isdigit((unsigned char)*text) && !*end;
}

/* 10ms: in nanoseconds; NULL: it is no time. */
static char *time_value(const char *text)
{
	char digits[32];
	u64 ns;

	if (!isdigit((unsigned char)*text) || !dp_cmd_parse_time(text, &ns))
		return NULL;
	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)ns);
	return strdup(digits);
}

static int add_param(struct recipe *r, const char *s, size_t n, struct dp_error *err)
{
	struct recipe_param *p = &r->params[r->nparams];
	char *text = trimmed(s, n);
	size_t name = text ? strcspn(text, " \t") : 0, value, at;

	if (!text || r->nparams == RECIPE_PARAMS) {
		free(text);
		return dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: more than %d parameters", r->path, RECIPE_PARAMS);
	}
	at = name + strspn(text + name, " \t");
	value = strcspn(text + at, " \t");
	p->name = strndup(text, name);
	p->value = strndup(text + at, value);
	p->about = trimmed(text + at + value, strlen(text + at + value));
	r->nparams++;
	free(text);
	if (!p->name || !p->value || !p->about || !*p->value)
		return dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: a parameter has a name, a default and a meaning",
			       r->path);
	text = time_value(p->value);
	p->is_time = text;
	p->is_number = is_number(p->value);
	if (text || !strcmp(p->value, "-")) {
		free(p->value);
		p->value = text;
	}
	return 0;
}

static int take_head(struct recipe *r, const char *s, size_t n, struct dp_error *err)
{
	struct {
		const char *word;
		char **to;
	} words[] = {{"title:", &r->title}, {"needs:", &r->needs}, {"example:", &r->example}, {"param:", NULL}};

	while (n && (*s == '#' || *s == ' '))
		s++, n--;
	for (size_t i = 0; i < DP_ARRAY_SIZE(words); i++) {
		size_t len = strlen(words[i].word);

		if (n < len || strncmp(s, words[i].word, len) != 0)
			continue;
		if (!words[i].to)
			return add_param(r, s + len, n - len, err);
		free(*words[i].to);
		*words[i].to = trimmed(s + len, n - len);
	}
	return 0;
}

/* ---- what stands between {{ and }} ---- */

/* Its index; nparams: there is none. */
static u32 find_param(const struct recipe *r, const char *name, size_t n)
{
	u32 i = 0;

	while (i < r->nparams && (strlen(r->params[i].name) != n || strncmp(r->params[i].name, name, n) != 0))
		i++;
	return i;
}

/* NULL: nothing is called so, or it has no value. */
typedef const char *value_fn(const struct recipe *r, const char *name, size_t n);

static const char *param_value(const struct recipe *r, const char *name, size_t n)
{
	u32 i = find_param(r, name, n);

	return i < r->nparams ? r->params[i].value : NULL;
}

static const char *text_value(const struct recipe *r, const char *name, size_t n)
{
	for (u32 i = 0; i < r->ntexts; i++)
		if (strlen(r->texts[i].name) == n && !strncmp(r->texts[i].name, name, n))
			return r->texts[i].text;
	return NULL;
}

/* The text with values in the place of their names. NULL: no memory. */
static char *replaced(const struct recipe *r, const char *text, value_fn *value_of)
{
	size_t room = 0;
	char *out = NULL;
	FILE *f = open_memstream(&out, &room);

	for (const char *s = text; f && *s; s++) {
		const char *end = !strncmp(s, "{{", 2) ? strstr(s, "}}") : NULL;
		const char *value = end ? value_of(r, s + 2, (size_t)(end - s - 2)) : NULL;

		if (!value) {
			putc(*s, f);
			continue;
		}
		fputs(value, f);
		s = end + 1;
	}
	if (f && !fclose(f))
		return out;
	free(f ? out : NULL);
	return NULL;
}

/* ---- lines ---- */

/* NAME TEXT */
static int add_text(struct recipe *r, const char *s, struct dp_error *err)
{
	struct recipe_text *t = &r->texts[r->ntexts];
	size_t at = strspn(s, " \t"), n = strcspn(s + at, " \t");

	if (r->ntexts == RECIPE_TEXTS)
		return dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: more than %d texts", r->path, RECIPE_TEXTS);
	t->name = strndup(s + at, n);
	t->text = replaced(r, s + at + n + strspn(s + at + n, " \t"), text_value);
	r->ntexts++;
	return t->name && t->text ? 0 : dp_fail(err, E_FILE_MEMORY, "recipe");
}

static int add_line(struct recipe *r, char *s, struct dp_error *err)
{
	struct recipe_line *l = &r->lines[r->nlines];
	char *text;

	if (!strncmp(s, "let ", 4))
		return add_text(r, s + 4, err);
	if (r->nlines == RECIPE_LINES)
		return dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: more than %d lines", r->path, RECIPE_LINES);
	l->optional = *s == '?';
	text = trimmed(s + l->optional, strlen(s + l->optional));
	l->text = text ? replaced(r, text, text_value) : NULL;
	r->nlines++;
	free(text);
	return l->text ? 0 : dp_fail(err, E_FILE_MEMORY, "recipe");
}

/* An event line that may go on in the next ones. Returns where the rest begins. */
static const char *take_line(const char *s, char **line)
{
	char *text = malloc(strlen(s) + 1), *to = text;

	s += strspn(s, " \t");
	for (; text && *s && *s != '\n'; s++)
		if (s[0] == '\\' && s[1] == '\n') {
			s += 1 + strspn(s + 2, " \t");
			*to++ = ' ';
		} else if (*s != '\r') {
			*to++ = *s;
		}
	if (text)
		*to = '\0';
	*line = text;
	return s + (*s == '\n');
}

static int parse(struct recipe *r, struct dp_error *err)
{
	int ret = 0;

	for (const char *s = r->source; !ret && *s;) {
		size_t n = strcspn(s, "\n"), blank = strspn(s, " \t\r");
		char *line;

		if (s[blank] == '#')
			ret = take_head(r, s + blank, n - blank, err);
		if (s[blank] == '#' || s[blank] == '\n' || !s[blank]) {
			s += n + (s[n] == '\n');
			continue;
		}
		s = take_line(s, &line);
		ret = line ? add_line(r, line, err) : dp_fail(err, E_FILE_MEMORY, "recipe");
		free(line);
	}
	if (!ret && !r->title)
		ret = dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: no line `# title: ...`", r->path);
	if (!ret && !r->nlines)
		ret = dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: no event line", r->path);
	return ret;
}

int dp_recipe_open(struct recipe *r, const char *name, struct dp_error *err)
{
	bool is_path = strchr(name, '/');
	int fd = -1, ret;

	*r = (struct recipe){.nlines = 0};
	if (is_path) {
		snprintf(r->path, sizeof(r->path), "%s", name);
		fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	for (u32 i = 0; fd < 0 && i < FOLDERS && is_name(name, strlen(name)); i++) {
		char path[3800];

		if (!folder(i, path, sizeof(path)))
			continue;
		snprintf(r->path, sizeof(r->path), "%s/%.200s" ENDING, path, name);
		fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
			return dp_fail(err, E_CMD_RECIPE_FILE, "%.200s: %s", r->path, strerror(errno));
	}
	if (fd < 0 && !read_text(r, name))
		return dp_fail(err, E_CMD_RECIPE, "%.100s", name);
	if (fd < 0)
		return r->source ? parse(r, err) : dp_fail(err, E_FILE_MEMORY, "recipe");
	ret = read_source(r, fd, err);
	close(fd);
	return ret ? ret : parse(r, err);
}

void dp_recipe_free(struct recipe *r)
{
	for (u32 i = 0; i < r->nparams; i++) {
		free(r->params[i].name);
		free(r->params[i].value);
		free(r->params[i].about);
	}
	for (u32 i = 0; i < r->nlines; i++)
		free(r->lines[i].text);
	for (u32 i = 0; i < r->ntexts; i++) {
		free(r->texts[i].name);
		free(r->texts[i].text);
	}
	free(r->title);
	free(r->needs);
	free(r->example);
	free(r->source);
	*r = (struct recipe){.nlines = 0};
}

/* ---- parameters ---- */

static bool is_safe(const char *value)
{
	for (; *value; value++)
		if (iscntrl((unsigned char)*value) || *value == '"')
			return false;
	return true;
}

int dp_recipe_set(struct recipe *r, const char *given, struct dp_error *err)
{
	size_t n = strcspn(given, "=");
	struct recipe_param *p = &r->params[find_param(r, given, n)];
	const char *value = given + n + 1;
	char names[300] = "", *kept;

	for (u32 i = 0; i < r->nparams; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%.30s", i ? ", " : "",
			 r->params[i].name);
	if (!given[n] || p == &r->params[r->nparams]) {
		dp_fail(err, E_CMD_EXTRA, "%.100s is no parameter of the recipe", given);
		if (r->nparams)
			dp_error_hint(err, "there are %.200s, as %.30s=VALUE", names, r->params[0].name);
		else
			dp_error_hint(err, "it has none");
		return -EINVAL;
	}
	if (p->is_time) {
		kept = time_value(value);
		if (!kept) {
			dp_fail(err, E_CMD_VALUE, "%.100s: no time", given);
			dp_error_hint(err, "give one such as 10us, 5ms or 1s");
			return -EINVAL;
		}
	} else if ((p->is_number && !is_number(value)) || !is_safe(value) || !*value) {
		return dp_fail(err, E_CMD_VALUE, "%.100s: %s", given, p->is_number ? "no number" : "no such text");
	} else {
		kept = strdup(value);
		if (!kept)
			return dp_fail(err, E_FILE_MEMORY, "recipe");
	}
	free(p->value);
	p->value = kept;
	return 0;
}

char *dp_recipe_fill(const struct recipe *r, const char *text, struct dp_error *err)
{
	char *out, name[64];

	for (u32 i = 0; i < r->nparams; i++) {
		const struct recipe_param *p = &r->params[i];

		snprintf(name, sizeof(name), "{{%.50s}}", p->name);
		if (p->value || !strstr(text, name))
			continue;
		dp_fail(err, E_CMD_MISSING, "the recipe needs %.40s: %.150s", p->name, p->about);
		dp_error_hint(err, "give it as %.40s=VALUE", p->name);
		return NULL;
	}
	out = replaced(r, text, param_value);
	if (!out)
		dp_fail(err, E_FILE_MEMORY, "recipe");
	return out;
}

/* ---- names ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_name(struct recipe_names *names, const char *name, size_t n)
{
	char **v;

	for (u32 i = 0; i < names->n; i++)
		if (!strncmp(names->v[i], name, n) && !names->v[i][n])
			return;
	v = realloc(names->v, (names->n + 1) * sizeof(*v));
	if (!v)
		return;
	names->v = v;
	v[names->n] = strndup(name, n);
	names->n += v[names->n] != NULL;
}

static void add_file(struct recipe_names *names, const char *file)
{
	size_t n = strlen(file), cut = strlen(ENDING);

	if (n > cut && !strcmp(file + n - cut, ENDING) && is_name(file, n - cut))
		add_name(names, file, n - cut);
}

void dp_recipe_names(struct recipe_names *names)
{
	char path[4096];

	*names = (struct recipe_names){NULL};
	for (u32 i = 0; i < FOLDERS; i++) {
		DIR *dir = folder(i, path, sizeof(path)) ? opendir(path) : NULL;
		struct dirent *e;

		while (dir && (e = readdir(dir)))
			add_file(names, e->d_name);
		if (dir)
			closedir(dir);
	}
	for (size_t i = 0; i < DP_ARRAY_SIZE(texts); i++)
		add_name(names, texts[i].name, strlen(texts[i].name));
	if (names->n)
		qsort(names->v, names->n, sizeof(*names->v), by_name);
}

void dp_recipe_names_free(struct recipe_names *names)
{
	for (u32 i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
	*names = (struct recipe_names){NULL};
}
