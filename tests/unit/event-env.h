/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the tests of event lines have in common: symbols that a line may name, and errors shown. */
#ifndef TEST_EVENT_ENV_H
#define TEST_EVENT_ENV_H

#include <stdio.h>
#include <string.h>

#include "machine.h"

static int symbol(void *arg, const struct dp_location *probe, const char *name, u64 offset, u64 *addr,
		  struct dp_error *err)
{
	if (!name) {
		*addr = MEMORY_BASE + offset; /* as if the file were mapped there */
		return 0;
	}
	if (strcmp(name, "counter") && strcmp(name, "libc.so.6:environ") && strcmp(name, "redis-server:server") &&
	    strcmp(name, "ns::var") && strcmp(name, "a b"))
		return dp_fail(err, E_SYM_NONE, "`%s`", name);
	*addr = MEMORY_BASE + 0x20;
	return 0;
}

static const struct dp_event_env env = {symbol, NULL, NULL};

static void complain(const struct dp_error *err)
{
	printf("# %s at %d: %s [%s]\n", dp_error_info(err->code)->name, err->column, err->detail, err->hint);
}

#endif
