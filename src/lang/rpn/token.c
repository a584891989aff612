/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Tokens and number expressions of the Dynamic Probes language. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/rpn/rpn-priv.h"

static bool word_begins(char c)
{
	return isalpha((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

static bool word_goes_on(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

/* One character of a quoted text; *p moves behind it. */
static int quoted_char(const char **p)
{
	static const char escapes[] = "n\nt\tr\rb\bf\fv\va\ae\033";
	const char *e;
	int c = (unsigned char)*(*p)++, n = 0;

	if (c != '\\')
		return c;
	c = (unsigned char)**p;
	if (!c)
		return '\\';
	(*p)++;
	if (c == 'x' && isxdigit((unsigned char)**p)) {
		for (c = 0; n < 2 && isxdigit((unsigned char)**p); n++, (*p)++)
			c = c * 16 + (isdigit((unsigned char)**p) ? **p - '0' : (**p | 32) - 'a' + 10);
		return c;
	}
	if (c >= '0' && c <= '7') {
		for (c -= '0'; n < 2 && **p >= '0' && **p <= '7'; n++)
			c = c * 8 + *(*p)++ - '0';
		return c & 0xff;
	}
	for (e = escapes; *e; e += 2)
		if (c == *e)
			return (unsigned char)e[1];
	return c;
}

static void quoted(struct rpn_token *t)
{
	const char *p = t->at + 1;
	char quote = *t->at;

	t->kind = quote == '"' ? RPN_TEXT : RPN_NUMBER;
	while (*p && *p != quote) {
		int c = quoted_char(&p);

		t->value = quote == '\'' ? (s64)((u64)t->value << 8 | (u64)c) : 0;
	}
	t->bad = !*p || (quote == '\'' && p == t->at + 1);
	t->len = (u32)(p + !!*p - t->at);
}

struct rpn_token dp_rpn_token(const char *p)
{
	static const char *const doubles[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
	struct rpn_token t = {.kind = RPN_PUNCT, .len = 1};
	char *end;

	while (*p == ' ' || *p == '\t')
		p++;
	t.at = p;
	if (!*p) {
		t.kind = RPN_END;
		t.len = 0;
	} else if (*p == '"' || *p == '\'') {
		quoted(&t);
	} else if (isdigit((unsigned char)*p)) {
		t.kind = RPN_NUMBER;
		errno = 0;
		t.value = (s64)strtoull(p, &end, 0);
		t.bad = errno || word_goes_on(*end);
		t.len = (u32)(end - p);
	} else if (word_begins(*p)) {
		t.kind = RPN_WORD;
		while (word_goes_on(p[t.len]))
			t.len++;
	} else {
		for (size_t i = 0; i < DP_ARRAY_SIZE(doubles); i++)
			if (!strncmp(p, doubles[i], 2))
				t.len = 2;
	}
	return t;
}

bool dp_rpn_is(const struct rpn_token *t, const char *text)
{
	return t->kind != RPN_END && strlen(text) == t->len && !memcmp(t->at, text, t->len);
}

int dp_rpn_text(const struct rpn_token *t, char *buf, u32 size)
{
	const char *p = t->at + 1, *end = t->at + t->len - 1;
	u32 n = 0;

	while (p < end) {
		int c = quoted_char(&p);

		if (n == size)
			return -1;
		buf[n++] = (char)c;
	}
	return (int)n;
}

/* ---- expressions: by precedence ---- */

struct expr {
	const char *p;
	bool (*word)(void *arg, const char **p, s64 *value);
	void *arg;
	u32 depth;
};

static const struct {
	const char *text;
	int level;
} operators[] = {
    {"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5}, {"==", 6}, {"!=", 6}, {"<", 7},  {"<=", 7},
    {">", 7},  {">=", 7}, {"<<", 8}, {">>", 8}, {"+", 9}, {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10},
};

static bool binary(struct expr *e, int level, s64 *v);

static bool unary(struct expr *e, s64 *v)
{
	struct rpn_token t = dp_rpn_token(e->p);
	bool good;

	if (++e->depth > 100)
		return false;
	if (t.kind == RPN_PUNCT && t.len == 1 && strchr("-+~!(", *t.at)) {
		e->p = t.at + 1;
		good = *t.at == '(' ? binary(e, 1, v) : unary(e, v);
		if (!good)
			return false;
		if (*t.at == '(') {
			t = dp_rpn_token(e->p);
			if (!dp_rpn_is(&t, ")"))
				return false;
			e->p = t.at + 1;
		} else {
			*v = *t.at == '-' ? (s64)(0 - (u64)*v) : *t.at == '~' ? ~*v : *t.at == '!' ? !*v : *v;
		}
		e->depth--;
		return true;
	}
	e->depth--;
	if (t.kind == RPN_NUMBER && !t.bad) {
		*v = t.value;
		e->p = t.at + t.len;
		return true;
	}
	if (t.kind != RPN_WORD || !e->word)
		return false;
	e->p = t.at;
	return e->word(e->arg, &e->p, v);
}

static bool apply(const char *op, s64 a, s64 b, s64 *v)
{
	bool wide = op[1] == '=' || op[1] == op[0];
	u64 x = (u64)a, y = (u64)b;

	switch (op[0]) {
	case '|':
		*v = wide ? a || b : (a | b);
		return true;
	case '&':
		*v = wide ? a && b : (a & b);
		return true;
	case '^':
		*v = a ^ b;
		return true;
	case '=':
		*v = a == b;
		return true;
	case '!':
		*v = a != b;
		return true;
	case '<':
		*v = op[1] == '<' ? (s64)(y > 63 ? 0 : x << y) : op[1] ? a <= b : a < b;
		return true;
	case '>':
		*v = op[1] == '>' ? (s64)(y > 63 ? 0 : x >> y) : op[1] ? a >= b : a > b;
		return true;
	case '+':
		*v = (s64)(x + y);
		return true;
	case '-':
		*v = (s64)(x - y);
		return true;
	case '*':
		*v = (s64)(x * y);
		return true;
	default:
		if (!b)
			return false;
		*v = op[0] == '/' ? (b == -1 ? (s64)(0 - x) : a / b) : b == -1 ? 0 : a % b;
		return true;
	}
}

static bool binary(struct expr *e, int level, s64 *v)
{
	s64 right;

	if (level > 10)
		return unary(e, v);
	if (!binary(e, level + 1, v))
		return false;
	for (;;) {
		struct rpn_token t = dp_rpn_token(e->p);
		const char *op = NULL;

		for (size_t i = 0; i < DP_ARRAY_SIZE(operators); i++)
			if (operators[i].level == level && t.kind == RPN_PUNCT && dp_rpn_is(&t, operators[i].text))
				op = operators[i].text;
		if (!op)
			return true;
		e->p = t.at + t.len;
		if (!binary(e, level + 1, &right) || !apply(op, *v, right, v))
			return false;
	}
}

bool dp_rpn_expression(const char **p, s64 *value, bool (*word)(void *arg, const char **p, s64 *value), void *arg)
{
	struct expr e = {*p, word, arg, 0};
	bool good = binary(&e, 1, value);

	*p = e.p;
	return good;
}
