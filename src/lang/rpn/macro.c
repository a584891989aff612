/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Macros of the preprocessor: with and without parameters, variadic ones, # and ##. As in C, arguments are expanded by
 * themselves, but for operands of # and ##; the result is searched again, and a macro does not expand within itself.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/rpn/pre-priv.h"

void dp_pre_add(struct text *t, const char *s, size_t n)
{
	if (t->n + n + 1 > t->cap && !t->failed) {
		size_t cap = DP_MAX(t->cap * 2, t->n + n + 64);
		char *bigger = cap > LINE_MAX_BYTES ? NULL : realloc(t->s, cap);

		t->failed = !bigger;
		if (bigger) {
			t->s = bigger;
			t->cap = cap;
		}
	}
	if (t->failed)
		return;
	if (n)
		memcpy(t->s + t->n, s, n);
	t->n += n;
	t->s[t->n] = '\0';
}

static bool is_name(char c, bool first)
{
	return c == '_' || (first ? isalpha((unsigned char)c) : isalnum((unsigned char)c));
}

size_t dp_pre_name(const char *p)
{
	size_t n = 0;

	while (is_name(p[n], !n))
		n++;
	return n;
}

const char *dp_pre_skip(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

/* The end of the quoted text that begins at p. */
static const char *quoted_end(const char *p)
{
	char quote = *p++;

	while (*p && *p != quote)
		p += *p == '\\' && p[1] ? 2 : 1;
	return *p ? p + 1 : p;
}

/* ---- macros ---- */

struct macro *dp_pre_find(struct pre *c, const char *name, size_t n)
{
	for (u32 i = 0; i < c->nmacros; i++)
		if (strlen(c->macros[i].name) == n && !memcmp(c->macros[i].name, name, n))
			return &c->macros[i];
	return NULL;
}

static void drop(struct macro *m)
{
	free(m->name);
	free(m->body);
	for (int i = 0; i < m->nparams; i++)
		free(m->params[i]);
}

void dp_pre_undefine(struct pre *c, const char *name, size_t n)
{
	struct macro *m = dp_pre_find(c, name, n);

	if (!m)
		return;
	drop(m);
	*m = c->macros[--c->nmacros];
}

int dp_pre_out_of_memory(struct pre *c)
{
	return dp_rpn_fail(c->err, &c->here, E_RPN_MEMORY, "the line");
}

static int put_macro(struct pre *c, struct macro *m)
{
	if (!dp_grow((void **)&c->macros, &c->capmacros, c->nmacros, sizeof(*m))) {
		drop(m);
		return dp_pre_out_of_memory(c);
	}
	c->macros[c->nmacros++] = *m;
	return 0;
}

static int bad_macro(struct pre *c, struct macro *m, const char *what)
{
	drop(m);
	return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "%s", what);
}

/* The parameters at p, behind the "("; returns the end, NULL when they are none. */
static const char *parameters(struct macro *m, const char *p)
{
	m->nparams = 0;
	for (p = dp_pre_skip(p); *p != ')'; p = dp_pre_skip(p)) {
		size_t n = dp_pre_name(p);
		bool rest = !strncmp(p + n, "...", 3);

		if (m->variadic || (!n && !rest) || m->nparams == PARAMS_MAX)
			return NULL;
		m->variadic = rest;
		m->params[m->nparams++] = n ? strndup(p, n) : strdup("__VA_ARGS__");
		p = dp_pre_skip(p + n + (rest ? 3 : 0));
		if (*p == ',')
			p++;
		else if (*p != ')')
			return NULL;
	}
	return p + 1;
}

int dp_pre_define(struct pre *c, const char *p)
{
	struct macro m = {.nparams = -1};
	size_t n = dp_pre_name(p);

	if (!n)
		return dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "#define needs a name");
	dp_pre_undefine(c, p, n);
	m.name = strndup(p, n);
	p += n;
	if (*p == '(')
		p = parameters(&m, p + 1);
	if (!p)
		return bad_macro(c, &m, "bad parameter of a macro");
	p = dp_pre_skip(p);
	n = strlen(p);
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	if (!strncmp(p, "##", 2) || (n >= 2 && !strncmp(p + n - 2, "##", 2)))
		return bad_macro(c, &m, "## needs something on both sides");
	m.body = strndup(p, n);
	return put_macro(c, &m);
}

