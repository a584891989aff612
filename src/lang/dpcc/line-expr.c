/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Expressions of event lines as C: %REG, +OFFSET(..), :TYPE and names of fields are rewritten, all else is C already.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/line-priv.h"

static const struct value_type {
	const char *name, *c;
	bool hex;
} types[] = {
    {"u8", "unsigned char", false},  {"u16", "unsigned short", false}, {"u32", "unsigned int", false},
    {"u64", "unsigned long", false}, {"s8", "signed char", false},     {"s16", "short", false},
    {"s32", "int", false},           {"s64", "long", false},           {"x8", "unsigned char", true},
    {"x16", "unsigned short", true}, {"x32", "unsigned int", true},    {"x64", "unsigned long", true},
    {"char", "char", false},         {"string", NULL, false},          {"symbol", NULL, false},
};

/* :TYPE behind an operand; its length with the colon in *len, or NULL. */
static const struct value_type *type_at(const char *p, u32 *len)
{
	u32 n = *p == ':' ? dp_cc_word_len(p + 1) : 0;

	for (u32 i = 0; n && i < DP_ARRAY_SIZE(types); i++)
		if (strlen(types[i].name) == n && !memcmp(types[i].name, p + 1, n)) {
			*len = n + 1;
			return &types[i];
		}
	return NULL;
}

/* The type of an operand that ends at `at`; what begins at `to` is no longer the expression. */
static const struct value_type *type_before(const struct line *l, u32 at, u32 to, u32 *len)
{
	return at < to ? type_at(l->text + at, len) : NULL;
}

/* :u23, which nothing else can be; another word behind a colon, unless that belongs to a ?. */
static bool is_unknown_type(const struct line *l, u32 at)
{
	const char *p = l->text + at;
	u32 digits = *p == ':' && p[1] && strchr("usx", p[1]) ? (u32)strspn(p + 2, "0123456789") : 0, len;

	if (*p != ':' || !isalpha((unsigned char)p[1]) || type_at(p, &len))
		return false;
	return (digits && dp_cc_word_len(p + 1) == digits + 1) || !memchr(l->text, '?', at);
}

static int unknown_type(struct line *l, u32 at)
{
	struct dp_near near = {.n = 0};
	char word[32];

	snprintf(word, sizeof(word), "%.*s", (int)dp_cc_word_len(l->text + at), l->text + at);
	for (u32 i = 0; i < DP_ARRAY_SIZE(types); i++)
		dp_near_try(&near, word, types[i].name);
	dp_cc_line_fail(l, at, E_EVENT_TYPE, "`%s`", word);
	dp_near_hint(&near, "", l->err);
	return -dp_error_info(E_EVENT_TYPE)->number;
}

/*
 * What is known everywhere, and so needs not to be kept from a call's beginning. $uid is, too, but many functions have
 * a parameter of that name, which is to be the entry's.
 */
static const char *const everywhere[] = {"retval",      "pid",  "tid",    "ppid",      "cpu",   "time", "comm", "ip",
					 "thread_name", "goid", "caller", "backtrace", "stack", "addr", "old",  "new"};

static bool is_known_everywhere(const char *p, u32 n)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(everywhere); i++)
		if (strlen(everywhere[i]) == n && !memcmp(everywhere[i], p, n))
			return true;
	return false;
}

static int remember_name(struct line *l, u32 at)
{
	u32 n = dp_cc_word_len(l->text + at);

	for (u32 i = 0; i < l->nnames; i++)
		if (dp_cc_word_len(l->text + l->names[i]) == n && !memcmp(l->text + l->names[i], l->text + at, n))
			return 0;
	if (l->nnames == DP_ARRAY_SIZE(l->names))
		return dp_cc_line_fail(l, at, E_DPCC_LIMIT, "a line can name %zu variables", DP_ARRAY_SIZE(l->names));
	l->names[l->nnames++] = at;
	return 0;
}

