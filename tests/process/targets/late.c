/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A library whose initialiser waits for a line: programs with it come to their entry point when others want it. */
#include <unistd.h>

int late_work(int i)
{
	return i + 1;
}

__attribute__((constructor)) static void wait_for_a_line(void)
{
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
}
