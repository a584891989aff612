/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Puts lines of output together: numbers, quoted strings. Knows nothing of records. */
#include "log/digits.h"
#include "log/line.h"

void dp_line_free(struct dp_line *l)
{
	dp_free(l->text);
	memset(l, 0, sizeof(*l));
}

/* For n more bytes. */
bool dp_line_grow(struct dp_line *l, size_t n)
{
	size_t room = DP_MAX(l->room * 2, l->n + n + 512);
	char *text = dp_resize(l->text, l->room, room);

	if (!text) {
		l->broken = true;
		return false;
	}
	l->text = text;
	l->room = room;
	return true;
}

void dp_line_format(struct dp_line *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = dp_vformat(l->text + l->n, l->room - l->n, fmt, ap);
	va_end(ap);
	if ((size_t)n >= l->room - l->n) { /* cut: once more, with room for it and for a zero */
		if (!dp_line_reserve(l, (size_t)n + 1))
			return;
		va_start(ap, fmt);
		dp_vformat(l->text + l->n, l->room - l->n, fmt, ap);
		va_end(ap);
	}
	l->n += (size_t)n;
}

const char dp_digit_pairs[201] = "00010203040506070809"
				 "10111213141516171819"
				 "20212223242526272829"
				 "30313233343536373839"
				 "40414243444546474849"
				 "50515253545556575859"
				 "60616263646566676869"
				 "70717273747576777879"
				 "80818283848586878889"
				 "90919293949596979899";
const u64 dp_powers_of_ten[20] = {0,
				  10,
				  100,
				  1000,
				  10000,
				  100000,
				  1000000,
				  10000000,
				  100000000,
				  1000000000,
				  10000000000,
				  100000000000,
				  1000000000000,
				  10000000000000,
				  100000000000000,
				  1000000000000000,
				  10000000000000000,
				  100000000000000000,
				  1000000000000000000,
				  10000000000000000000u};

void dp_line_dec(struct dp_line *l, u64 v, int width, char fill)
{
	int n = (int)dp_count_digits(v), blanks = DP_MIN(width, 64) - n;

	if (!dp_line_reserve(l, 64 + DP_DIGITS_ROOM))
		return;
	for (; blanks > 0; blanks--)
		l->text[l->n++] = fill;
	dp_put_digits(l->text + l->n, v, (u32)n);
	l->n += (size_t)n;
}

void dp_line_column(struct dp_line *l, const char *s, int width)
{
	int n = (int)strlen(s), blanks = (width < 0 ? -width : width) - n;

	if (width >= 0)
		dp_line_bytes(l, s, (size_t)n);
	for (; blanks > 0; blanks--)
		dp_line_char(l, ' ');
	if (width < 0)
		dp_line_bytes(l, s, (size_t)n);
}

void dp_line_signed(struct dp_line *l, s64 v)
{
	if (dp_line_reserve(l, DP_DIGITS_ROOM))
		l->n = (size_t)(dp_put_signed(l->text + l->n, v) - l->text);
}

void dp_line_hex(struct dp_line *l, u64 v)
{
	if (dp_line_reserve(l, DP_DIGITS_ROOM))
		l->n = (size_t)(dp_put_hex(l->text + l->n, v) - l->text);
}

void dp_line_seconds(struct dp_line *l, u64 ns)
{
	char *to;

	if (!dp_line_reserve(l, 2 * DP_DIGITS_ROOM))
		return;
	to = dp_put_unsigned(l->text + l->n, ns / 1000000000);
	*to++ = '.';
	l->n = (size_t)(dp_put_digits(to, ns % 1000000000, 9) - l->text);
}

void dp_line_bytes_hex(struct dp_line *l, const void *p, size_t n)
{
	const u8 *from = p;

	if (!dp_line_reserve(l, 2 * n))
		return;
	for (size_t i = 0; i < n; i++) {
		l->text[l->n++] = "0123456789abcdef"[from[i] >> 4];
		l->text[l->n++] = "0123456789abcdef"[from[i] & 15];
	}
}

/* Octal escapes end after three digits, so that what follows cannot become part of them. */
static void octal(struct dp_line *l, u8 c)
{
	char buf[4] = {'\\', (char)('0' + (c >> 6)), (char)('0' + (c >> 3 & 7)), (char)('0' + (c & 7))};

	dp_line_bytes(l, buf, 4);
}

static char letter_escape(char c)
{
	switch (c) {
	case '\n':
		return 'n';
	case '\t':
		return 't';
	case '\r':
		return 'r';
	case '\\':
		return '\\';
	default:
		return 0;
	}
}

size_t dp_line_plain_run(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\'' && s[i] != '\\')
		i++;
	return i;
}

void dp_line_quoted(struct dp_line *l, const char *s, size_t n, char quote, dp_line_odd_fn *odd)
{
	dp_line_char(l, quote);
	for (size_t i = 0; i < n;) {
		size_t run = dp_line_plain_run(s + i, n - i);
		u32 rune = 0;

		dp_line_bytes(l, s + i, run);
		i += run;
		if (i == n)
			break;

		unsigned len = dp_utf8(s + i, n - i, &rune);
		char escape = s[i] == quote ? quote : letter_escape(s[i]);

		if (escape) {
			dp_line_char(l, '\\');
			dp_line_char(l, escape);
			i++;
		} else {
			if (!odd(l, s + i, len, rune))
				dp_line_bytes(l, s + i, len);
			i += len ? len : 1;
		}
	}
	dp_line_char(l, quote);
}

static bool octal_escapes(struct dp_line *l, const char *s, unsigned len, u32 rune)
{
	if (len && !dp_unprintable(rune))
		return false;
	for (unsigned i = 0; i < (len ? len : 1); i++)
		octal(l, (u8)s[i]);
	return true;
}

void dp_line_c_string(struct dp_line *l, const char *s, size_t n, char quote)
{
	dp_line_quoted(l, s, n, quote, octal_escapes);
}

void dp_line_clean(struct dp_line *l, const char *s, size_t n, const char *keep)
{
	if (dp_line_plain_run(s, n) == n) /* as most are */
		dp_line_bytes(l, s, n);
	else if (dp_line_reserve(l, 4 * n + 1))
		l->n += dp_clean(l->text + l->n, l->room - l->n, s, n, keep);
}

char *dp_line_clean_copy(const char *s, size_t n)
{
	struct dp_line clean = {0};

	dp_line_clean(&clean, s, n, "");
	dp_line_char(&clean, '\0');
	if (!clean.broken && clean.text)
		return clean.text;
	dp_line_free(&clean);
	return NULL;
}

#define ROW 16

void dp_line_rows(struct dp_line *l, const char *before, const void *bytes, size_t n)
{
	const u8 *p = bytes;

	for (size_t at = 0; at < n; at += ROW) {
		dp_line_str(l, before);
		dp_line_format(l, "%04zx ", at);
		for (size_t i = 0; i < ROW; i++) {
			if (i % 4 == 0)
				dp_line_char(l, ' ');
			if (at + i < n)
				dp_line_bytes_hex(l, p + at + i, 1);
			else
				dp_line_str(l, "  ");
		}
		dp_line_str(l, "  ");
		for (size_t i = 0; i < ROW && at + i < n; i++)
			dp_line_char(l, p[at + i] >= ' ' && p[at + i] < 0x7f ? (char)p[at + i] : '.');
		dp_line_char(l, '\n');
	}
}
