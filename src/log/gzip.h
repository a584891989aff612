/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Compressed output. */
#ifndef DP_LOG_GZIP_H
#define DP_LOG_GZIP_H

#include "log/line.h"

/* As gzip has it, or unchanged in a build without zlib. */
void dp_gzip_put(struct dp_line *l, const u8 *data, size_t n);

/* The version of zlib; NULL: this build has none. */
const char *dp_gzip_version(void);

#endif
