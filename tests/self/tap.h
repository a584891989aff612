/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the tests of the self host share: TAP lines, and functions that the compiler leaves alone. */
#ifndef TESTS_SELF_TAP_H
#define TESTS_SELF_TAP_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_count, tap_failed;

#define PROBED __attribute__((noinline, noclone, used, noipa))

__attribute__((format(printf, 2, 3), unused)) static void ok(int good, const char *fmt, ...)
{
	va_list ap;

	tap_count++;
	tap_failed += !good;
	printf("%sok %d - ", good ? "" : "not ", tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed != 0;
}

#endif
