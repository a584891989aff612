/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See json.h. Values only; what members there are say those who call it. */
#include <stdio.h>

#include "log/json.h"

static inline void separate(struct dp_json *j)
{
	u64 bit = (u64)1 << (j->depth & 63);

	if (j->keyed) {
		j->keyed = false;
		return;
	}
	if (j->more & bit)
		dp_line_char(j->line, ',');
	j->more |= bit;
	if (j->one_a_line && j->depth == 2)
		dp_line_char(j->line, '\n');
}

void dp_json_open(struct dp_json *j, char bracket)
{
	separate(j);
	dp_line_char(j->line, bracket);
	j->depth++;
	j->more &= ~((u64)1 << (j->depth & 63));
}

void dp_json_close(struct dp_json *j, char bracket)
{
	if (j->one_a_line && j->depth == 2)
		dp_line_char(j->line, '\n');
	j->depth--;
	dp_line_char(j->line, bracket);
}

void dp_json_end(struct dp_json *j)
{
	dp_line_char(j->line, '\n');
	j->depth = 0;
	j->more = 0;
}

static bool unicode_escape(struct dp_line *l, const char *s, unsigned len, u32 rune)
{
	u32 c = len ? rune : (u8)*s;
	char buf[6] = {'\\', 'u', '0', '0', "0123456789abcdef"[c >> 4 & 15], "0123456789abcdef"[c & 15]};

	if (len && rune >= 0x20 && (rune < 0x7f || rune >= 0xa0))
		return false;
	dp_line_bytes(l, buf, 6);
	return true;
}

static void quoted(struct dp_line *l, const char *s, size_t n)
{
	dp_line_reserve(l, n + 2);
	dp_line_quoted(l, s, n, '"', unicode_escape);
}

void dp_json_key_bytes(struct dp_json *j, const char *key, size_t n)
{
	struct dp_line *l = j->line;
	char *to;

	separate(j);
	j->keyed = true;
	if (!dp_line_reserve(l, n + 3))
		return;
	to = l->text + l->n;
	*to++ = '"';
	memcpy(to, key, n);
	to[n] = '"';
	to[n + 1] = ':';
	l->n += n + 3;
}

void dp_json_key_text(struct dp_json *j, const char *key)
{
	separate(j);
	quoted(j->line, key, strlen(key));
	dp_line_char(j->line, ':');
	j->keyed = true;
}

void dp_json_unsigned(struct dp_json *j, u64 v)
{
	separate(j);
	dp_line_dec(j->line, v, 0, ' ');
}

void dp_json_signed(struct dp_json *j, s64 v)
{
	separate(j);
	dp_line_signed(j->line, v);
}

void dp_json_seconds(struct dp_json *j, u64 ns)
{
	separate(j);
	dp_line_seconds(j->line, ns);
}

void dp_json_digits(struct dp_json *j, const char *text, size_t n)
{
	bool number = true;

	for (size_t i = 0; i < n; i++) /* JSON has no infinities: "inf", "nan" */
		number &= text[i] != 'i' && text[i] != 'n';
	separate(j);
	if (number)
		dp_line_bytes(j->line, text, n);
	else
		quoted(j->line, text, n);
}

void dp_json_bool(struct dp_json *j, bool v)
{
	separate(j);
	dp_line_str(j->line, v ? "true" : "false");
}

void dp_json_null(struct dp_json *j)
{
	separate(j);
	dp_line_str(j->line, "null");
}

void dp_json_text(struct dp_json *j, const char *s, size_t n)
{
	separate(j);
	quoted(j->line, s, n);
}

void dp_json_string(struct dp_json *j, const char *s)
{
	dp_json_text(j, s, strlen(s));
}

void dp_json_hex(struct dp_json *j, const void *p, size_t n)
{
	separate(j);
	dp_line_char(j->line, '"');
	dp_line_bytes_hex(j->line, p, n);
	dp_line_char(j->line, '"');
}
