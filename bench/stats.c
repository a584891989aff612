/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Medians and minima, and what the project expects of itself. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double bench_min(const double *v, size_t n)
{
	double least = n ? v[0] : 0;

	for (size_t i = 1; i < n; i++)
		least = v[i] < least ? v[i] : least;
	return least;
}

void bench_expected(void)
{
	printf("\n### Expected\n\n| %-66s | %14s | expected | |\n|---|---:|---|---|\n", "what", "measured");
}

void bench_expect(const char *what, double value, const char *unit, double limit, bool at_most, const char *why)
{
	bool met = at_most ? value <= limit : value >= limit;

	printf("| %-66s | %8.1f %-5s | %s %.0f | %s%s%s |\n", what, value, unit, at_most ? "at most" : "at least",
	       limit, met ? "met" : "NOT MET", !met && why ? ": " : "", !met && why ? why : "");
}
