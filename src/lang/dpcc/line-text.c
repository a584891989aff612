/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What all that read event lines need: texts that remember where in the line they come from, words, mistakes. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/line-priv.h"

/* ---- texts with their origin ---- */

static bool has_room(struct out_text *o, size_t n)
{
	size_t room = DP_MAX(2 * o->room, n);
	void *more;

	if (n <= o->room)
		return true;
	more = realloc(o->s, room);
	if (!more)
		return false;
	o->s = more;
	more = realloc(o->at, room * sizeof(*o->at));
	if (!more)
		return false;
	o->at = more;
	o->room = room;
	return true;
}

void dp_cc_out_add(struct out_text *o, const char *s, size_t n, u32 at, bool follows)
{
	if (o->failed || !has_room(o, o->n + n + 1)) {
		o->failed = true;
		return;
	}
	memcpy(o->s + o->n, s, n);
	for (size_t i = 0; i < n; i++)
		o->at[o->n + i] = at + (follows ? (u32)i : 0);
	o->n += n;
	o->s[o->n] = '\0';
}

void dp_cc_out_put(struct out_text *o, u32 at, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	o->failed |= n >= (int)sizeof(text);
	dp_cc_out_add(o, text, strlen(text), at, false);
}

void dp_cc_out_append(struct out_text *o, const struct out_text *from)
{
	size_t before = o->n;

	o->failed |= from->failed;
	dp_cc_out_add(o, from->s ? from->s : "", from->n, 0, false);
	if (!o->failed && from->n)
		memcpy(o->at + before, from->at, from->n * sizeof(*o->at));
}

void dp_cc_out_free(struct out_text *o)
{
	free(o->s);
	free(o->at);
	*o = (struct out_text){NULL};
}

int dp_cc_line_fail(struct line *l, u32 at, enum dp_code code, const char *fmt, ...)
{
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dp_fail(l->err, code, "%s", text);
	dp_error_column(l->err, (int)at);
	return -dp_error_info(code)->number;
}

/* ---- characters ---- */

bool dp_cc_is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

u32 dp_cc_word_len(const char *p)
{
	u32 n = 0;

	while (dp_cc_is_word_char(p[n]))
		n++;
	return isdigit((unsigned char)*p) ? 0 : n;
}

/* Behind a quoted text or a bracket with all in it that begins here, else behind the character. */
u32 dp_cc_step(const char *text, u32 at)
{
	char c = text[at++];

	if (c == '"' || c == '\'') {
		while (text[at] && text[at] != c)
			at += text[at] == '\\' && text[at + 1] ? 2 : 1;
		return text[at] ? at + 1 : at;
	}
	if (c != '(' && c != '[' && c != '{')
		return at;
	while (text[at] && text[at] != ')' && text[at] != ']' && text[at] != '}')
		at = dp_cc_step(text, at);
	return text[at] ? at + 1 : at;
}