struct argument {
	const char *text; /* as it is written */
	size_t n;
	struct text expanded;
};

/* The arguments of a macro's use at p, behind its "("; returns the end, NULL when they do not fit. */
static const char *arguments(const struct macro *m, const char *p, struct argument *v)
{
	int n = 0, depth = 0;

	p = dp_pre_skip(p);
	if (m->nparams == 0)
		return *p == ')' ? p + 1 : NULL;
	v[0].text = p;
	while (*p) {
		if (*p == '"' || *p == '\'') {
			p = quoted_end(p);
			continue;
		}
		if (!depth && (*p == ')' || (*p == ',' && !(m->variadic && n == m->nparams - 1)))) {
			v[n].n = (size_t)(p - v[n].text);
			while (v[n].n && (v[n].text[v[n].n - 1] == ' ' || v[n].text[v[n].n - 1] == '\t'))
				v[n].n--;
			n++;
			if (*p == ')')
				return n == m->nparams || (m->variadic && n == m->nparams - 1) ? p + 1 : NULL;
			if (n == m->nparams)
				return NULL;
			p = dp_pre_skip(p + 1);
			v[n].text = p;
			continue;
		}
		depth += *p == '(';
		depth -= *p == ')';
		p++;
	}
	return NULL;
}

/* #: the argument as a text. */
static void add_text(struct text *out, const struct argument *a)
{
	const char *p = a->text, *end = a->text + a->n;

	dp_pre_add(out, "\"", 1);
	while (p < end) {
		const char *stop = *p == '"' || *p == '\'' ? quoted_end(p) : p + 1;

		if (*p == ' ' || *p == '\t') {
			dp_pre_add(out, " ", 1);
			p = dp_pre_skip(p);
			continue;
		}
		for (bool quoted = stop > p + 1; p < stop && p < end; p++) {
			if (*p == '"' || (quoted && *p == '\\'))
				dp_pre_add(out, "\\", 1);
			dp_pre_add(out, p, 1);
		}
	}
	dp_pre_add(out, "\"", 1);
}

/* Length of the piece of a body at p: a name, a number, a text, or one character. */
static size_t piece(const char *p)
{
	size_t n = dp_pre_name(p);

	if (n)
		return n;
	if (*p == '"' || *p == '\'')
		return (size_t)(quoted_end(p) - p);
	if (!strncmp(p, "##", 2))
		return 2;
	for (n = 1; isdigit((unsigned char)*p) && is_name(p[n], false);)
		n++;
	return n;
}

static int parameter(const struct macro *m, const char *p, size_t n)
{
	for (int i = 0; i < m->nparams; i++)
		if (strlen(m->params[i]) == n && !memcmp(m->params[i], p, n))
			return i;
	return -1;
}

/* ##: what is on the left ends here. A comma before variadic arguments that are not there goes as well. */
static void paste(struct text *out, bool none)
{
	while (out->n && (out->s[out->n - 1] == ' ' || out->s[out->n - 1] == '\t'))
		out->n--;
	if (none && out->n && out->s[out->n - 1] == ',')
		out->n--;
	if (out->s)
		out->s[out->n] = '\0';
}

