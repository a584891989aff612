/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The C preprocessor of the Dynamic Probes language: comments, #include, macros with and without
 * parameters, conditions. Its own, so that inserting a probe needs no compiler. # and ## in macros
 * are not known.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/rpn/rpn-priv.h"

#define DEPTH_MAX 32 /* files, conditions */
#define PARAMS_MAX 16
#define LINE_MAX_BYTES (64 * 1024) /* of one line after expansion */
#define FILE_MAX_BYTES (4 << 20)
#define LINES_MAX 200000
#define EXPANSIONS_MAX 100000

struct macro {
	char *name, *body;
	char *params[PARAMS_MAX];
	int nparams; /* -1: takes none */
	bool busy;   /* being expanded */
};

struct condition {
	bool active, taken, outer, in_else;
};

struct pre {
	struct rpn_source *out;
	struct macro *macros;
	u32 nmacros, capmacros;
	struct condition conds[DEPTH_MAX];
	u32 nconds, depth;
	u32 expansions;
	struct rpn_line here;
	const struct rpn_pre_options *opt;
	struct dp_error *err;
};

struct text {
	char *s;
	size_t n, cap;
	bool failed;
};

static void add(struct text *t, const char *s, size_t n)
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
	memcpy(t->s + t->n, s, n);
	t->n += n;
	t->s[t->n] = '\0';
}

static bool is_name(char c, bool first)
{
	return c == '_' || (first ? isalpha((unsigned char)c) : isalnum((unsigned char)c));
}

static size_t name_length(const char *p)
{
	size_t n = 0;

	while (is_name(p[n], !n))
		n++;
	return n;
}

static const char *skip(const char *p)
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

static struct macro *find(struct pre *c, const char *name, size_t n)
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

static void undefine(struct pre *c, const char *name, size_t n)
{
	struct macro *m = find(c, name, n);

	if (!m)
		return;
	drop(m);
	*m = c->macros[--c->nmacros];
}

static int out_of_memory(struct pre *c)
{
	return rpn_fail(c->err, &c->here, E_RPN_MEMORY, "the line");
}

static int put_macro(struct pre *c, struct macro *m)
{
	if (c->nmacros == c->capmacros) {
		u32 cap = c->capmacros ? c->capmacros * 2 : 32;
		struct macro *v = realloc(c->macros, cap * sizeof(*v));

		if (!v) {
			drop(m);
			return out_of_memory(c);
		}
		c->macros = v;
		c->capmacros = cap;
	}
	c->macros[c->nmacros++] = *m;
	return 0;
}

static int define(struct pre *c, const char *p)
{
	struct macro m = {.nparams = -1};
	size_t n = name_length(p);

	if (!n)
		return rpn_fail(c->err, &c->here, E_RPN_PRE, "#define needs a name");
	undefine(c, p, n);
	m.name = strndup(p, n);
	p += n;
	if (*p == '(') {
		m.nparams = 0;
		for (p = skip(p + 1); *p != ')'; p = skip(p)) {
			n = name_length(p);
			if (!n || m.nparams == PARAMS_MAX) {
				drop(&m);
				return rpn_fail(c->err, &c->here, E_RPN_PRE,
						"bad parameter of a macro");
			}
			m.params[m.nparams++] = strndup(p, n);
			p = skip(p + n);
			if (*p == ',')
				p++;
			else if (*p != ')')
				p = "";
		}
		p++;
	}
	p = skip(p);
	n = strlen(p);
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	m.body = strndup(p, n);
	return put_macro(c, &m);
}

static bool expand(struct pre *c, struct text *out, const char *p);

/* The arguments of a macro's use at p, behind its "("; returns the end, NULL when they do not fit.
 */
static const char *arguments(struct macro *m, const char *p, const char **arg, size_t *len)
{
	int n = 0, depth = 0;

	p = skip(p);
	if (m->nparams == 0)
		return *p == ')' ? p + 1 : NULL;
	arg[0] = p;
	while (*p) {
		if (*p == '"' || *p == '\'') {
			p = quoted_end(p);
			continue;
		}
		if ((*p == ',' || *p == ')') && !depth) {
			if (n == m->nparams)
				return NULL;
			len[n] = (size_t)(p - arg[n]);
			n++;
			if (*p == ')')
				return n == m->nparams ? p + 1 : NULL;
			p = skip(p + 1);
			if (n < m->nparams)
				arg[n] = p;
			continue;
		}
		depth += *p == '(';
		depth -= *p == ')';
		p++;
	}
	return NULL;
}

