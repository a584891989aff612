/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See gzip.h. */
#include "log/gzip.h"

#ifdef DP_HAS_ZLIB
#include <zlib.h>

#define GZIP (MAX_WBITS + 16) /* with the head and the sum of gzip */
#define CHUNK (1u << 30)      /* zlib counts input and output by unsigned ints */
#define MEMORY 8              /* as deflateInit() */

const char *dp_gzip_version(void)
{
	return zlibVersion();
}

void dp_gzip_put(struct dp_line *l, const u8 *data, size_t n)
{
	z_stream z = {0};
	int r = deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY);

	if (r != Z_OK || !dp_line_reserve(l, deflateBound(&z, n))) {
		deflateEnd(&z);
		l->broken = true;
		return;
	}
	z.next_in = (u8 *)data;
	for (int flush = Z_NO_FLUSH; r == Z_OK;) {
		if (!z.avail_in && flush == Z_NO_FLUSH) {
			size_t left = n - (size_t)(z.next_in - data);

			z.avail_in = (uInt)DP_MIN(left, (size_t)CHUNK);
			flush = left <= CHUNK ? Z_FINISH : Z_NO_FLUSH;
		}
		z.next_out = (u8 *)l->text + l->n;
		z.avail_out = (uInt)DP_MIN(l->room - l->n, (size_t)CHUNK);
		r = deflate(&z, flush);
		l->n = (size_t)((char *)z.next_out - l->text);
	}
	l->broken |= r != Z_STREAM_END;
	deflateEnd(&z);
}
#else
const char *dp_gzip_version(void)
{
	return NULL;
}

void dp_gzip_put(struct dp_line *l, const u8 *data, size_t n)
{
	dp_line_bytes(l, (const char *)data, n);
}
#endif
