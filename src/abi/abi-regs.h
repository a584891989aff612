/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The registers at a hit, as the entries save them and programs read and change them. */
#ifndef DP_ABI_REGS_H
#define DP_ABI_REGS_H

#include "base/base.h"

/*
 * Registers at the hit, in the order of the kernel's struct pt_regs. All general ones can be
 * changed by a program; changing ip or sp makes the hit leave through the slow path.
 */
struct dp_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};

/* Registers at a hit of a watchpoint; what stands behind them can be read like a register. */
struct dp_watch_regs {
	struct dp_regs regs;
	u64 addr;     /* of the watched memory */
	u64 old, now; /* what stood there at the last hit, and what stands there; zero-extended */
};

#endif
