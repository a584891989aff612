/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Code addresses in logs. */
#include <stdlib.h>
#include <string.h>

#include "log/symbol.h"

/* The symbol of the byte before, with the offset of this one. */
static bool after_call(dp_symbolize_fn *fn, void *arg, u64 addr, char *buf, size_t size)
{
	char *plus;

	if (!fn(arg, addr - 1, buf, size))
		return false;
	plus = strrchr(buf, '+'); /* the last: operators may have one in their names */
	if (plus)
		dp_format(plus, size - (size_t)(plus - buf), "+0x%llx", strtoull(plus + 1, NULL, 16) + 1);
	return true;
}

void dp_symbol_text(dp_symbolize_fn *fn, void *arg, u64 addr, bool behind_call, char *buf, size_t size)
{
	/* Code that signal handlers return to is called by nobody: it has no byte before. */
	if (fn && behind_call && after_call(fn, arg, addr, buf, size))
		return;
	if (!fn || !fn(arg, addr, buf, size))
		dp_format(buf, size, "0x%llx", (unsigned long long)addr);
}
