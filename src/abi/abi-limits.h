/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Sizes and offsets that the kernel host shares with its entries (arch/x86_64/entry/k-entry.S). */
#ifndef DP_KERNEL_LIMITS_H
#define DP_KERNEL_LIMITS_H

#define DP_K_LANDINGS 32768             /* most calls under way with a probed return */
#define DP_K_LANDING_SIZE 16            /* bytes of each */
#define DP_K_POOL (6 * 1024 * 1024)     /* bytes for slots: about 100 for a probed address */
#define DP_K_PROGRAMS (2 * 1024 * 1024) /* bytes for programs as machine code: about 8 for each of bytecode */

/* Offsets that the entries use; k-hit.c and k-returns.c check them. */
#define DP_K_POINT_SINGLE 32
#define DP_K_KPROBE_FLAGS 20
#define DP_K_KPROBE_PRE 24
#define DP_K_RETURN_HANDLER 72
#define DP_K_CALL_ADDR 8
#define DP_K_CALL_HOLDER 32
#define DP_K_CALL_BACK 40
#define DP_K_CALL_RUNS 64
#define DP_K_HOLDER_PROBE 8
#define DP_K_HOLDER_SPARE 24
#define DP_K_DISABLED 2 /* DP_KPROBE_FLAG_DISABLED */
#define DP_K_OOL_LEA 5  /* bytes of the slot's "lea 8(%rsp),%rsp", to which a hit returns */

#endif
