/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The C preprocessor of the Dynamic Probes language: comments, #include, conditions, __FILE__ and
 * __LINE__; macros are in macro.c. Its own, so that inserting a probe needs no compiler.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/rpn/pre-priv.h"

/* ---- conditions ---- */

static bool active(const struct pre *c)
{
	return !c->nconds || c->conds[c->nconds - 1].active;
}

/* What is left of names in a condition is 0. */
static bool zero(void *arg, const char **p, s64 *value)
{
	*p += dp_rpn_token(*p).len;
	*value = 0;
	return true;
}

static int evaluate(struct pre *c, const char *p, bool *result)
{
	struct text plain = {0}, expanded = {0};
	const char *q;
	s64 v = 0;
	bool good;

	while (*p) { /* defined NAME, defined(NAME), before names are replaced */
		size_t n = dp_pre_name(p);

		if (n == 7 && !memcmp(p, "defined", 7)) {
			bool paren;

			p = dp_pre_skip(p + n);
			paren = *p == '(';
			p = dp_pre_skip(p + paren);
			n = dp_pre_name(p);
			dp_pre_add(&plain, n && dp_pre_defined(c, p, n) ? " 1 " : " 0 ", 3);
			p = dp_pre_skip(p + n);
			p += paren && *p == ')';
			continue;
		}
		n = n ? n : 1;
		dp_pre_add(&plain, p, n);
		p += n;
	}
	good = plain.s && dp_pre_expand(c, &expanded, plain.s) && expanded.s;
	if (good) {
		q = expanded.s;
		good = dp_rpn_expression(&q, &v, zero, NULL) && dp_rpn_token(q).kind == RPN_END;
	}
	free(plain.s);
	free(expanded.s);
	*result = v != 0;
	return good ? 0 : dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "the condition cannot be understood");
}

static int begin_condition(struct pre *c, bool holds)
{
	struct condition *k;

	if (c->nconds == DEPTH_MAX)
		return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "conditions are nested too deeply");
	k = &c->conds[c->nconds];
	k->outer = active(c);
	k->active = k->outer && holds;
	k->taken = holds;
	k->in_else = false;
	c->nconds++;
	return 0;
}

static int conditional(struct pre *c, const char *word, size_t n, const char *p, bool *known)
{
	struct condition *k = c->nconds ? &c->conds[c->nconds - 1] : NULL;
	bool holds = false, is_if = n == 2 && !memcmp(word, "if", 2);
	bool ifdef = n == 5 && !memcmp(word, "ifdef", 5), ifndef = n == 6 && !memcmp(word, "ifndef", 6);
	bool is_elif = n == 4 && !memcmp(word, "elif", 4), is_else = n == 4 && !memcmp(word, "else", 4);
	bool endif = n == 5 && !memcmp(word, "endif", 5);
	int r = 0;

	*known = is_if || ifdef || ifndef || is_elif || is_else || endif;
	if (!*known)
		return 0;
	if (ifdef || ifndef)
		return begin_condition(c, dp_pre_defined(c, p, dp_pre_name(p)) == ifdef);
	if (is_if) {
		if (active(c))
			r = evaluate(c, p, &holds);
		return r ? r : begin_condition(c, holds);
	}
	if (!k || (k->in_else && !endif))
		return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "#%.*s without #if", (int)n, word);
	if (endif) {
		c->nconds--;
		return 0;
	}
	if (is_elif && k->outer && !k->taken)
		r = evaluate(c, p, &holds);
	k->in_else = is_else;
	k->active = k->outer && !k->taken && (is_else || holds);
	k->taken |= k->active;
	return r;
}

/* ---- files and lines ---- */

static int process(struct pre *c, const char *text, const char *name, const char *dir);

static char *read_file(FILE *f)
{
	char *all = NULL;
	size_t n = 0, cap = 0, got;

	do {
		if (cap - n < 4097) {
			char *bigger = cap > FILE_MAX_BYTES ? NULL : realloc(all, cap + 65536);

			if (!bigger) {
				free(all);
				return NULL;
			}
			all = bigger;
			cap += 65536;
		}
		got = fread(all + n, 1, 4096, f);
		n += got;
	} while (got);
	all[n] = '\0';
	return all;
}

