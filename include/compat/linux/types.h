/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Kernel types in a process. */
#ifndef DP_COMPAT_LINUX_TYPES_H
#define DP_COMPAT_LINUX_TYPES_H

#include_next <linux/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef signed char s8;
typedef unsigned char u8;
typedef short s16;
typedef unsigned short u16;
typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;
typedef unsigned int gfp_t;

#endif
