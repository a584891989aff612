/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What `dprobes load` left in the environment is taken out before the program runs, so that the
 * programs that it starts do not get the module as well.
 */
#include <stdlib.h>

__attribute__((constructor(101))) static void forget_preload(void)
{
	const char *old = getenv("DPROBES_OLD_PRELOAD");

	if (!getenv("DPROBES_MODULE"))
		return;
	if (old)
		setenv("LD_PRELOAD", old, 1);
	else
		unsetenv("LD_PRELOAD");
	unsetenv("DPROBES_OLD_PRELOAD");
	unsetenv("DPROBES_MODULE");
}
