/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What <linux/kernel.h> brings along. */
#ifndef DP_COMPAT_LINUX_KERNEL_H
#define DP_COMPAT_LINUX_KERNEL_H

#include <errno.h>
#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/printk.h>
#include <linux/types.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#ifndef CONFIG_X86
#define CONFIG_X86 1
#define CONFIG_X86_64 1
#define CONFIG_KPROBES 1
#define CONFIG_KRETPROBES 1
#define CONFIG_OPTPROBES 1
#endif

#endif
