/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include <errno.h>
#include <sys/socket.h>

#include "base/socket.h"

bool dp_send_all(int fd, const void *p, size_t n)
{
	while (n) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return false;
		p = (const char *)p + w;
		n -= (size_t)w;
	}
	return true;
}
