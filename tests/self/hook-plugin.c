/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A library with a hook of its own, passed in two places. */
#include "dprobes/hooks.h"

DECLARE_HOOK(plugged, int *);

int plugin_work(int x);

int plugin_work(int x)
{
	HOOK(plugged, &x);
	x *= 10;
	for (int i = 0; i < 3; i++)
		if (i == 1)
			HOOK(plugged, &x);
	return x > 15 ? x - 8 : x;
}
