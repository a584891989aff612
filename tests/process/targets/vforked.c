/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A target whose only thread nobody can stop for some seconds: it waits for a child of vfork. Usage: vforked SECONDS */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 1;

	printf("ready\n");
	fflush(stdout);
	if (!vfork()) {
		sleep(seconds);
		_exit(0);
	}
	return 0;
}
