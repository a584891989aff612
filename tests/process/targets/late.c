/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A library whose initialiser waits for a line: programs with it come to their entry point when others want it. With
 * LATE_VFORK in the environment a child by vfork does so, for which the kernel makes it wait.
 */
#include <stdlib.h>
#include <unistd.h>

int late_work(int i)
{
	return i + 1;
}

__attribute__((constructor)) static void wait_for_a_line(void)
{
	pid_t child = getenv("LATE_VFORK") ? vfork() : 0;
	char c;

	while (!child && read(0, &c, 1) == 1 && c != '\n')
		;
	if (!child && getenv("LATE_VFORK"))
		_exit(0);
}
