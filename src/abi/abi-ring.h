/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The mapping that holds the rings of records and the counts of hits. The target and its children write it, the reader
 * drains it (log/reader.h); the layout of its parts is in log/rings.h.
 */
#ifndef DP_ABI_RING_H
#define DP_ABI_RING_H

#include "base/base.h"

#define DP_RING_MAGIC 0x31474e4952504455ull

/* Outcomes of one hit. hits = sum of these; faults and exceptions are counted beside it. */
enum dp_count {
	DP_COUNT_RECORDED,
	DP_COUNT_PASSED,   /* passed over: pass count, ignore, max hits */
	DP_COUNT_FILTERED, /* the program decided not to log */
	DP_COUNT_MISSED,   /* recursion, or no slot, or no free return-probe instance */
	DP_COUNT_LOST,     /* no room in the ring */
	DP_COUNT_FAULTS,
	DP_COUNT_EXCEPTIONS,
	DP_COUNT_OWN, /* watched memory was read by a program of ours: no hit */
	DP_NCOUNTS
};

struct dp_counts {
	u64 v[DP_NCOUNTS]; /* one cache line */
};

/* Each hit has one of these outcomes. */
static inline u64 dp_counts_hits(const struct dp_counts *c)
{
	return c->v[DP_COUNT_RECORDED] + c->v[DP_COUNT_PASSED] + c->v[DP_COUNT_FILTERED] + c->v[DP_COUNT_MISSED] +
	       c->v[DP_COUNT_LOST];
}

struct dp_ring {    /* one page, then the data */
	u64 head;   /* bytes ever written; written by producers only */
	u64 by, at; /* thread pointer and stamp of a hit that was known to be on this ring's processor */
	u64 pad0[5];
	u64 tail;        /* bytes ever consumed; written by the reader only */
	u64 next, epoch; /* of the reader: where tail goes once the log has reached that epoch (log/reader.h) */
	u64 pad1[5];
	u32 owner; /* locked rings: tid of the producer inside, 0 free */
	u32 pad2[15];
};

/*
 * The mapping: one page of struct dp_rings, then counts, then nrings rings. Rings 0..ncpus-1 belong
 * to one CPU each and are committed by restartable sequences; rings ncpus..nrings-1 are taken by
 * threads without one, for one commit, by compare-and-swap on owner.
 */
struct dp_rings {
	u64 magic;
	u32 abi;
	u32 ncpus;
	u32 nrings;
	u32 nprobes;       /* capacity of the counts */
	u64 ring_size;     /* bytes of data of one ring, power of two */
	u64 counts_off;    /* from the start of the mapping; [ring][probe] struct dp_counts */
	u64 counts_stride; /* bytes from one ring's counts to the next */
	u64 rings_off;
	u64 ring_stride;
	u64 size;      /* of the whole mapping */
	u32 owner_pid; /* the dprobes that reads; 0 none */
	u32 doorbell;  /* counts questions of threads that store to watched pages (copies); who reads waits on it */
	u32 answered;  /* counts the answers; they wait on it */
	u32 pad;
};

#endif
