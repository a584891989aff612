/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Annotations of kernel source. */
#ifndef DP_COMPAT_LINUX_COMPILER_H
#define DP_COMPAT_LINUX_COMPILER_H

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define barrier() __asm__ volatile("" ::: "memory")
#define __user
#define __kernel
#define __kprobes
#define __maybe_unused __attribute__((unused))
#define __always_unused __attribute__((unused))
#ifndef noinline
#define noinline __attribute__((noinline))
#endif
#define asmlinkage

#endif
