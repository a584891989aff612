/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Error numbers. */
#ifndef DP_COMPAT_LINUX_ERRNO_H
#define DP_COMPAT_LINUX_ERRNO_H

#include_next <linux/errno.h>

#endif
