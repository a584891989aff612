/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Characters of an event line: words, numbers, quoted texts, errors with their column. No grammar
 * here. */
#include "base/text.h"
#include "lang/event/event-priv.h"

bool dp_ev_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool dp_ev_is_word(char c)
{
	return dp_ev_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool dp_ev_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0';
}

void dp_ev_skip_blanks(struct dp_event_line *l)
{
	while (l->text[l->pos] && dp_ev_is_blank(l->text[l->pos]))
		l->pos++;
}

u32 dp_ev_word(const char *p)
{
	u32 len = 0;

	if (dp_ev_is_digit(*p))
		return 0;
	while (dp_ev_is_word(p[len]))
		len++;
	return len;
}

int dp_ev_fail(struct dp_event_line *l, u32 column, enum dp_code code, const char *fmt, ...)
{
	char detail[sizeof(l->err->detail)];
	va_list ap;
	int ret;

	va_start(ap, fmt);
	dp_vformat(detail, sizeof(detail), fmt, ap);
	va_end(ap);
	ret = dp_fail(l->err, code, "%s", detail);
	dp_error_column(l->err, (int)column);
	return ret;
}

/* Value of a digit in any base; 99 when it is none. */
static u32 digit(char c)
{
	if (dp_ev_is_digit(c))
		return (u32)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (u32)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (u32)(c - 'A') + 10;
	return 99;
}

/* The digits of a number, up to *end. */
static int digits_of(struct dp_event_line *l, bool octal, u64 *value, const char **end)
{
	const char *p = l->text + l->pos;
	u32 base = 10;
	u64 v = 0;

	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
		base = 16;
		p += 2;
	} else if (octal && p[0] == '0' && dp_ev_is_digit(p[1])) {
		base = 8;
	}
	if (digit(*p) >= base)
		return dp_ev_fail(l, l->pos, E_EVENT_NUMBER, "a digit is missing here");
	while (digit(*p) < base) {
		if (v > (~0ull - digit(*p)) / base)
			return dp_ev_fail(l, l->pos, E_EVENT_NUMBER, "the number has more than 64 bits");
		v = v * base + digit(*p++);
	}
	*end = p;
	*value = v;
	return 0;
}

static int end_number(struct dp_event_line *l, const char *p)
{
	const char *start = l->text + l->pos;

	if (dp_ev_is_word(*p))
		return dp_ev_fail(l, (u32)(p - l->text), E_EVENT_NUMBER, "`%c` in `%.*s`", *p, (int)(p + 1 - start),
				  start);
	l->pos += (u32)(p - start);
	return 0;
}

int dp_ev_number(struct dp_event_line *l, bool octal, u64 *value)
{
	const char *end;
	int ret = digits_of(l, octal, value, &end);

	return ret ? ret : end_number(l, end);
}

int dp_ev_quantity(struct dp_event_line *l, u64 *value)
{
	const char *end;
	u32 len;
	int ret = digits_of(l, true, value, &end);
	u64 unit = ret ? 0 : dp_time_unit(end, &len);

	if (unit && !dp_ev_is_word(end[len])) {
		if (*value > ~0ull / unit)
			return dp_ev_fail(l, l->pos, E_EVENT_NUMBER, "the number has more than 64 bits");
		*value *= unit;
		end += len;
	}
	return ret ? ret : end_number(l, end);
}

int dp_ev_keep(struct dp_event_line *l, const char *p, u32 len, u16 *text)
{
	if (len > sizeof(l->pool) - l->pool_len)
		return dp_ev_fail(l, l->pos, E_EVENT_LONG, "no room for this text");
	memcpy(l->pool + l->pool_len, p, len);
	*text = (u16)l->pool_len;
	l->pool_len += len;
	return 0;
}

/* The character behind a backslash. */
static char unescape(char c)
{
	switch (c) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	default:
		return c;
	}
}

int dp_ev_quoted(struct dp_event_line *l, u32 max, u16 *text, u16 *len)
{
	u32 start = l->pos++, from = l->pool_len;
	const char *p = l->text;
	int ret;

	while (p[l->pos] != '"') {
		char c = p[l->pos];

		if (!c)
			return dp_ev_fail(l, start, E_EVENT_QUOTE, "the text that begins here has no end");
		l->pos++;
		if (c == '\\' && p[l->pos])
			c = unescape(p[l->pos++]);
		ret = dp_ev_keep(l, &c, 1, text);
		if (ret)
			return ret;
	}
	l->pos++;
	*text = (u16)from;
	*len = (u16)(l->pool_len - from);
	if (*len > max)
		return dp_ev_fail(l, start, E_EVENT_TEXT, "%u characters", *len);
	return 0;
}

/* ---- did you mean ---- */

#define NEAR_LEN 32

/* Edits that make one word from the other; letters changed, added or left out. */
static u32 distance(const char *a, u32 alen, const char *b, u32 blen)
{
	u8 row[NEAR_LEN + 1];

	for (u32 j = 0; j <= blen; j++)
		row[j] = (u8)j;
	for (u32 i = 1; i <= alen; i++) {
		u8 diagonal = row[0];

		row[0] = (u8)i;
		for (u32 j = 1; j <= blen; j++) {
			u8 above = row[j];
			u8 change = (u8)(diagonal + (a[i - 1] != b[j - 1]));

			row[j] = DP_MIN(DP_MIN((u8)(above + 1), (u8)(row[j - 1] + 1)), change);
			diagonal = above;
		}
	}
	return row[blen];
}

void dp_ev_nearest_try(struct ev_nearest *n, const char *candidate)
{
	size_t len = strlen(candidate);
	u32 d;

	if (!len || len > NEAR_LEN || n->len > NEAR_LEN)
		return;
	d = distance(n->word, n->len, candidate, (u32)len);
	/* Farther than half of the word is no likeness. */
	if (d * 2 > DP_MAX(n->len, (u32)len) || (n->best[0] && d >= n->distance))
		return;
	n->distance = d;
	memcpy(n->best, candidate, len + 1);
}

void dp_ev_nearest_hint(struct dp_event_line *l, const struct ev_nearest *n, const char *prefix)
{
	if (n->best[0])
		dp_error_hint(l->err, "did you mean %s%s?", prefix, n->best);
}
