/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Errors of all passes, each with the place in the source. */
#include <stdarg.h>
#include <stdio.h>

#include "lang/rpn/rpn-priv.h"

int dp_rpn_fail(struct dp_error *err, const struct rpn_line *line, enum dp_code code, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return dp_fail(err, code, "%.50s:%u: %s", line ? line->file : "", line ? line->line : 0, text);
}
