/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The layout of the log rings (abi/abi-ring.h), for whoever makes them. Kernel-clean. */
#ifndef DP_RINGS_H
#define DP_RINGS_H

#include "abi/abi-ring.h"

/* Lay out an empty set of rings in fresh shared memory of dp_rings_size() bytes. */
u64 dp_rings_size(u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size);
void dp_rings_init(struct dp_rings *rings, u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size);

/*
 * Rings that are mapped here, as whoever made or opened them knows them. The header in the mapping is for the program
 * that logs: it can write over it, so a reader looks at this alone.
 */
struct dp_ring_map {
	struct dp_rings *at; /* NULL: there are none */
	u64 size;            /* of the mapping */
	struct dp_rings g;   /* the layout */
	u64 there;           /* where the process that logs has them mapped, */
	s32 pid;             /* and which it is; 0: not known, or no process */
};

/* Fill in map->g. False: such rings cannot be, or are larger than the mapping. */
bool dp_ring_map_lay_out(struct dp_ring_map *map, u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size);

static inline struct dp_ring *dp_ring_of(const struct dp_ring_map *map, u32 i)
{
	return (struct dp_ring *)((u8 *)map->at + map->g.rings_off + i * map->g.ring_stride);
}

static inline struct dp_counts *dp_ring_counts(const struct dp_ring_map *map, u32 i)
{
	return (struct dp_counts *)((u8 *)map->at + map->g.counts_off + i * map->g.counts_stride);
}

#endif
