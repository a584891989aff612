/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Texts in the scratch memory of the machine: fetched, compared, matched (vm.h). Freestanding like all of the hit path.
 */
#include "hit/vm.h"
#include "program/work.h"

void dp_vm_comm(struct dp_hit *h)
{
	char *s = (char *)h->vm->scratch;

	dp_hit_comm(h, s);
	s[15] = 0;
}

bool dp_vm_text(struct dp_hit *h, u64 addr, u32 size)
{
	char *s = (char *)h->vm->scratch;
	int n = -EFAULT;

	if (size > 1) /* one byte is the NUL */
		n = dp_hit_read_str(h, s, addr, size);
	else if (!dp_hit_read(h, s, addr, 1))
		n = 1;
	if (n <= 0 || size < 2)
		s[0] = 0;
	if (n > 0)
		h->work -= dp_work_of_text((u32)n);
	return n > 0;
}

bool dp_vm_same(const u8 *s, const u8 *text, u32 len)
{
	for (u32 i = 0; i < len; i++)
		if (s[i] != text[i])
			return false;
	return !s[len];
}

/*
 * One character against [set] at *p; leaves *p behind it. A set that does not end counts as a
 * plain bracket.
 */
static bool in_set(const u8 *pat, u32 len, u32 *p, u8 c)
{
	u32 i = *p + 1;
	bool negated = i < len && (pat[i] == '!' || pat[i] == '^'), found = false;

	i += negated;
	for (u32 first = i; i < len && (pat[i] != ']' || i == first); i++) {
		u8 lo = pat[i], hi = lo;

		if (i + 2 < len && pat[i + 1] == '-' && pat[i + 2] != ']') {
			hi = pat[i + 2];
			i += 2;
		}
		found |= c >= lo && c <= hi;
	}
	if (i >= len) {
		*p += 1;
		return c == '[';
	}
	*p = i + 1;
	return found != negated;
}

/* Shell pattern with *, ?, [set] and backslash; goes back to the last star only, so it is bounded.
 */
bool dp_vm_match(const u8 *s, const u8 *pat, u32 len)
{
	u32 p = 0, i = 0, star = ~0u, star_i = 0;

	while (s[i]) {
		u32 q = p;
		bool ok = false;

		if (p < len && pat[p] == '*') {
			star = p++;
			star_i = i;
			continue;
		}
		if (p < len) {
			if (pat[p] == '[') {
				ok = in_set(pat, len, &q, s[i]);
			} else if (pat[p] == '\\' && p + 1 < len) {
				ok = pat[p + 1] == s[i];
				q = p + 2;
			} else {
				ok = pat[p] == '?' || pat[p] == s[i];
				q = p + 1;
			}
		}
		if (ok) {
			p = q;
			i++;
		} else if (star != ~0u) {
			p = star + 1;
			i = ++star_i;
		} else {
			return false;
		}
	}
	while (p < len && pat[p] == '*')
		p++;
	return p == len;
}
