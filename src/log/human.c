/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See human.h. */
#include <stdio.h>

#include "log/human.h"

#define BAR 40 /* where no terminal is */
#define BAR_MIN 10
#define BAR_MAX 200

struct dp_human dp_human;

struct units {
	double step;
	int n;
	const char *const *names;
};

static const struct units durations = {1000, 4, (const char *const[]){"ns", "us", "ms", "s"}};
static const struct units sizes = {1024, 5, (const char *const[]){"B", "KiB", "MiB", "GiB", "TiB"}};
static const struct units counts = {1000, 5, (const char *const[]){"", "k", "M", "G", "T"}};

static void with_unit(const struct units *u, double v, char *buf, size_t size)
{
	double sign = v < 0 ? -1 : 1;
	int i = 0, digits;

	if (dp_human.raw_units) {
		snprintf(buf, size, "%.0f", v);
		return;
	}
	for (v *= sign; i + 1 < u->n && v >= (u->step > 1000 ? u->step : 999.5); i++)
		v /= u->step;
	digits = i == 0 || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
	if (v == (double)(u64)v)
		digits = u->step > 1000 ? 0 : digits; /* of bytes, whole numbers are exact */
	snprintf(buf, size, "%.*f%s", digits, sign * v, u->names[i]);
}

void dp_human_duration(double ns, char *buf, size_t size)
{
	with_unit(&durations, ns, buf, size);
}

void dp_human_count(double v, char *buf, size_t size)
{
	with_unit(&counts, v, buf, size);
}

void dp_human_number(enum dp_rpn_unit_kind unit, double v, char *buf, size_t size)
{
	if (unit == DP_RPN_UNIT_NS)
		with_unit(&durations, v, buf, size);
	else if (unit == DP_RPN_UNIT_BYTES)
		with_unit(&sizes, v, buf, size);
	else
		snprintf(buf, size, "%.0f", v);
}

u32 dp_human_bar(u32 before)
{
	if (!dp_human.columns)
		return BAR;
	return DP_MIN(DP_MAX(dp_human.columns, before + BAR_MIN) - before, (u32)BAR_MAX);
}