/* $NAME at `at`. */
static int name(struct line *l, u32 at, struct out_text *o)
{
	u32 n = dp_cc_word_len(l->text + at + 1);
	const char *p = l->text + at + 1;

	while (p[n] == ':' && p[n + 1] == ':')
		n += 2 + dp_cc_word_len(p + n + 2);
	if (!n)
		return dp_cc_line_fail(l, at, E_EVENT_VAR, "a name must follow the $");
	if (n == 8 && !memcmp(p, "duration", 8)) {
		l->uses_duration = l->uses_result = true;
		l->duration_at = at;
		dp_cc_out_put(o, at, "__took");
		return 0;
	}
	l->uses_retval |= n == 6 && !memcmp(p, "retval", 6);
	if (l->ev.is_call && dp_cc_line_call_name(l, at, o))
		return 0;
	dp_cc_out_add(o, l->text + at, n + 1, at, true);
	return is_known_everywhere(p, n) ? 0 : remember_name(l, at + 1);
}

/* What may stand behind $NAME, and in front of a type: ->x .x [..] */
static u32 chain_end(const struct line *l, u32 at, u32 to)
{
	while (at < to) {
		if (dp_cc_is_word_char(l->text[at]))
			at++;
		else if (l->text[at] == '[')
			at = dp_cc_step(l->text, at);
		else if (l->text[at] == '.' && dp_cc_is_word_char(l->text[at + 1]))
			at++;
		else if (l->text[at] == '-' && l->text[at + 1] == '>')
			at += 2;
		else if (l->text[at] == ':' && l->text[at + 1] == ':')
			at += 2;
		else
			break;
	}
	return at;
}

static int variable(struct line *l, u32 *at, u32 to, struct out_text *o, bool *hex)
{
	u32 end = chain_end(l, *at + 1, to), n = 0, word = 1 + dp_cc_word_len(l->text + *at + 1);
	const struct value_type *type = type_before(l, end, to, &n);
	int r;

	while (l->text[*at + word] == ':' && l->text[*at + word + 1] == ':')
		word += 2 + dp_cc_word_len(l->text + *at + word + 2);
	if (type && type->c)
		dp_cc_out_put(o, *at, "((%s)(", type->c);
	else if (type)
		dp_cc_out_put(o, *at, strcmp(type->name, "symbol") ? "((char *)(" : "(__code(");
	r = is_unknown_type(l, end) ? unknown_type(l, end + 1) : name(l, *at, o);
	for (u32 i = *at + word; !r && i < end;) { /* indexes are expressions of their own */
		u32 next = l->text[i] == '[' ? dp_cc_step(l->text, i) : i + 1;

		if (l->text[i] == '[' && l->text[next - 1] != ']')
			return dp_cc_line_fail(l, i, E_DPCC_SYNTAX, "this [ has no ]");
		dp_cc_out_add(o, l->text + i, 1, i, true);
		if (l->text[i] == '[') {
			r = dp_cc_line_expr(l, i + 1, next - 1, o, NULL);
			dp_cc_out_add(o, "]", 1, next - 1, true);
		}
		i = next;
	}
	if (type)
		dp_cc_out_put(o, end, "))");
	if (hex && type)
		*hex = type->hex;
	*at = end + n;
	return r;
}

static int register_value(struct line *l, u32 *at, u32 to, struct out_text *o, bool *hex)
{
	u32 start = *at, n = dp_cc_word_len(l->text + start + 1), skip = 0;
	const struct value_type *type = type_before(l, start + 1 + n, to, &skip);
	const char *c = type ? (type->c ? type->c : "char *") : "unsigned long";
	struct dp_register_part part;

	if (!dp_register_find(l->text + start + 1, n, &part))
		return dp_cc_line_fail(l, start, E_EVENT_REG, "`%%%.*s`", (int)n, l->text + start + 1);
	if (is_unknown_type(l, start + 1 + n))
		return unknown_type(l, start + 2 + n);
	if (part.width == 64)
		dp_cc_out_put(o, start, "((%s)reg(\"%.*s\"))", c, (int)n, l->text + start + 1);
	else
		dp_cc_out_put(o, start, "((%s)(reg(\"%s\") >> %u & 0x%llx))", c, part.reg->names[0], part.shift,
			      (1ull << part.width) - 1);
	*at = start + 1 + n + skip;
	if (hex && type)
		*hex = type->hex;
	return 0;
}

