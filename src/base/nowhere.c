/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See nowhere.h. */
#include <fcntl.h>

#include "base/nowhere.h"

int dp_open_nowhere(void)
{
	int fd = open("/dev/null", O_RDWR);

	return fd < 0 ? open("/", O_PATH) : fd; /* reading and writing fail */
}
