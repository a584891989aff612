/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A line of output that grows while it is put together and is written at once. When memory runs
 * out the line is marked broken and not written. Several times faster than stdio for short pieces.
 */
#ifndef DP_LINE_H
#define DP_LINE_H

#include "base/text.h"

struct dp_line {
	char *text;
	size_t n, room;
	bool broken;
};

void dp_line_free(struct dp_line *l);
static inline void dp_line_reset(struct dp_line *l)
{
	l->n = 0;
	l->broken = false;
}

bool dp_line_grow(struct dp_line *l, size_t n);

/* Make room for n more bytes; false when there is no memory. */
static inline bool dp_line_reserve(struct dp_line *l, size_t n)
{
	return l->room - l->n >= n || dp_line_grow(l, n);
}

static inline void dp_line_bytes(struct dp_line *l, const char *s, size_t n)
{
	if (!n || !dp_line_reserve(l, n))
		return;
	memcpy(l->text + l->n, s, n);
	l->n += n;
}

static inline void dp_line_str(struct dp_line *l, const char *s)
{
	dp_line_bytes(l, s, strlen(s));
}

static inline void dp_line_char(struct dp_line *l, char c)
{
	if (!dp_line_reserve(l, 1))
		return;
	l->text[l->n++] = c;
}

void dp_line_format(struct dp_line *l, const char *fmt, ...) DP_PRINTF(2, 3);
void dp_line_dec(struct dp_line *l, u64 v, int width, char fill); /* right-aligned */
void dp_line_column(struct dp_line *l, const char *s, int width); /* blanks on its right; width < 0: on its left */
void dp_line_signed(struct dp_line *l, s64 v);
void dp_line_hex(struct dp_line *l, u64 v);      /* with 0x */
void dp_line_seconds(struct dp_line *l, u64 ns); /* with nine digits behind the point */

/* With the escapes of C, in quotes. Valid UTF-8 stays; what could drive a terminal does not. */
void dp_line_c_string(struct dp_line *l, const char *s, size_t n, char quote);
/*
 * The same for any format with quotes and letters behind backslashes. `odd` writes what else cannot stand as it is, and
 * returns false where it can: len bytes at s that are the character rune, or a byte that belongs to none (len 0).
 */
typedef bool dp_line_odd_fn(struct dp_line *l, const char *s, unsigned len, u32 rune);
void dp_line_quoted(struct dp_line *l, const char *s, size_t n, char quote, dp_line_odd_fn *odd);

/* A text that somebody else has chosen, by dp_clean(). */
void dp_line_clean(struct dp_line *l, const char *s, size_t n, const char *keep);

/* The same as a text of its own; NULL: no memory. dp_free() it. */
char *dp_line_clean_copy(const char *s, size_t n);

/* Two hexadecimal digits for each byte. */
void dp_line_bytes_hex(struct dp_line *l, const void *p, size_t n);

/* The same in rows of 16, with their offsets and as characters; each row begins with a text. */
void dp_line_rows(struct dp_line *l, const char *before, const void *bytes, size_t n);

/* How many bytes from s on need no escape in any of the formats. */
size_t dp_line_plain_run(const char *s, size_t n);

#endif
