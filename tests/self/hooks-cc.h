/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* An inline function with a hook, which the linker keeps once. */
#ifndef TESTS_SELF_HOOKS_CC_H
#define TESTS_SELF_HOOKS_CC_H

#include "dprobes/hooks.h"

USE_HOOK(shared, int *);

__attribute__((noinline)) inline int shared_inline(int x)
{
	HOOK(shared, &x);
	return x;
}

int other_file(int x);

#endif
