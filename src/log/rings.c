/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Where everything stands in the memory of the log rings. Computed from four numbers, never read
 * back. Kernel-clean. */
#include "abi/abi-control.h"
#include "abi/abi-record.h"
#include "log/rings.h"

#define PAGE 4096u

static void layout(struct dp_rings *g, u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size)
{
	memset(g, 0, sizeof(*g));
	g->magic = DP_RING_MAGIC;
	g->abi = DP_ABI;
	g->ncpus = ncpus;
	g->nrings = nrings;
	g->nprobes = nprobes;
	g->ring_size = ring_size;
	g->counts_off = PAGE;
	g->counts_stride = DP_ALIGN_UP((u64)nprobes * sizeof(struct dp_counts), PAGE);
	g->rings_off = g->counts_off + nrings * g->counts_stride;
	g->ring_stride = PAGE + ring_size;
	g->size = g->rings_off + nrings * g->ring_stride;
}

u64 dp_rings_size(u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size)
{
	struct dp_rings g;

	layout(&g, ncpus, nrings, nprobes, ring_size);
	return g.size;
}

void dp_rings_init(struct dp_rings *rings, u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size)
{
	layout(rings, ncpus, nrings, nprobes, ring_size);
}

/* Limits under which no product of two numbers of a layout overflows. */
static bool layout_can_be(u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size)
{
	if (!nrings || nrings > 1u << 20 || ncpus > nrings || nprobes > 1u << 26)
		return false;
	return ring_size >= DP_RECORD_MAX && ring_size <= (u64)1 << 36 && !(ring_size & (ring_size - 1));
}

bool dp_ring_map_lay_out(struct dp_ring_map *map, u32 ncpus, u32 nrings, u32 nprobes, u64 ring_size)
{
	memset(&map->g, 0, sizeof(map->g));
	if (!layout_can_be(ncpus, nrings, nprobes, ring_size))
		return false;
	layout(&map->g, ncpus, nrings, nprobes, ring_size);
	return map->g.size <= map->size;
}
