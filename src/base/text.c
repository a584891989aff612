/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Texts that somebody else has chosen, on their way to a terminal. Kernel-clean. */
#include "base/text.h"

unsigned dp_utf8(const char *s, size_t n, u32 *rune)
{
	static const u32 smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const u8 *p = (const u8 *)s;
	unsigned len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;

	if (!len || len > n)
		return 0;
	*rune = len == 1 ? p[0] : p[0] & (0x7fu >> len);
	for (unsigned i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*rune = *rune << 6 | (p[i] & 0x3f);
	}
	if (*rune < smallest[len] || *rune > 0x10ffff || (*rune >= 0xd800 && *rune < 0xe000))
		return 0;
	return len;
}

bool dp_unprintable(u32 rune)
{
	return rune < 0x20 || (rune >= 0x7f && rune < 0xa0) || (rune >= 0x2028 && rune <= 0x202e) ||
	       (rune >= 0x2066 && rune <= 0x2069);
}

static bool is_kept(char c, const char *keep)
{
	while (*keep && *keep != c)
		keep++;
	return *keep;
}

size_t dp_clean(char *to, size_t room, const char *s, size_t n, const char *keep)
{
	size_t out = 0;

	for (size_t i = 0, end; i < n; i = end) {
		u32 rune = 0;
		unsigned len = dp_utf8(s + i, n - i, &rune);
		bool stays = len && (!dp_unprintable(rune) || (len == 1 && is_kept(s[i], keep)));

		end = i + (len ? len : 1);
		if (out + (stays ? len : 4 * (end - i)) >= room)
			break;
		for (; i < end; i++) {
			if (stays) {
				to[out++] = s[i];
				continue;
			}
			to[out++] = '\\';
			to[out++] = 'x';
			to[out++] = "0123456789abcdef"[(u8)s[i] >> 4];
			to[out++] = "0123456789abcdef"[s[i] & 15];
		}
	}
	if (room)
		to[out] = '\0';
	return out;
}

u64 dp_time_unit(const char *p, u32 *len)
{
	static const u32 ns[] = {['n'] = 1, ['u'] = 1000, ['m'] = 1000000};

	*len = 0;
	if (*p == 's') {
		*len = 1;
		return 1000000000;
	}
	if ((*p != 'n' && *p != 'u' && *p != 'm') || p[1] != 's')
		return 0;
	*len = 2;
	return ns[(u8)*p];
}

bool dp_strip_deleted(char *path)
{
	static const char gone[] = " (deleted)";
	size_t len = strlen(path), n = sizeof(gone) - 1;

	if (len <= n || strcmp(path + len - n, gone) != 0)
		return false;
	path[len - n] = '\0';
	return true;
}