/* The macro's body with its parameters replaced. */
static void fill(struct text *out, const struct macro *m, const char **arg, const size_t *len)
{
	for (const char *p = m->body; *p;) {
		size_t n = name_length(p);
		int k = -1;

		if (*p == '"' || *p == '\'') {
			n = (size_t)(quoted_end(p) - p);
		} else if (n) {
			for (int i = 0; i < m->nparams; i++)
				if (strlen(m->params[i]) == n && !memcmp(m->params[i], p, n))
					k = i;
		} else {
			n = 1;
		}
		if (k >= 0)
			add(out, arg[k], len[k]);
		else
			add(out, p, n);
		p += n;
	}
}

/* Arguments are expanded by themselves first: SUM(SUM(1, 2), 3). */
static bool expand_arguments(struct pre *c, const struct macro *m, const char **arg, size_t *len,
			     char **own)
{
	for (int i = 0; i < m->nparams; i++) {
		struct text t = {0};
		char *plain = strndup(arg[i], len[i]);
		bool good = plain && expand(c, &t, plain);

		free(plain);
		own[i] = t.s;
		if (!good)
			return false;
		arg[i] = t.s ? t.s : "";
		len[i] = t.n;
	}
	return true;
}

/* One use of a macro; returns where the line goes on. */
static const char *use(struct pre *c, struct text *out, u32 index, const char *p, size_t n,
		       bool *good)
{
	struct macro *m = &c->macros[index];
	const char *arg[PARAMS_MAX + 1] = {0}, *end = p + n;
	size_t len[PARAMS_MAX + 1] = {0};
	struct text body = {0};
	char *own[PARAMS_MAX + 1] = {0};

	if (m->nparams >= 0) {
		end = skip(end);
		if (*end != '(') { /* only the name */
			add(out, p, n);
			return p + n;
		}
		end = arguments(m, end + 1, arg, len);
		if (!end) {
			rpn_fail(c->err, &c->here, E_RPN_PRE, "wrong arguments for macro %s",
				 m->name);
			*good = false;
			return p + n;
		}
	}
	*good = expand_arguments(c, m, arg, len, own);
	if (*good) {
		fill(&body, m, arg, len);
		m->busy = true;
		*good = !body.failed && (!body.s || expand(c, out, body.s));
		c->macros[index].busy = false;
	}
	free(body.s);
	for (int i = 0; i < m->nparams; i++)
		free(own[i]);
	return end;
}

static bool expand(struct pre *c, struct text *out, const char *p)
{
	bool good = true;

	while (*p && good) {
		size_t n = name_length(p);
		struct macro *m;

		if (*p == '"' || *p == '\'') {
			n = (size_t)(quoted_end(p) - p);
			add(out, p, n);
			p += n;
			continue;
		}
		if (!n) { /* numbers are one piece, so that 0xDEAD is not searched for names */
			n = 1;
			if (isdigit((unsigned char)*p))
				while (isalnum((unsigned char)p[n]) || p[n] == '_')
					n++;
			add(out, p, n);
			p += n;
			continue;
		}
		m = find(c, p, n);
		if (!m || m->busy) {
			add(out, p, n);
			p += n;
			continue;
		}
		if (++c->expansions > EXPANSIONS_MAX) {
			rpn_fail(c->err, &c->here, E_RPN_PRE, "macros expand without end");
			return false;
		}
		p = use(c, out, (u32)(m - c->macros), p, n, &good);
	}
	return good && !out->failed;
}

/* ---- conditions ---- */

static bool active(const struct pre *c)
{
	return !c->nconds || c->conds[c->nconds - 1].active;
}

