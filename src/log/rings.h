/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The layout of the log rings (hit/hit.h), for whoever makes them. Kernel-clean. */
#ifndef DP_RINGS_H
#define DP_RINGS_H

#include "hit/hit.h"

/* Lay out an empty set of rings in fresh shared memory of dp_rings_size() bytes. */
u64 dp_rings_size(u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size);
void dp_rings_init(struct dp_rings *rings, u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size);

#endif
