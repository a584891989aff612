/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Tokens of the C-like language, the compiler's memory, and its errors. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lang/dpcc/dpcc-priv.h"

#define MEMORY_MAX (256u << 20)

struct chunk {
	struct chunk *next;
};

void *dp_cc_alloc(struct dpcc *c, size_t n)
{
	struct chunk *p = calloc(1, sizeof(*p) + n);

	if (!p)
		dp_cc_fail(c, NULL, E_RPN_MEMORY, "the compiler");
	p->next = c->chunks;
	c->chunks = p;
	return p + 1;
}

char *dp_cc_text(struct dpcc *c, const char *s, size_t n)
{
	char *t = dp_cc_alloc(c, n + 1);

	memcpy(t, s, n);
	return t;
}

char *dp_cc_format(struct dpcc *c, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return dp_cc_text(c, text, strlen(text));
}

/* ---- errors ---- */

/* The token where the user wrote it, when its line was made of an event line. */
static const struct tok *written(const struct dpcc *c, const struct tok *t, struct tok *own)
{
	for (const struct origin *o = c->origins; o && t && t->line; o = o->next) {
		if (t->line->text != o->text || t->at < o->text || t->at >= o->text + o->n)
			continue;
		*own = *t;
		own->line = &o->line;
		own->at = o->line.text + o->at[t->at - o->text];
		return own;
	}
	return t;
}

static void place(struct dpcc *c, const struct tok *t, char *buf, size_t size)
{
	buf[0] = '\0';
	if (!t || !t->line)
		return;
	dp_format(buf, size, "%.80s:%u:%u: ", t->line->file, t->line->line, (u32)(t->at - t->line->text) + 1);
	snprintf(c->res->line, sizeof(c->res->line), "%s", t->line->text);
	for (char *p = c->res->line; *p; p++)
		if (*p == '\t')
			*p = ' ';
}

static void tell(struct dpcc *c, const struct tok *t, enum dp_code code, const char *fmt, va_list ap)
{
	char where[128], text[160];
	struct tok own;

	t = written(c, t, &own);
	place(c, t, where, sizeof(where));
	vsnprintf(text, sizeof(text), fmt, ap);
	dp_fail(c->err, code, "%s%s", where, text);
	if (t && t->line && t->at - t->line->text < (ptrdiff_t)sizeof(c->res->line))
		dp_error_column(c->err, (int)(t->at - t->line->text));
}

void dp_cc_fail(struct dpcc *c, const struct tok *t, enum dp_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(c, t, code, fmt, ap);
	va_end(ap);
	longjmp(c->out, 1);
}

void dp_cc_fail_near(struct dpcc *c, const struct tok *t, enum dp_code code, const struct dp_near *near,
		     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(c, t, code, fmt, ap);
	va_end(ap);
	dp_near_hint(near, "", c->err);
	longjmp(c->out, 1);
}

void dp_cc_refail(struct dpcc *c, const struct tok *t, const struct dp_error *why)
{
	char where[128];
	struct tok own;

	t = written(c, t, &own);
	place(c, t, where, sizeof(where));
	dp_fail(c->err, why->code, "%s%.120s", where, why->detail);
	if (why->hint[0])
		dp_error_hint(c->err, "%s", why->hint);
	if (t && t->line)
		dp_error_column(c->err, (int)(t->at - t->line->text));
	longjmp(c->out, 1);
}

/* ---- text that grows ---- */

void dp_cc_buf_add(struct dpcc *c, struct buf *b, const char *s, size_t n)
{
	if (b->n + n + 1 > b->cap) {
		size_t cap = DP_MAX(b->cap * 2, b->n + n + 256);
		char *bigger = dp_cc_alloc(c, cap);

		if (cap > MEMORY_MAX)
			dp_cc_fail(c, NULL, E_DPCC_LIMIT, "the program is too large");
		if (b->n)
			memcpy(bigger, b->s, b->n);
		b->s = bigger;
		b->cap = cap;
	}
	memcpy(b->s + b->n, s, n);
	b->n += n;
	b->s[b->n] = '\0';
}

void dp_cc_buf_put(struct dpcc *c, struct buf *b, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dp_cc_buf_add(c, b, text, strlen(text));
}

void dp_cc_put_quoted(struct dpcc *c, struct buf *b, const char *s)
{
	dp_cc_buf_add(c, b, "\"", 1);
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			dp_cc_buf_put(c, b, "\\%c", *s);
		else if ((u8)*s < ' ' || (u8)*s > '~')
			dp_cc_buf_put(c, b, "\\x%02x", (u8)*s);
		else
			dp_cc_buf_add(c, b, s, 1);
	dp_cc_buf_add(c, b, "\"", 1);
}

/* ---- tokens ---- */

static const char *const puncts[] = {"...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=",
				     "&&",  "||",  "+=",  "-=", "*=", "/=", "%=", "&=", "|=", "^=", NULL};

static bool is_word(char ch)
{
	return isalnum((unsigned char)ch) || ch == '_';
}

/* 1.5, 1e6: its bits as a double. */
/* 20ms, 1.5s: nanoseconds, as all times are. */
static bool in_unit(struct tok *t, const char *p, const char *end, double value)
{
	u32 len;
	u64 unit = dp_time_unit(end, &len);

	if (!unit || is_word(end[len]) || end[len] == '.' || value * (double)unit >= 9.2e18)
		return false;
	t->value = (u64)(value * (double)unit + 0.5);
	t->is_long = true;
	t->len = (u32)(end + len - p);
	return true;
}

