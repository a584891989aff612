/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What all who talk through sockets need. */
#ifndef DP_SOCKET_H
#define DP_SOCKET_H

#include "base/base.h"

/* All n bytes, however long the other end takes. False: it is gone (no signal is raised), or the time is up. */
bool dp_send_all(int fd, const void *p, size_t n);

#endif