static int include_file(struct pre *c, const char *p, const char *dir)
{
	char path[4096], sub[4096], *text, *slash;
	const char *end = *p ? p + 1 : p;
	struct rpn_line here = c->here;
	char close = *p == '<' ? '>' : '"';
	FILE *f;
	int r;

	while (*end && *end != close)
		end++;
	if ((*p != '"' && *p != '<') || !*end || *end != close || end == p + 1)
		return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "write #include \"FILE\"");
	if (c->depth == DEPTH_MAX)
		return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "files include each other");
	if (p[1] == '/')
		snprintf(path, sizeof(path), "%.*s", (int)(end - p - 1), p + 1);
	else
		snprintf(path, sizeof(path), "%s/%.*s", *p == '<' ? "/usr/include/dprobes" : dir, (int)(end - p - 1),
			 p + 1);
	f = fopen(path, "re");
	for (u32 i = 0; !f && p[1] != '/' && i < c->opt->ndirs; i++) {
		snprintf(path, sizeof(path), "%s/%.*s", c->opt->dirs[i], (int)(end - p - 1), p + 1);
		f = fopen(path, "re");
	}
	if (!f)
		return dp_rpn_fail(c->err, &c->here, E_RPN_FILE, "%.150s: %s", path, strerror(errno));
	text = read_file(f);
	fclose(f);
	if (!text)
		return dp_pre_out_of_memory(c);
	snprintf(sub, sizeof(sub), "%s", path);
	slash = strrchr(sub, '/');
	if (slash)
		*slash = '\0';
	r = process(c, text, path, slash ? sub : ".");
	free(text);
	c->here = here;
	return r;
}

static int include(struct pre *c, const char *p, const char *dir)
{
	struct text name = {0};
	int r;

	if (*p == '"' || *p == '<')
		return include_file(c, p, dir);
	r = dp_pre_expand(c, &name, p) ? 0 : -EINVAL; /* a macro may say which */
	if (!r)
		r = include_file(c, name.s ? dp_pre_skip(name.s) : "", dir);
	else if (name.failed)
		r = dp_pre_out_of_memory(c);
	free(name.s);
	return r;
}

static int put_line(struct pre *c, const char *text);

static int directive(struct pre *c, const char *p, const char *dir)
{
	const char *word = p = dp_pre_skip(p);
	size_t n = dp_pre_name(p);
	bool known;
	int r;

	p = dp_pre_skip(p + n);
	r = conditional(c, word, n, p, &known);
	if (known || !active(c) || !n)
		return r;
	if (n == 6 && !memcmp(word, "define", n))
		return dp_pre_define(c, p);
	if (n == 5 && !memcmp(word, "undef", n)) {
		dp_pre_undefine(c, p, dp_pre_name(p));
		return 0;
	}
	if (n == 7 && !memcmp(word, "include", n))
		return include(c, p, dir);
	if (n == 5 && !memcmp(word, "error", n))
		return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "#error %.150s", p);
	if (n == 6 && !memcmp(word, "pragma", n) && c->opt->keep_pragmas) {
		char line[4096];

		snprintf(line, sizeof(line), "#pragma %s", p);
		return put_line(c, line);
	}
	if ((n == 6 && !memcmp(word, "pragma", n)) || (n == 4 && !memcmp(word, "line", n)) ||
	    (n == 7 && !memcmp(word, "warning", n)))
		return 0;
	return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "unknown directive #%.*s", (int)n, word);
}

static int put_line(struct pre *c, const char *text)
{
	struct rpn_source *s = c->out;
	struct text t = {0};

	if (!dp_pre_expand(c, &t, text)) {
		bool memory = t.failed;

		free(t.s);
		return memory ? dp_pre_out_of_memory(c) : c->err ? -dp_error_info(c->err->code)->number : -EINVAL;
	}
	if (s->n == LINES_MAX) {
		free(t.s);
		return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "more than %u lines", LINES_MAX);
	}
	if (s->n == s->cap) {
		u32 cap = s->cap ? s->cap * 2 : 128;
		struct rpn_line *v = realloc(s->lines, cap * sizeof(*v));

		if (!v) {
			free(t.s);
			return dp_pre_out_of_memory(c);
		}
		s->lines = v;
		s->cap = cap;
	}
	s->lines[s->n++] = (struct rpn_line){t.s ? t.s : strdup(""), c->here.file, c->here.line};
	return 0;
}

