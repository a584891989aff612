/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Texts that somebody else has chosen: names in files and processes, paths, what programs say. They are believed
 * nowhere: a name may hold what drives a terminal, or the end of a line.
 */
#ifndef DP_TEXT_H
#define DP_TEXT_H

#include "base/base.h"

/* The length of the UTF-8 sequence at s (at most n bytes), 0 when it is not valid; *rune: its
 * value. */
unsigned dp_utf8(const char *s, size_t n, u32 *rune);

/* What follows the last slash; all where there is none. */
static inline const char *dp_base_name(const char *path)
{
	const char *base = path;

	for (; *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

/* Control characters, of both blocks, and those that reorder or break lines. */
bool dp_unprintable(u32 rune);

/*
 * The text as it is, but for what could drive a terminal: that, and bytes that are no UTF-8, are shown as \x1b. The
 * characters of `keep` ("\n\t" for whole texts) stay. Up to four times as long, ends with a 0 byte; cut, never within
 * an escape, when there is no room. Returns the length.
 */
size_t dp_clean(char *to, size_t room, const char *s, size_t n, const char *keep);

/*
 * A unit of time behind a number: "ns", "us", "ms" or "s". Returns its nanoseconds, and its length in *len; 0: p begins
 * with none. What follows the unit is the caller's to judge.
 */
u64 dp_time_unit(const char *p, u32 *len);

/* Takes away what the kernel puts behind the name of a file that is gone. Whether it was there. */
bool dp_strip_deleted(char *path);

#endif