/* %REG, +8(..), -8(..) with or without a type: registers are words, memory has the type's size. */
static int machine_value(struct line *l, u32 *at, u32 to, struct out_text *o, bool *hex)
{
	const struct value_type *type;
	u32 start = *at, open, close, n = 0;
	char sign = l->text[start], *end;
	unsigned long long offset;
	int r;

	if (hex)
		*hex = true;
	if (sign == '%')
		return register_value(l, at, to, o, hex);
	offset = strtoull(l->text + start + 1 + (l->text[start + 1] == 'u'), &end, 0);
	open = (u32)(end - l->text);
	close = dp_cc_step(l->text, open);
	type = type_before(l, close, to, &n);
	if (is_unknown_type(l, close))
		return unknown_type(l, close + 1);
	if (type && !type->c)
		dp_cc_out_put(o, start, "((char *)((unsigned long)(");
	else
		dp_cc_out_put(o, start, "(*(%s *)((unsigned long)(", type ? type->c : "unsigned long");
	r = dp_cc_line_expr(l, open + 1, close - 1, o, NULL);
	dp_cc_out_put(o, close - 1, ") %c %llu))", sign, offset);
	if (hex && type)
		*hex = type->hex;
	*at = close + n;
	return r;
}

static bool is_access(const char *p)
{
	p += 1 + (p[1] == 'u');
	if (!isdigit((unsigned char)*p))
		return false;
	while (isalnum((unsigned char)*p))
		p++;
	return *p == '(';
}

/* A word: the name of a field of this line, or C's. */
static u32 word(struct line *l, u32 at, struct out_text *o)
{
	u32 n = dp_cc_word_len(l->text + at);

	for (u32 i = 0; i < l->nfields; i++)
		if (strlen(l->fields[i].name) == n && !memcmp(l->fields[i].name, l->text + at, n)) {
			dp_cc_out_put(o, at, "(");
			dp_cc_out_append(o, &l->fields[i].value);
			dp_cc_out_put(o, at, ")");
			return at + n;
		}
	dp_cc_out_add(o, l->text + at, n, at, true);
	return at + n;
}

int dp_cc_line_expr(struct line *l, u32 from, u32 to, struct out_text *o, bool *hex)
{
	bool operand = false; /* one came just before: % and + are operators */
	int r = 0;

	for (u32 at = from; !r && at < to;) {
		const char *p = l->text + at;
		u32 next = at;

		if (*p == '$') {
			r = variable(l, &next, to, o, hex);
			operand = true;
		} else if (!operand &&
			   ((*p == '%' && dp_cc_word_len(p + 1)) || ((*p == '+' || *p == '-') && is_access(p)))) {
			r = machine_value(l, &next, to, o, at == from ? hex : NULL);
			operand = true;
		} else if (*p == '"' || *p == '\'') {
			next = dp_cc_step(l->text, at);
			dp_cc_out_add(o, p, next - at, at, true);
			operand = true;
		} else if (dp_cc_word_len(p)) {
			next = word(l, at, o);
			operand = true;
		} else if (isdigit((unsigned char)*p)) {
			while (next < to && (isalnum((unsigned char)l->text[next]) || l->text[next] == '.' ||
					     ((l->text[next] == '-' || l->text[next] == '+') && next > at &&
					      (l->text[next - 1] | 32) == 'e' && strncmp(p, "0x", 2))))
				next++;
			dp_cc_out_add(o, p, next - at, at, true);
			operand = true;
		} else {
			next++;
			if (*p != '\\') /* \5: a constant */
				dp_cc_out_add(o, p, 1, at, true);
			if (!isspace((unsigned char)*p))
				operand = *p == ')' || *p == ']';
		}
		at = next;
	}
	return r;
}

/* A body is C already; what it names is remembered. */
int dp_cc_line_body(struct line *l, u32 from, u32 to)
{
	int r = 0;

	for (u32 at = from; !r && at < to;) {
		u32 next = at + 1;

		if (l->text[at] == '"' || l->text[at] == '\'')
			next = dp_cc_step(l->text, at);
		if (l->text[at] == '$') {
			r = name(l, at, &l->body);
			at += 1 + dp_cc_word_len(l->text + at + 1);
			while (l->text[at] == ':' && l->text[at + 1] == ':')
				at += 2 + dp_cc_word_len(l->text + at + 2);
			continue;
		}
		dp_cc_out_add(&l->body, l->text + at, next - at, at, true);
		at = next;
	}
	return r;
}

/* One that cannot be computed does not hold. */
void dp_cc_line_put_condition(struct line *l, struct out_text *o)
{
	if (!l->condition.n)
		return;
	dp_cc_out_put(o, l->condition.at[0], "try { if (!(");
	dp_cc_out_append(o, &l->condition);
	dp_cc_out_put(o, 0, ")) abort(); } catch { abort(); } ");
}