/* What is left of names in a condition is 0. */
static bool zero(void *arg, const char **p, s64 *value)
{
	*p += rpn_token(*p).len;
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
		size_t n = name_length(p);

		if (n == 7 && !memcmp(p, "defined", 7)) {
			bool paren;

			p = skip(p + n);
			paren = *p == '(';
			p = skip(p + paren);
			n = name_length(p);
			add(&plain, n && find(c, p, n) ? " 1 " : " 0 ", 3);
			p = skip(p + n);
			p += paren && *p == ')';
			continue;
		}
		n = n ? n : 1;
		add(&plain, p, n);
		p += n;
	}
	good = plain.s && expand(c, &expanded, plain.s) && expanded.s;
	if (good) {
		q = expanded.s;
		good = rpn_expression(&q, &v, zero, NULL) && rpn_token(q).kind == RPN_END;
	}
	free(plain.s);
	free(expanded.s);
	*result = v != 0;
	return good ? 0
		    : rpn_fail(c->err, &c->here, E_RPN_PRE, "the condition cannot be understood");
}

static int begin_condition(struct pre *c, bool holds)
{
	struct condition *k;

	if (c->nconds == DEPTH_MAX)
		return rpn_fail(c->err, &c->here, E_RPN_PRE, "conditions are nested too deeply");
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
	bool ifdef = n == 5 && !memcmp(word, "ifdef", 5),
	     ifndef = n == 6 && !memcmp(word, "ifndef", 6);
	bool is_elif = n == 4 && !memcmp(word, "elif", 4),
	     is_else = n == 4 && !memcmp(word, "else", 4);
	bool endif = n == 5 && !memcmp(word, "endif", 5);
	int r = 0;

	*known = is_if || ifdef || ifndef || is_elif || is_else || endif;
	if (!*known)
		return 0;
	if (ifdef || ifndef)
		return begin_condition(c, !!find(c, p, name_length(p)) == ifdef);
	if (is_if) {
		if (active(c))
			r = evaluate(c, p, &holds);
		return r ? r : begin_condition(c, holds);
	}
	if (!k || (k->in_else && !endif))
		return rpn_fail(c->err, &c->here, E_RPN_PRE, "#%.*s without #if", (int)n, word);
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

static int include(struct pre *c, const char *p, const char *dir)
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
		return rpn_fail(c->err, &c->here, E_RPN_PRE, "write #include \"FILE\"");
	if (c->depth == DEPTH_MAX)
		return rpn_fail(c->err, &c->here, E_RPN_PRE, "files include each other");
	if (p[1] == '/')
		snprintf(path, sizeof(path), "%.*s", (int)(end - p - 1), p + 1);
	else
		snprintf(path, sizeof(path), "%s/%.*s", *p == '<' ? "/usr/include/dprobes" : dir,
			 (int)(end - p - 1), p + 1);
	f = fopen(path, "re");
	for (u32 i = 0; !f && p[1] != '/' && i < c->opt->ndirs; i++) {
		snprintf(path, sizeof(path), "%s/%.*s", c->opt->dirs[i], (int)(end - p - 1), p + 1);
		f = fopen(path, "re");
	}
	if (!f)
		return rpn_fail(c->err, &c->here, E_RPN_FILE, "%.150s: %s", path, strerror(errno));
	text = read_file(f);
	fclose(f);
	if (!text)
		return out_of_memory(c);
	snprintf(sub, sizeof(sub), "%s", path);
	slash = strrchr(sub, '/');
	if (slash)
		*slash = '\0';
	r = process(c, text, path, slash ? sub : ".");
	free(text);
	c->here = here;
	return r;
}

static int put_line(struct pre *c, const char *text);

static int directive(struct pre *c, const char *p, const char *dir)
{
	const char *word = p = skip(p);
	size_t n = name_length(p);
	bool known;
	int r;

	p = skip(p + n);
	r = conditional(c, word, n, p, &known);
	if (known || !active(c) || !n)
		return r;
	if (n == 6 && !memcmp(word, "define", n))
		return define(c, p);
	if (n == 5 && !memcmp(word, "undef", n)) {
		undefine(c, p, name_length(p));
		return 0;
	}
	if (n == 7 && !memcmp(word, "include", n))
		return include(c, p, dir);
	if (n == 5 && !memcmp(word, "error", n))
		return rpn_fail(c->err, &c->here, E_RPN_PRE, "#error %.150s", p);
	if (n == 6 && !memcmp(word, "pragma", n) && c->opt->keep_pragmas) {
		char line[4096];

		snprintf(line, sizeof(line), "#pragma %s", p);
		return put_line(c, line);
	}
	if ((n == 6 && !memcmp(word, "pragma", n)) || (n == 4 && !memcmp(word, "line", n)))
		return 0;
	return rpn_fail(c->err, &c->here, E_RPN_PRE, "unknown directive #%.*s", (int)n, word);
}

