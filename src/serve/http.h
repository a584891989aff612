/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the part that answers HTTP offers (base/part.h). */
#ifndef DP_HTTP_H
#define DP_HTTP_H

struct dp_http_part {
	void (*main)(int listener, int parent); /* the child's life, on a socket that listens; does not return */
	const char *(*version)(void);           /* of libmicrohttpd */
};

#endif
