/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Strings: the C library's. */
#ifndef DP_COMPAT_LINUX_STRING_H
#define DP_COMPAT_LINUX_STRING_H

#include <string.h>

#endif
