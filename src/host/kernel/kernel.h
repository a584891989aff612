/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel as a host, from the command's side: a session of /dev/dprobes with events that are
 * compiled here, verified and armed there, and rings that are mapped. Closing it, also by dying, takes
 * its probes out. doc/kernel-host.md
 */
#ifndef DP_KERNEL_HOST_H
#define DP_KERNEL_HOST_H

#include "host/host.h"

struct dp_kernel;

/* Of opt only ring_size, note and arg count. E_KERNEL_DEVICE, E_KERNEL_ABI. */
int dp_kernel_open(struct dp_kernel **k, const struct dp_session_options *opt, struct dp_error *err);
void dp_kernel_close(struct dp_kernel *k);

/* Whether a place is one of the kernel: kernel:FUNCTION, kmod(MODULE):FUNCTION, user(FILE):FUNCTION. */
bool dp_kernel_is_place(const struct dp_location *loc);

extern const struct dp_host_ops dp_kernel_ops; /* of a struct dp_kernel */

/* ---- questions that need no probes ---- */

/* What a probe at an address would be. A refusal is an error; why: what keeps it from being a jump. */
int dp_kernel_judge(struct dp_kernel *k, u64 addr, u64 *size, enum dp_outcome *how, enum dp_code *why,
		    struct dp_error *err);

struct dp_dev_row;
/* All probes in the kernel, newest last. The caller frees *rows. */
int dp_kernel_list(struct dp_kernel *k, struct dp_dev_row **rows, u32 *n, struct dp_error *err);

#endif