static int put_line(struct pre *c, const char *text)
{
	struct rpn_source *s = c->out;
	struct text t = {0};

	if (!expand(c, &t, text)) {
		bool memory = t.failed;

		free(t.s);
		return memory   ? out_of_memory(c)
		       : c->err ? -dp_error_info(c->err->code)->number
				: -EINVAL;
	}
	if (s->n == LINES_MAX) {
		free(t.s);
		return rpn_fail(c->err, &c->here, E_RPN_PRE, "more than %u lines", LINES_MAX);
	}
	if (s->n == s->cap) {
		u32 cap = s->cap ? s->cap * 2 : 128;
		struct rpn_line *v = realloc(s->lines, cap * sizeof(*v));

		if (!v) {
			free(t.s);
			return out_of_memory(c);
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
				add(t, " ", 1);
				p++;
			}
		} else if (quote) {
			add(t, p, 1);
			if (*p == '\\' && p[1] && p[1] != '\n')
				add(t, ++p, 1);
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
			add(t, p, 1);
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
		return out_of_memory(c);
	s->files = files;
	mine = files[s->nfiles++] = strdup(name);
	if (!mine)
		return out_of_memory(c);
	c->depth++;
	while (*text && !r) {
		struct text t = {0};
		const char *p;

		text = logical_line(text, &t, &lines, &in_comment);
		c->here = (struct rpn_line){NULL, mine, line};
		line += lines;
		p = t.s ? skip(t.s) : "";
		if (t.failed)
			r = out_of_memory(c);
		else if (*p == '#')
			r = lenient(c, directive(c, p + 1, dir));
		else if (*p && active(c))
			r = put_line(c, c->opt->keep_blanks ? t.s : p);
		free(t.s);
	}
	if (!r && in_comment)
		r = rpn_fail(c->err, &c->here, E_RPN_PRE, "a comment does not end");
	if (!r && c->nconds != conds)
		r = rpn_fail(c->err, &c->here, E_RPN_PRE, "an #if has no #endif");
	c->depth--;
	return r;
}

int rpn_preprocess(struct rpn_source *s, const char *text, const char *name, const char *dir,
		   const struct dp_rpn_define *defines, u32 ndefines, struct dp_error *err)
{
	const struct rpn_pre_options none = {0};

	return rpn_preprocess_with(s, text, name, dir, defines, ndefines, &none, err);
}

int rpn_preprocess_with(struct rpn_source *s, const char *text, const char *name, const char *dir,
			const struct dp_rpn_define *defines, u32 ndefines,
			const struct rpn_pre_options *opt, struct dp_error *err)
{
	struct pre c = {.out = s, .err = err, .here = {NULL, "-D", 1}, .opt = opt};
	int r = 0;

	memset(s, 0, sizeof(*s));
	for (u32 i = 0; i < ndefines && !r; i++) {
		char line[4096];

		snprintf(line, sizeof(line), "%s %s", defines[i].key,
			 defines[i].value ? defines[i].value : "1");
		r = define(&c, line);
	}
	if (!r)
		r = process(&c, text, name, dir);
	for (u32 i = 0; i < c.nmacros; i++)
		drop(&c.macros[i]);
	free(c.macros);
	if (r)
		rpn_source_free(s);
	return r;
}

void rpn_source_free(struct rpn_source *s)
{
	for (u32 i = 0; i < s->n; i++)
		free(s->lines[i].text);
	for (u32 i = 0; i < s->nfiles; i++)
		free(s->files[i]);
	free(s->lines);
	free(s->files);
	memset(s, 0, sizeof(*s));
}
