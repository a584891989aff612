/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Limits: the system's own header has them. */
#ifndef DP_COMPAT_LINUX_LIMITS_H
#define DP_COMPAT_LINUX_LIMITS_H

#include_next <linux/limits.h>

#endif
