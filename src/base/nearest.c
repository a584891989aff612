/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See nearest.h. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

#define NEAR_LEN 64 /* longer names are compared by their beginnings */

static char fold(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/*
 * Edits between two names, swapped neighbours counting once, upper and lower case being the same;
 * more than limit is reported as limit + 1.
 */
static unsigned int distance(const char *a, size_t n, const char *b, size_t k, unsigned int limit)
{
	unsigned int row[3][NEAR_LEN + 1];

	if (n > k + limit || k > n + limit)
		return limit + 1;
	for (size_t j = 0; j <= k; j++)
		row[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned int *cur = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
		unsigned int least = cur[0] = (unsigned int)i;

		for (size_t j = 1; j <= k; j++) {
			unsigned int v = up[j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));

			v = DP_MIN(v, DP_MIN(up[j], cur[j - 1]) + 1);
			if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]))
				v = DP_MIN(v, up2[j - 2] + 1);
			cur[j] = v;
			least = DP_MIN(least, v);
		}
		if (least > limit)
			return limit + 1;
	}
	return row[n % 3][k];
}

static bool same_start(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fold(a[i]) != fold(b[i]))
			return false;
	return true;
}

/* 0: not alike; else the smaller the nearer. */
static unsigned int score(const char *wanted, size_t n, const char *c, size_t k)
{
	unsigned int limit = n < 4 ? 1 : n < 9 ? 2 : 3, d;

	if (!n || !k || n > NEAR_LEN || k > NEAR_LEN)
		return 0;
	d = distance(wanted, n, c, k, limit);
	if (d <= limit)
		return 1 + 10 * d;
	if (n >= 3 && k > n && same_start(wanted, c, n))
		return 16 + (unsigned int)(k - n);
	if (n >= 5 && k >= 4 && k < n && n - k <= 6 && same_start(wanted, c, k))
		return 26 + (unsigned int)(n - k);
	return 0;
}

void dp_near_try(struct dp_near *near, const char *wanted, const char *candidate)
{
	size_t n = strcspn(wanted, "@"), k = strcspn(candidate, "@");
	unsigned int s = score(wanted, n, candidate, k);
	int at;

	if (!s || k >= sizeof(near->best[0]))
		return;
	for (int i = 0; i < near->n; i++)
		if (strlen(near->best[i]) == k && !memcmp(near->best[i], candidate, k))
			return;
	for (at = near->n; at > 0 && near->score[at - 1] > s; at--)
		;
	if (at >= (int)DP_ARRAY_SIZE(near->best))
		return;
	for (int i = DP_MIN(near->n, (int)DP_ARRAY_SIZE(near->best) - 1); i > at; i--) {
		memcpy(near->best[i], near->best[i - 1], sizeof(near->best[i]));
		near->score[i] = near->score[i - 1];
	}
	memcpy(near->best[at], candidate, k);
	near->best[at][k] = '\0';
	near->score[at] = s;
	if (near->n < (int)DP_ARRAY_SIZE(near->best))
		near->n++;
}

void dp_near_text(const struct dp_near *near, char *buf, size_t size)
{
	size_t used = 0;

	*buf = '\0';
	for (int i = 0; i < near->n; i++) {
		size_t need = strlen(near->best[i]) + (i ? 2 : 0);

		if (used + need >= size)
			break;
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "", near->best[i]);
	}
}

void dp_near_hint(const struct dp_near *near, const char *prefix, struct dp_error *err)
{
	if (near->n)
		dp_error_hint(err, "did you mean %s%s?", prefix, near->best[0]);
}