/*
 * The next logical line at p into t: lines that end in a backslash are joined, comments become
 * blanks. Returns the rest, and how many lines were taken.
 */
static const char *logical_line(const char *p, struct text *t, u32 *lines, bool *in_comment)
{
	char quote = 0;

	for (*lines = 1; *p; p++) {
		if (*p == '\\' && (p[1] == '\n' || (p[1] == '\r' && p[2] == '\n'))) {
			p += p[1] == '\r' ? 2 : 1;
			++*lines;
		} else if (*p == '\n') {
			return p + 1;
		} else if (*in_comment) {
			if (p[0] == '*' && p[1] == '/') {
				*in_comment = false;
				dp_pre_add(t, " ", 1);
				p++;
			}
		} else if (quote) {
			dp_pre_add(t, p, 1);
			if (*p == '\\' && p[1] && p[1] != '\n')
				dp_pre_add(t, ++p, 1);
			else if (*p == quote)
				quote = 0;
		} else if (p[0] == '/' && p[1] == '*') {
			*in_comment = true;
			p++;
		} else if (p[0] == '/' && p[1] == '/') {
			while (p[1] && p[1] != '\n')
				p++;
		} else if (*p != '\r') {
			quote = *p == '"' || *p == '\'' ? *p : 0;
			dp_pre_add(t, p, 1);
		}
	}
	return p;
}

/* What became of a directive; errors may be ignored. */
static int lenient(struct pre *c, int r)
{
	if (!r || !c->opt->ignore_errors)
		return r;
	if (c->err)
		c->err->code = DP_OK;
	return 0;
}

static int process(struct pre *c, const char *text, const char *name, const char *dir)
{
	struct rpn_source *s = c->out;
	char **files = realloc(s->files, (s->nfiles + 1) * sizeof(*files));
	u32 line = 1, lines, conds = c->nconds;
	const char *mine;
	bool in_comment = false;
	int r = 0;

	if (!files)
		return dp_pre_out_of_memory(c);
	s->files = files;
	mine = files[s->nfiles++] = strdup(name);
	if (!mine)
		return dp_pre_out_of_memory(c);
	c->depth++;
	while (*text && !r) {
		struct text t = {0};
		const char *p;

		text = logical_line(text, &t, &lines, &in_comment);
		c->here = (struct rpn_line){NULL, mine, line};
		line += lines;
		p = t.s ? dp_pre_skip(t.s) : "";
		if (t.failed)
			r = dp_pre_out_of_memory(c);
		else if (*p == '#')
			r = lenient(c, directive(c, p + 1, dir));
		else if (*p && active(c))
			r = put_line(c, c->opt->keep_blanks ? t.s : p);
		free(t.s);
	}
	if (!r && in_comment)
		r = dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "a comment does not end");
	if (!r && c->nconds != conds)
		r = dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "an #if has no #endif");
	c->depth--;
	return r;
}

int dp_rpn_preprocess(struct rpn_source *s, const char *text, const char *name, const char *dir,
		      const struct dp_rpn_define *defines, u32 ndefines, struct dp_error *err)
{
	const struct rpn_pre_options none = {0};

	return dp_rpn_preprocess_with(s, text, name, dir, defines, ndefines, &none, err);
}

int dp_rpn_preprocess_with(struct rpn_source *s, const char *text, const char *name, const char *dir,
			   const struct dp_rpn_define *defines, u32 ndefines, const struct rpn_pre_options *opt,
			   struct dp_error *err)
{
	struct pre c = {.out = s, .err = err, .here = {NULL, "-D", 1}, .opt = opt};
	int r = 0;

	memset(s, 0, sizeof(*s));
	for (u32 i = 0; i < ndefines && !r; i++) {
		char line[4096];

		snprintf(line, sizeof(line), "%s %s", defines[i].key, defines[i].value ? defines[i].value : "1");
		r = dp_pre_define(&c, line);
	}
	if (!r)
		r = process(&c, text, name, dir);
	dp_pre_free_macros(&c);
	if (r)
		dp_rpn_source_free(s);
	return r;
}

void dp_rpn_source_free(struct rpn_source *s)
{
	for (u32 i = 0; i < s->n; i++)
		free(s->lines[i].text);
	for (u32 i = 0; i < s->nfiles; i++)
		free(s->files[i]);
	free(s->lines);
	free(s->files);
	memset(s, 0, sizeof(*s));
}