/* The macro's body with its parameters replaced. */
static void fill(struct text *out, const struct macro *m, const struct argument *v)
{
	bool pasted = false; /* ## stands before */

	for (const char *p = m->body; *p;) {
		size_t n = piece(p);
		const char *next = dp_pre_skip(p + n);
		int k = parameter(m, p, n), quoted = *p == '#' && n == 1 ? parameter(m, next, dp_pre_name(next)) : -1;

		if (n == 2 && *p == '#') {
			k = parameter(m, next, dp_pre_name(next));
			paste(out, m->variadic && k == m->nparams - 1 && !v[k].n);
			pasted = true;
			p = next;
			continue;
		}
		if (quoted >= 0) {
			add_text(out, &v[quoted]);
			p = next + dp_pre_name(next);
		} else {
			if (k >= 0 && (pasted || !strncmp(next, "##", 2)))
				dp_pre_add(out, v[k].text, v[k].n);
			else if (k >= 0)
				dp_pre_add(out, v[k].expanded.s ? v[k].expanded.s : "", v[k].expanded.n);
			else
				dp_pre_add(out, p, n);
			p += n;
		}
		pasted = false;
	}
}

/* Arguments are expanded by themselves first: SUM(SUM(1, 2), 3). */
static bool expand_arguments(struct pre *c, const struct macro *m, struct argument *v)
{
	bool good = true;

	for (int i = 0; i < m->nparams && good; i++) {
		char *plain = strndup(v[i].text ? v[i].text : "", v[i].n);

		good = plain && dp_pre_expand(c, &v[i].expanded, plain);
		free(plain);
	}
	return good;
}

/* One use of a macro; returns where the line goes on. */
static const char *use(struct pre *c, struct text *out, u32 index, const char *p, size_t n, bool *good)
{
	struct macro *m = &c->macros[index];
	struct argument v[PARAMS_MAX] = {{.text = ""}};
	const char *end = p + n;
	struct text body = {0};

	if (m->nparams >= 0) {
		end = dp_pre_skip(end);
		if (*end != '(') { /* only the name */
			dp_pre_add(out, p, n);
			return p + n;
		}
		end = arguments(m, end + 1, v);
		if (!end) {
			dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "wrong arguments for macro %s", m->name);
			*good = false;
			return p + n;
		}
	}
	*good = expand_arguments(c, m, v);
	if (*good) {
		fill(&body, m, v);
		m->busy = true;
		*good = !body.failed && (!body.s || dp_pre_expand(c, out, body.s));
		c->macros[index].busy = false;
	}
	free(body.s);
	for (int i = 0; i < m->nparams; i++)
		free(v[i].expanded.s);
	return end;
}

static bool is(const char *name, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(name, word, n);
}

bool dp_pre_defined(struct pre *c, const char *name, size_t n)
{
	return dp_pre_find(c, name, n) || is(name, n, "__FILE__") || is(name, n, "__LINE__");
}

/* False: it is none. */
static bool built_in(const struct pre *c, struct text *out, const char *name, size_t n)
{
	char line[16];

	if (is(name, n, "__LINE__")) {
		snprintf(line, sizeof(line), "%u", c->here.line);
		dp_pre_add(out, line, strlen(line));
		return true;
	}
	if (!is(name, n, "__FILE__"))
		return false;
	dp_pre_add(out, "\"", 1);
	for (const char *p = c->here.file; *p; p++) {
		if (*p == '"' || *p == '\\')
			dp_pre_add(out, "\\", 1);
		dp_pre_add(out, p, 1);
	}
	dp_pre_add(out, "\"", 1);
	return true;
}

bool dp_pre_expand(struct pre *c, struct text *out, const char *p)
{
	bool good = true;

	while (*p && good) {
		size_t n = dp_pre_name(p);
		struct macro *m = n ? dp_pre_find(c, p, n) : NULL;

		if (!m || m->busy) {
			if (m || !n || !built_in(c, out, p, n)) {
				/* Numbers and texts are one piece, so that they are not searched for names. */
				n = piece(p);
				dp_pre_add(out, p, n);
			}
			p += n;
			continue;
		}
		if (++c->expansions > EXPANSIONS_MAX) {
			dp_rpn_fail(c->err, &c->here, E_RPN_PRE, "macros expand without end");
			return false;
		}
		p = use(c, out, (u32)(m - c->macros), p, n, &good);
	}
	return good && !out->failed;
}

void dp_pre_free_macros(struct pre *c)
{
	for (u32 i = 0; i < c->nmacros; i++)
		drop(&c->macros[i]);
	free(c->macros);
}
