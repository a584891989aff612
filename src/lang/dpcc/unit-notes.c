/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Remarks of the compiler, for whoever wants them. */
#include <stdio.h>
#include <stdlib.h>

#include "lang/dpcc/dpcc-unit.h"

#define MUCH_BYTES (128ull << 20)

void dp_cc_unit_note(struct unit *u, const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	if (!u->c.opt->notes)
		return;
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	fprintf(u->c.opt->notes, "%s\n", dp_cc_one_line(&u->c, text));
	free(text);
}

void dp_cc_unit_tell_much(struct unit *u, struct dp_module *m)
{
	u64 bytes = u->c.opt->notes ? dp_module_debug_bytes(m) : 0;

	if (bytes >= MUCH_BYTES) /* a second or more */
		dp_cc_unit_note(u, "reading %llu MB of debug information of %s", (unsigned long long)(bytes >> 20),
				dp_module_base(m));
}
