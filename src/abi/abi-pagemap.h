/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The ioctl of /proc/PID/pagemap that tells which marked pages were written, and marks them anew (Linux 6.7). */
#ifndef DP_HIT_PAGEMAP_H
#define DP_HIT_PAGEMAP_H

#include "base/base.h"

#define DP_PAGEMAP_SCAN 0xc0606610u /* _IOWR('f', 16, struct dp_scan) */
#define DP_SCAN_CLOSES 1            /* what matches is marked again */
#define DP_SCAN_CHECKS 2            /* fail where the kernel would not open pages by itself */
#define DP_PAGE_WRITTEN 2           /* a page that was opened since */

struct dp_scan { /* struct pm_scan_arg */
	u64 size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, anyof, result;
};

struct dp_stretch { /* struct page_region */
	u64 start, end, categories;
};

_Static_assert(sizeof(struct dp_scan) == 0x60, "the call's number holds its size");

#endif
