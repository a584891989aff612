/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The same inline function in another file. */
#include "hooks-cc.h"

int other_file(int x)
{
	return shared_inline(x);
}
