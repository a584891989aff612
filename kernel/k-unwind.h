/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Call chains that go on from the kernel into the process's own code. */
#ifndef DP_KERNEL_UNWIND_H
#define DP_KERNEL_UNWIND_H

#include "abi/abi-device.h"
#include "base/error.h"

#define DP_K_STACKS 64 /* processes of one session */

struct dp_unwind;

struct dp_k_stacks {
	u64 bytes; /* of all tables */
	u32 n;
	struct {
		s32 pid;
		struct dp_unwind *tables;
	} v[DP_K_STACKS];
};

/* Copies the tables of one more process. Nobody is hit yet. -EINVAL, -EFAULT, E_ARM_NOMEM. */
int dp_k_stacks_add(struct dp_k_stacks **s, const struct dp_dev_unwind *d, struct dp_error *err);
/* Nobody is hit any more. */
void dp_k_stacks_free(struct dp_k_stacks *s);

/* At a hit: the frames of the task's user code, from regs on, at most n. Returns how many. */
u32 dp_k_stacks_walk(const struct dp_k_stacks *s, const struct pt_regs *regs, u64 *ips, u32 n);

#endif