static bool real_number(struct tok *t, const char *p)
{
	char *end = (char *)p + strspn(p, "0123456789");
	double d;

	if (*end != '.' && (*end | 32) != 'e') /* 0x1e begins with a 0 and an x */
		return false;
	d = strtod(p, &end);
	if (!errno && in_unit(t, p, end, d))
		return true;
	if (errno || is_word(*end) || *end == '.')
		return false;
	memcpy(&t->value, &d, sizeof(d));
	t->is_real = true;
	t->len = (u32)(end - p);
	return true;
}

static void number(struct dpcc *c, struct tok *t, const char *p)
{
	char *end;

	t->kind = TOK_NUM;
	errno = 0;
	if (p[0] == '0' && (p[1] | 32) == 'b')
		t->value = strtoull(p + 2, &end, 2);
	else
		t->value = strtoull(p, &end, 0);
	if (real_number(t, p) || (!errno && in_unit(t, p, end, (double)t->value)))
		return;
	for (; *end == 'u' || *end == 'U' || *end == 'l' || *end == 'L'; end++) {
		t->is_unsigned |= (*end | 32) == 'u';
		t->is_long |= (*end | 32) == 'l';
	}
	t->len = (u32)(end - p);
	if (errno || is_word(*end) || *end == '.')
		dp_cc_fail(c, t, E_DPCC_SYNTAX, "this is not a valid number");
	/* Hexadecimal and octal ones may become unsigned, decimal ones become long, as in C. */
	if (t->value > 0x7fffffff)
		t->is_long |= t->value > 0xffffffff || (p[0] != '0' && !t->is_unsigned);
	if (t->value > 0x7fffffff && p[0] == '0' && !t->is_long)
		t->is_unsigned = true;
	if (t->value >> 63)
		t->is_unsigned = true;
}

static void quoted(struct dpcc *c, struct tok *t, const char *p)
{
	struct rpn_token r = dp_rpn_token(p);
	int n;

	if (r.bad)
		dp_cc_fail(c, t, E_DPCC_SYNTAX, "the closing quote is missing");
	t->len = r.len;
	if (*p == '\'') {
		t->kind = TOK_NUM;
		t->value = r.len <= 4 ? (u64)(s64)(s8)r.value : (u64)r.value;
		return;
	}
	t->kind = TOK_STR;
	t->str = dp_cc_alloc(c, r.len + 1);
	n = dp_rpn_text(&r, t->str, r.len);
	t->str_len = (u32)n;
}

static void one(struct dpcc *c, struct tok *t, const char *p)
{
	t->at = p;
	t->len = 1;
	if (isdigit((unsigned char)*p)) {
		number(c, t, p);
	} else if (*p == '"' || *p == '\'') {
		quoted(c, t, p);
	} else if (is_word(*p) || *p == '$') {
		t->kind = *p == '$' ? TOK_PROBE : TOK_WORD;
		while (is_word(p[t->len]) || (*p == '$' && p[t->len] == ':' && p[t->len + 1] == ':'))
			t->len += p[t->len] == ':' ? 2 : 1;
		if (t->kind == TOK_PROBE && t->len == 1)
			dp_cc_fail(c, t, E_DPCC_SYNTAX, "a name must follow the $");
	} else {
		t->kind = TOK_PUNCT;
		if (!strchr("+-*/%=<>!&|^~?:;,.()[]{}@", *p))
			dp_cc_fail(c, t, E_DPCC_SYNTAX, "this character is not allowed here");
		for (u32 i = 0; puncts[i]; i++)
			if (!strncmp(p, puncts[i], strlen(puncts[i]))) {
				t->len = (u32)strlen(puncts[i]);
				break;
			}
	}
}

/* Append the tokens of all lines but pragmas. */
void dp_cc_lex(struct dpcc *c, const struct rpn_source *s)
{
	u32 cap = 256, n = 0;
	struct tok *v = dp_cc_alloc(c, cap * sizeof(*v)), *bigger;

	for (u32 i = 0; i < s->n; i++) {
		const char *p = s->lines[i].text;

		if (!strncmp(p, "#pragma", 7))
			continue;
		for (;;) {
			while (*p == ' ' || *p == '\t')
				p++;
			if (!*p)
				break;
			if (n + 2 >= cap) {
				bigger = dp_cc_alloc(c, 2 * cap * sizeof(*v));
				memcpy(bigger, v, n * sizeof(*v));
				v = bigger;
				cap *= 2;
			}
			v[n].line = &s->lines[i];
			one(c, &v[n], p);
			p += v[n].len;
			/* Texts behind each other are one. */
			if (n && v[n].kind == TOK_STR && v[n - 1].kind == TOK_STR) {
				char *all = dp_cc_alloc(c, v[n - 1].str_len + v[n].str_len + 1);

				memcpy(all, v[n - 1].str, v[n - 1].str_len);
				memcpy(all + v[n - 1].str_len, v[n].str, v[n].str_len);
				v[n - 1].str = all;
				v[n - 1].str_len += v[n].str_len;
				memset(&v[n], 0, sizeof(*v));
			} else {
				n++;
			}
		}
	}
	v[n].kind = TOK_END;
	v[n].at = s->n ? s->lines[s->n - 1].text + strlen(s->lines[s->n - 1].text) : "";
	v[n].line = s->n ? &s->lines[s->n - 1] : NULL;
	c->toks = v;
	c->ntoks = n + 1;
	c->at = 0;
}

bool dp_cc_tok_is(const struct tok *t, const char *text)
{
	return (t->kind == TOK_WORD || t->kind == TOK_PUNCT) && strlen(text) == t->len && !memcmp(t->at, text, t->len);
}

const char *dp_cc_one_line(struct dpcc *c, const char *name)
{
	size_t n = strlen(name);
	char *text = dp_cc_alloc(c, 4 * n + 1);

	dp_clean(text, 4 * n + 1, name, n, "");
	return text;
}
