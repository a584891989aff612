/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A program that knows nothing of probes; it also shows whether its children would get a module. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline, noipa)) int sum(int a, int b)
{
	return a + b;
}

__attribute__((noinline, noipa)) int work(int n)
{
	int s = 0;

	for (int i = 0; i < n; i++)
		s = sum(s, i);
	return s;
}

int main(void)
{
	printf("work %d, preload %d, arguments %d\n", work(3), getenv("LD_PRELOAD") != NULL,
	       getenv("DPROBES_MODULE_ARGS") != NULL);
	return 7;
}
