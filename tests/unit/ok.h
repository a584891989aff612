/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* One test in one line of TAP. */
#ifndef DP_TEST_OK_H
#define DP_TEST_OK_H

#include <stdbool.h>
#include <stdio.h>

static int tests, failures;

#define ok(cond, ...)                                              \
	do {                                                       \
		bool good = (cond);                                \
		printf("%sok %d - ", good ? "" : "not ", ++tests); \
		printf(__VA_ARGS__);                               \
		putchar('\n');                                     \
		failures += !good;                                 \
	} while (0)

#endif
